/* plugin.c - finds and loads the CUDA plug-in. Nothing of CUDA is needed to build or run Trident without it. */
#include "device/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Tries FOLDER/NAME, FOLDER/../lib/NAME and FOLDER/../NAME (a build folder), where FOLDER holds `file`. */
static void *open_beside(const char *file) {
    static const char *const where[] = {"", "../lib/", "../"};
    char path[4096];
    const char *slash = file ? strrchr(file, '/') : NULL;
    for (int i = 0; i < 3 && slash; i++) {
        int n = snprintf(path, sizeof path, "%.*s%s%s", (int)(slash - file + 1), file, where[i], TRI_CUDA_PLUGIN_NAME);
        if (n < (int)sizeof path && access(path, R_OK) == 0) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return NULL;
}

static void *open_any(void) {
    Dl_info here;
    char self[4096];
    dlerror();
    void *library = dladdr((void *)(uintptr_t)tri__device_load, &here) ? open_beside(here.dli_fname) : NULL;
    ssize_t n = library ? 0 : readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) self[n] = 0;
    if (n > 0) library = open_beside(self);
    return library ? library : dlopen(TRI_CUDA_PLUGIN_NAME, RTLD_NOW | RTLD_LOCAL);
}

tri_status tri__device_load(const tri_device **device) {
    *device = NULL;
    void *library = open_any();
    if (!library) {
        const char *why = dlerror();
        return tri__fail(TRI_USAGE,
                         "--device cuda: the CUDA plug-in does not load (%s). Install CUDA 12 or 13 with its compiler and run make cuda, "
                         "which builds %s; trident doctor says what is missing",
                         why ? why : "not found", TRI_CUDA_PLUGIN_NAME);
    }
    const tri_cuda_plugin *plugin = dlsym(library, "tri_cuda_plugin_table");
    if (!plugin || plugin->version != TRI_CUDA_PLUGIN_VERSION)
        return tri__fail(TRI_USAGE, "--device cuda: %s is of another version than this program: run make cuda again, or install both together",
                         TRI_CUDA_PLUGIN_NAME);
    *device = plugin->device;
    return TRI_OK;
}
