/* test_run_data.c - run folders read back: curves against the lines, files cut off at any byte, files that change while
 * they are followed; figures of validation files; merged profiles; what binds, case by case; the page's text. */
#include "report/runs/run_parts.h"
#include "tests/lib/test.h"
#include "tests/lib/scratch.h"

#include <math.h>
#include <unistd.h>

static const tri_run_data_options usual = {0};

static void path_to(const char *name, char path[static TRI_PATH_MAX]) {
    assert_int_equal(tri__path_join(path, folder, name), TRI_OK);
}

/* Not tri__file_write, which waits for the disk: a thousand times here. */
static void put_text(const char *name, tri_own_way way, const char *text, size_t size) {
    char path[TRI_PATH_MAX];
    int fd;
    path_to(name, path);
    assert_int_equal(tri__file_own(path, way, &fd), TRI_OK);
    assert_int_equal(tri__write_all(fd, text, size, path), TRI_OK);
    close(fd);
}
static void write_text(const char *name, const char *text, size_t size) { put_text(name, TRI_OWN_FRESH, text, size); }
static void append_text(const char *name, const char *text) { put_text(name, TRI_OWN_APPEND, text, strlen(text)); }

static tri_json *read_run(void) {
    tri_json *run;
    assert_int_equal(tri__run_data(folder, &usual, &run), TRI_OK);
    return run;
}

static double number(const tri_json *object, const char *key) {
    return tri__json_number_value(tri__json_get(object, key));
}
static const char *words(const tri_json *object, const char *key) {
    const char *text = tri__json_string_value(tri__json_get(object, key));
    return text ? text : "";
}
static tri_json *curve_of(const tri_json *run, const char *key) {
    return tri__json_get(tri__json_get(run, "curves"), key);
}
static tri_json *parsed(const char *text) {
    tri_json *value;
    assert_int_equal(tri__json_parse(text, strlen(text), "a test", TRI_DATA, &value), TRI_OK);
    return value;
}
static int is_missing(const tri_json *run, const char *text) {
    tri__json_items(tri__json_get(run, "missing"), one) if (strstr(tri__json_string_value(one), text)) return 1;
    return 0;
}

static const char small_run[] =
    "{\"ts\":1700000000.5,\"event\":\"start\",\"step\":0,\"steps\":4,\"version\":\"0.2.0\",\"config\":{\"lr\":0.1,"
    "\"epochs\":2}}\n"
    "{\"ts\":1700000001,\"event\":\"train\",\"step\":1,\"epoch\":0.5,\"loss\":0.7,\"step_ms\":10,\"idle_share\":0}\n"
    "{\"ts\":1700000002,\"event\":\"train\",\"step\":2,\"epoch\":1,\"loss\":null,\"step_ms\":10,\"idle_share\":0}\n"
    "{\"ts\":1700000002,\"event\":\"epoch\",\"step\":2,\"epoch\":1,\"valid_loss\":0.65,\"best\":true}\n"
    "{\"ts\":1700000002,\"event\":\"warn\",\"step\":2,\"message\":\"</script><b>\"}\n"
    "{\"ts\":1700000003,\"event\":\"start\",\"step\":2,\"steps\":4,\"version\":\"0.2.0\",\"config\":{\"lr\":0.2,"
    "\"epochs\":2}}\n"
    "{\"ts\":1700000004,\"event\":\"train\",\"step\":3,\"epoch\":1.5,\"loss\":0.5,\"step_ms\":20,\"idle_share\":0}\n"
    "{\"ts\":1700000005,\"event\":\"train\",\"step\":4,\"epoch\":2,\"loss\":0.25,\"step_ms\":20,\"idle_share\":0}\n"
    "{\"ts\":1700000006,\"event\":\"end\",\"step\":4,\"seconds\":6}\n";

