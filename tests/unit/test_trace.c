/* test_trace.c - traces of ranks: what Perfetto asks of them, and merging on one clock, by hand-worked cases. */
#include "tests/lib/test.h"
#include "tests/lib/scratch.h"
#include "report/sinks/sinks.h"
#include "report/runs/trace_merge.h"

static const char *in(const char *name) {
    static char path[TRI_PATH_MAX];
    assert_int_equal(tri__path_join(path, folder, name), TRI_OK);
    return path;
}

static tri_json *load(const char *name) {
    tri_json *root;
    assert_int_equal(tri__json_load(in(name), TRI_DATA, &root), TRI_OK);
    return root;
}

static double number(const tri_json *event, const char *key) {
    const tri_json *value = tri__json_get(event, key);
    assert_true(tri__json_is_number(value));
    return tri__json_number_value(value);
}

static const char *text(const tri_json *event, const char *key) {
    const char *value = tri__json_string_value(tri__json_get(event, key));
    assert_non_null(value);
    return value;
}

/* ---- The rules of Chrome's format, as Perfetto applies them ---- */

/* A flow's end lies inside a slice of its thread. */
static void assert_bound(const tri_json *events, const tri_json *flow) {
    double at = number(flow, "ts");
    tri__json_items(events, slice) {
        if (strcmp(text(slice, "ph"), "X") != 0 || number(slice, "pid") != number(flow, "pid") ||
            number(slice, "tid") != number(flow, "tid"))
            continue;
        if (number(slice, "ts") <= at + 1e-6 && at < number(slice, "ts") + number(slice, "dur")) return;
    }
    fail_msg("a flow at %.3f us of rank %.0f is in no slice", at, number(flow, "pid"));
}

/* Its other end exists, once, and a start is not after its end. */
static void assert_paired(const tri_json *events, const tri_json *flow) {
    int starts = strcmp(text(flow, "ph"), "s") == 0, found = 0;
    tri__json_items(events, other) {
        const char *ph = text(other, "ph");
        if ((strcmp(ph, "s") != 0 && strcmp(ph, "f") != 0) || other == flow ||
            number(other, "id") != number(flow, "id") || strcmp(text(other, "cat"), text(flow, "cat")) != 0)
            continue;
        assert_string_equal(ph, starts ? "f" : "s");
        assert_string_equal(text(other, "name"), text(flow, "name"));
        if (starts) assert_true(number(flow, "ts") <= number(other, "ts"));
        found++;
    }
    assert_int_equal(found, 1);
}

/* Slices of a thread are in order and do not overlap. */
static void assert_ordered(const tri_json *events, size_t at) {
    const tri_json *slice = tri__json_at(events, at);
    assert_true(number(slice, "ts") >= 0 && number(slice, "dur") >= 0);
    for (size_t i = at; i-- > 0;) {
        const tri_json *before = tri__json_at(events, i);
        if (strcmp(text(before, "ph"), "X") != 0 || number(before, "pid") != number(slice, "pid") ||
            number(before, "tid") != number(slice, "tid"))
            continue;
        assert_true(number(before, "ts") + number(before, "dur") <= number(slice, "ts") + 1e-6);
        return;
    }
}

static void assert_counter(const tri_json *event) {
    number(event, "ts");
    tri__json_members(tri__json_get(event, "args"), m) {
        assert_true(tri__json_is_number(m->value));
        assert_true(tri__json_number_value(m->value) >= 0);
    }
}

static void assert_valid(const tri_json *trace) {
    const tri_json *events = tri__json_get(trace, "traceEvents");
    assert_true(tri__json_size(events) > 0);
    tri__json_each(events, i, event) {
        const char *ph = text(event, "ph");
        number(event, "pid");
        if (strcmp(ph, "X") == 0) assert_ordered(events, i);
        else if (strcmp(ph, "C") == 0) assert_counter(event);
        else if (strcmp(ph, "s") == 0 || strcmp(ph, "f") == 0) {
            assert_bound(events, event);
            assert_paired(events, event);
            if (*ph == 'f') assert_string_equal(text(event, "bp"), "e");
        } else assert_string_equal(ph, "M");
    }
}

/* ---- Two ranks of two machines ---- */

static const char *const classes[] = {"param", "act"};
static const int64_t live[][2] = {{100, 0}, {100, 50}, {100, 0}};

