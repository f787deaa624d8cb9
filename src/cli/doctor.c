/* doctor.c - `trident doctor`: what this machine offers, what is installed, and what does not work without it.
 * Libraries are probed by loading them; only a GPU (for its name) and srun (to list its MPI types) are started. */
#include "cli/cli.h"
#include "cli/slurm_types.h"

#include "base/topology.h"
#include "comm/mpi/load.h"
#include "data/table/unpack.h"
#include "device/device.h"
#include "engine/model_folder.h"
#include "report/text/text_table.h"
#include "sim/hardware.h"
#include "settings/yaml.h"
#include "stack/xgboost.h"
#include "web/http_tls.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/statvfs.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

/* One line of the table; owns its texts. */
typedef struct finding {
    const char *name;
    int found;
    char detail[400];
    const char *cost; /* what its absence costs; NULL when it cannot be absent */
    const tri_cli *cli;
    const tri_settings *settings;
    tri_packer packer;
} finding;

#define FOUND(f, ...) ((f)->found = 1, (void)snprintf((f)->detail, sizeof(f)->detail, __VA_ARGS__))

#define LACKS(f, ...) ((void)snprintf((f)->detail, sizeof(f)->detail, __VA_ARGS__))

static void probe_cpu(finding *f) {
    char features[120] = "";
#if defined __aarch64__
    static const struct {
        int word;
        unsigned long bit;
        const char *name;
    } rows[] = {
        {AT_HWCAP, 1UL << 1, "neon"},   {AT_HWCAP, 1UL << 22, "sve"},   {AT_HWCAP, 1UL << 20, "dotprod"},
        {AT_HWCAP2, 1UL << 13, "i8mm"}, {AT_HWCAP2, 1UL << 14, "bf16"}, {AT_HWCAP2, 1UL << 1, "sve2"},
    };
    const char *machine = "arm64";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (getauxval((unsigned long)rows[i].word) & rows[i].bit)
            tri__text_append(features, sizeof features, " ", "%s", rows[i].name);
#elif defined __x86_64__
    const char *machine = "x86-64";
    if (__builtin_cpu_supports("avx2")) tri__text_append(features, sizeof features, " ", "%s", "avx2");
    if (__builtin_cpu_supports("fma")) tri__text_append(features, sizeof features, " ", "%s", "fma");
    if (__builtin_cpu_supports("avx512f")) tri__text_append(features, sizeof features, " ", "%s", "avx512f");
    if (__builtin_cpu_supports("avx512bf16")) tri__text_append(features, sizeof features, " ", "%s", "avx512bf16");
#else
    const char *machine = "other";
#endif
    FOUND(f, "%s, %ld cores, %s", machine, sysconf(_SC_NPROCESSORS_ONLN), *features ? features : "no vector features");
}

static void probe_threads(finding *f) {
    cpu_set_t set;
    int allowed = sched_getaffinity(0, sizeof set, &set) ? 0 : CPU_COUNT(&set);
#ifdef _OPENMP
    FOUND(f, "OpenMP, %d threads; this process may use %d cores", omp_get_max_threads(), allowed);
#else
    LACKS(f, "built without OpenMP; this process may use %d cores", allowed);
#endif
}

/* The number after `name` in a small system file, or the file's first number when `name` is ""; -1 when there is none,
 * as in "max". Such files have no length, so tri__file_read cannot read them. */
static double number_in(const char *path, const char *name) {
    char text[4096], *rest = text;
    double value = -1;
    tri__file_start(path, text, sizeof text);
    for (char *line; value < 0 && (line = strsep(&rest, "\n"));) {
        char *end, *at = line + strlen(name);
        if (strncmp(line, name, strlen(name))) continue;
        value = strtod(at, &end);
        if (end == at) value = -1;
    }
    return value;
}

static void probe_memory(finding *f) {
    char free_text[32], limit_text[32];
    double available = 1024 * number_in("/proc/meminfo", "MemAvailable:");
    double limit = number_in("/sys/fs/cgroup/memory.max", "");
    if (limit < 0) limit = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", "");
    if (available < 0) return;
    tri__text_bytes(available, free_text);
    if (limit > 0 && limit < 1e15)
        FOUND(f, "%s available, cgroup limit %s", free_text, tri__text_bytes(limit, limit_text));
    else FOUND(f, "%s available, no cgroup limit", free_text);
}

static void probe_shm(finding *f) {
    struct statvfs fs;
    if (statvfs("/dev/shm", &fs) == 0)
        FOUND(f, "%s free", tri__text_bytes((double)fs.f_bavail * (double)fs.f_frsize, (char[32]){0}));
}

/* The first of `names` that loads; NULL if none does. It stays loaded: unloading crashes some libraries. */
static const char *loads(const char *const *names) {
    for (; *names; names++)
        if (dlopen(*names, RTLD_LAZY | RTLD_LOCAL)) return *names;
    return NULL;
}

