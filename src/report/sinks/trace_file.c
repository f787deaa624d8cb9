/* trace_file.c - trace-rank<r>.json: the recorded steps in Chrome's trace format, which Perfetto reads. One process per
 * rank, one thread per queue, one event a line: report/runs/trace_merge.c reads these lines. Times are whole
 * nanoseconds, so that rounding never makes neighbouring spans overlap.
 *
 * A transfer's post and wait are joined by an arrow (flow events, which follow the slice they belong to). Counters are
 * the memory in use by class, and the bytes a second of transfers in flight. */
#include "report/sinks/sinks.h"

#include "base/file.h"
#include "report/text/json_numbers.h"

enum { EXTRA = 8, THREADS = TRI_TRACK_COUNT + EXTRA }; /* threads for transfers that a device runs at once */

static const struct {
    const char *thread, *category;
} tracks[TRI_TRACK_COUNT] = {[TRI_TRACK_COMPUTE] = {"compute", "op"},
                             [TRI_TRACK_LANE] = {"compute, lane 1", "op"},
                             [TRI_TRACK_COMM] = {"communication", "comm"},
                             [TRI_TRACK_COPY] = {"copies", "copy"},
                             [TRI_TRACK_LOADER] = {"loader", "data"}};

typedef struct trace {
    FILE *out;
    const tri_event *event;
    int *tid;                    /* [n_spans] */
    int used[THREADS];
} trace;

static long long nanos_of(double seconds) { return seconds > 0 ? llround(seconds * 1e9) : 0; }

static long long length_of(const tri_span *span) {
    long long nanos = nanos_of(span->end) - nanos_of(span->begin);
    return nanos < 1 ? span->transfer > 0 : nanos; /* arrows need a slice that they begin or end in */
}

static void put_micros(FILE *out, const char *key, long long nanos) {
    fprintf(out, ",\"%s\":%lld.%03lld", key, nanos / 1000, nanos % 1000);
}

/* Slices of one thread must not overlap: of several transfers at once, each gets a thread. */
static void choose_threads(trace *t) {
    long long until[THREADS] = {0};
    for (int64_t i = 0; i < t->event->n_spans; i++) {
        const tri_span *span = &t->event->spans[i];
        int tid = (int)span->track;
        for (int k = 0; k < EXTRA && span->track == TRI_TRACK_COMM && until[tid] > nanos_of(span->begin); k++)
            tid = TRI_TRACK_COUNT + k;
        t->tid[i] = tid, t->used[tid] = 1;
        until[tid] = nanos_of(span->begin) + length_of(span);
    }
}

static void put_names(const trace *t) {
    int rank = t->event->rank;
    fprintf(t->out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}", rank, rank);
    fprintf(t->out, ",\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":%d}}", rank,
            rank);
    for (int k = 0; k < THREADS; k++) {
        int extra = k >= TRI_TRACK_COUNT;
        if (!t->used[k]) continue;
        fprintf(t->out, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s", rank,
                k, tracks[extra ? TRI_TRACK_COMM : k].thread);
        if (extra) fprintf(t->out, " %d", k - TRI_TRACK_COUNT + 2);
        fputs("\"}}", t->out);
    }
}

static void put_args(FILE *out, const tri_span *span) {
    fputs(",\"args\":{\"unit\":", out);
    tri__put_text(out, span->unit);
    fputs(",\"shape\":", out);
    tri__put_text(out, span->shape);
    tri__put_field(out, "flops", span->flops);
    tri__put_field(out, "bytes", span->bytes);
    fprintf(out, ",\"mb\":%d,\"step\":%lld", span->mb, (long long)span->step);
    if (span->posts) tri__put_field(out, "sent", span->sent);
    if (span->sender != span->receiver) /* trace_merge.c draws the arrow between ranks */
        fprintf(out, ",\"%s\":\"%d.%d.%u.%lld\"", span->posts ? "sends" : "receives", span->sender, span->receiver,
                (unsigned)span->id, (long long)span->step);
    fputs("}}", out);
}

/* One end of the arrow of a transfer, inside its slice. */
static void put_flow(const trace *t, int64_t i) {
    const tri_span *span = &t->event->spans[i];
    int64_t number = span->step * t->event->n_spans + span->transfer; /* unique in the file */
    fprintf(t->out, ",\n{\"ph\":\"%s\",\"name\":\"transfer\",\"cat\":\"flow\",\"id\":%lld,\"pid\":%d,\"tid\":%d",
            span->posts ? "s" : "f\",\"bp\":\"e", (long long)number, t->event->rank, t->tid[i]);
    put_micros(t->out, "ts", nanos_of(span->begin));
    fputc('}', t->out);
}

