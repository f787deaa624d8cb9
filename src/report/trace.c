/* trace.c - trace-rank<r>.json: the recorded steps in Chrome's trace format. One process per rank, one thread per
 * track. Times are truncated to whole nanoseconds first, so that rounding never makes neighbouring spans overlap. */
#include "report/sinks.h"

#include "base/file.h"
#include "report/numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *thread, *category;
} tracks[] = {{"main", "op"}, {"data", "data"}, {"comm", "comm"}};
enum { TRACKS = sizeof tracks / sizeof *tracks };

static void put_micros(FILE *out, const char *key, long long nanos) {
    fprintf(out, ",\"%s\":%lld.%03lld", key, nanos / 1000, nanos % 1000);
}

static void put_span(FILE *out, const tri_span *span, int rank) {
    int track = span->track >= 0 && span->track < TRACKS ? span->track : 0;
    long long begin = llround(span->begin * 1e9), end = llround(span->end * 1e9);
    fputs(",\n{\"ph\":\"X\",\"name\":", out);
    tri__put_text(out, span->name);
    fprintf(out, ",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d", tracks[track].category, rank, track);
    put_micros(out, "ts", begin < 0 ? 0 : begin);
    put_micros(out, "dur", end < begin ? 0 : end - begin);
    fputs(",\"args\":{\"unit\":", out);
    tri__put_text(out, span->unit);
    fputs(",\"shape\":", out);
    tri__put_text(out, span->shape);
    fputs(",\"flops\":", out);
    tri__put_real(out, span->flops);
    fputs(",\"bytes\":", out);
    tri__put_real(out, span->bytes);
    fprintf(out, ",\"mb\":%d,\"step\":%lld}}", span->mb, (long long)span->step);
}

static void put_trace(FILE *out, const tri_event *event) {
    int used[TRACKS] = {1};
    fprintf(out,
            "{\"displayTimeUnit\":\"ms\",\"distributedInfo\":{\"backend\":\"none\",\"rank\":%d,\"world_size\":%d},\n"
            "\"traceEvents\":[\n",
            event->rank, event->world);
    fprintf(out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}", event->rank,
            event->rank);
    fprintf(out, ",\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":%d}}",
            event->rank, event->rank);
    for (int64_t i = 0; i < event->n_spans; i++)
        if (event->spans[i].track >= 0 && event->spans[i].track < TRACKS) used[event->spans[i].track] = 1;
    for (int t = 0; t < TRACKS; t++)
        if (used[t])
            fprintf(out, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}",
                    event->rank, t, tracks[t].thread);
    for (int64_t i = 0; i < event->n_spans; i++) put_span(out, &event->spans[i], event->rank);
    fputs("\n]}\n", out);
}

/* context: the folder */
static tri_status emit(void *context, const tri_event *event) {
    char path[TRI_PATH_MAX], name[64], *text = NULL;
    size_t size = 0;
    if (event->kind != TRI_EVENT_PROFILE || !event->spans) return TRI_OK;
    snprintf(name, sizeof name, "trace-rank%d.json", event->rank);
    TRI_TRY(tri__path_join(path, context, name));
    FILE *out = open_memstream(&text, &size);
    if (!out) return tri__fail(TRI_RESOURCE, "no memory for %s", path);
    put_trace(out, event);
    int failed = ferror(out);
    failed |= fclose(out);
    tri_status status = failed || !text ? tri__fail(TRI_RESOURCE, "no memory for %s", path)
                                        : tri__file_write(path, text, size);
    free(text);
    return status;
}

tri_status tri__trace_open(const char *folder, tri_sink *sink) {
    *sink = (tri_sink){.emit = emit, .context = strdup(folder)};
    return sink->context ? TRI_OK : tri__fail(TRI_RESOURCE, "no memory for the trace");
}

void tri__trace_close(tri_sink *sink) {
    free(sink->context);
    *sink = (tri_sink){0};
}