TEST(test_small_run) {
    write_text("metrics.jsonl", small_run, strlen(small_run));
    tri_json *run = read_run(), *loss = curve_of(run, "loss");
    assert_string_equal(words(run, "state"), "finished");
    assert_int_equal(tri__json_size(tri__json_get(loss, "step")), 3); /* null is no point */
    assert_int_equal(tri__json_integer_value(tri__json_at(tri__json_get(loss, "step"), 1)), 3);
    assert_true(tri__json_number_value(tri__json_at(tri__json_get(loss, "value"), 2)) == 0.25);
    assert_int_equal(tri__json_size(tri__json_get(run, "starts")), 2);
    const tri_json *changed = tri__json_get(tri__json_at(tri__json_get(run, "starts"), 1), "changed");
    assert_int_equal(tri__json_object_size(changed), 1);
    assert_true(tri__json_number_value(tri__json_at(tri__json_get(changed, "lr"), 1)) == 0.2);
    assert_true(number(tri__json_get(run, "last"), "step") == 4);
    assert_true(number(tri__json_get(run, "rates"), "step_seconds") == 0.02);
    assert_true(number(tri__json_at(tri__json_get(run, "validations"), 0), "valid_loss") == 0.65);
    assert_true(is_missing(run, "summary.json"));
    tri__json_decref(run);
}

/* The page has no "<" of the data's texts, and every file in it. */
TEST(test_page) {
    tri_json *run = read_run(), *runs = tri__json_array();
    char *html;
    size_t size;
    tri__json_append_new(runs, run);
    assert_int_equal(tri__report_page(runs, 1, &html, &size), TRI_OK);
    assert_int_equal(strlen(html), size);
    assert_null(strstr(html, "</script><b>"));
    assert_non_null(strstr(html, "\\u003c/script>\\u003cb>"));
    assert_non_null(strstr(html, "\"live\":true"));
    assert_null(strstr(html, "@report"));
    assert_null(strstr(html, "@data@"));
    assert_non_null(strstr(html, "prefers-color-scheme"));
    const char *address = strstr(html, "http:"); /* the name of SVG's elements, and no other */
    assert_true(address && !strncmp(address, "http://www.w3.org/2000/svg", 26));
    assert_null(strstr(address + 1, "http:"));
    assert_null(strstr(html, "https:"));
    assert_null(strstr(html, "src="));
    free(html);
    tri__json_decref(runs);
}

/* Every prefix of the file can be read: what it has of steps is shown, the rest is said. */
TEST(test_cut_anywhere) {
    size_t length = strlen(small_run);
    for (size_t n = 0; n <= length; n++) {
        size_t steps = 0;
        write_text("metrics.jsonl", small_run, n);
        for (size_t i = 0; i < n; i++)
            if (small_run[i] == '\n') {
                size_t begin = i;
                while (begin && small_run[begin - 1] != '\n') begin--;
                steps += strstr(small_run + begin, "\"train\"") &&
                         strstr(small_run + begin, "\"train\"") < small_run + i;
            }
        tri_json *run = read_run();
        assert_int_equal(tri__json_size(tri__json_get(curve_of(run, "step_ms"), "step")), steps);
        assert_string_equal(words(run, "state"), n == length ? "finished" : "ended");
        if (n && small_run[n - 1] != '\n') assert_true(is_missing(run, "in the middle of a line"));
        tri__json_decref(run);
    }
}

/* Any byte may be wrong: the run is still read, and nothing but the damaged line is lost. */
TEST(test_damaged_bytes) {
    size_t length = strlen(small_run);
    char *text = strdup(small_run);
    for (size_t i = 0; i < length; i += 3) {
        text[i] ^= 0x15;
        write_text("metrics.jsonl", text, length);
        tri_json *run = read_run();
        assert_true(tri__json_size(tri__json_get(curve_of(run, "idle_share"), "step")) >= 2);
        tri__json_decref(run);
        text[i] = small_run[i];
    }
    free(text);
}

