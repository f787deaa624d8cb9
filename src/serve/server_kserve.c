/* server_kserve.c - the Open Inference Protocol (KServe v2): an input tensor for each column, of shape [n] or [n, 1];
 * the outputs `label` (BYTES [n]) and `probabilities` (FP32 [n, classes]). */
#include "serve/server_parts.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

typedef enum tensor_kind { TEXT, INTEGER, REAL, TRUTH } tensor_kind;
static const struct {
    const char *name;
    tensor_kind kind;
} types[] = {
    {"BYTES", TEXT},     {"FP32", REAL},      {"FP64", REAL},    {"FP16", REAL},     {"INT64", INTEGER},
    {"INT32", INTEGER},  {"INT16", INTEGER},  {"INT8", INTEGER}, {"UINT8", INTEGER}, {"UINT16", INTEGER},
    {"UINT32", INTEGER}, {"UINT64", INTEGER}, {"BOOL", TRUTH},
};

static tri_status kind_of(const char *name, const tri_json *tensor, tensor_kind *out) {
    const char *type = tri__json_string_value(tri__json_get(tensor, "datatype"));
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, type)) return *out = types[i].kind, TRI_OK;
    return tri__fail(TRI_USAGE, "input \"%.100s\": datatype %s%.40s%s; BYTES, FP32, FP64, INT64 or BOOL are expected",
                     name, type ? "\"" : "is missing", type ? type : "", type ? "\"" : "");
}

/* [n] or [n, 1] */
static tri_status rows_of_shape(const char *name, const tri_json *tensor, int64_t *out) {
    const tri_json *shape = tri__json_get(tensor, "shape"), *first = tri__json_at(shape, 0);
    size_t dims = tri__json_size(shape);
    if (dims < 1 || dims > 2 || !tri__json_is_integer(first) || tri__json_integer_value(first) < 0 ||
        (dims == 2 && tri__json_integer_value(tri__json_at(shape, 1)) != 1))
        return tri__fail(TRI_USAGE, "input \"%.100s\": a shape [n] or [n, 1] is expected", name);
    *out = tri__json_integer_value(first);
    return TRI_OK;
}

static int fits(const tri_json *value, tensor_kind kind) {
    if (tri__json_is_null(value)) return 1; /* missing */
    switch (kind) {
    case TEXT: return tri__json_is_string(value);
    case INTEGER: return tri__json_is_integer(value);
    case REAL: return tri__json_is_number(value);
    case TRUTH: return tri__json_is_boolean(value);
    }
    return 0;
}

/* Puts the tensor's values into the rows, objects of a list. */
static tri_status spread(const char *name, const tri_json *tensor, tri_json *rows) {
    const tri_json *data = tri__json_get(tensor, "data"), *value;
    tensor_kind kind = TEXT;
    int64_t n;
    size_t i;
    TRI_TRY(kind_of(name, tensor, &kind));
    TRI_TRY(rows_of_shape(name, tensor, &n));
    if (!tri__json_is_array(data) || (int64_t)tri__json_size(data) != n)
        return tri__fail(TRI_USAGE, "input \"%.100s\": its shape says %lld values, its data has %zu", name,
                         (long long)n, tri__json_size(data));
    if (n != (int64_t)tri__json_size(rows))
        return tri__fail(TRI_USAGE, "input \"%.100s\" has %lld rows, the first input has %zu", name, (long long)n,
                         tri__json_size(rows));
    tri__json_each(data, i, value) {
        if (tri__json_is_array(value) && tri__json_size(value) == 1) value = tri__json_at(value, 0);
        if (!fits(value, kind))
            return tri__fail(TRI_USAGE, "input \"%.100s\", value %zu is not of its datatype", name, i + 1);
        if (tri__json_set(tri__json_at(rows, i), name, value)) return tri__fail(TRI_RESOURCE, "out of memory");
    }
    return TRI_OK;
}

