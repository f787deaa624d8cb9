/* test_schedule.c - the orders of pipelines: equal to orders written by hand, complete, free of deadlock, and with the
 * time and memory that the closed forms of each schedule give. Times are in units of one rank's forward of one
 * microbatch. */
#include "tests/lib/test.h"
#include "tests/lib/dry_run.h"
#include "plan/pipeline/handover.h"

#include <math.h>

enum { MOST_RANKS = 16, MOST_STAGES = 64 };
static const tri_stage_time equal = {1, 1, 1}, uneven = {1, 1.3, 0.7};

typedef struct line {
    tri_arena arena;
    tri_pipeline pipeline;
    int rank[MOST_STAGES], depth[MOST_STAGES], feed[MOST_STAGES][2];
    tri_stage_time time[MOST_STAGES];
    const tri_schedule_row *row;
    const tri_actions *orders;
    dry_times dry;
} line;

static void run(line *l, double hop) {
    l->orders = tri__schedule_orders(&l->arena, l->row, &l->pipeline);
    if (dry_run(&l->arena, &l->pipeline, l->orders, l->time, hop, &l->dry) != TRI_OK)
        fail_msg("%s, %d ranks, %d stages, %d microbatches: %s", l->row->name, l->pipeline.n_ranks,
                 l->pipeline.n_stages, l->pipeline.n_mb, tri_error());
}

static double held(const line *l, int rank) { return tri__schedule_held(&l->pipeline, l->orders, rank); }

static void open_line(line *l, tri_schedule_kind kind, int n_ranks, int n_stages, int n_feeds, int m) {
    memset(l, 0, sizeof *l);
    assert_int_equal(tri__arena_open(&l->arena, (size_t)1 << 28), TRI_OK);
    l->row = tri__schedule_row(kind);
    l->pipeline = (tri_pipeline){.n_ranks = n_ranks,
                                 .n_stages = n_stages,
                                 .n_mb = m,
                                 .rank = l->rank,
                                 .depth = l->depth,
                                 .feed = (const int(*)[2])l->feed,
                                 .n_feeds = n_feeds};
}

/* p ranks with v stages in a row; `rank_time` is shared by a rank's stages. */
static void open_chain(line *l, tri_schedule_kind kind, int p, int v, int m, tri_stage_time rank_time) {
    int n = p * v;
    open_line(l, kind, p, n, n - 1, m);
    for (int s = 0; s < n; s++) {
        l->rank[s] = tri__schedule_rank(l->row, s, p, n);
        l->depth[s] = n - 1 - s;
        l->time[s] = (tri_stage_time){rank_time.forward / v, rank_time.input / v, rank_time.weight / v};
        if (s) l->feed[s - 1][0] = s - 1, l->feed[s - 1][1] = s;
    }
    run(l, 0);
}

/* Branches of a and b stages side by side, then a stage that both feed, which takes `head` of a stage's time. */
static void open_branches(line *l, tri_schedule_kind kind, int a, int b, int m, double head) {
    int n = a + b + 1, f = 0;
    open_line(l, kind, n, n, n - 1, m);
    for (int s = 0; s < n; s++) {
        l->rank[s] = s;
        l->depth[s] = s < a ? a - s : n - 1 - s;
        l->time[s] = s < n - 1 ? equal : (tri_stage_time){head, head, head};
        if (s == n - 1) continue;
        l->feed[f][0] = s, l->feed[f++][1] = s == a - 1 ? n - 1 : s + 1;
    }
    run(l, 0);
}

static void close_line(line *l) { tri__arena_close(&l->arena); }

/* Span beyond the work of one microbatch's three parts, m times. */
static double overhead(const line *l, tri_stage_time t) {
    return l->dry.span - l->pipeline.n_mb * (t.forward + t.input + t.weight);
}

static double worst_peak(const line *l) {
    double worst = 0;
    for (int r = 0; r < l->pipeline.n_ranks; r++) worst = fmax(worst, held(l, r));
    return worst;
}

#define SAME(got, want) assert_float_equal((got), (want), 1e-9)

TEST(golden_orders) {
    static const int sizes[][2] = {{2, 4}, {4, 8}, {4, 3}};
    static const int chunks[TRI_SCHEDULE_COUNT] = {1, 1, 2, 1, 2};
    for (int kind = 0; kind < TRI_SCHEDULE_COUNT; kind++)
        for (int i = 0; i < 3; i++) {
            line l;
            char path[128], want[4096] = "";
            open_chain(&l, kind, sizes[i][0], chunks[kind], sizes[i][1], equal);
            snprintf(path, sizeof path, "tests/golden/schedules/%s_%d_%d.csv", l.row->name, sizes[i][0], sizes[i][1]);
            FILE *in = fopen(path, "r");
            if (!in) fail_msg("%s is missing", path);
            assert_true(fread(want, 1, sizeof want - 1, in) > 0);
            fclose(in);
            const char *got = tri__schedule_csv(&l.arena, &l.pipeline, l.orders);
            if (strcmp(got, want) != 0) fail_msg("%s:\n%snot\n%s", path, want, got);
            close_line(&l);
        }
}

