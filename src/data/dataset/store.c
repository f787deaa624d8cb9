/* store.c - header, then sections aligned to 64 bytes. The header holds sizes, the key, the hash of all after it, and
 * its own hash; it is written last. A file is renamed into place, so readers see a complete store or none, and of
 * several builders the last wins. Byte order is native: another byte order fails the version check. A store is read and
 * never mapped: another process could truncate it, and accessing a map would then raise SIGBUS. */
#include "data/dataset/store.h"

#include "base/read_at.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { ALIGN = 64, VERSION = 4, WIDTH_MAX = 1 << 25, READ_BYTES = 1 << 18 };
/* Timeout for a lock; waiting time before a message is logged. */
static const double LOCK_SECONDS = 5, QUIET_SECONDS = 0.2;
static const char MAGIC[8] = "TRITOKEN";

typedef struct header {
    char magic[8];
    uint32_t version, sections;
    tri_store_origin origin;
    uint64_t file_bytes, body_hash; /* body: all after the header */
    int64_t rows, width;
    struct { uint64_t offset, bytes; } section[TRI_SECTION_COUNT];
    uint64_t zero[4]; /* pads the header to a multiple of ALIGN: every byte of a store is hashed */
    uint64_t header_hash;           /* of all before it */
} header;

enum { BODY = sizeof(header) };
_Static_assert(BODY % ALIGN == 0, "sections are aligned");

struct tri_store_writer {
    header header;
    int fd;
    uint64_t at;                      /* bytes written, including the header */
    tri_section current;
    XXH3_state_t *hash;               /* of the body so far */
    char path[TRI_PATH_MAX];          /* "": in memory */
    char temporary[TRI_PATH_MAX];
};

static tri_status fail_errno(const char *verb, const char *path) {
    int cause = errno;
    return tri__fail(cause == ENOMEM || cause == EMFILE || cause == ENFILE ? TRI_RESOURCE : TRI_IO,
                     "cannot %s the token store %s: %s (--cache-dir names another folder; none keeps data in memory)",
                     verb, path[0] ? path : "in memory", strerror(cause));
}

tri_status tri__store_path(const char *folder, const tri_key *key, char out[static TRI_PATH_MAX]) {
    char name[48];
    snprintf(name, sizeof name, "%016llx%016llx.tokens", (unsigned long long)key->high, (unsigned long long)key->low);
    return tri__path_join(out, folder, name);
}

static uint64_t hash_header(const header *h) { return XXH3_64bits(h, offsetof(header, header_hash)); }

static tri_status damaged(const char *path, const char *what) { return tri__fail(TRI_DATA, "%s: %s", path, what); }

/* Whether a section has the size implied by rows and width. */
static int fits(const header *h, tri_section section) {
    uint64_t rows = (uint64_t)h->rows, bytes = h->section[section].bytes;
    switch (section) {
    case TRI_SECTION_NUMBERS: return bytes == rows * (uint64_t)h->width * sizeof(float);
    case TRI_SECTION_PARTS: return bytes == 0 || bytes == rows;
    case TRI_SECTION_START0: return bytes == (rows + 1) * sizeof(int64_t);
    case TRI_SECTION_START1: return bytes % ((rows + 1) * sizeof(int64_t)) == 0;
    case TRI_SECTION_LABELS:
    case TRI_SECTION_IDS0:
    case TRI_SECTION_IDS1: return bytes % sizeof(int32_t) == 0;
    default: return 1;
    }
}

static tri_status check_header(const char *path, const header *h, const tri_key *key, size_t size) {
    if (memcmp(h->magic, MAGIC, sizeof MAGIC) || h->version != VERSION || h->sections != TRI_SECTION_COUNT)
        return damaged(path, "is not a token store of this version");
    if (h->header_hash != hash_header(h)) return damaged(path, "its header is damaged");
    if (memcmp(&h->origin.key, key, sizeof *key)) return damaged(path, "was made of something else");
    if (h->file_bytes != size) return damaged(path, "is cut short or has grown");
    if (h->rows < 0 || h->rows > INT32_MAX || h->width < 0 || h->width > WIDTH_MAX)
        return damaged(path, "its sizes are impossible");
    for (int s = 0; s < TRI_SECTION_COUNT; s++) {
        uint64_t offset = h->section[s].offset, bytes = h->section[s].bytes;
        if (offset % ALIGN || offset < BODY || offset > size || bytes > size - offset || !fits(h, (tri_section)s))
            return damaged(path, "an array lies outside the file");
    }
    return TRI_OK;
}

int tri__store_superseded(int fd, const tri_store_origin *origin) {
    header h;
    if (pread(fd, &h, sizeof h, 0) != (ssize_t)sizeof h || memcmp(h.magic, MAGIC, sizeof MAGIC)) return 0;
    if (h.version < VERSION) return 1;
    int other = memcmp(&h.origin.table, &origin->table, sizeof h.origin.table) != 0;
    return h.version == VERSION && h.header_hash == hash_header(&h) && h.origin.place == origin->place && other;
}

