/* test_error.c - tri_error() after every public function: empty if the call succeeded, regardless of earlier failures
 * and of failures it recovered from; kept by cleanup after a failure. */
#include "tests/lib/test.h"
#include "tests/lib/session_data.h"

#include <stdatomic.h>

static char called[64][40]; /* functions that were looked at */
static int n_called;
static atomic_int dirty;

/* A failure, so that there is a text. */
static void break_text(void) {
    int done;
    if (tri_test(NULL, 0, &done) == TRI_OK || !*tri_error()) dirty++;
}

/* CALL(barrier, group): tri_barrier(group) succeeds after a failure and leaves no text. Rank threads use it too: no
 * assertions. */
#define CALL(name, ...) (break_text(), clean("tri_" #name, tri_##name(__VA_ARGS__)))
static int clean(const char *name, tri_status status) {
    int known = 0, good = status == TRI_OK && !*tri_error();
    if (!good) print_error("%s: status %d, text \"%s\"\n", name, (int)status, tri_error()), dirty++;
    for (int i = 0; i < n_called; i++) known |= !strcmp(called[i], name);
    if (!known && n_called < 64) snprintf(called[n_called++], sizeof called[0], "%s", name);
    return good;
}

/* One of two ranks; all calls of the first are looked at, the other one answers. */
static tri_status rank_main(tri_world *world, void *argument) {
    (void)argument;
    tri_group *all = tri_group_world(world), *group;
    int me = tri_world_rank(world), done = 0, ranks[] = {0, 1};
    double one = 1, two[2] = {1, 2}, out[2];
    tri_request request;
    void *memory = NULL;
    if (me) { /* the same operations, without the record */
        TRI_TRY(tri_group_make(world, 2, ranks, &group));
        TRI_TRY(tri_recv(all, out, 1, TRI_F64, 0, 7));
        TRI_TRY(tri_send(all, &one, 1, TRI_F64, 0, 7));
        TRI_TRY(tri_broadcast(all, out, 1, TRI_F64, 0));
        TRI_TRY(tri_all_reduce(all, &one, out, 1, TRI_F64, TRI_SUM));
        TRI_TRY(tri_reduce(all, &one, out, 1, TRI_F64, TRI_SUM, 0));
        TRI_TRY(tri_all_gather(all, &one, out, 1, NULL, TRI_F64));
        TRI_TRY(tri_gather(all, &one, NULL, 1, NULL, TRI_F64, 0));
        TRI_TRY(tri_scatter(all, NULL, out, 1, NULL, TRI_F64, 0));
        TRI_TRY(tri_reduce_scatter(all, two, out, 1, NULL, TRI_F64, TRI_SUM));
        TRI_TRY(tri_all_to_all(all, two, out, 1, TRI_F64));
        for (int i = 0; i < 3; i++) TRI_TRY(tri_barrier(all));
        return TRI_OK;
    }
    CALL(group_make, world, 2, ranks, &group);
    CALL(heap_alloc, world, 64, &memory);
    tri_heap_free(world, memory);
    CALL(send, all, &one, 1, TRI_F64, 1, 7);
    CALL(recv, all, out, 1, TRI_F64, 1, 7);
    CALL(broadcast, all, two, 1, TRI_F64, 0);
    CALL(all_reduce, all, &one, out, 1, TRI_F64, TRI_SUM);
    CALL(reduce, all, &one, out, 1, TRI_F64, TRI_SUM, 0);
    CALL(all_gather, all, &one, out, 1, NULL, TRI_F64);
    CALL(gather, all, &one, out, 1, NULL, TRI_F64, 0);
    CALL(scatter, all, two, out, 1, NULL, TRI_F64, 0);
    CALL(reduce_scatter, all, two, out, 1, NULL, TRI_F64, TRI_SUM);
    CALL(all_to_all, all, two, out, 1, TRI_F64);
    CALL(barrier, all);
    tri_collective what = {.kind = TRI_BARRIER};
    CALL(post, all, &what, &request);
    CALL(wait, world, request);
    TRI_TRY(tri_post(all, &what, &request));
    while (!done && CALL(test, world, request, &done)) continue;
    return TRI_OK;
}

static char *no_launcher(const char *name) {
    (void)name;
    return NULL;
}

static tri_status session_rank(tri_world *world, void *argument) {
    (void)argument;
    char config[128], data[128], models[128], out[128];
    snprintf(config, sizeof config, "--config=%s/config.json", root);
    snprintf(data, sizeof data, "--data-path=%s", root);
    snprintf(models, sizeof models, "--models-dir=%s", root);
    snprintf(out, sizeof out, "--output-dir=%s/two", root);
    const char *options[] = {config, data, models, out, "--threads=1", "--max-steps=1"};
    tri_session *session;
    if (tri_world_rank(world) == 0) CALL(session_join, world, 6, options, &session);
    else TRI_TRY(tri_session_join(world, 6, options, &session));
    tri_session_close(session);
    return TRI_OK;
}