/* Each stage does each microbatch once, in increasing order; what a microbatch needs comes first. */
static void check_complete(const line *l) {
    const tri_pipeline *p = &l->pipeline;
    int done[MOST_STAGES][3] = {{0}};
    for (int r = 0; r < p->n_ranks; r++)
        for (int i = 0; i < l->orders[r].n; i++) {
            const tri_action *a = &l->orders[r].at[i];
            int *of = done[a->stage], act = a->act == TRI_ACT_BW ? TRI_ACT_B : a->act;
            assert_int_equal(p->rank[a->stage], r);
            assert_int_equal(a->mb, of[act]++);
            if (a->act == TRI_ACT_BW) of[TRI_ACT_W]++;
            assert_true(of[TRI_ACT_F] >= of[TRI_ACT_B] && of[TRI_ACT_B] >= of[TRI_ACT_W]);
        }
    for (int s = 0; s < p->n_stages; s++)
        for (int act = 0; act < 3; act++) assert_int_equal(done[s][act], p->n_mb);
}

TEST(never_stuck) {
    int n = 0;
    for (int kind = 0; kind < TRI_SCHEDULE_COUNT; kind++) {
        const tri_schedule_row *row = tri__schedule_row(kind);
        int most = row->chunks ? row->chunks : 4;
        for (int p = 1; p <= 8; p++)
            for (int m = 1; m <= 16; m++)
                for (int v = row->chunks ? row->chunks : row->fewest; v <= most; v++, n++) {
                    line l;
                    open_chain(&l, kind, p, v, m, uneven);
                    check_complete(&l);
                    close_line(&l);
                }
    }
    for (int kind = 0; kind < TRI_SCHEDULE_COUNT; kind++)
        for (int a = 1; a <= 4 && !tri__schedule_row(kind)->chain; a++)
            for (int b = 1; b <= 4; b++)
                for (int m = 1; m <= 16; m++, n++) {
                    line l;
                    open_branches(&l, kind, a, b, m, 0.3);
                    check_complete(&l);
                    close_line(&l);
                }
    print_message("%d pipelines, none stuck\n", n);
}

/* Orders that wait for one another in a circle: no messages can be made of them. Rank 0 turns microbatch 0 back before
 * it sends microbatch 1, which rank 1 begins with. */
TEST(deadlock_is_told) {
    line l;
    const tri_edge edges[] = {{.slot = 0, .from = 0, .to = 1}, {.slot = 1, .from = 1, .to = 0, .back = 1}};
    tri_handovers all = {.edge = edges, .n_edges = 2};
    open_chain(&l, TRI_SCHEDULE_1F1B, 2, 1, 2, equal);
    assert_int_equal(tri__messages_make(&l.arena, &l.pipeline, l.orders, 0, &all), TRI_OK);
    assert_true(all.n_out == 2 && all.n_in == 2);
    tri_action *first = l.orders[0].at, *second = l.orders[1].at, forward = first[1];
    assert_true(first[1].act == TRI_ACT_F && first[2].act == TRI_ACT_BW && second[2].act == TRI_ACT_F);
    first[1] = first[2], first[2] = forward;
    for (int i = 0; i < 4; i++) second[i].mb = 1 - second[i].mb;
    assert_int_equal(tri__messages_make(&l.arena, &l.pipeline, l.orders, 0, &all), TRI_INTERNAL);
    assert_non_null(strstr(tri_error(), "deadlock"));
    assert_int_equal(dry_run(&l.arena, &l.pipeline, l.orders, l.time, 0, &l.dry), TRI_INTERNAL);
    close_line(&l);
}

/* The closed forms, with any times. */
TEST(spans) {
    static const int sizes[][2] = {{2, 4}, {4, 8}, {4, 16}, {8, 32}};
    static const tri_stage_time times[] = {{1, 1, 1}, {1, 1.3, 0.7}, {1, 2, 0.5}};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++) {
            int p = sizes[i][0], m = sizes[i][1];
            tri_stage_time t = times[k];
            double all = t.forward + t.input + t.weight;
            for (int v = 1; v <= 4; v++) {
                line l;
                open_chain(&l, v > 1 ? TRI_SCHEDULE_INTERLEAVED : TRI_SCHEDULE_1F1B, p, v, m, t);
                SAME(overhead(&l, t), (p - 1) * all / v);
                SAME(dry_bubble(&l.pipeline, &l.dry), (p - 1) / (double)(m * v + p - 1));
                close_line(&l);
                open_chain(&l, TRI_SCHEDULE_ZB_H1, p, v, m, t);
                SAME(overhead(&l, t), (p - 1) * (t.forward + t.input - t.weight) / v);
                close_line(&l);
            }
            line l;
            open_chain(&l, TRI_SCHEDULE_GPIPE, p, 1, m, t);
            SAME(overhead(&l, t), (p - 1) * all);
            close_line(&l);
        }
}

static double overhead_of(tri_schedule_kind kind, int p, int v, int m, tri_stage_time t) {
    line l;
    open_chain(&l, kind, p, v, m, t);
    double got = overhead(&l, t);
    close_line(&l);
    return got;
}

