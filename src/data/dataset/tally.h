/* tally.h - counts of distinct values, by hash. */
#pragma once

#include <stdint.h>

/* Counts of distinct values, by 64-bit hash: values with equal hashes count as equal. */
typedef struct tri_tally {
    struct tri_tally_entry {
        uint64_t hash;
        int64_t count, first; /* occurrences; the row of the first */
    } *entry;                 /* [n] in order of appearance */
    int64_t n, capacity;
    int64_t *slot;            /* [mask + 1] index of entry + 1; 0: free */
    uint64_t mask;
} tri_tally;

/* Counts a value; returns its entry's index, -1 if out of memory. A tally is initialised with zeros. */
int64_t tri__tally_add(tri_tally *tally, uint64_t hash, int64_t row);
int64_t tri__tally_find(const tri_tally *tally, uint64_t hash); /* -1 */
void tri__tally_free(tri_tally *tally);
