/* mesh_cases.c - see mesh_cases.h. */
#include "tests/lib/mesh_cases.h"

run mesh_run(const mesh_cases *all, const mesh_case *c, mesh_words *text) {
    const mesh_family *f = &all->families[c->family];
    int beside = strcmp(all->axis, "cp") == 0 ? c->shared : 1, n = 0;
    run made = {.config = f->config, .output = "shared", .ranks = beside * c->tp * c->pp * c->dp, .steps = MESH_STEPS,
                .evaluate = 1};
    snprintf(text->mesh[0], 48, "--%s-size=%d", all->axis, c->shared);
    snprintf(text->mesh[1], 48, "--tp-size=%d", c->tp);
    snprintf(text->mesh[2], 48, "--pp-size=%d", c->pp);
    snprintf(text->mesh[3], 48, "--dp-size=%d", c->dp);
    snprintf(text->mesh[4], 48, "--num-microbatches=%d", c->mb);
    for (; n < 5; n++) made.option[n] = text->mesh[n];
    if (c->tp > 1 && all->split_option) made.option[n++] = all->split_option;
    for (int i = 0; f->option[i]; i++) {
        made.option[n++] = f->option[i];
        if (!strstr(f->option[i], "%s")) continue;
        snprintf(text->data, sizeof text->data, f->option[i], root);
        made.option[n - 1] = text->data;
    }
    for (int i = 0; i < 3 && c->more[i]; i++) made.option[n++] = c->more[i];
    assert_true(n <= RUN_OPTIONS);
    return made;
}

double mesh_bound(const mesh_cases *all, const mesh_case *c) {
    double bound = all->families[c->family].bound;
    return bound > 0 ? bound : c->tp > 1 ? 1e-5 : 2e-6;
}

static void mesh_expect_near(const mesh_cases *all, const mesh_case *c, const run *one, const run *have) {
    const mesh_family *f = &all->families[c->family];
    char name[192];
    double most = mesh_bound(all, c);
    snprintf(name, sizeof name, "%s %s: %s %d, tp %d, pp %d, dp %d %s %s", f->config, f->option[0] ? f->option[0] : "",
             all->axis, c->shared, c->tp, c->pp, c->dp, c->more[0] ? c->more[0] : "",
             c->more[0] && c->more[1] ? c->more[1] : "");
    for (int k = 0; k < MESH_STEPS; k++)
        if (!(fabs(have->loss[0][k] - one->loss[0][k]) <= most * fmax(one->loss[0][k], 0.1)))
            fail_msg("%s: loss of step %d is %.9g, not %.9g", name, k + 1, have->loss[0][k], one->loss[0][k]);
    for (int rank = 0; rank < have->ranks; rank++)
        if (!(fabs(have->scores[rank].loss - one->scores[0].loss) <= fmax(most, 1e-5)))
            fail_msg("%s: rank %d evaluates %.9g, not %.9g", name, rank, have->scores[rank].loss, one->scores[0].loss);
    if (all->also) all->also(c, name, most, one, have);
}

void mesh_like_one_rank(const mesh_cases *all) {
    enum { FAMILIES = 16 };
    int whole = soak_count("SOAK_STEPS", 0) > 0;
    run *one[FAMILIES] = {NULL};
    for (int i = 0; i < all->n; i++) {
        const mesh_case *c = &all->at[i];
        mesh_words text;
        assert_true(c->family < FAMILIES);
        if (!whole && !c->sampled) continue;
        if (!one[c->family]) {
            run alone = mesh_run(all, &(mesh_case){c->family, 1, 1, 1, 1, 1, 1, {NULL}}, &text);
            alone.ranks = 0, alone.output = "one";
            one[c->family] = run_on(&alone);
        }
        run asked = mesh_run(all, c, &text), *have = run_on(&asked);
        mesh_expect_near(all, c, one[c->family], have);
        run_free(have);
    }
    for (int f = 0; f < FAMILIES; f++) run_free(one[f]);
}

void mesh_write_long(const char *name, int rows, int least, int most) {
    char *text = calloc(1, (size_t)rows * 8 * (size_t)most + 64), *at = text;
    at += sprintf(at, "review,title,age,score,label\n");
    for (int i = 0; i < rows; i++) {
        int first = i * 7 % 20, words = least + i * 37 % (most - least), others = least + i * 11 % (most - least) / 2;
        for (int w = 0; w < words; w++) at += sprintf(at, "w%d ", (first + w * (w + i % 3)) % 20);
        at += sprintf(at, ",");
        for (int w = 0; w < others; w++) at += sprintf(at, "w%d ", (first + 3 * w) % 20);
        at += sprintf(at, ",%d,%d,%d\n", 18 + i % 60, i % 5, first < 10);
    }
    write_file(name, text);
    free(text);
}

void mesh_expect_fit(tiny *t, const char *name) {
    tri_classes all[TRI_PROGRAMS];
    if (tri__plan_ranks(&t->arena, &t->in, 1, all) != TRI_OK) fail_msg("%s: %s", name, tri_error());
    for (int i = 0; i < TRI_PROGRAMS; i++)
        if (tri__check_all(&all[i]) != TRI_OK) fail_msg("%s, program %d: %s", name, i, tri_error());
}
