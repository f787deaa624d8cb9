/* dataset.c - opens the token store of a table, or builds it. A store's name is the hash of the table's bytes, the
 * tokenizers, the length limit, the preprocessing (or its fitting options), the separator and the policy for bad rows.
 * Any change gives another store, so a store is never out of date. */
#include "data/dataset/dataset.h"

#include "base/file_call.h"
#include "data/dataset/dataset_build.h"
#include "data/dataset/dataset_rows.h"
#include "data/table/parts.h"

#include <errno.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { KEY_VERSION = 4, READ_BYTES = 1 << 20 };

/* A dataset, and the store it reads. */
typedef struct whole {
    tri_dataset data; /* first: the public part */
    tri_store store;
    tri_json *notes;
    tri_bad_row bad[TRI_BAD_DESCRIBED];
} whole;

/* Identifies the files that were hashed, to detect changes: a hash of their devices, inodes, sizes and times. */
static tri_status add_stamp(const char *path, int fd, uint64_t *stamp) {
    struct stat info;
    if (fstat(fd, &info)) return tri__fail_errno("read", path, TRI_IO);
    uint64_t file[] = {(uint64_t)info.st_dev, (uint64_t)info.st_ino, (uint64_t)info.st_size,
                       (uint64_t)info.st_mtim.tv_sec, (uint64_t)info.st_mtim.tv_nsec};
    *stamp = XXH3_64bits_withSeed(file, sizeof file, *stamp);
    return TRI_OK;
}

static void add_bytes(XXH3_state_t *hash, const void *data, size_t bytes) {
    uint64_t length = bytes;
    XXH3_128bits_update(hash, &length, sizeof length); /* so that field boundaries are part of the hash */
    XXH3_128bits_update(hash, data, bytes);
}

static void add_text(XXH3_state_t *hash, const char *text) { add_bytes(hash, text, strlen(text)); }

static tri_key digest(const XXH3_state_t *hash) {
    XXH128_hash_t value = XXH3_128bits_digest(hash);
    return (tri_key){value.low64, value.high64};
}

/* Reads, does not map: a file that shrinks meanwhile is only short. hash NULL: only the stamp is wanted. */
static tri_status hash_file(XXH3_state_t *hash, const char *path, uint64_t *stamp) {
    TRI_OWNED(tri__fd_drop) int fd = -1;
    size_t size;
    TRI_TRY(tri__file_open(path, &fd, &size));
    TRI_OWNED(tri__free_at) char *buffer = malloc(READ_BYTES);
    if (!buffer) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    TRI_TRY(add_stamp(path, fd, stamp));
    for (ssize_t n = 1; hash && n != 0;) {
        n = TRI_DURING(TRI_CALL_READ, path, read(fd, buffer, READ_BYTES));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return tri__fail_errno("read", path, TRI_IO);
        XXH3_128bits_update(hash, buffer, (size_t)n);
    }
    return TRI_OK;
}

/* Hashes the bytes of a table's files, one after the other; of several also where each ends. */
static tri_status hash_files(XXH3_state_t *hash, const char *path, uint64_t *stamp) {
    TRI_OWNED(tri__names_free) tri_names files = {0};
    TRI_TRY(tri__parts_list(path, &files));
    for (int i = 0; i < files.n; i++) {
        if (i && hash) add_text(hash, "next part");
        TRI_TRY(hash_file(hash, files.name[i], stamp));
    }
    return TRI_OK;
}

static tri_status check_stamp(const char *path, uint64_t was) {
    uint64_t now = 0;
    TRI_TRY(hash_files(NULL, path, &now));
    if (now == was) return TRI_OK;
    return tri__fail(TRI_IO, "%s changed while it was read; start again when it is complete", path);
}

/* Where the ending of a table's name begins: ".csv", ".csv.gz"; its end if there is none. */
static const char *ending_of(const char *path) {
    const char *name = strrchr(path, '/') ? strrchr(path, '/') : path;
    size_t stem;
    tri__packed_name(name, &stem);
    for (size_t at = stem; at > 0; at--)
        if (name[at - 1] == '.') return name + at - 1;
    return name + stem;
}

/* The same for all paths of a file. */
static uint64_t hash_place(const char *path) {
    char real[TRI_PATH_MAX];
    const char *text = tri__path_real(path, real) ? real : path;
    return XXH3_64bits(text, strlen(text));
}

