/* binding.c - the first cause that applies names what binds. Causes come in the order in which removing them would help
 * most: no other change helps a rank that waits for its batch. */
#include "report/runs/run_parts.h"

static const double LOADING = 0.1, MOVING = 0.15, WAITING = 0.15, UNEVEN = 0.15, SMALL = 0.5, SHORT_KERNEL = 15e-6,
                    WELL_USED = 0.3; /* of the peak */

static double percent(double share) { return 100 * share; }

__attribute__((format(printf, 2, 3))) static tri_json *say(const char *kind, const char *format, ...) {
    char words[768];
    TRI_FORMAT(words, sizeof words, format);
    return tri__json_pack("{s:s, s:s}", "kind", kind, "words", words);
}

/* What makes the costliest transfer cheaper. */
static const char *cheaper(const tri_binding_figures *f) {
    int gathers = strstr(f->kind, "gather") || strstr(f->kind, "scatter");
    if (!strcmp(f->kind, "send") || !strcmp(f->kind, "recv"))
        return "Try fewer stages (--pp-size), or more samples a microbatch";
    if (!strcmp(f->kind, "copy"))
        return "These copies go to and from offload memory: try to offload less (--offload), or a larger batch";
    if (f->tp > 1 && (!gathers || !f->shard || strcmp(f->shard, "zero3")))
        return f->machines > 1
                   ? "Try a smaller --tp-size, or --mesh-order auto, which keeps tensor groups inside a machine"
                   : "Try a smaller --tp-size: tensor parallelism talks in every layer";
    if (gathers && f->shard && !strcmp(f->shard, "zero3"))
        return "Try --shard zero2 or zero1 if memory allows, a larger batch, or --prefetch 2";
    return "Try a larger batch (fewer updates for the same samples), --reduce-dtype bf16, or larger --bucket-mb";
}

static tri_json *say_moves(const tri_binding_figures *f) {
    char bytes[32], rate[32], detail[160] = "";
    const char *link = f->machines > 1 ? "over the network" : "inside the machine";
    if (f->kind[0] && f->kind_seconds > 0 && f->kind_bytes > 0)
        snprintf(detail, sizeof detail, ", most of it %s (%s a step from each rank, %s/s)", f->kind,
                 tri__text_bytes(f->kind_bytes, bytes), tri__text_bytes(f->kind_bytes / f->kind_seconds, rate));
    else if (f->kind[0]) snprintf(detail, sizeof detail, ", most of it %s", f->kind);
    return say("communication", "Communication binds: moving data %s takes %.0f %% of a step%s. %s.", link,
               percent(f->comm), detail, cheaper(f));
}

/* Ranks wait for each other. */
static tri_json *say_waits(const tri_binding_figures *f) {
    char detail[160] = "";
    int uneven = f->most_busy > 0 && f->most_busy - f->least_busy > UNEVEN * f->most_busy;
    if (f->pp > 1 && uneven)
        return say("stages",
                   "Uneven stages bind: ranks wait %.0f %% of a step, while the busiest computes %.1f ms and the "
                   "idlest %.1f ms. Try --stage-profile with this run's stage_profile.json, which balances stages by "
                   "measured times.", percent(f->idle), 1e3 * f->most_busy, 1e3 * f->least_busy);
    if (f->pp > 1)
        return say("bubble",
                   "The pipeline's bubble binds: ranks wait %.0f %% of a step, with %lld microbatches for %d stages. "
                   "Try more --num-microbatches, --schedule interleaved or zb-h1, or fewer stages.",
                   percent(f->idle), (long long)f->microbatches, f->pp);
    if (uneven)
        snprintf(detail, sizeof detail, ": the busiest computes %.1f ms, the idlest %.1f ms", 1e3 * f->most_busy,
                 1e3 * f->least_busy);
    return say("waiting",
               "Waiting binds: ranks wait %.0f %% of a step for each other%s. Look for other work on these cores or a "
               "slower machine; try --bind-cores core, fewer --threads a rank, or a larger batch, which splits more "
               "evenly.", percent(f->idle), detail);
}

static tri_json *say_computes(const tri_binding_figures *f, int fp32) {
    char detail[160] = "", used[160] = "";
    if (f->costliest) snprintf(detail, sizeof detail, ", most of it in %s", f->costliest);
    if (f->mfu > 1)
        snprintf(used, sizeof used,
                 ", at %.0f %% of the peak, so the peak is too low (its hardware file, or cores that were busy when it "
                 "was measured)", percent(f->mfu));
    else if (f->mfu > 0)
        snprintf(used, sizeof used, ", at %s%.0f %% of the peak%s", f->mfu < WELL_USED ? "only " : "", percent(f->mfu),
                 f->mfu < WELL_USED ? "" : ", which is as it should be");
    return say("compute",
               "Computing binds: it takes %.0f %% of a step%s%s. To go faster: %s%smore ranks, or a smaller "
               "max_sen_len.", percent(f->compute), detail, used,
               f->mfu > 0 && f->mfu < WELL_USED ? "a larger --batch-size, whose products are larger, " : "",
               fp32 ? "--precision bf16 where the device has it, " : "");
}

