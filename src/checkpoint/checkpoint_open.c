/* checkpoint_open.c - opens a checkpoint after verifying it: manifest, sizes and hashes of all files, and that every
 * listed slice is where the manifest says. Reading a piece then only copies. */
#include "checkpoint/checkpoint_parts.h"
#include "checkpoint/folders.h"
#include "checkpoint/run_set.h"
#include "checkpoint/content_hash.h"
#include "checkpoint/quantized_weights.h"
#include "checkpoint/reshard.h"
#include "numbers/quantized.h"

#include <sys/resource.h>

enum { SLICES_MAX = 1 << 16, RUNS_MAX = 1 << 8 }; /* slices of a tensor; contiguous runs of slices */

struct tri_checkpoint {
    char *path;
    int64_t step;
    tri_json *manifest, *config, *preprocessing;
    tri_json *tensors;        /* name -> row of the manifest */
    tri_json *shards;         /* file name -> index of `shard` */
    tri_st_file *shard;     /* [n_shards] */
    int n_shards;
    tri_json *quantized_of;   /* name of an I8 tensor -> index of `quantized` */
    tri_quantized *quantized; /* [n_quantized] */
    int n_quantized;
};

/* A stored slice. */
typedef struct stored {
    const tri_st_file *file;
    const tri_st_entry *entry;
    tri_slice slice;
} stored;

static tri_status bad_row(const tri_checkpoint *checkpoint, const char *name, const char *why) {
    return tri__fail(TRI_DATA, "%s/manifest.json: tensor '%s': %s", checkpoint->path, name ? name : "?", why);
}

/* Parses a list of at most TRI_MAX_DIMS sizes; returns their number, -1 if invalid. */
static int parse_sizes(const tri_json *list, int64_t *out) {
    size_t n = tri__json_size(list);
    if (!tri__json_is_array(list) || n > TRI_MAX_DIMS) return -1;
    tri__json_each(list, i, value) {
        if (!tri__json_is_integer(value) || tri__json_integer_value(value) < 0) return -1;
        out[i] = tri__json_integer_value(value);
    }
    return (int)n;
}

static tri_status parse_tensor(const tri_checkpoint *checkpoint, const tri_json *row, tri_piece *piece) {
    const char *name = tri__text_in(row, "name"), *dtype = tri__text_in(row, "dtype");
    *piece = (tri_piece){.name = name};
    int found = dtype ? tri__dtype_find(dtype) : -1;
    if (!name || found < 0) return bad_row(checkpoint, name, "no name, or a dtype this build does not know");
    piece->dtype = (tri_dtype)found;
    piece->shape.n = parse_sizes(tri__json_get(row, "shape"), piece->shape.dim);
    if (piece->shape.n < 0 || tri__shape_count(&piece->shape) < 0)
        return bad_row(checkpoint, name, "its shape is wrong");
    return TRI_OK;
}

/* A whole tensor is stored under its name, a slice of it as name@number. */
static int is_of(const char *stored, const char *tensor) {
    size_t n = strlen(tensor);
    if (strncmp(stored, tensor, n) != 0) return 0;
    if (!stored[n]) return 1;
    return stored[n] == '@' && stored[n + 1] && strspn(stored + n + 1, "0123456789") == strlen(stored + n + 1);
}

