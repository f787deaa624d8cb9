/* checkpoint_save.c - saves a checkpoint atomically. Everything is written into a temporary folder and synced, the
 * manifest last; one rename makes it a checkpoint. A kill at any point leaves the old state or the new one, and perhaps
 * a temporary folder, which the next prune removes. */
#include "checkpoint/checkpoint_parts.h"
#include "checkpoint/folders.h"

#include <errno.h>
#include <unistd.h>

static tri_json *sizes_json(const int64_t *value, int n) {
    tri_json *list = tri__json_array();
    for (int i = 0; i < n; i++) tri__json_append_new(list, tri__json_integer(value[i]));
    return list;
}

/* Appends rows to those of a manifest: slices of a tensor that has one go there. -1 if out of memory. */
static int join_rows(tri_json *rows, const tri_json *more) {
    /* name -> list of slices, borrowed from the rows */
    TRI_OWNED(tri__json_drop) tri_json *slices_of = tri__json_object();
    const tri_json *lists[] = {rows, more};
    int failed = slices_of == NULL;
    for (int k = 0; k < 2; k++) {
        tri__json_items(lists[k], row) {
            const char *name = tri__text_in(row, "name");
            tri_json *own = tri__json_get(row, "slices"), *slices = tri__json_get(slices_of, name);
            if (slices) failed |= tri__json_extend(slices, own);
            else failed |= tri__json_set(slices_of, name, own) | (k ? tri__json_append(rows, row) : 0);
        }
    }
    return failed;
}

tri_status tri__tensor_rows(const char *file, const tri_piece *pieces, const tri_piece *stored, char (*hash)[33], int n,
                            tri_json *tensors) {
    TRI_OWNED(tri__json_drop) tri_json *rows = tri__json_array(); /* of each piece */
    for (int i = 0; i < n; i++) {
        const tri_piece *piece = &pieces[i];
        tri_json *slice = tri__json_pack(
            "{s:s, s:s, s:o, s:o, s:I, s:I, s:s*}", "file", file, "tensor", stored[i].name, "start",
            sizes_json(piece->slice.start, piece->shape.n), "extent", sizes_json(piece->slice.extent, piece->shape.n),
            "begin", (tri_json_int)piece->slice.begin, "end", (tri_json_int)piece->slice.end, "xxh3",
            hash ? hash[i] : NULL);
        tri__json_append_new(rows, tri__json_pack("{s:s, s:s, s:o, s:[o]}", "name", piece->name, "dtype",
                                                  tri__dtype_file_name(piece->dtype), "shape",
                                                  sizes_json(piece->shape.dim, piece->shape.n), "slices", slice));
    }
    int failed = !tri__json_is_whole(rows) || join_rows(tensors, rows);
    return failed ? tri__fail(TRI_RESOURCE, "out of memory for the manifest") : TRI_OK;
}

size_t tri__stored_bytes(const tri_piece *pieces, int n) {
    size_t names = 0;
    for (int i = 0; i < n; i++) names += strlen(pieces[i].name) + 32;
    return (size_t)n * (sizeof(tri_piece) + 32) + names;
}

tri_piece *tri__stored_pieces(tri_arena *arena, const tri_piece *pieces, int n) {
    tri_piece *stored = tri__arena_alloc(arena, (size_t)n * sizeof *stored);
    for (int i = 0; i < n; i++) {
        stored[i] = pieces[i];
        if (tri__slice_is_whole(&pieces[i].slice, &pieces[i].shape)) continue;
        stored[i].name = tri__arena_print(arena, "%s@%d", pieces[i].name, i);
        stored[i].shape = tri__shape_1d(pieces[i].slice.end - pieces[i].slice.begin);
        stored[i].slice = tri__slice_whole(&stored[i].shape);
    }
    return stored;
}

