/* unpack.h - the libraries that compressed tables need, each optional: found when Trident is built (tools/deps), or,
 * brotli's, when it is needed; and the compressions that occur inside tables in columns (Parquet pages, Arrow buffers).
 * Snappy is our own (snappy.c). */
#pragma once

#include "base/base.h"

typedef enum tri_packer {
    TRI_PACKER_ZLIB, TRI_PACKER_ZSTD, TRI_PACKER_LZ4,
    TRI_PACKER_BROTLI, /* in Parquet files alone */
    TRI_PACKERS
} tri_packer;

/* Its version, of a library that is loaded its name; NULL: it is not here. */
const char *tri__packer_version(tri_packer packer);
/* How to get it, in words that follow ": ". */
const char *tri__packer_remedy(tri_packer packer);
/* `status`, with words: `what` is compressed with a library that is not here. what NULL: the caller puts it before
 * them. */
tri_status tri__packer_missing(tri_packer packer, tri_status status, const char *what);

typedef enum tri_codec {
    TRI_CODEC_NONE,
    TRI_CODEC_SNAPPY,
    TRI_CODEC_GZIP,      /* gzip or zlib, by its first bytes */
    TRI_CODEC_ZSTD,
    TRI_CODEC_LZ4,       /* one block without a frame (Parquet's LZ4_RAW) */
    TRI_CODEC_LZ4_FRAME, /* frames (Arrow) */
    TRI_CODEC_BROTLI,
    TRI_CODECS
} tri_codec;

/* Whether its library is here. */
int tri__codec_known(tri_codec codec);
/* TRI_DATA that says which library is missing and how to get it; TRI_OK if tri__codec_known. */
tri_status tri__codec_check(tri_codec codec);
/* Unpacks packed[size] into out, which has exactly as many bytes as the file says that it becomes. TRI_DATA: the bytes
 * are damaged or are another number of bytes; TRI_RESOURCE: out of memory. The text of the failure has no place yet:
 * callers add it (tri__fail_in). */
tri_status tri__unpack(tri_codec codec, const void *packed, size_t size, void *out, size_t out_size);

/* Snappy's block format. 0: damaged, or not exactly out_size bytes. */
int tri__snappy_unpack(const uint8_t *packed, size_t size, uint8_t *out, size_t out_size);