static void hash_all(XXH3_state_t *hash, const tri_dataset_spec *spec, const char *recipe, int n_texts,
                     const tri_key *table) {
    int32_t numbers[] = {KEY_VERSION, spec->max_len, spec->need_labels, spec->bad_rows, n_texts, spec->separator};
    int32_t windows[] = {spec->windows.most, spec->windows.stride};
    add_bytes(hash, numbers, sizeof numbers);
    if (spec->windows.most > 1) add_bytes(hash, windows, sizeof windows);
    add_text(hash, recipe);
    if (spec->weight) add_text(hash, spec->weight);
    add_text(hash, ending_of(spec->path));
    for (int t = 0; t < n_texts; t++) {
        uint64_t tokenizer = tri__tokenizer_hash(spec->tokenizer[tri__reader(&spec->windows.readers, t)]);
        add_bytes(hash, &tokenizer, sizeof tokenizer);
    }
    add_bytes(hash, table, sizeof *table);
}

/* The same text for equal values; frees the value. NULL: out of memory. */
static char *recipe_of(tri_json *json) {
    char *text = tri__json_text(json, TRI_JSON_COMPACT | TRI_JSON_SORT_KEYS | TRI_JSON_REAL_PRECISION(17));
    tri__json_decref(json);
    return text;
}

static tri_status find_origin(const tri_dataset_spec *spec, const tri_preprocess_spec *fit, tri_store_origin *origin,
                              uint64_t *stamp) {
    XXH3_state_t hash;
    tri_json *fitting = fit ? tri__preprocess_spec_json(fit) : tri__preprocess_json(spec->preprocess);
    TRI_OWNED(tri__free_at) char *recipe = recipe_of(fitting);
    TRI_OWNED(tri__free_at) char *parts = spec->parts ? recipe_of(tri__division_json(spec->parts)) : NULL;
    int n_texts = tri__preprocess_texts(fit ? fit->text : spec->preprocess->text);
    if (spec->parts && !parts) return tri__fail(TRI_RESOURCE, "out of memory for a token store");
    if (!recipe) return tri__fail(TRI_RESOURCE, "%s: out of memory", spec->path);
    XXH3_128bits_reset(&hash);
    TRI_TRY(hash_files(&hash, spec->path, stamp));
    origin->table = digest(&hash);
    XXH3_128bits_reset(&hash);
    add_text(&hash, fit ? "fit" : "apply");
    hash_all(&hash, spec, recipe, n_texts, &origin->table);
    if (parts) add_text(&hash, parts); /* how rows are divided */
    origin->key = digest(&hash);
    origin->place = hash_place(spec->path);
    return TRI_OK;
}

/* The skipped rows that the store's notes list. */
static tri_status read_bad(const char *path, whole *w) {
    const tri_json *bad = tri__json_get(w->notes, "bad"), *first = tri__json_get(bad, "first");
    w->data.n_bad = tri__whole_in(bad, "count");
    tri__json_each(first, i, row) {
        const char *why = tri__text_in(row, "why");
        if (!why || i == TRI_BAD_DESCRIBED) return tri__fail(TRI_DATA, "%s: its notes are damaged", path);
        w->bad[i] = (tri_bad_row){tri__whole_in(row, "line"), tri__whole_in(row, "column"), why};
        w->data.n_described = (int)i + 1;
    }
    w->data.bad = w->bad;
    return TRI_OK;
}

/* Of a part of the table; NULL: nothing. */
static const tri_json *unseen_of(const tri_json *notes, tri_rows_for part) {
    const tri_json *list = tri__json_at(tri__json_get(notes, "unseen"), (size_t)part);
    return tri__json_size(list) ? list : NULL;
}

static tri_status parse_notes(whole *w) {
    const tri_store *store = &w->store;
    size_t bytes = store->bytes[TRI_SECTION_NOTES];
    TRI_OWNED(tri__free_at) char *text = malloc(bytes + 1);
    if (!text) return tri__fail(TRI_RESOURCE, "%s: out of memory", store->path);
    TRI_TRY(tri__store_read(store, TRI_SECTION_NOTES, 0, bytes, text));
    return tri__json_parse(text, bytes, store->path, TRI_DATA, &w->notes);
}

static tri_windows windows_of(const tri_dataset_spec *spec) {
    if (spec->windows.most > 1) return spec->windows;
    return (tri_windows){.most = 1, .max_len = spec->max_len, .readers = spec->windows.readers};
}

