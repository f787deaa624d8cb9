/* tee.c - a sink that forwards to several, and what sinks share. */
#include "report/sinks/sinks.h"

void tri__sink_close(tri_sink *sink) {
    free(sink->context);
    *sink = (tri_sink){0};
}

tri_status tri__folder_sink(const char *folder, tri_status (*emit)(void *folder, const tri_event *event),
                            const char *what, tri_sink *sink) {
    *sink = (tri_sink){.emit = emit, .context = strdup(folder)};
    return sink->context ? TRI_OK : tri__fail(TRI_RESOURCE, "no memory for %s", what);
}

typedef struct tee {
    int n;
    tri_sink sink[]; /* [n] */
} tee;

static tri_status emit(void *context, const tri_event *event) {
    const tee *t = context;
    for (int i = 0; i < t->n; i++)
        if (t->sink[i].emit) TRI_TRY(t->sink[i].emit(t->sink[i].context, event));
    return TRI_OK;
}

tri_status tri__tee_open(const tri_sink *sinks, int n, tri_sink *sink) {
    *sink = (tri_sink){0};
    tee *t = malloc(sizeof *t + (size_t)n * sizeof *sinks);
    if (!t) return tri__fail(TRI_RESOURCE, "no memory for %d sinks", n);
    t->n = n;
    if (n) memcpy(t->sink, sinks, (size_t)n * sizeof *sinks);
    *sink = (tri_sink){.emit = emit, .context = t};
    return TRI_OK;
}