static void use_plan(void) {
    char config[128], models[128], path[128], *text;
    snprintf(config, sizeof config, "--config=%s/config.json", root);
    snprintf(models, sizeof models, "--models-dir=%s", root);
    snprintf(path, sizeof path, "%s/program.txt", root);
    const char *options[] = {config, models, "--world-size=1"}, *paths[] = {path};
    tri_plan *plan;
    tri_rank_facts facts;
    CALL(plan_open, 3, options, &plan);
    assert_int_equal(tri_plan_size(plan), 1);
    CALL(plan_rank, plan, 0, &facts);
    assert_true(facts.bytes > 0 && facts.instructions > 0 && facts.flops > 0);
    CALL(plan_check, plan);
    CALL(plan_print, plan, 0, TRI_TRAIN, &text);
    OK(tri__file_write(path, text, strlen(text)));
    free(text);
    CALL(check, 1, paths);
    assert_int_equal(tri_plan_print(plan, 1, TRI_TRAIN, &text), TRI_USAGE);
    assert_null(text);
    tri_plan_close(plan);
    assert_int_equal(tri_plan_open(1, options, &plan), TRI_NOINPUT); /* no tokenizer there */
    assert_null(plan);
}

static void use_session(void) {
    char config[128], data[128], models[128], out[128], folder[TRI_PATH_MAX];
    snprintf(config, sizeof config, "--config=%s/config.json", root);
    snprintf(data, sizeof data, "--data-path=%s", root);
    snprintf(models, sizeof models, "--models-dir=%s", root);
    snprintf(out, sizeof out, "--output-dir=%s/one", root);
    const char *options[] = {config, data, models, out, "--threads=1", "--max-steps=2"};
    tri_session *session;
    tri_step step;
    tri_result result;
    double loss;
    int more;
    CALL(session_open, 6, options, &session); /* looks for a store, for a checkpoint, for weights: there are none */
    CALL(next_batch, session, &more);
    CALL(forward_backward, session, &loss);
    CALL(update, session);
    CALL(step_metrics, session, &step);
    CALL(evaluate, session, &result);
    CALL(save, session, folder, sizeof folder);
    assert_int_equal(tri_update(session), TRI_USAGE);
    char before[256];
    snprintf(before, sizeof before, "%s", tri_error());
    tri_session_close(session);
    assert_string_equal(tri_error(), before); /* the failure's words, for whoever closes first and asks then */
    CALL(session_open, 6, options, &session); /* now there are */
    tri_session_close(session);
    const char *bad[] = {config, data, models, out, "--max-steps=2", "--lr=0.5"};
    assert_int_equal(tri_session_open(6, bad, &session), TRI_USAGE); /* fails late: everything is closed on the way */
    assert_non_null(strstr(tri_error(), "lr = 0.002 (now 0.5)"));
}

/* The run of use_session. */
static void use_model(void) {
    char checkpoint[128];
    float probs[16];
    snprintf(checkpoint, sizeof checkpoint, "--checkpoint=%s/one", root);
    const char *options[] = {checkpoint, "--threads=1"};
    const tri_row missing = {0};
    tri_model *model;
    CALL(model_open, 2, options, &model);
    assert_in_range(tri_model_classes(model), 2, 16);
    CALL(model_predict, model, &missing, 1, probs);
    tri_model_close(model);
}

/* Every function of a public header that returns a status was called above; returns how many there are. */
static int look_at_header(const char *path) {
    static const char before[] = "TRI_API tri_status ";
    char *header;
    size_t size;
    int n = 0;
    OK(tri__file_read(path, 1 << 20, &header, &size));
    for (const char *at = strstr(header, before); at; at = strstr(at + 1, before), n++) {
        char name[40];
        int seen = 0;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at + strlen(before), "("), at + strlen(before));
        for (int i = 0; i < n_called; i++) seen |= !strcmp(called[i], name);
        if (!seen) fail_msg("%s was not looked at", name);
    }
    free(header);
    return n;
}

TEST_IN(a_call_that_succeeds_leaves_no_text, make_data, remove_data) {
    tri_ranks how = {.n = 2}, alone = {0};
    tri_world *world;
    CALL(ranks_run, &how, rank_main, NULL);
    CALL(ranks_run, &how, session_rank, NULL);
    CALL(world_join, &alone, no_launcher, &world);
    break_text();
    tri_world_close(world);
    assert_true(*tri_error());
    use_plan();
    use_session();
    use_model();
    assert_int_equal(dirty, 0);
    int n = look_at_header("include/trident.h") + look_at_header("include/trident_comm.h");
    assert_int_equal(n, n_called);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
