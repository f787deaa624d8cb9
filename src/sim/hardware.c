/* hardware.c - hardware by name, from files that are part of the program, or by path. Where their figures come from:
 * `origin` of each file, and docs/reference/hardware.md. */
#include "sim/hardware.h"

#include "base/embedded.h"
#include "base/file.h"
#include "sim/hardware_keys.h"

TRI_EMBEDDED(tri__hardware_h200x8, "src/sim/h200x8.json");
TRI_EMBEDDED(tri__hardware_a100x8, "src/sim/a100x8.json");
TRI_EMBEDDED(tri__hardware_cpu, "src/sim/cpu.json");

static const struct {
    const char *name, *text, *end;
} rows[] = {
    {"h200x8", tri__hardware_h200x8, tri__hardware_h200x8_end},
    {"a100x8", tri__hardware_a100x8, tri__hardware_a100x8_end},
    {"cpu", tri__hardware_cpu, tri__hardware_cpu_end},
};

const char *tri__hardware_names(void) { return "h200x8, a100x8, cpu"; }

const char *tri__hardware_of(const char *device) { return strcmp(device, "cuda") == 0 ? "h200x8" : "cpu"; }

static tri_status load(const char *text, tri_json **root) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, text) == 0)
            return tri__json_parse(rows[i].text, (size_t)(rows[i].end - rows[i].text), text, TRI_DATA, root);
    int there;
    TRI_TRY(tri__file_there(text, &there));
    if (!there)
        return tri__fail(TRI_USAGE, "--hardware %s: neither a file nor one of %s", text, tri__hardware_names());
    return tri__json_load(text, TRI_DATA, root);
}

tri_status tri__hardware_open(tri_arena *arena, const char *text, tri_hardware *out) {
    TRI_OWNED(tri__json_drop) tri_json *root = NULL;
    TRI_TRY(load(text, &root));
    return tri__hardware_read(arena, text, root, out);
}

#define FIELD(section_, key_, kind_, field) \
    .section = section_, .key = key_, .offset = offsetof(tri_hardware, field), .kind = TRI_KEY_##kind_
#define NEED(key, field, min, max) {FIELD(NULL, key, NUMBER, field), 1, min, max}
#define MAY(section, key, field, min, max) {FIELD(section, key, NUMBER, field), 0, min, max}

const tri_hardware_key tri__hardware_keys[] = {
    NEED("f32_flops", f32, 1, 1e21), NEED("half_flops", half, 1, 1e21),
    NEED("attention_share", attention, 1e-6, 10), NEED("memory_bytes_per_s", bytes, 1, 1e18),
    NEED("copy_bytes_per_s", copy, 1, 1e18), NEED("launch_seconds", launch, 0, 10),
    {FIELD(NULL, "ranks_per_node", WHOLE, ranks_per_node), 1, 1, 1 << 20},
    NEED("near_latency", near.latency, 0, 10), NEED("near_bytes_per_s", near.bytes, 1, 1e18),
    NEED("far_latency", far.latency, 0, 10), NEED("far_bytes_per_s", far.bytes, 1, 1e18),
    MAY(NULL, "memory_bytes", memory, 1 << 20, 1e18), {FIELD(NULL, "cores", WHOLE, cores), 0, 0, 1 << 20},
    MAY(NULL, "queue_seconds", queue, 0, 10), MAY(NULL, "lane_share", lane_share, 0.1, 10),
    MAY(NULL, "node_bytes_per_s", node_bytes, 1, 1e18),
    {FIELD("islands", "ranks", WHOLE, islands.ranks), 0, 1, 1 << 20}, MAY("islands", "latency", islands.latency, 0, 10),
    MAY("islands", "bytes_per_s", islands.bytes, 1, 1e18),
    MAY("peak_flops", "f32", peak[TRI_F32], 1, 1e21), MAY("peak_flops", "bf16", peak[TRI_BF16], 1, 1e21),
    MAY("peak_flops", "f16", peak[TRI_F16], 1, 1e21), MAY("peak_flops", "i8", peak[TRI_I8], 1, 1e21),
    MAY("peak_flops", "f8", peak[TRI_F8_E4M3], 1, 1e21),
    MAY("host", "start_seconds", host.start, 0, 1e4), MAY("host", "rank_start_seconds", host.rank_start, 0, 1e4),
    MAY("host", "row_seconds", host.row, 0, 10), MAY("host", "token_seconds", host.token, 0, 10),
    MAY("host", "step_seconds", host.step, 0, 10), MAY("host", "row_result_seconds", host.row_result, 0, 10),
    MAY("host", "read_bytes_per_s", host.read, 1, 1e18), MAY("host", "write_bytes_per_s", host.write, 1, 1e18),
    MAY("offload", "in_bytes_per_s", offload.in, 1, 1e18), MAY("offload", "out_bytes_per_s", offload.out, 1, 1e18),
    MAY("offload", "latency", offload.latency, 0, 10),
    MAY("watts", "idle", watts.idle, 0, 1e6), MAY("watts", "busy", watts.busy, 1e-3, 1e6),
    {FIELD(NULL, "overlap", SWITCH, overlap), .required = 1}, {FIELD(NULL, "device", TEXT, device)},
    {FIELD("origin", "measured", TEXTS, origin.measured)}, {FIELD("origin", "maker", TEXTS, origin.maker)},
    {FIELD("origin", "assumed", TEXTS, origin.assumed)}, {FIELD("origin", "machine", TEXT, origin.machine)},
    {FIELD("origin", "date", TEXT, origin.date)}, {FIELD("origin", "version", TEXT, origin.version)},
    {.key = NULL},
};

const char *tri__link_kind_name(tri_link_kind kind) {
    static const char *const names[TRI_LINK_KINDS] = {"send",           "broadcast", "all_reduce", "all_gather",
                                                      "reduce_scatter", "all_to_all", "control",   "copy_in",
                                                      "copy_out"};
    return names[kind];
}

int tri__hardware_here(const tri_hardware *h, int world) {
    return world < h->ranks_per_node ? world : h->ranks_per_node;
}

int tri__hardware_threads(const tri_hardware *h, int world, int asked) {
    int here = tri__hardware_here(h, world);
    return asked || !h->cores ? asked : h->cores > here ? h->cores / here : 1;
}
