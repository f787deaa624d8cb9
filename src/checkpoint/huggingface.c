/* huggingface.c - fills a model's pieces from a Hugging Face folder. Files of the same weights differ in small ways: a
 * leading "bert.", gamma and beta for weight and bias, heads that the encoder does not have. Each tensor is
 * first mapped to its base-model name; unmatched tensors on either side are then reported, one line each. */
#include "checkpoint/huggingface.h"

#include "checkpoint/hub.h"
#include "checkpoint/joined.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/reshard.h"
#include "checkpoint/safetensors.h"

struct tri_hf {
    char *folder;
    tri_st_file *file;  /* [n_files] */
    int n_files;
};

enum { LAYERS_MAX = 1 << 20 };
static const char single_name[] = "model.safetensors", index_name[] = "model.safetensors.index.json";

/* Parts of a pretraining or classification model that an encoder lacks. */
static const char *const heads[] = {
    "cls.",        "lm_head.",        "classifier.",      "pooler.",           "embeddings.position_ids",
    "qa_outputs.", "pre_classifier.", "vocab_transform.", "vocab_layer_norm.", "vocab_projector.",
    "head.",       "decoder.",        "generator_predictions.", "generator_lm_head.", "discriminator_predictions."};

/* A shard's name comes from the index, so it may be a link only to a blob of its model in Hugging Face's cache. */
static tri_status open_shard(const char *folder, const char *name, tri_st_file *file) {
    char blob[TRI_PATH_MAX];
    return tri__hub_blob(folder, name, blob) ? tri__st_open(blob, file) : tri__st_open_listed(folder, name, file);
}

/* `names`: an object whose keys are the shards, all of them plain names. */
static tri_status open_shards(tri_hf *hf, const tri_json *names) {
    TRI_TRY(TRI_NEW(hf->file, tri__json_object_size(names) + 1, hf->folder));
    tri__json_members(names, m) {
        TRI_TRY(open_shard(hf->folder, m->key, &hf->file[hf->n_files]));
        hf->n_files++;
    }
    return TRI_OK;
}

/* A single file has a fixed name, so it may be a link, as in Hugging Face's cache. */
static tri_status open_single(tri_hf *hf, const char *path) {
    TRI_TRY(TRI_NEW(hf->file, 1, hf->folder));
    TRI_TRY(tri__st_open(path, &hf->file[0]));
    hf->n_files = 1;
    return TRI_OK;
}

/* Opens the shards that the index names; each tensor must be in the shard it is mapped to. */
static tri_status open_index(tri_hf *hf, const char *path, const tri_json *index) {
    const tri_json *map = tri__json_get(index, "weight_map");
    TRI_OWNED(tri__json_drop) tri_json *names = tri__json_object();
    if (!names) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    if (!tri__json_is_object(map)) return tri__fail(TRI_DATA, "%s has no weight_map", path);
    tri__json_members(map, m) {
        const char *name = tri__json_string_value(m->value);
        if (!name || !tri__is_plain_name(name))
            return tri__fail(TRI_DATA, "%s: the file of tensor '%s' is not a plain file name", path, m->key);
        if (!tri__json_get(names, name))
            tri__json_set_new(names, name, tri__json_integer((tri_json_int)tri__json_object_size(names)));
    }
    TRI_TRY(open_shards(hf, names));
    tri__json_members(map, m) {
        const tri_st_file *file = &hf->file[tri__whole_in(names, tri__json_string_value(m->value))];
        if (!tri__st_find(file, m->key))
            return tri__fail(TRI_DATA, "%s: tensor '%s' is not in %s", path, m->key, file->path);
    }
    return TRI_OK;
}

/* A cache is not written to: what is converted goes to ./models, which is searched before it. */
static tri_status refuse_pickle(const char *folder, const char *path) {
    char model[TRI_PATH_MAX];
    if (tri__hub_is_snapshot(folder, model))
        return tri__fail(TRI_USAGE,
                         "%s is a pickle, which can run code when it is read; convert it once: python -c \"from "
                         "transformers import AutoModel, AutoTokenizer; [c.from_pretrained('%s').save_pretrained("
                         "'models/%s') for c in (AutoModel, AutoTokenizer)]\"", path, model, model);
    return tri__fail(TRI_USAGE,
                     "%s is a pickle, which can run code when it is read; convert it once: python -c \"from "
                     "transformers import AutoModel; AutoModel.from_pretrained('%s').save_pretrained('%s')\"", path,
                     folder, folder);
}