static void put_memory(const trace *t, const tri_span *span) {
    fprintf(t->out, ",\n{\"ph\":\"C\",\"name\":\"memory in use\",\"pid\":%d", t->event->rank);
    put_micros(t->out, "ts", nanos_of(span->begin));
    fputs(",\"args\":{", t->out);
    for (int k = 0, n = 0; k < t->event->n_classes; k++)
        if (span->live[k])
            fprintf(t->out, "%s\"%s\":%lld", n++ ? "," : "", t->event->classes[k], (long long)span->live[k]);
    fputs("}}", t->out);
}

static void put_span(const trace *t, int64_t i) {
    const tri_span *span = &t->event->spans[i];
    fputs(",\n{\"ph\":\"X\",\"name\":", t->out);
    tri__put_text(t->out, span->name);
    fprintf(t->out, ",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d", tracks[span->track].category, t->event->rank, t->tid[i]);
    put_micros(t->out, "ts", nanos_of(span->begin));
    put_micros(t->out, "dur", length_of(span));
    put_args(t->out, span);
    if (span->transfer) put_flow(t, i);
}

/* ---- Link use ---- */

/* At that time the bytes a second of transfers in flight change. */
typedef struct change {
    long long at;
    double rate;
} change;

static int earlier(const void *a, const void *b) {
    const change *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* A transfer's bytes, spread over the time from its post to the end of its wait. Spans of one step follow one another,
 * so the wait of a post is the next span of its number. */
static int64_t find_changes(const tri_event *event, change *list) {
    int64_t n = 0;
    for (int64_t i = 0; i < event->n_spans; i++) {
        const tri_span *post = &event->spans[i];
        int64_t wait = i + 1;
        if (!post->posts || post->sent <= 0) continue;
        while (wait < event->n_spans && event->spans[wait].transfer != post->transfer) wait++;
        if (wait == event->n_spans) continue;
        long long begin = nanos_of(post->begin), end = nanos_of(event->spans[wait].end);
        if (end <= begin) continue;
        double rate = post->sent / (double)(end - begin) * 1e9;
        list[n++] = (change){begin, rate};
        list[n++] = (change){end, -rate};
    }
    qsort(list, (size_t)n, sizeof *list, earlier);
    return n;
}

static void put_link(const trace *t, change *list) {
    int64_t n = find_changes(t->event, list);
    double rate = 0;
    for (int64_t i = 0; i < n; i++) {
        rate += list[i].rate;
        if (i + 1 < n && list[i + 1].at == list[i].at) continue;
        fprintf(t->out, ",\n{\"ph\":\"C\",\"name\":\"link use, bytes/s\",\"pid\":%d", t->event->rank);
        put_micros(t->out, "ts", list[i].at);
        fputs(",\"args\":{\"sent\":", t->out);
        tri__put_real(t->out, i + 1 == n || rate < 0 ? 0 : rate);
        fputs("}}", t->out);
    }
}

/* ---- The file ---- */

static void put_trace(trace *t, change *changes) {
    const tri_event *event = t->event;
    const int64_t *live = NULL;
    fprintf(t->out, "{\"displayTimeUnit\":\"ms\",\"distributedInfo\":{\"rank\":%d,\"world_size\":%d},\"clock\":{"
                    "\"zero\":%.9f,\"uncertainty\":%.9f,\"machine\":%d},\n\"traceEvents\":[\n",
            event->rank, event->world, event->zero, event->uncertainty, event->machine);
    choose_threads(t);
    put_names(t);
    for (int64_t i = 0; i < event->n_spans; i++) {
        const tri_span *span = &event->spans[i];
        put_span(t, i);
        size_t bytes = (size_t)event->n_classes * sizeof *live;
        if (!span->live || (live && memcmp(live, span->live, bytes) == 0)) continue;
        put_memory(t, span);
        live = span->live;
    }
    put_link(t, changes);
    fputs("\n]}\n", t->out);
}

static tri_status save(const char *path, const tri_event *event) {
    TRI_OWNED(tri__free_at) char *text = NULL;
    size_t size = 0, n = (size_t)event->n_spans + 1;
    trace t = {.event = event, .tid = calloc(n, sizeof *t.tid)};
    TRI_OWNED(tri__free_at) change *changes = calloc(2 * n, sizeof *changes);
    t.out = t.tid && changes ? open_memstream(&text, &size) : NULL;
    if (t.out) put_trace(&t, changes);
    int whole = t.out && tri__memstream_close(t.out, &text);
    tri_status status = whole ? tri__file_write(path, text, size) : tri__fail(TRI_RESOURCE, "no memory for %s", path);
    free(t.tid);
    return status;
}

/* context: the folder */
static tri_status emit(void *context, const tri_event *event) {
    if (event->kind != TRI_EVENT_PROFILE || !event->spans) return TRI_OK;
    TRI_PATH(path, context, TRI_TEXT(64, "trace-rank%d.json", event->rank));
    return save(path, event);
}

tri_status tri__trace_open(const char *folder, tri_sink *sink) {
    return tri__folder_sink(folder, emit, "the trace", sink);
}