/* Rank 0 computes 10 us, then sends for 2 us and waits for it; rank 1 waits until `received` us after its start. */
static void write_rank(int rank, double zero, double received) {
    tri_span spans[] = {
        {.name = "wait for the batch", .unit = "", .shape = "", .end = 1e-6, .mb = -1, .track = TRI_TRACK_LOADER},
        {.name = "linear", .unit = "a", .shape = "[1,2]", .begin = 1e-6, .end = 11e-6, .live = live[0]},
        {.name = rank ? "recv_post" : "send_post",
         .unit = "",
         .shape = "",
         .begin = 11e-6,
         .end = 13e-6,
         .track = TRI_TRACK_COMM,
         .transfer = 3,
         .posts = 1,
         .sent = rank ? 0 : 64,
         .receiver = !rank,
         .id = 9,
         .live = live[1]},
        {.name = "wait",
         .unit = "",
         .shape = "",
         .begin = 14e-6,
         .end = rank ? received * 1e-6 : 20e-6,
         .track = TRI_TRACK_COMM,
         .transfer = 3,
         .receiver = rank,
         .id = 9,
         .live = live[2]},
    };
    for (int i = 0; i < 4; i++) spans[i].step = 2;
    tri_sink sink;
    tri_event event = {.kind = TRI_EVENT_PROFILE,
                       .spans = spans,
                       .n_spans = 4,
                       .classes = classes,
                       .n_classes = 2,
                       .rank = rank,
                       .world = 2,
                       .zero = zero,
                       .uncertainty = rank ? 2e-6 : 0,
                       .machine = rank};
    assert_int_equal(tri__trace_open(folder, &sink), TRI_OK);
    assert_int_equal(sink.emit(sink.context, &event), TRI_OK);
    tri__sink_close(&sink);
}

static tri_status merge(tri_json **facts) {
    FILE *out = fopen(in("trace.json"), "w");
    assert_non_null(out);
    tri_status status = tri__traces_merge(folder, out, facts);
    assert_int_equal(fclose(out), 0);
    return status;
}

/* The k-th event of a rank with that phase and name; NULL: none. */
static const tri_json *find(const tri_json *trace, int rank, const char *ph, const char *name) {
    tri__json_each(tri__json_get(trace, "traceEvents"), i,
                   event) if (number(event, "pid") == rank && strcmp(text(event, "ph"), ph) == 0 &&
                              strcmp(text(event, "name"), name) == 0) return event;
    return NULL;
}

static void assert_near(double a, double b) { assert_true(a > b - 2e-3 && a < b + 2e-3); } /* us */

TEST_IN(one_rank, setup, teardown) {
    write_rank(0, 5, 0);
    tri_json *trace = load("trace-rank0.json");
    assert_valid(trace);
    const tri_json *memory = find(trace, 0, "C", "memory in use"), *link = find(trace, 0, "C", "link use, bytes/s");
    assert_near(number(memory, "ts"), 1);
    assert_int_equal(number(tri__json_get(memory, "args"), "param"), 100);
    assert_near(number(link, "ts"), 11);
    assert_near(number(tri__json_get(link, "args"), "sent") / 1e6, 64.0 / 9); /* bytes in the 9 us from post to wait */
    assert_null(find(trace, 0, "s", "message")); /* its other end is in another file */
    assert_string_equal(text(tri__json_get(find(trace, 0, "X", "send_post"), "args"), "sends"), "0.1.9.2");
    tri__json_decref(trace);
}

/* Rank 1's file begins 4 us after rank 0's on the shared clock; its clock gained 1 us in 5 s, after which it begins. */
TEST_IN(two_clocks, setup, teardown) {
    static const char profile[] = "{\"clock\":{\"offset\":0,\"uncertainty\":2e-6,\"end\":{\"at\":10,\"drift\":2e-6,"
                                  "\"uncertainty\":3e-6}}}";
    write_rank(0, 5, 0);
    write_rank(1, 5.000004, 30);
    assert_int_equal(tri__file_write(in("profile-rank1.json"), profile, strlen(profile)), TRI_OK);
    tri_json *facts, *trace;
    assert_int_equal(merge(&facts), TRI_OK);
    trace = load("trace.json");
    assert_valid(trace);
    assert_near(number(find(trace, 0, "X", "linear"), "ts"), 1);
    assert_near(number(find(trace, 1, "X", "linear"), "ts"), 1 + 4 + 1);
    assert_near(number(find(trace, 1, "C", "memory in use"), "ts"), 1 + 4 + 1);
    assert_near(number(find(trace, 0, "s", "message"), "ts"), 11);
    assert_near(number(find(trace, 1, "f", "message"), "ts"), 30 + 4 + 1);
    assert_int_equal(number(facts, "messages"), 1);
    assert_near(1e6 * number(facts, "uncertainty"), 3);
    assert_true(number(facts, "shift") == 0);
    assert_int_equal(tri__json_size(tri__json_get(facts, "undated")), 0);
    tri__json_decref(trace);
    tri__json_decref(facts);
}

