/* sagemaker.c - POST /invocations, as SageMaker's containers answer it: rows as JSON (the shape of /predict),
 * JSON lines or CSV by Content-Type; the answer by Accept: JSON as /predict, or the lines that `trident predict`
 * writes. */
#include "serve/server/server_parts.h"

static void put_csv(const tri_prediction *told, tri_buffer *out) {
    const tri_model_facts *facts = told->facts;
    TRI_OWNED(tri__buffer_free) tri_buffer space = {0};
    if (!facts->is_number) tri__buffer_put(out, facts->separator ? "labels" : "label");
    for (int c = 0; c < facts->n_classes; c++) {
        if (c || !facts->is_number) tri__buffer_add(out, ",", 1);
        tri__buffer_csv(out, ',', facts->is_number ? "" : "prob_", facts->label[c], strlen(facts->label[c]));
    }
    tri__buffer_add(out, "\n", 1);
    for (int64_t i = 0; i < told->rows; i++) {
        const float *probs = told->probs + i * facts->n_classes;
        const char *label = facts->is_number ? "" : tri__label_of(told, i, &space);
        if (*label) tri__buffer_csv(out, ',', "", label, strlen(label));
        for (int c = 0; c < facts->n_classes; c++)
            tri__put_probability(out, c || !facts->is_number ? "," : "", probs[c]);
        tri__buffer_add(out, "\n", 1);
    }
}

static void put_line(const tri_prediction *told, int64_t row, tri_buffer *out) {
    const tri_model_facts *facts = told->facts;
    const float *probs = told->probs + row * facts->n_classes;
    tri__buffer_put(out, facts->is_number ? "{\"numbers\":{" : facts->separator ? "{\"labels\":[" : "{\"label\":");
    for (int c = 0, some = 0; facts->separator && c < facts->n_classes; c++)
        if (tri__decision_has(facts->decision, c, probs[c])) tri__put_string(out, some++ ? "," : "", facts->label[c]);
    if (!facts->is_number && !facts->separator) tri__put_string(out, "", tri__label_of(told, row, NULL));
    if (!facts->is_number) tri__buffer_put(out, facts->separator ? "],\"probabilities\":{" : ",\"probabilities\":{");
    for (int c = 0; c < facts->n_classes; c++) {
        tri__put_string(out, c ? "," : "", facts->label[c]);
        tri__put_probability(out, ":", probs[c]);
    }
    tri__buffer_put(out, "}}\n");
}

static size_t render(const tri_prediction *told, tri_buffer *out) {
    if (told->form == TRI_ROWS_CSV) put_csv(told, out);
    else if (told->form == TRI_ROWS_JSON) tri__protocol_tei.render(told, out);
    else
        for (int64_t i = 0; i < told->rows; i++) put_line(told, i, out);
    return 0;
}

const tri_protocol tri__protocol_sagemaker = {.parse = tri__tei_parse, .render = render, .by_accept = 1};

static void invocations(void *context, tri_exchange *exchange) {
    tri__predict(context, exchange, tri__exchange_query(exchange, "model"), &tri__protocol_sagemaker);
}

const tri_http_route tri__routes_sagemaker[] = {
    {"POST", "/invocations", invocations, 0, 0}, {"GET", "/ping", tri__handle_ready, 1, 1}, {0}};
