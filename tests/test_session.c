/* test_session.c - training sessions on a small generated data set: the same bits for any thread count, the same losses for
 * any number of microbatches, resume, nothing allocated after the first step, misuse and bad numbers. */
#include "allocations.h"
#include "checkpoint/manifest.h"
#include "session_data.h"

#include <math.h>

static int step(tri_session *session, double *loss) {
    int more;
    OK(take_step(session, loss, &more));
    return more;
}

static void digest(const tri_session *s, char hex[static 33]) { OK(session_digest(s, hex)); }

static void threads_change_no_bit(void **state) {
    (void)state;
    char first[33], other[33];
    static const char *const threads[] = {"--threads=1", "--threads=2", "--threads=3", "--threads=2"};
    for (int i = 0; i < 4; i++) {
        tri_session *s = open_session("threads", OPTIONS("--resume=never", "--max-steps=12", threads[i]));
        double loss = 0;
        while (step(s, &loss)) continue;
        digest(s, i ? other : first);
        if (i) assert_string_equal(first, other);
        tri_session_close(s);
    }
}

/* DESIGN 3: any other split, |dloss| <= 2e-6 * max(loss, 0.1) over 100 steps, dropout on. */
static void microbatches_give_the_same_losses(void **state) {
    (void)state;
    enum { STEPS = 100 };
    static double want[STEPS];
    static const char *const parts[] = {"--num-microbatches=1", "--num-microbatches=2", "--num-microbatches=5", "--num-microbatches=12"};
    double worst = 0;
    for (int i = 0; i < 4; i++) {
        tri_session *s = open_session("parts", OPTIONS("--resume=never", "--epochs=12", "--max-steps=100", parts[i]));
        for (int k = 0; k < STEPS; k++) {
            double loss = 0;
            assert_true(step(s, &loss));
            if (i == 0) want[k] = loss;
            double limit = 2e-6 * (want[k] > 0.1 ? want[k] : 0.1), off = fabs(loss - want[k]);
            if (off > worst) worst = off;
            if (off > limit) fail_msg("%s: loss of step %d is %.9g instead of %.9g", parts[i], k + 1, loss, want[k]);
        }
        tri_session_close(s);
    }
    print_message("    losses differ by at most %.2g\n", worst);
    assert_true(want[STEPS - 1] < 0.8 * want[0]); /* and it learns */
}

static void a_resumed_run_is_the_same_run(void **state) {
    (void)state;
    char whole[33], resumed[33], folder[TRI_PATH_MAX];
    double loss = 0, last_whole = 0, last_resumed = 0;
    tri_session *s = open_session("whole", OPTIONS("--resume=never", "--epochs=3"));
    while (step(s, &loss)) last_whole = loss;
    assert_int_equal(s->at.step, 27);
    digest(s, whole);
    tri_session_close(s);
    for (int cut = 1; cut < 27; cut += 8) { /* inside an epoch and at its end (9) */
        s = open_session("cut", OPTIONS("--resume=never", "--epochs=3"));
        for (int k = 0; k < cut; k++) assert_true(step(s, &loss));
        OK(tri_save(s, folder, sizeof folder));
        tri_session_close(s);
        s = open_session("cut", OPTIONS("--epochs=3"));
        assert_int_equal(s->at.step, cut);
        while (step(s, &loss)) last_resumed = loss;
        digest(s, resumed);
        assert_string_equal(whole, resumed);
        assert_true(last_resumed == last_whole);
        tri_session_close(s);
    }
    tri_session *refused = NULL;
    assert_int_equal(join_status(NULL, &refused, "cut", OPTIONS("--epochs=3", "--lr=0.5")), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "lr"));
}