/* A folder that is followed gives, at every moment, what a fresh look gives. */
TEST(test_following) {
    tri_run_reader *reader;
    write_text("metrics.jsonl", "", 0);
    assert_int_equal(tri__run_reader_open(folder, &reader), TRI_OK);
    size_t length = strlen(small_run);
    for (size_t at = 0; at < length; at += 37) {
        char piece[38];
        size_t n = length - at < 37 ? length - at : 37;
        memcpy(piece, small_run + at, n);
        piece[n] = 0;
        append_text("metrics.jsonl", piece);
        tri_json *fresh = read_run(), *followed;
        assert_int_equal(tri__run_reader_data(reader, &usual, &followed), TRI_OK);
        assert_true(tri__json_equal(fresh, followed));
        tri__json_decref(fresh);
        tri__json_decref(followed);
    }
    /* A resumed run writes the file anew, with fewer lines. */
    const char *end = strchr(strchr(small_run, '\n') + 1, '\n') + 1;
    write_text("metrics.jsonl", small_run, (size_t)(end - small_run));
    tri_json *run;
    assert_int_equal(tri__run_reader_data(reader, &usual, &run), TRI_OK);
    assert_int_equal(tri__json_size(tri__json_get(curve_of(run, "loss"), "step")), 1);
    tri__json_decref(run);
    tri__run_reader_close(reader);
}

TEST(test_no_run) {
    char path[TRI_PATH_MAX];
    tri_json *run;
    path_to("metrics.jsonl", path);
    assert_int_equal(tri__file_remove(path), 0);
    assert_int_equal(tri__run_data(folder, &usual, &run), TRI_DATA);
    assert_non_null(strstr(tri_error(), "is not a run folder"));
    assert_int_equal(tri__run_data("/nowhere/run", &usual, &run), TRI_NOINPUT);
}

/* ---- thinning ---- */

/* 100,000 points: at most as many as asked for, with the first, the last, every spike, and only points there are. */
TEST(test_thinning) {
    enum { N = 100000, MOST = 2000 };
    double *step = malloc(N * sizeof *step), *value = malloc(N * sizeof *value);
    for (int i = 0; i < N; i++) step[i] = i + 1, value[i] = sin(i * 0.37);
    value[0] = 0.125, value[N - 1] = 0.375, value[41234] = 50, value[77777] = -50, value[500] = NAN;
    tri_json *curve = tri__thin_curve(step, value, N, 1, MOST), *steps = tri__json_get(curve, "step");
    size_t n = tri__json_size(steps);
    assert_in_range(n, MOST / 2, MOST);
    assert_true(number(curve, "of") == N - 1);
    int spikes = 0;
    int64_t last = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t at = tri__json_integer_value(tri__json_at(steps, i));
        double shown = tri__json_number_value(tri__json_at(tri__json_get(curve, "value"), i));
        assert_true(at > last);
        assert_true(fabs(shown - value[at - 1]) < 1e-5);
        spikes += fabs(shown) == 50;
        last = at;
    }
    assert_int_equal(spikes, 2);
    assert_int_equal(tri__json_integer_value(tri__json_at(steps, 0)), 1);
    assert_int_equal(last, N);
    tri__json_decref(curve);
    free(step);
    free(value);
}

/* ---- validation files ---- */

