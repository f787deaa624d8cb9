/* model.c - the public interface of prediction, on top of serve/infer/model.h. */
#include "api/options.h"
#include "serve/infer/model.h"

tri_status tri_model_open(int n_options, const char *const *options, tri_model **out) {
    tri_settings settings;
    *out = NULL;
    tri_status status = tri__api_options(&settings, "predict", n_options, options);
    if (status == TRI_OK) status = tri__model_open(&settings, NULL, NULL, out);
    tri__settings_free(&settings);
    return tri__done(status);
}

void tri_model_close(tri_model *model) { tri__model_close(model); }

int tri_model_classes(const tri_model *model) { return tri__model_facts(model)->n_classes; }

const char *tri_model_label(const tri_model *model, int index) {
    const tri_model_facts *facts = tri__model_facts(model);
    return index >= 0 && index < facts->n_classes ? facts->label[index] : NULL;
}

const char *tri_model_column(const tri_model *model, int index) { return tri__model_column(model, index); }

int tri_model_decide(const tri_model *model, const float *probabilities) {
    const tri_model_facts *facts = tri__model_facts(model);
    return tri__decision_class(facts->decision, probabilities, facts->n_classes);
}

tri_status tri_model_predict(tri_model *model, const tri_row *rows, int64_t n, float *probabilities) {
    return tri__done(tri__model_predict(model, rows, n, probabilities));
}
