/* packed.c - unpacks gzip (all members) and zstd (all frames) as a stream. How much may come out is limited: by the
 * room on the disk, and by a ratio that no table has. */
#include "data/table/packed.h"

#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef TRI_HAS_ZLIB
#include <zlib.h>
#endif
#ifdef TRI_HAS_ZSTD
#include <zstd.h>
#endif

enum {
    PART = 1 << 18,          /* bytes that are read, and unpacked, at once */
    RATIO = 500,             /* times its size, and */
    LEAST = 1 << 30          /* bytes: what unpacks to more than both is no table */
};

static const struct {
    const char *ending, *program;
} names[TRI_PACKERS] = {{".gz", "gunzip -k"}, {".zst", "unzstd"}, {NULL, NULL}};

tri_packer tri__packed_name(const char *path, size_t *stem) {
    *stem = strlen(path);
    for (int i = 0; i < TRI_PACKERS; i++)
        if (names[i].ending && tri__text_ends(path, names[i].ending)) {
            *stem -= strlen(names[i].ending);
            return (tri_packer)i;
        }
    return TRI_PACKERS;
}

const char *tri__packed_program(tri_packer packer) { return names[packer].program; }

/* What is being unpacked, and where to. */
typedef struct unpacking {
    tri_table *table;
    uint64_t read;           /* of the packed file, all of it in memory before `left` */
    size_t left;             /* bytes of in that are not consumed */
    const char *next;        /* the first of them */
    int fd;                  /* of the file without a name; -1: in memory */
    char *memory;
    size_t room;
    uint64_t size;           /* unpacked so far */
    char in[PART], out[PART];
} unpacking;

static tri_status damaged(const unpacking *u, const char *what) {
    return tri__fail(TRI_DATA, "%s: damaged at byte %llu of the compressed file: %s", u->table->path,
                     (unsigned long long)(u->read - u->left), what);
}

/* Reads more of the file if nothing is left of it in memory. left stays 0 at its end. */
static tri_status refill(unpacking *u) {
    uint64_t more = u->table->source.size - u->read;
    if (u->left || !more) return TRI_OK;
    size_t size = more < PART ? (size_t)more : PART;
    TRI_TRY(tri__source_read(&u->table->source, u->table->path, u->read, u->in, size));
    u->read += size, u->left = size, u->next = u->in;
    return TRI_OK;
}

/* From memory to a file: on a disk, if there is one for temporary files. */
static tri_status spill(unpacking *u) {
    static const char *const folders[] = {"/var/tmp", "/tmp"};
    tri_status status = TRI_IO;
    for (int i = 0; i < 2 && status != TRI_OK; i++) status = tri__file_nameless(folders[i], &u->fd);
    if (status != TRI_OK)
        return tri__fail_in(status, "%s: unpacked it has more than %zu bytes, and needs a temporary file",
                            u->table->path, u->table->options.keep);
    TRI_TRY(tri__write_all(u->fd, u->memory, (size_t)u->size, "a temporary file in /var/tmp or /tmp"));
    free(u->memory);
    u->memory = NULL, u->room = 0;
    return TRI_OK;
}

/* Takes bytes of u->out. */
static tri_status put(unpacking *u, size_t n) {
    if (u->size + n > LEAST && (u->size + n) / RATIO > u->table->source.size)
        return damaged(u, "it unpacks to more than 500 times its size and 1 GiB, which no table does; unpack it "
                          "yourself if it is one");
    if (u->fd < 0 && u->size + n > u->table->options.keep) TRI_TRY(spill(u));
    if (u->fd >= 0) {
        TRI_TRY(tri__write_all(u->fd, u->out, n, "a temporary file in /var/tmp or /tmp"));
    } else if (n) {
        if (u->room - u->size < n) {
            size_t room = 2 * u->room + n;
            char *moved = realloc(u->memory, room);
            if (!moved) return tri__table_no_memory(u->table);
            u->memory = moved, u->room = room;
        }
        memcpy(u->memory + u->size, u->out, n);
    }
    u->size += n;
    return TRI_OK;
}

#ifdef TRI_HAS_ZLIB
/* What stands between the members of a gzip file: nothing, or zeros at its end. */
static tri_status skip_padding(unpacking *u, int *more) {
    for (*more = 0; !*more;) {
        TRI_TRY(refill(u));
        if (!u->left) return TRI_OK;
        if (*u->next) *more = 1;
        else u->next++, u->left--;
    }
    return TRI_OK;
}

