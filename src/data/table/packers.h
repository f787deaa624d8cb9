/* packers.h - libraries that compressed tables need, each optional and found when Trident is built (tools/deps). */
#ifndef TRI_DATA_TABLE_PACKERS_H
#define TRI_DATA_TABLE_PACKERS_H

#include "base/status.h"

typedef enum tri_packer { TRI_PACKER_ZLIB, TRI_PACKER_ZSTD, TRI_PACKER_LZ4, TRI_PACKERS } tri_packer;

/* Its version; NULL: this build is without it. */
const char *tri__packer_version(tri_packer packer);
/* The Debian package that a build with it needs. */
const char *tri__packer_package(tri_packer packer);
/* TRI_USAGE: `what` (a file, or a part of it) is compressed with a library that this build is without. */
tri_status tri__packer_missing(tri_packer packer, const char *what);

#endif
