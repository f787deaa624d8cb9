/* sink_events.h - what tests of sinks share: events sent to them, and the files that they leave in the scratch folder.
 */
#ifndef TESTS_SINK_EVENTS_H
#define TESTS_SINK_EVENTS_H

#include "report/sinks/sinks.h"
#include "tests/lib/test.h"
#include "tests/lib/scratch.h"

static inline void send(const tri_sink *sink, tri_event event) {
    assert_int_equal(sink->emit(sink->context, &event), TRI_OK);
}

static inline tri_event train_event(int64_t step, double time) {
    return (tri_event){.kind = TRI_EVENT_TRAIN,
                       .time = time,
                       .step = step,
                       .steps = 200,
                       .epoch = (double)step / 100,
                       .epochs = 2,
                       .loss = 0.5,
                       .learning_rate = 4.6e-5,
                       .grad_norm = 1.25,
                       .step_seconds = 0.25,
                       .loader_seconds = 0.025,
                       .samples = 8,
                       .tokens = 6025,
                       .flops = 34.5e9,
                       .mem_bytes = 41287680};
}

/* A file's text; the caller frees it. */
static inline char *text_of(const char *name, size_t *size) {
    char path[TRI_PATH_MAX], *text;
    size_t bytes;
    assert_int_equal(tri__path_join(path, folder, name), TRI_OK);
    assert_int_equal(tri__file_read(path, 1 << 20, &text, &bytes), TRI_OK);
    if (size) *size = bytes;
    return text;
}

#endif