/* What was measured of schedules that have no closed form, or outside of its bounds. */
TEST(spans_beyond_formulas) {
    SAME(overhead_of(TRI_SCHEDULE_ZBV, 4, 2, 8, equal), 1.5);
    SAME(overhead_of(TRI_SCHEDULE_ZBV, 8, 2, 32, equal), 3.5);
    SAME(overhead_of(TRI_SCHEDULE_ZBV, 8, 2, 32, uneven), 4.55);
    SAME(overhead_of(TRI_SCHEDULE_ZBV, 4, 2, 4, equal), 3);
    SAME(overhead_of(TRI_SCHEDULE_ZBV, 4, 2, 5, equal), 2);
    SAME(overhead_of(TRI_SCHEDULE_ZBV, 4, 2, 6, equal), 1.5);
    for (int p = 2; p <= 8; p++)
        for (int m = 1; m < p; m++) SAME(overhead_of(TRI_SCHEDULE_ZB_H1, p, 1, m, equal), (p - 1) + (p - m));
    /* Microbatches that ranks do not divide cost nothing. */
    for (int p = 2; p <= 8; p++)
        for (int m = p; m <= 4 * p; m++)
            for (int v = 2; v <= 4; v++) SAME(overhead_of(TRI_SCHEDULE_INTERLEAVED, p, v, m, uneven), (p - 1) * 3. / v);
}

TEST(peaks) {
    static const int sizes[][2] = {{2, 4}, {4, 8}, {4, 16}, {8, 32}, {4, 3}, {8, 5}};
    for (int i = 0; i < 6; i++) {
        int p = sizes[i][0], m = sizes[i][1];
        for (int r = 0; r < p; r++) {
            line l;
            open_chain(&l, TRI_SCHEDULE_GPIPE, p, 1, m, equal);
            SAME(held(&l, r), m);
            close_line(&l);
            open_chain(&l, TRI_SCHEDULE_1F1B, p, 1, m, equal);
            SAME(held(&l, r), fmin(m, p - r));
            close_line(&l);
            open_chain(&l, TRI_SCHEDULE_ZB_H1, p, 1, m, equal);
            SAME(held(&l, r), fmin(m, p));
            close_line(&l);
            open_chain(&l, TRI_SCHEDULE_ZBV, p, 2, m, equal);
            if (m >= 2 * p - 1) SAME(held(&l, r), p);
            else assert_true(held(&l, r) <= fmin(m, p));
            close_line(&l);
            for (int v = 2; v <= 4 && m % p == 0; v++) {
                open_chain(&l, TRI_SCHEDULE_INTERLEAVED, p, v, m, equal);
                SAME(held(&l, r), fmin(m, ((v - 1) * p + 2 * (p - 1 - r) + 1) / (double)v));
                close_line(&l);
            }
        }
    }
    line l;
    open_chain(&l, TRI_SCHEDULE_ZB_H1, 8, 2, 32, equal);
    SAME(worst_peak(&l), 8);
    close_line(&l);
}

/* Two branches side by side against the same stages in a row. */
TEST(branches) {
    static const struct {
        int k, m;
        double dag, chain;
        int dag_peak, chain_peak;
    } rows[] = {
        {2, 4, 20.0, 42.9, 3, 4},  {2, 8, 11.1, 27.3, 3, 5},   {4, 8, 27.3, 46.7, 5, 8},
        {4, 16, 15.8, 30.4, 5, 9}, {6, 16, 23.8, 40.7, 7, 13},
    };
    for (int i = 0; i < 5; i++) {
        int k = rows[i].k, m = rows[i].m;
        line l;
        open_branches(&l, TRI_SCHEDULE_1F1B, k, k, m, 0.05);
        assert_float_equal(100 * (1 - 3 * m / l.dry.span), rows[i].dag, 0.05);
        SAME(worst_peak(&l), rows[i].dag_peak);
        close_line(&l);
        open_chain(&l, TRI_SCHEDULE_1F1B, 2 * k + 1, 1, m, equal);
        l.time[2 * k] = (tri_stage_time){0.05, 0.05, 0.05};
        run(&l, 0);
        assert_float_equal(100 * (1 - 3 * m / l.dry.span), rows[i].chain, 0.05);
        SAME(worst_peak(&l), rows[i].chain_peak);
        close_line(&l);
    }
    line plain, late; /* holding gradients of weights back pays on branches too */
    open_branches(&plain, TRI_SCHEDULE_1F1B, 4, 4, 16, 0);
    open_branches(&late, TRI_SCHEDULE_ZB_H1, 4, 4, 16, 0);
    SAME(plain.dry.span - 48, 9);
    SAME(late.dry.span - 48, 3);
    close_line(&plain), close_line(&late);
}

/* A message's time is waited for once a hop at the ends of a step. */
TEST(hops) {
    line l;
    open_chain(&l, TRI_SCHEDULE_GPIPE, 4, 1, 8, equal);
    double before = l.dry.span;
    run(&l, 0.25);
    SAME(l.dry.span, before + 2 * 3 * 0.25);
    close_line(&l);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