tri_json *tri__binding(const tri_binding_figures *f) {
    int fp32 = !f->precision || !strcmp(f->precision, "fp32");
    if (f->loader >= LOADING && f->loader >= f->comm && f->loader >= f->idle)
        return say("loader",
                   "Loading binds: ranks wait %.0f %% of a step for their batch. Try more --num-workers, fewer "
                   "--threads so that cores are left for them, or a --cache-dir on a faster disk.", percent(f->loader));
    if (f->world > 1 && f->comm >= MOVING && f->comm >= f->idle) return say_moves(f);
    if (f->world > 1 && f->idle >= WAITING) return say_waits(f);
    if (f->compute <= 0) return say("unknown", "What binds is unknown: the run has no events of steps yet.");
    if (f->kernel_seconds > 0 && f->kernel_seconds < SHORT_KERNEL)
        return say("launch",
                   "Launching binds: an operation takes %.1f us on average, not much more than starting it. Try a "
                   "larger --batch-size, or fewer microbatches.", 1e6 * f->kernel_seconds);
    if (f->small >= SMALL)
        return say("memory",
                   "Memory traffic binds: %.0f %% of computing is in operations with little arithmetic for each byte "
                   "(norms, dropout, the update). Try a larger --batch-size, which does more arithmetic for each "
                   "update%s.", percent(f->small), fp32 ? ", or --precision bf16, which moves half the bytes" : "");
    return say_computes(f, fp32);
}

/* ---- from a run's data ---- */

static int at_least_1(double value) { return value >= 1 && value < 1e9 ? (int)value : 1; }

static void take_config(const tri_json *run, tri_binding_figures *f) {
    const tri_json *config = tri__json_get(run, "config");
    f->world = at_least_1(tri__number_in(config, "world_size"));
    f->pp = at_least_1(tri__number_in(config, "pp_size"));
    f->tp = at_least_1(tri__number_in(config, "tp_size"));
    f->machines = at_least_1(f->world / (double)at_least_1(tri__number_in(config, "nproc_per_node")));
    f->microbatches = at_least_1(tri__number_in(tri__json_get(run, "facts"), "microbatches"));
    f->precision = tri__text_in(config, "precision");
    f->shard = tri__text_in(config, "shard");
}

static void take_operations(const tri_json *operations, tri_binding_figures *f) {
    double calls = 0, seconds = 0, small = 0;
    tri__json_items(operations, one) {
        static const double few = 8; /* operations a byte: below what any device needs to be busy */
        double time = tri__number_in(one, "seconds");
        calls += tri__number_in(one, "calls"), seconds += time;
        if (tri__number_in(one, "flops") < few * tri__number_in(one, "bytes")) small += time;
    }
    if (calls > 0) f->kernel_seconds = seconds / calls;
    if (seconds > 0) f->small = small / seconds;
    f->costliest = tri__text_in(tri__json_at(operations, 0), "name");
}

static void take_profile(const tri_json *profile, tri_binding_figures *f) {
    const tri_json *first = tri__json_at(tri__json_get(profile, "transfers"), 0);
    const char *kind = tri__text_in(first, "kind");
    if (kind && strlen(kind) < sizeof f->kind) strcpy(f->kind, kind);
    f->kind_bytes = tri__number_in(first, "bytes"), f->kind_seconds = tri__number_in(first, "exposed_seconds");
    take_operations(tri__json_get(profile, "operations"), f);
    tri__json_each(tri__json_get(profile, "ranks"), i, rank) {
        double busy = tri__number_in(tri__json_get(rank, "parts"), "compute");
        f->most_busy = i ? fmax(f->most_busy, busy) : busy;
        f->least_busy = i ? fmin(f->least_busy, busy) : busy;
    }
}

void tri__run_binding(tri_json *run) {
    const tri_json *shares = tri__json_get(run, "shares");
    tri_binding_figures f = {.loader = tri__number_in(shares, "loader"), .comm = tri__number_in(shares, "comm"),
                             .idle = tri__number_in(shares, "idle"), .compute = tri__number_in(shares, "compute"),
                             .mfu = tri__number_in(tri__json_get(run, "rates"), "mfu")};
    take_config(run, &f);
    take_profile(tri__json_get(run, "profile"), &f);
    tri__json_set_new(run, "binding", tri__binding(&f));
}