/* Four rows by hand: scores 0.95 (of the class), 0.85 (not), 0.65 (of the class), 0.15 (not). */
TEST(test_predictions) {
    static const char table[] =
        "row,label,p_no,\"p_y\"\"es\"\n1,\"y\"\"es\",0.05,0.95\n2,no,0.15,0.85\n3,\"y\"\"es\",0.35,0.65\n"
        "4,no,0.85,0.15\n";
    write_text("metrics.jsonl", small_run, strlen(small_run));
    append_text("metrics.jsonl", "{\"ts\":13,\"event\":\"epoch\",\"step\":4,\"epoch\":2,\"valid_loss\":0.5,"
                                 "\"temperature\":2,\"best\":true}\n");
    write_text("validation-best.csv", table, strlen(table));
    write_text("validation-last.csv", table, strlen(table) - 9);
    tri_json *run = read_run(), *best = tri__json_get(tri__json_get(run, "predictions"), "best");
    assert_true(number(best, "rows") == 4);
    assert_string_equal(words(best, "positive"), "y\"es");
    assert_true(fabs(number(best, "accuracy") - 0.75) < 1e-12);
    assert_true(fabs(number(best, "roc_auc") - 0.75) < 1e-12);
    const tri_json *roc = tri__json_at(tri__json_get(best, "roc"), 0), *pr = tri__json_at(tri__json_get(best, "pr"), 0);
    assert_true(fabs(number(roc, "area") - 0.75) < 1e-12);
    assert_true(fabs(number(pr, "area") - number(best, "pr_auc")) < 1e-12);
    const tri_json *row = tri__json_at(tri__json_get(best, "confusion"), 0); /* of "no": one right, one wrong */
    assert_int_equal(tri__json_integer_value(tri__json_at(row, 1)), 1);
    /* As eval: by the likeliest label. 0.95 and 0.65 are right, alone in their bins; of two of 0.85 one is. */
    const tri_json *own = tri__json_get(best, "reliability"), *calibrated = tri__json_get(own, "calibrated");
    assert_true(fabs(number(own, "ece") - (0.05 + 0.35 + 2 * 0.35) / 4) < 1e-6);
    assert_int_equal(tri__json_size(tri__json_get(own, "bins")), 3);
    assert_true(number(calibrated, "temperature") == 2); /* the odds become their roots */
    double roots[] = {sqrt(0.95) / (sqrt(0.95) + sqrt(0.05)), sqrt(0.65) / (sqrt(0.65) + sqrt(0.35)),
                      sqrt(0.85) / (sqrt(0.85) + sqrt(0.15))};
    assert_true(fabs(number(calibrated, "ece") - (1 - roots[0] + 1 - roots[1] + 2 * (roots[2] - 0.5)) / 4) < 1e-6);
    assert_null(tri__json_get(best, "worst")); /* only when asked for */
    assert_null(tri__json_get(tri__json_get(run, "predictions"), "last"));
    assert_true(is_missing(run, "validation-last.csv"));
    tri__json_decref(run);
}

/* Wherever it is cut off, or whatever it has instead of a table: the run is shown. */
TEST(test_cut_predictions) {
    static const char table[] = "row,label,p_a,p_b\n1,a,0.5,0.5\n2,b,nan,2\n";
    for (size_t n = 0; n < sizeof table; n++) {
        write_text("validation-best.csv", table, n);
        tri_json *run = read_run();
        assert_int_equal(tri__json_size(tri__json_get(curve_of(run, "loss"), "step")), 3);
        tri__json_decref(run);
    }
}

/* ---- profiles ---- */

TEST(test_profiles) {
    tri_json *profiles = tri__json_array();
    tri__json_append_new(profiles,
                         parsed("{\"format\":1,\"rank\":0,\"world\":2,\"coords\":{\"pp\":0,\"tp\":0,\"dp\":0},"
                                "\"steps\":[3,5],\"seconds\":2,"
                                "\"parts\":{\"compute\":1,\"waiting\":1},\"operations\":[{\"name\":\"norm\",\"calls\":"
                                "2,\"seconds\":1,\"flops\":1,\"bytes\":9}],"
                                "\"modules\":{\"name\":\"model\",\"parameters\":10,\"flops\":4,\"seconds\":1,"
                                "\"children\":[{\"name\":\"primary\",\"parameters\":10,\"flops\":4,\"seconds\":1}]},"
                                "\"memory\":{\"total\":{\"planned\":5,\"held\":5,\"peak\":4}},"
                                "\"timeline\":{\"step\":5,\"begin\":10,\"end\":12,\"legs\":[[\"F\",0,10,11],[\"B\",0,"
                                "11,12]],\"transfers\":[]}}"));
    tri__json_append_new(profiles,
                         parsed("{\"format\":1,\"rank\":1,\"world\":2,\"coords\":{\"pp\":1,\"tp\":0,\"dp\":0},"
                                "\"steps\":[3,5],\"seconds\":4,"
                                "\"parts\":{\"compute\":3,\"waiting\":1},\"operations\":[{\"name\":\"linear\","
                                "\"calls\":1,\"seconds\":3,\"flops\":8,\"bytes\":1}],"
                                "\"modules\":{\"name\":\"model\",\"parameters\":7,\"flops\":6,\"seconds\":3,"
                                "\"children\":[{\"name\":\"fusion\",\"parameters\":7,\"flops\":6,\"seconds\":3}]},"
                                "\"memory\":{\"total\":{\"planned\":8,\"held\":8,\"peak\":8}},"
                                "\"timeline\":{\"step\":5,\"begin\":11,\"end\":13,\"legs\":[[\"F\",0,11,13]],"
                                "\"transfers\":[[\"recv\",10.5,11]]}}"));
    tri_json *all = tri__profiles_merge(profiles, 2), *modules = tri__json_get(all, "modules");
    assert_true(number(all, "seconds") == 3);
    assert_true(number(tri__json_get(all, "parts"), "compute") == 2);
    assert_string_equal(words(tri__json_at(tri__json_get(all, "operations"), 0), "name"), "linear");
    assert_true(number(modules, "parameters") == 17 && number(modules, "flops") == 10 &&
                number(modules, "seconds") == 2);
    assert_int_equal(tri__json_size(tri__json_get(modules, "children")), 2);
    assert_true(number(all, "memory_rank") == 1);
    const tri_json *line = tri__json_get(all, "timeline");
    assert_true(number(line, "seconds") == 3 && number(line, "left_out") == 2); /* 4 boxes, 2 allowed */
    tri__json_decref(all);
    tri__json_decref(profiles);
}

