/* stop.c - whether a run should end now. */
#include "train/stop.h"

static const double RESERVE = 30, TIMES = 3; /* seconds; steps and checkpoints */

int tri__stop_asked(const tri_stop *stop, const tri_world *world, double need) {
    if (world && atomic_load_explicit(&world->segment.control->stop, memory_order_relaxed)) return 1;
    if (!stop) return 0;
    if (tri__stop_signalled(stop)) return 1;
    return stop->deadline > 0 && tri__clock_wall() + RESERVE + TIMES * need > stop->deadline;
}

const char *tri__stop_text(const tri_stop *stop, char out[static 32]) {
    if (tri__stop_signalled(stop)) tri__stop_name(stop, out);
    else if (stop && stop->deadline > 0 && tri__stop_asked(stop, NULL, 0)) strcpy(out, "the job's end is near");
    else strcpy(out, "another rank was asked to");
    return out;
}
