/* test_folders.c - foreign entries in a run folder, and errors while it is examined: links and pipes are never followed
 * to write or remove; a system error is never taken for a damaged checkpoint; the newest checkpoint is the one saved
 * last. */
#define FAULTS_OF_READING
#include "tests/lib/test.h"
#include "tests/lib/faults.h"
#include "tests/lib/saved.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/folders.h"

#include <sys/resource.h>

#define SCRATCH_IN "/dev/shm"
static char root[] = SCRATCH_IN "/tri-folders-??????";
static char run[TRI_PATH_MAX], victim[TRI_PATH_MAX];

static int make_all(void **state) {
    (void)state;
    alarm(getenv("TRI_SANITIZED") ? 600 : 110); /* a FIFO must not be waited for */
    memset(root + strlen(root) - 6, 'X', 6);
    return !mkdtemp(root) || tri__path_join(run, root, "run") || tri__path_join(victim, root, "victim") ||
           tri__folder_make(run) || tri__folder_make(victim);
}

static int remove_all(void **state) {
    (void)state;
    return tri__folder_remove_all(root);
}

static const char *in(const char *folder, const char *name) {
    static char path[4][TRI_PATH_MAX];
    static int turn;
    char *out = path[turn++ % 4];
    assert_int_equal(tri__path_join(out, folder, name), TRI_OK);
    return out;
}

static void put(const char *path, const char *text) {
    assert_int_equal(tri__file_write(path, text, strlen(text)), TRI_OK);
}

static void expect_content(const char *path, const char *want) {
    char *text;
    size_t size;
    if (tri__file_read(path, 1 << 20, &text, &size) != TRI_OK) fail_msg("%s: %s", path, tri_error());
    assert_string_equal(text, want);
    free(text);
}

static void expect_failure(tri_status got, tri_status want, const char *word) {
    if (got != want || !strstr(tri_error(), word))
        fail_msg("status %d \"%s\", expected %d \"%s\"", got, tri_error(), want, word);
}

/* A small checkpoint; began: of its state. */
static void save_in(const char *folder, int64_t step, int64_t sequence, double began) {
    static float data[300];
    for (int i = 0; i < 300; i++) data[i] = (float)step;
    tri_piece piece = {.name = "w", .dtype = TRI_F32, .shape = tri__shape_1d(300), .data = data};
    piece.slice = tri__slice_whole(&piece.shape);
    tri_json *config = tri__json_pack("{s:i}", "lr", 1), *kept = tri__json_pack("{s:f}", "began", began);
    tri_checkpoint_out out = {.folder = folder, .step = step, .sequence = sequence, .weights = &piece, .n_weights = 1,
                              .config = config, .preprocessing = config, .state = kept};
    if (save_checkpoint(&out) != TRI_OK) fail_msg("step %d: %s", (int)step, tri_error());
    tri__json_decref(config);
    tri__json_decref(kept);
}

static int is_valid(const char *folder, int64_t step) {
    char path[TRI_PATH_MAX];
    tri_checkpoint *checkpoint;
    assert_int_equal(tri__checkpoint_name(path, folder, step, ""), TRI_OK);
    tri_status status = tri__checkpoint_open_part(path, 0, 1, &checkpoint);
    tri__checkpoint_close(checkpoint);
    return status == TRI_OK;
}

static int names_with(const char *folder, const char *part) {
    tri_names names;
    int n = 0;
    assert_int_equal(tri__folder_list(folder, &names), TRI_OK);
    for (int i = 0; i < names.n; i++) n += strstr(names.name[i], part) != NULL;
    tri__names_free(&names);
    return n;
}

static void wipe(void) { assert_int_equal(tri__checkpoint_prune(run, 0, INT64_MAX), TRI_OK); }

/* ---- links and pipes ---- */