static tri_status parse_slice(const tri_checkpoint *checkpoint, const tri_json *row, const tri_piece *tensor,
                              stored *out) {
    const char *file = tri__text_in(row, "file"), *name = tri__text_in(row, "tensor");
    const tri_json *begin = tri__json_get(row, "begin"), *end = tri__json_get(row, "end");
    const tri_json *shard = file ? tri__json_get(checkpoint->shards, file) : NULL;
    if (!shard || !name) return bad_row(checkpoint, tensor->name, "a slice lies in no file of the checkpoint");
    if (!is_of(name, tensor->name)) return bad_row(checkpoint, tensor->name, "a slice is of another tensor");
    *out = (stored){.file = &checkpoint->shard[tri__json_integer_value(shard)]};
    out->entry = tri__st_find(out->file, name);
    if (!out->entry || out->entry->dtype != tensor->dtype)
        return bad_row(checkpoint, tensor->name, "a slice is not in its file");
    if (parse_sizes(tri__json_get(row, "start"), out->slice.start) != tensor->shape.n ||
        parse_sizes(tri__json_get(row, "extent"), out->slice.extent) != tensor->shape.n ||
        !tri__json_is_integer(begin) || !tri__json_is_integer(end))
        return bad_row(checkpoint, tensor->name, "a slice lacks start, extent, begin or end");
    out->slice.begin = tri__json_integer_value(begin), out->slice.end = tri__json_integer_value(end);
    if (!tri__slice_fits(&out->slice, &tensor->shape) ||
        out->slice.end - out->slice.begin != tri__shape_count(&out->entry->shape))
        return bad_row(checkpoint, tensor->name, "a slice does not fit its tensor");
    return TRI_OK;
}

/* Orders by first row, then by box, then by range within a box. Dims beyond the tensor's are 0. */
static int by_place(const void *a, const void *b) {
    const tri_slice *x = a, *y = b;
    int order = (x->start[0] > y->start[0]) - (x->start[0] < y->start[0]);
    if (order == 0) order = memcmp(x->start, y->start, sizeof x->start);
    if (order == 0) order = memcmp(x->extent, y->extent, sizeof x->extent);
    return order ? order : (x->begin > y->begin) - (x->begin < y->begin);
}

/* Merges adjacent ranges of one box; returns how many slices remain. Slices from thousands of replicas are thus
 * compared by box, not pairwise. */
static size_t join_slices(tri_slice *slice, size_t n) {
    size_t runs = 0;
    qsort(slice, n, sizeof *slice, by_place);
    for (size_t i = 0; i < n; i++) {
        tri_slice *last = runs ? &slice[runs - 1] : NULL;
        if (slice[i].begin == slice[i].end) continue;
        int same = last && !memcmp(last->start, slice[i].start, sizeof last->start) &&
                   !memcmp(last->extent, slice[i].extent, sizeof last->extent);
        if (same && last->end == slice[i].begin) last->end = slice[i].end;
        else slice[runs++] = slice[i];
    }
    return runs;
}

/* Slices from `begin` on, of `n` in order, whose rows overlap one another's: those beyond the end have later rows. */
static size_t cluster_end(const tri_slice *slice, size_t begin, size_t n) {
    int64_t last = slice[begin].start[0] + slice[begin].extent[0]; /* at most the tensor's dim */
    size_t end = begin + 1;
    for (; end < n && (slice[end].start[0] < last || slice[end].start[0] == slice[begin].start[0]); end++) {
        int64_t to = slice[end].start[0] + slice[end].extent[0];
        if (to > last) last = to;
    }
    return end;
}

/* Checks the slices of a tensor: each is in its file, no two overlap, and together they cover the tensor. */
static tri_status check_slices(const tri_checkpoint *checkpoint, const tri_piece *tensor, const tri_json *rows,
                               tri_slice *slice) {
    int64_t elements = 0;
    size_t n = tri__json_size(rows);
    for (size_t i = 0; i < n; i++) {
        stored part;
        TRI_TRY(parse_slice(checkpoint, tri__json_at(rows, i), tensor, &part));
        slice[i] = part.slice;
        if (__builtin_add_overflow(elements, slice[i].end - slice[i].begin, &elements)) elements = -1;
    }
    if (elements != tri__shape_count(&tensor->shape))
        return bad_row(checkpoint, tensor->name, "its slices do not cover it");
    size_t runs = join_slices(slice, n);
    for (size_t begin = 0, end; begin < runs; begin = end) { /* a thousand copies' rows need not be compared */
        end = cluster_end(slice, begin, runs);
        if (end - begin > RUNS_MAX)
            return bad_row(checkpoint, tensor->name, "has too many slices that do not continue each other");
        for (size_t i = begin; i < end; i++)
            for (size_t j = begin; j < i; j++)
                if (tri__slice_meets(&tensor->shape, &slice[i], &slice[j]))
                    return bad_row(checkpoint, tensor->name, "two of its slices overlap");
    }
    return TRI_OK;
}