/* Limits for the store's rows; preprocess: of these rows. */
static tri_row_limits find_limits(const tri_dataset_spec *spec, const tri_preprocess *preprocess) {
    tri_windows windows = windows_of(spec);
    tri_row_limits limits = {.max_len = tri__windows_room(&windows), .width = preprocess->width,
                             .n_classes = preprocess->target ? 0 : preprocess->n_classes,
                             .words = tri__target_words(preprocess), .weighted = spec->weight != NULL,
                             .n_texts = tri__preprocess_texts(preprocess->text), .need_labels = spec->need_labels,
                             .need_parts = spec->parts != NULL};
    for (int t = 0; t < limits.n_texts; t++)
        limits.vocabulary[t] = tri__tokenizer_size(spec->tokenizer[tri__reader(&windows.readers, t)]);
    return limits;
}

/* Opens a store as a dataset. fitted: receives the preprocessing from the store; NULL: the caller has it. */
static tri_status look_in(const tri_dataset_spec *spec, const tri_preprocess_spec *fit, const tri_preprocess *at_hand,
                          whole *w, tri_preprocess **fitted) {
    TRI_TRY(parse_notes(w));
    TRI_TRY(read_bad(w->store.path, w));
    if (fitted) TRI_TRY(tri__preprocess_parse(tri__json_get(w->notes, "preprocessing"), w->store.path, fitted));
    const tri_preprocess *preprocess = fitted ? *fitted : at_hand;
    if (fit && (preprocess->n_classes != fit->n_classes ||
                tri__preprocess_texts(preprocess->text) != tri__preprocess_texts(fit->text)))
        return tri__fail(TRI_DATA, "%s: its preprocessing is not what was asked for", w->store.path);
    if (!spec->parts) w->data.unseen = unseen_of(w->notes, 0);
    tri_row_limits limits = find_limits(spec, preprocess);
    w->data.windows = windows_of(spec);
    for (int t = 0; t < limits.n_texts; t++)
        w->data.cut[t] = tri__json_integer_value(tri__json_at(tri__json_get(w->notes, "cut"), (size_t)t));
    return tri__dataset_take(&w->store, &limits, &w->data);
}

static void forget(whole *w) {
    tri__dataset_drop(&w->data);
    tri__store_close(&w->store);
    tri__json_decref(w->notes);
    *w = (whole){0};
}

static void whole_drop(whole **at) {
    if (*at) forget(*at);
    free(*at);
}

static tri_json *bad_json(int64_t count, const tri_bad_row *rows, int n) {
    tri_json *first = tri__json_array();
    for (int i = 0; i < n; i++)
        tri__json_append_new(first, tri__json_pack("{s:I, s:I, s:s}", "line", (tri_json_int)rows[i].line, "column",
                                                   (tri_json_int)rows[i].column, "why", rows[i].why));
    return tri__json_pack("{s:I, s:o}", "count", (tri_json_int)count, "first", first);
}

tri_json *tri__dataset_bad_json(const tri_dataset *d) { return bad_json(d->n_bad, d->bad, d->n_described); }

/* Describes what is unusual about a table's format; "" if nothing is. */
static void describe_form(const tri_table *table, const tri_preprocess *preprocess, char *out, size_t size) {
    const char *separated = tri__table_recognised(table) ? tri__separator_words(tri__table_separator(table)) : "";
    int commas = preprocess->reading.decimal == ',' && preprocess->n_columns;
    const char *decimal = commas ? "numbers have decimal commas" : "";
    snprintf(out, size, "%s%s%s%s", separated[0] ? "fields are separated by " : "", separated,
             separated[0] && decimal[0] ? ", " : "", decimal);
}

static tri_status write_notes(const tri_built *built, const char *form, const tri_preprocess *fitted, int windowed,
                              int n_texts, tri_store_writer *writer) {
    const tri_bad_list *bad = &built->bad;
    tri_json *notes = tri__json_pack("{s:o, s:s}", "bad", bad_json(bad->count, bad->row, bad->n), "form", form);
    tri_json *cut = windowed ? tri__json_array() : NULL;
    for (int t = 0; t < (n_texts > 2 ? n_texts : 2) && windowed; t++)
        tri__json_append_new(cut, tri__json_integer(built->cut[t]));
    if (windowed) tri__json_set_new(notes, "cut", cut);
    tri__json_set(notes, "unseen", built->unseen);
    if (fitted) tri__json_set_new(notes, "preprocessing", tri__preprocess_json(fitted));
    TRI_OWNED(tri__free_at) char *text = tri__json_text(notes, TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(17));
    tri__json_decref(notes);
    if (!text) return tri__fail(TRI_RESOURCE, "out of memory for a token store");
    TRI_TRY(tri__store_begin(writer, TRI_SECTION_NOTES));
    return tri__store_append(writer, text, strlen(text));
}

