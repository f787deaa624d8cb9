/* events.c - log messages as events of a run. */
#include "train/events.h"

#include "base/clock.h"

static void emit_message(void *context, tri_log_level level, const char *text) {
    const tri_sink *sink = context;
    tri_event event = {.kind = TRI_EVENT_MESSAGE, .time = tri__clock_wall(), .level = level, .text = text};
    if (sink && sink->emit) (void)sink->emit(sink->context, &event);
}

static void emit_rows(void *context, int64_t done, int64_t all) {
    const tri_sink *sink = context;
    tri_event event = {.kind = TRI_EVENT_ROWS, .time = tri__clock_wall(), .step = done, .steps = all};
    if (sink && sink->emit) (void)sink->emit(sink->context, &event);
}

tri_log tri__sink_log(const tri_sink *sink) {
    return (tri_log){.say = emit_message, .rows = emit_rows, .context = (void *)sink};
}
