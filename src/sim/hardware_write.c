/* hardware_write.c - hardware as JSON, texts first, then in the order of its keys; what a file may leave out is left
 * out where empty. */
#include "sim/hardware_keys.h"
#include "sim/sizes.h"

static tri_json *value_json(const tri_hardware_key *key, const void *at) {
    const struct tri_hardware_names *names = at;
    switch (key->kind) {
    case TRI_KEY_NUMBER: return tri__json_real(*(const double *)at);
    case TRI_KEY_WHOLE: return tri__json_integer(*(const int *)at);
    case TRI_KEY_SWITCH: return tri__json_boolean(*(const int *)at);
    case TRI_KEY_TEXT: return tri__json_string(*(const char *const *)at);
    default: return tri__json_strings((char *const *)names->at, names->n);
    }
}

static void add_member(tri_json *root, const tri_hardware *h, const tri_hardware_key *key) {
    static const size_t bytes[] = {sizeof(double), sizeof(int), sizeof(int), sizeof(char *),
                                   sizeof(struct tri_hardware_names)}; /* by kind */
    static const struct tri_hardware_names nothing;
    const void *at = (const char *)h + key->offset;
    tri_json *object = key->section ? tri__json_get(root, key->section) : root;
    if (!key->required && memcmp(at, &nothing, bytes[key->kind]) == 0) return;
    if (!object) tri__json_set_new(root, key->section, object = tri__json_object());
    if (object) tri__json_set_new(object, key->key, value_json(key, at)); /* else root is incomplete */
}

static tri_json *kernels_json(const tri_hardware *h) {
    tri_json *rows = tri__json_array();
    for (int i = 0; i < h->n_kernels; i++) {
        const tri_kernel_curve *curve = &h->kernel[i];
        const char *names[TRI_SIZES];
        tri_json *points = tri__json_array();
        int sizes = tri__op_sizes(tri__variant_row(curve->variant), names);
        for (int k = 0; k < curve->n; k++) {
            const tri_kernel_point *from = &curve->point[k];
            tri_json *point = tri__json_array();
            for (int j = 0; j < sizes; j++) tri__json_append_new(point, tri__json_real(from->size[j]));
            tri__json_append_new(point, tri__json_real(from->seconds));
            tri__json_append_new(point, tri__json_real(from->spread));
            tri__json_append_new(points, point);
        }
        tri_json *row = tri__json_pack("{s:s, s:s, s:i, s:o}", "op", tri__variant_row(curve->variant)->name, "dtype",
                                       tri__dtype_name(curve->dtype), "threads", curve->threads, "points", points);
        if (row && curve->adds) tri__json_set_new(row, "adds", tri__json_boolean(1));
        if (row && curve->code) tri__json_set_new(row, "code", tri__json_string(tri__code_name(curve->code)));
        if (row && (curve->tile[0] || curve->tile[1]))
            tri__json_set_new(row, "tile", tri__json_pack("[i, i]", curve->tile[0], curve->tile[1]));
        tri__json_append_new(rows, row);
    }
    return rows;
}

static tri_json *links_json(const tri_hardware *h) {
    tri_json *rows = tri__json_array();
    for (int i = 0; i < h->n_links; i++) {
        const tri_link_curve *curve = &h->link[i];
        tri_json *points = tri__json_array();
        for (int k = 0; k < curve->n; k++)
            tri__json_append_new(points, tri__json_pack("[f, f, f]", curve->point[k].bytes, curve->point[k].seconds,
                                                        curve->point[k].spread));
        tri__json_append_new(rows, tri__json_pack("{s:s, s:i, s:i, s:o}", "kind", tri__link_kind_name(curve->kind),
                                                  "ranks", curve->ranks, "nodes", curve->nodes, "points", points));
    }
    return rows;
}

tri_json *tri__hardware_json(const tri_hardware *h) {
    tri_json *root = tri__json_object();
    for (int texts = 1; texts >= 0; texts--)
        for (const tri_hardware_key *key = tri__hardware_keys; key->key; key++)
            if ((key->kind >= TRI_KEY_TEXT) == texts) add_member(root, h, key);
    if (h->target) tri__json_set_new(root, "target", tri__target_json(h->target));
    tri__json_set_filled(root, "links", links_json(h));
    tri__json_set_filled(root, "kernels", kernels_json(h));
    return root;
}