static tri_status index_tensors(tri_checkpoint *checkpoint) {
    const tri_json *tensors = tri__json_get(checkpoint->manifest, "tensors");
    if (!tri__json_is_array(tensors) || tri__json_size(tensors) > TRI_LIMIT_TENSORS)
        return tri__fail(TRI_DATA, "%s/manifest.json: tensors is not a list, or is too long", checkpoint->path);
    tri__json_items(tensors, row) {
        tri_piece tensor;
        const tri_json *slices = tri__json_get(row, "slices");
        TRI_TRY(parse_tensor(checkpoint, row, &tensor));
        if (tri__json_get(checkpoint->tensors, tensor.name)) return bad_row(checkpoint, tensor.name, "is listed twice");
        if (tri__json_size(slices) > SLICES_MAX) return bad_row(checkpoint, tensor.name, "has too many slices");
        TRI_OWNED(tri__free_at) tri_slice *slice = calloc(tri__json_size(slices) + 1, sizeof *slice);
        if (!slice) return tri__fail(TRI_RESOURCE, "out of memory");
        TRI_TRY(check_slices(checkpoint, &tensor, slices, slice));
        if (tri__json_set(checkpoint->tensors, tensor.name, row)) return tri__fail(TRI_RESOURCE, "out of memory");
    }
    return TRI_OK;
}

/* A tensor that lies in its file as a whole. */
static tri_status find_whole(const tri_checkpoint *checkpoint, const char *name, stored *out) {
    const tri_json *row = tri__json_get(checkpoint->tensors, name), *slices = tri__json_get(row, "slices");
    tri_piece tensor;
    TRI_TRY(parse_tensor(checkpoint, row, &tensor));
    if (tri__json_size(slices) == 1) TRI_TRY(parse_slice(checkpoint, tri__json_at(slices, 0), &tensor, out));
    if (tri__json_size(slices) != 1 || !tri__shape_equal(&out->entry->shape, &tensor.shape))
        return bad_row(checkpoint, name, "is quantised, and must lie in one file as a whole");
    return TRI_OK;
}

static tri_status open_quantized(tri_checkpoint *checkpoint, const char *name, int check) {
    stored part, scale;
    const char *scale_name = TRI_TEXT(512, "%s" TRI_SCALE_SUFFIX, name);
    if (!tri__json_get(checkpoint->tensors, scale_name))
        return tri__fail(TRI_DATA, "%s: tensor '%s' is I8, and its scales, '%s', are missing", checkpoint->path, name,
                         scale_name);
    TRI_TRY(find_whole(checkpoint, name, &part));
    TRI_TRY(find_whole(checkpoint, scale_name, &scale));
    tri_quantized *quantized = &checkpoint->quantized[checkpoint->n_quantized++];
    TRI_TRY(tri__quantized_open(part.file, part.entry, scale.file, scale.entry, quantized));
    if (tri__json_set_new(checkpoint->quantized_of, name, tri__json_integer(quantized - checkpoint->quantized)))
        return tri__fail(TRI_RESOURCE, "out of memory");
    return check ? tri__quantized_check(quantized) : TRI_OK;
}

