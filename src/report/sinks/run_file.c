/* run_file.c - opening, flushing and closing of files that grow with their run. */
#include "report/sinks/run_file.h"

#include "base/file_call.h"
#include "report/text/stream.h"

#include <errno.h>
#include <unistd.h>

static const double flush_seconds = 2;

tri_status tri__run_file_start(tri_run_file *f, tri_own_way way) {
    TRI_TRY(tri__file_own(f->path, way, &f->fd));
    f->file = tri__stream_open(f->fd, way == TRI_OWN_APPEND ? "a" : "w");
    if (f->file) return TRI_OK;
    close(f->fd);
    return tri__fail(TRI_RESOURCE, "no memory for %s", f->path);
}

static tri_status flush(tri_run_file *f) {
    if (f->failed) return tri__fail(TRI_RESOURCE, "no memory for %s", f->path);
    int failed = TRI_DURING(TRI_CALL_WRITE, f->path, fflush(f->file));
    if (failed || ferror(f->file)) return tri__fail(TRI_IO, "cannot write %s: %s", f->path, strerror(errno));
    f->flushed = tri__clock();
    return TRI_OK;
}

tri_status tri__run_file_commit(tri_run_file *f, const tri_event *event, int eager) {
    int commits = event->kind == TRI_EVENT_EPOCH || event->kind == TRI_EVENT_SAVE ||
                  event->kind == TRI_EVENT_CHECKPOINT || event->kind == TRI_EVENT_END;
    if (!f->file || !(commits || eager || tri__clock() - f->flushed > flush_seconds)) return TRI_OK;
    return flush(f);
}

tri_status tri__run_file_close(tri_run_file *f) {
    if (!f->file) return TRI_OK;
    tri_status status = flush(f);
    fclose(f->file);
    return status;
}