static tri_status save_pieces(const char *folder, const char *file, const tri_piece *pieces, int n, tri_json *part) {
    if (n == 0) return TRI_OK;
    TRI_PATH(path, folder, file);
    TRI_OWNED(tri__arena_close) tri_arena arena = {0};
    TRI_TRY(tri__arena_open(&arena, tri__stored_bytes(pieces, n) + (size_t)n * 33 + 4096));
    tri_piece *stored = tri__stored_pieces(&arena, pieces, n);
    TRI_OWNED(tri__json_drop) tri_json *metadata = tri__json_pack("{s:s}", "format", "pt");
    tri_st_written written = {.piece = tri__arena_alloc(&arena, (size_t)n * sizeof *written.piece)};
    if (!metadata) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    TRI_TRY(tri__st_write(path, stored, n, metadata, &written));
    TRI_TRY(tri__tensor_rows(file, pieces, stored, written.piece, n, tri__json_get(part, "tensors")));
    if (tri__json_append_new(tri__json_get(part, "files"),
                             tri__json_pack("{s:s, s:I, s:s}",
                                            "name", file, "bytes", (tri_json_int)written.bytes, "xxh3", written.xxh3)))
        return tri__fail(TRI_RESOURCE, "out of memory for the manifest");
    return TRI_OK;
}

static tri_status save_json(const char *folder, const char *name, const tri_json *value) {
    if (!value) return TRI_OK;
    TRI_PATH(path, folder, name);
    return tri__json_save_exact(path, value);
}

static tri_status save_manifest(const tri_checkpoint_out *out, const char *folder, const tri_json *part) {
    tri_json *files;
    TRI_TRY(tri__manifest_files(folder, tri__json_get(part, "files"), &files));
    TRI_OWNED(tri__json_drop) tri_json *manifest =
        tri__json_pack("{s:I, s:I, s:s, s:O, s:o}",
                       "step", (tri_json_int)out->step, "sequence", (tri_json_int)out->sequence,
                       "engine", tri_version(), "tensors", tri__json_get(part, "tensors"), "files", files);
    tri_json *state = out->state ? tri__json_deep_copy(out->state) : tri__json_object();
    if (tri__json_set_new(manifest, "state", state)) return tri__fail(TRI_RESOURCE, "%s: out of memory", folder);
    return tri__manifest_save(folder, manifest);
}

tri_status tri__checkpoint_write(const tri_checkpoint_out *out, const char *made, int rank, tri_json **part) {
    *part = tri__json_pack("{s:[], s:[]}", "tensors", "files");
    if (!*part) return tri__fail(TRI_RESOURCE, "out of memory for the manifest");
    char file[64];
    snprintf(file, sizeof file, TRI_FILE_WEIGHTS, rank);
    TRI_TRY(save_pieces(made, file, out->weights, out->n_weights, *part));
    snprintf(file, sizeof file, TRI_FILE_OPTIMIZER, rank);
    return out->optimizer ? save_pieces(made, file, out->optimizer, out->n_optimizer, *part) : TRI_OK;
}

tri_status tri__checkpoint_join(tri_json *part, const tri_json *added) {
    int failed = tri__json_extend(tri__json_get(part, "files"), tri__json_get(added, "files")) ||
                 join_rows(tri__json_get(part, "tensors"), tri__json_get(added, "tensors"));
    return failed ? tri__fail(TRI_RESOURCE, "out of memory for the manifest") : TRI_OK;
}

/* Renames `made` to `final`. An older checkpoint of that name is exchanged atomically and then removed; if the file
 * system cannot exchange names, it is moved away first, and back if the second rename fails. */
static tri_status commit(const tri_checkpoint_out *out, const char *made, const char *final) {
    char away[TRI_PATH_MAX];
    TRI_TRY(tri__checkpoint_name(away, out->folder, out->step, TRI_TEXT(64, ".tmp.old-%ld", (long)getpid())));
    const char *old = made;
    if (tri__path_rename(made, final, TRI_RENAME_EXCHANGE)) {
        int moved = errno != ENOENT && tri__path_rename(final, away, TRI_RENAME_REPLACE) == 0;
        old = away;
        if (tri__path_rename(made, final, TRI_RENAME_REPLACE)) {
            int cause = errno;
            if (moved) (void)tri__path_rename(away, final, TRI_RENAME_REPLACE);
            errno = cause;
            return tri__fail_errno("rename", made, TRI_IO);
        }
    }
    TRI_TRY(tri__folder_sync(out->folder));
    return tri__folder_remove_all(old);
}

