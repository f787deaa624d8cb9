/* test_local.c - copies of the model that take local steps (--sync-every), against one process that takes the steps of
 * each copy with an ordinary session and the common ones in plain C. Evaluation, checkpoints between meetings, other
 * numbers of copies. `make test` runs a sample of the codes and meshes; SOAK_STEPS=100: all of them. */
#include "base/hash.h"
#include "checkpoint/copies.h"
#include "tests/lib/test.h"
#include "tests/lib/session_runs.h"
#include "tests/lib/soak.h"

enum { MAX_COPIES = 4, PIECES = 512 };

/* ---- The reference ---- */

/* The weights of a session of one rank, or other numbers of their shape. */
typedef struct numbers {
    int n;                     /* of parameters */
    float *of[PIECES];         /* [count] */
    int64_t count[PIECES];
} numbers;

static void numbers_open(numbers *out, const tri_session *s) {
    *out = (numbers){.n = s->engine.n_weights};
    assert_true(out->n <= PIECES);
    for (int i = 0; i < out->n; i++) {
        out->count[i] = s->engine.weights[i].slice.end;
        out->of[i] = calloc((size_t)out->count[i] + 1, sizeof(float));
    }
}

static void numbers_free(numbers *of) {
    for (int i = 0; i < of->n; i++) free(of->of[i]);
}

static void take_weights(numbers *out, const tri_session *s) {
    for (int i = 0; i < out->n; i++)
        memcpy(out->of[i], s->engine.weights[i].data, (size_t)out->count[i] * sizeof(float));
}

static void give_weights(const numbers *from, tri_session *s) {
    OK(tri__engine_fetch(&s->engine));
    for (int i = 0; i < from->n; i++)
        memcpy(s->engine.weights[i].data, from->of[i], (size_t)from->count[i] * sizeof(float));
    OK(tri__engine_upload(&s->engine));
}

typedef struct diloco {
    int copies, replicas, n_mb, every, steps; /* replicas of a copy */
    double lr, momentum, max_norm;
    const char *option[4];                    /* of the sessions; ended by NULL */
    tri_session *session[MAX_COPIES];
    numbers anchor, mean, outer;
    tri_result scores;                        /* of the anchor at the end */
} diloco;

/* The labels' weights of a copy's samples, whose parts of the batch are [first, end). */
static double weight_of(const tri_session *s, int first, int end) {
    double sum = 0;
    for (int64_t i = 0; i < s->batch->n; i++)
        if (first <= s->batch->part_of[i] && s->batch->part_of[i] < end)
            sum += s->settings->model.class_weights.at[s->train->labels[s->batch->row[i]]];
    return sum;
}

/* An ordinary step on a copy's samples alone: microbatches of the others are empty. */
static void inner_step(diloco *d, int copy) {
    tri_session *s = d->session[copy];
    int more, each = d->replicas * d->n_mb, first = copy * each;
    OK(tri_next_batch(s, &more));
    assert_true(more);
    double weight = weight_of(s, first, first + each);
    s->inv = weight > 0 ? 1 / weight : 0;
    for (int mb = 0; mb < s->engine.n_mb; mb++)
        if (mb < first || mb >= first + each) s->feed[mb].counts = (tri_counts){0};
    OK(tri_forward_backward(s, NULL));
    OK(tri_update(s));
}

/* anchor -= lr * (g + momentum * m), where m = momentum * m + g and g is the mean of anchor - copy. */
static void outer_step(diloco *d) {
    numbers copy;
    numbers_open(&copy, d->session[0]);
    for (int i = 0; i < d->mean.n; i++) memset(d->mean.of[i], 0, (size_t)d->mean.count[i] * sizeof(float));
    for (int c = 0; c < d->copies; c++) {
        OK(tri__engine_fetch(&d->session[c]->engine));
        take_weights(&copy, d->session[c]);
        for (int i = 0; i < copy.n; i++)
            for (int64_t k = 0; k < copy.count[i]; k++) d->mean.of[i][k] += d->anchor.of[i][k] - copy.of[i][k];
    }
    for (int i = 0; i < copy.n; i++)
        for (int64_t k = 0; k < copy.count[i]; k++) {
            double g = d->mean.of[i][k] / (double)d->copies;
            float m = d->outer.of[i][k] = (float)((float)d->momentum * (double)d->outer.of[i][k] + g);
            float step = (float)((double)(float)d->lr * (g + (double)(float)d->momentum * m));
            d->anchor.of[i][k] -= step;
        }
    for (int c = 0; c < d->copies; c++) give_weights(&d->anchor, d->session[c]);
    numbers_free(&copy);
}