static int on_path(const char *path, const char *program, char out[static TRI_PATH_MAX]) {
    for (const char *at = path; *at; at += strcspn(at, ":"), at += *at == ':') {
        int length = (int)strcspn(at, ":");
        if (length == 0 || snprintf(out, TRI_PATH_MAX, "%.*s/%s", length, at, program) >= TRI_PATH_MAX) continue;
        if (tri__is_file(out) && access(out, X_OK) == 0) return 1;
    }
    return 0;
}

/* Only a plug-in that loads counts: mpirun and the MPI library alone are not enough. */
static void probe_mpi(finding *f) {
    char program[TRI_PATH_MAX], plugins[200];
    int launcher = on_path(f->cli->path, "mpirun", program);
    tri__mpi_list(plugins, sizeof plugins);
    if (plugins[0]) FOUND(f, "plug-in built with %s; %.80s", plugins, launcher ? program : "no mpirun on the PATH");
    else
        LACKS(f,
              "%s%.80s%s, and no plug-in that loads: install an MPI with mpicc (Debian: libopenmpi-dev) and run make",
              launcher ? "mpirun is there (" : "no mpirun", launcher ? program : "", launcher ? ")" : "");
}

/* The --mpi value for srun depends on the MPI of the plug-in. */
static void probe_slurm(finding *f) {
    char program[TRI_PATH_MAX], types[120];
    if (!on_path(f->cli->path, "srun", program)) return;
    tri__slurm_types(program, types, sizeof types);
    FOUND(f, "%.80s; --mpi can be %s (Open MPI needs pmix, MPICH pmi2)", program,
          types[0] ? types : "nothing that `srun --mpi=list` would say");
}

/* Checks that the plug-in loads and a GPU responds; then reports its name and free memory. */
static void probe_cuda(finding *f) {
    static const char *const driver[] = {"libcuda.so.1", NULL}, *const nccl[] = {"libnccl.so.2", "libnccl.so", NULL};
    const tri_device *device;
    int64_t bytes;
    void *context = NULL;
    if (tri__device_get("cuda", &device) != TRI_OK) {
        LACKS(f, "%s, and no plug-in that loads: make cuda builds it",
                 loads(driver) ? "a driver (libcuda.so.1)" : "no driver (libcuda.so.1)");
    } else if (device->room(&tri__core, 0, &bytes) != TRI_OK || device->open(&tri__core, 0, 0, &context) != TRI_OK) {
        LACKS(f, "the plug-in loads, but %s", loads(driver) ? "no GPU answers" : "there is no driver (libcuda.so.1)");
    } else {
        FOUND(f, "%.90s, %s free, %s", device->describe(context), tri__text_bytes((double)bytes, (char[32]){0}),
              loads(nccl) ? "NCCL" : "no NCCL");
        device->close(context);
    }
}

/* NUMA nodes with their cores; GPUs in runs of the same node, switch and island. */
static void probe_places(finding *f) {
    tri_topology t;
    size_t size = sizeof f->detail;
    tri__topology_read("", &t);
    tri__topology_ask(&t);
    if (!t.n_numa) return;
    FOUND(f, "%d NUMA node%s:", t.n_numa, t.n_numa == 1 ? "" : "s");
    for (int i = 0; i < t.n_numa; i++) tri__text_append(f->detail, size, i ? ", " : " ", "cores %s", t.numa[i].list);
    for (int i = 0, last; i < t.n_gpus; i = last + 1) {
        const tri_gpu_place *gpu = &t.gpu[i];
        for (last = i; last + 1 < t.n_gpus && t.gpu[last + 1].numa == gpu->numa &&
                       t.gpu[last + 1].island == gpu->island && !strcmp(t.gpu[last + 1].above, gpu->above);) last++;
        const char *to = TRI_TEXT(32, last > i ? "s %d-%d" : " %d", i, last);
        tri__text_append(f->detail, size, "; ", "GPU%s: node %d, %s, island %d", to, gpu->numa, gpu->above,
                         gpu->island);
    }
}

static void probe_http(finding *f) {
    char tls[160];
    if (tri__tls_library(tls, sizeof tls) == TRI_OK) FOUND(f, "TLS by %s", tls);
    else FOUND(f, "%s", tls);
}

static void probe_packer(finding *f) {
    const char *version = tri__packer_version(f->packer);
    if (version) FOUND(f, "%s", version);
    else LACKS(f, "not here: %s", tri__packer_remedy(f->packer));
}

static void probe_yaml(finding *f) {
    if (tri__yaml_version()) FOUND(f, "libyaml %s", tri__yaml_version());
    else LACKS(f, "not in this build: apt-get install libyaml-dev, run make");
}

static void probe_xgboost(finding *f) {
    tri_xgboost xgboost;
    if (tri__xgboost_open(&xgboost) == TRI_OK) FOUND(f, "libxgboost %s", xgboost.version);
    else LACKS(f, "not here: apt-get install libxgboost-dev");
}

typedef struct calibrated {
    const char *device, *path;
    char text[190];
} calibrated;

