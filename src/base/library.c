/* library.c - finds and loads plug-ins. */
#include "base/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Tries FOLDER/NAME, FOLDER/../lib/NAME and FOLDER/../NAME (a build folder), where FOLDER holds `file`. */
static void *open_beside(const char *file, const char *name, int flags) {
    static const char *const where[] = {"", "../lib/", "../"};
    char path[4096];
    const char *slash = file ? strrchr(file, '/') : NULL;
    for (int i = 0; i < 3 && slash; i++) {
        int n = snprintf(path, sizeof path, "%.*s%s%s", (int)(slash - file + 1), file, where[i], name);
        if (n < (int)sizeof path && access(path, R_OK) == 0) return dlopen(path, flags);
    }
    return NULL;
}

void *tri__library_open(const char *name, int global, const char **why) {
    int flags = RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL);
    Dl_info here;
    char self[4096];
    dlerror();
    void *library = dladdr((void *)(uintptr_t)tri__library_open, &here) ? open_beside(here.dli_fname, name, flags)
                                                                        : NULL;
    const char *error = library ? NULL : dlerror();
    ssize_t n = library || tri__library_no_memory(error) ? 0 : readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = 0;
        library = open_beside(self, name, flags);
        error = library ? NULL : dlerror();
    }
    if (!library && !tri__library_no_memory(error)) {
        library = dlopen(name, flags);
        error = library ? NULL : dlerror();
    }
    *why = error ? error : "not found";
    return library;
}

/* "failed to map segment" comes without a reason: no memory, or a file system that is mounted noexec. */
static int is_memory_short(void) {
    enum { LIBRARY = 64 << 20 }; /* bytes of a large one */
    void *at = mmap(NULL, LIBRARY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) munmap(at, LIBRARY);
    return at == MAP_FAILED;
}

int tri__library_no_memory(const char *why) {
    if (!why) return 0;
    if (strstr(why, strerror(ENOMEM)) || strstr(why, "out of memory")) return 1;
    return strstr(why, "failed to map segment") && is_memory_short();
}