TEST(removal_does_not_follow_links) {
    put(in(victim, "precious"), "kept");
    assert_int_equal(symlink("../victim", in(run, "checkpoint-9.tmp.1")), 0);
    assert_int_equal(tri__folder_make(in(run, "checkpoint-8.tmp.1/inner")), TRI_OK);
    put(in(run, "checkpoint-8.tmp.1/inner/file"), "goes");
    assert_int_equal(symlink("../../victim", in(run, "checkpoint-8.tmp.1/link")), 0);
    assert_int_equal(symlink("../../../victim", in(run, "checkpoint-8.tmp.1/inner/link")), 0);
    assert_int_equal(symlink("../victim/precious", in(run, "x.json.tmp-1-0")), 0);
    assert_int_equal(tri__checkpoint_sweep(run), TRI_OK);
    assert_int_equal(names_with(run, ""), 0);
    expect_content(in(victim, "precious"), "kept");
    put(in(run, "report.html.tmp-1-0"), "another process is writing it");
    assert_int_equal(tri__checkpoint_prune(run, 1, INT64_MAX), TRI_OK);
    assert_int_equal(names_with(run, "report"), 1);
    assert_int_equal(tri__checkpoint_sweep(run), TRI_OK);
    assert_int_equal(names_with(run, ""), 0);
}

/* prune, and a run that was begun anew. */
TEST(a_linked_checkpoint_stays_where_it_is) {
    for (int anew = 0; anew < 2; anew++) {
        char elsewhere[TRI_PATH_MAX];
        memcpy(elsewhere, in(root, "elsewhere"), sizeof elsewhere);
        assert_int_equal(tri__folder_make(elsewhere), TRI_OK);
        save_in(elsewhere, 50, 1, 0);
        assert_int_equal(symlink("../elsewhere/checkpoint-50", in(run, "checkpoint-50")), 0);
        assert_true(is_valid(run, 50));
        save_in(run, anew ? 4 : 60, 2, 0);
        assert_int_equal(tri__checkpoint_prune(run, 1, anew ? 4 : INT64_MAX), TRI_OK);
        assert_int_equal(names_with(run, ""), 1);
        assert_true(is_valid(elsewhere, 50));
        wipe();
        assert_int_equal(tri__folder_remove_all(elsewhere), TRI_OK);
    }
}

TEST(own_files_are_regular) {
    static const tri_own_way ways[] = {TRI_OWN_FRESH, TRI_OWN_APPEND, TRI_OWN_UPDATE};
    int fd;
    put(in(victim, "log"), "kept");
    assert_int_equal(symlink("../victim/log", in(run, "link")), 0);
    assert_int_equal(symlink("../victim/none", in(run, "dangling")), 0);
    assert_int_equal(mkfifo(in(run, "pipe"), 0600), 0);
    for (int i = 0; i < 3; i++) {
        expect_failure(tri__file_own(in(run, "link"), ways[i], &fd), TRI_IO, "a symbolic link");
        expect_failure(tri__file_own(in(run, "dangling"), ways[i], &fd), TRI_IO, "a symbolic link");
        expect_failure(tri__file_own(in(run, "pipe"), ways[i], &fd), TRI_IO, "a pipe");
    }
    expect_failure(tri__file_write(in(run, "link"), "x", 1), TRI_IO, "a symbolic link");
    expect_failure(tri__file_write(in(run, "pipe"), "x", 1), TRI_IO, "a pipe");
    expect_content(in(victim, "log"), "kept");
    assert_false(tri__is_file(in(victim, "none")));
    for (int kind = 0; kind < 2; kind++) {
        assert_int_equal(kind ? mkfifo(in(run, ".probe-0"), 0600) : symlink("../victim/log", in(run, ".probe-0")), 0);
        expect_failure(tri__folder_probe(run, 0), TRI_IO, ".probe-0");
        expect_content(in(victim, "log"), "kept");
        assert_int_equal(tri__file_remove(in(run, ".probe-0")), 0);
    }
    assert_int_equal(tri__folder_probe(run, 0), TRI_OK);
    /* The folder itself may be a link. */
    assert_int_equal(symlink("run", in(root, "alias")), 0);
    put(in(root, "alias/plain"), "there");
    expect_content(in(run, "plain"), "there");
    assert_int_equal(tri__folder_probe(in(root, "alias"), 1), TRI_OK);
    assert_int_equal(tri__folder_remove_all(run), TRI_OK);
    assert_int_equal(tri__folder_make(run), TRI_OK);
}

