/* answers.c - answers of validation rows in bins. */
#include "score/answers.h"

tri_status tri__answers_make(const tri_answer_form *form, tri_bin_set *out) {
    if (form->is_number) return tri__bins_add("prediction", 0, out);
    for (int c = 0; c < form->n && form->several; c++) TRI_TRY(tri__bins_add(form->label[c], 2, out));
    if (!form->several) TRI_TRY(tri__bins_add("label", form->n, out));
    return tri__bins_add("confidence", 0, out);
}

void tri__answer_values(const tri_answer_form *form, const float *row, float *value) {
    float most = 0, least = 1;
    if (form->is_number) *value = row[0];
    if (form->is_number) return;
    for (int c = 0; c < form->n; c++) {
        most = fmaxf(most, row[c]), least = fminf(least, fmaxf(row[c], 1 - row[c]));
        if (form->several) *value++ = (float)tri__decision_has(form->decision, c, row[c]);
    }
    if (!form->several) *value++ = (float)tri__decision_class(form->decision, row, form->n);
    *value = form->several ? least : most;
}

tri_status tri__answers_fit(const tri_answer_form *form, const float *answers, int64_t rows, tri_json **out) {
    TRI_OWNED(tri__bins_free) tri_bin_set set = {0};
    TRI_OWNED(tri__free_at) float *values = NULL; /* [rows, set.n] */
    TRI_TRY(tri__answers_make(form, &set));
    TRI_TRY(TRI_NEW(values, rows * set.n + 1, "answers"));
    for (int64_t i = 0; i < rows; i++) tri__answer_values(form, answers + i * form->n, values + i * set.n);
    return tri__bins_fit(&set, values, rows, rows, out);
}
