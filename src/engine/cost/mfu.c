/* mfu.c - nominal FLOPs, and peaks from hardware files or by measuring: the best of several products, and of all runs
 * on the machine, since others may use its cores. */
#include "engine/cost/mfu.h"

#include "engine/cost/ceiling.h"
#include "model/family.h"
#include "plan/layer_gates.h"
#include "sim/hardware.h"

#include <unistd.h>

/* A mean layer's forward pass: query, key, value and output projections, the two feed-forward products of as many
 * experts as a token chooses, or three where they are gated, attention scores, with DeBERTa's further terms, and the
 * weighted sum of values, over the pairs of a query and a key that it attends to. */
static double layer_flops(const tri_encoder *e, double tokens, double pairs) {
    double h = (double)e->hidden_size, inner = (double)e->intermediate_size;
    double mixes = (double)tri__encoder_expert_layers(e) / (double)e->num_hidden_layers;
    if (mixes > 0) inner *= 1 + mixes * (double)(e->experts_per_token - 1);
    double products = tri__family(e)->gated ? 3 : 2;
    int terms = (e->pos_att_type & 1) + (e->pos_att_type >> 1 & 1);
    return tokens * (8 * h * h + 2 * products * h * inner) + (4 + 2 * terms) * pairs * h;
}

/* A layer's passes, of the work of a forward pass each, in the mean: forward, gradients of inputs, and of weights. A
 * frozen layer has the first, and the second where something below it is trained. */
static double passes(const tri_network *model, int text) {
    double sum = 0, n = 0;
    int trained = 0; /* something below */
    const char *prefix = TRI_TEXT(32, "%s.", tri__branch_name(text));
    for (int u = 0; u < model->n_units; u++) {
        const tri_unit *unit = &model->unit[u];
        if (!tri__text_begins(unit->name, prefix)) continue;
        if (tri__text_begins(unit->name + strlen(prefix), "layer.") && !unit->experts)
            sum += !unit->frozen ? 3 : trained ? 2 : 1, n++;
        trained |= !unit->frozen;
    }
    return n > 0 ? sum / n : 3;
}

double tri__nominal_flops(const tri_engine *engine, int text, double tokens, double squares,
                          const tri_open_gates *now) {
    const tri_network *model = &engine->model;
    const tri_blocks *present = &model->blocks[text];
    if (present->word && tokens * present->keys < squares) {
        const tri_encoder *e = &model->encoder[text];
        int64_t n = 0;
        for (int64_t i = 0; i < e->num_hidden_layers; i++) n += tri__encoder_is_local(e, i);
        double local = (double)n / (double)e->num_hidden_layers;
        squares = local * tokens * present->keys + (1 - local) * squares;
    }
    double layers = tri__layers_open(&engine->in.layer_drop, model, text, now);
    return passes(model, text) * layers * layer_flops(&model->encoder[text], tokens, squares);
}

double tri__nominal_batch(const tri_engine *engine, const tri_dataset *data, const int64_t *rows, int64_t n,
                          const tri_open_gates *now) {
    double flops = 0;
    for (int text = 0; text < engine->model.n_texts; text++) {
        double tokens = 0, squares = 0;
        for (int64_t i = 0; i < n; i++) {
            tri_packed packed = tri__dataset_packed(data, text, rows[i]);
            tokens += (double)packed.tokens, squares += packed.squares;
        }
        flops += tri__nominal_flops(engine, tri__reader(&engine->model.readers, text), tokens, squares, now);
    }
    return flops;
}

/* ---- Peaks, of the computing type: with --precision fp8 those of bf16 ---- */

static int ranks_here(const tri_place *place) { return place->world ? place->world->segment.n : 1; }

typedef struct peak_job {
    const tri_settings *settings;
    const tri_engine *engine;
    tri_peak *out;
} peak_job;

