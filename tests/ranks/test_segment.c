/* test_segment.c - the shared memory segment, its heaps, damaged or hostile segments, and the rendezvous of ranks. */
#include "base/clock.h"
#include "base/machine.h"
#include "comm/world/heap.h"
#include "comm/launchers/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/meeting_name.h"
#include "tests/lib/soak.h"

static tri_segment_spec small_spec(int n) {
    return (tri_segment_spec){.n = n, .world = n, .heap_bytes = 10000, .progress_timeout = 30};
}

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

/* ---- Heap ---- */

static void heap_gives_out_pieces(void **state) {
    (void)state;
    enum { PAGES = 64 };
    char *memory = aligned_alloc(4096, PAGES * 4096);
    memset(memory, 0, PAGES * 4096); /* as fresh pages are */
    tri_heap heap;
    void *a, *b, *c, *all;
    assert_int_equal(tri__heap_open(&heap, memory, PAGES * 4096 + 100, -1, 0),
                     TRI_OK); /* the rest of a page is not used */
    assert_int_equal(tri__heap_take(&heap, 0, &a), TRI_OK);
    assert_int_equal(tri__heap_take(&heap, 4097, &b), TRI_OK);
    assert_int_equal(tri__heap_take(&heap, 1, &c), TRI_OK);
    assert_true((char *)a == memory && (char *)b == memory + 4096 && (char *)c == memory + 3 * 4096);
    memset(b, 0xA5, 8192);
    assert_int_equal(tri__heap_take(&heap, PAGES * 4096, &all), TRI_RESOURCE);
    assert_null(all);
    assert_non_null(strstr(tri_error(), "heap_bytes"));
    assert_int_equal(tri__heap_take(&heap, SIZE_MAX, &all), TRI_RESOURCE);
    assert_int_equal(tri__heap_give(&heap, (char *)b + 4096), TRI_USAGE);
    assert_int_equal(tri__heap_give(&heap, b), TRI_OK);
    assert_int_equal(tri__heap_give(&heap, b), TRI_USAGE);
    assert_int_equal(tri__heap_take(&heap, 8192, &b), TRI_OK);
    assert_true((char *)b == memory + 4096);
    for (int i = 0; i < 8192; i++) assert_int_equal(((char *)b)[i], 0); /* used before */
    memset(b, 0xA5, 8192);
    assert_int_equal(tri__heap_give(&heap, a), TRI_OK);
    assert_int_equal(tri__heap_give(&heap, c), TRI_OK);
    assert_int_equal(tri__heap_give(&heap, b), TRI_OK);
    assert_int_equal(heap.n, 1); /* all joined again */
    assert_int_equal(tri__heap_take(&heap, PAGES * 4096, &all), TRI_OK);
    for (int i = 0; i < PAGES * 4096; i++) assert_int_equal(((char *)all)[i], 0);
    tri__heap_close(&heap);
    free(memory);
}

/* Pieces never overlap, whatever the order, and nothing is lost. */
static void heap_survives_any_order(void **state) {
    (void)state;
    enum { PAGES = 256, SLOTS = 40, TURNS = 5000 };
    char *memory = aligned_alloc(4096, PAGES * 4096);
    tri_heap heap;
    unsigned char *piece[SLOTS] = {0};
    size_t bytes[SLOTS] = {0};
    uint64_t random = 88172645463325252u;
    assert_int_equal(tri__heap_open(&heap, memory, PAGES * 4096, -1, 0), TRI_OK);
    for (int turn = 0; turn < TURNS; turn++) {
        int s = (int)(next_random(&random) % SLOTS);
        if (piece[s]) {
            for (size_t i = 0; i < bytes[s]; i += 511) assert_int_equal(piece[s][i], s + 1);
            assert_int_equal(tri__heap_give(&heap, piece[s]), TRI_OK);
            piece[s] = NULL;
        } else {
            bytes[s] = (size_t)(next_random(&random) % 60000);
            if (tri__heap_take(&heap, bytes[s], (void **)&piece[s]) == TRI_OK) memset(piece[s], s + 1, bytes[s]);
        }
    }
    for (int s = 0; s < SLOTS; s++)
        if (piece[s]) assert_int_equal(tri__heap_give(&heap, piece[s]), TRI_OK);
    assert_int_equal(heap.n, 1);
    assert_int_equal(heap.piece[0].bytes, PAGES * 4096);
    tri__heap_close(&heap);
    free(memory);
}

