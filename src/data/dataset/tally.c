/* tally.c - counts distinct values by hash: open addressing over a dense list of entries, at most half full. */
#include "data/dataset/tally.h"

#include "base/owned.h"

/* The slot of a hash, or the free slot where it would go. */
static int64_t *find_slot(const tri_tally *tally, uint64_t hash) {
    uint64_t at = hash & tally->mask;
    while (tally->slot[at] && tally->entry[tally->slot[at] - 1].hash != hash) at = (at + 1) & tally->mask;
    return &tally->slot[at];
}

static int grow(tri_tally *tally) {
    int64_t capacity = tally->capacity ? 2 * tally->capacity : 64;
    struct tri_tally_entry *entry = realloc(tally->entry, (size_t)capacity * sizeof *entry);
    if (!entry) return 0;
    tally->entry = entry;
    int64_t *slot = calloc((size_t)capacity * 2, sizeof *slot);
    if (!slot) return 0;
    free(tally->slot);
    tally->slot = slot, tally->capacity = capacity, tally->mask = (uint64_t)capacity * 2 - 1;
    for (int64_t i = 0; i < tally->n; i++) *find_slot(tally, entry[i].hash) = i + 1;
    return 1;
}

int64_t tri__tally_add(tri_tally *tally, uint64_t hash, int64_t row) {
    if (tally->n == tally->capacity && !grow(tally)) return -1;
    int64_t *slot = find_slot(tally, hash);
    if (!*slot) {
        tally->entry[tally->n++] = (struct tri_tally_entry){.hash = hash, .first = row};
        *slot = tally->n;
    }
    tally->entry[*slot - 1].count++;
    return *slot - 1;
}

int64_t tri__tally_find(const tri_tally *tally, uint64_t hash) { return tally->n ? *find_slot(tally, hash) - 1 : -1; }

void tri__tally_free(tri_tally *tally) {
    TRI_FREE(tally->entry, tally->slot);
    *tally = (tri_tally){0};
}