static void reference_open(diloco *d) {
    char parts[48], steps[32], norm[48];
    snprintf(parts, sizeof parts, "--num-microbatches=%d", d->copies * d->replicas * d->n_mb);
    snprintf(steps, sizeof steps, "--max-steps=%d", d->steps);
    snprintf(norm, sizeof norm, "--max-grad-norm=%.17g",
             sqrt(d->copies) * d->max_norm); /* a copy has 1/n of the batch */
    const char *options[10] = {parts, "--threads=1", steps, "--resume=never", norm};
    for (int i = 0; d->option[i]; i++) options[5 + i] = d->option[i];
    for (int c = 0; c < d->copies; c++) {
        char folder[16];
        snprintf(folder, sizeof folder, "copy%d", c);
        d->session[c] = open_session(folder, options);
        if (d->session[c]->settings->optimizer != TRI_SGD)
            d->session[c]->engine.in.optimizer.inner_lr_factor = sqrt(d->copies);
    }
    numbers_open(&d->anchor, d->session[0]);
    numbers_open(&d->mean, d->session[0]);
    numbers_open(&d->outer, d->session[0]);
    take_weights(&d->anchor, d->session[0]);
}

/* Takes all steps; the last one is a meeting. */
static void reference(diloco *d) {
    reference_open(d);
    for (int step = 1; step <= d->steps; step++) {
        for (int c = 0; c < d->copies; c++) inner_step(d, c);
        if (step % d->every == 0 || step == d->steps) outer_step(d);
    }
    OK(tri_evaluate(d->session[0], &d->scores));
}

static void reference_close(diloco *d) {
    for (int c = 0; c < d->copies; c++) tri_session_close(d->session[c]);
    numbers_free(&d->anchor);
    numbers_free(&d->mean);
    numbers_free(&d->outer);
}

/* ---- Runs on ranks ---- */

/* A run of ranks as threads, from its start or its last checkpoint: `until` steps in all, then a checkpoint. */
typedef struct job {
    int ranks, until, forks;
    int evaluate;              /* 1: after every step */
    const char *output;
    const char *option[16];    /* ended by NULL */
    tri_result scores[16];     /* of the evaluation after each step */
    double loss[16];           /* of each step */
    uint64_t kept[8];          /* a hash of all that each rank has at the end */
    float scale[2];            /* not 0: fp16's loss scale of the first four steps, and of the others */
    double spoil;              /* not 0: factor of rank 1's gradients in the third step */
    int64_t skipped[8];        /* steps without an update, by rank */
    char folder[TRI_PATH_MAX];
} job;

static uint64_t hash_kept(const tri_session *s) {
    const tri_engine *e = &s->engine;
    uint64_t all = 0;
    for (int i = 0; i < e->n_weights + e->n_optimizer; i++) {
        const tri_piece *piece = i < e->n_weights ? &e->weights[i] : &e->optimizer[i - e->n_weights];
        all = tri__hash64(all, piece->data, (size_t)(piece->slice.end - piece->slice.begin) * sizeof(float));
    }
    return all;
}

static tri_status job_steps(job *j, tri_session *s, int rank) {
    char folder[TRI_PATH_MAX];
    tri_result scores;
    int more = 1;
    while (s->at.step < j->until) {
        TRI_TRY(tri_next_batch(s, &more));
        if (!more) return tri__fail(TRI_INTERNAL, "the run ended at step %lld", (long long)s->at.step);
        if (j->spoil != 0 && rank == 1 && s->at.step == 2) s->copy_inv *= j->spoil;
        if (j->scale[0] > 0) s->at.scale.scale = j->scale[s->at.step >= 4];
        TRI_TRY(tri_forward_backward(s, rank == 0 ? &j->loss[s->at.step] : NULL));
        TRI_TRY(tri_update(s));
        if (j->evaluate) TRI_TRY(tri_evaluate(s, &scores));
        if (j->evaluate && rank == 0) j->scores[s->at.step - 1] = scores;
    }
    j->skipped[rank] = s->at.skipped;
    j->kept[rank] = hash_kept(s);
    TRI_TRY(tri_save(s, folder, sizeof folder));
    if (rank == 0) memcpy(j->folder, folder, sizeof folder);
    return TRI_OK;
}