tri_status tri__checkpoint_begin(const tri_checkpoint_out *out, char made[static TRI_PATH_MAX]) {
    TRI_TRY(tri__checkpoint_name(made, out->folder, out->step, TRI_TEXT(64, ".tmp.%ld", (long)getpid())));
    TRI_TRY(tri__folder_remove_all(made));
    return tri__folder_create(made);
}

/* Opens the new checkpoint as a reader does, before it replaces anything; hashes taken while writing are not
 * repeated. */
static tri_status read_back(const tri_checkpoint_out *out, const char *made) {
    TRI_OWNED(tri__checkpoint_close_at) tri_checkpoint *checkpoint = NULL;
    tri_status status = tri__checkpoint_open_part(made, 0, 0, &checkpoint);
    if (status == TRI_OK && tri__checkpoint_step(checkpoint) != out->step)
        status = tri__fail(TRI_DATA, "%s is of another step", made);
    if (status == TRI_DATA || status == TRI_NOINPUT)
        return tri__fail_in(TRI_IO, "what was written cannot be read back");
    return status;
}

/* Writes all but the shards, the manifest last, and reads it back. */
static tri_status save_rest(const tri_checkpoint_out *out, const char *made, const tri_json *part) {
    TRI_TRY(save_json(made, "config.json", out->config));
    TRI_TRY(save_json(made, "preprocessing.json", out->preprocessing));
    if (out->extras) TRI_TRY(out->extras(out->context, made));
    TRI_TRY(save_manifest(out, made, part));
    TRI_TRY(tri__folder_sync(made));
    return read_back(out, made);
}

tri_status tri__checkpoint_end(const tri_checkpoint_out *out, const char *made, const tri_json *part) {
    char final[TRI_PATH_MAX];
    TRI_TRY(tri__checkpoint_name(final, out->folder, out->step, ""));
    TRI_TRY(save_rest(out, made, part));
    return commit(out, made, final);
}

void tri__checkpoint_drop(const char *made) {
    TRI_KEEP_WORDS();
    (void)tri__folder_remove_all(made); /* the next prune removes leftovers */
}

static tri_status export_into(const tri_checkpoint_out *out, const char *made) {
    TRI_OWNED(tri__json_drop) tri_json *part = tri__json_pack("{s:[], s:[]}", "tensors", "files");
    if (!part) return tri__fail(TRI_RESOURCE, "out of memory for the manifest");
    TRI_TRY(tri__folder_make(made));
    TRI_TRY(save_pieces(made, TRI_FILE_EXPORT, out->weights, out->n_weights, part));
    TRI_TRY(save_rest(out, made, part));
    if (tri__path_rename(made, out->folder, TRI_RENAME_REPLACE) == 0) return TRI_OK;
    if (errno == ENOTEMPTY || errno == EEXIST)
        return tri__fail(TRI_BUSY, "%s: exists and is not empty; name another folder, or remove it", out->folder);
    return tri__fail_errno("rename", made, TRI_IO);
}

tri_status tri__checkpoint_export(const tri_checkpoint_out *out) {
    char made[TRI_PATH_MAX], parent[TRI_PATH_MAX];
    tri_workshop workshop;
    TRI_TRY(tri__path_parent(out->folder, parent));
    TRI_TRY(tri__folder_make(parent));
    TRI_TRY(tri__workshop_open(parent, &workshop));
    tri_status status = tri__path_join(made, workshop.folder, "made");
    if (status == TRI_OK) status = export_into(out, made);
    tri_words words;
    tri__words_keep(&words);
    tri__workshop_close(&workshop);
    tri__words_restore(&words);
    return status == TRI_OK ? tri__folder_sync(parent) : status;
}
