/* packers.h - libraries that compressed tables need, each optional and found when Trident is built (tools/deps). */
#ifndef TRI_DATA_TABLE_PACKERS_H
#define TRI_DATA_TABLE_PACKERS_H

#include "base/status.h"

typedef enum tri_packer { TRI_PACKER_ZLIB, TRI_PACKER_ZSTD, TRI_PACKER_LZ4, TRI_PACKERS } tri_packer;

/* Its version; NULL: this build is without it. */
const char *tri__packer_version(tri_packer packer);
/* The Debian package that a build with it needs. */
const char *tri__packer_package(tri_packer packer);
/* `status`, with words: `what` is compressed with a library that this build is without. what NULL: the caller puts it
 * before them. */
tri_status tri__packer_missing(tri_packer packer, tri_status status, const char *what);

#endif
