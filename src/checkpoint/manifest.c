/* manifest.c - reads, writes and checks manifest.json. Its checksum is the xxh3-128 of its canonical text without the
 * checksum: compact, keys sorted, 17 significant digits, which parsing and printing again do not change. */
#include "checkpoint/manifest.h"

#include "base/file.h"
#include "checkpoint/hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char file_name[] = "manifest.json", format_name[] = "trident-checkpoint";
enum { VERSION = 1 };

int tri__is_plain_name(const char *name) {
    size_t length = strlen(name);
    if (length == 0 || length > 255 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return 0;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        if (*c == '/' || *c == '\\' || *c < 0x20 || *c == 0x7F) return 0;
    return 1;
}

/* A plain name, or a plain folder and a plain name. */
static int is_listed_name(const char *name) {
    char folder[256];
    const char *slash = strchr(name, '/');
    if (!slash) return tri__is_plain_name(name);
    size_t length = (size_t)(slash - name);
    if (length >= sizeof folder) return 0;
    memcpy(folder, name, length);
    folder[length] = 0;
    return tri__is_plain_name(folder) && tri__is_plain_name(slash + 1);
}

tri_status tri__json_save_exact(const char *path, const json_t *value) {
    char *text = json_dumps(value, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (!text) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    tri_status status = tri__file_write(path, text, strlen(text));
    free(text);
    return status;
}

/* Brings one file to disk and lists it. */
static tri_status list_file(const char *path, const char *name, json_t *files) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd)) {
        int cause = errno;
        if (fd >= 0) close(fd);
        return tri__fail(TRI_IO, "%s: cannot bring to disk: %s", path, strerror(cause));
    }
    close(fd);
    tri_map map;
    TRI_TRY(tri__file_map(path, &map));
    char hex[33];
    tri__hash(map.data, map.size, hex);
    json_t *row = json_pack("{s:s, s:I, s:s}", "name", name, "bytes", (json_int_t)map.size, "xxh3", hex);
    tri__file_unmap(&map);
    return json_array_append_new(files, row) ? tri__fail(TRI_RESOURCE, "%s: out of memory", path) : TRI_OK;
}

/* `prefix`: "" for the checkpoint itself, "primary" for a folder in it; one level is enough. */
static tri_status list_folder(const char *folder, const char *prefix, json_t *files) {
    struct dirent **entry = NULL;
    int n = scandir(folder, &entry, NULL, alphasort);
    if (n < 0) return tri__fail(TRI_IO, "%s: cannot list: %s", folder, strerror(errno));
    tri_status status = TRI_OK;
    for (int i = 0; i < n; i++) {
        char path[TRI_PATH_MAX], name[TRI_PATH_MAX];
        const char *base = entry[i]->d_name;
        if (status == TRI_OK && strcmp(base, ".") != 0 && strcmp(base, "..") != 0) {
            status = tri__path_join(path, folder, base);
            if (status == TRI_OK) status = tri__path_join(name, prefix, base);
            if (status == TRI_OK && tri__is_folder(path) && !*prefix) status = list_folder(path, base, files);
            else if (status == TRI_OK) status = list_file(path, name, files);
        }
        free(entry[i]);
    }
    free(entry);
    if (status == TRI_OK) status = tri__folder_sync(folder);
    return status;
}

tri_status tri__manifest_files(const char *folder, json_t **files) {
    *files = json_array();
    tri_status status = *files ? list_folder(folder, "", *files) : tri__fail(TRI_RESOURCE, "%s: out of memory", folder);
    if (status != TRI_OK) {
        json_decref(*files);
        *files = NULL;
    }
    return status;
}

static tri_status check_file(const char *folder, const json_t *row, int deep) {
    const char *name = json_string_value(json_object_get(row, "name")), *hash = json_string_value(json_object_get(row, "xxh3"));
    const json_t *bytes = json_object_get(row, "bytes");
    if (!name || !hash || !json_is_integer(bytes))
        return tri__fail(TRI_DATA, "%s/%s: a row of files lacks name, bytes or xxh3", folder, file_name);
    if (!is_listed_name(name)) return tri__fail(TRI_DATA, "%s/%s: '%s' is no plain file name", folder, file_name, name);
    char path[TRI_PATH_MAX], hex[33];
    TRI_TRY(tri__path_join(path, folder, name));
    tri_map map;
    TRI_TRY(tri__file_map_listed(folder, name, &map));
    tri_status status = TRI_OK;
    if ((json_int_t)map.size != json_integer_value(bytes)) {
        status = tri__fail(TRI_DATA, "%s has %zu bytes, the manifest says %lld", path, map.size, (long long)json_integer_value(bytes));
    } else if (deep) {
        tri__hash(map.data, map.size, hex);
        if (strcmp(hex, hash) != 0)
            status = tri__fail(TRI_DATA, "%s is damaged: its hash is %s, the manifest says %s", path, hex, hash);
    }
    tri__file_unmap(&map);
    return status;
}

tri_status tri__manifest_check(const char *folder, const json_t *manifest, int deep) {
    const json_t *files = json_object_get(manifest, "files"), *row;
    size_t i;
    if (!json_is_array(files)) return tri__fail(TRI_DATA, "%s/%s has no files", folder, file_name);
    json_array_foreach(files, i, row) {
        tri_status status = check_file(folder, row, deep);
        if (status == TRI_NOINPUT) return tri__fail_in(TRI_DATA, "%s is incomplete", folder);
        TRI_TRY(status);
    }
    return TRI_OK;
}

static tri_status checksum(const char *path, const json_t *manifest, char hex[static 33]) {
    char *text = json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    if (!text) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    tri__hash(text, strlen(text), hex);
    free(text);
    return TRI_OK;
}

tri_status tri__manifest_save(const char *folder, json_t *manifest) {
    char path[TRI_PATH_MAX], hex[33];
    TRI_TRY(tri__path_join(path, folder, file_name));
    if (json_object_set_new(manifest, "format", json_string(format_name)) ||
        json_object_set_new(manifest, "version", json_integer(VERSION)))
        return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    TRI_TRY(checksum(path, manifest, hex));
    if (json_object_set_new(manifest, "checksum", json_string(hex))) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    return tri__json_save_exact(path, manifest);
}

static tri_status check_manifest(const char *path, json_t *manifest) {
    const char *format = json_string_value(json_object_get(manifest, "format"));
    if (!format || strcmp(format, format_name) != 0) return tri__fail(TRI_DATA, "%s is no checkpoint's manifest", path);
    json_int_t version = json_integer_value(json_object_get(manifest, "version"));
    if (version != VERSION)
        return tri__fail(TRI_DATA, "%s has version %lld; this build reads version %d", path, (long long)version, VERSION);
    const char *stated = json_string_value(json_object_get(manifest, "checksum"));
    char kept[33] = "", hex[33];
    if (stated && strlen(stated) == 32) memcpy(kept, stated, sizeof kept);
    json_object_del(manifest, "checksum");
    TRI_TRY(checksum(path, manifest, hex));
    if (strcmp(hex, kept) != 0) return tri__fail(TRI_DATA, "%s is damaged: its checksum is wrong", path);
    return TRI_OK;
}

tri_status tri__manifest_load(const char *folder, json_t **manifest) {
    char path[TRI_PATH_MAX];
    TRI_TRY(tri__path_join(path, folder, file_name));
    TRI_TRY(tri__json_load(path, TRI_DATA, manifest));
    tri_status status = check_manifest(path, *manifest);
    if (status != TRI_OK) {
        json_decref(*manifest);
        *manifest = NULL;
    }
    return status;
}