static tri_status read_calibrated(tri_arena *arena, void *data) {
    calibrated *c = data;
    tri_hardware hardware;
    TRI_TRY(tri__hardware_open(arena, c->path, &hardware));
    const char *date = hardware.origin.date;
    snprintf(c->text, sizeof c->text, "%s calibrated %.20s", c->device, date ? date : "(no date)");
    return TRI_OK;
}

/* Whether `trident calibrate` measured the CPU, and when; the GPU likewise. A damaged file stops commands that need
 * it. */
static void probe_hardware(finding *f) {
    static const char *const devices[] = {"cpu", "cuda"};
    char path[TRI_PATH_MAX];
    calibrated c[2] = {{.device = devices[0], .path = path}, {.device = devices[1], .path = path}};
    int bad = 0;
    for (int i = 0; i < 2; i++) {
        if (tri__cli_calibrated(devices[i], path) != TRI_OK || !tri__is_file(path)) continue;
        if (tri__arena_scratch(read_calibrated, &c[i]) == TRI_OK) continue;
        snprintf(c[i].text, sizeof c[i].text, "%.160s (trident calibrate)", tri_error());
        bad = 1;
    }
    const char *join = *c[0].text && *c[1].text ? ", " : "";
    if (!*c[0].text && !*c[1].text) LACKS(f, "not calibrated (trident calibrate)");
    else if (bad) LACKS(f, "%s%s%s", c[0].text, join, c[1].text);
    else FOUND(f, "%s%s%s", c[0].text, join, c[1].text);
}

/* The places where models are searched for, and how many each holds. */
static void probe_models(finding *f) {
    tri_model_place place[TRI_MODEL_PLACES];
    int n = tri__model_places(f->settings, place);
    for (int i = 0; i < n; i++) {
        tri__text_append(f->detail, sizeof f->detail, ", ", "%d in %.100s", place[i].models, place[i].path);
        f->found |= place[i].models > 0;
    }
}

static const struct {
    const char *name, *cost;
    void (*probe)(finding *);
    tri_packer packer; /* of probe_packer */
} probes[] = {
    {"cpu", NULL, probe_cpu, 0},
    {"threads", "one core does all the work", probe_threads, 0},
    {"memory", "plans cannot be compared with what is free", probe_memory, 0},
    {"/dev/shm", "nothing of Trident's: its ranks share memory without a name; MPI may need it", probe_shm, 0},
    {"mpi", "ranks stay on one machine", probe_mpi, 0},
    {"slurm", "srun does not start ranks", probe_slurm, 0},
    {"cuda", "training computes on the CPU", probe_cuda, 0},
    {"http", "no `trident serve`", probe_http, 0},
    {"zlib", "no tables that end in .gz, no Parquet compressed with gzip", probe_packer, TRI_PACKER_ZLIB},
    {"zstd", "no tables that end in .zst, no Parquet or Arrow compressed with zstd", probe_packer, TRI_PACKER_ZSTD},
    {"lz4", "no Parquet or Arrow compressed with lz4", probe_packer, TRI_PACKER_LZ4},
    {"brotli", "no Parquet compressed with brotli", probe_packer, TRI_PACKER_BROTLI},
    {"yaml", "no --accelerate FILE in YAML", probe_yaml, 0},
    {"xgboost", "--stack trains no boosted trees; models that have some are evaluated without it", probe_xgboost, 0},
    {"hardware", "plan, simulate and choose predict for built-in hardware", probe_hardware, 0},
    {"models", "training needs a model's folder: huggingface-cli download NAME", probe_models, 0},
    {"places", "--bind-cores takes cores in the order of their numbers", probe_places, 0},
};
enum { PROBES = sizeof probes / sizeof *probes };

static tri_status print_findings(const tri_cli *cli, const finding *f, int json) {
    if (json) {
        tri_json *object = tri__json_pack("{s:s}", "version", tri_version());
        for (int i = 0; i < PROBES; i++) {
            tri_json *row = tri__json_pack("{s:b, s:s}", "found", f[i].found, "detail", f[i].detail);
            if (!f[i].found && f[i].cost) tri__json_set_new(row, "absence_costs", tri__json_string(f[i].cost));
            tri__json_set_new(object, f[i].name, row);
        }
        return tri__print_json_new(cli->out, object);
    }
    tri_text_table table = {0};
    tri__text_table_add(&table, "what\tfound\tdetail, or what its absence costs");
    for (int i = 0; i < PROBES; i++) {
        const char *cost = f[i].found || !f[i].cost ? "" : f[i].cost;
        tri__text_table_add(&table, "%s\t%s\t%s%s%s", f[i].name, f[i].found ? "yes" : "no", f[i].detail,
                       *f[i].detail && *cost ? "; " : "", cost);
    }
    return tri__print_table(cli, &table);
}

tri_status tri__command_doctor(tri_cli *cli, tri_command_call *call) {
    finding found[PROBES] = {0};
    for (int i = 0; i < PROBES; i++) {
        found[i] = (finding){.name = probes[i].name, .cost = probes[i].cost, .cli = cli, .settings = &call->settings,
                             .packer = probes[i].packer};
        probes[i].probe(&found[i]);
    }
    return print_findings(cli, found, call->settings.json);
}
