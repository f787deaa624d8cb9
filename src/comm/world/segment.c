/* segment.c - creates, validates and maps the shared memory. */
#include "comm/world/segment.h"

#include "base/file.h"
#include "base/read_at.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MAGIC[8] = "TRIDENT";
enum { PAGE = 4096 };
static const size_t MIB = 1 << 20;
static const double IO_SECONDS = 600;

static int add_part(uint64_t *at, uint64_t *part, uint64_t each, uint64_t n) {
    uint64_t bytes;
    *part = *at;
    return !__builtin_mul_overflow(each, n, &bytes) && !__builtin_add_overflow(*at, bytes, at) &&
           !__builtin_add_overflow(*at, PAGE - 1, at) && (*at &= ~(uint64_t)(PAGE - 1), *at <= SIZE_MAX / 2);
}

/* Offsets of the parts for n ranks; 0 when sizes overflow. Used for both creating and validating. */
static int lay_out(uint64_t n, uint64_t heap_bytes, tri_segment_header *out) {
    uint64_t at = PAGE;
    *out = (tri_segment_header){.version = TRI_SEGMENT_VERSION, .n = (uint32_t)n, .heap_bytes = heap_bytes};
    out->cell_bytes = n < 4 ? 8 * MIB : n * 2 * MIB; /* a group of m members takes about m * 16 * 4352 bytes */
    memcpy(out->magic, MAGIC, sizeof MAGIC);
    int ok = add_part(&at, &out->control, tri__control_bytes((int)n), 1) &&
             add_part(&at, &out->groups, TRI_SEGMENT_GROUP_BYTES, TRI_SEGMENT_GROUPS) &&
             add_part(&at, &out->cells, out->cell_bytes, 1) &&
             add_part(&at, &out->pairs, TRI_SEGMENT_PAIR_BYTES, n * n) && add_part(&at, &out->heap, heap_bytes, n);
    out->bytes = at;
    return ok;
}

static int has_addresses(size_t bytes) {
    void *trial = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return trial != MAP_FAILED && munmap(trial, bytes) == 0;
}

/* The default size limit of each of n heaps: the machine's memory. Heaps take address space, not memory, until they are
 * used; if `ulimit -v` limits address space, all of them together take half of the limit, and if a sanitizer has taken
 * most of it, the rest. */
static size_t most_heap(int n) {
    struct rlimit limit;
    size_t heap = (size_t)tri__memory_total();
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur / 2 / (rlim_t)n < heap)
        heap = (size_t)(limit.rlim_cur / 2 / (rlim_t)n);
    while (heap > MIB && !has_addresses(heap * (size_t)n)) heap /= 2;
    return heap;
}

static int lay_out_spec(const tri_segment_spec *spec, tri_segment_header *out) {
    size_t heap = spec->heap_bytes ? spec->heap_bytes : most_heap(spec->n);
    if (heap > SIZE_MAX / 2) return 0;
    return lay_out((uint64_t)spec->n, (heap + PAGE - 1) & ~(uint64_t)(PAGE - 1), out);
}

static tri_status no_memory(uint64_t need, int n, const char *why) {
    char a[32], b[32];
    return tri__fail(TRI_RESOURCE,
                     "the shared memory of %d ranks takes %s, and %s is available (%s): use fewer ranks, a smaller "
                     "heap, or free memory",
                     n, tri__text_bytes((double)need, a), tri__text_bytes((double)tri__memory_available(), b), why);
}

/* An unnamed file of `bytes` that cannot be shrunk; the first `now` bytes are committed, heaps commit their own. */
static tri_status make_file(uint64_t bytes, uint64_t now, int n, int *out) {
    struct rlimit limit;
    int failed;
    if (now > (uint64_t)tri__memory_available()) return no_memory(now, n, "less than that");
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) /* otherwise the kernel would kill us */
        return tri__fail(
            TRI_RESOURCE,
            "the shared memory of %d ranks takes %llu bytes, and the limit of file sizes (ulimit -f) is %llu", n,
            (unsigned long long)bytes, (unsigned long long)limit.rlim_cur);
    int fd = memfd_create("trident", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        const char *hint = errno == EMFILE || errno == ENFILE ? "; raise the limit of open files (ulimit -n)" : "";
        return tri__fail(TRI_RESOURCE, "cannot make shared memory: %s%s", strerror(errno), hint);
    }
    do failed = posix_fallocate(fd, 0, (off_t)now);
    while (failed == EINTR);
    while (!failed && ftruncate(fd, (off_t)bytes) != 0)
        if (errno != EINTR) failed = errno;
    if (!failed && (fchmod(fd, 0600) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0))
        failed = errno;
    if (failed) {
        close(fd);
        return no_memory(now, n, strerror(failed));
    }
    *out = fd;
    return TRI_OK;
}

