/* kept.c - where ranks keep their state, and of which steps. */
#include "comm/world/kept.h"

void tri__kept_place(tri_world *world, const void *area, size_t bytes) {
    tri_rank_line *line = tri__own_line(world);
    for (int i = 0; i < 2; i++) atomic_store(&line->kept[i], 0);
    atomic_store(&line->kept_at, bytes ? (uint64_t)((const char *)area - world->segment.base) : 0);
    atomic_store(&line->kept_bytes, bytes);
}

void tri__kept_begin(tri_world *world, int64_t step) { atomic_store(&tri__own_line(world)->kept[step & 1], 0); }

void tri__kept_end(tri_world *world, int64_t step) { atomic_store(&tri__own_line(world)->kept[step & 1], step + 1); }

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

/* ---- held ---- */

/* At the beginning of a page; the area begins with the next one. Areas of a rank form a list. */
struct tri_held {
    uint64_t next_at;         /* in the segment; 0: the last */
    int64_t rank;
    uint64_t bytes;
    _Atomic int64_t kept[2];
};
enum { AREA_AT = 4096 };

tri_status tri__kept_hold(tri_world *world, int rank, size_t bytes, tri_held **out) {
    tri_rank_line *line = tri__own_line(world);
    void *memory;
    TRI_TRY(tri_heap_alloc(world, AREA_AT + bytes, &memory));
    tri_held *held = memory;
    held->next_at = atomic_load(&line->held_at), held->rank = rank, held->bytes = bytes;
    atomic_store(&line->held_at, (uint64_t)((const char *)memory - world->segment.base));
    *out = held;
    return TRI_OK;
}

void *tri__held_area(tri_held *held) { return (char *)held + AREA_AT; }

void tri__held_begin(tri_held *held, int64_t step) { atomic_store(&held->kept[step & 1], 0); }

void tri__held_end(tri_held *held, int64_t step) { atomic_store(&held->kept[step & 1], step + 1); }

static int64_t newest(const int64_t kept[2]) { return kept[0] > kept[1] ? kept[0] : kept[1]; }

/* The held area at an offset that a rank wrote; NULL: it cannot be one. */
static const tri_held *held_at(const tri_segment *segment, uint64_t at) {
    if (!at || at % AREA_AT || at > segment->bytes || segment->bytes - at < AREA_AT) return NULL;
    const tri_held *held = (const void *)(segment->base + at);
    return held->bytes <= segment->bytes - at - AREA_AT ? held : NULL;
}

const void *tri__kept_find(const tri_segment *segment, int rank, size_t *bytes, int64_t kept[static 2]) {
    const void *found = NULL;
    kept[0] = kept[1] = 0;
    for (int i = 0; i < segment->n; i++) {
        const tri_rank_line *line = &segment->control->line[i];
        const int64_t own[2] = {atomic_load(&line->kept[0]), atomic_load(&line->kept[1])};
        const void *area = segment->control->rank_of[i] == rank ? tri__kept_area(segment, i, bytes) : NULL;
        if (area) {
            kept[0] = own[0], kept[1] = own[1];
            return area;
        }
        const tri_held *held = held_at(segment, atomic_load(&line->held_at));
        for (int turn = 0; held && turn < segment->control->world; turn++, held = held_at(segment, held->next_at)) {
            const int64_t steps[2] = {atomic_load(&held->kept[0]), atomic_load(&held->kept[1])};
            if (held->rank != rank || newest(steps) <= newest(kept)) continue;
            kept[0] = steps[0], kept[1] = steps[1];
            *bytes = held->bytes;
            found = (const char *)held + AREA_AT;
        }
    }
    return found;
}
