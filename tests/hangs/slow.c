/* slow.c - loaded before a program (LD_PRELOAD), it makes one kind of file call slow, as a bad disk does.
 *   SLOW_CALL=fsync|pread   which call
 *   SLOW_FILE=TEXT[|TEXT]   only files whose path contains one of these
 *   SLOW_SECONDS=S          how long each such call takes in addition
 *   SLOW_TIMES=N            how many calls of each process are slow; 0: all (default)
 *   SLOW_EVERY=N            only each N-th of these calls
 *   SLOW_RANK=R             only in the process whose RANK is R; without one in all */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static atomic_int calls;

static int has_one_of(const char *path, const char *texts) {
    for (const char *end; texts; texts = *end ? end + 1 : NULL) {
        end = strchrnul(texts, '|');
        if (memmem(path, strlen(path), texts, (size_t)(end - texts))) return 1;
    }
    return 0;
}

static void be_slow(const char *call, int fd) {
    const char *which = getenv("SLOW_CALL"), *file = getenv("SLOW_FILE"), *seconds = getenv("SLOW_SECONDS"),
               *rank = getenv("SLOW_RANK"), *own = getenv("RANK"), *times = getenv("SLOW_TIMES"),
               *every = getenv("SLOW_EVERY");
    char link[64], path[4096] = "";
    if (!which || strcmp(which, call) || !seconds || (rank && *rank && (!own || strcmp(rank, own)))) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) < 0 || (file && !has_one_of(path, file))) return;
    int before = atomic_fetch_add(&calls, 1);
    if ((times && atoi(times) && before >= atoi(times)) || (every && (before + 1) % atoi(every))) return;
    double s = atof(seconds);
    struct timespec left = {.tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9)};
    while (nanosleep(&left, &left)) continue;
}

int fsync(int fd) {
    be_slow("fsync", fd);
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}

ssize_t pread(int fd, void *data, size_t size, off_t at) {
    be_slow("pread", fd);
    return ((ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread"))(fd, data, size, at);
}

ssize_t pread64(int fd, void *data, size_t size, off_t at) { return pread(fd, data, size, at); }
