/* hardware.c - machines by name, and from JSON. Where a row's figures come from: docs/guide/simulating.md. */
#include "sim/hardware.h"

#include "base/file.h"
#include "base/text.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const tri_hardware rows[] = {
    {.name = "h200x8",
     .f32 = 67e12,
     .half = 700e12,
     .attention = 0.35,
     .bytes = 4.3e12,
     .copy = 64e9,
     .launch = 3e-6,
     .ranks_per_node = 8,
     .near = {6e-6, 450e9},
     .far = {10e-6, 50e9},
     .overlap = 1},
    {.name = "a100x8",
     .f32 = 19.5e12,
     .half = 312e12,
     .attention = 0.35,
     .bytes = 2.04e12,
     .copy = 32e9,
     .launch = 3e-6,
     .ranks_per_node = 8,
     .near = {6e-6, 300e9},
     .far = {10e-6, 25e9},
     .overlap = 1},
    {.name = "cpu",
     .f32 = 70e9,
     .half = 267e9,
     .attention = 0.8,
     .bytes = 49e9,
     .copy = 26e9,
     .launch = 1e-6,
     .ranks_per_node = 8,
     .near = {0.3e-6, 30e9},
     .far = {20e-6, 1.25e9},
     .overlap = 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Every key of a file, with the bounds of its value. All are required. */
static const struct {
    const char *key;
    size_t offset;
    double min, max;
} reals[] = {
    {"f32_flops", offsetof(tri_hardware, f32), 1, 1e21},
    {"half_flops", offsetof(tri_hardware, half), 1, 1e21},
    {"attention_share", offsetof(tri_hardware, attention), 1e-6, 10},
    {"memory_bytes_per_s", offsetof(tri_hardware, bytes), 1, 1e18},
    {"copy_bytes_per_s", offsetof(tri_hardware, copy), 1, 1e18},
    {"launch_seconds", offsetof(tri_hardware, launch), 0, 10},
    {"near_latency", offsetof(tri_hardware, near.latency), 0, 10},
    {"near_bytes_per_s", offsetof(tri_hardware, near.bytes), 1, 1e18},
    {"far_latency", offsetof(tri_hardware, far.latency), 0, 10},
    {"far_bytes_per_s", offsetof(tri_hardware, far.bytes), 1, 1e18},
};
enum { REALS = sizeof reals / sizeof *reals };
static const char *const others[] = {"ranks_per_node", "overlap", "_comments"};

const char *tri__hardware_names(void) { return "h200x8, a100x8, cpu"; }

static double *real_at(tri_hardware *h, int i) { return (double *)((char *)h + reals[i].offset); }

static tri_status refuse_unknown(const char *path, const tri_json *root) {
    const char *names[REALS + 3], *key;
    tri_json *value;
    for (int i = 0; i < REALS; i++) names[i] = reals[i].key;
    for (int i = 0; i < 3; i++) names[REALS + i] = others[i];
    tri__json_each_member((tri_json *)root, key, value) {
        int known = 0;
        for (int i = 0; i < REALS + 3; i++) known |= strcmp(key, names[i]) == 0;
        if (known) continue;
        const char *near = tri__text_nearest(key, names, REALS + 3);
        return tri__fail(TRI_USAGE, "%s: unknown key \"%s\"%s%s%s", path, key, near ? "; did you mean \"" : "",
                         near ? near : "", near ? "\"?" : "");
    }
    return TRI_OK;
}

static tri_status read_json(const char *path, const tri_json *root, tri_hardware *out) {
    *out = (tri_hardware){0};
    TRI_TRY(refuse_unknown(path, root));
    for (int i = 0; i < REALS; i++) {
        const tri_json *value = tri__json_get(root, reals[i].key);
        double x = tri__json_number_value(value);
        if (!tri__json_is_number(value) || x < reals[i].min || x > reals[i].max)
            return tri__fail(TRI_USAGE, "%s: %s has to be a number from %g to %g", path, reals[i].key, reals[i].min,
                             reals[i].max);
        *real_at(out, i) = x;
    }
    const tri_json *ranks = tri__json_get(root, "ranks_per_node"), *overlap = tri__json_get(root, "overlap");
    tri_json_int n = tri__json_integer_value(ranks);
    if (n < 1 || n > 1 << 20)
        return tri__fail(TRI_USAGE, "%s: ranks_per_node has to be a whole number from 1 on", path);
    if (!tri__json_is_boolean(overlap)) return tri__fail(TRI_USAGE, "%s: overlap has to be true or false", path);
    out->ranks_per_node = (int)n;
    out->overlap = tri__json_is_true(overlap);
    snprintf(out->name, sizeof out->name, "%.63s", path);
    return TRI_OK;
}

tri_status tri__hardware_find(const char *text, tri_hardware *out) {
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, text) == 0) {
            *out = rows[i];
            return TRI_OK;
        }
    if (!tri__is_file(text))
        return tri__fail(TRI_USAGE, "--hardware %s: neither a file nor one of %s", text, tri__hardware_names());
    tri_json *root;
    TRI_TRY(tri__json_load(text, TRI_USAGE, &root));
    tri_status status = read_json(text, root, out);
    tri__json_decref(root);
    return status;
}

tri_json *tri__hardware_json(const tri_hardware *h) {
    tri_json *root = tri__json_object();
    tri_hardware copy = *h;
    for (int i = 0; i < REALS; i++) tri__json_set_new(root, reals[i].key, tri__json_real(*real_at(&copy, i)));
    tri__json_set_new(root, "ranks_per_node", tri__json_integer(h->ranks_per_node));
    tri__json_set_new(root, "overlap", tri__json_boolean(h->overlap));
    return root;
}
