/* manifest.c - reads, writes and checks manifest.json. Its first line holds the xxh3-128 of all its other bytes:
 *
 *     {
 *      "checksum": "1f0c...",
 *      "step": 40, ... */
#include "checkpoint/checkpoint.h"

#include "checkpoint/content_hash.h"
#include "checkpoint/safetensors.h"

#include <unistd.h>

static const char file_name[] = "manifest.json", format_name[] = "trident-checkpoint";
static const char opening[] = "{\n", sum_begin[] = " \"checksum\": \"", sum_end[] = "\",\n";
enum { VERSION = 2, HEX = 32 };

int tri__is_shard(const char *name) {
    static const char end[] = ".safetensors";
    return strlen(name) >= sizeof end && tri__text_ends(name, end);
}

int tri__is_plain_name(const char *name) {
    size_t length = strlen(name);
    if (length == 0 || length > 255 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return 0;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        if (*c == '/' || *c == '\\' || *c < 0x20 || *c == 0x7F) return 0;
    return 1;
}

/* A plain name, or a plain folder and a plain name. */
static int is_listed_name(const char *name) {
    const char *slash = strchr(name, '/');
    if (!slash) return tri__is_plain_name(name);
    return slash - name < 256 && tri__is_plain_name(TRI_TEXT(256, "%.*s", (int)(slash - name), name)) &&
           tri__is_plain_name(slash + 1);
}

tri_status tri__json_save_exact(const char *path, const tri_json *value) {
    TRI_OWNED(tri__free_at) char *text = tri__json_text(value, TRI_JSON_INDENT(1) | TRI_JSON_REAL_PRECISION(17));
    if (!text) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    return tri__file_write(path, text, strlen(text));
}

static tri_status list_unknown(const char *path, const char *name, tri_json *files) {
    TRI_OWNED(tri__fd_drop) int fd = -1;
    size_t size;
    char hex[33];
    TRI_TRY(tri__file_open(path, &fd, &size));
    TRI_TRY(tri__hash_file(fd, 0, size, path, hex));
    tri_json *row = tri__json_pack("{s:s, s:I, s:s}", "name", name, "bytes", (tri_json_int)size, "xxh3", hex);
    return tri__json_append_new(files, row) ? tri__fail(TRI_RESOURCE, "%s: out of memory", path) : TRI_OK;
}

static tri_status list_file(const char *path, const char *name, const tri_json *known, tri_json *files) {
    tri__json_items(known, row) {
        TRI_OWNED(tri__fd_drop) int fd = -1;
        size_t bytes;
        if (strcmp(tri__text_in(row, "name"), name) != 0) continue;
        TRI_TRY(tri__file_open(path, &fd, &bytes));
        if ((tri_json_int)bytes != tri__whole_in(row, "bytes"))
            return tri__fail(TRI_IO, "%s: is not what was written there", path);
        return tri__json_append(files, row) ? tri__fail(TRI_RESOURCE, "%s: out of memory", path) : TRI_OK;
    }
    return list_unknown(path, name, files);
}

/* `prefix`: "" for the checkpoint itself, "primary" for a folder in it; one level is enough. */
static tri_status list_folder(const char *folder, const char *prefix, const tri_json *known, tri_json *files) {
    TRI_OWNED(tri__names_free) tri_names found = {0};
    TRI_TRY(tri__folder_list(folder, &found));
    for (int i = 0; i < found.n; i++) {
        const char *base = found.name[i];
        int inner = 0;
        TRI_PATH(path, folder, base);
        TRI_PATH(name, prefix, base);
        if (!*prefix) TRI_TRY(tri__folder_there(path, &inner));
        if (inner) TRI_TRY(list_folder(path, base, known, files));
        else TRI_TRY(list_file(path, name, known, files));
    }
    return tri__folder_sync(folder);
}

int64_t tri__manifest_bytes(const tri_json *manifest) {
    int64_t bytes = 0;
    tri__json_items(tri__json_get(manifest, "files"), row) bytes += tri__whole_in(row, "bytes");
    return bytes;
}

tri_status tri__manifest_files(const char *folder, const tri_json *known, tri_json **files) {
    *files = NULL;
    TRI_OWNED(tri__json_drop) tri_json *all = tri__json_array();
    if (!all) return tri__fail(TRI_RESOURCE, "%s: out of memory", folder);
    TRI_TRY(list_folder(folder, "", known, all));
    *files = TRI_GIVE(all);
    return TRI_OK;
}

/* Names the damaged part of a shard: a tensor, or its header. */
static void name_tensor(const char *folder, const char *name, const tri_json *manifest, char words[static 256]) {
    TRI_OWNED(tri__st_close) tri_st_file file = {0};
    snprintf(words, 256, "its header");
    if (tri__st_open_listed(folder, name, &file) != TRI_OK) return;
    tri__json_items(tri__json_get(manifest, "tensors"), row) {
        tri__json_items(tri__json_get(row, "slices"), slice) {
            const char *in = tri__text_in(slice, "file"), *tensor = tri__text_in(slice, "tensor"),
                       *hash = tri__text_in(slice, "xxh3");
            const tri_st_entry *entry = in && tensor && !strcmp(in, name) ? tri__st_find(&file, tensor) : NULL;
            char hex[33];
            if (!entry || !hash) continue;
            uint64_t at = file.data + (uint64_t)entry->begin, bytes = (uint64_t)(entry->end - entry->begin);
            if (tri__hash_file(file.fd, at, bytes, file.path, hex) != TRI_OK || !strcmp(hex, hash)) continue;
            snprintf(words, 256, "tensor '%s'", tri__text_in(row, "name"));
            return;
        }
    }
}

static tri_status damaged(const char *folder, const char *name, const tri_json *manifest, const char *hex,
                          const char *hash) {
    char what[256] = "";
    int shard = tri__is_shard(name);
    if (shard) name_tensor(folder, name, manifest, what);
    return tri__fail(TRI_DATA, "%s/%s is damaged%s%s: its hash is %s, the manifest says %s", folder, name,
                     shard ? " in " : "", what, hex, hash);
}

static tri_status check_file(const char *folder, const tri_json *manifest, const tri_json *row, int deep) {
    const char *name = tri__text_in(row, "name"), *hash = tri__text_in(row, "xxh3");
    const tri_json *bytes = tri__json_get(row, "bytes");
    if (!name || !hash || !tri__json_is_integer(bytes))
        return tri__fail(TRI_DATA, "%s/%s: a row of files lacks name, bytes or xxh3", folder, file_name);
    if (!is_listed_name(name))
        return tri__fail(TRI_DATA, "%s/%s: '%s' is not a plain file name", folder, file_name, name);
    char hex[33];
    TRI_OWNED(tri__fd_drop) int fd = -1;
    size_t size;
    TRI_PATH(path, folder, name);
    TRI_TRY(tri__file_open_listed(folder, name, &fd, &size));
    if ((tri_json_int)size != tri__json_integer_value(bytes))
        return tri__fail(TRI_DATA, "%s/%s has %zu bytes, the manifest says %lld", folder, name, size,
                         (long long)tri__json_integer_value(bytes));
    if (!deep) return TRI_OK;
    TRI_TRY(tri__hash_file(fd, 0, size, path, hex));
    return strcmp(hex, hash) != 0 ? damaged(folder, name, manifest, hex, hash) : TRI_OK;
}

/* Each file, in order, goes to the part with the fewest bytes so far. */
tri_status tri__manifest_check(const char *folder, const tri_json *manifest, int part, int of) {
    const tri_json *files = tri__json_get(manifest, "files");
    if (!tri__json_is_array(files)) return tri__fail(TRI_DATA, "%s/%s has no files", folder, file_name);
    TRI_OWNED(tri__free_at) double *bytes = calloc((size_t)(of > 0 ? of : 1), sizeof *bytes); /* [of] */
    if (!bytes) return tri__fail(TRI_RESOURCE, "%s: out of memory", folder);
    tri__json_items(files, row) {
        const char *name = tri__text_in(row, "name");
        int least = 0;
        for (int k = 1; k < of; k++) least = bytes[k] < bytes[least] ? k : least;
        bytes[least] += (double)tri__whole_in(row, "bytes");
        int hashes = of == TRI_HASH_SMALL ? name && !tri__is_shard(name) : of > 0 && least == part;
        tri_status status = check_file(folder, manifest, row, hashes);
        if (status == TRI_NOINPUT) return tri__fail_in(TRI_DATA, "%s is incomplete", folder);
        TRI_TRY(status);
    }
    return TRI_OK;
}

char *tri__manifest_text(const tri_json *manifest) {
    char *text = tri__json_text(manifest, TRI_JSON_INDENT(1) | TRI_JSON_REAL_PRECISION(17)), hex[33];
    size_t length = text ? strlen(text) : 0, front = sizeof opening - 1;
    size_t room = length + sizeof sum_begin + HEX + sizeof sum_end;
    char *whole = text ? malloc(room) : NULL;
    if (whole) {
        tri__hash(text, length, hex);
        snprintf(whole, room, "%s%s%s%s%s", opening, sum_begin, hex, sum_end, text + front);
    }
    free(text);
    return whole;
}

tri_status tri__manifest_save(const char *folder, tri_json *manifest) {
    TRI_PATH(path, folder, file_name);
    TRI_OWNED(tri__free_at) char *text = NULL;
    if (!tri__json_set_new(manifest, "format", tri__json_string(format_name)) &&
        !tri__json_set_new(manifest, "version", tri__json_integer(VERSION)))
        text = tri__manifest_text(manifest);
    if (!text) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    size_t length = strlen(text);
    if (length > TRI_LIMIT_JSON_FILE) /* it could not be opened again */
        return tri__fail(TRI_RESOURCE,
                         "%s would have %zu bytes, at most %d are read: too many slices; take --shard hybrid with a "
                         "lower --shard-size", path, length, TRI_LIMIT_JSON_FILE);
    return tri__file_write(path, text, length);
}

/* Removes the checksum's line from the text, in place, and checks the hash of the rest against it. */
static tri_status take_checksum(const char *path, char *text, size_t *size) {
    enum { FRONT = sizeof opening - 1 + sizeof sum_begin - 1, LINE = sizeof sum_begin - 1 + HEX + sizeof sum_end - 1 };
    char hex[33];
    if (*size < FRONT + LINE || memcmp(text, opening, sizeof opening - 1) != 0 ||
        memcmp(text + sizeof opening - 1, sum_begin, sizeof sum_begin - 1) != 0 ||
        memcmp(text + FRONT + HEX, sum_end, sizeof sum_end - 1) != 0)
        return tri__fail(TRI_DATA, "%s is damaged, or not a checkpoint's manifest: it does not begin with its checksum",
                         path);
    char stated[HEX];
    memcpy(stated, text + FRONT, HEX);
    *size -= LINE;
    memmove(text + sizeof opening - 1, text + sizeof opening - 1 + LINE, *size - (sizeof opening - 1));
    tri__hash(text, *size, hex);
    return memcmp(hex, stated, HEX) != 0 ? tri__fail(TRI_DATA, "%s is damaged: its checksum is wrong", path) : TRI_OK;
}

static tri_status check_manifest(const char *path, tri_json *manifest) {
    const char *format = tri__text_in(manifest, "format");
    if (!format || strcmp(format, format_name) != 0)
        return tri__fail(TRI_DATA, "%s is not a checkpoint's manifest", path);
    tri_json_int version = tri__whole_in(manifest, "version");
    if (version != VERSION) /* intact, since its checksum matches */
        return tri__fail(TRI_USAGE, "%s has version %lld; this build reads version %d", path, (long long)version,
                         VERSION);
    return TRI_OK;
}

tri_status tri__manifest_load(const char *folder, tri_json **manifest) {
    TRI_OWNED(tri__free_at) char *text = NULL;
    TRI_OWNED(tri__json_drop) tri_json *read = NULL;
    size_t size;
    *manifest = NULL;
    TRI_PATH(path, folder, file_name);
    TRI_TRY(tri__file_read(path, TRI_LIMIT_JSON_FILE, &text, &size));
    TRI_TRY(take_checksum(path, text, &size));
    TRI_TRY(tri__json_parse(text, size, path, TRI_DATA, &read));
    TRI_TRY(check_manifest(path, read));
    *manifest = TRI_GIVE(read);
    return TRI_OK;
}