/* A copy by hard links (cp -al) keeps its content when the run begins its file again. */
TEST(other_names_keep_their_content) {
    int fd;
    put(in(run, "metrics"), "old");
    assert_int_equal(link(in(run, "metrics"), in(victim, "copy")), 0);
    assert_int_equal(tri__file_own(in(run, "metrics"), TRI_OWN_FRESH, &fd), TRI_OK);
    assert_int_equal(tri__write_all(fd, "new", 3, "metrics"), TRI_OK);
    close(fd);
    expect_content(in(run, "metrics"), "new");
    expect_content(in(victim, "copy"), "old");
    assert_int_equal(tri__file_remove(in(run, "metrics")), 0);
}

TEST(users_name_what_they_like) {
    char line[8] = "", name[64];
    assert_int_equal(mkfifo(in(run, "pipe"), 0600), 0);
    expect_failure(tri__file_deliver(in(run, "pipe"), "x", 1, 0), TRI_IO, "nobody reads it");
    int reader = open(in(run, "pipe"), O_RDONLY | O_NONBLOCK);
    assert_int_equal(tri__file_deliver(in(run, "pipe"), "rows", 4, 0), TRI_OK);
    assert_int_equal(read(reader, line, sizeof line), 4);
    assert_string_equal(line, "rows");
    close(reader);
    assert_int_equal(tri__file_deliver("/dev/null", "x", 1, 0), TRI_OK);
    expect_failure(tri__file_deliver("/dev/full", "x", 1, 0), TRI_IO, "No space");
    expect_failure(tri__file_deliver(run, "x", 1, 0), TRI_IO, "a folder");
    /* As /dev/stdout with `>> file`: the descriptor's file, behind what is there; the name in /dev stays what it is. */
    put(in(run, "out"), "head,");
    int fd = open(in(run, "out"), O_WRONLY);
    snprintf(name, sizeof name, "/dev/fd/%d", fd);
    assert_int_equal(tri__file_deliver(name, "rows", 4, 0), TRI_OK);
    close(fd);
    expect_content(in(run, "out"), "head,rows");
    /* A file that exists, or comes while the output is written, is replaced only if that was asked for. */
    tri_delivery d;
    expect_failure(tri__file_deliver(in(run, "out"), "x", 1, 0), TRI_BUSY, "--force");
    assert_int_equal(tri__file_remove(in(run, "out")), 0);
    assert_int_equal(tri__delivery_begin(&d, in(run, "out"), 0), TRI_OK);
    put(in(run, "out"), "came");
    expect_failure(tri__delivery_end(&d, tri__write_all(d.fd, "x", 1, d.path)), TRI_BUSY, "exists already");
    expect_content(in(run, "out"), "came");
    expect_failure(tri__file_open(d.made, &fd, &(size_t){0}), TRI_NOINPUT, d.made);
    assert_int_equal(tri__file_deliver(in(run, "out"), "new", 3, 1), TRI_OK);
    expect_content(in(run, "out"), "new");
    assert_int_equal(tri__file_remove(in(run, "out")), 0);
    assert_int_equal(tri__file_remove(in(run, "pipe")), 0);
}

/* ---- valid, damaged, unknown ---- */

enum { HAVE = 6, KEEP = 3 };

static void fill(void) {
    for (int i = 1; i <= HAVE; i++)
        if (!is_valid(run, 10 * i)) save_in(run, 10 * i, i, 0);
}

