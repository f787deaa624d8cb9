/* test_session.c - training sessions on a small generated data set: the same bits for any thread count, the same losses
 * for any number of microbatches, resume, nothing allocated after the first step, misuse and bad numbers, the positive
 * label. */
#include "tests/lib/test.h"
#include "tests/lib/allocations.h"
#include "checkpoint/checkpoint.h"
#include "tests/lib/session_data.h"

#include "data/dataset/store.h"
#include "score/metrics.h"
#include "data/dataset/training_rows.h"
#include "serve/serve.h"
#include "train/events.h"

#include <math.h>

static int step(tri_session *session, double *loss) {
    int more;
    OK(take_step(session, loss, &more));
    return more;
}

static void digest(const tri_session *s, char hex[static 33]) { OK(session_digest(s, hex)); }

TEST(threads_change_no_bit) {
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
TEST(microbatches_give_the_same_losses) {
    enum { STEPS = 100 };
    static double want[STEPS];
    static const char *const parts[] = {"--num-microbatches=1", "--num-microbatches=2", "--num-microbatches=5",
                                        "--num-microbatches=12"};
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

TEST(a_resumed_run_is_the_same_run) {
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

/* A manifest whose state lacks what a run goes on from, or has it as something else, is refused by the field's name; it
 * was 0 once. */
TEST(every_field_of_the_state_counts) {
    static const char *const fields[] = {"began", "samples", "rows", "global_batch", "replica_batch", "data",
                                         "loss_sum", "weight_sum", "best_step", "seed", "build"};
    char folder[TRI_PATH_MAX];
    double loss = 0;
    tri_session *s = open_session("fields", OPTIONS("--resume=never", "--epochs=3"));
    assert_true(step(s, &loss));
    OK(tri_save(s, folder, sizeof folder));
    tri_session_close(s);
    tri_json *manifest;
    OK(tri__manifest_load(folder, &manifest));
    tri_json *facts = tri__json_get(manifest, "state");
    for (size_t i = 0; i < 2 * sizeof fields / sizeof *fields; i++) {
        const char *name = fields[i / 2];
        tri_json *was = tri__json_incref(tri__json_get(facts, name));
        assert_non_null(was);
        if (i % 2) tri__json_set_new(facts, name, tri__json_array());
        else tri__json_del(facts, name);
        OK(tri__manifest_save(folder, manifest));
        tri_session *refused = NULL;
        assert_int_equal(join_status(NULL, &refused, "fields", OPTIONS("--epochs=3")), TRI_DATA);
        if (!strstr(tri_error(), name)) fail_msg("%s: %s", name, tri_error());
        tri__json_set_new(facts, name, was);
    }
    OK(tri__manifest_save(folder, manifest));
    tri__json_decref(manifest);
    s = open_session("fields", OPTIONS("--epochs=3"));
    assert_int_equal(s->at.step, 1);
    tri_session_close(s);
}

TEST(nothing_allocates_after_the_first_step) {
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

TEST(misuse_is_refused) {
    double loss;
    tri_session *s = open_session("misuse", OPTIONS("--resume=never"));
    assert_int_equal(tri_forward_backward(s, &loss), TRI_USAGE);
    assert_int_equal(tri_update(s), TRI_USAGE);
    tri_session *second = NULL;
    assert_int_equal(join_status(NULL, &second, "misuse", OPTIONS("--resume=never")),
                     TRI_BUSY); /* waits 5 s: the folder is taken */
    tri_session_close(s);
    tri_session_close(NULL);
}

TEST(bad_numbers_stop_the_run) {
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

/* eval and predict name the first tensor; where only what it computes is not finite, the row. */
TEST(weights_that_are_not_finite_predict_nothing) {
    static const struct {
        float value;
        const char *words;
    } cases[] = {{NAN, "weight secondary.encoder.layer.0.output.dense.weight is not finite in 1 of 384 numbers"},
                 {INFINITY, "weight secondary.encoder.layer.0.output.dense.weight is not finite"},
                 {3e38f, "in row 1 of the data is not finite"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_session *s = open_session("nan", OPTIONS("--resume=never"));
        char checkpoint[TRI_PATH_MAX], data[128];
        const tri_param *param = tri__model_find(&s->engine.model, "secondary.encoder.layer.0.output.dense.weight");
        float *w = s->engine.weights[param - s->engine.model.param].data; /* [16, 24] */
        for (int k = 0; k < (i == 2 ? 16 * 24 : 1); k++)
            w[i == 2 ? k : 5] = i == 2 && k % 2 ? -cases[i].value : cases[i].value;
        OK(tri_save(s, checkpoint, sizeof checkpoint));
        tri_session_close(s);
        tri_settings settings;
        tri_predictions predictions;
        tri_evaluation made;
        tri__settings_init(&settings);
        snprintf(data, sizeof data, "%s/valid.csv", root);
        settings.checkpoint = checkpoint, settings.data_path = data;
        assert_int_equal(tri__serve_predict(&settings, NULL, &(tri_predict_options){0}, NULL, &predictions),
                         TRI_NOTFINITE);
        if (!strstr(tri_error(), cases[i].words)) fail_msg("%s", tri_error());
        assert_int_equal(tri__serve_eval(&settings, &(tri_eval_options){0}, NULL, NULL, &made), TRI_NOTFINITE);
        tri__predictions_free(&predictions);
        tri__scores_free(&made.scores);
        settings.checkpoint = settings.data_path = NULL;
        tri__settings_free(&settings);
    }
}

TEST(evaluation_scores_the_validation_file) {
    tri_result result;
    double loss = 0;
    tri_session *s = open_session("eval", OPTIONS("--resume=never", "--epochs=30"));
    while (step(s, &loss)) continue;
    OK(tri_evaluate(s, &result));
    print_message("    accuracy %.3f, loss %.3f, pr_auc %.3f\n", result.accuracy, result.loss, result.pr_auc);
    assert_int_equal(result.rows, 30);
    assert_true(result.accuracy > 0.8 && result.loss > 0 && result.pr_auc > 0.8 && result.average_precision > 0.8);
    tri_session_close(s);
}

/* The run's time is that of all its processes; the best validation and the last loss are remembered, too. */
TEST(a_resumed_run_counts_from_its_beginning) {
    char folder[TRI_PATH_MAX];
    double loss = 0;
    tri_session *s = open_session("time", OPTIONS("--resume=never", "--epochs=3"));
    assert_true(step(s, &loss));
    s->at.seconds = 1000; /* as if an earlier process had taken them */
    s->at.best = 0.5, s->at.best_step = 1, s->best_figures = tri__json_pack("{s:f}", "accuracy", 0.75);
    OK(tri_save(s, folder, sizeof folder));
    tri_session_close(s);
    s = open_session("time", OPTIONS("--epochs=3"));
    assert_true(s->at.seconds >= 1000 && s->at.seconds < 1100 && tri__session_seconds(s) >= s->at.seconds);
    assert_true(s->last.loss == loss);
    assert_true(tri__json_number_value(tri__json_get(s->best_figures, "accuracy")) == 0.75);
    assert_string_equal(s->from, folder);
    tri_session_close(s);
}

/* What is said while a checkpoint is evaluated. */
typedef struct words {
    char text[4096];
} words;

static tri_status hear(void *context, const tri_event *event) {
    words *w = context;
    size_t n = strlen(w->text);
    if (event->kind == TRI_EVENT_MESSAGE) snprintf(w->text + n, sizeof w->text - n, "%s\n", event->text);
    return TRI_OK;
}

static tri_evaluation evaluate(const char *run, const char *table, const char *positive, words *heard) {
    char checkpoint[128], path[128];
    tri_settings settings;
    tri_evaluation made;
    *heard = (words){""};
    const tri_sink sink = {.emit = hear, .context = heard};
    const tri_log log = tri__sink_log(&sink);
    tri__settings_init(&settings);
    snprintf(checkpoint, sizeof checkpoint, "%s/%s", root, run);
    snprintf(path, sizeof path, "%s/%s", root, table);
    settings.checkpoint = strdup(checkpoint), settings.data_path = strdup(path);
    settings.model.positive_label = positive ? strdup(positive) : NULL;
    OK(tri__serve_eval(&settings, &(tri_eval_options){0}, NULL, &log, &made));
    tri__settings_free(&settings);
    return made;
}

static int says(const words *heard, const char *text) { return strstr(heard->text, text) != NULL; }

/* Left out, it is the rarer label in training; the checkpoint keeps it; an older one without it means class 1. */
TEST(the_positive_label_belongs_to_the_model) {
    static const char *const asked[] = {NULL, "--positive-label=0", "--positive-label=1"};
    char folder[TRI_PATH_MAX];
    double pr_auc[3];
    words heard;
    int64_t ones = 0;
    for (int i = 0; i < 3; i++) {
        tri_session *s = open_session("positive", OPTIONS("--resume=never", asked[i]));
        if (i == 0) {
            for (int64_t row = 0; row < s->train->n; row++) ones += s->train->labels[row];
            assert_int_equal(s->positive, 2 * ones <= s->train->n);
        } else assert_string_equal(tri_positive_label(s), i == 1 ? "0" : "1");
        OK(tri_save(s, folder, sizeof folder));
        tri_session_close(s);
        tri_evaluation made = evaluate("positive", "valid.csv", NULL, &heard);
        assert_int_equal(made.scores.positive, i ? i - 1 : 2 * ones <= 101);
        assert_int_equal(made.trained_on, 0);
        pr_auc[i] = made.scores.pr_auc;
        tri__scores_free(&made.scores);
    }
    assert_true(pr_auc[1] != pr_auc[2]);
    tri_evaluation made = evaluate("positive", "valid.csv", "0", &heard); /* of a model that was trained with 1 */
    assert_true(made.scores.pr_auc == pr_auc[1]);
    tri__scores_free(&made.scores);

    tri_session *s = open_session("older", OPTIONS("--resume=never"));
    s->positive = -1; /* nothing is kept, as earlier versions did */
    assert_null(tri_positive_label(s));
    OK(tri_save(s, folder, sizeof folder));
    tri_session_close(s);
    made = evaluate("older", "valid.csv", NULL, &heard);
    assert_string_equal(tri__scores_positive(&made.scores), "1");
    assert_true(says(&heard, "does not say which label is the positive one") && says(&heard, "class 1, \"1\""));
    tri__scores_free(&made.scores);
    made = evaluate("older", "train.csv", "0", &heard);
    assert_true(!says(&heard, "does not say which label"));
    assert_int_equal(made.trained_on, 101);
    assert_true(says(&heard, "trained on all 101 rows"));
    tri__scores_free(&made.scores);
}

/* Rows first..first + n - 1 of an endless table: one token each. */
enum { MOST = 20000 };
static tri_dataset rows_of(int64_t first, int64_t n) {
    static int64_t start[MOST + 1];
    static int32_t ids[MOST], labels[MOST];
    for (int64_t i = 0; i < MOST; i++) start[i + 1] = i + 1, ids[i] = (int32_t)i, labels[i] = (int32_t)i % 2;
    static tri_store store;
    if (!store.path) {
        tri_store_writer *writer;
        OK(tri__store_create(NULL, &(tri_store_origin){0}, NULL, &writer));
        OK(tri__store_begin(writer, TRI_SECTION_IDS0));
        OK(tri__store_append(writer, ids, sizeof ids));
        OK(tri__store_commit(writer, MOST, 0, &store));
    }
    return (tri_dataset){.n = n,
                         .n_texts = 1,
                         .words = 1,
                         .text = {{.start = start + first, .vocabulary = MOST}},
                         .labels = labels + first,
                         .store = &store};
}

/* A few thousand hashes say of any table how many of its rows were trained on. */
TEST(a_sample_of_rows_knows_the_rest) {
    static const struct {
        int64_t trained, first, n, found; /* found: rows of first..first + n - 1 that were trained on */
    } cases[] = {
        {100, 0, 100, 100},        {100, 90, 20, 10},
        {100, 100, 50, 0},         {TRI_TRAINED_MAX, 4000, 200, 96},
        {10000, 0, 10000, 10000},  {10000, 5000, 1000, 1000},
        {10000, 9000, 2000, 1000}, {10000, 10000, 5000, 0},
        {MOST, 0, MOST, MOST},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_dataset trained = rows_of(0, cases[i].trained), asked = rows_of(cases[i].first, cases[i].n);
        tri_json *json;
        tri_trained got;
        OK(tri__trained_json(&trained, &json));
        OK(tri__trained_count(json, "it", &asked, &got));
        int complete = cases[i].trained <= TRI_TRAINED_MAX;
        assert_int_equal(tri__json_is_true(tri__json_get(json, "complete")), complete);
        assert_true(complete ? got.seen == cases[i].n : got.seen > 0 && got.seen < cases[i].n);
        double share = (double)got.found / (double)got.seen, want = (double)cases[i].found / (double)cases[i].n;
        assert_true(complete || want == 0 || want == 1 ? share == want : fabs(share - want) < 0.05);
        tri__json_decref(json);
    }
    static const char *const wrong[] = {"{}", "{\"hashes\": 1}", "{\"hashes\": \"12\"}",
                                        "{\"hashes\": \"000000000000000g\"}",
                                        "{\"hashes\": \"00000000000000020000000000000001\"}"};
    tri_dataset asked = rows_of(0, 5);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tri_json *json;
        tri_trained got;
        OK(tri__json_parse(wrong[i], strlen(wrong[i]), "it", TRI_DATA, &json));
        assert_int_equal(tri__trained_count(json, "it", &asked, &got), TRI_DATA);
        assert_non_null(strstr(tri_error(), "it: trained_rows"));
        tri__json_decref(json);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_data, remove_data); }
