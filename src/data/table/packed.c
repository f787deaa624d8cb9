/* packed.c - unpacks gzip (all members) and zstd (all frames) as a stream. How much may come out is limited: by the
 * room on the disk, and by a ratio that no table has. */
#include "data/table/table_parts.h"

#include <errno.h>
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

const char *tri__packed_ending(tri_packer packer) { return names[packer].ending; }
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
    TRI_TRY(tri__source_read(u->table, u->read, u->in, size));
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
        if (!tri__grow(&u->memory, &u->room, (size_t)u->size + n, 1)) return tri__table_no_memory(u->table);
        memcpy(u->memory + u->size, u->out, n);
    }
    u->size += n;
    return TRI_OK;
}

/* Each step consumes bytes of u->next, writes *n bytes to u->out, and says in *ended whether it stands at the end of a
 * member or frame, where the file may end. */

#ifdef TRI_HAS_ZLIB
static void *gzip_open(void) {
    z_stream *stream = calloc(1, sizeof *stream);
    if (stream && inflateInit2(stream, 15 + 16) == Z_OK) return stream; /* gzip, the largest window */
    free(stream);
    return NULL;
}

static void gzip_close(void *state) {
    inflateEnd(state);
    free(state);
}

static tri_status gzip_step(unpacking *u, void *state, size_t *n, int *ended) {
    z_stream *stream = state;
    *n = 0;
    while (*ended && u->left && !*u->next) u->next++, u->left--; /* zeros after the last member */
    if (*ended && !u->left) return TRI_OK;
    stream->next_in = (Bytef *)u->next, stream->avail_in = (uInt)u->left;
    stream->next_out = (Bytef *)u->out, stream->avail_out = PART;
    int result = inflate(stream, Z_NO_FLUSH);
    u->next += u->left - stream->avail_in, u->left = stream->avail_in;
    *n = PART - stream->avail_out, *ended = result == Z_STREAM_END;
    if (result == Z_MEM_ERROR) return tri__table_no_memory(u->table);
    if (result == Z_OK || result == Z_BUF_ERROR || (*ended && inflateReset(stream) == Z_OK)) return TRI_OK;
    return damaged(u, stream->msg ? stream->msg : "not gzip");
}
#endif

#ifdef TRI_HAS_ZSTD
static void *zstd_open(void) { return ZSTD_createDStream(); }
static void zstd_close(void *state) { ZSTD_freeDStream(state); }

static tri_status zstd_step(unpacking *u, void *state, size_t *n, int *ended) {
    ZSTD_inBuffer in = {u->next, u->left, 0};
    ZSTD_outBuffer out = {u->out, PART, 0};
    size_t expected = ZSTD_decompressStream(state, &out, &in);
    u->next += in.pos, u->left -= in.pos;
    *n = out.pos, *ended = expected == 0;
    return ZSTD_isError(expected) ? damaged(u, ZSTD_getErrorName(expected)) : TRI_OK;
}
#endif

/* Without its library nothing is here. */
static const struct {
    void *(*open)(void);
    tri_status (*step)(unpacking *u, void *state, size_t *n, int *ended);
    void (*close)(void *state);
} streams[TRI_PACKERS] = {
#ifdef TRI_HAS_ZLIB
    [TRI_PACKER_ZLIB] = {gzip_open, gzip_step, gzip_close},
#endif
#ifdef TRI_HAS_ZSTD
    [TRI_PACKER_ZSTD] = {zstd_open, zstd_step, zstd_close},
#endif
};

static tri_status unpack(unpacking *u, tri_packer packer) {
    if (!streams[packer].open) return tri__packer_missing(packer, TRI_USAGE, u->table->path);
    void *state = streams[packer].open();
    tri_status status = state ? refill(u) : tri__table_no_memory(u->table);
    int ended = 0;
    for (size_t n = 0; status == TRI_OK && (u->left || (n == PART && !ended));) {
        status = streams[packer].step(u, state, &n, &ended);
        if (status == TRI_OK) status = put(u, n);
        if (status == TRI_OK) status = refill(u);
    }
    if (state) streams[packer].close(state);
    return status == TRI_OK && !ended ? damaged(u, "it is cut off") : status;
}

/* Puts what was unpacked in the place of the file. */
static tri_status take(unpacking *u) {
    tri_source *source = &u->table->source;
    tri_source text = {.fd = u->fd, .size = u->size, .memory = u->memory, .own = u->memory};
    TRI_TRY(tri__source_check(u->table));
    if (u->fd >= 0 && fstat(u->fd, &text.info))
        return tri__fail(TRI_IO, "%s: cannot read its temporary file: %s", u->table->path, strerror(errno));
    if (u->fd < 0 && !u->memory) text.memory = "";
    tri__source_close(source);
    *source = text;
    u->fd = -1, u->memory = NULL;
    return TRI_OK;
}

tri_status tri__packed_open(tri_table *table, tri_packer packer) {
    TRI_OWNED(tri__free_at) unpacking *u = malloc(sizeof *u);
    if (!u) return tri__table_no_memory(table);
    u->table = table, u->fd = -1, u->memory = NULL, u->next = u->in;
    u->read = u->size = 0, u->left = u->room = 0;
    tri_status status = unpack(u, packer);
    if (status == TRI_OK) status = take(u);
    if (u->fd >= 0) close(u->fd);
    free(u->memory);
    return status;
}