/* Opens the int8 tensors; `of` readers together check all their integers, tensor by tensor in turn. */
static tri_status open_all_quantized(tri_checkpoint *checkpoint, int part, int of) {
    const tri_json *rows = tri__json_get(checkpoint->manifest, "tensors"),
                   *facts = tri__json_get(tri__json_get(checkpoint->manifest, "state"), "quantized");
    tri_json_int version = tri__whole_in(facts, "version");
    if (facts && version != TRI_QUANTIZED_VERSION)
        return tri__fail(TRI_DATA, "%s: its weights are quantised in version %lld; this build reads version %d",
                         checkpoint->path, (long long)version, TRI_QUANTIZED_VERSION);
    TRI_TRY(TRI_NEW(checkpoint->quantized, tri__json_size(rows) + 1, checkpoint->path));
    tri__json_each(rows, i, row) {
        tri_piece tensor;
        TRI_TRY(parse_tensor(checkpoint, row, &tensor));
        if (tensor.dtype != TRI_I8) continue;
        if (!facts) return bad_row(checkpoint, tensor.name, "is I8, but state.quantized is missing");
        TRI_TRY(open_quantized(checkpoint, tensor.name, of > 0 && (int)(i % (size_t)of) == part));
    }
    return TRI_OK;
}

/* Every shard stays open. If that exceeds the soft limit of open files, the limit is raised up to the hard limit. */
static tri_status need_files(const char *path, size_t shards) {
    enum { OTHERS = 64 };
    rlim_t need = (rlim_t)shards + OTHERS;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= need || shards < OTHERS) return TRI_OK;
    if (limit.rlim_max >= need && setrlimit(RLIMIT_NOFILE, &(struct rlimit){need, limit.rlim_max}) == 0) return TRI_OK;
    return tri__fail(TRI_RESOURCE,
                     "%s: its %zu files must be open at once with others, %llu in all, and the limit is %llu: raise it "
                     "(`ulimit -n %llu`)", path, shards, (unsigned long long)need, (unsigned long long)limit.rlim_max,
                     (unsigned long long)need);
}

/* Opens the listed shards; tri__manifest_check has verified that their names are plain. */
static tri_status open_shards(tri_checkpoint *checkpoint) {
    const tri_json *files = tri__json_get(checkpoint->manifest, "files");
    TRI_TRY(TRI_NEW(checkpoint->shard, tri__json_size(files) + 1, checkpoint->path));
    TRI_TRY(need_files(checkpoint->path, tri__json_size(files)));
    tri__json_items(files, row) {
        const char *name = tri__text_in(row, "name");
        if (strchr(name, '/') || !tri__is_shard(name)) continue;
        TRI_TRY(tri__st_open_listed(checkpoint->path, name, &checkpoint->shard[checkpoint->n_shards]));
        if (tri__json_set_new(checkpoint->shards, name, tri__json_integer(checkpoint->n_shards++)))
            return tri__fail(TRI_RESOURCE, "out of memory");
    }
    return TRI_OK;
}

/* config.json and preprocessing.json are used only if the manifest lists them. */
static tri_status load_listed(const tri_checkpoint *checkpoint, const char *name, tri_json **out) {
    tri__json_items(tri__json_get(checkpoint->manifest, "files"), row) {
        if (strcmp(tri__text_in(row, "name"), name) != 0) continue;
        TRI_PATH(path, checkpoint->path, name);
        return tri__json_load(path, TRI_DATA, out);
    }
    return TRI_OK;
}

static const int64_t STEP_MAX = (int64_t)1 << 53; /* counting on from here cannot overflow 64 bits */

/* How a checkpoint is verified: all of its files, those of a part, or only what a reader of weights needs. */
typedef struct verifying {
    int part, of;          /* as in tri__manifest_check */
    int threads;           /* > 0: weights, by so many threads */
} verifying;

