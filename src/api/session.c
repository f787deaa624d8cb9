/* session.c - the public interface of training, on top of train/session.h. */
#include "api/options.h"
#include "score/metrics.h"
#include "train/run.h"
#include "train/session.h"
#include "trident_table.h"

tri_status tri_session_open(int n_options, const char *const *options, tri_session **out) {
    return tri_session_open_tables(NULL, n_options, options, out);
}

tri_status tri_session_open_tables(const tri_tables *tables, int n_options, const char *const *options,
                                   tri_session **out) {
    return tri__done(tri__session_join(NULL, n_options, options, tables, 0, out));
}

tri_status tri_session_join(tri_world *world, int n_options, const char *const *options, tri_session **out) {
    return tri__done(tri__session_join(world, n_options, options, NULL, 0, out));
}

tri_status tri__session_join(tri_world *world, int n_options, const char *const *options, const tri_tables *tables,
                             size_t guard, tri_session **out) {
    TRI_OWNED(tri__free_at) tri_settings *settings = malloc(sizeof *settings);
    *out = NULL;
    if (!settings) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_status status = tri__api_options(settings, "train", n_options, options);
    settings->guard = guard, settings->tables = tables;
    if (status == TRI_OK && world) status = tri__settings_launched(settings, tri_world_size(world), world->segment.n);
    if (status == TRI_OK) status = tri__run_adopt(settings);
    if (status == TRI_OK) status = tri__session_open(settings, world, NULL, NULL, out);
    if (status == TRI_OK) tri__session_own(*out, settings);
    else tri__settings_free(settings);
    return status;
}

tri_status tri_evaluate(tri_session *session, tri_result *out) {
    TRI_OWNED(tri__scores_free) tri_scores scores = {0};
    TRI_OWNED(tri__free_at) float *probs = NULL;
    TRI_TRY(tri__session_scores(session, &scores, session->lead ? &probs : NULL));
    tri_status status = session->lead ? tri__session_decide(session, probs) : TRI_OK;
    *out = (tri_result){.rows = scores.rows, .loss = scores.loss, .log_loss = scores.log_loss,
                        .accuracy = scores.accuracy, .f1_macro = scores.f1_macro, .pr_auc = scores.pr_auc,
                        .average_precision = scores.average_precision, .roc_auc = scores.roc_auc};
    return tri__done(status);
}

const char *tri_positive_label(const tri_session *session) {
    return session->positive < 0 ? NULL : session->preprocess->label[session->positive];
}

tri_status tri_save(tri_session *session, char *folder, size_t size) {
    char path[TRI_PATH_MAX];
    TRI_TRY(tri__session_save(session, path));
    if (folder && (size_t)snprintf(folder, size, "%s", path) >= size)
        return tri__fail(TRI_USAGE, "the checkpoint is saved, but its path does not fit %zu bytes: %s", size, path);
    return tri__done(TRI_OK);
}