static tri_status open_folder(tri_hf *hf, int *found) {
    static const char *const pickles[] = {"pytorch_model.bin", "pytorch_model.bin.index.json"};

    int there;
    *found = 1;
    TRI_PATH(path, hf->folder, single_name);
    TRI_TRY(tri__file_there(path, &there));
    if (there) return open_single(hf, path);
    TRI_TRY(tri__path_join(path, hf->folder, index_name));
    TRI_TRY(tri__file_there(path, &there));
    if (there) {
        TRI_OWNED(tri__json_drop) tri_json *index = NULL;
        TRI_TRY(tri__json_load(path, TRI_DATA, &index));
        return open_index(hf, path, index);
    }
    for (size_t k = 0; k < sizeof pickles / sizeof *pickles; k++) {
        TRI_TRY(tri__path_join(path, hf->folder, pickles[k]));
        TRI_TRY(tri__file_there(path, &there));
        if (there) return refuse_pickle(hf->folder, path);
    }
    *found = 0;
    char model[TRI_PATH_MAX];
    if (tri__hub_is_snapshot(hf->folder, model))
        return tri__fail(TRI_NOINPUT,
                         "%s has no weights: only other files of the model were downloaded; huggingface-cli download "
                         "%s; for random initial weights copy its files to models/%s, without weights",
                         hf->folder, model, model);
    return TRI_OK;
}

tri_status tri__hf_open(const char *folder, tri_hf **out) {
    *out = NULL;
    int found = 0;
    TRI_OWNED(tri__hf_drop) tri_hf *hf = calloc(1, sizeof *hf);
    if (!hf || !(hf->folder = strdup(folder))) return tri__fail(TRI_RESOURCE, "%s: out of memory", folder);
    TRI_TRY(open_folder(hf, &found));
    if (found) *out = TRI_GIVE(hf);
    return TRI_OK;
}

void tri__hf_close(tri_hf *hf) {
    if (!hf) return;
    for (int i = 0; i < hf->n_files; i++) tri__st_close(&hf->file[i]);
    TRI_FREE(hf->file, hf->folder, hf);
}

/* Writes the base-model name of a tensor to `out`. */
static void base_name(const char *name, const char *base, char out[static TRI_PATH_MAX]) {
    static const char *const old_names[][2] = {{"LayerNorm.gamma", "LayerNorm.weight"},
                                               {"LayerNorm.beta", "LayerNorm.bias"}};
    snprintf(out, TRI_PATH_MAX, "%s", tri__text_begins(name, base) ? name + strlen(base) : name);
    for (int i = 0; i < 2; i++) {
        size_t at = strlen(out) - strlen(old_names[i][0]);
        if (tri__text_ends(out, old_names[i][0])) snprintf(out + at, TRI_PATH_MAX - at, "%s", old_names[i][1]);
    }
}

/* The layer that a tensor belongs to, "layer.K." or "layers.K." in its name; -1: none. */
static int64_t layer_of(const char *name) {
    for (const char *at = name; (at = strstr(at, "layer")); at += sizeof "layer" - 1) {
        const char *number = at + sizeof "layer" - 1;
        number += *number == 's';
        if ((at > name && at[-1] != '.') || number[0] != '.' || number[1] < '0' || number[1] > '9') continue;
        char *end;
        long layer = strtol(number + 1, &end, 10);
        if (*end == '.' && layer < LAYERS_MAX) return layer;
    }
    return -1;
}

static const tri_st_entry *last_layer(const tri_hf *hf) {
    const tri_st_entry *last = NULL;
    for (int f = 0; f < hf->n_files; f++)
        for (int i = 0; i < hf->file[f].n; i++) {
            const tri_st_entry *entry = &hf->file[f].entry[i];
            if (layer_of(entry->name) >= 0 && (!last || layer_of(entry->name) > layer_of(last->name))) last = entry;
        }
    return last;
}

tri_status tri__hf_check_layers(const tri_hf *hf, int64_t layers) {
    const tri_st_entry *last = last_layer(hf);
    char shape[128];
    if (!last || layer_of(last->name) + 1 == layers) return TRI_OK;
    return tri__fail(TRI_DATA,
                     "%s: its weights have %lld layers, up to tensor '%s' %s, but its configuration has %lld "
                     "(num_hidden_layers); a different number can be set in the configuration's *_encoder object",
                     hf->folder, (long long)layer_of(last->name) + 1, last->name, tri__shape_text(&last->shape, shape),
                     (long long)layers);
}