/* Hashes the slices of a tensor. */
static tri_status hash_tensor(const tri_checkpoint *checkpoint, const tri_json *row) {
    tri_piece tensor;
    TRI_TRY(parse_tensor(checkpoint, row, &tensor));
    tri__json_items(tri__json_get(row, "slices"), slice) {
        stored part;
        char hex[33];
        const char *hash = tri__text_in(slice, "xxh3");
        TRI_TRY(parse_slice(checkpoint, slice, &tensor, &part));
        if (!hash) return bad_row(checkpoint, tensor.name, "a slice lacks its hash");
        TRI_TRY(tri__hash_file(part.file->fd, part.file->data + (uint64_t)part.entry->begin,
                               (uint64_t)(part.entry->end - part.entry->begin), part.file->path, hex));
        if (strcmp(hex, hash) != 0)
            return tri__fail(TRI_DATA, "%s is damaged in tensor '%s': its hash is %s, the manifest says %s",
                             part.file->path, tensor.name, hex, hash);
    }
    return TRI_OK;
}

/* Whether all slices of a tensor are in files of optimizer state. */
static int is_state(const tri_json *row) {
    size_t front = strcspn(TRI_FILE_OPTIMIZER, "%");
    const tri_json *slices = tri__json_get(row, "slices");
    tri__json_items(slices, slice) {
        const char *file = tri__text_in(slice, "file");
        if (!file || strncmp(file, TRI_FILE_OPTIMIZER, front) != 0) return 0;
    }
    return tri__json_size(slices) > 0;
}

static tri_status hash_weights(const tri_checkpoint *checkpoint, int threads) {
    const tri_json *tensors = tri__json_get(checkpoint->manifest, "tensors");
    int64_t n = (int64_t)tri__json_size(tensors);
    tri_status failed = TRI_OK;
    tri_words why; /* error texts are per thread */
    (void)threads; /* of a build without OpenMP */
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t i = 0; i < n; i++) {
        const tri_json *row = tri__json_at(tensors, (size_t)i);
        tri_status status = is_state(row) ? TRI_OK : hash_tensor(checkpoint, row);
#pragma omp critical
        if (status != TRI_OK && failed == TRI_OK) {
            failed = status;
            tri__words_keep(&why);
        }
    }
    return failed == TRI_OK ? TRI_OK : tri__fail(failed, "%s", why.text);
}

static tri_status open_whole(tri_checkpoint *checkpoint, const verifying *by) {
    TRI_TRY(tri__manifest_load(checkpoint->path, &checkpoint->manifest));
    int of = by->threads ? TRI_HASH_SMALL : by->of;
    TRI_TRY(tri__manifest_check(checkpoint->path, checkpoint->manifest, by->part, of));
    const tri_json *step = tri__json_get(checkpoint->manifest, "step");
    if (!tri__json_is_integer(step) || tri__json_integer_value(step) < 0 || tri__json_integer_value(step) > STEP_MAX)
        return tri__fail(TRI_DATA, "%s/manifest.json names no step", checkpoint->path);
    checkpoint->step = tri__json_integer_value(step);
    TRI_TRY(open_shards(checkpoint));
    TRI_TRY(index_tensors(checkpoint));
    if (by->threads) TRI_TRY(hash_weights(checkpoint, by->threads));
    TRI_TRY(open_all_quantized(checkpoint, by->part, by->of));
    TRI_TRY(load_listed(checkpoint, "config.json", &checkpoint->config));
    return load_listed(checkpoint, "preprocessing.json", &checkpoint->preprocessing);
}

/* Of no tensors yet; NULL when out of memory. */
static tri_checkpoint *make_empty(const char *path) {
    tri_checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    if (!checkpoint) return NULL;
    checkpoint->path = strdup(path);
    checkpoint->tensors = tri__json_object();
    checkpoint->shards = tri__json_object();
    checkpoint->quantized_of = tri__json_object();
    if (checkpoint->path && checkpoint->tensors && checkpoint->shards && checkpoint->quantized_of) return checkpoint;
    tri__checkpoint_close(checkpoint);
    return NULL;
}