/* ---- what binds ---- */

static void expect_binding(tri_binding_figures figures, const char *kind, const char *text) {
    tri_json *binding = tri__binding(&figures);
    assert_string_equal(words(binding, "kind"), kind);
    if (!strstr(words(binding, "words"), text)) fail_msg("no \"%s\" in: %s", text, words(binding, "words"));
    tri__json_decref(binding);
}

TEST(test_binding) {
    tri_binding_figures f = {.world = 4, .pp = 1, .tp = 1, .machines = 1, .microbatches = 1, .compute = 0.5};
    tri_binding_figures x = f;
    x.loader = 0.3, x.comm = 0.2;
    expect_binding(x, "loader", "30 % of a step");
    x = f, x.comm = 0.4, x.idle = 0.3, x.loader = 0.05;
    strcpy(x.kind, "all_reduce");
    x.kind_bytes = 1 << 20, x.kind_seconds = 0.001;
    expect_binding(x, "communication", "most of it all_reduce (1.0 MiB a step from each rank");
    expect_binding(x, "communication", "--reduce-dtype bf16");
    x.tp = 2;
    expect_binding(x, "communication", "smaller --tp-size");
    x.machines = 2;
    expect_binding(x, "communication", "--mesh-order auto");
    x.tp = 1, x.shard = "zero3";
    strcpy(x.kind, "all_gather");
    expect_binding(x, "communication", "--shard zero2");
    strcpy(x.kind, "send");
    expect_binding(x, "communication", "--pp-size");
    strcpy(x.kind, "copy");
    expect_binding(x, "communication", "--offload");
    x = f, x.idle = 0.4, x.pp = 4, x.most_busy = 0.010, x.least_busy = 0.005;
    expect_binding(x, "stages", "--stage-profile");
    x.least_busy = 0.0099;
    expect_binding(x, "bubble", "--num-microbatches");
    x.pp = 1;
    expect_binding(x, "waiting", "for each other");
    x = f, x.kernel_seconds = 5e-6, x.compute = 0.9;
    expect_binding(x, "launch", "5.0 us");
    x.kernel_seconds = 1e-3, x.small = 0.7;
    expect_binding(x, "memory", "--precision bf16");
    x.small = 0.2, x.mfu = 0.42, x.costliest = "linear";
    expect_binding(x, "compute", "most of it in linear, at 42 % of the peak, which is as it should be. To go faster");
    x.mfu = 0.05;
    expect_binding(x, "compute", "at only 5 % of the peak. To go faster: a larger --batch-size");
    x.mfu = 1.78;
    expect_binding(x, "compute", "at 178 % of the peak, so the peak is too low (its hardware file");
    expect_binding((tri_binding_figures){.world = 1}, "unknown", "no events of steps");
    /* One rank neither communicates nor waits for others. */
    x = f, x.world = 1, x.comm = 0.9, x.idle = 0.9;
    expect_binding(x, "compute", "Computing binds");
}

int main(int argc, char **argv) { return run_listed(argc, argv, setup, teardown); }
