/* test_commit.c - the crash matrix: three ranks save a checkpoint, and one system call of one rank fails, is cut short,
 * or kills it. In every case there is exactly one newest state afterwards, the complete old one or the complete new
 * one, and the next save succeeds. */
#include "tests/lib/test.h"
#include "tests/lib/faults.h"

#include "train/state/saver.h"

#include "tests/lib/soak.h"

#include <dirent.h>
#include <sys/mman.h>

enum { RANKS = 3, EACH = 1000, LINES = 40, CALLS_MAX = 400 };

/* In memory: a disk would bring every one of some thousand saves to its plates. (Other tests count names with "trident"
 * there.) */
static char folder[] = "/dev/shm/tri-commit-??????";

/* What ranks tell the test, in memory that forks share. */
typedef struct told {
    int calls[RANKS];              /* system calls of the save */
    tri_save_result result[RANKS];
    char hit[32];                  /* the call that was hit */
} told;
static told *shared;

typedef struct job {
    int64_t step;
    int background, rank, at;      /* the call of that rank that is hit; at 0: none */
    fault_kind kind;
} job;

static tri_status extras(void *context, const char *into) {
    char path[TRI_PATH_MAX];
    (void)context;
    TRI_TRY(tri__path_join(path, into, "primary"));
    TRI_TRY(tri__folder_make(path));
    TRI_TRY(tri__path_join(path, into, "primary/vocab.txt"));
    return tri__file_write(path, "[PAD]\n", 6);
}

/* Rank r owns elements [EACH r, EACH (r + 1)) of one tensor of each file. */
static tri_piece piece_of(const char *name, int rank, float *data) {
    tri_piece piece = {.name = name, .dtype = TRI_F32, .shape = tri__shape_1d(RANKS * EACH), .data = data};
    piece.slice = tri__slice_whole(&piece.shape);
    piece.slice.begin = rank * EACH, piece.slice.end = (rank + 1) * EACH;
    return piece;
}

/* data: [EACH] what is saved; in the background it may change at once. */
static tri_status save(tri_world *world, const job *job, tri_saver *saver, float *data, tri_saved *saved) {
    tri_save_spec spec = {.keep = 1,
                          .best = 1,
                          .out = {.folder = folder,
                                  .step = job->step,
                                  .config = tri__json_pack("{s:i}", "lr", 1),
                                  .preprocessing = tri__json_pack("{s:i}", "columns", 0),
                                  .state = tri__json_pack("{s:I}", "samples", (tri_json_int)job->step),
                                  .extras = extras}};
    TRI_TRY(tri__saver_begin(saver, &spec));
    for (int i = 0; i < EACH && job->background; i++) data[i] = -1;
    do {
        TRI_TRY(tri__saver_advance(saver, !job->background, saved));
        if (saved->result == TRI_SAVE_PENDING) usleep(200);
    } while (saved->result == TRI_SAVE_PENDING);
    return tri__world_check(world);
}

static tri_status rank_main(tri_world *world, void *context) {
    const job *job = context;
    int rank = tri_world_rank(world);
    float data[EACH];
    for (int i = 0; i < EACH; i++) data[i] = (float)job->step;
    tri_piece weight = piece_of("w", rank, data), moment = piece_of("exp_avg.w", rank, data);
    tri_saver *saver;
    tri_saved saved = {0};
    const tri_memory_pieces pieces = {.weights = &weight, .optimizer = &moment, .n_weights = 1, .n_optimizer = 1};
    TRI_TRY(tri__saver_open(world, &pieces, job->background, &saver));
    fault_arm(job->rank == rank ? job->at : 0, job->kind);
    tri_status status = save(world, job, saver, data, &saved);
    shared->result[rank] = saved.result;
    tri__saver_close(saver); /* older checkpoints are removed until then */
    fault_disarm();
    shared->calls[rank] = atomic_load(&fault.count);
    if (fault.hit) snprintf(shared->hit, sizeof shared->hit, "%s", fault.hit);
    return status;
}

static tri_status run(const job *job) {
    tri_ranks how = {.n = RANKS, .forks = 1, .heap_bytes = 1 << 20, .progress_timeout = 60};
    *shared = (told){0};
    return tri_ranks_run(&how, rank_main, (void *)job);
}