/* Creates the cache folder if needed, and removes files from it that no run can use. */
static tri_status prepare_cache(const tri_dataset_spec *spec, const tri_store_origin *origin) {
    TRI_TRY(tri__folder_make(spec->cache));
    int removed = tri__store_clean(spec->cache, origin);
    if (removed)
        tri__say(spec->log, TRI_LOG_INFO, "%s: removed %d file%s that no run can use any more", spec->cache, removed,
                 removed == 1 ? "" : "s");
    return TRI_OK;
}

static void end_built(tri_built *built) {
    tri__bad_list_free(&built->bad);
    tri__json_decref(built->unseen);
}

/* Builds the store; path NULL: in memory. fitted: receives the fitted preprocessing, even if it fails later. */
static tri_status make(const tri_dataset_spec *spec, const tri_preprocess_spec *fit, const char *path,
                       const tri_store_origin *origin, uint64_t stamp, whole *w, tri_preprocess **fitted) {
    TRI_OWNED(end_built) tri_built built = {0};
    TRI_OWNED(tri__free_at) uint8_t *part = NULL; /* [rows of the table] */
    TRI_OWNED(tri__table_drop) tri_table *table = NULL;
    TRI_OWNED(tri__store_writer_drop) tri_store_writer *writer = NULL;
    tri_table_options options = {.threads = spec->threads, .bad_rows = spec->bad_rows, .separator = spec->separator,
                                 .keep = spec->keep, .tables = spec->tables};
    TRI_TRY(tri__table_open(spec->path, &options, &table));
    if (fit) TRI_TRY(tri__preprocess_fit(table, fit, spec->threads, fitted));
    const tri_preprocess *preprocess = fit ? *fitted : spec->preprocess;
    if (spec->parts && !(part = malloc((size_t)tri__table_rows(table) + 1)))
        return tri__fail(TRI_RESOURCE, "%s: out of memory", spec->path);
    if (spec->parts) TRI_TRY(tri__division_find(table, spec->parts, preprocess, part));
    if (spec->counted) spec->counted(spec->counted_context, tri__table_rows(table));
    if (path) TRI_TRY(prepare_cache(spec, origin));
    TRI_TRY(tri__store_create(path, origin, &(tri_store_wait){.stop = spec->stop, .log = spec->log}, &writer));
    TRI_TRY(tri__dataset_build(spec, preprocess, table, part, writer, &built));
    char form[120];
    describe_form(table, preprocess, form, sizeof form);
    TRI_TRY(write_notes(&built, form, fit ? preprocess : NULL, spec->windows.most > 1,
                        tri__preprocess_texts(preprocess->text), writer));
    if (path) TRI_TRY(check_stamp(spec->path, stamp));
    int64_t width = preprocess->width + (spec->weight != NULL);
    TRI_TRY(tri__store_commit(TRI_GIVE(writer), built.rows, width, &w->store));
    TRI_TRY(look_in(spec, fit, preprocess, w, NULL));
    if (!path) w->data.memory += (int64_t)w->store.file_bytes;
    return TRI_OK;
}

/* Logs texts that are cut although they are windowed. */
static void describe_cut(const tri_dataset_spec *spec, const tri_dataset *d) {
    char cut[32], rows[32];
    for (int t = 0; t < d->n_texts; t++)
        if (d->cut[t])
            tri__say(spec->log, TRI_LOG_INFO,
                     "%s: %s of %s %s texts are longer than %d windows: cut at %lld tokens (max_sen_len %d, stride %d)",
                     spec->path, tri__text_count(d->cut[t], cut), tri__text_count(d->n, rows), tri__branch_name(t),
                     d->windows.most, (long long)tri__windows_room(&d->windows), d->windows.max_len, d->windows.stride);
}

/* Logs rows, tokens and skipped rows. */
static void describe(const tri_dataset_spec *spec, const whole *w, double seconds) {
    const tri_dataset *d = &w->data;
    char rows[32], tokens[32], time[32], in[64] = "", windows[32], text[600] = "";
    tri_packed all = {0};
    for (int t = 0; t < d->n_texts; t++)
        for (int64_t row = 0; row < d->n; row++) {
            tri_packed packed = tri__dataset_packed(d, t, row);
            all.tokens += packed.tokens, all.windows += packed.windows;
        }
    if (d->windows.most > 1) snprintf(in, sizeof in, " in %s windows", tri__text_count(all.windows, windows));
    if (seconds < 1) snprintf(time, sizeof time, "%.0f ms", 1e3 * seconds);
    else tri__text_seconds(seconds, time);
    tri__say(spec->log, TRI_LOG_INFO, "%s: %s rows, %s tokens%s, %s in %s", spec->path, tri__text_count(d->n, rows),
             tri__text_count(all.tokens, tokens), in, d->from_store ? "from the token store" : "tokenised", time);
    describe_cut(spec, d);
    const char *form = tri__text_in(w->notes, "form");
    if (form && form[0]) tri__say(spec->log, TRI_LOG_INFO, "%s: %s", spec->path, form);
    if (!d->n_bad) return;
    int shown = 0;
    for (; shown < d->n_described && shown < 3; shown++)
        tri__text_append(text, sizeof text, "; ", "%lld:%lld: %.150s", (long long)d->bad[shown].line,
                         (long long)d->bad[shown].column, d->bad[shown].why);
    tri__say(spec->log, TRI_LOG_WARN, "%s: %s bad row%s left out: %s%s", spec->path, tri__text_count(d->n_bad, rows),
             d->n_bad == 1 ? "" : "s", text, d->n_bad > shown ? "; ..." : "");
}

