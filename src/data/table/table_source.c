/* table_source.c - a table's file. It is read by position into buffers: mapping it would not be faster (pread into a
 * cached buffer runs at 12 to 20 GB/s), and touching a map of a file that has shrunk raises SIGBUS, for which a library
 * must not install handlers. */
#include "data/table/table_parts.h"

#include "base/file_call.h"
#include "data/table/arrow_image.h"

#include <errno.h>
#include <unistd.h>

tri_status tri__source_open(tri_source *source, const char *path) {
    size_t size;
    TRI_TRY(tri__file_open(path, &source->fd, &size));
    if (fstat(source->fd, &source->info)) {
        tri_status status = tri__fail_errno("read", path, TRI_IO);
        tri__source_close(source);
        return status;
    }
    source->size = (uint64_t)source->info.st_size;
    return TRI_OK;
}

void tri__source_close(tri_source *source) {
    tri__fd_drop(&source->fd);
    free(source->own);
    source->own = NULL, source->memory = NULL;
}

tri_status tri__source_read(const tri_table *table, uint64_t at, char *to, size_t size) {
    const tri_source *source = &table->source;
    const char *path = table->path;
    if (source->image) {
        tri__image_read(source->image, at, to, size);
        return TRI_OK;
    }
    if (source->memory) {
        TRI_ASSERT(at <= source->size && size <= source->size - at);
        if (size) memcpy(to, source->memory + at, size);
        return TRI_OK;
    }
    for (size_t got = 0; got < size;) {
        ssize_t part = TRI_DURING(TRI_CALL_READ, path, pread(source->fd, to + got, size - got, (off_t)(at + got)));
        if (part < 0 && errno == EINTR) continue;
        if (part < 0) return tri__fail_errno("read", path, TRI_IO);
        if (part == 0)
            return tri__fail(TRI_IO, "%s became shorter while it was read; start again when it is complete", path);
        got += (size_t)part;
    }
    return TRI_OK;
}

tri_status tri__source_check(const tri_table *table) {
    const struct stat *was = &table->source.info;
    struct stat now;
    if (table->source.memory || table->source.image) return TRI_OK;
    if (!fstat(table->source.fd, &now) && now.st_size == was->st_size && now.st_mtim.tv_sec == was->st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == was->st_mtim.tv_nsec)
        return TRI_OK;
    return tri__fail(TRI_IO, "%s has changed while it was read; start again when it is complete", table->path);
}

tri_status tri__source_line(const tri_table *table, uint64_t at, tri_table_line *line) {
    enum { PART = 1 << 16 };
    if (line->begin >= at) return TRI_OK;
    TRI_OWNED(tri__free_at) char *text = malloc(at - line->begin < PART ? (size_t)(at - line->begin) : PART);
    if (!text) return tri__fail(TRI_RESOURCE, "%s: out of memory", table->path);
    for (uint64_t from = line->begin; from < at;) {
        size_t size = at - from < PART ? (size_t)(at - from) : PART;
        TRI_TRY(tri__source_read(table, from, text, size));
        const char *start = text, *end = text + size;
        for (const char *feed; (feed = memchr(start, '\n', (size_t)(end - start))); start = feed + 1)
            line->number++, line->begin = from + (uint64_t)(feed + 1 - text);
        from += size;
    }
    return TRI_OK;
}
