/* fuzz.c - files for parsers that read files, made fast: memory behind /proc/self/fd, and a folder in /dev/shm where
 * there is one. */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fuzz_broken(const char *file, int line, const char *condition) {
    fprintf(stderr, "%s:%d: this promise was broken: %s\n", file, line, condition);
    abort();
}

unsigned fuzz_choice(const uint8_t *data, size_t size, unsigned n) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++) hash = (hash ^ data[i]) * 16777619u;
    return (hash ^ hash >> 16) % n;
}

static void fill(int fd, const void *data, size_t size) {
    /* written first: its pages stay */
    if ((size && pwrite(fd, data, size, 0) != (ssize_t)size) || ftruncate(fd, (off_t)size)) {
        perror("fuzz: cannot write the input");
        abort();
    }
}

const char *fuzz_file(const uint8_t *data, size_t size) {
    static int fd = -1;
    static char path[32];
    if (fd < 0) {
        fd = memfd_create("input", MFD_CLOEXEC);
        FUZZ_CHECK(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    fill(fd, data, size);
    return path;
}

static char folder[64];

static void remove_folder(void) {
    DIR *files = opendir(folder);
    for (struct dirent *entry; files && (entry = readdir(files));)
        if (entry->d_name[0] != '.') unlinkat(dirfd(files), entry->d_name, 0);
    if (files) closedir(files);
    rmdir(folder);
}

static int make_folder(const char *under) {
    int length = snprintf(folder, sizeof folder, "%s/trident-fuzz-", under);
    memset(folder + length, 'X', 6);
    folder[length + 6] = 0;
    return mkdtemp(folder) != NULL;
}

const char *fuzz_folder(void) {
    if (folder[0]) return folder;
    FUZZ_CHECK(make_folder("/dev/shm") || make_folder("/tmp"));
    atexit(remove_folder);
    return folder;
}

void fuzz_write(const char *name, const void *data, size_t size) {
    static int fd = -1;
    static char last[64];
    if (fd < 0 || strcmp(name, last) != 0) {
        char path[160];
        FUZZ_CHECK(strlen(name) < sizeof last);
        strcpy(last, name);
        snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
        if (fd >= 0) close(fd);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        FUZZ_CHECK(fd >= 0);
    }
    fill(fd, data, size);
}

void fuzz_shard(const char *name, const char *header, size_t bytes) {
    uint64_t length = strlen(header);
    char *all = malloc(sizeof length + length + bytes);
    FUZZ_CHECK(all != NULL);
    memcpy(all, &length, sizeof length);
    memcpy(all + sizeof length, header, length);
    for (size_t i = 0; i < bytes; i++) all[sizeof length + length + i] = (char)('0' + i % 64);
    fuzz_write(name, all, sizeof length + length + bytes);
    free(all);
}