/* By the clocks the message would arrive at 17 - 9 = 8 us, before it is sent at 11: rank 1 is moved by 3 us. */
TEST_IN(never_before_it_was_sent, setup, teardown) {
    write_rank(0, 5, 0);
    write_rank(1, 5 - 9e-6, 17);
    tri_json *facts, *trace;
    assert_int_equal(merge(&facts), TRI_OK);
    trace = load("trace.json");
    assert_valid(trace);
    assert_near(1e6 * number(facts, "shift"), 3.002); /* arrows end a nanosecond before their slice does */
    assert_true(number(find(trace, 1, "f", "message"), "ts") >= number(find(trace, 0, "s", "message"), "ts"));
    assert_int_equal(tri__json_size(tri__json_get(facts, "undated")), 1); /* no profile: compared at the start only */
    tri__json_decref(trace);
    tri__json_decref(facts);
}

/* Cut anywhere after its head, the rest merges to a valid trace; arrows with one end are left out. */
TEST_IN(cut_off, setup, teardown) {
    write_rank(0, 5, 0);
    write_rank(1, 5, 30);
    char *whole;
    size_t size;
    assert_int_equal(tri__file_read(in("trace-rank1.json"), 1 << 20, &whole, &size), TRI_OK);
    size_t head = (size_t)(strstr(whole, "[\n") - whole) + 2;
    for (size_t at = head; at < size - 3; at += 13) {
        tri_json *facts, *trace;
        assert_int_equal(tri__file_write(in("trace-rank1.json"), whole, at), TRI_OK);
        assert_int_equal(merge(&facts), TRI_OK);
        trace = load("trace.json");
        assert_int_equal(tri__json_size(tri__json_get(facts, "cut")), 1);
        assert_int_equal(number(facts, "messages"), find(trace, 1, "X", "wait") != NULL);
        tri__json_decref(trace);
        tri__json_decref(facts);
    }
    free(whole);
}

TEST_IN(what_is_missing, setup, teardown) {
    tri_json *facts;
    assert_int_equal(merge(&facts), TRI_NOINPUT);
    assert_non_null(strstr(tri_error(), "has no trace-rank<r>.json"));
    write_rank(1, 5, 30);
    assert_int_equal(merge(&facts), TRI_OK);
    assert_int_equal(tri__json_integer_value(tri__json_at(tri__json_get(facts, "missing"), 0)), 0);
    tri__json_decref(facts);
    static const char odd[] = "{\"displayTimeUnit\":\"ms\",\"clock\":{},\n\"traceEvents\":[\n";
    assert_int_equal(tri__file_write(in("trace-rank0.json"), odd, strlen(odd)), TRI_OK);
    assert_int_equal(merge(&facts), TRI_DATA);
    assert_non_null(strstr(tri_error(), "trace-rank0.json: has no clock"));
    assert_int_equal(tri__file_write(in("trace-rank0.json"), "no", 2), TRI_OK);
    assert_int_equal(merge(&facts), TRI_DATA);
}

/* Transfers that a device runs at once have threads of their own. */
TEST_IN(transfers_at_once, setup, teardown) {
    tri_span spans[6] = {0};
    for (int i = 0; i < 6; i++)
        spans[i] = (tri_span){.name = i < 3 ? "all_reduce_post" : "wait", .unit = "", .shape = "", .step = 1,
                              .begin = i < 3 ? 1e-6 * i : 1e-6 * (20 + i), .end = i < 3 ? 1e-5 : 1e-6 * (21 + i),
                              .track = i < 3 ? TRI_TRACK_COMM : TRI_TRACK_COMPUTE, .transfer = 1 + i % 3,
                              .posts = i < 3, .sent = 10};
    tri_sink sink;
    tri_event event = {.kind = TRI_EVENT_PROFILE, .spans = spans, .n_spans = 6, .world = 1};
    assert_int_equal(tri__trace_open(folder, &sink), TRI_OK);
    assert_int_equal(sink.emit(sink.context, &event), TRI_OK);
    tri__sink_close(&sink);
    tri_json *trace = load("trace-rank0.json");
    assert_valid(trace);
    tri__json_decref(trace);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