static tri_status open_folder(const char *path, const verifying *by, tri_checkpoint **out) {
    *out = NULL;
    TRI_OWNED(tri__checkpoint_close_at) tri_checkpoint *checkpoint = make_empty(path);
    if (!checkpoint) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    TRI_TRY(open_whole(checkpoint, by));
    *out = TRI_GIVE(checkpoint);
    return TRI_OK;
}

tri_status tri__checkpoint_assemble(const char *path, int64_t step, tri_json *manifest, tri_json *config,
                                    tri_st_file *shards, const char *const *names, int n, tri_checkpoint **out) {
    *out = NULL;
    tri_checkpoint *c = make_empty(path);
    tri_st_file *own = c ? calloc((size_t)n + 1, sizeof *own) : NULL;
    int failed = !own;
    for (int i = 0; i < n; i++) {
        if (own) own[i] = shards[i];
        else tri__st_close(&shards[i]);
        failed = failed || tri__json_set_new(c->shards, names[i], tri__json_integer(i));
    }
    if (!c) {
        tri__json_decref(manifest);
        tri__json_decref(config);
        return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    }
    c->step = step, c->manifest = manifest, c->config = config, c->shard = own, c->n_shards = own ? n : 0;
    tri_status status = failed ? tri__fail(TRI_RESOURCE, "%s: out of memory", path) : index_tensors(c);
    if (status == TRI_OK) *out = c;
    else tri__checkpoint_close(c);
    return status;
}

tri_status tri__checkpoint_open_part(const char *path, int part, int of, tri_checkpoint **out) {
    return open_folder(path, &(verifying){.part = part, .of = of}, out);
}

static tri_status open_any(const char *path, int best, const verifying *by, tri_checkpoint **out);

/* A folder without a checkpoint: that of a sweep stands for its best trial. */
static tri_status open_best_trial(const char *folder, int best, const verifying *by, tri_checkpoint **out) {
    TRI_OWNED(tri__run_set_free) tri_run_set set = {0};
    TRI_TRY(tri__run_set_read(folder, &set));
    if (set.is_ranked) return open_any(set.folder[0], best, by, out);
    if (set.kind == TRI_RUN_SET_SWEEP)
        return tri__fail(TRI_NOINPUT, "%s is a sweep that has not ended, so that no trial is the best yet: run it "
                         "again to its end, or name a trial, for example %s", folder, set.folder[0]);
    if (set.kind) return tri__fail(TRI_NOINPUT, "%s holds %d models, not one: name one of them, for example %s",
                                   folder, set.n, set.folder[0]);
    return tri__fail(TRI_NOINPUT, "%s holds neither manifest.json nor a checkpoint-<step> folder", folder);
}

/* Opens the newest valid checkpoint; if there is none, the message has the first reason. */
static tri_status open_newest(const char *folder, int best, const verifying *by, tri_checkpoint **out) {
    TRI_OWNED(tri__free_at) int64_t *steps = NULL;
    int n;
    TRI_TRY(tri__checkpoint_steps(folder, &steps, &n));
    tri_status status = n ? TRI_DATA : open_best_trial(folder, best, by, out);
    char reason[1024] = "";
    for (int i = 0; i < n; i++) {
        char path[TRI_PATH_MAX];
        status = tri__checkpoint_name(path, folder, steps[i], "");
        if (status == TRI_OK) status = open_folder(path, by, out);
        if (!tri__proves_damage(status)) break;
        if (!*reason) strncpy(reason, tri_error(), sizeof reason - 1);
        status = TRI_DATA;
    }
    if (status == TRI_DATA && n)
        return tri__fail(TRI_DATA, "%s: none of its %d checkpoints is valid: %s", folder, n, reason);
    return status;
}

