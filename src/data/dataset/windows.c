/* windows.c - windows of a text. */
#include "data/dataset/windows.h"

#include "base/base.h"

int64_t tri__windows_room(const tri_windows *w) {
    return w->most > 1 ? w->max_len + (int64_t)(w->most - 1) * w->stride : w->max_len;
}

tri_packed tri__windows_packed(const tri_windows *w, int64_t length) {
    int64_t full = 0; /* windows before the last */
    if (w->most > 1 && length > w->max_len) full = (length - w->max_len + w->stride - 1) / w->stride;
    int64_t last = length - full * w->stride;
    return (tri_packed){.windows = full + 1,
                        .tokens = full * w->max_len + last,
                        .squares = (double)full * w->max_len * w->max_len + (double)last * (double)last};
}

/* Last window first: the content of window k moves to k * max_len, at or behind where it and all before it are. */
void tri__windows_expand(const tri_windows *w, int encoder, int64_t length, int32_t *ids) {
    int64_t before = w->before[encoder], after = w->after[encoder], n = tri__windows_packed(w, length).windows;
    int32_t special[TRI_WINDOWS_SPECIALS];
    if (n == 1) return;
    TRI_ASSERT(after <= TRI_WINDOWS_SPECIALS && w->stride <= w->max_len - before - after);
    memcpy(special, ids + length - after, (size_t)after * sizeof *ids);
    for (int64_t k = n - 1; k >= 0; k--) {
        int64_t size = (k + 1 < n ? w->max_len : length - k * w->stride) - before - after; /* of its content */
        int32_t *to = ids + k * w->max_len;
        memmove(to + before, ids + before + k * w->stride, (size_t)size * sizeof *ids);
        if (k) memcpy(to, ids, (size_t)before * sizeof *ids);
        memcpy(to + before + size, special, (size_t)after * sizeof *ids);
    }
}
