/* read_at.c - pread until complete. */
#include "base/read_at.h"

#include "base/file.h"
#include "base/file_call.h"

#include <errno.h>
#include <unistd.h>

tri_status tri__read_at(int fd, uint64_t at, void *out, size_t bytes, const char *path) {
    for (size_t done = 0; done < bytes;) {
        ssize_t part = TRI_DURING(TRI_CALL_READ, path, pread(fd, (char *)out + done, bytes - done, (off_t)(at + done)));
        if (part < 0 && errno == EINTR) continue;
        if (part < 0) return tri__fail_errno("read", path, TRI_IO);
        if (part == 0)
            return tri__fail(
                TRI_IO, "%s was cut short while it is in use: it ends before byte %llu; another process changed it",
                path, (unsigned long long)(at + done));
        done += (size_t)part;
    }
    return TRI_OK;
}