/* ---- Segment ---- */

static void parts_do_not_overlap(void **state) {
    (void)state;
    for (int n = 1; n <= 16; n += 5)
        for (int flat = 0; flat < 2; flat++) {
            tri_segment segment;
            tri_segment_spec spec = small_spec(n);
            spec.flat = flat;
            assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
            assert_int_equal(segment.bytes, tri__segment_bytes(&spec));
            assert_int_equal(segment.flat, flat);
            assert_int_equal(segment.heap_bytes, 12288);
            assert_true((char *)segment.control >= segment.base + sizeof(tri_segment_header));
            assert_true(segment.groups >= (char *)segment.control + tri__control_bytes(n));
            assert_true(segment.cells >= segment.groups + TRI_SEGMENT_GROUPS * TRI_SEGMENT_GROUP_BYTES);
            assert_true(segment.pairs >= segment.cells + segment.cell_bytes);
            assert_true(segment.heap >= segment.pairs + (size_t)(n * n) * TRI_SEGMENT_PAIR_BYTES);
            assert_true(segment.heap + (size_t)n * segment.heap_bytes <= segment.base + segment.bytes);
            assert_true((uintptr_t)segment.control % 128 == 0 &&
                        (uintptr_t)tri__segment_heap(&segment, n - 1) % 4096 == 0);
            memset(tri__segment_heap(&segment, n - 1), 1, segment.heap_bytes);
            tri__segment_close(&segment);
            tri__segment_close(&segment);
        }
}

static void cells_are_given_once(void **state) {
    (void)state;
    tri_segment segment;
    tri_segment_spec spec = small_spec(2);
    spec.flat = 1;
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    uint64_t first = tri__segment_cells(&segment, 100), second = tri__segment_cells(&segment, 1);
    assert_true(first == (uint64_t)(segment.cells - segment.base) && second == first + 128);
    assert_int_equal(tri__segment_cells(&segment, segment.cell_bytes), 0);
    assert_int_equal(tri__segment_cells(&segment, SIZE_MAX), 0);
    assert_true(tri__segment_cells(&segment, segment.cell_bytes - 256) == first + 256);
    assert_int_equal(tri__segment_cells(&segment, 1), 0);
    atomic_store(&segment.header->cells_used, UINT64_MAX - 100); /* a peer's lie */
    assert_int_equal(tri__segment_cells(&segment, 1000), 0);
    tri__segment_close(&segment);
}

