/* peaks.c - {"format": "trident-peaks", "version": 1, "peaks": {key: FLOP/s}}, replaced as a whole. Of two writers the
 * last one wins; the other's peak is found again. */
#include "engine/cost/peaks.h"

#include "base/file.h"

enum { MOST = 100 }; /* machines, types and teams: a file of more is begun anew */

/* A new reference to the object of peaks, empty where there is no such file. The text of an earlier failure stays. */
static tri_json *load(const char *path) {
    TRI_OWNED(tri__json_drop) tri_json *root = NULL;
    int there = 0;
    TRI_KEEP_WORDS();
    if (tri__file_there(path, &there) == TRI_OK && there) (void)tri__json_load(path, TRI_DATA, &root);
    const char *format = tri__text_in(root, "format");
    tri_json *peaks = tri__json_get(root, "peaks");
    int known = format && !strcmp(format, "trident-peaks") && tri__json_is_object(peaks) &&
                tri__json_object_size(peaks) < MOST;
    peaks = known ? tri__json_deep_copy(peaks) : tri__json_object();
    return peaks;
}

static double flops_of(const tri_json *peaks, const char *key) {
    double flops = tri__number_in(peaks, key);
    return isfinite(flops) && flops > 0 ? flops : 0;
}

double tri__peak_kept(const char *path, const char *key) {
    TRI_OWNED(tri__json_drop) tri_json *peaks = path ? load(path) : NULL;
    return flops_of(peaks, key);
}

void tri__peak_keep(const char *path, const char *key, double flops) {
    char folder[TRI_PATH_MAX];
    if (!path || !strrchr(path, '/')) return;
    TRI_OWNED(tri__json_drop) tri_json *peaks = load(path);
    if (peaks && flops > flops_of(peaks, key)) {
        tri__json_set_new(peaks, key, tri__json_real(flops));
        TRI_OWNED(tri__json_drop) tri_json *root = tri__json_pack("{s:s, s:i, s:O}", "format",
                                                                  "trident-peaks", "version", 1, "peaks", peaks);
        TRI_KEEP_WORDS();
        snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
        if (tri__json_is_whole(root) && tri__folder_make(folder) == TRI_OK) (void)tri__json_save(path, root);
    }
}