static tri_status job_main(tri_world *world, void *context) {
    job *j = context;
    tri_session *session = NULL;
    TRI_TRY(join_status(world, &session, j->output, j->option));
    tri_status status = job_steps(j, session, tri_world_rank(world));
    tri_session_close(session);
    return status;
}

static tri_status job_status(job *j) {
    tri_ranks how = {.n = j->ranks, .forks = j->forks, .heap_bytes = 32 << 20, .progress_timeout = 120};
    return tri_ranks_run(&how, job_main, j);
}

static void job_run(job *j) { OK(job_status(j)); }

/* The digest of the checkpoint that a job wrote. */
static const char *digest_of(const job *j, char hex[static 33]) {
    tri_checkpoint *checkpoint;
    char path[TRI_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", root, j->output);
    OK(tri__checkpoint_open(path, 0, &checkpoint));
    OK(tri__checkpoint_digest(checkpoint, hex));
    tri__checkpoint_close(checkpoint);
    return hex;
}

static tri_checkpoint *open_last(const char *output) {
    tri_checkpoint *checkpoint;
    char path[TRI_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", root, output);
    OK(tri__checkpoint_open(path, 0, &checkpoint));
    return checkpoint;
}

/* The weights in the run's last checkpoint, and each copy's own, against the reference's anchor after a meeting: the
 * largest difference. */
static double distance(const diloco *want, const char *output) {
    tri_checkpoint *checkpoint = open_last(output);
    double most = 0;
    for (int i = 0; i < want->anchor.n; i++) {
        tri_piece piece = want->session[0]->engine.weights[i], own = piece;
        float *have = calloc((size_t)want->anchor.count[i] + 1, sizeof *have), *local = calloc(
            (size_t)want->anchor.count[i] + 1, sizeof *local);
        char name[512];
        snprintf(name, sizeof name, "local.%s", piece.name);
        piece.data = have, own.data = local, own.name = name;
        OK(tri__checkpoint_read(checkpoint, &piece));
        tri__piece_of_copy(&own, want->copies - 1, want->copies);
        OK(tri__checkpoint_read(checkpoint, &own));
        assert_memory_equal(have, local, (size_t)want->anchor.count[i] * sizeof *have);
        for (int64_t k = 0; k < want->anchor.count[i]; k++) {
            double apart = fabs((double)have[k] - want->anchor.of[i][k]);
            if (!(apart <= most)) most = apart;
        }
        free(have);
        free(local);
    }
    tri__checkpoint_close(checkpoint);
    return most;
}

/* ---- Tests ---- */

typedef struct mesh_case {
    int copies, replicas, n_mb, ranks;
    double limit;              /* of the weights' differences */
    const char *extra[3];      /* of the run */
    const char *option[2];     /* of both */
} mesh_case;

/* The steps of copies that share nothing but meetings are those of ordinary sessions, to the bit where no copy sums
 * over ranks; near them where meetings are coded. */
TEST(as_one_process) {
    static const mesh_case cases[] = {
        {.copies = 2, .replicas = 1, .n_mb = 1, .ranks = 2},
        {.copies = 3, .replicas = 1, .n_mb = 4, .ranks = 3},
        {.copies = 2, .replicas = 1, .n_mb = 4, .ranks = 4, .extra = {"--pp-size=2"}},
        {.copies = 2, .replicas = 1, .n_mb = 2, .ranks = 2, .option = {"--precision=bf16"}},
        {.copies = 2, .replicas = 2, .n_mb = 1, .ranks = 4, .limit = 2e-6,
         .extra = {"--shard=hybrid", "--shard-size=2"}},
        {.copies = 2, .replicas = 1, .n_mb = 1, .ranks = 2, .option = {"--optimizer=lamb"}},
        {.copies = 2, .replicas = 2, .n_mb = 1, .ranks = 4, .limit = 2e-6, .option = {"--optimizer=sgd"},
         .extra = {"--shard=hybrid", "--shard-size=2"}},
        {.copies = 2, .replicas = 1, .n_mb = 1, .ranks = 2, .limit = 3e-4,
         .extra = {"--compress-gradients=int8", "--error-feedback=yes"}},
        {.copies = 2, .replicas = 1, .n_mb = 1, .ranks = 4, .limit = 3e-4,
         .extra = {"--tp-size=2", "--compress-gradients=bf16"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mesh_case *at = &cases[i];
        diloco d = {.copies = at->copies, .replicas = at->replicas, .n_mb = at->n_mb, .every = 3, .steps = 7,
                    .lr = 0.7, .momentum = i ? 0.9 : 0.5, .max_norm = 0.5, .option = {at->option[0]}};
        char parts[48];
        snprintf(parts, sizeof parts, "--num-microbatches=%d", at->n_mb);
        job j = {.ranks = at->ranks, .until = 7, .evaluate = 1, .output = "as-one",
                 .option = {"--sync-every=3", "--max-steps=7", "--resume=never", "--threads=1", "--check-replicas=1",
                            parts, "--max-grad-norm=0.5"}};
        int n = 7;
        if (i) j.option[n++] = "--outer-lr=0.7", j.option[n++] = "--outer-momentum=0.9"; /* else the defaults */
        for (int k = 0; k < 3 && at->extra[k]; k++) j.option[n++] = at->extra[k];
        if (at->option[0]) j.option[n++] = at->option[0];
        reference(&d);
        job_run(&j);
        double most = distance(&d, "as-one");
        if (!(most <= at->limit)) fail_msg("case %zu: weights differ by %g", i, most);
        if (fabs(j.scores[6].loss - d.scores.loss) > fmax(1e-6, at->limit))
            fail_msg("case %zu: a validation loss of %g instead of %g", i, j.scores[6].loss, d.scores.loss);
        reference_close(&d);
    }
}

/* Between meetings an evaluation is of the weights of the last one, and changes nothing; a run that is saved there goes
 * on to the bit; ranks as processes do the same as threads. */
FIRST_TEST(between_meetings) {
    static const char *const kinds[][3] = {
        {"--precision=fp32"},
        {"--precision=bf16", "--compress-gradients=int8", "--error-feedback=true"},
        {"--compress-gradients=int4", "--error-feedback=true", "--num-microbatches=2"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char a[33], b[33], c[33];
        job whole = {.ranks = 2, .until = 10, .evaluate = 1, .output = "whole",
                     .option = {"--sync-every=4", "--max-steps=10", "--resume=never", "--threads=1", kinds[i][0],
                                kinds[i][1], kinds[i][2]}};
        job first = whole, second = whole, forks = whole;
        first.until = 6, first.evaluate = 0, first.output = second.output = "parts";
        second.evaluate = 0, second.option[2] = "--resume=auto";
        forks.forks = 1, forks.evaluate = 0, forks.output = "forks";
        job_run(&forks); /* before this process has threads */
        job_run(&whole);
        job_run(&first);
        job_run(&second);
        digest_of(&whole, a), digest_of(&second, b), digest_of(&forks, c);
        assert_string_equal(a, b);
        assert_string_equal(a, c);
        for (int step = 5; step <= 8; step++) { /* meetings are steps 4, 8 and the last, 10 */
            int same = memcmp(&whole.scores[step - 1], &whole.scores[3], sizeof *whole.scores) == 0;
            assert_true(same == (step < 8));
        }
    }
}

/* A checkpoint between meetings goes on with other numbers of copies, with none, and in runs of replicas; a plain run's
 * goes on with copies. */
TEST(other_copies) {
    static const struct {
        int ranks;
        const char *option[4];
    } next[] = {
        {3, {"--sync-every=4"}},
        {4, {"--sync-every=4", "--shard=hybrid", "--shard-size=2"}},
        {4, {"--sync-every=4", "--pp-size=2", "--precision=bf16", "--allow-change=precision"}},
        {2, {"--sync-every=1", "--allow-change=sync_every", "--shard=zero2"}},
    };
    for (size_t i = 0; i < sizeof next / sizeof *next; i++) {
        job first = {.ranks = 2, .until = 6, .output = "moves",
                     .option = {"--sync-every=4", "--max-steps=10", "--resume=never", "--threads=1"}};
        job second = {.ranks = next[i].ranks, .until = 10, .output = "moves",
                      .option = {"--resume=auto", "--max-steps=10", "--threads=1"}};
        for (int k = 0; k < 4; k++) second.option[3 + k] = next[i].option[k];
        job_run(&first);
        job_run(&second);
    }
    job plain = {.ranks = 2, .until = 6, .output = "begins", .option = {"--max-steps=10", "--resume=never"}};
    job copies = {.ranks = 2, .until = 10, .output = "begins",
                  .option = {"--max-steps=10", "--sync-every=4", "--allow-change=sync_every"}};
    job_run(&plain);
    job_run(&copies);
}

typedef struct cell {
    const char *code;
    int feedback, hybrid, pp, mb;
} cell;

/* copies: 0: those of the cell, two, each of two replicas where they share one. */
static job of_cell(const cell *c, int copies, char text[static 5][40]) {
    int is_hybrid = !copies && c->hybrid;
    snprintf(text[0], 40, "--compress-gradients=%s", c->code);
    snprintf(text[1], 40, "--error-feedback=%s", c->feedback ? "yes" : "no");
    snprintf(text[2], 40, "--shard=%s", is_hybrid ? "hybrid" : "none");
    snprintf(text[3], 40, "--pp-size=%d", c->pp);
    snprintf(text[4], 40, "--num-microbatches=%d", c->mb);
    return (job){.ranks = (copies      ? copies
                           : is_hybrid ? 4
                                       : 2) *
                          c->pp,
                 .until = 8,
                 .output = "cell",
                 .option = {"--sync-every=3", "--max-steps=8", "--resume=never", "--threads=1", "--check-replicas=2",
                            "--global-batch-size=16", text[0], text[1], text[2], text[3], text[4],
                            is_hybrid ? "--shard-size=2" : NULL}};
}

static void expect_losses(const job *full, const job *have, int from, const char *what) {
    for (int k = from; k < have->until; k++)
        if (!(fabs(full->loss[k] - have->loss[k]) <= 0.1 * full->loss[k]))
            fail_msg("%s: loss of step %d is %g, of steps in common %g", what, k + 1, have->loss[k], full->loss[k]);
}

/* Trains close to the run whose replicas take no local steps; saved between meetings (3, 6 and 8) it goes on to the
 * bit, all states of all ranks, and on another number of copies. */
static void try_cell(const cell *c, const job *full) {
    char text[5][40], moved[5][40], what[96];
    snprintf(what, sizeof what, "%s, %s, pp %d, %d microbatches", c->code, c->hybrid ? "hybrid" : "none", c->pp, c->mb);
    job whole = of_cell(c, 0, text), first = whole, rest = whole, there = of_cell(c, 3, moved);
    job_run(&whole);
    expect_losses(full, &whole, 0, what);
    first.until = 5, rest.option[2] = there.option[2] = "--resume=auto";
    job_run(&first);
    job_run(&rest);
    if (memcmp(whole.loss + 5, rest.loss + 5, 3 * sizeof *rest.loss) != 0) fail_msg("%s: other losses", what);
    for (int r = 0; r < whole.ranks; r++)
        if (whole.kept[r] != rest.kept[r]) fail_msg("%s: rank %d has other states after a restart", what, r);
    job_run(&first);
    job_run(&there);
    expect_losses(full, &there, 5, what);
}

TEST(every_code_with_every_mesh) {
    static const char *const codes[] = {"none", "bf16", "int8", "int4", "fp8"};
    int all = soak_count("SOAK_STEPS", 0) > 0, n = 0, tried = 0;
    job full = {.ranks = 2,
                .until = 8,
                .output = "common",
                .option = {"--max-steps=8", "--resume=never", "--global-batch-size=16"}};
    job_run(&full);
    for (int code = 0; code < 5; code++)
        for (int feedback = 0; feedback <= (code > 0); feedback++)
            for (int hybrid = 0; hybrid < 2; hybrid++)
                for (int pp = 1; pp <= 2; pp++)
                    for (int mb = 1; mb <= 4; mb += 3, n++) {
                        if (!all && n != 69) continue; /* fp8 with errors, hybrid, 4 microbatches */
                        try_cell(&(cell){codes[code], feedback, hybrid, pp, mb}, &full);
                        tried++;
                    }
    print_message("%d of %d combinations\n", tried, n);
}

/* Each state of another number of copies: weights as they were, moments and local weights the mean, errors the sum. */
static tri_status look_at_states(tri_world *world, void *context) {
    const char *folder = context;
    tri_session *s = NULL;
    tri_checkpoint *checkpoint;
    TRI_TRY(join_status(world, &s, "moves", OPTIONS("--sync-every=4", "--max-steps=10", "--compress-gradients=int8",
                                                    "--error-feedback=yes", "--threads=1")));
    TRI_TRY(tri__checkpoint_open(folder, 0, &checkpoint));
    int copies = tri_world_size(world), seen = 0;
    for (int i = 0; i < s->engine.n_optimizer; i++) {
        const tri_piece *piece = &s->engine.optimizer[i];
        int sums = strncmp(piece->name, "outer_error.", 12) == 0, owned = strncmp(piece->name, "outer_", 6) == 0;
        if (owned && !sums) continue;
        int64_t n = piece->slice.end - piece->slice.begin;
        for (int64_t k = 0; k < n; k += 7) {
            double sum = 0;
            for (int c = 0; c < 2; c++) {
                float one;
                tri_piece row = *piece;
                row.shape.dim[0] = 2, row.slice.start[0] = c, row.data = &one;
                row.slice.begin = piece->slice.begin + k, row.slice.end = row.slice.begin + 1;
                TRI_TRY(tri__checkpoint_read(checkpoint, &row));
                sum += (double)one;
            }
            float want = (float)(sum / (sums ? copies : 2));
            if (memcmp(&want, (float *)piece->data + k, sizeof want) != 0)
                return tri__fail(TRI_INTERNAL, "%s: element %lld", piece->name, (long long)k);
        }
        seen |= 1 << (sums ? 0 : strncmp(piece->name, "local.", 6) == 0 ? 1 : 2);
    }
    tri__checkpoint_close(checkpoint);
    tri_session_close(s);
    return seen == 7 ? TRI_OK : tri__fail(TRI_INTERNAL, "some states were not there");
}

TEST(shares_of_states) {
    job first = {.ranks = 2, .until = 6, .output = "moves",
                 .option = {"--sync-every=4", "--max-steps=10", "--resume=never", "--threads=1",
                            "--compress-gradients=int8", "--error-feedback=yes"}};
    job_run(&first);
    tri_ranks three = {.n = 3, .heap_bytes = 32 << 20, .progress_timeout = 120};
    OK(tri_ranks_run(&three, look_at_states, first.folder));
}

/* One copy's gradients are not finite: no copy takes the step, and the run ends; with fp16 all skip it. */
TEST(not_finite) {
    job j = {.ranks = 2, .until = 6, .output = "spoilt", .spoil = INFINITY,
             .option = {"--sync-every=3", "--max-steps=6", "--resume=never", "--threads=1"}};
    assert_int_equal(job_status(&j), TRI_NOTFINITE);
    assert_non_null(strstr(tri_error(), "step 3"));
    assert_non_null(strstr(tri_error(), "on rank 1"));
    j.option[4] = "--precision=fp16", j.spoil = 1e9;
    job_run(&j);
    assert_true(j.skipped[0] == j.skipped[1] && j.skipped[0] >= 1);
}

/* What coding loses of weights has nothing to do with the scale of gradients: errors of the meetings at one loss scale
 * are right at another, and the run is that of an unchanged scale, but for gradients below fp16's smallest. */
TEST(errors_have_no_loss_scale) {
    job j[2];
    for (int i = 0; i < 2; i++) {
        j[i] = (job){.ranks = 2,
                     .until = 8,
                     .evaluate = 1,
                     .output = "scales",
                     .scale = {0x1p12f, i ? 0x1p16f : 0x1p12f},
                     .option = {"--sync-every=2", "--max-steps=8", "--resume=never", "--threads=1", "--precision=fp16",
                                "--compress-gradients=int4", "--error-feedback=yes", "--warmup-steps=0"}};
        job_run(&j[i]);
        assert_int_equal(j[i].skipped[0], 0);
    }
    for (int step = 0; step < 8; step++) {
        double a = j[0].scores[step].loss, b = j[1].scores[step].loss;
        if (!(fabs(a - b) <= 1e-4)) fail_msg("step %d: a validation loss of %.9g instead of %.9g", step + 1, b, a);
    }
}

/* A flipped bit of what copies share is found, and whose it is not hidden by what is their own. */
static tri_status flip(tri_world *world, void *context) {
    tri_session *s = NULL;
    int more;
    (void)context;
    TRI_TRY(join_status(world, &s, "flipped", OPTIONS("--sync-every=4", "--max-steps=10", "--resume=never",
                                                      "--check-replicas=1", "--threads=1")));
    tri_status status = TRI_OK;
    for (int step = 0; step < 3 && status == TRI_OK; step++) {
        if (step == 2 && tri_world_rank(world) == 1) *(uint32_t *)s->engine.weights[0].data ^= 1;
        status = take_step(s, NULL, &more);
        if (status != TRI_OK && step < 2) status = tri__fail(TRI_INTERNAL, "too early: %s", tri_error());
    }
    tri_session_close(s);
    return status;
}

TEST(anchors_are_compared) {
    tri_ranks three = {.n = 3, .heap_bytes = 32 << 20, .progress_timeout = 120};
    assert_int_equal(tri_ranks_run(&three, flip, NULL), TRI_DISAGREE);
    assert_non_null(strstr(tri_error(), "rank 1"));
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_data, remove_data); }