/* Maps the file and sets all pointers; takes ownership of fd. */
static tri_status map(int fd, const tri_segment_header *header, tri_segment *segment) {
    int flags = (fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS) | MAP_NORESERVE;
    char *base = mmap(NULL, header->bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (base == MAP_FAILED) {
        int cause = errno;
        if (fd >= 0) close(fd);
        return no_memory(header->bytes, (int)header->n, strerror(cause));
    }
    *segment = (tri_segment){.base = base, .header = (tri_segment_header *)base,
                             .control = (tri_control *)(base + header->control), .groups = base + header->groups,
                             .cells = base + header->cells, .pairs = base + header->pairs, .heap = base + header->heap,
                             .bytes = header->bytes, .cell_bytes = header->cell_bytes, .heap_bytes = header->heap_bytes,
                             .n = (int)header->n, .fd = fd, .flat = fd < 0};
    return TRI_OK;
}

tri_status tri__segment_create(const tri_segment_spec *spec, tri_segment *segment) {
    tri_segment_header header;
    int fd = -1;
    *segment = (tri_segment){.fd = -1};
    if (spec->n < 1 || spec->n > TRI_RANKS_PER_NODE)
        return tri__fail(TRI_USAGE, "%d ranks on one machine: 1 to %d are possible", spec->n, TRI_RANKS_PER_NODE);
    if (!lay_out_spec(spec, &header)) return no_memory(SIZE_MAX, spec->n, "no machine has that");
    if (spec->heap_bytes > (size_t)tri__memory_total()) /* address space may exceed memory */
        return no_memory(header.bytes, spec->n, "a rank's heap alone is larger than this machine's memory");
    if (!spec->flat) TRI_TRY(make_file(header.bytes, header.heap, spec->n, &fd));
    TRI_TRY(map(fd, &header, segment));
    tri__control_init(segment->control, spec->n, spec->world_rank, spec->world, spec->progress_timeout,
                      spec->io_timeout > 0 ? spec->io_timeout : IO_SECONDS);
    segment->control->generation = spec->generation;
    segment->control->stages = spec->stages, segment->control->replicas = spec->replicas;
    atomic_store(&segment->control->committed, spec->committed);
    memcpy((void *)segment->header, (void *)&header, sizeof header);
    return TRI_OK;
}

/* Whether the header's copy is what was made for its n and heap_bytes: all but cells_used, the last, which changes. */
static int header_fits(const tri_segment_header *header, uint64_t file_bytes) {
    tri_segment_header want;
    return header->n >= 1 && header->n <= TRI_RANKS_PER_NODE && header->heap_bytes % PAGE == 0 &&
           lay_out(header->n, header->heap_bytes, &want) && header->bytes == file_bytes &&
           memcmp((void *)header, (void *)&want, offsetof(tri_segment_header, cells_used)) == 0;
}

static tri_status check_file(int fd, tri_segment_header *header) {
    struct stat info;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals >= 0 && fstat(fd, &info) != 0) return tri__fail_errno("look at", "the shared memory", TRI_IO);
    if (seals < 0)
        return tri__fail(TRI_DISAGREE,
                         "descriptor %d is not shared memory of Trident (%s): was it inherited from the launcher?", fd,
                         strerror(errno));
    if ((seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
        return tri__fail(TRI_DISAGREE, "the shared memory's size is not sealed: it is not what Trident makes");
    int fits = (uint64_t)info.st_size >= sizeof *header;
    if (fits) TRI_TRY(tri__read_at(fd, 0, (void *)header, sizeof *header, "the shared memory"));
    if (!fits || memcmp(header->magic, MAGIC, sizeof MAGIC) != 0)
        return tri__fail(TRI_DISAGREE, "the shared memory does not begin as Trident's does");
    if (header->version != TRI_SEGMENT_VERSION)
        return tri__fail(
            TRI_DISAGREE,
            "the shared memory is of version %u and this build's is %d: start all ranks with the same binary",
            header->version, TRI_SEGMENT_VERSION);
    if (!header_fits(header, (uint64_t)info.st_size))
        return tri__fail(TRI_DISAGREE, "the header of the shared memory is damaged, or of another build");
    return TRI_OK;
}

tri_status tri__segment_attach(int fd, tri_segment *segment) {
    tri_segment_header header;
    *segment = (tri_segment){.fd = -1};
    tri_status status = check_file(fd, &header);
    if (status != TRI_OK) {
        close(fd);
        return status;
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    TRI_TRY(map(fd, &header, segment));
    if (segment->control->n != segment->n) {
        tri__segment_close(segment);
        return tri__fail(TRI_DISAGREE, "the control page of the shared memory is damaged");
    }
    return TRI_OK;
}

void tri__segment_close(tri_segment *segment) {
    if (!segment->base) return;
    munmap(segment->base, segment->bytes);
    if (segment->fd >= 0) close(segment->fd);
    *segment = (tri_segment){.fd = -1};
}

char *tri__segment_heap(const tri_segment *segment, int local) {
    TRI_ASSERT(local >= 0 && local < segment->n);
    return segment->heap + (size_t)local * segment->heap_bytes;
}

uint64_t tri__segment_cells(tri_segment *segment, size_t bytes) {
    if (bytes > segment->cell_bytes) return 0;
    uint64_t size = ((uint64_t)bytes + 127) & ~(uint64_t)127, at = atomic_load(&segment->header->cells_used);
    do {
        if (at > segment->cell_bytes || size > segment->cell_bytes - at || at % 128) return 0;
    } while (!atomic_compare_exchange_weak(&segment->header->cells_used, &at, at + size));
    return (uint64_t)(segment->cells - segment->base) + at;
}

int tri__segment_has(const tri_segment *segment, const void *memory, size_t bytes) {
    uintptr_t at = (uintptr_t)memory - (uintptr_t)segment->base;
    return segment->flat || bytes == 0 || (at <= segment->bytes && bytes <= segment->bytes - at);
}