/* Base names -> [file, entry]. Two tensors with one base name are refused: the result would depend on their order. */
static tri_status map_names(const tri_hf *hf, const char *base, tri_json *map) {
    char name[TRI_PATH_MAX];
    for (int f = 0; f < hf->n_files; f++)
        for (int i = 0; i < hf->file[f].n; i++) {
            base_name(hf->file[f].entry[i].name, base, name);
            if (tri__json_get(map, name))
                return tri__fail(TRI_DATA, "%s: tensor '%s' occurs twice, under two names", hf->folder, name);
            if (tri__json_set_new(map, name, tri__json_pack("[i, i]", f, i)))
                return tri__fail(TRI_RESOURCE, "%s: out of memory", hf->folder);
        }
    return TRI_OK;
}

typedef struct source {
    const tri_st_file *file;
    const tri_st_entry *entry;
    tri_shape shape; /* of what is read: all of the entry, or a run of its rows */
    int64_t first;   /* the run's first element */
    float *into;
} source;

static tri_status read_run(void *context, int64_t into, int64_t from, int64_t count) {
    const source *s = context;
    return tri__st_read_f32(s->file, s->entry, s->first + from, count, s->into + into);
}

static tri_status read_piece(void *context, const tri_piece *piece) {
    source s = *(const source *)context;
    tri_slice whole = tri__slice_whole(&s.shape);
    int64_t shared = 0;
    s.into = piece->data;
    return tri__slice_overlap(&s.shape, &piece->slice, &whole, read_run, &s, &shared);
}

/* Of a tensor that is `parts` of the model's joined, the rows of one. */
static void narrow(source *s, int parts, int part) {
    if (parts == 0 || s->shape.dim[0] % parts) return;
    s->shape.dim[0] /= parts;
    s->first = part * tri__shape_count(&s->shape);
}

static tri_status fill_piece(const tri_hf *hf, const tri_json *at, const tri_piece *piece, const char *branch,
                             const tri_log *log) {
    const tri_st_file *file = &hf->file[tri__json_integer_value(tri__json_at(at, 0))];
    const tri_st_entry *entry = &file->entry[tri__json_integer_value(tri__json_at(at, 1))];
    source s = {.file = file, .entry = entry, .shape = entry->shape};
    char have[128], want[128], whole[TRI_PATH_MAX];
    int part, parts = tri__joined_parts(piece->name, &part, whole), empty = piece->slice.begin == piece->slice.end;
    TRI_ASSERT(piece->dtype == TRI_F32);
    narrow(&s, parts, part);
    if (tri__piece_repeats(piece, &entry->shape)) {
        int64_t once = piece->repeat - 1;
        tri__say(log, TRI_LOG_INFO, "%s: the folder's %lld positions are repeated to %lld", branch,
                 (long long)(entry->shape.dim[0] - once), (long long)(piece->shape.dim[0] - once));
        return empty ? TRI_OK : tri__piece_repeat(piece, &entry->shape, read_piece, &s);
    }
    if (tri__piece_stacks(piece, &entry->shape))
        return empty ? TRI_OK : tri__piece_stack(piece, &entry->shape, read_piece, &s);
    if (!tri__shape_equal(&s.shape, &piece->shape)) {
        tri_shape joined = piece->shape;
        if (parts) joined.dim[0] *= parts;
        return tri__fail(TRI_DATA,
                         "%s: tensor '%s' has shape %s, the model's '%s' has %s; does the configuration describe these "
                         "weights?", file->path, entry->name, tri__shape_text(&entry->shape, have),
                         parts ? whole : piece->name, tri__shape_text(&joined, want));
    }
    return empty ? TRI_OK : read_piece(&s, piece);
}

/* The name of the dense layer that stands in a file for experts; 0: it is not a name of experts. */
static int dense_name(const char *name, char out[static TRI_PATH_MAX]) {
    static const char word[] = ".experts.";
    const char *at = strstr(name, word);
    if (at) snprintf(out, TRI_PATH_MAX, "%.*s.%s", (int)(at - name), name, at + sizeof word - 1);
    return at != NULL;
}

