/* wisdom.c - the table of algorithms by shape. */
#include "device/wisdom.h"

const tri_wisdom_entry *tri__wisdom_find(const tri_wisdom *wisdom, const tri_product_shape *shape) {
    for (int i = 0; i < wisdom->n; i++)
        if (memcmp(&wisdom->entry[i].shape, shape, sizeof *shape) == 0) return &wisdom->entry[i];
    return NULL;
}

void tri__wisdom_add(tri_wisdom *wisdom, const tri_wisdom_entry *entry) {
    if (wisdom->n < TRI_WISDOM_MAX && !tri__wisdom_find(wisdom, &entry->shape)) wisdom->entry[wisdom->n++] = *entry;
}
