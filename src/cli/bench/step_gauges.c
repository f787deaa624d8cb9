/* step_gauges.c - a thread that reads every few milliseconds, and sums over what it read. */
#include "cli/bench/step_gauges.h"

#include <stdatomic.h>

enum { MOST = 1 << 16, EVERY_MS = 4 }; /* readings; later ones are not made */

typedef struct reading {
    double at; /* seconds on tri__clock */
    tri_gauge gauge;
} reading;

struct tri_gauge_watch {
    tri_exec *exec;
    pthread_t thread;
    atomic_int stop;
    int n;
    reading at[MOST];
};

static void *watch_gauges(void *argument) {
    tri_gauge_watch *w = argument;
    struct timespec pause = {.tv_nsec = EVERY_MS * 1000000};
    while (!atomic_load(&w->stop) && w->n < MOST && tri__exec_gauge(w->exec, &w->at[w->n].gauge)) {
        w->at[w->n++].at = tri__clock();
        nanosleep(&pause, NULL);
    }
    return NULL;
}

tri_status tri__gauge_watch(tri_exec *exec, tri_gauge_watch **watch) {
    tri_gauge once;
    *watch = NULL;
    if (!tri__exec_gauge(exec, &once)) return TRI_OK;
    tri_gauge_watch *w = calloc(1, sizeof *w);
    if (!w) return tri__fail(TRI_RESOURCE, "out of memory");
    w->exec = exec;
    if (pthread_create(&w->thread, NULL, watch_gauges, w)) {
        free(w);
        return tri__fail(TRI_RESOURCE, "cannot start a thread that reads the device's clock");
    }
    *watch = w;
    return TRI_OK;
}

void tri__gauge_stop(tri_gauge_watch *w) {
    if (!w) return;
    atomic_store(&w->stop, 1);
    pthread_join(w->thread, NULL);
}

double tri__gauge_clock(const tri_gauge_watch *w, double begin, double end) {
    double sum = 0;
    int n = 0;
    for (int i = 0; w && i < w->n; i++)
        if (w->at[i].at >= begin && w->at[i].at <= end) sum += w->at[i].gauge.clock_mhz, n++;
    return n ? sum / n : 0;
}

void tri__gauge_tell(const tri_gauge_watch *w, double begin, double end, tri_json *to) {
    const reading *first = NULL, *last = NULL;
    double least = 0, by[3] = {0}; /* shares of tri_throttle's bits */
    int n = 0;
    for (int i = 0; w && i < w->n; i++) {
        const reading *r = &w->at[i];
        if (r->at < begin || r->at > end) continue;
        if (!first) first = r;
        last = r, n++;
        if (least == 0 || r->gauge.clock_mhz < least) least = r->gauge.clock_mhz;
        for (int bit = 0; bit < 3; bit++) by[bit] += r->gauge.throttle >> bit & 1;
    }
    if (!n) return;
    double seconds = last->at - first->at;
    tri__json_set_new(to, "clock_mhz", tri__json_real(tri__gauge_clock(w, begin, end)));
    tri__json_set_new(to, "clock_mhz_min", tri__json_real(least));
    if (seconds > 0 && first->gauge.joules > 0)
        tri__json_set_new(to, "power_w", tri__json_real((last->gauge.joules - first->gauge.joules) / seconds));
    if (last->gauge.limit_w > 0) tri__json_set_new(to, "power_limit_w", tri__json_real(last->gauge.limit_w));
    tri__json_set_new(to, "throttled",
                      tri__json_pack("{s:f, s:f, s:f}", "power", by[0] / n, "heat", by[1] / n, "other", by[2] / n));
}