static tri_status open_or_make(const tri_dataset_spec *spec, const tri_preprocess_spec *fit, whole *w,
                               tri_preprocess **fitted) {
    char path[TRI_PATH_MAX];
    tri_store_origin origin = {0};
    uint64_t stamp = 0;
    if (!spec->cache) return make(spec, fit, NULL, &origin, stamp, w, fitted);
    TRI_TRY(find_origin(spec, fit, &origin, &stamp));
    TRI_TRY(tri__store_path(spec->cache, &origin.key, path));
    const tri_store_wait wait = {.stop = spec->stop, .log = spec->log};
    tri_status status = tri__store_open(path, &origin.key, &wait, &w->store);
    if (status == TRI_OK) status = look_in(spec, fit, spec->preprocess, w, fit ? fitted : NULL);
    if ((w->data.from_store = status == TRI_OK)) return TRI_OK;
    if (fit) tri__preprocess_free(TRI_GIVE(*fitted));
    if (status != TRI_NOINPUT && status != TRI_DATA && status != TRI_IO) return status;
    forget(w);
    if (status != TRI_NOINPUT) tri__say(spec->log, TRI_LOG_WARN, "%s; making it again", tri_error());
    return make(spec, fit, path, &origin, stamp, w, fitted);
}

static tri_status open_whole(const tri_dataset_spec *spec, const tri_preprocess_spec *fit, tri_preprocess **fitted,
                             tri_dataset **out) {
    TRI_ASSERT(spec->max_len >= 2 && spec->threads >= 1);
    TRI_ASSERT(!spec->parts || spec->need_labels);
    TRI_ASSERT(spec->windows.most < 2 || spec->windows.max_len == spec->max_len);
    double begin = tri__clock();
    *out = NULL;
    TRI_OWNED(whole_drop) whole *w = NULL;
    TRI_TRY(TRI_NEW(w, 1, spec->path));
    tri_status status = open_or_make(spec, fit, w, fitted);
    if (status != TRI_OK && fit) tri__preprocess_free(TRI_GIVE(*fitted));
    TRI_TRY(status);
    describe(spec, w, tri__clock() - begin);
    *out = &TRI_GIVE(w)->data;
    return TRI_OK;
}

tri_status tri__dataset_open(const tri_dataset_spec *spec, tri_dataset **out) {
    return open_whole(spec, NULL, NULL, out);
}

tri_status tri__dataset_fit(const tri_dataset_spec *spec, const tri_preprocess_spec *fit, tri_preprocess **preprocess,
                            tri_dataset **out) {
    TRI_ASSERT(fit->bad_rows == spec->bad_rows && fit->parts == spec->parts);
    *preprocess = NULL;
    return open_whole(spec, fit, preprocess, out);
}

tri_status tri__dataset_part(const tri_dataset *dataset, tri_rows_for part, tri_dataset **out) {
    const whole *from = (const whole *)dataset;
    TRI_ASSERT(dataset->part);
    *out = NULL;
    TRI_OWNED(whole_drop) whole *w = NULL;
    TRI_TRY(TRI_NEW(w, 1, "a part of a table"));
    TRI_TRY(tri__store_share(&from->store, &w->store));
    TRI_TRY(tri__dataset_select(dataset, part, &w->store, &w->data));
    w->notes = tri__json_incref(from->notes);
    w->data.unseen = unseen_of(w->notes, part);
    if (part == TRI_ROWS_TRAIN) TRI_TRY(read_bad(w->store.path, w)); /* skipped rows have no part: they are told once */
    *out = &TRI_GIVE(w)->data;
    return TRI_OK;
}

void tri__dataset_close(tri_dataset *dataset) {
    whole *w = (whole *)dataset;
    whole_drop(&w);
}