static tri_status inflate_members(unpacking *u, z_stream *stream) {
    int more = 1;
    while (more) {
        TRI_TRY(refill(u));
        if (!u->left) return damaged(u, "it is cut off");
        stream->next_in = (Bytef *)u->next, stream->avail_in = (uInt)u->left;
        stream->next_out = (Bytef *)u->out, stream->avail_out = PART;
        int result = inflate(stream, Z_NO_FLUSH);
        u->next += u->left - stream->avail_in, u->left = stream->avail_in;
        if (result == Z_MEM_ERROR) return tri__table_no_memory(u->table);
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
            return damaged(u, stream->msg ? stream->msg : "not gzip");
        TRI_TRY(put(u, PART - stream->avail_out));
        if (result != Z_STREAM_END) continue;
        TRI_TRY(skip_padding(u, &more));
        if (inflateReset(stream) != Z_OK) return damaged(u, "not gzip");
    }
    return TRI_OK;
}

static tri_status unpack_gzip(unpacking *u) {
    z_stream stream = {0};
    if (inflateInit2(&stream, 15 + 16) != Z_OK) return tri__table_no_memory(u->table); /* gzip, the largest window */
    tri_status status = inflate_members(u, &stream);
    inflateEnd(&stream);
    return status;
}
#else
static tri_status unpack_gzip(unpacking *u) { return tri__packer_missing(TRI_PACKER_ZLIB, u->table->path); }
#endif

#ifdef TRI_HAS_ZSTD
static tri_status unpack_frames(unpacking *u, ZSTD_DStream *stream) {
    size_t expected = 1; /* 0: at a frame's end */
    for (;;) {
        TRI_TRY(refill(u));
        if (!u->left && expected) return damaged(u, "it is cut off");
        if (!u->left) return TRI_OK;
        ZSTD_inBuffer in = {u->next, u->left, 0};
        ZSTD_outBuffer out = {u->out, PART, 0};
        do {
            out.pos = 0;
            expected = ZSTD_decompressStream(stream, &out, &in);
            u->next = (const char *)in.src + in.pos, u->left = in.size - in.pos;
            if (ZSTD_isError(expected)) return damaged(u, ZSTD_getErrorName(expected));
            TRI_TRY(put(u, out.pos));
        } while (in.pos < in.size || (out.pos == PART && expected));
    }
}

static tri_status unpack_zstd(unpacking *u) {
    ZSTD_DStream *stream = ZSTD_createDStream();
    if (!stream) return tri__table_no_memory(u->table);
    tri_status status = unpack_frames(u, stream);
    ZSTD_freeDStream(stream);
    return status;
}
#else
static tri_status unpack_zstd(unpacking *u) { return tri__packer_missing(TRI_PACKER_ZSTD, u->table->path); }
#endif

/* Puts what was unpacked in the place of the file. */
static tri_status take(unpacking *u) {
    tri_source *source = &u->table->source;
    tri_source text = {.fd = u->fd, .size = u->size, .memory = u->memory, .own = u->memory};
    if (tri__source_changed(source))
        return tri__fail(TRI_IO, "%s has changed while it was read; start again when it is complete", u->table->path);
    if (u->fd >= 0 && fstat(u->fd, &text.info))
        return tri__fail(TRI_IO, "%s: cannot read its temporary file: %s", u->table->path, strerror(errno));
    if (u->fd < 0 && !u->memory) text.memory = "";
    tri__source_close(source);
    *source = text;
    u->fd = -1, u->memory = NULL;
    return TRI_OK;
}

tri_status tri__packed_open(tri_table *table, tri_packer packer) {
    unpacking *u = malloc(sizeof *u);
    if (!u) return tri__table_no_memory(table);
    u->table = table, u->fd = -1, u->memory = NULL, u->next = u->in;
    u->read = u->size = 0, u->left = u->room = 0;
    tri_status status = packer == TRI_PACKER_ZLIB ? unpack_gzip(u) : unpack_zstd(u);
    if (status == TRI_OK) status = take(u);
    if (u->fd >= 0) close(u->fd);
    free(u->memory);
    free(u);
    return status;
}
