/* drift.c - counters of two halves: one fills, the other is kept; when it is full, the older one begins anew. */
#include "serve/infer/drift.h"

#include "data/dataset/reference.h"
#include "serve/infer/encode.h"
#include "serve/infer/number_outputs.h"

enum { LEAST = 100 }; /* rows: fewer say nothing */

tri_status tri__drift_open(const tri_opened *o, const tri_decision *decision, int members, tri_drift **out) {
    const tri_json *state = tri__checkpoint_state(o->checkpoint), *inputs = tri__json_get(state, "reference"),
                   *answers = members > 1 || o->stack ? NULL : tri__json_get(state, "answers");
    const tri_preprocess *p = o->preprocess;
    const char *path = tri__checkpoint_path(o->checkpoint);
    *out = NULL;
    if (!inputs) return TRI_OK;
    TRI_TRY(TRI_NEW(*out, 1, "a reference"));
    tri_drift *d = *out;
    pthread_mutex_init(&d->lock, NULL);
    d->most = TRI_DRIFT_WINDOW / 2, d->n_columns = p->n_columns;
    d->form = (tri_answer_form){.n = tri__outputs(o), .label = p->label, .decision = decision,
                                .several = p->separator != NULL, .is_number = tri__preprocess_is_number(p)};
    TRI_TRY(tri__reference_make(p, &d->bins));
    TRI_TRY(tri__bins_parse(inputs, path, 0, &d->bins));
    d->n_inputs = d->bins.n;
    if (answers) TRI_TRY(tri__answers_make(&d->form, &d->bins));
    if (answers) TRI_TRY(tri__bins_parse(answers, path, d->n_inputs, &d->bins));
    TRI_TRY(TRI_NEW(d->value, d->bins.n + 1, "a reference"));
    TRI_TRY(TRI_NEW(d->half[0], d->bins.n + 1, "a reference"));
    return TRI_NEW(d->half[1], d->bins.n + 1, "a reference");
}

void tri__drift_close(tri_drift *d) {
    if (!d) return;
    tri__bins_free(&d->bins);
    pthread_mutex_destroy(&d->lock);
    TRI_FREE(d->value, d->half[0], d->half[1], d);
}

static void add(const tri_drift *d, int at, float value) { d->half[0][at][tri__bins_at(&d->bins.at[at], value)]++; }

void tri__drift_add(tri_drift *d, const tri_encoded *e) {
    TRI_LOCKED(&d->lock);
    for (int64_t row = 0; row < e->n; row++) {
        if (d->rows[0] == d->most) {
            tri_bin_counts *oldest = d->half[1];
            d->half[1] = d->half[0], d->half[0] = oldest, d->rows[1] = d->rows[0], d->rows[0] = 0;
            memset(oldest, 0, (size_t)d->bins.n * sizeof *oldest);
        }
        d->rows[0]++;
        for (int c = 0; c < d->n_columns; c++) add(d, c, e->column[row * d->n_columns + c]);
        for (int t = 0; t < e->n_texts; t++) {
            const int64_t *start = e->start + row * e->n_texts + t;
            add(d, d->n_columns + t, (float)(start[1] - start[0]));
        }
        if (d->bins.n > d->n_inputs) tri__answer_values(&d->form, e->probs + row * d->form.n, d->value);
        for (int f = d->n_inputs; f < d->bins.n; f++) add(d, f, d->value[f - d->n_inputs]);
    }
}

int tri__drift_read(tri_drift *d, int at, tri_drift_of *out) {
    if (at >= d->bins.n) return 0;
    const tri_bins *b = &d->bins.at[at];
    *out = (tri_drift_of){.bins = b, .psi = NAN, .by_chance = NAN,
                          .kind = at < d->n_columns ? "column" : at < d->n_inputs ? "text" : "answer"};
    TRI_LOCKED(&d->lock);
    out->rows = d->rows[0] + d->rows[1];
    for (int k = 0; k <= b->n; k++) out->count[k] = d->half[0][at][k] + d->half[1][at][k];
    if (out->rows >= LEAST) out->psi = tri__bins_psi(b->count, out->count, b->n + 1, &out->by_chance);
    return 1;
}