static void file_is_private_and_sealed(void **state) {
    (void)state;
    tri_segment segment;
    tri_segment_spec spec = small_spec(2);
    struct stat info;
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    assert_int_equal(fstat(segment.fd, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_true((int64_t)info.st_blocks * 512 >= segment.heap - segment.base); /* committed: no page can fail later */
    assert_int_equal(ftruncate(segment.fd, 4096), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(fcntl(segment.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    tri__segment_close(&segment);
}

/* Memory is taken when a piece is, and a piece that the machine cannot hold is refused without harm. */
static void heaps_commit_what_they_give(void **state) {
    (void)state;
    tri_segment segment;
    tri_segment_spec spec = small_spec(2);
    tri_heap heap;
    struct stat before, after;
    void *small, *again, *huge;
    spec.heap_bytes = 0; /* what the machine has */
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    char *base = tri__segment_heap(&segment, 1);
    assert_int_equal(tri__heap_open(&heap, base, segment.heap_bytes, segment.fd, base - segment.base), TRI_OK);
    assert_int_equal(fstat(segment.fd, &before), 0);
    assert_int_equal(tri__heap_take(&heap, 1 << 20, &small), TRI_OK);
    assert_int_equal(fstat(segment.fd, &after), 0);
    assert_int_equal((after.st_blocks - before.st_blocks) * 512, 1 << 20);
    if (segment.heap_bytes ==
        (size_t)tri__memory_total()) { /* TSan leaves fewer addresses than that on some machines */
        assert_int_equal(tri__heap_take(&heap, segment.heap_bytes - (4 << 20), &huge), TRI_RESOURCE);
        assert_non_null(strstr(tri_error(), "available"));
    }
    memset(small, 7, 1 << 20);
    assert_int_equal(tri__heap_give(&heap, small), TRI_OK);
    assert_int_equal(tri__heap_take(&heap, 2 << 20, &again), TRI_OK);
    assert_ptr_equal(again, small);
    for (int i = 0; i < 2 << 20; i++) assert_int_equal(((char *)again)[i], 0);
    tri__heap_close(&heap);
    tri__segment_close(&segment);
}

/* In a child with a file system of 1 MiB: its exit code; 77 where namespaces are not allowed. A shortage must not
 * become a SIGBUS. */
static int take_too_much(void) {
    enum { FILE_BYTES = 4 << 20 };
    tri_heap heap;
    void *small, *large;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return 77;
    if (mount("tmpfs", "/mnt", "tmpfs", 0, "size=1m") != 0) return 77;
    int fd = open("/mnt/heap", O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, FILE_BYTES) != 0) return 1;
    char *base = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED || tri__heap_open(&heap, base, FILE_BYTES, fd, 0) != TRI_OK) return 2;
    if (tri__heap_take(&heap, 1 << 19, &small) != TRI_OK) return 3;
    memset(small, 1, 1 << 19);
    tri_status status = tri__heap_take(&heap, 2 << 20, &large);
    if (status == TRI_OK) memset(large, 1, 2 << 20);
    tri__heap_close(&heap);
    return status == TRI_RESOURCE && strstr(tri_error(), "No space left") ? 0 : 4;
}

static void shortage_is_no_bus_error(void **state) {
    (void)state;
    int how;
    pid_t child = fork();
    if (child == 0) _exit(take_too_much());
    assert_int_equal(waitpid(child, &how, 0), child);
    if (WIFEXITED(how) && WEXITSTATUS(how) == 77) skip();
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

static void shortage_is_said_at_once(void **state) {
    (void)state;
    tri_segment segment;
    tri_segment_spec spec = small_spec(4);
    struct rlimit files, none, before;
    spec.heap_bytes = (size_t)1 << 60; /* no machine has it, however far its addresses reach */
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_RESOURCE);
    assert_non_null(strstr(tri_error(), "available"));
    spec.heap_bytes = SIZE_MAX - 10;
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_RESOURCE);
    assert_true(tri__segment_bytes(&spec) == SIZE_MAX);
    spec = small_spec(4);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    files = before, files.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    tri_status status = tri__segment_create(&spec, &segment);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, TRI_RESOURCE);
    assert_non_null(strstr(tri_error(), "ulimit -n"));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before, none.rlim_cur = 1 << 16;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    status = tri__segment_create(&spec, &segment);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, TRI_RESOURCE);
    assert_null(segment.base);
}

static void expect_refused(int fd) {
    tri_segment other;
    assert_int_equal(tri__segment_attach(fd, &other), TRI_DISAGREE);
    assert_null(other.base);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* taken over, closed */
}