/* The descriptor is now owned by the store, unless it fails. */
static tri_status take_store(const char *path, int *fd, const header *h, tri_store *out) {
    *out = (tri_store){.path = strdup(path[0] ? path : "the token store in memory"), .fd = *fd,
                       .file_bytes = h->file_bytes, .rows = h->rows, .width = h->width};
    for (int s = 0; s < TRI_SECTION_COUNT; s++)
        out->offset[s] = h->section[s].offset, out->bytes[s] = h->section[s].bytes;
    if (!out->path) return tri__fail(TRI_RESOURCE, "out of memory for a token store");
    *fd = -1;
    return TRI_OK;
}

/* Readers and builders of a store hold a shared lock on it; removing one needs a brief exclusive lock (store_clean.c).
 * On a file system without locks, nothing is removed. TRI_NOINPUT if the file was removed before it was locked. */
static tri_status keep(int fd, const char *path, const tri_store_wait *wait) {
    static const tri_store_wait usual = {0};
    if (!wait) wait = &usual;
    double seconds = wait->seconds > 0 ? wait->seconds : LOCK_SECONDS,
           quiet = seconds < QUIET_SECONDS ? seconds : QUIET_SECONDS;
    char holder[32];
    struct stat info;
    tri_lock_result got = tri__lock(fd, LOCK_SH, quiet, wait->stop);
    if (got == TRI_LOCK_HELD && quiet < seconds) {
        tri__say(wait->log, TRI_LOG_INFO, "%s is locked by %s: waiting for it, up to %g s", path,
                 tri__lock_holder(fd, holder), seconds);
        got = tri__lock(fd, LOCK_SH, seconds - quiet, wait->stop);
    }
    if (got == TRI_LOCK_STOPPED)
        return tri__stop_check(wait->stop, "%s was locked by %s", path, tri__lock_holder(fd, holder));
    if (got == TRI_LOCK_HELD)
        return tri__fail(TRI_BUSY, "%s has been locked by %s for %g s: end that, or let --cache-dir name another "
                         "folder", path, tri__lock_holder(fd, holder), seconds);
    if (fstat(fd, &info) == 0 && info.st_nlink > 0) return TRI_OK;
    return tri__fail(TRI_NOINPUT, "%s was just removed", path);
}

/* The hash of all after the header, read a piece at a time. */
static tri_status check_body(const char *path, int fd, const header *h) {
    XXH3_state_t hash;
    TRI_OWNED(tri__free_at) char *buffer = malloc(READ_BYTES);
    if (!buffer) return tri__fail(TRI_RESOURCE, "out of memory for a token store");
    XXH3_64bits_reset(&hash);
    for (uint64_t at = BODY; at < h->file_bytes;) {
        size_t part = h->file_bytes - at < READ_BYTES ? (size_t)(h->file_bytes - at) : READ_BYTES;
        TRI_TRY(tri__read_at(fd, at, buffer, part, path));
        XXH3_64bits_update(&hash, buffer, part);
        at += part;
    }
    return XXH3_64bits_digest(&hash) == h->body_hash ? TRI_OK : damaged(path, "its content is damaged");
}

tri_status tri__store_open(const char *path, const tri_key *key, const tri_store_wait *wait, tri_store *out) {
    *out = (tri_store){0};
    TRI_OWNED(tri__fd_drop) int fd = -1;
    size_t size;
    header h;
    TRI_TRY(tri__file_open(path, &fd, &size));
    TRI_TRY(keep(fd, path, wait));
    if (size < BODY) return damaged(path, "is cut short");
    TRI_TRY(tri__read_at(fd, 0, &h, sizeof h, path));
    TRI_TRY(check_header(path, &h, key, size));
    TRI_TRY(check_body(path, fd, &h));
    return take_store(path, &fd, &h, out);
}

tri_status tri__store_read(const tri_store *store, tri_section section, size_t at, size_t bytes, void *out) {
    TRI_ASSERT(at <= store->bytes[section] && bytes <= store->bytes[section] - at);
    return tri__read_at(store->fd, store->offset[section] + at, out, bytes, store->path);
}

tri_status tri__store_share(const tri_store *store, tri_store *out) {
    *out = *store;
    out->fd = fcntl(store->fd, F_DUPFD_CLOEXEC, 0); /* also shares the lock, which the last one releases */
    out->path = out->fd < 0 ? NULL : strdup(store->path);
    if (out->path) return TRI_OK;
    tri_status status = out->fd < 0 ? fail_errno("share", store->path) : tri__fail(TRI_RESOURCE, "out of memory");
    if (out->fd >= 0) close(out->fd);
    *out = (tri_store){0};
    return status;
}