/* Whether a file without this tensor is not the whole of an encoder. Some have no pooler, and dense ones no router. */
static int is_gap(const char *name) {
    return !tri__text_begins(name, "pooler.") && !tri__text_begins(name, "projection.") && !strstr(name, ".router.");
}

/* A list of names for one line: the first few, and how many more. */
typedef struct names {
    char text[512];
    int n;
} names;

static void add_name(names *list, const char *name) {
    enum { SHOWN = 6 };
    if (list->n <= SHOWN) tri__text_append(list->text, sizeof list->text, ", ", "%s", list->n < SHOWN ? name : "...");
    list->n++;
}

static int is_head(const char *name) {
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (tri__text_begins(name, heads[i])) return 1;
    return 0;
}

/* `map` holds the unused tensors. */
static void say_rest(const tri_log *log, const char *branch, const tri_json *map, const names *fresh, int gaps) {
    names ignored = {{0}, 0}, unknown = {{0}, 0};
    tri__json_members(map, m) add_name(is_head(m->key) ? &ignored : &unknown, m->key);
    if (ignored.n) tri__say(log, TRI_LOG_INFO, "%s: ignored %d: %s", branch, ignored.n, ignored.text);
    if (unknown.n)
        tri__say(log, TRI_LOG_WARN, "%s: ignored %d tensor%s that the model does not have: %s", branch, unknown.n,
                 unknown.n == 1 ? "" : "s", unknown.text);
    if (fresh->n)
        tri__say(log, gaps ? TRI_LOG_WARN : TRI_LOG_INFO, "%s: newly initialised %d: %s", branch, fresh->n,
                 fresh->text);
}

tri_status tri__hf_read(tri_hf *hf, const char *prefix, const char *base, const tri_piece *pieces, int n,
                        uint8_t *filled, const tri_log *log) {
    char branch[64], shape[128];
    size_t length = strlen(prefix);
    snprintf(branch, sizeof branch, "%.*s", (int)(tri__text_ends(prefix, ".") ? length - 1 : length), prefix);
    TRI_OWNED(tri__json_drop) tri_json *map = tri__json_object(), *read = tri__json_object();
    if (!map || !read) return tri__fail(TRI_RESOURCE, "%s: out of memory", hf->folder);
    TRI_TRY(map_names(hf, base, map));
    names fresh = {{0}, 0};
    const tri_st_entry *last = last_layer(hf);
    const tri_piece *missing = NULL;
    int asked = 0, loaded = 0, gaps = 0;
    double elements = 0;
    for (int i = 0; i < n; i++) {
        if (!tri__text_begins(pieces[i].name, prefix)) continue;
        const char *name = pieces[i].name + length;
        asked++;
        const tri_json *at = tri__json_get(map, name);
        char dense[TRI_PATH_MAX], whole[TRI_PATH_MAX];
        int copies = !at && dense_name(name, dense), part;
        if (copies) at = tri__json_get(map, name = dense);
        else if (!at && tri__joined_parts(name, &part, whole)) at = tri__json_get(map, name = whole);
        if (!at) {
            add_name(&fresh, pieces[i].name + length);
            gaps |= is_gap(name);
            if (is_gap(name) && layer_of(name) <= (last ? layer_of(last->name) : -1) && !missing) missing = &pieces[i];
            continue;
        }
        TRI_TRY(fill_piece(hf, at, &pieces[i], branch, log));
        filled[i] = copies ? TRI_HF_COPIED : TRI_HF_READ;
        if (tri__json_set_new(read, name, tri__json_null()))
            return tri__fail(TRI_RESOURCE, "%s: out of memory", hf->folder);
        loaded++;
        elements += (double)tri__shape_count(&pieces[i].shape);
    }
    tri__json_members(read, m) tri__json_del(map, m->key);
    if (asked && !loaded)
        return tri__fail(TRI_DATA,
                         "%s: none of its tensors has a name of this encoder; does its config.json have the right "
                         "model_type?", hf->folder);
    if (missing)
        return tri__fail(TRI_DATA, "%s: its weights have no tensor '%s', the model's has shape %s; is the file whole?",
                         hf->folder, missing->name + length, tri__shape_text(&missing->shape, shape));
    tri__say(log, TRI_LOG_INFO, "%s: loaded %d tensors (%.1f M parameters) from %s", branch, loaded, elements / 1e6,
             hf->folder);
    say_rest(log, branch, map, &fresh, gaps);
    return TRI_OK;
}
