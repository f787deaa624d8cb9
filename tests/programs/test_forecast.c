/* test_forecast.c - the arithmetic of whole runs, computed by hand. */
#include "sim/forecast.h"

#include "tests/lib/test.h"

#define SAME(got, want) assert_float_equal((got), (want), 1e-9)

static const tri_hardware machine = {.ranks_per_node = 4,
                                     .host = {.start = 2, .rank_start = 0.5, .row = 1e-3, .token = 1e-4, .step = 0.1,
                                              .row_result = 0.01, .write = 100},
                                     .peak = {[TRI_BF16] = 1000},
                                     .watts = {.idle = 100, .busy = 300}};

static const tri_run_facts run = {.step_seconds = 0.9,
                                  .busy = 0.5,
                                  .start_seconds = 1,
                                  .infer_seconds = 0.25,
                                  .ranks = 8,
                                  .dtype = TRI_BF16,
                                  .samples = 64,
                                  .tokens = 6400,
                                  .loaded_samples = 8,
                                  .loaded_tokens = 800,
                                  .flops = 4000,
                                  .steps = 100,
                                  .epoch_steps = 50,
                                  .validations = 2,
                                  .valid_batches = 10,
                                  .valid_samples = 100,
                                  .checkpoints = 2,
                                  .checkpoint_bytes = 300,
                                  .price = 36};

TEST(whole_run) {
    tri_forecast f = tri__forecast(&machine, &run);
    SAME(f.start_up, 2 + 3 * 0.5 + 1);
    SAME(f.loader, 8e-3 + 0.08);
    SAME(f.step, 1);
    SAME(f.epoch, 50);
    SAME(f.validation, 10 * 0.25 + 1);
    SAME(f.checkpoint, 3);
    SAME(f.run, 4.5 + 100 + 2 * 3.5 + 2 * 3);
    SAME(f.samples_per_second, 64);
    SAME(f.tokens_per_second, 6400);
    SAME(f.mfu, 0.5);
    SAME(f.cost, f.run * 8 * 0.01);
    SAME(f.joules, f.run * 8 * 200);
}

/* A loader that takes longer than the step sets the pace, unless more threads share its work. */
TEST(slow_loader) {
    tri_run_facts facts = run;
    facts.loaded_tokens = 20000;
    SAME(tri__forecast(&machine, &facts).step, 2.008);
    facts.workers = 4;
    SAME(tri__forecast(&machine, &facts).step, 1);
}

/* Where ranks share cores, the peak is that of a node's cores that they use. */
TEST(peak_of_cores) {
    tri_hardware hardware = machine;
    tri_run_facts facts = run;
    hardware.cores = 8;
    facts.threads = 1; /* 2 nodes of 4 ranks: half of the cores */
    SAME(tri__forecast(&hardware, &facts).mfu, 4000 / (2 * 500.));
    facts.threads = 4; /* more than there are */
    SAME(tri__forecast(&hardware, &facts).mfu, 4000 / (2 * 1000.));
}

/* What is not known is left out. */
TEST(unknown_figures) {
    tri_hardware bare = {.ranks_per_node = 1};
    tri_forecast f = tri__forecast(&bare, &(tri_run_facts){.step_seconds = 2, .ranks = 1, .samples = 4});
    tri_json *json = tri__forecast_json(&f);
    SAME(tri__json_number_value(tri__json_get(json, "step_seconds")), 2);
    SAME(tri__json_number_value(tri__json_get(json, "samples_per_second")), 2);
    static const char *const none[] = {"run_seconds", "mfu", "cost", "energy_kwh", "checkpoint_seconds",
                                       "epoch_seconds"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_null(tri__json_get(json, none[i]));
    tri__json_decref(json);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