void tri__store_close(tri_store *store) {
    if (store->path) close(store->fd);
    free(store->path);
    *store = (tri_store){0};
}

static tri_status open_temporary(tri_store_writer *w, const tri_store_wait *wait) {
    for (int attempt = 0; attempt < 100; attempt++) {
        tri_status status = tri__file_sibling(w->path, w->temporary, &w->fd);
        if (status != TRI_OK) {
            w->temporary[0] = 0;
            return tri__fail_in(
                status, "no token store can be made (--cache-dir names another folder; none keeps data in memory)");
        }
        status = keep(w->fd, w->temporary, wait);
        if (status != TRI_NOINPUT) return status;
        close(w->fd); /* removed before it was locked */
        w->temporary[0] = 0, w->fd = -1;
    }
    return tri__fail(TRI_IO, "cannot create the token store %s: others remove it at once", w->path);
}

tri_status tri__store_create(const char *path, const tri_store_origin *origin, const tri_store_wait *wait,
                             tri_store_writer **out) {
    static const char blank[BODY] = {0};
    TRI_OWNED(tri__store_writer_drop) tri_store_writer *w = NULL;
    *out = NULL;
    TRI_TRY(TRI_NEW(w, 1, "a token store"));
    w->fd = -1;
    w->header = (header){.version = VERSION, .sections = TRI_SECTION_COUNT, .origin = *origin};
    memcpy(w->header.magic, MAGIC, sizeof MAGIC);
    for (int s = 0; s < TRI_SECTION_COUNT; s++) w->header.section[s].offset = BODY;
    w->hash = XXH3_createState();
    if (!w->hash) return tri__fail(TRI_RESOURCE, "out of memory for a token store");
    XXH3_64bits_reset(w->hash);
    if (path) TRI_TRY(tri__path_join(w->path, "", path));
    if (path) TRI_TRY(open_temporary(w, wait));
    else if ((w->fd = memfd_create("trident-tokens", MFD_CLOEXEC)) < 0) return fail_errno("create", w->path);
    TRI_TRY(tri__write_all(w->fd, blank, BODY, w->path)); /* reserves the header */
    w->at = BODY;
    *out = TRI_GIVE(w);
    return TRI_OK;
}

tri_status tri__store_append(tri_store_writer *w, const void *data, size_t bytes) {
    if (!bytes) return TRI_OK;
    XXH3_64bits_update(w->hash, data, bytes);
    w->at += bytes;
    w->header.section[w->current].bytes += bytes;
    return tri__write_all(w->fd, data, bytes, w->path[0] ? w->path : "memory");
}

tri_status tri__store_begin(tri_store_writer *w, tri_section section) {
    static const char blank[ALIGN] = {0};
    size_t gap = (size_t)(-w->at % ALIGN);
    XXH3_64bits_update(w->hash, blank, gap);
    TRI_TRY(tri__write_all(w->fd, blank, gap, w->path[0] ? w->path : "memory"));
    w->at += gap;
    w->current = section;
    TRI_ASSERT(w->header.section[section].bytes == 0);
    w->header.section[section].offset = w->at;
    return TRI_OK;
}

/* Writes the header, syncs, and renames into place. */
static tri_status finish(tri_store_writer *w, int64_t rows, int64_t width) {
    w->header.rows = rows, w->header.width = width, w->header.file_bytes = w->at;
    w->header.body_hash = XXH3_64bits_digest(w->hash);
    w->header.header_hash = hash_header(&w->header);
    TRI_TRY(tri__write_at(w->fd, 0, &w->header, sizeof w->header, w->path[0] ? w->path : "memory"));
    if (!w->path[0]) return TRI_OK;
    if (tri__file_sync(w->fd, w->path) || tri__path_rename(w->temporary, w->path, TRI_RENAME_REPLACE))
        return fail_errno("write", w->path);
    w->temporary[0] = 0;
    char folder[TRI_PATH_MAX];
    memcpy(folder, w->path, sizeof folder);
    char *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
    return tri__folder_sync(!slash ? "." : folder[0] ? folder : "/");
}

tri_status tri__store_commit(tri_store_writer *w, int64_t rows, int64_t width, tri_store *out) {
    TRI_OWNED(tri__store_writer_drop) tri_store_writer *mine = w;
    *out = (tri_store){0};
    TRI_TRY(finish(w, rows, width));
    return take_store(w->path, &w->fd, &w->header, out);
}

void tri__store_abandon(tri_store_writer *w) {
    if (!w) return;
    if (w->fd >= 0) close(w->fd);
    if (w->temporary[0]) (void)tri__file_remove(w->temporary);
    XXH3_freeState(w->hash);
    free(w);
}
