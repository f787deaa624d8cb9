/* events.c - log messages as events of a run. */
#include "train/events.h"

static void emit(const tri_sink *sink, tri_event event) {
    event.time = tri__clock_wall();
    if (sink && sink->emit) (void)sink->emit(sink->context, &event);
}

static void emit_message(void *context, tri_log_level level, const char *text) {
    emit(context, (tri_event){.kind = TRI_EVENT_MESSAGE, .level = level, .text = text});
}

static void emit_rows(void *context, int64_t done, int64_t all) {
    emit(context, (tri_event){.kind = TRI_EVENT_ROWS, .step = done, .steps = all});
}

tri_log tri__sink_log(const tri_sink *sink) {
    return (tri_log){.say = emit_message, .rows = emit_rows, .context = (void *)sink};
}