static tri_status open_any(const char *path, int best, const verifying *by, tri_checkpoint **out) {
    *out = NULL;
    int64_t step = -1;
    tri_kind kind;
    TRI_TRY(tri__path_kind(path, &kind));
    if (kind != TRI_KIND_FOLDER)
        return tri__fail(TRI_NOINPUT, "%s is not a folder; a checkpoint or a run folder is expected", path);
    TRI_PATH(inner, path, "manifest.json");
    TRI_TRY(tri__path_kind(inner, &kind));
    if (kind == TRI_KIND_FILE) return open_folder(path, by, out);
    if (best) TRI_TRY(tri__checkpoint_best(path, &step));
    TRI_TRY(tri__checkpoint_name(inner, path, step, ""));
    TRI_TRY(tri__path_kind(inner, &kind));
    return step >= 0 && kind == TRI_KIND_FOLDER ? open_folder(inner, by, out) : open_newest(path, best, by, out);
}

tri_status tri__checkpoint_open(const char *path, int best, tri_checkpoint **out) {
    return open_any(path, best, &(verifying){.of = 1}, out);
}

tri_status tri__checkpoint_open_weights(const char *path, int best, int threads, tri_checkpoint **out) {
    return open_any(path, best, &(verifying){.of = 1, .threads = threads}, out);
}

void tri__checkpoint_close(tri_checkpoint *checkpoint) {
    if (!checkpoint) return;
    for (int i = 0; i < checkpoint->n_quantized; i++) tri__quantized_close(&checkpoint->quantized[i]);
    free(checkpoint->quantized);
    tri__json_decref(checkpoint->quantized_of);
    for (int i = 0; i < checkpoint->n_shards; i++) tri__st_close(&checkpoint->shard[i]);
    free(checkpoint->shard);
    tri__json_decref(checkpoint->shards);
    tri__json_decref(checkpoint->tensors);
    tri__json_decref(checkpoint->preprocessing);
    tri__json_decref(checkpoint->config);
    tri__json_decref(checkpoint->manifest);
    TRI_FREE(checkpoint->path, checkpoint);
}

const char *tri__checkpoint_path(const tri_checkpoint *checkpoint) { return checkpoint->path; }
int64_t tri__checkpoint_step(const tri_checkpoint *checkpoint) { return checkpoint->step; }
const tri_json *tri__checkpoint_config(const tri_checkpoint *checkpoint) { return checkpoint->config; }
const tri_json *tri__checkpoint_preprocessing(const tri_checkpoint *checkpoint) { return checkpoint->preprocessing; }
const tri_json *tri__checkpoint_state(const tri_checkpoint *checkpoint) {
    return tri__json_get(checkpoint->manifest, "state");
}
const tri_json *tri__checkpoint_manifest(const tri_checkpoint *checkpoint) { return checkpoint->manifest; }
int tri__checkpoint_has(const tri_checkpoint *checkpoint, const char *name) {
    return tri__json_get(checkpoint->tensors, name) != NULL;
}

int tri__checkpoint_is_state(const tri_checkpoint *checkpoint, const char *name) {
    return is_state(tri__json_get(checkpoint->tensors, name));
}

int tri__checkpoint_is_export(const tri_checkpoint *checkpoint) {
    return tri__json_get(checkpoint->shards, TRI_FILE_EXPORT) != NULL;
}

int tri__checkpoint_shape(const tri_checkpoint *checkpoint, const char *name, tri_shape *shape) {
    const tri_json *row = tri__json_get(checkpoint->tensors, name);
    if (!row) return 0;
    shape->n = parse_sizes(tri__json_get(row, "shape"), shape->dim); /* index_tensors has checked it */
    return 1;
}

int tri__checkpoint_count(const tri_checkpoint *checkpoint) { return (int)tri__json_object_size(checkpoint->tensors); }

tri_status tri__checkpoint_tensor(const tri_checkpoint *checkpoint, int index, tri_piece *tensor) {
    const tri_json *row = tri__json_at(tri__json_get(checkpoint->manifest, "tensors"), (size_t)index);
    TRI_TRY(parse_tensor(checkpoint, row, tensor));
    tensor->slice = tri__slice_whole(&tensor->shape);
    return TRI_OK;
}