/* A manifest whose state lacks what a run goes on from, or has it as something else, is refused by the field's name; it was 0 once. */
static void every_field_of_the_state_counts(void **state) {
    (void)state;
    static const char *const fields[] = {"began", "samples", "rows", "global_batch", "replica_batch", "data",
                                         "loss_sum", "weight_sum", "best_step", "seed", "build"};
    char folder[TRI_PATH_MAX];
    double loss = 0;
    tri_session *s = open_session("fields", OPTIONS("--resume=never", "--epochs=3"));
    assert_true(step(s, &loss));
    OK(tri_save(s, folder, sizeof folder));
    tri_session_close(s);
    json_t *manifest;
    OK(tri__manifest_load(folder, &manifest));
    json_t *facts = json_object_get(manifest, "state");
    for (size_t i = 0; i < 2 * sizeof fields / sizeof *fields; i++) {
        const char *name = fields[i / 2];
        json_t *was = json_incref(json_object_get(facts, name));
        assert_non_null(was);
        if (i % 2) json_object_set_new(facts, name, json_array());
        else json_object_del(facts, name);
        OK(tri__manifest_save(folder, manifest));
        tri_session *refused = NULL;
        assert_int_equal(join_status(NULL, &refused, "fields", OPTIONS("--epochs=3")), TRI_DATA);
        if (!strstr(tri_error(), name)) fail_msg("%s: %s", name, tri_error());
        json_object_set_new(facts, name, was);
    }
    OK(tri__manifest_save(folder, manifest));
    json_decref(manifest);
    s = open_session("fields", OPTIONS("--epochs=3"));
    assert_int_equal(s->at.step, 1);
    tri_session_close(s);
}

static void nothing_allocates_after_the_first_step(void **state) {
    (void)state;
    double loss = 0;
    tri_session *s = open_session("count", OPTIONS("--resume=never", "--threads=2", "--num-microbatches=3"));
    assert_true(step(s, &loss));
    long before = allocations;
    for (int k = 0; k < 30; k++) assert_true(step(s, &loss));
    long after = allocations;
    print_message("    %ld allocations in 30 steps\n", after - before);
    assert_int_equal(after, before);
    tri_session_close(s);
}

static void misuse_is_refused(void **state) {
    (void)state;
    double loss;
    tri_session *s = open_session("misuse", OPTIONS("--resume=never"));
    assert_int_equal(tri_forward_backward(s, &loss), TRI_USAGE);
    assert_int_equal(tri_update(s), TRI_USAGE);
    tri_session *second = NULL;
    assert_int_equal(join_status(NULL, &second, "misuse", OPTIONS("--resume=never")), TRI_BUSY); /* waits 5 s: the folder is taken */
    tri_session_close(s);
    tri_session_close(NULL);
}

static void bad_numbers_stop_the_run(void **state) {
    (void)state;
    tri_session *s = open_session("bad", OPTIONS("--resume=never"));
    double loss = 0;
    int more;
    assert_true(step(s, &loss));
    const tri_param *param = tri__model_find(&s->engine.model, "secondary.encoder.layer.0.output.dense.weight");
    float *w = s->engine.weights[param - s->engine.model.param].data; /* [16, 24] */
    float kept = w[5];
    w[5] = INFINITY;
    OK(tri_next_batch(s, &more));
    assert_int_equal(tri_forward_backward(s, &loss), TRI_NOTFINITE);
    assert_non_null(strstr(tri_error(), "step 2"));
    assert_non_null(strstr(tri_error(), "secondary.layer.0"));
    w[5] = kept; /* nothing else was touched: the step can be taken again */
    OK(tri_forward_backward(s, &loss));
    OK(tri_update(s));
    tri_session_close(s);
}

static void evaluation_scores_the_validation_file(void **state) {
    (void)state;
    tri_result result;
    double loss = 0;
    tri_session *s = open_session("eval", OPTIONS("--resume=never", "--epochs=30"));
    while (step(s, &loss)) continue;
    OK(tri_evaluate(s, &result));
    print_message("    accuracy %.3f, loss %.3f, pr_auc %.3f\n", result.accuracy, result.loss, result.pr_auc);
    assert_int_equal(result.rows, 30);
    assert_true(result.accuracy > 0.8 && result.loss > 0 && result.pr_auc > 0.8);
    tri_session_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(microbatches_give_the_same_losses),
        cmocka_unit_test(a_resumed_run_is_the_same_run),
        cmocka_unit_test(every_field_of_the_state_counts),
        cmocka_unit_test(nothing_allocates_after_the_first_step),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(bad_numbers_stop_the_run),
        cmocka_unit_test(evaluation_scores_the_validation_file),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
