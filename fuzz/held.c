/* held.c - files in memory, for parsers that take a path and read the whole file: the linker sends their calls of
 * tri__file_read and its kin here (--wrap). What is not held goes on to the file system. */
#include "fuzz.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 16 };

static struct held {
    char path[160];
    char *data;
    size_t size, room;
} held[MOST_FILES];
static int n_held;
static const char *folder; /* NULL until the first file is held */
static size_t folder_length;

/* Whether a path lies in the folder that holds files, or is it. */
static int inside(const char *path) {
    return folder && !strncmp(path, folder, folder_length) && (!path[folder_length] || path[folder_length] == '/');
}

static struct held *find(const char *path) {
    if (!inside(path) || !path[folder_length]) return NULL;
    for (int i = 0; i < n_held; i++)
        if (!strcmp(held[i].path + folder_length + 1, path + folder_length + 1)) return &held[i];
    return NULL;
}

static const char *hold(const char *path, const void *data, size_t size) {
    struct held *file = find(path);
    if (!file) {
        FUZZ_CHECK(n_held < MOST_FILES && strlen(path) < sizeof file->path);
        file = &held[n_held++];
        strcpy(file->path, path);
    }
    if (size > file->room) {
        file->data = realloc(file->data, file->room = 2 * size);
        FUZZ_CHECK(file->data != NULL);
    }
    if (size) memcpy(file->data, data, size);
    file->size = size;
    return file->path;
}

const char *fuzz_hold(const char *name, const void *data, size_t size) {
    char path[256];
    if (!folder) folder = fuzz_folder(), folder_length = strlen(folder);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return hold(path, data, size);
}

#define WRAPPED(type, name, ...) \
    type __real_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__)

WRAPPED(tri_status, tri__file_read, const char *path, size_t limit, char **text, size_t *size) {
    const struct held *file = find(path);
    if (!file || file->size > limit) return __real_tri__file_read(path, limit, text, size);
    *text = malloc(file->size + 1); /* of exactly its size, for sanitizers */
    FUZZ_CHECK(*text != NULL);
    if (file->size) memcpy(*text, file->data, file->size);
    (*text)[file->size] = 0;
    *size = file->size;
    return TRI_OK;
}

/* Nothing but what is held is in that folder. */
WRAPPED(tri_status, tri__file_there, const char *path, int *there) {
    *there = find(path) != NULL;
    return inside(path) ? TRI_OK : __real_tri__file_there(path, there);
}

WRAPPED(tri_status, tri__folder_there, const char *path, int *there) {
    size_t length = strlen(path);
    if (!inside(path)) return __real_tri__folder_there(path, there);
    *there = 0;
    for (int i = 0; i < n_held; i++) *there |= !strncmp(held[i].path, path, length) && held[i].path[length] == '/';
    return TRI_OK;
}

WRAPPED(tri_status, tri__file_write, const char *path, const void *data, size_t size) {
    if (!inside(path)) return __real_tri__file_write(path, data, size);
    hold(path, data, size);
    return TRI_OK;
}

WRAPPED(tri_status, tri__folder_make, const char *path) {
    return inside(path) ? TRI_OK : __real_tri__folder_make(path);
}