static tri_status parse_inputs(const tri_json *inputs, tri_json *rows) {
    const tri_json *tensor, *first = tri__json_at(inputs, 0);
    size_t i;
    int64_t n = 0;
    if (!tri__json_size(inputs))
        return tri__fail(TRI_USAGE, "\"inputs\" is missing: a list of {\"name\", \"shape\", \"datatype\", \"data\"}");
    TRI_TRY(rows_of_shape("1", first, &n));
    if (n != (int64_t)tri__json_size(tri__json_get(first, "data"))) n = 0; /* refused below, before memory is taken */
    for (int64_t k = 0; k < n; k++) tri__json_append_new(rows, tri__json_object());
    tri__json_each(inputs, i, tensor) {
        const char *name = tri__json_string_value(tri__json_get(tensor, "name"));
        if (!name || !*name || strlen(name) != tri__json_string_length(tri__json_get(tensor, "name")))
            return tri__fail(TRI_USAGE, "input %zu has no name; inputs are named as columns", i + 1);
        if (tri__json_get(tri__json_at(rows, 0), name)) return tri__fail(TRI_USAGE, "input \"%.100s\" twice", name);
        TRI_TRY(spread(name, tensor, rows));
    }
    return tri__json_is_whole(rows) ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

static tri_status parse_outputs(const tri_json *outputs, tri_ask *out) {
    const tri_json *one;
    size_t i;
    if (!tri__json_size(outputs)) return TRI_OK;
    out->omit_label = out->omit_probabilities = 1;
    tri__json_each(outputs, i, one) {
        const char *name = tri__json_string_value(tri__json_get(one, "name"));
        if (name && !strcmp(name, "label")) out->omit_label = 0;
        else if (name && !strcmp(name, "probabilities")) out->omit_probabilities = 0;
        else
            return tri__fail(TRI_USAGE, "output \"%.100s\": there are \"label\" and \"probabilities\"",
                             name ? name : "");
    }
    return TRI_OK;
}

static tri_status parse_object(const tri_json *root, tri_json *rows, tri_ask *out) {
    const tri_json *id = tri__json_get(root, "id"), *truncate = tri__json_get(tri__json_get(root, "parameters"),
                                                                              "truncate");
    if (id && !tri__json_is_string(id)) return tri__fail(TRI_USAGE, "\"id\": a string is expected");
    if (id && !(out->id = strdup(tri__json_string_value(id)))) return tri__fail(TRI_RESOURCE, "out of memory");
    if (truncate && !tri__json_is_boolean(truncate))
        return tri__fail(TRI_USAGE, "parameter \"truncate\": true or false is expected");
    if (truncate) out->truncate = tri__json_is_true(truncate);
    TRI_TRY(parse_outputs(tri__json_get(root, "outputs"), out));
    TRI_TRY(parse_inputs(tri__json_get(root, "inputs"), rows));
    return tri__rows_of_json(rows, "inputs", NULL, &out->rows);
}

tri_status tri__kserve_parse(const tri_ask_in *in, tri_ask *out) {
    tri_json *root, *rows;
    *out = (tri_ask){.truncate = -1};
    if (in->form != TRI_ROWS_JSON) return tri__fail(TRI_USAGE, "the Open Inference Protocol is JSON");
    TRI_TRY(tri__json_parse(in->body, in->length, "body", TRI_DATA, &root));
    rows = tri__json_array();
    tri_status status = rows ? parse_object(root, rows, out) : tri__fail(TRI_RESOURCE, "out of memory");
    tri__json_decref(rows);
    tri__json_decref(root);
    return status;
}

static void render(const tri_prediction *told, tri_buffer *out) {
    const tri_model_facts *facts = told->facts;
    int n = facts->n_classes;
    tri__buffer_put(out, "{\"model_name\":");
    tri__buffer_json(out, told->name, strlen(told->name));
    if (told->ask->id) {
        tri__buffer_put(out, ",\"id\":");
        tri__buffer_json(out, told->ask->id, strlen(told->ask->id));
    }
    tri__buffer_put(out, ",\"outputs\":[");
    if (!told->ask->omit_label) {
        tri__buffer_put(out, "{\"name\":\"label\",\"datatype\":\"BYTES\",\"shape\":[%lld],\"data\":[",
                        (long long)told->rows);
        for (int64_t i = 0; i < told->rows; i++) {
            const char *label = facts->label[tri__decision_class(facts->decision, told->probs + i * n, n)];
            if (i) tri__buffer_add(out, ",", 1);
            tri__buffer_json(out, label, strlen(label));
        }
        tri__buffer_put(out, "]}%s", told->ask->omit_probabilities ? "" : ",");
    }
    if (!told->ask->omit_probabilities) {
        tri__buffer_put(out, "{\"name\":\"probabilities\",\"datatype\":\"FP32\",\"shape\":[%lld,%d],\"data\":[",
                        (long long)told->rows, n);
        for (int64_t i = 0; i < told->rows * n; i++) {
            if (i) tri__buffer_add(out, ",", 1);
            tri__put_probability(out, told->probs[i]);
        }
        tri__buffer_put(out, "]}");
    }
    tri__buffer_put(out, "]}");
}

const tri_protocol tri__protocol_kserve = {.parse = tri__kserve_parse, .render = render};

/* ---- what is said about models ---- */

void tri__handle_kserve_server(void *context, tri_exchange *exchange) {
    tri_buffer out = {0};
    size_t size;
    (void)context;
    tri__buffer_put(&out, "{\"name\":\"trident\",\"version\":\"%s\",\"extensions\":[]}", tri_version());
    char *text = tri__buffer_take(&out, &size);
    tri__exchange_reply(exchange, 200, "application/json", text, size);
}

static void put_input(tri_buffer *out, const char *name, const char *type, int *n) {
    tri__buffer_put(out, "%s{\"name\":", (*n)++ ? "," : "");
    tri__buffer_json(out, name, strlen(name));
    tri__buffer_put(out, ",\"datatype\":\"%s\",\"shape\":[-1]}", type);
}

void tri__handle_kserve_model(void *context, tri_exchange *exchange) {
    tri_server *server = context;
    tri_served *served = tri__server_find(server, exchange, tri__exchange_part(exchange));
    if (!served) return;
    tri_live *live = tri__server_use(server, served);
    const tri_model_facts *facts = live->facts;
    tri_buffer out = {0};
    size_t size;
    int n = 0;
    tri__buffer_put(&out, "{\"name\":");
    tri__buffer_json(&out, served->name, strlen(served->name));
    tri__buffer_put(&out, ",\"versions\":[\"%lld\"],\"platform\":\"trident\",\"inputs\":[", (long long)facts->step);
    for (int t = 0; t < facts->n_texts; t++)
        for (int i = 0; i < facts->n_text_columns[t]; i++) put_input(&out, facts->text[t][i], "BYTES", &n);
    for (int c = 0; c < facts->n_columns; c++) {
        const tri_value_form *form = facts->form[c];
        int text = facts->category[c] || form->kind == TRI_FORM_DATE || form->unit[0] == '%';
        put_input(&out, facts->column[c], text ? "BYTES" : "FP64", &n);
    }
    tri__buffer_put(&out, "],\"outputs\":[{\"name\":\"label\",\"datatype\":\"BYTES\",\"shape\":[-1]},"
                    "{\"name\":\"probabilities\",\"datatype\":\"FP32\",\"shape\":[-1,%d]}]}", facts->n_classes);
    tri__server_release(server, live);
    char *text = tri__buffer_take(&out, &size);
    tri__exchange_reply(exchange, 200, "application/json", text, size);
}

void tri__handle_kserve_model_ready(void *context, tri_exchange *exchange) {
    static const char ready[] = "{\"ready\":true}";
    tri_server *server = context;
    if (!tri__server_find(server, exchange, tri__exchange_part(exchange))) return;
    if (tri__http_draining(server->http))
        tri__exchange_error(exchange, 503, "Unhealthy", "the server is shutting down");
    else tri__exchange_reply_const(exchange, 200, "application/json", ready, sizeof ready - 1);
}