static void refuses_what_is_no_segment(void **state) {
    (void)state;
    char zeros[4096] = {0};
    int plain = memfd_create("plain", MFD_ALLOW_SEALING);
    assert_int_equal(write(plain, zeros, sizeof zeros), sizeof zeros);
    expect_refused(dup(plain));
    assert_int_equal(fcntl(plain, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    expect_refused(plain);
    int empty = memfd_create("empty", MFD_ALLOW_SEALING);
    assert_int_equal(fcntl(empty, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    expect_refused(empty);
    expect_refused(open("/dev/null", O_RDWR));
    expect_refused(open("/", O_RDONLY));
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    expect_refused(ends[0]);
    close(ends[1]);
    tri_segment other;
    assert_int_equal(tri__segment_attach(-1, &other), TRI_DISAGREE);
}

/* A copy whose size is not sealed could be made shorter under its reader's feet. */
static void refuses_a_size_that_can_change(void **state) {
    (void)state;
    tri_segment segment, other;
    tri_segment_spec spec = small_spec(2);
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    int copy = memfd_create("copy", MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(copy, (off_t)segment.bytes), 0);
    size_t used = (size_t)(segment.heap - segment.base);
    assert_int_equal(pwrite(copy, segment.base, used, 0), used);
    expect_refused(dup(copy));
    assert_non_null(strstr(tri_error(), "not sealed"));
    assert_int_equal(fcntl(copy, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    assert_int_equal(tri__segment_attach(copy, &other), TRI_OK);
    tri__segment_close(&other);
    tri__segment_close(&segment);
}

/* Each field of the header, each bit of it. */
static void refuses_every_damaged_field(void **state) {
    (void)state;
    tri_segment segment, other;
    tri_segment_spec spec = small_spec(2);
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    char good[offsetof(tri_segment_header, cells_used)];
    assert_int_equal(pread(segment.fd, good, sizeof good, 0), sizeof good);
    for (size_t bit = 0; bit < 8 * sizeof good; bit++) {
        char bad[sizeof good];
        memcpy(bad, good, sizeof good);
        bad[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(pwrite(segment.fd, bad, sizeof bad, 0), sizeof bad);
        expect_refused(dup(segment.fd));
    }
    assert_int_equal(pwrite(segment.fd, good, sizeof good, 0), sizeof good);
    segment.control->n = 3;
    expect_refused(dup(segment.fd));
    segment.control->n = 2;
    assert_int_equal(tri__segment_attach(dup(segment.fd), &other), TRI_OK);
    tri__segment_heap(&segment, 1)[5] = 42;
    assert_int_equal(tri__segment_heap(&other, 1)[5], 42);
    tri__segment_close(&other);
    tri__segment_close(&segment);
}

/* Another process scribbles over the control page while this one reads it in every way there is. */
static void reads_a_page_that_lies(void **state) {
    (void)state;
    tri_segment segment;
    tri_segment_spec spec = small_spec(3);
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    size_t bytes = tri__control_bytes(3);
    pid_t child = fork();
    if (child == 0) {
        uint64_t random = 123456789;
        uint64_t *words = (uint64_t *)segment.control;
        for (int i = 0; i < 3000000; i++) {
            uint64_t value = next_random(&random);
            words[value % (bytes / 8)] = value % 3 == 0 ? ~(uint64_t)0 : value % 3 == 1 ? value : value % 16;
        }
        _exit(0);
    }
    tri_seen *seen = calloc(TRI_RANKS_PER_NODE, sizeof *seen);
    tri_failure first, second[TRI_SECOND_FAILURES];
    int reads = 0, how = 0;
    for (; waitpid(child, &how, WNOHANG) == 0; reads++) {
        atomic_store(&segment.control->abort, 0);
        if (atomic_load(&segment.control->failure.state) == 1)
            atomic_store(&segment.control->failure.state, 2); /* else it waits 100 ms each time */
        tri_status status = tri__control_status(segment.control);
        assert_true(status == TRI_OK || (status > 0 && status < 256));
        if (tri__control_failure(segment.control, &first)) assert_true(memchr(first.text, 0, TRI_FAILURE_TEXT) != NULL);
        tri__control_second(segment.control, second);
        tri__control_watch(segment.control, seen, NULL, -1);
        tri__control_wake(segment.control, NULL, 0);
    }
    assert_int_equal(how, 0);
    print_message("%d rounds of reading\n", reads);
    assert_true(reads > 0);
    free(seen);
    tri__segment_close(&segment);
}

/* The page's own count of ranks, which any of them can change. */
static void believes_no_count_of_ranks(void **state) {
    (void)state;
    static const int32_t lies[] = {INT32_MAX, INT32_MIN, -1, TRI_RANKS_PER_NODE + 1, 1 << 20};
    tri_seen *seen = calloc(TRI_RANKS_PER_NODE, sizeof *seen);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        tri_segment segment;
        tri_segment_spec spec = small_spec(2);
        assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
        segment.control->n = lies[i];
        atomic_store(&segment.control->asleep, 1);
        tri__control_watch(segment.control, seen, NULL, -1);
        tri__control_wake(segment.control, NULL, 0);
        tri__control_fail(segment.control, 1, TRI_DATA, "one");
        assert_int_equal(tri__control_status(segment.control), TRI_DATA);
        tri__segment_close(&segment);
    }
    free(seen);
}

/* A record that fills its room: no zero at the end, control characters, a code that is none. */
static void ends_a_record_that_has_no_end(void **state) {
    (void)state;
    tri_segment segment;
    tri_segment_spec spec = small_spec(1);
    tri_failure got;
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    tri_failure *record = &segment.control->failure;
    memset(record->text, '\a', sizeof record->text);
    record->code = 70000, record->phase = 70000, record->step = 1;
    atomic_store(&record->state, 2);
    assert_int_equal(tri__control_failure(segment.control, &got), 1);
    assert_int_equal(strnlen(got.text, sizeof got.text), sizeof got.text - 1);
    assert_null(strchr(got.text, '\a'));
    assert_int_equal(got.code, TRI_INTERNAL);
    assert_int_equal(tri__control_status(segment.control), TRI_INTERNAL);
    tri__segment_close(&segment);
}

/* ---- Meeting ---- */

typedef struct guest {
    int local, n, world;
    size_t heap;
    double late;  /* seconds */
} guest;

static const char *meeting_key(void) {
    static char key[64];
    static int count;
    snprintf(key, sizeof key, "test.%d.%d", (int)getpid(), count++);
    return key;
}

/* A rank of its own process; its exit code is the status, and it leaves its place + 1 in its heap. */
static pid_t start_guest(const char *key, guest who, double seconds, const char *words) {
    pid_t child = fork();
    if (child) return child;
    tri_segment segment;
    usleep((useconds_t)(who.late * 1e6));
    tri_rendezvous meeting = {.key = key, .local = who.local, .n = who.n, .seconds = seconds};
    tri_segment_spec spec = {.n = who.n, .world = who.world, .heap_bytes = who.heap, .progress_timeout = 30};
    tri_status status = tri__rendezvous(&meeting, &spec, &segment);
    if (status == TRI_OK) {
        atomic_store(&segment.control->line[who.local].pid, who.local + 1);
        if (who.local == 0)
            for (int i = 0; i < who.n; i++)
                for (double begin = tri__clock(); atomic_load(&segment.control->line[i].pid) != i + 1;)
                    if (tri__clock() - begin > 5) _exit(99);
        tri__segment_close(&segment);
    } else if (words && !strstr(tri_error(), words)) {
        fprintf(stderr, "local rank %d: \"%s\" does not say \"%s\"\n", who.local, tri_error(), words);
        _exit(98);
    }
    _exit(status);
}

static int end_of(pid_t child) {
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

/* Starts them in the order given and expects the same status of all. */
static void expect_meeting(int n, const guest *guests, double seconds, int want, const char *words) {
    const char *key = meeting_key();
    pid_t child[16];
    for (int i = 0; i < n; i++) child[i] = start_guest(key, guests[i], seconds, words);
    for (int i = 0; i < n; i++) assert_int_equal(end_of(child[i]), want);
}

static void ranks_meet_in_any_order(void **state) {
    (void)state;
    expect_meeting(1, (guest[]){{0, 1, 1, 4096, 0}}, 5, TRI_OK, NULL);
    expect_meeting(4, (guest[]){{0, 4, 4, 4096, 0}, {1, 4, 4, 4096, 0}, {2, 4, 4, 4096, 0}, {3, 4, 4, 4096, 0}}, 5,
                   TRI_OK, NULL);
    expect_meeting(4, (guest[]){{3, 4, 4, 4096, 0}, {1, 4, 4, 4096, 0}, {2, 4, 4, 4096, 0.02}, {0, 4, 4, 4096, 0.1}}, 5,
                   TRI_OK, NULL);
}

static void missing_ranks_are_named(void **state) {
    (void)state;
    double begin = tri__clock();
    expect_meeting(3, (guest[]){{0, 4, 4, 4096, 0}, {1, 4, 4, 4096, 0}, {3, 4, 4, 4096, 0}}, 0.3, TRI_RESOURCE,
                   "missing: local rank 2");
    expect_meeting(2, (guest[]){{1, 3, 3, 4096, 0}, {2, 3, 3, 4096, 0}}, 0.3, TRI_RESOURCE, "missing: local rank 0");
    assert_true(tri__clock() - begin < 5);
}

static void different_ranks_are_refused(void **state) {
    (void)state;
    expect_meeting(2, (guest[]){{0, 2, 2, 4096, 0}, {1, 3, 2, 4096, 0}}, 5, TRI_DISAGREE, "counts 3 ranks here");
    expect_meeting(2, (guest[]){{0, 2, 4, 4096, 0}, {1, 2, 8, 4096, 0}}, 5, TRI_DISAGREE, "8 in all");
    expect_meeting(2, (guest[]){{0, 2, 2, 4096, 0}, {1, 2, 2, 8192, 0}}, 5, TRI_DISAGREE, "8192");
    expect_meeting(3, (guest[]){{0, 3, 3, 4096, 0}, {1, 3, 3, 4096, 0}, {1, 3, 3, 4096, 0}}, 5, TRI_DISAGREE,
                   "two ranks say");
    expect_meeting(2, (guest[]){{0, 2, 2, 4096, 0}, {2, 3, 2, 4096, 0}}, 5, TRI_DISAGREE, "local rank 2");
}

/* A shortage at local rank 0 is everyone's. */
static void shortage_is_told_to_all(void **state) {
    (void)state;
    size_t much = (size_t)1 << 60;
    expect_meeting(2, (guest[]){{0, 2, 2, much, 0}, {1, 2, 2, much, 0}}, 5, TRI_RESOURCE, "available");
}

static void two_jobs_do_not_mix(void **state) {
    (void)state;
    const char *key = meeting_key();
    pid_t first = start_guest(key, (guest){0, 2, 2, 4096, 0}, 1, NULL);
    usleep(100000);
    pid_t second = start_guest(key, (guest){0, 2, 2, 4096, 0}, 0.2, "another job");
    assert_int_equal(end_of(second), TRI_USAGE);
    assert_int_equal(end_of(first), TRI_RESOURCE);
}

/* Knocks as `user` at the ranks that meet, says `bytes` of nonsense, and expects an answer with `words`. */
static pid_t start_intruder(const char *key, uid_t user, size_t bytes, const char *words) {
    pid_t child = fork();
    if (child) return child;
    struct sockaddr_un name;
    socklen_t length = meeting_name(key, &name);
    char said[64], heard[600] = "";
    memset(said, 'x', sizeof said);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (user && setuid(user) != 0) _exit(97);
    for (int i = 0; i < 5000 && connect(fd, (struct sockaddr *)&name, length) != 0; i++) usleep(1000);
    if (send(fd, said, bytes, MSG_NOSIGNAL) < 0 && errno != EPIPE) _exit(95); /* EPIPE: refused already */
    ssize_t got;
    do got = recv(fd, heard, sizeof heard - 1, 0);
    while (got < 0 && errno == ECONNRESET); /* refused before it was heard: the answer comes after that */
    _exit(got > 4 && strstr(heard + 4, words) ? 0 : 94);
}

static void count_refusal(void *context, tri_log_level level, const char *text) {
    (void)level;
    if (strstr(text, "wanted to join the ranks of this run: refused")) ++*(int *)context;
}

/* Local rank 0 of two, which refuses two processes and then meets its rank 1. */
static pid_t start_host(const char *key) {
    pid_t child = fork();
    if (child) return child;
    int refused = 0;
    tri_segment segment;
    tri_log log = {.say = count_refusal, .context = &refused};
    tri_rendezvous meeting = {.key = key, .local = 0, .n = 2, .seconds = 10, .log = &log};
    tri_segment_spec spec = {.n = 2, .world = 2, .heap_bytes = 4096, .progress_timeout = 30};
    tri_status status = tri__rendezvous(&meeting, &spec, &segment);
    _exit(status != TRI_OK ? (int)status : refused == 2 ? 0 : 93);
}

/* Another process of this user, or of another one (only root can try), finds the name: it is refused in words, and the
 * ranks meet all the same. */
static void strangers_are_refused(void **state) {
    (void)state;
    const char *key = meeting_key();
    int root = geteuid() == 0;
    pid_t host = start_host(key);
    assert_int_equal(end_of(start_intruder(key, 0, 60, "refused: the ranks that meet here are of another run")), 0);
    if (root)
        assert_int_equal(end_of(start_intruder(key, 65534, 60, "refused: the ranks that meet here belong to")), 0);
    else assert_int_equal(end_of(start_intruder(key, 0, 1, "refused: the ranks that meet here are of another run")), 0);
    if (!root) print_message("not root: processes of another user were left out\n");
    assert_int_equal(end_of(start_guest(key, (guest){1, 2, 2, 4096, 0}, 10, NULL)), TRI_OK);
    assert_int_equal(end_of(host), TRI_OK);
}

/* Another user holds the name that we would meet under. */
static void a_name_of_another_user_is_not_used(void **state) {
    (void)state;
    if (geteuid() != 0) skip();
    const char *key = meeting_key();
    struct sockaddr_un name;
    socklen_t length = meeting_name(key, &name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    pid_t squatter = fork();
    if (squatter == 0) {
        if (setuid(65534) != 0 || bind(fd, (struct sockaddr *)&name, length) != 0 || listen(fd, 1) != 0) _exit(97);
        sleep(10); /* killed long before */
        _exit(0);
    }
    usleep(50000);
    assert_int_equal(end_of(start_guest(key, (guest){1, 2, 2, 4096, 0}, 1, "another user")), TRI_USAGE);
    kill(squatter, SIGKILL);
    assert_int_equal(end_of(squatter), 128 + SIGKILL);
    close(fd);
}

int main(int argc, char **argv) {
    soak_select(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap_gives_out_pieces),       cmocka_unit_test(heap_survives_any_order),
        cmocka_unit_test(parts_do_not_overlap),        cmocka_unit_test(cells_are_given_once),
        cmocka_unit_test(file_is_private_and_sealed),  cmocka_unit_test(shortage_is_said_at_once),
        cmocka_unit_test(heaps_commit_what_they_give), cmocka_unit_test(refuses_a_size_that_can_change),
        cmocka_unit_test(shortage_is_no_bus_error),    cmocka_unit_test(ends_a_record_that_has_no_end),
        cmocka_unit_test(believes_no_count_of_ranks),  cmocka_unit_test(refuses_what_is_no_segment),
        cmocka_unit_test(refuses_every_damaged_field), cmocka_unit_test(reads_a_page_that_lies),
        cmocka_unit_test(ranks_meet_in_any_order),     cmocka_unit_test(missing_ranks_are_named),
        cmocka_unit_test(different_ranks_are_refused), cmocka_unit_test(shortage_is_told_to_all),
        cmocka_unit_test(two_jobs_do_not_mix),         cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(a_name_of_another_user_is_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
