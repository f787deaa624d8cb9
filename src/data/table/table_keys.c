/* table_keys.c - maps names to numbers: a hash table with linear probing (FNV-1a) over names stored in one block of
 * text. */
#include "data/table/table_parts.h"

static uint64_t hash_of(const char *text, size_t length) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

static void place(tri_keys *keys, int number) {
    size_t at = keys->key[number].hash & (keys->slots - 1);
    while (keys->slot[at]) at = (at + 1) & (keys->slots - 1);
    keys->slot[at] = (uint32_t)number + 1;
}

/* Reserves space for one more name of `length` bytes. */
static int make_room(tri_keys *keys, size_t length) {
    if (!tri__grow(&keys->key, &keys->room, (size_t)keys->n + 1, sizeof *keys->key) ||
        !tri__grow(&keys->text, &keys->room_text, keys->used + length, 1))
        return 0;
    if ((size_t)keys->n * 2 < keys->slots) return 1;
    size_t slots = keys->slots ? keys->slots * 2 : 64;
    uint32_t *slot = calloc(slots, sizeof *slot);
    if (!slot) return 0;
    free(keys->slot);
    keys->slot = slot, keys->slots = slots;
    for (int i = 0; i < keys->n; i++) place(keys, i);
    return 1;
}

int tri__keys_add(tri_keys *keys, const char *text, size_t length) {
    uint64_t hash = hash_of(text, length);
    for (size_t at = hash; keys->slots; at++) {
        uint32_t number = keys->slot[at & (keys->slots - 1)];
        if (!number) break;
        if (keys->key[number - 1].hash == hash && keys->key[number - 1].length == length &&
            (!length || !memcmp(keys->text + keys->key[number - 1].at, text, length)))
            return (int)number - 1;
    }
    if (!make_room(keys, length)) return -1;
    if (length) memcpy(keys->text + keys->used, text, length);
    keys->key[keys->n].at = keys->used, keys->key[keys->n].length = length, keys->key[keys->n].hash = hash;
    keys->used += length;
    place(keys, keys->n);
    return keys->n++;
}

/* Removed in reverse order of insertion, each key leaves the slots as they were before it. */
void tri__keys_cut(tri_keys *keys, int n) {
    while (keys->n > n) {
        int number = --keys->n;
        size_t at = keys->key[number].hash & (keys->slots - 1);
        while (keys->slot[at] != (uint32_t)number + 1) at = (at + 1) & (keys->slots - 1);
        keys->slot[at] = 0;
        keys->used = keys->key[number].at;
    }
}

void tri__keys_free(tri_keys *keys) { TRI_FREE(keys->key, keys->text, keys->slot); }
