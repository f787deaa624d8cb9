/* stream.c - fopencookie() around a descriptor; the cookie is its number. */
#include "report/text/stream.h"

#include "base/file.h"

#include <errno.h>
#include <unistd.h>

static int descriptor(void *cookie) { return (int)(intptr_t)cookie; }

static ssize_t read_some(void *cookie, char *to, size_t bytes) {
    ssize_t n;
    do n = read(descriptor(cookie), to, bytes);
    while (n < 0 && errno == EINTR);
    return n;
}

/* All, or 0: what a stream takes for an error. */
static ssize_t write_some(void *cookie, const char *from, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(descriptor(cookie), from + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return 0;
        done += (size_t)n;
    }
    return (ssize_t)bytes;
}

static int close_it(void *cookie) { return tri__close(descriptor(cookie)); }

FILE *tri__stream_open(int fd, const char *mode) {
    return fopencookie((void *)(intptr_t)fd, mode,
                       (cookie_io_functions_t){.read = read_some, .write = write_some, .close = close_it});
}