const tri_json *tri__checkpoint_quantized(const tri_checkpoint *checkpoint) {
    return tri__json_get(tri__checkpoint_state(checkpoint), "quantized");
}

/* A stored slice on its way into a piece. */
typedef struct copy {
    const tri_piece *into;
    const stored *from;
    const tri_quantized *quantized; /* the tensor, if its integers become f32; else NULL */
} copy;

static tri_status copy_run(void *context, int64_t into, int64_t from, int64_t count) {
    const copy *c = context;
    char *out = (char *)c->into->data + (size_t)into * tri__dtype_bytes(c->into->dtype);
    if (c->quantized) return tri__quantized_read(c->quantized, from, count, (float *)out);
    if (c->from->entry->dtype == c->into->dtype) return tri__st_read(c->from->file, c->from->entry, from, count, out);
    return tri__st_read_f32(c->from->file, c->from->entry, from, count, (float *)out);
}

/* f32 is read from every type that it holds exactly. */
static int converts(const tri_checkpoint *checkpoint, const tri_piece *tensor, tri_dtype to) {
    if (tensor->dtype == to) return 1;
    if (to != TRI_F32) return 0;
    return tensor->dtype == TRI_F16 || tensor->dtype == TRI_BF16 ||
           tri__json_get(checkpoint->quantized_of, tensor->name) != NULL;
}

static void round_piece(const tri_piece *piece) {
    float *data = piece->data;
    if (piece->through == TRI_F32) return;
    for (int64_t i = 0; i < piece->slice.end - piece->slice.begin; i++) data[i] = tri__rounded(piece->through, data[i]);
}

static tri_status read_part(void *context, const tri_piece *part) { return tri__checkpoint_read(context, part); }

tri_status tri__checkpoint_read(const tri_checkpoint *checkpoint, const tri_piece *piece) {
    const tri_json *row = tri__json_get(checkpoint->tensors, piece->name),
                   *index = piece->dtype == TRI_F32 ? tri__json_get(checkpoint->quantized_of, piece->name) : NULL;
    const tri_quantized *quantized = index ? &checkpoint->quantized[tri__json_integer_value(index)] : NULL;
    tri_piece tensor;
    if (!row) return tri__fail(TRI_DATA, "%s has no tensor '%s'", checkpoint->path, piece->name);
    TRI_TRY(parse_tensor(checkpoint, row, &tensor));
    if (converts(checkpoint, &tensor, piece->dtype) && tri__piece_repeats(piece, &tensor.shape))
        return tri__piece_repeat(piece, &tensor.shape, read_part, (void *)checkpoint);
    if (!converts(checkpoint, &tensor, piece->dtype) || !tri__shape_equal(&tensor.shape, &piece->shape))
        return tri__fail(TRI_DATA, "%s: tensor '%s' is %s %s, the model has %s %s", checkpoint->path, piece->name,
                         tri__dtype_name(tensor.dtype), tri__shape_text(&tensor.shape, (char[128]){0}),
                         tri__dtype_name(piece->dtype), tri__shape_text(&piece->shape, (char[128]){0}));
    int64_t filled = 0;
    tri__json_items(tri__json_get(row, "slices"), slice) {
        stored part;
        TRI_TRY(parse_slice(checkpoint, slice, &tensor, &part));
        copy c = {.into = piece, .from = &part, .quantized = quantized};
        TRI_TRY(tri__slice_overlap(&tensor.shape, &piece->slice, &part.slice, copy_run, &c, &filled));
    }
    if (filled != piece->slice.end - piece->slice.begin)
        return bad_row(checkpoint, piece->name, "its slices leave a gap");
    if (!quantized) round_piece(piece);
    return TRI_OK;
}
