/* test_parallel.c - every sharding strategy, on ranks that are threads, against one rank: the same losses and weights,
 * the same bits when repeated, and the same bits as plain replicas wherever sums have the same order; every rank uses
 * exactly its planned memory, and allocates nothing after the first step. `make test` runs a sample; SOAK_STEPS=100:
 * all cases, 100 steps. */
#include "tests/lib/test.h"
#include "tests/lib/allocations.h"
#include "tests/lib/session_runs.h"
#include "tests/lib/soak.h"

enum { NONE, ZERO1, ZERO2, ZERO3, HYBRID, KINDS };
static const char *const shard_option[] = {"--shard=none", "--shard=zero1", "--shard=zero2", "--shard=zero3",
                                           "--shard=hybrid"};
static const int worlds[] = {2, 3, 4, 8}, microbatches[] = {1, 4};

enum { EPOCH = 4 }; /* steps */

typedef struct cell {
    int ranks, n_mb, kind, full; /* full: recomputation */
} cell;

static int steps;
static int whole; /* the whole matrix */

/* Ranks of a copy in hybrid sharding: copies of one, three, two and two ranks in worlds of 2, 3, 4 and 8. */
static const char *shard_size(int ranks) {
    return ranks == 2 ? "--shard-size=1" : ranks == 3 ? "--shard-size=3" : "--shard-size=2";
}

static long allocated(void) { return allocations; }

/* Batches of 32: 32, 32, 32 and the last of an epoch of 5, which leaves ranks and microbatches without a sample. */
static run *run_cell(cell c) {
    run what = {
        .ranks = c.ranks, .steps = steps, .allocated = allocated, .canary = 1, .option = {"--global-batch-size=32"}};
    int n = 1;
    what.option[n++] = c.n_mb == 1 ? "--num-microbatches=1" : "--num-microbatches=4";
    what.option[n++] = shard_option[c.kind];
    what.option[n++] = c.full ? "--recompute=full" : "--recompute=none";
    if (c.kind == HYBRID) what.option[n++] = shard_size(c.ranks);
    return run_on(&what);
}

/* A sample: each kind in some world with either count of microbatches. */
static int chosen(cell c) {
    static const cell some[] = {{2, 1, ZERO1, 0},  {2, 1, ZERO3, 1}, {3, 4, ZERO2, 0}, {3, 4, ZERO3, 1},
                                {4, 1, HYBRID, 0}, {4, 1, ZERO2, 1}, {8, 4, ZERO3, 0}};
    if (whole) return 1;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        if (memcmp(&some[i], &c, sizeof c) == 0) return 1;
    return 0;
}

/* Where the plan takes the sums of plain replicas: recomputation changes none; ZeRO-1 reduces as they do; ZeRO-2 and 3
 * reduce each microbatch, which is the same when there is one. */
static int same_sums(cell c) {
    return c.kind == NONE || c.kind == ZERO1 || ((c.kind == ZERO2 || c.kind == ZERO3) && c.n_mb == 1);
}

typedef struct tally {
    int cases, bitwise;
    double worst; /* share of the limit of losses */
} tally;

static void check_cell(const run *one, const run *plain, const run *kept, cell c, tally *t) {
    char what[96];
    snprintf(what, sizeof what, "%d ranks, %d microbatches, %s%s", c.ranks, c.n_mb, shard_option[c.kind] + 2,
             c.full ? ", recomputed" : "");
    run *have = run_cell(c), *again = run_cell(c);
    t->worst = fmax(t->worst, expect_close(one, have, what));
    expect_same_bits(have, again, what);
    if (same_sums(c)) expect_same_bits(plain, have, what), t->bitwise++;
    if (kept) expect_same_bits(kept, have, what), t->bitwise++;
    t->cases++;
    run_free(have);
    run_free(again);
}

/* All kinds in one world. kept: what recomputation is compared with. */
static void check_world(const run *one, int ranks, int n_mb, tally *t) {
    run *plain = NULL;
    for (int kind = 0; kind < KINDS; kind++) {
        int any = chosen((cell){ranks, n_mb, kind, 0}) || chosen((cell){ranks, n_mb, kind, 1});
        if (!any) continue;
        if (!plain) plain = run_cell((cell){ranks, n_mb, NONE, 0});
        run *kept = chosen((cell){ranks, n_mb, kind, 1}) ? run_cell((cell){ranks, n_mb, kind, 0}) : NULL;
        for (int full = 0; full < 2; full++)
            if (chosen((cell){ranks, n_mb, kind, full}))
                check_cell(one, plain, full ? kept : NULL, (cell){ranks, n_mb, kind, full}, t);
        run_free(kept);
    }
    run_free(plain);
}

TEST(sharing_changes_no_result) {
    tally t = {0};
    run *one = run_on(&(run){.steps = steps, .option = {"--global-batch-size=32"}});
    double learned = 0;
    for (int k = 0; k < EPOCH; k++) learned += one->loss[0][k] - one->loss[0][steps - 1 - k];
    assert_true(learned > 0);
    for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++)
        for (size_t m = 0; m < sizeof microbatches / sizeof *microbatches; m++)
            check_world(one, worlds[w], microbatches[m], &t);
    print_message("    %d cases of %d, %d steps: losses differ by at most %.2f of the limit; %d comparisons to the bit "
                  "beside those of two "
                  "runs\n",
                  t.cases,
                  (int)(KINDS * 2 * sizeof worlds / sizeof *worlds * sizeof microbatches / sizeof *microbatches), steps,
                  t.worst, t.bitwise);
    if (whole) assert_int_equal(t.cases, 80);
    run_free(one);
}

int main(int argc, char **argv) {
    steps = soak_steps(9, RUN_STEPS, &whole);
    return run_listed(argc, argv, make_data, remove_data);
}
