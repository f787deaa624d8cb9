/* loop.c - a training loop of one's own with libtrident. Takes the options of `trident train`, prints one loss a step,
 * and gives the same losses:   loop --config run.json --data-path data --models-dir models --output-dir out */
#include <trident.h>

#include <stdio.h>

static int failed(tri_status status) {
    if (status != TRI_OK) fprintf(stderr, "loop: %s\n", tri_error());
    return status != TRI_OK;
}

int main(int argc, char **argv) {
    tri_session *session;
    tri_status status = tri_session_open(argc - 1, (const char *const *)argv + 1, &session);
    if (failed(status)) return status;
    for (int more = 1; more && status == TRI_OK;) {
        double loss;
        status = tri_next_batch(session, &more);
        if (status != TRI_OK || !more) break;
        status = tri_forward_backward(session, &loss);
        if (status == TRI_OK) status = tri_update(session);
        if (status == TRI_OK) printf("%.9g\n", loss);
    }
    tri_result result;
    if (status == TRI_OK && tri_evaluate(session, &result) == TRI_OK)
        fprintf(stderr, "validation loss %.6f, accuracy %.4f\n", result.loss, result.accuracy);
    char folder[4096];
    if (status == TRI_OK) status = tri_save(session, folder, sizeof folder);
    if (status == TRI_OK) fprintf(stderr, "saved %s\n", folder);
    failed(status);
    tri_session_close(session);
    return status;
}
