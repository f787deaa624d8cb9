/* tei.c - POST /predict: the shape of Hugging Face's text-embeddings-inference, with rows by column names.
 *
 *   {"inputs": [{"Review Text": "...", "Age": 33}, ...], "truncate": true}   ->  [[{"score": 0.9, "label": "1"}, ...]]
 *   {"inputs": {"Review Text": "..."}}                                       ->  [{"score": 0.9, "label": "1"}, ...]
 *
 * For a model that reads one column of text, a row may be a string. The label comes first, then the other classes by
 * falling score: without a threshold, all of them. */
#include "serve/server/server_parts.h"

#include <limits.h>

static tri_status take_bool(const tri_json *root, const char *key, int *out) {
    const tri_json *value = tri__json_get(root, key);
    if (!value || tri__json_is_null(value)) return TRI_OK;
    if (!tri__json_is_boolean(value)) return tri__fail(TRI_USAGE, "\"%s\": true or false is expected", key);
    *out = tri__json_is_true(value);
    return TRI_OK;
}

/* Members that are not known are refused: a misspelt "truncate" must not be dropped. */
static tri_status check_names(const tri_json *object, const char *where, const char *const *known, int n) {
    tri__json_members(object, m) {
        if (tri__text_index(m->key, known, n) >= 0) continue;
        const char *near = tri__text_nearest(m->key, known, n);
        return tri__fail(TRI_USAGE, "\"%.100s\" is not a member of %s%s%s%s", m->key, where,
                         near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    }
    return TRI_OK;
}

/* What Hugging Face's clients ask for in "parameters". */
static tri_status parse_parameters(const tri_json *of, tri_ask *out) {
    static const char *const known[] = {"top_k", "function_to_apply", "truncation", "truncate"};
    const tri_json *top = tri__json_get(of, "top_k"), *function = tri__json_get(of, "function_to_apply");
    const char *name = tri__json_string_value(function);
    if (!of || tri__json_is_null(of)) return TRI_OK;
    if (!tri__json_is_object(of)) return tri__fail(TRI_USAGE, "\"parameters\": an object is expected");
    TRI_TRY(check_names(of, "\"parameters\"", known, sizeof known / sizeof *known));
    TRI_TRY(take_bool(of, "truncation", &out->truncate));
    TRI_TRY(take_bool(of, "truncate", &out->truncate));
    if (function && !tri__json_is_null(function) && (!name || strcmp(name, "softmax")))
        return tri__fail(TRI_USAGE, "\"function_to_apply\": the model answers with probabilities, as by \"softmax\"");
    if (!top || tri__json_is_null(top)) return TRI_OK;
    if (!tri__json_is_integer(top) || tri__json_integer_value(top) < 1)
        return tri__fail(TRI_USAGE, "\"top_k\": a whole number of at least 1 is expected");
    out->top_k = tri__json_integer_value(top) < INT_MAX ? (int)tri__json_integer_value(top) : INT_MAX;
    return TRI_OK;
}

static tri_status check_members(const tri_json *root) {
    static const char *const known[] = {"inputs", "parameters", "truncate", "raw_scores", "truncation_direction"};
    TRI_TRY(check_names(root, "the request", known, sizeof known / sizeof *known));
    const tri_json *value = tri__json_get(root, "truncation_direction");
    if (value && !tri__json_is_null(value) &&
        (!tri__json_is_string(value) || strcasecmp(tri__json_string_value(value), "right")))
        return tri__fail(TRI_USAGE, "\"truncation_direction\": texts are cut at their end: \"Right\" is expected");
    return TRI_OK;
}

static tri_status parse_inputs(const tri_json *inputs, const tri_ask_in *in, tri_ask *out) {
    if (!inputs)
        return tri__fail(TRI_USAGE, "\"inputs\" is missing: a list of rows {\"column\": value, ...}, or one row");
    if (tri__json_is_array(inputs)) return tri__rows_of_json(inputs, "inputs", in->text_column, &out->rows);
    TRI_OWNED(tri__json_drop) tri_json *list = tri__json_array();
    tri__json_append(list, inputs);
    out->single = 1;
    return tri__json_is_whole(list) ? tri__rows_of_json(list, "inputs", in->text_column, &out->rows)
                                    : tri__fail(TRI_RESOURCE, "out of memory");
}

static tri_status parse_object(const tri_json *root, const tri_ask_in *in, tri_ask *out) {
    int raw = 0;
    TRI_TRY(check_members(root));
    TRI_TRY(parse_parameters(tri__json_get(root, "parameters"), out));
    TRI_TRY(take_bool(root, "truncate", &out->truncate));
    TRI_TRY(take_bool(root, "raw_scores", &raw));
    if (raw) return tri__fail(TRI_USAGE, "\"raw_scores\": the model answers with probabilities, not with raw scores");
    return parse_inputs(tri__json_get(root, "inputs"), in, out);
}

tri_status tri__tei_parse(const tri_ask_in *in, tri_ask *out) {
    TRI_OWNED(tri__json_drop) tri_json *root = NULL;
    *out = (tri_ask){.truncate = -1};
    if (in->form == TRI_ROWS_LINES) return tri__rows_of_lines(in->body, in->length, &out->rows);
    if (in->form == TRI_ROWS_CSV) return tri__rows_of_csv(in->body, in->length, &out->rows);
    TRI_TRY(tri__json_parse_any(in->body, in->length, "body", TRI_DATA, &root));
    return tri__json_is_object(root) ? parse_object(root, in, out)
                                     : tri__fail(TRI_USAGE, "an object {\"inputs\": ...} is expected");
}

static void put_class(const tri_prediction *told, const float *probs, int class, int is_first, tri_buffer *out) {
    tri__put_probability(out, is_first ? "{\"score\":" : ",{\"score\":", probs[class]);
    tri__put_string(out, ",\"label\":", told->facts->label[class]);
    tri__buffer_add(out, "}", 1);
}

/* Of a model of numbers: an object of them. */
static void put_numbers(const tri_prediction *told, const float *numbers, tri_buffer *out) {
    for (int c = 0; c < told->facts->n_classes; c++) {
        tri__put_string(out, c ? "," : "{", told->facts->label[c]);
        tri__put_probability(out, ":", numbers[c]);
    }
    tri__buffer_add(out, "}", 1);
}

/* The label, then the other classes of a row by falling probability; equal ones in their order. */
static void put_row(const tri_prediction *told, const float *probs, tri_buffer *out) {
    int n = told->facts->n_classes, before = -1, label = tri__decision_class(told->facts->decision, probs, n);
    int most = told->ask->top_k && told->ask->top_k < n ? told->ask->top_k : n, written = 1;
    tri__buffer_add(out, "[", 1);
    put_class(told, probs, label, 1, out);
    while (written < most) {
        int best = -1;
        for (int c = 0; c < n; c++) {
            int is_later = before < 0 || probs[c] < probs[before] || (probs[c] == probs[before] && c > before);
            if (is_later && (best < 0 || probs[c] > probs[best])) best = c;
        }
        if (best < 0) break; /* not comparable: the model refuses such numbers */
        if (best != label) put_class(told, probs, best, 0, out), written++;
        before = best;
    }
    tri__buffer_add(out, "]", 1);
}

static size_t render(const tri_prediction *told, tri_buffer *out) {
    if (!told->ask->single) tri__buffer_add(out, "[", 1);
    for (int64_t i = 0; i < told->rows; i++) {
        if (i) tri__buffer_add(out, ",", 1);
        (told->facts->is_number ? put_numbers : put_row)(told, told->probs + i * told->facts->n_classes, out);
    }
    if (!told->ask->single) tri__buffer_add(out, "]", 1);
    return 0;
}

const tri_protocol tri__protocol_tei = {.parse = tri__tei_parse, .render = render};

/* POST /, where Hugging Face's InferenceClient sends its requests: for one row, too, it expects a list of lists. */
static tri_status parse_inference(const tri_ask_in *in, tri_ask *out) {
    TRI_TRY(tri__tei_parse(in, out));
    out->single = 0;
    return TRI_OK;
}

static void predict(void *context, tri_exchange *exchange) {
    tri__predict(context, exchange, tri__exchange_query(exchange, "model"), &tri__protocol_tei);
}

const tri_protocol tri__protocol_inference = {.parse = parse_inference, .render = render};

static void inference(void *context, tri_exchange *exchange) {
    tri__predict(context, exchange, tri__exchange_query(exchange, "model"), &tri__protocol_inference);
}

const tri_http_route tri__routes_tei[] = {{"POST", "/predict", predict, 0, 0}, {"POST", "/", inference, 0, 0}, {0}};
