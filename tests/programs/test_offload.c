/* test_offload.c - memory classes in a file, which kernels access directly or through copies: bitwise the same numbers,
 * no leftover files, and the plan reports the size. */
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

#include "program/text.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEPS = 4, MAX_RANKS = 2, HEAP = 4 << 20 };

#define CLASS(name) (1u << TRI_MEM_##name)

typedef struct job {
    int n;                  /* ranks */
    tri_shard_kind kind;
    unsigned offload;
    const char *folder;
    tiny rank[MAX_RANKS];
    double loss[MAX_RANKS][STEPS];
    uint64_t weights[MAX_RANKS];
    int mapped[MAX_RANKS];  /* classes that the system says are mapped from a file */
} job;

static int files_in(const char *folder) {
    DIR *at = opendir(folder);
    int n = 0;
    assert_non_null(at);
    for (struct dirent *entry; (entry = readdir(at));) n += entry->d_name[0] != '.';
    closedir(at);
    return n;
}

/* Whether an address lies in memory that a file backs. */
static int in_file(const void *memory) {
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long begin, end, inode;
    int found = 0;
    char line[512];
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &begin, &end, &inode) == 3 && begin <= (unsigned long)memory &&
            (unsigned long)memory < end)
            found = inode != 0;
    if (maps) fclose(maps);
    return found;
}

/* Runs in the rank's own thread, where nothing may be asserted. */
static tri_status rank_main(tri_world *world, void *argument) {
    job *j = argument;
    int rank = world ? tri_world_rank(world) : 0;
    tiny *t = &j->rank[rank];
    tri_exec *exec;
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = t->program, .n = 2, .seed = 7,
                                            .world = world, .folder = j->folder}, &exec));
    tiny_init(t, exec);
    tri_status status = TRI_OK;
    for (int step = 0; step < STEPS && status == TRI_OK; step++) {
        status = tri__exec_run(exec, 0, 0, t->program[0]->n_instrs, (uint32_t)step + 1, t->feed, NULL);
        j->loss[rank][step] = tiny_loss(t, exec);
    }
    int64_t bytes;
    const unsigned char *weights = tri__exec_memory(exec, TRI_MEM_PARAM, &bytes);
    j->weights[rank] = 14695981039346656037u; /* FNV-1a */
    for (int64_t i = 0; i < bytes; i++) j->weights[rank] = (j->weights[rank] ^ weights[i]) * 1099511628211u;
    for (int mem = 0; mem < TRI_MEM_COUNT && !world; mem++)
        if (in_file(tri__exec_memory(exec, (tri_mem)mem, &bytes))) j->mapped[rank] |= 1 << mem;
    tri__exec_close(exec);
    return status;
}

/* ahead: as if kernels did not reach offload memory: bytes copied ahead of their use; 0: they do. */
static job *run(int dp, int pp, tri_shard_kind kind, unsigned offload, int64_t ahead, const char *folder) {
    job *j = calloc(1, sizeof *j);
    const tri_program *train[MAX_RANKS];
    assert_non_null(j);
    j->n = dp * pp, j->kind = kind, j->offload = offload, j->folder = folder;
    for (int r = 0; r < j->n; r++) {
        tiny *t = &j->rank[r];
        tiny_open_rank(t, "cpu", 2, 3, 0.1, 2,
                       &(tiny_rank){.dp = dp, .pp = pp, .rank = r, .sharding = {.kind = kind, .prefetch = 1}});
        t->in.offload = offload, t->target.ahead = ahead;
        OK(tri__plan(&t->arena, &t->in, 1, &t->plan));
        train[r] = t->program[0] = t->plan.train.program, t->program[1] = t->plan.infer.program;
    }
    OK(tri__check(train, j->n));
    if (j->n == 1) OK(rank_main(NULL, j));
    else OK(tri_ranks_run(&(tri_ranks){.n = j->n, .heap_bytes = HEAP}, rank_main, j));
    return j;
}

static void done(job *j) {
    for (int r = 0; r < j->n; r++) tiny_close(&j->rank[r]);
    free(j);
}

static void make_folder(char *folder) {
    strcpy(folder, "/tmp/trident-offload-??????");
    memset(folder + strlen(folder) - 6, 'X', 6);
    assert_non_null(mkdtemp(folder));
}

TEST(same_bits_from_a_file) {
    static const unsigned sets[] = {CLASS(STATE), CLASS(GRAD), CLASS(PARAM), CLASS(ACT),
                                    CLASS(STATE) | CLASS(GRAD) | CLASS(PARAM) | CLASS(ACT)};
    char folder[64];
    make_folder(folder);
    job *kept = run(1, 1, TRI_SHARD_NONE, 0, 0, NULL);
    assert_int_equal(kept->mapped[0], 0);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        job *moved = run(1, 1, TRI_SHARD_NONE, sets[i], 0, folder);
        assert_memory_equal(moved->loss, kept->loss, sizeof kept->loss);
        assert_true(moved->weights[0] == kept->weights[0]);
        assert_int_equal(moved->mapped[0], sets[i]);
        assert_int_equal(files_in(folder), 0);
        done(moved);
    }
    done(kept);
    rmdir(folder);
}

/* Transfers of classes that lie in a file are copied; their sums are the same. So they are of what is copied to staging
 * memory first. */
