/* cpu.c - two devices in host memory: "cpu", reference rows overridden by fast ones, and "reference", the plain rows
 * alone, against which all others are compared. */
#include "device/cpu/cpu.h"

#include "base/file.h"
#include "device/cpu/fast/runtime/fast.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 }; /* bytes */

static void plain_rows(tri_kernel_table *table) {
    memset(table, 0, sizeof *table);
#define X(family) tri__kernel_table_add(table, tri__cpu_##family##_reference);
    TRI_CPU_FAMILIES(X)
#undef X
}

static void reference_kernels(tri_kernel_table *table) {
    plain_rows(table);
    tri__cpu_half_rows(table);
    tri__cpu_part_rows(table);
    tri__cpu_fp8_parts(table);
}

static void cpu_kernels(tri_kernel_table *table) {
    plain_rows(table);
    tri__cpu_fast_rows(table);
    tri__cpu_half_rows(table);
    tri__cpu_part_rows(table);
    tri__cpu_fast_half_rows(table);
    tri__cpu_fp8_parts(table);
}

/* The system rejects a mapping of 0 bytes; an empty allocation takes one byte. */
static size_t mapped(size_t bytes) { return bytes ? bytes : 1; }

tri_status tri__cpu_open(const tri_core *core, int local, size_t inputs, void **context) {
    (void)core, (void)local, (void)inputs;
    *context = NULL;
    return TRI_OK;
}

void tri__cpu_close(void *context) { (void)context; }

tri_status tri__cpu_room(const tri_core *core, int local, int64_t *bytes) {
    (void)core, (void)local;
    *bytes = tri__memory_available();
    return TRI_OK;
}

tri_status tri__cpu_alloc(void *context, size_t bytes, void **out) {
    (void)context;
    void *memory = mmap(NULL, mapped(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        *out = NULL;
        return tri__fail(TRI_RESOURCE, "cannot allocate %zu bytes: %s; try a smaller batch or a shorter max_sen_len",
                         bytes, strerror(errno));
    }
    if (bytes >= HUGE_PAGE) (void)madvise(memory, bytes, MADV_HUGEPAGE); /* advice: may be unsupported */
    *out = memory;
    return TRI_OK;
}

tri_status tri__cpu_alloc_second(void *context, const char *folder, size_t bytes, void **out) {
    (void)context;
    *out = NULL;
    int file;
    tri_status status = tri__file_nameless(folder, &file);
    if (status != TRI_OK) return tri__fail_in(status, "no file for what is offloaded; choose another folder");
    int error;
    do error = posix_fallocate(file, 0, (off_t)mapped(bytes));
    while (error == EINTR);
    if (error == 0) {
        void *memory = mmap(NULL, mapped(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (memory == MAP_FAILED) error = errno;
        else *out = memory;
    }
    close(file);
    if (error)
        return tri__fail(TRI_RESOURCE,
                         "cannot reserve %zu bytes in %s for what is offloaded: %s; free space there, choose another "
                         "folder, or offload "
                         "less",
                         bytes, folder, strerror(error));
    return TRI_OK;
}

void tri__cpu_free(void *context, void *memory, size_t bytes) {
    (void)context;
    if (memory) munmap(memory, mapped(bytes));
}

static const char *describe_cpu(void *context) {
    (void)context;
    return tri__cpu_fast_name();
}

static const char *describe_reference(void *context) {
    (void)context;
    return "plain C, fp32, one thread";
}

const tri_device tri__device_cpu = {TRI_CPU_MEMORY, .name = "cpu", .kernels = cpu_kernels, .describe = describe_cpu};
const tri_device tri__device_reference = {
    TRI_CPU_MEMORY, .name = "reference", .kernels = reference_kernels, .describe = describe_reference};