static void expect_newest(const char *what) {
    for (int i = HAVE - KEEP + 1; i <= HAVE; i++)
        if (!is_valid(run, 10 * i)) fail_msg("%s: checkpoint-%d is gone: %s", what, 10 * i, tri_error());
}

/* One failing call at any place of a prune: what must stay stays, and without an error nothing else does. */
TEST(errors_are_not_damage) {
    static const int causes[] = {EIO, EMFILE, ENFILE, ENOMEM, ESTALE, EACCES, EINTR};
    int calls = 0, failed = 0;
    fill();
    fault_arm(0, FAULT_NONE);
    assert_int_equal(tri__checkpoint_prune(run, KEEP, INT64_MAX), TRI_OK);
    fault_disarm();
    calls = atomic_load(&fault.count);
    assert_true(calls > 50);
    for (int at = 1; at <= calls; at++) {
        char what[96];
        fill();
        fault.cause = causes[at % 7];
        fault_arm(at, FAULT_CAUSE);
        tri_status status = tri__checkpoint_prune(run, KEEP, INT64_MAX);
        fault_disarm();
        snprintf(what, sizeof what, "call %d (%s) with %s", at, fault.hit, strerror(fault.cause));
        expect_newest(what);
        failed += status != TRI_OK;
        if (status == TRI_OK && names_with(run, "checkpoint-") != KEEP) fail_msg("%s: thought to be done", what);
        if (status == TRI_OK) continue;
        int short_of = fault.cause == EMFILE || fault.cause == ENFILE || fault.cause == ENOMEM;
        tri_status want = short_of ? TRI_RESOURCE : TRI_IO;
        if (status != want) fail_msg("%s: status %d, expected %d: %s", what, status, want, tri_error());
    }
    print_message("    %d calls, %d of them ended the prune\n", calls, failed);
    assert_true(failed > calls / 3);
    wipe();
}

/* The same while the newest is looked for: it is found, or the error is told; never an older one, never "none". */
TEST(errors_pass_nothing_over) {
    static const int causes[] = {EIO, EMFILE, ENOMEM, ESTALE, EACCES};
    fill();
    for (int at = 1, calls = 1000; at <= calls; at++) {
        tri_checkpoint *checkpoint;
        tri_json *manifest;
        char folder[TRI_PATH_MAX];
        fault.cause = causes[at % 5];
        for (int glance = 0; glance < 2; glance++) {
            fault_arm(at, FAULT_CAUSE);
            tri_status status =
                glance ? tri__checkpoint_glance(run, folder, &manifest) : tri__checkpoint_open(run, 0, &checkpoint);
            fault_disarm();
            if (!fault.hit && !glance) calls = 0; /* that was the last */
            if (status == TRI_OK && !glance) {
                assert_int_equal(tri__checkpoint_step(checkpoint), 10 * HAVE);
                tri__checkpoint_close(checkpoint);
            } else if (status == TRI_OK) {
                assert_int_equal(tri__json_integer_value(tri__json_get(manifest, "step")), 10 * HAVE);
                tri__json_decref(manifest);
            } else if (status != TRI_IO && status != TRI_RESOURCE) {
                fail_msg("call %d (%s) with %s: %d: %s", at, fault.hit, strerror(fault.cause), status, tri_error());
            }
        }
    }
    wipe();
}

/* Without any fault of ours: no descriptor is left. */
TEST(no_descriptors) {
    struct rlimit limit, none;
    fill();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (rlim_t n = 3; n < 12; n++) {
        none = (struct rlimit){n, limit.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        tri_status status = tri__checkpoint_prune(run, KEEP, INT64_MAX);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        expect_newest("no descriptors");
        if (status == TRI_OK) break;
        assert_int_equal(status, TRI_RESOURCE);
        assert_int_equal(names_with(run, "checkpoint-"), HAVE);
    }
    wipe();
}

static void flip_last_byte(const char *path) {
    int fd = open(path, O_RDWR);
    char byte;
    assert_true(fd >= 0);
    off_t end = lseek(fd, 0, SEEK_END) - 1;
    assert_int_equal(pread(fd, &byte, 1, end), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, end), 1);
    close(fd);
}

