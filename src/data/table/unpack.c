/* unpack.c - which compression libraries are here, and one call for all compressions of tables in columns. A library
 * that the build did not find, or that does not load, is named when a file needs it. */
#include "data/table/unpack.h"

#include <dlfcn.h>
#include <limits.h>

#ifdef TRI_HAS_ZLIB
#include <zlib.h>
#endif
#ifdef TRI_HAS_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif
#ifdef TRI_HAS_LZ4
#include <lz4.h>
#include <lz4frame.h>
#endif

static const struct {
    const char *name, *missing, *remedy;
} packers[TRI_PACKERS] = {
    {"gzip", "this build has no zlib", "apt-get install zlib1g-dev, then run make"},
    {"zstd", "this build has no libzstd", "apt-get install libzstd-dev, then run make"},
    {"lz4", "this build has no liblz4", "apt-get install liblz4-dev, then run make"},
    {"brotli", "libbrotlidec.so.1 does not load", "apt-get install libbrotli1"}};

/* The functions of libbrotlidec that we call, declared here: its interface has been the same since version 1.0. */
#define BROTLI(X) \
    X(void *, CreateInstance, (void *allocate, void *release, void *context)) \
    X(void, DestroyInstance, (void *state)) \
    X(int, DecompressStream, (void *state, size_t *size, const uint8_t **in, size_t *room, uint8_t **out, size_t *n)) \
    X(int, GetErrorCode, (const void *state))

typedef struct brotli {
#define X(type, name, arguments) type(*name) arguments;
    BROTLI(X)
#undef X
} brotli;

/* Whether it is here. Never unloaded: it is found at once the next time. */
static int load_brotli(brotli *b) {
    void *library = dlopen("libbrotlidec.so.1", RTLD_NOW | RTLD_LOCAL);
    int is_whole = library != NULL;
#define X(type, name, arguments) is_whole &= (*(void **)&b->name = dlsym(library, "BrotliDecoder" #name)) != NULL;
    BROTLI(X)
#undef X
    return is_whole;
}

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
    case TRI_PACKER_BROTLI: return load_brotli(&(brotli){0}) ? "libbrotlidec.so.1" : NULL;
    default: return NULL;
    }
}

const char *tri__packer_remedy(tri_packer packer) { return packers[packer].remedy; }

tri_status tri__packer_missing(tri_packer packer, tri_status status, const char *what) {
    return tri__fail(status, "%s%sis compressed with %s, and %s: %s", what ? what : "", what ? " " : "",
                     packers[packer].name, packers[packer].missing, packers[packer].remedy);
}

typedef enum outcome { UNPACKED, DAMAGED, NO_MEMORY } outcome;

static outcome unpack_none(const void *packed, size_t size, void *out, size_t out_size) {
    if (size != out_size) return DAMAGED;
    if (size) memcpy(out, packed, size);
    return UNPACKED;
}

static outcome unpack_snappy(const void *packed, size_t size, void *out, size_t out_size) {
    return tri__snappy_unpack(packed, size, out, out_size) ? UNPACKED : DAMAGED;
}

#ifdef TRI_HAS_ZLIB
static outcome unpack_gzip(const void *packed, size_t size, void *out, size_t out_size) {
    if (size > UINT_MAX || out_size > UINT_MAX) return DAMAGED;
    uint8_t none;
    z_stream stream = {.next_in = (void *)packed, .avail_in = (uInt)size};
    stream.next_out = out_size ? out : &none, stream.avail_out = (uInt)out_size;
    int result = inflateInit2(&stream, 15 + 32); /* the largest window; gzip or zlib, by the header */
    if (result != Z_OK) return result == Z_MEM_ERROR ? NO_MEMORY : DAMAGED;
    while ((result = inflate(&stream, Z_FINISH)) == Z_STREAM_END && stream.avail_in)
        if (inflateReset(&stream) != Z_OK) break; /* another member follows */
    inflateEnd(&stream);
    if (result == Z_MEM_ERROR) return NO_MEMORY;
    return result == Z_STREAM_END && !stream.avail_in && !stream.avail_out ? UNPACKED : DAMAGED;
}
#else
#define unpack_gzip NULL
#endif

#ifdef TRI_HAS_ZSTD
static outcome unpack_zstd(const void *packed, size_t size, void *out, size_t out_size) {
    size_t got = ZSTD_decompress(out, out_size, packed, size);
    if (ZSTD_isError(got)) return ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation ? NO_MEMORY : DAMAGED;
    return got == out_size ? UNPACKED : DAMAGED;
}
#else
#define unpack_zstd NULL
#endif

