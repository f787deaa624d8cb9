/* kept.c - where ranks keep their state, and of which steps. */
#include "comm/world/kept.h"

static tri_rank_line *own_line(tri_world *world) { return &world->segment.control->line[world->local]; }

void tri__kept_place(tri_world *world, const void *area, size_t bytes) {
    tri_rank_line *line = own_line(world);
    for (int i = 0; i < 2; i++) atomic_store(&line->kept[i], 0);
    atomic_store(&line->kept_at, bytes ? (uint64_t)((const char *)area - world->segment.base) : 0);
    atomic_store(&line->kept_bytes, bytes);
}

void tri__kept_begin(tri_world *world, int64_t step) { atomic_store(&own_line(world)->kept[step & 1], 0); }

void tri__kept_end(tri_world *world, int64_t step) { atomic_store(&own_line(world)->kept[step & 1], step + 1); }

static int all_have(const tri_segment *segment, int64_t step) {
    for (int i = 0; i < segment->n; i++)
        if (atomic_load(&segment->control->line[i].kept[step & 1]) != step + 1) return 0;
    return 1;
}

int64_t tri__kept_step(const tri_segment *segment) {
    int64_t newest = -1;
    for (int i = 0; i < 2; i++) {
        int64_t step = atomic_load(&segment->control->line[0].kept[i]) - 1;
        if (step > newest && (step & 1) == i && all_have(segment, step)) newest = step;
    }
    return newest;
}

const void *tri__kept_area(const tri_segment *segment, int local, size_t *bytes) {
    const tri_rank_line *line = &segment->control->line[local];
    uint64_t at = atomic_load(&line->kept_at), size = atomic_load(&line->kept_bytes);
    if (!size || at > segment->bytes || size > segment->bytes - at) return NULL;
    *bytes = size;
    return segment->base + at;
}