TEST(same_bits_on_ranks) {
    static const tri_shard_kind kinds[] = {TRI_SHARD_NONE, TRI_SHARD_ZERO1, TRI_SHARD_ZERO2, TRI_SHARD_ZERO3};
    char folder[64];
    make_folder(folder);
    for (int i = 0; i < 4; i++) {
        job *kept = run(2, 1, kinds[i], 0, 0, NULL);
        for (int64_t ahead = 0; ahead <= 2048; ahead += 2048) {
            job *moved = run(2, 1, kinds[i], CLASS(STATE) | CLASS(GRAD) | CLASS(PARAM) | CLASS(ACT), ahead, folder);
            assert_memory_equal(moved->loss, kept->loss, sizeof kept->loss);
            assert_memory_equal(moved->weights, kept->weights, sizeof kept->weights);
            done(moved);
        }
        done(kept);
    }
    assert_int_equal(files_in(folder), 0);
    rmdir(folder);
}

/* What stages hand each other passes through staging memory too. */
TEST(same_bits_in_a_pipeline) {
    char folder[64];
    make_folder(folder);
    job *kept = run(1, 2, TRI_SHARD_NONE, 0, 0, NULL),
        *moved = run(1, 2, TRI_SHARD_NONE, CLASS(STATE) | CLASS(GRAD) | CLASS(PARAM) | CLASS(ACT), 1024, folder);
    assert_memory_equal(moved->loss, kept->loss, sizeof kept->loss);
    assert_memory_equal(moved->weights, kept->weights, sizeof kept->weights);
    done(kept);
    done(moved);
    rmdir(folder);
}

TEST(plan_accounts_for_it) {
    tiny t;
    tiny_open(&t, "cpu", 2, 3, 0.1, 2);
    assert_int_equal(tri__program_offload_bytes(t.program[0]), 0);
    int64_t all = tri__program_bytes(t.program[0]);
    t.in.offload = CLASS(STATE) | CLASS(ACT);
    tiny_plan(&t);
    const tri_program *p = t.program[0];
    assert_int_equal(tri__program_bytes(p), all);
    assert_int_equal(tri__program_offload_bytes(p), p->bytes[TRI_MEM_STATE] + p->bytes[TRI_MEM_ACT]);
    char *text, *again;
    tri_program *parsed;
    OK(tri__program_text(p, &text));
    assert_non_null(strstr(text, "\noffload state\noffload act\n"));
    OK(tri__program_parse(&t.arena, "program", text, &parsed));
    assert_int_equal(parsed->offload, p->offload);
    OK(tri__program_text(parsed, &again));
    assert_string_equal(text, again);
    assert_int_equal(tri__program_parse(&t.arena, "program", "program p\noffload nowhere\n", &parsed), TRI_DATA);
    free(text);
    free(again);
    tiny_close(&t);
}

/* Staging memory is small; and the checker sees a copy that is waited for too late, or that goes nowhere. */
TEST(copies_are_checked) {
    tiny t;
    int late = 0;
    tiny_open(&t, "cpu", 2, 3, 0.1, 2);
    t.in.offload = CLASS(STATE) | CLASS(GRAD) | CLASS(PARAM) | CLASS(ACT), t.target.ahead = 1024;
    tiny_plan(&t);
    tri_program p = *t.program[0];
    const tri_program *one = &p;
    tri_instr *moved = malloc((size_t)p.n_instrs * sizeof *moved);
    assert_true(p.bytes[TRI_MEM_STAGING] > 0 && p.bytes[TRI_MEM_STAGING] < tri__program_offload_bytes(&p) / 2);
    p.instr = moved;
    for (int i = 0; i < p.n_instrs; i++) {
        const tri_instr *all = t.program[0]->instr;
        if (all[i].op != TRI_OP_copy_wait || p.slot[TRI_SLOT(&all[i], copy_wait, y)].mem != TRI_MEM_STAGING) continue;
        memcpy(moved, all, (size_t)i * sizeof *moved);
        memcpy(moved + i, all + i + 1, (size_t)(p.n_instrs - i - 1) * sizeof *moved);
        moved[p.n_instrs - 1] = all[i];
        assert_int_equal(tri__check(&one, 1), TRI_INTERNAL);
        assert_non_null(strstr(tri_error(), "is used before the transfer posted at"));
        late++;
    }
    assert_true(late > 10);
    p.instr = t.program[0]->instr;
    p.offload = 0;
    assert_int_equal(tri__check(&one, 1), TRI_INTERNAL);
    assert_non_null(strstr(tri_error(), "are in the same memory"));
    free(moved);
    tiny_close(&t);
}

TEST(no_room_is_an_error) {
    const tri_device *device = tri__device_find("cpu");
    char folder[64];
    void *memory = folder;
    make_folder(folder);
    assert_int_equal(device->alloc_offload(NULL, folder, (size_t)1 << 60, &memory), TRI_RESOURCE);
    assert_null(memory);
    assert_non_null(strstr(tri_error(), "1152921504606846976 bytes"));
    assert_non_null(strstr(tri_error(), folder));
    rmdir(folder);
    assert_int_equal(device->alloc_offload(NULL, folder, 4096, &memory), TRI_IO);
    OK(device->alloc_offload(NULL, "/tmp", 0, &memory));
    device->free(NULL, memory, 0);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