#ifdef TRI_HAS_LZ4
static outcome unpack_lz4(const void *packed, size_t size, void *out, size_t out_size) {
    if (size > INT_MAX || out_size > INT_MAX) return DAMAGED;
    int got = LZ4_decompress_safe(packed, out, (int)size, (int)out_size);
    return got >= 0 && (size_t)got == out_size ? UNPACKED : DAMAGED;
}

static outcome unpack_lz4_frame(const void *packed, size_t size, void *out, size_t out_size) {
    LZ4F_dctx *context = NULL;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION))) return NO_MEMORY;
    const uint8_t *from = packed;
    uint8_t *to = out;
    size_t hint = 1;
    while (size) {
        size_t read = size, wrote = out_size;
        hint = LZ4F_decompress(context, to, &wrote, from, &read, NULL);
        if (LZ4F_isError(hint) || (!read && !wrote)) break;
        from += read, size -= read, to += wrote, out_size -= wrote;
    }
    LZ4F_freeDecompressionContext(context);
    if (LZ4F_isError(hint) && strstr(LZ4F_getErrorName(hint), "allocation")) return NO_MEMORY;
    return hint == 0 && !size && !out_size ? UNPACKED : DAMAGED;
}
#else
#define unpack_lz4 NULL
#define unpack_lz4_frame NULL
#endif

static outcome unpack_brotli(const void *packed, size_t size, void *out, size_t out_size) {
    enum { DONE = 1, NO_MEMORY_FIRST = -30, NO_MEMORY_LAST = -21 }; /* BROTLI_DECODER_ERROR_ALLOC_... */
    brotli b;
    void *state = load_brotli(&b) ? b.CreateInstance(NULL, NULL, NULL) : NULL;
    if (!state) return NO_MEMORY;
    const uint8_t *in = packed;
    uint8_t *to = out;
    int result = b.DecompressStream(state, &size, &in, &out_size, &to, NULL), code = b.GetErrorCode(state);
    b.DestroyInstance(state);
    if (code >= NO_MEMORY_FIRST && code <= NO_MEMORY_LAST) return NO_MEMORY;
    return result == DONE && !size && !out_size ? UNPACKED : DAMAGED;
}

/* unpack NULL: the build lacks the library. */
static const struct {
    const char *name;
    tri_packer packer; /* TRI_PACKERS: none is needed */
    outcome (*unpack)(const void *packed, size_t size, void *out, size_t out_size);
} codecs[TRI_CODECS] = {
    [TRI_CODEC_NONE] = {"uncompressed", TRI_PACKERS, unpack_none},
    [TRI_CODEC_SNAPPY] = {"snappy", TRI_PACKERS, unpack_snappy},
    [TRI_CODEC_BROTLI] = {"brotli", TRI_PACKER_BROTLI, unpack_brotli},
    [TRI_CODEC_GZIP] = {"gzip", TRI_PACKER_ZLIB, unpack_gzip},
    [TRI_CODEC_ZSTD] = {"zstd", TRI_PACKER_ZSTD, unpack_zstd},
    [TRI_CODEC_LZ4] = {"lz4", TRI_PACKER_LZ4, unpack_lz4},
    [TRI_CODEC_LZ4_FRAME] = {"lz4", TRI_PACKER_LZ4, unpack_lz4_frame},
};

int tri__codec_known(tri_codec codec) {
    return codecs[codec].unpack && (codec != TRI_CODEC_BROTLI || load_brotli(&(brotli){0}));
}

tri_status tri__codec_check(tri_codec codec) {
    return tri__codec_known(codec) ? TRI_OK : tri__packer_missing(codecs[codec].packer, TRI_DATA, NULL);
}

tri_status tri__unpack(tri_codec codec, const void *packed, size_t size, void *out, size_t out_size) {
    TRI_TRY(tri__codec_check(codec));
    outcome outcome = codecs[codec].unpack(packed, size, out, out_size);
    if (outcome == NO_MEMORY) return tri__fail(TRI_RESOURCE, "no memory to unpack %s data", codecs[codec].name);
    return outcome == DAMAGED ? tri__fail(TRI_DATA, "its %s data are damaged", codecs[codec].name) : TRI_OK;
}