/* peak_flops is that of one rank's device or, where ranks share cores, of all cores of a node. */
static tri_status from_file(tri_arena *scratch, void *data) {
    const peak_job *job = data;
    const tri_engine *e = job->engine;
    tri_hardware hardware;
    TRI_TRY(tri__hardware_open(scratch, job->settings->hardware, &hardware));
    double ranks = tri__mesh_world(&e->place.mesh), peak = hardware.peak[e->in.precision];
    if (hardware.device && strcmp(hardware.device, e->device->name) != 0) return TRI_OK; /* plans are timed by it */
    if (hardware.cores) {
        double used = (double)ranks_here(&e->place) * e->threads / hardware.cores;
        peak *= (used < 1 ? used : 1) / ranks_here(&e->place);
    }
    if (peak <= 0) return TRI_OK;
    job->out->flops = peak * ranks;
    snprintf(job->out->from, sizeof job->out->from, "hardware %s", hardware.name);
    return TRI_OK;
}

static void make_key(const tri_engine *e, char out[static TRI_PEAK_KEY]) {
    char host[65] = "";
    if (gethostname(host, sizeof host - 1) != 0) host[0] = 0;
    snprintf(out, TRI_PEAK_KEY, "%s %.60s %s threads=%d", host, tri__exec_describe(e->exec),
             tri__dtype_name(e->in.precision), e->threads);
}

/* The fastest of some products, the largest of which takes a few milliseconds. The first is large enough that threads
 * which wait for a core do not determine its time. Where none was kept, many: some of them find the cores free. */
static tri_status measure(const tri_engine *e, int many, double *flops) {
    enum { FIRST = 256, LARGEST = 1024 };
    static const double enough = 3e-3; /* seconds of one product */
    for (tri_ceiling_product of = {e->in.precision, FIRST, e->threads, 1, many ? TRI_CEILING_TIMED : 3, 1};
         of.n <= LARGEST; of.n *= 2) {
        double rate, n = 2.0 * of.n;
        TRI_TRY(tri__ceiling(e->device, &of, &rate));
        if (rate > *flops) *flops = rate;
        if (rate <= 0 || 2 * n * n * n / rate > enough) break;
    }
    return TRI_OK;
}

static tri_status measure_team(const char *path, const tri_engine *e, tri_peak *out) {
    make_key(e, out->key);
    double kept = tri__peak_kept(path, out->key);
    TRI_TRY(measure(e, !kept, &out->team));
    if (out->team > kept) tri__peak_keep(path, out->key, out->team);
    out->team = fmax(out->team, kept);
    return TRI_OK;
}

/* One rank of each machine measures while the others wait; the sum over machines. */
static tri_status measure_all(const char *path, const tri_engine *e, tri_peak *out) {
    tri_world *world = e->place.world;
    double flops, teams = (double)tri__cores() / e->threads, ranks = ranks_here(&e->place);
    if (!world || world->local == 0) TRI_TRY(measure_team(path, e, out));
    flops = out->team;
    flops *= ranks < teams ? ranks : teams < 1 ? 1 : teams;
    if (world) TRI_TRY(tri_all_reduce(tri_group_world(world), NULL, &flops, 1, TRI_F64, TRI_SUM));
    if (flops <= 0) return TRI_OK;
    out->flops = flops;
    strcpy(out->from, "measured");
    return TRI_OK;
}

tri_status tri__peak_find(const tri_settings *settings, const tri_engine *engine, tri_peak *out) {
    peak_job job = {settings, engine, out};
    *out = (tri_peak){0};
    if (settings->hardware) TRI_TRY(tri__arena_scratch(from_file, &job));
    if (out->flops > 0 || strcmp(engine->device->name, "cpu") != 0) return TRI_OK;
    return measure_all(settings->peaks, engine, out);
}

void tri__peak_reached(const char *path, double nominal, double executed, tri_peak *peak) {
    if (peak->team <= 0) return;
    if (executed > peak->team) {
        peak->flops *= executed / peak->team;
        peak->team = executed;
        tri__peak_keep(path, peak->key, executed);
    }
    peak->flops = fmax(peak->flops, nominal);
}
