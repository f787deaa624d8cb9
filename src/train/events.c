/* events.c - log messages as events of a run. */
#include "train/events.h"

#include "base/clock.h"

static void emit_message(void *context, tri_log_level level, const char *text) {
    const tri_sink *sink = context;
    tri_event event = {.kind = TRI_EVENT_MESSAGE, .time = tri__clock_wall(), .level = level, .text = text};
    if (sink && sink->emit) (void)sink->emit(sink->context, &event);
}

tri_log tri__sink_log(const tri_sink *sink) { return (tri_log){.say = emit_message, .context = (void *)sink}; }