/* A wrong hash in a file of the right size counts as well: KEEP valid ones stay, and the damaged one goes. */
TEST(damaged_ones_do_not_count) {
    fill();
    flip_last_byte(in(run, "checkpoint-50/weights-00000.safetensors"));
    assert_int_equal(tri__checkpoint_prune(run, KEEP, INT64_MAX), TRI_OK);
    assert_int_equal(names_with(run, "checkpoint-"), KEEP);
    assert_true(is_valid(run, 60) && is_valid(run, 40) && is_valid(run, 30));
    /* None of what the run has saved is valid: those of another run stay. */
    flip_last_byte(in(run, "checkpoint-30/weights-00000.safetensors"));
    assert_int_equal(tri__checkpoint_prune(run, KEEP, 35), TRI_OK);
    assert_true(is_valid(run, 60) && is_valid(run, 40));
    assert_int_equal(names_with(run, "checkpoint-"), 2);
    wipe();
}

/* Another build's manifest, whose checksum is right, is not damage. */
TEST(another_version_is_not_damage) {
    tri_checkpoint *checkpoint;
    tri_json *manifest;
    fill();
    assert_int_equal(tri__manifest_load(in(run, "checkpoint-60"), &manifest), TRI_OK);
    assert_int_equal(tri__json_set_new(manifest, "version", tri__json_integer(99)), 0);
    char *text = tri__manifest_text(manifest);
    put(in(run, "checkpoint-60/manifest.json"), text);
    free(text);
    tri__json_decref(manifest);
    expect_failure(tri__checkpoint_prune(run, KEEP, INT64_MAX), TRI_USAGE, "version 99");
    assert_int_equal(names_with(run, "checkpoint-"), HAVE);
    expect_failure(tri__checkpoint_open(run, 0, &checkpoint), TRI_USAGE, "version 99");
    assert_int_equal(tri__folder_remove_all(in(run, "checkpoint-60")), TRI_OK);
    wipe();
}

/* ---- the order ---- */

static void expect_order(const int64_t *want, int n) {
    int64_t *steps;
    int got;
    assert_int_equal(tri__checkpoint_steps(run, &steps, &got), TRI_OK);
    assert_int_equal(got, n);
    for (int i = 0; i < n; i++) assert_int_equal(steps[i], want[i]);
    free(steps);
}

TEST(the_last_saved_is_the_newest) {
    int64_t last = -1;
    save_in(run, 10, 0, 500); /* an older build's: by the clock, then by the step */
    save_in(run, 20, 0, 500);
    save_in(run, 5, 0, 600);
    expect_order((int64_t[]){5, 20, 10}, 3);
    assert_int_equal(tri__checkpoint_sequence(run, &last), TRI_OK);
    assert_int_equal(last, 0);
    save_in(run, 30, 1, 100); /* the clock went back: newer all the same */
    save_in(run, 4, 2, 50);
    expect_order((int64_t[]){4, 30, 5, 20, 10}, 5);
    assert_int_equal(tri__checkpoint_sequence(run, &last), TRI_OK);
    assert_int_equal(last, 2);
    assert_int_equal(tri__checkpoint_prune(run, 2, INT64_MAX), TRI_OK);
    expect_order((int64_t[]){4, 30}, 2);
    wipe();
    /* What only has such a name is no checkpoint. */
    put(in(run, "checkpoint-7"), "a user's file");
    assert_int_equal(tri__checkpoint_prune(run, 1, INT64_MAX), TRI_OK);
    expect_content(in(run, "checkpoint-7"), "a user's file");
    expect_order(NULL, 0);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_all, remove_all); }
