/* packers.c - which compression libraries this build has. */
#include "data/table/packers.h"

#include <stddef.h>
#ifdef TRI_HAS_ZLIB
#include <zlib.h>
#endif
#ifdef TRI_HAS_ZSTD
#include <zstd.h>
#endif
#ifdef TRI_HAS_LZ4
#include <lz4.h>
#endif

static const struct {
    const char *name, *library, *package;
} packers[TRI_PACKERS] = {
    {"gzip", "zlib", "zlib1g-dev"}, {"zstd", "libzstd", "libzstd-dev"}, {"lz4", "liblz4", "liblz4-dev"}};

const char *tri__packer_version(tri_packer packer) {
    switch (packer) {
#ifdef TRI_HAS_ZLIB
    case TRI_PACKER_ZLIB: return zlibVersion();
#endif
#ifdef TRI_HAS_ZSTD
    case TRI_PACKER_ZSTD: return ZSTD_versionString();
#endif
#ifdef TRI_HAS_LZ4
    case TRI_PACKER_LZ4: return LZ4_versionString();
#endif
    default: return NULL;
    }
}

const char *tri__packer_package(tri_packer packer) { return packers[packer].package; }

tri_status tri__packer_missing(tri_packer packer, tri_status status, const char *what) {
    return tri__fail(status, "%s%sis compressed with %s, and this build has no %s: apt-get install %s, then run make",
                     what ? what : "", what ? " " : "", packers[packer].name, packers[packer].library,
                     packers[packer].package);
}
