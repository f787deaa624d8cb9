/* plugin.c - finds and loads the CUDA plug-in. Trident builds and runs without CUDA. */
#include "device/plugin.h"

#include "base/library.h"

#include <dlfcn.h>

tri_status tri__plugin_check(const tri_cuda_plugin *plugin) {
    static const tri_plugin_layout here = TRI_PLUGIN_LAYOUT;
    if (plugin && plugin->version == TRI_CUDA_PLUGIN_VERSION && memcmp(&plugin->layout, &here, sizeof here) == 0)
        return TRI_OK;
    return tri__fail(
        TRI_USAGE,
        "--device cuda: %s is of another version than this program: run make cuda again, or install both together",
        TRI_CUDA_PLUGIN_NAME);
}

tri_status tri__device_load(const tri_device **device) {
    *device = NULL;
    const char *why;
    void *library = tri__library_open(TRI_CUDA_PLUGIN_NAME, 0, &why);
    if (!library && tri__library_no_memory(why))
        return tri__fail(TRI_RESOURCE, "no memory to load %s (%s)", TRI_CUDA_PLUGIN_NAME, why);
    if (!library)
        return tri__fail(TRI_USAGE,
                         "--device cuda: the CUDA plug-in does not load (%s). Install CUDA 12 or 13 with its compiler "
                         "and run make cuda, "
                         "which builds %s; trident doctor says what is missing",
                         why, TRI_CUDA_PLUGIN_NAME);
    const tri_cuda_plugin *plugin = dlsym(library, "tri_cuda_plugin_table");
    TRI_TRY(tri__plugin_check(plugin));
    *device = plugin->device;
    return TRI_OK;
}
