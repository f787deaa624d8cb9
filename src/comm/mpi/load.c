/* load.c - finds and loads the plug-in, and checks that MPI will have enough shared memory. */
#include "comm/mpi/load.h"

#include "base/library.h"

#include <dlfcn.h>
#include <sys/statvfs.h>

/* Open MPI 4.1's use of /dev/shm per rank of a machine (measured: 4,194,312 bytes), with a margin. Its files are
 * sparse: without this check a shortage would be a SIGBUS later. */
static const double MPI_SHARED_BYTES = 4.25 * 1024 * 1024;

/* Names in the order in which they are tried. */
static const char *const plugins[][2] = {
    [TRI_MPI_ANY] = {TRI_MPI_PLUGIN_NAME, NULL},
    [TRI_MPI_OPENMPI] = {"libtrident_mpi_openmpi.so", TRI_MPI_PLUGIN_NAME},
    [TRI_MPI_MPICH] = {"libtrident_mpi_mpich.so", TRI_MPI_PLUGIN_NAME},
};

static void *open_plugin(tri_mpi_kind kind, const char **why) {
    void *library = NULL;
    for (int i = 0; i < 2 && !library && plugins[kind][i]; i++) {
        library = tri__library_open(plugins[kind][i], 1, why); /* global: Open MPI's components need its symbols */
        if (!library && tri__library_no_memory(*why)) break;
    }
    return library;
}

static const tri_mpi_plugin *table_of(void *library) {
    return library ? dlsym(library, "tri_mpi_plugin_table") : NULL;
}

int tri__mpi_has_ulfm(tri_mpi_kind kind) {
    const char *why;
    const tri_mpi_plugin *plugin = table_of(open_plugin(kind, &why));
    return plugin && plugin->version == TRI_MPI_PLUGIN_VERSION && plugin->outlives;
}

tri_status tri__mpi_load(const char *launcher, tri_mpi_kind kind, const tri_mpi_plugin **plugin) {
    const char *why = NULL;
    void *library = open_plugin(kind, &why);
    if (!library && tri__library_no_memory(why))
        return tri__fail(TRI_RESOURCE, "no memory to load %s (%s)", TRI_MPI_PLUGIN_NAME, why);
    if (!library)
        return tri__fail(
            TRI_USAGE,
            "started by %s, but the MPI plug-in does not load (%s). Install an MPI with its compiler (Debian: "
            "libopenmpi-dev) and run make again, which builds %s; on one machine --nproc-per-node needs no MPI",
            launcher, why, TRI_MPI_PLUGIN_NAME);
    *plugin = table_of(library);
    if (!*plugin || (*plugin)->version != TRI_MPI_PLUGIN_VERSION)
        return tri__fail(TRI_USAGE,
                         "%s is of another version than this program: run make again, or install both together",
                         TRI_MPI_PLUGIN_NAME);
    return TRI_OK;
}

void tri__mpi_list(char *out, size_t size) {
    out[0] = 0;
    for (int kind = 0; kind < 3; kind++) {
        const char *why, *name = plugins[kind][0];
        const tri_mpi_plugin *plugin = table_of(tri__library_open(name, 0, &why));
        size_t used = strlen(out);
        if (!plugin) continue;
        int same = plugin->version == TRI_MPI_PLUGIN_VERSION;
        snprintf(out + used, size - used, "%s%s%s (%s)", used ? ", " : "",
                 same ? plugin->built_with : "of another version", same && plugin->outlives ? " with ULFM" : "",
                 name);
    }
}

const char *tri__mpi_srun_type(const char *built_with) {
    return !built_with[0] || strncmp(built_with, "Open MPI", 8) == 0 ? "pmix" : "pmi2";
}

tri_status tri__mpi_check_shared(const char *folder, int ranks) {
    struct statvfs disk;
    if (statvfs(folder, &disk) != 0) return TRI_OK; /* none: MPI works without it */
    double each = MPI_SHARED_BYTES, need = ranks * each, mib = 1024 * 1024;
    double size = (double)disk.f_blocks * (double)disk.f_frsize, free = (double)disk.f_bavail * (double)disk.f_frsize;
    if (size >= need && free >= each) return TRI_OK;
    return tri__fail(
        TRI_RESOURCE,
        "%s is too small for MPI: %d ranks of this machine need %.0f MiB of it, and it has %.1f MiB "
        "(%.1f MiB free). In a container, start it with --shm-size=%.0fm (docker run, podman run) or --ipc=host",
        folder, ranks, need / mib, size / mib, free / mib, need / mib < 64 ? 64 : need / mib * 2);
}
