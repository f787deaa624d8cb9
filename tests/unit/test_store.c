/* test_store.c - what is removed from a cache of token stores when the next one is built: leftovers of killed builders
 * and stores of a table's former content; and what is kept: stores in use, of other tables or settings, and foreign
 * files. */
#include "tests/lib/test.h"
#include "tests/lib/scratch.h"
#include "data/dataset/store.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A store named by `key`, of the content `table` at `place`. */
static tri_store_origin from(uint64_t key, uint64_t table, uint64_t place) {
    return (tri_store_origin){.key = {key, key}, .table = {table, table}, .place = place};
}

static const char *path_of(uint64_t key, char out[static TRI_PATH_MAX]) {
    assert_int_equal(tri__store_path(folder, &(tri_key){key, key}, out), TRI_OK);
    return out;
}

static tri_store_writer *begin(const tri_store_origin *origin) {
    char path[TRI_PATH_MAX];
    tri_store_writer *writer;
    assert_int_equal(tri__store_create(path_of(origin->key.low, path), origin, NULL, &writer), TRI_OK);
    return writer;
}

/* A store of no rows, left open. */
static tri_store made(uint64_t key, uint64_t table, uint64_t place) {
    const tri_store_origin origin = from(key, table, place);
    const int64_t start[1] = {0};
    tri_store store;
    tri_store_writer *writer = begin(&origin);
    assert_int_equal(tri__store_begin(writer, TRI_SECTION_START0), TRI_OK);
    assert_int_equal(tri__store_append(writer, start, sizeof start), TRI_OK);
    assert_int_equal(tri__store_commit(writer, 0, 0, &store), TRI_OK);
    return store;
}

static void make(uint64_t key, uint64_t table, uint64_t place) {
    tri_store store = made(key, table, place);
    tri__store_close(&store);
}

static int there(uint64_t key) {
    char path[TRI_PATH_MAX];
    return access(path_of(key, path), F_OK) == 0;
}

static int clean(uint64_t table, uint64_t place) {
    const tri_store_origin origin = from(99, table, place);
    return tri__store_clean(folder, &origin);
}

TEST_IN(superseded_ones_go, setup, teardown) {
    make(1, 10, 7);
    make(2, 10, 7); /* other settings, the same content */
    make(3, 10, 8); /* another table */
    assert_int_equal(clean(10, 7), 0);
    assert_int_equal(clean(11, 9), 0);
    assert_int_equal(clean(11, 7), 2);
    assert_true(!there(1) && !there(2) && there(3));
}

TEST_IN(open_ones_stay, setup, teardown) {
    const tri_key key = {1, 1};
    char path[TRI_PATH_MAX];
    tri_store writers = made(1, 10, 7), readers;
    assert_int_equal(tri__store_open(path_of(1, path), &key, NULL, &readers), TRI_OK);
    assert_int_equal(clean(11, 7), 0);
    tri__store_close(&writers);
    assert_int_equal(clean(11, 7), 0);
    int64_t start = 1;
    assert_int_equal(tri__store_read(&readers, TRI_SECTION_START0, 0, sizeof start, &start), TRI_OK);
    assert_int_equal(start, 0);
    tri__store_close(&readers);
    assert_int_equal(clean(11, 7), 1);
    assert_int_equal(tri__store_open(path, &key, NULL, &readers), TRI_NOINPUT);
}

/* A process is killed while it makes a store. As long as it lives its file stays. */
TEST_IN(what_the_dead_left_goes, setup, teardown) {
    const tri_store_origin origin = from(1, 10, 7);
    int ready[2], code;
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        tri_store_writer *writer;
        char path[TRI_PATH_MAX];
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no process behind */
        if (tri__store_path(folder, &origin.key, path) != TRI_OK ||
            tri__store_create(path, &origin, NULL, &writer) != TRI_OK)
            _exit(1);
        if (write(ready[1], "r", 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    assert_int_equal(clean(10, 7), 0);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(clean(10, 7), 1);
    assert_int_equal(rmdir(folder), 0); /* nothing is left */
    assert_int_equal(tri__folder_make(folder), TRI_OK);
}

static void write_at(uint64_t key, off_t at, const void *data, size_t bytes) {
    char path[TRI_PATH_MAX];
    int fd = open(path_of(key, path), O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && pwrite(fd, data, bytes, at) == (ssize_t)bytes && close(fd) == 0);
}

/* The version is bytes 8 to 11, the content's hash is from byte 32 on (docs/internals/token-store.md). */
TEST_IN(versions, setup, teardown) {
    const uint32_t older = 1, newer = 1000;
    for (uint64_t key = 1; key <= 3; key++) make(key, 10, 7);
    write_at(1, 8, &older, sizeof older);
    write_at(2, 8, &newer, sizeof newer);
    write_at(3, 32, "x", 1); /* damaged: what it says of its table counts for nothing */
    assert_int_equal(clean(10, 7), 1);
    assert_int_equal(clean(11, 7), 0);
    assert_true(!there(1) && there(2) && there(3));
}

TEST_IN(foreign_files_stay, setup, teardown) {
    static const char *const names[] = {"notes.txt", "short.tokens", "0123456789abcdef0123456789abcdef.tokens",
                                        "0123456789abcdef0123456789abcdef.tokens.tmp-x", "short.tokens.tmp-1-0",
                                        "0123456789abcdef0123456789abcdef.tokens.old"};
    char path[TRI_PATH_MAX], target[TRI_PATH_MAX];
    enum { NAMES = sizeof names / sizeof *names };
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(tri__path_join(path, folder, names[i]), TRI_OK);
        assert_int_equal(tri__file_write(path, "x", 1), TRI_OK);
    }
    assert_int_equal(tri__path_join(target, folder, names[0]), TRI_OK);
    assert_int_equal(tri__path_join(path, folder, "0123456789abcdef0123456789abcdef.tokens.tmp-1-0"), TRI_OK);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(clean(10, 7), 0);
    assert_int_equal(unlink(path), 0);
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(tri__path_join(path, folder, names[i]), TRI_OK);
        assert_int_equal(access(path, F_OK), 0);
    }
    assert_int_equal(tri__store_clean("/nowhere/at/all", &(tri_store_origin){0}), 0);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