/* The step of the newest checkpoint, all of whose elements are that step's. */
static int64_t newest(void) {
    static float data[RANKS * EACH];
    tri_checkpoint *checkpoint;
    if (tri__checkpoint_open(folder, 0, &checkpoint) != TRI_OK) return -1;
    int64_t step = tri__checkpoint_step(checkpoint);
    tri_piece whole = {.name = "w", .dtype = TRI_F32, .shape = tri__shape_1d(RANKS * EACH), .data = data};
    whole.slice = tri__slice_whole(&whole.shape);
    int good = tri__checkpoint_read(checkpoint, &whole) == TRI_OK;
    for (int i = 0; i < RANKS * EACH; i++) good &= data[i] == (float)step;
    tri__checkpoint_close(checkpoint);
    return good ? step : -2;
}

static int temporary_folders(void) {
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));) n += strstr(entry->d_name, ".tmp") != NULL;
    closedir(dir);
    return n;
}

/* One fault of one call; the folder holds the state of step 1 before. */
static void hit(const job *job) {
    char what[160];
    struct job clean = {.step = 1};
    assert_int_equal(tri__checkpoint_prune(folder, 0, 0), TRI_OK);
    assert_int_equal(run(&clean), TRI_OK);
    assert_int_equal(newest(), 1);
    tri_status status = run(job);
    int64_t now = newest();
    int died = status == 128 + SIGKILL, left = temporary_folders();
    snprintf(what, sizeof what, "%s of call %d (%s) of rank %d%s", fault_names[job->kind], job->at, shared->hit,
             job->rank, job->background ? ", in the background" : "");
    if (now != 1 && now != 2) fail_msg("%s: the newest state is %lld", what, (long long)now);
    if (job->kind == FAULT_KILL) {
        if (!died) fail_msg("%s: nobody died: %d %s", what, status, tri_error());
    } else {
        if (status != TRI_OK) fail_msg("%s: the ranks end with %d: %s", what, status, tri_error());
        tri_save_result result = shared->result[0];
        for (int r = 1; r < RANKS; r++)
            if (shared->result[r] != result) fail_msg("%s: rank %d sees another end", what, r);
        if (job->kind == FAULT_SHORT && result != TRI_SAVE_DONE) fail_msg("%s: not saved", what);
        int decisive = !strcmp(shared->hit, "write") || !strcmp(shared->hit, "fsync");
        if (job->kind != FAULT_SHORT && job->rank > 0 && decisive && result != TRI_SAVE_FAILED)
            fail_msg("%s: believed all the same", what);
        if (now == 1 && result != TRI_SAVE_FAILED) fail_msg("%s: said to be saved, and is not", what);
        if (result == TRI_SAVE_FAILED && left && strncmp(shared->hit, "unlink", 6) && strcmp(shared->hit, "rmdir"))
            fail_msg("%s: %d temporary folders stay", what, left);
    }
    struct job next = {.step = 3};
    if (run(&next) != TRI_OK || newest() != 3) fail_msg("%s: the next save fails: %s", what, tri_error());
    if (temporary_folders()) fail_msg("%s: a temporary folder outlives the next save", what);
}

static int calls_of(int rank, int background) {
    struct job clean = {.step = 1, .background = background};
    assert_int_equal(run(&clean), TRI_OK);
    return shared->calls[rank];
}

/* every: of the calls, how many are passed over. */
static void matrix(int background, int every) {
    int cases = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        int calls = calls_of(rank, background);
        assert_in_range(calls, 5, CALLS_MAX);
        print_message("    rank %d: %d calls\n", rank, calls);
        for (int kind = FAULT_KILL; kind < FAULT_KINDS; kind++)
            for (int at = 1 + (rank + kind) % every; at <= calls; at += every, cases++)
                hit(&(job){.step = 2, .background = background, .rank = rank, .at = at, .kind = (fault_kind)kind});
    }
    print_message("    %d faults: one newest state each time\n", cases);
}

TEST(every_call_may_fail) {
    matrix(0, soak_count("SOAK_CALLS", 0) ? 1 : 4);
}

TEST(in_the_background_too) {
    matrix(1, soak_count("SOAK_CALLS", 0) ? 1 : 11);
}

static int make_shared(void **state) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)state;
    memset(folder + strlen(folder) - 6, 'X', 6);
    return shared != MAP_FAILED && mkdtemp(folder) ? 0 : -1;
}

static int remove_all(void **state) {
    char path[TRI_PATH_MAX];
    if (tri__checkpoint_prune(folder, 0, 0) != TRI_OK || tri__path_join(path, folder, "best_checkpoint.json") != TRI_OK)
        return -1;
    (void)state;
    unlink(path);
    return tri__folder_remove(folder) == TRI_OK ? 0 : -1;
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_shared, remove_all); }
