/* kserve.c - the Open Inference Protocol (KServe v2): an input tensor for each column, of shape [n] or [n, 1];
 * the outputs `label` (BYTES [n]) and `probabilities` (FP32 [n, classes]). With its extension for binary tensors, as
 * Triton's clients send them by default: behind the JSON stand the values of each input that has a binary_data_size,
 * numbers as in memory, texts after their length in four bytes; outputs likewise where they were asked for so. */
#include "serve/server/server_parts.h"

#include "data/table/value_text.h"
#include "data/text/utf8.h"

typedef enum tensor_kind { TEXT, INTEGER, REAL, TRUTH } tensor_kind;
typedef struct datatype {
    const char *name;
    tensor_kind kind;
    size_t bytes;               /* of a binary value; BYTES: of its length */
    int64_t least, most;        /* of integers */
} datatype;
static const datatype types[] = {
    {"BYTES", TEXT, 4, 0, 0}, {"FP32", REAL, 4, 0, 0}, {"FP64", REAL, 8, 0, 0}, {"FP16", REAL, 2, 0, 0},
    {"INT64", INTEGER, 8, INT64_MIN, INT64_MAX}, {"INT32", INTEGER, 4, INT32_MIN, INT32_MAX},
    {"INT16", INTEGER, 2, INT16_MIN, INT16_MAX}, {"INT8", INTEGER, 1, INT8_MIN, INT8_MAX},
    {"UINT8", INTEGER, 1, 0, UINT8_MAX}, {"UINT16", INTEGER, 2, 0, UINT16_MAX}, {"UINT32", INTEGER, 4, 0, UINT32_MAX},
    {"UINT64", INTEGER, 8, 0, INT64_MAX}, /* larger ones are not read */
    {"BOOL", TRUTH, 1, 0, 0}};

/* Bytes of binary tensors, in the order of the inputs. */
typedef struct binary {
    const unsigned char *at;
    size_t left;
} binary;

typedef struct tensor {
    const char *name;
    const datatype *type;
    int64_t n;
    const tri_json *data;       /* [n]; NULL: it is binary */
    binary bytes;
} tensor;

/* ---- an input ---- */

static tri_status find_type(const char *name, const tri_json *json, const datatype **out) {
    const char *type = tri__text_in(json, "datatype");
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, type)) return *out = &types[i], TRI_OK;
    return tri__fail(TRI_USAGE, "input \"%.100s\": datatype %s%.40s%s; BYTES, FP32, FP64, INT64 or BOOL are expected",
                     name, type ? "\"" : "is missing", type ? type : "", type ? "\"" : "");
}

/* [n] or [n, 1] */
static tri_status rows_of_shape(const char *name, const tri_json *json, int64_t *out) {
    const tri_json *shape = tri__json_get(json, "shape"), *first = tri__json_at(shape, 0);
    size_t dims = tri__json_size(shape);
    if (dims < 1 || dims > 2 || !tri__json_is_integer(first) || tri__json_integer_value(first) < 0 ||
        (dims == 2 && tri__json_integer_value(tri__json_at(shape, 1)) != 1))
        return tri__fail(TRI_USAGE, "input \"%.100s\": a shape [n] or [n, 1] is expected", name);
    *out = tri__json_integer_value(first);
    return TRI_OK;
}

/* Its share of the binary bytes, which are at least as many as n values need. */
static tri_status take_bytes(tensor *t, const tri_json *json, binary *rest) {
    const tri_json *size = tri__json_get(tri__json_get(json, "parameters"), "binary_data_size");
    tri_json_int said = tri__json_integer_value(size);
    if (!tri__json_is_integer(size) || said < 0 || (uint64_t)said > rest->left)
        return tri__fail(TRI_USAGE, "input \"%.100s\": binary_data_size is not the size of bytes that follow the JSON",
                         t->name);
    int fits = t->type->kind == TEXT ? t->n <= said / 4 : t->n <= said && t->n * (int64_t)t->type->bytes == said;
    if (!fits)
        return tri__fail(TRI_USAGE, "input \"%.100s\": its shape says %lld values of %s, its binary data has %lld "
                         "bytes", t->name, (long long)t->n, t->type->name, (long long)said);
    t->bytes = (binary){rest->at, (size_t)said};
    rest->at += said, rest->left -= (size_t)said;
    return TRI_OK;
}

/* The input of that number. */
static tri_status open_tensor(const tri_json *json, size_t number, binary *rest, tensor *t) {
    const tri_json *name = tri__json_get(json, "name"), *data = tri__json_get(json, "data");
    const char *place = TRI_TEXT(24, "%zu", number + 1);
    t->name = tri__json_string_value(name);
    TRI_TRY(rows_of_shape(t->name ? t->name : place, json, &t->n));
    if (!t->name || !*t->name || strlen(t->name) != tri__json_string_length(name))
        return tri__fail(TRI_USAGE, "input %s has no name; inputs are named as columns", place);
    TRI_TRY(find_type(t->name, json, &t->type));
    if (tri__json_get(tri__json_get(json, "parameters"), "binary_data_size")) {
        if (data) return tri__fail(TRI_USAGE, "input \"%.100s\" has both data and binary data", t->name);
        return take_bytes(t, json, rest);
    }
    t->data = data;
    if (!tri__json_is_array(data) || (int64_t)tri__json_size(data) != t->n)
        return tri__fail(TRI_USAGE, "input \"%.100s\": its shape says %lld values, its data has %zu", t->name,
                         (long long)t->n, tri__json_size(data));
    return TRI_OK;
}

/* ---- its values ---- */

static tri_status bad_value(const tensor *t, size_t i, const char *why) {
    return tri__fail(TRI_USAGE, "input \"%.100s\", value %zu %s %s", t->name, i + 1, why, t->type->name);
}

/* A number that is not one is a missing value; one that is not finite is refused. */
static tri_status real_of(const tensor *t, size_t i, double value, tri_json **out) {
    double most = t->type->bytes == 2 ? 65504 : t->type->bytes == 4 ? (double)FLT_MAX : DBL_MAX;
    if (fabs(value) > most) return bad_value(t, i, "is out of the range that is read of");
    *out = isnan(value) ? tri__json_null() : tri__json_real(value);
    return TRI_OK;
}

/* IEEE 754's binary16. */
static double half_of(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                                 : ldexp(exponent ? 1024 + fraction : fraction, (exponent ? exponent : 1) - 25);
    return bits >> 15 ? -size : size;
}

static tri_status text_of(tensor *t, size_t i, uint32_t length, tri_json **out) {
    if (length > t->bytes.left) return bad_value(t, i, "ends beyond the binary data of its");
    const char *text = (const char *)t->bytes.at;
    if (tri__utf8_fault(text, length) != length) return bad_value(t, i, "is not UTF-8, as texts are expected to be in");
    *out = tri__json_stringn(text, length);
    t->bytes.at += length, t->bytes.left -= length;
    return TRI_OK;
}

/* The next one of the binary data; little-endian. */
static tri_status binary_value(tensor *t, size_t i, tri_json **out) {
    size_t bytes = t->type->bytes;
    uint64_t bits = 0;
    float single;
    double real;
    if (bytes > t->bytes.left) return bad_value(t, i, "is missing in the binary data of its");
    memcpy(&bits, t->bytes.at, bytes);
    t->bytes.at += bytes, t->bytes.left -= bytes;
    switch (t->type->kind) {
    case TEXT: return text_of(t, i, (uint32_t)bits, out);
    case TRUTH:
        if (bits > 1) return bad_value(t, i, "is not of its datatype,");
        *out = tri__json_boolean((int)bits);
        return TRI_OK;
    case INTEGER:
        if (!t->type->least && bits > (uint64_t)t->type->most)
            return bad_value(t, i, "is out of the range that is read of");
        int shift = t->type->least ? 64 - 8 * (int)bytes : 0;
        *out = tri__json_integer((int64_t)(bits << shift) >> shift);
        return TRI_OK;
    case REAL:
        memcpy(&single, &bits, sizeof single);
        memcpy(&real, &bits, sizeof real);
        if (bytes == 4) real = tri__float_number(single); /* 0.1, as JSON and tables have it, not 0.10000000149011612 */
        return real_of(t, i, bytes == 2 ? half_of((uint16_t)bits) : real, out);
    }
    return TRI_OK;
}

static tri_status value_in_list(const tensor *t, size_t i, tri_json **out) {
    const tri_json *value = tri__json_at(t->data, i);
    if (tri__json_is_array(value) && tri__json_size(value) == 1) value = tri__json_at(value, 0);
    tensor_kind kind = t->type->kind;
    int is_integer = tri__json_is_integer(value);
    int64_t number = tri__json_integer_value(value);
    double real = tri__json_real_value(value);
    int fits = kind == TEXT ? tri__json_is_string(value) : kind == INTEGER ? is_integer
               : kind == REAL ? tri__json_is_number(value) : tri__json_is_boolean(value);
    int is_wide = kind == INTEGER && fabs(real) >= 0x1p63; /* more than 64 bits, which no integer has */
    if (is_wide || (is_integer && kind == INTEGER && (number < t->type->least || number > t->type->most)))
        return bad_value(t, i, "is out of the range that is read of");
    if (!fits && !tri__json_is_null(value)) return bad_value(t, i, "is not of its datatype,"); /* null: missing */
    if (!is_integer && kind == REAL && !tri__json_is_null(value)) return real_of(t, i, real, out);
    *out = tri__json_incref((tri_json *)value);
    return TRI_OK;
}

/* Puts the tensor's values into the rows, objects of a list. */
static tri_status spread(tensor *t, tri_json *rows) {
    if (t->n != (int64_t)tri__json_size(rows))
        return tri__fail(TRI_USAGE, "input \"%.100s\" has %lld rows, the first input has %zu", t->name, (long long)t->n,
                         tri__json_size(rows));
    if (tri__json_get(tri__json_at(rows, 0), t->name)) return tri__fail(TRI_USAGE, "input \"%.100s\" twice", t->name);
    for (size_t i = 0; i < (size_t)t->n; i++) {
        tri_json *value = NULL;
        TRI_TRY(t->data ? value_in_list(t, i, &value) : binary_value(t, i, &value));
        if (tri__json_set_new(tri__json_at(rows, i), t->name, value)) return tri__fail(TRI_RESOURCE, "out of memory");
    }
    if (!t->bytes.left) return TRI_OK;
    return tri__fail(TRI_USAGE, "input \"%.100s\": %zu bytes are left of its binary data", t->name, t->bytes.left);
}

static tri_status parse_inputs(const tri_json *inputs, binary *rest, tri_json *rows) {
    if (!tri__json_size(inputs))
        return tri__fail(TRI_USAGE, "\"inputs\" is missing: a list of {\"name\", \"shape\", \"datatype\", \"data\"}");
    tri__json_each(inputs, i, json) {
        tensor t = {0};
        TRI_TRY(open_tensor(json, i, rest, &t));
        for (int64_t k = 0; i == 0 && k < t.n; k++) tri__json_append_new(rows, tri__json_object());
        TRI_TRY(spread(&t, rows));
    }
    if (rest->left) return tri__fail(TRI_USAGE, "%zu bytes after the JSON belong to no input", rest->left);
    return tri__json_is_whole(rows) ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

/* ---- the request ---- */

/* parameters.KEY, true or false; *out stays as it is without one. */
static tri_status take_flag(const tri_json *of, const char *key, int *out) {
    const tri_json *value = tri__json_get(tri__json_get(of, "parameters"), key);
    if (!value) return TRI_OK;
    if (!tri__json_is_boolean(value)) return tri__fail(TRI_USAGE, "parameter \"%s\": true or false is expected", key);
    *out = tri__json_is_true(value);
    return TRI_OK;
}

static tri_status parse_outputs(const tri_json *outputs, tri_ask *out) {
    if (!tri__json_size(outputs)) return TRI_OK;
    out->omit_label = out->omit_probabilities = 1;
    tri__json_items(outputs, one) {
        const char *name = tri__text_in(one, "name");
        int is_label = name && !strcmp(name, "label");
        if (!is_label && (!name || (strcmp(name, "probabilities") && strcmp(name, "numbers"))))
            return tri__fail(TRI_USAGE, "output \"%.100s\": there are \"label\" and \"probabilities\", or \"numbers\"",
                             name ? name : "");
        if (tri__whole_in(tri__json_get(one, "parameters"), "classification"))
            return tri__fail(TRI_USAGE, "output \"%s\": \"classification\" is not answered; the output \"label\" has "
                             "the class", name);
        *(is_label ? &out->omit_label : &out->omit_probabilities) = 0;
        TRI_TRY(take_flag(one, "binary_data", is_label ? &out->binary_label : &out->binary_probabilities));
    }
    return TRI_OK;
}

static tri_status parse_object(const tri_json *root, binary *rest, tri_json *rows, tri_ask *out) {
    const tri_json *id = tri__json_get(root, "id");
    int binary_output = 0;
    if (id && !tri__json_is_string(id)) return tri__fail(TRI_USAGE, "\"id\": a string is expected");
    if (id && !(out->id = strdup(tri__json_string_value(id)))) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(take_flag(root, "truncate", &out->truncate));
    TRI_TRY(take_flag(root, "binary_data_output", &binary_output));
    out->binary_label = out->binary_probabilities = binary_output;
    TRI_TRY(parse_outputs(tri__json_get(root, "outputs"), out));
    TRI_TRY(parse_inputs(tri__json_get(root, "inputs"), rest, rows));
    return tri__rows_of_json(rows, "inputs", NULL, &out->rows);
}

tri_status tri__kserve_parse(const tri_ask_in *in, tri_ask *out) {
    size_t length = in->json_length ? in->json_length : in->length;
    binary rest = {(const unsigned char *)in->body + length, in->length - length};
    TRI_OWNED(tri__json_drop) tri_json *root = NULL, *rows = tri__json_array();
    *out = (tri_ask){.truncate = -1};
    if (in->form != TRI_ROWS_JSON) return tri__fail(TRI_USAGE, "the Open Inference Protocol is JSON");
    TRI_TRY(tri__json_parse_wide(in->body, length, "body", TRI_DATA, &root));
    return rows ? parse_object(root, &rest, rows, out) : tri__fail(TRI_RESOURCE, "out of memory");
}

/* ---- the answer ---- */

static void put_output(const tri_prediction *told, int is_label, tri_buffer *space, tri_buffer *out) {
    int64_t rows = told->rows, n = is_label ? rows : rows * told->facts->n_classes, bytes = 4 * n;
    if (is_label) tri__buffer_put(out, "{\"name\":\"label\",\"datatype\":\"BYTES\",\"shape\":[%lld],", (long long)rows);
    else
        tri__buffer_put(out, "{\"name\":\"%s\",\"datatype\":\"FP32\",\"shape\":[%lld,%d],",
                        told->facts->is_number ? "numbers" : "probabilities", (long long)rows, told->facts->n_classes);
    for (int64_t i = 0; i < rows && is_label; i++) bytes += (int64_t)strlen(tri__label_of(told, i, space));
    if (is_label ? told->ask->binary_label : told->ask->binary_probabilities) {
        tri__buffer_put(out, "\"parameters\":{\"binary_data_size\":%lld}}", (long long)bytes);
        return;
    }
    tri__buffer_put(out, "\"data\":[");
    for (int64_t i = 0; i < n; i++)
        if (is_label) tri__put_string(out, i ? "," : "", tri__label_of(told, i, space));
        else tri__put_probability(out, i ? "," : "", told->probs[i]);
    tri__buffer_put(out, "]}");
}

static size_t render(const tri_prediction *told, tri_buffer *out) {
    const tri_ask *ask = told->ask;
    TRI_OWNED(tri__buffer_free) tri_buffer space = {0};
    int labels = !ask->omit_label && !told->facts->is_number, probabilities = !ask->omit_probabilities;
    tri__put_string(out, "{\"model_name\":", told->name);
    if (ask->id) tri__put_string(out, ",\"id\":", ask->id);
    tri__buffer_put(out, ",\"outputs\":[");
    if (labels) put_output(told, 1, &space, out);
    if (labels && probabilities) tri__buffer_add(out, ",", 1);
    if (probabilities) put_output(told, 0, &space, out);
    tri__buffer_put(out, "]}");
    size_t json = out->size;
    for (int64_t i = 0; labels && ask->binary_label && i < told->rows; i++) {
        const char *label = tri__label_of(told, i, &space);
        uint32_t length = (uint32_t)strlen(label);
        tri__buffer_add(out, (const char *)&length, sizeof length);
        tri__buffer_add(out, label, length);
    }
    if (probabilities && ask->binary_probabilities)
        tri__buffer_add(out, (const char *)told->probs,
                        (size_t)(told->rows * told->facts->n_classes) * sizeof *told->probs);
    out->failed |= space.failed;
    return out->size > json ? json : 0;
}

const tri_protocol tri__protocol_kserve = {.parse = tri__kserve_parse, .render = render, .has_binary = 1};

static void infer(void *context, tri_exchange *exchange) {
    tri__predict(context, exchange, tri__exchange_part(exchange), &tri__protocol_kserve);
}

/* ---- what is said about models ---- */

static void say_server(void *context, tri_exchange *exchange) {
    tri_buffer out = {0};
    (void)context;
    tri__buffer_put(&out, "{\"name\":\"trident\",\"version\":\"%s\",\"extensions\":[\"binary_tensor_data\"]}",
                    tri_version());
    tri__reply(exchange, "application/json", &out);
}

static void put_input(tri_buffer *out, const char *name, const char *type, int *n) {
    tri__put_string(out, (*n)++ ? ",{\"name\":" : "{\"name\":", name);
    tri__buffer_put(out, ",\"datatype\":\"%s\",\"shape\":[-1]}", type);
}

static void say_model(void *context, tri_exchange *exchange) {
    tri_server *server = context;
    tri_live *live = tri__server_find(server, exchange, tri__exchange_part(exchange));
    if (!live) return;
    const tri_model_facts *facts = live->facts;
    tri_buffer out = {0};
    int n = 0;
    tri__put_string(&out, "{\"name\":", live->name);
    tri__buffer_put(&out, ",\"versions\":[\"%lld\"],\"platform\":\"trident\",\"inputs\":[", (long long)facts->step);
    for (int t = 0; t < facts->n_texts; t++)
        for (int i = 0; i < facts->text[t].n; i++) put_input(&out, facts->text[t].at[i], "BYTES", &n);
    for (int c = 0; c < facts->n_columns; c++) {
        const tri_column_stats *column = facts->column[c];
        const tri_value_form *form = &column->read_as;
        int text = column->category || form->kind >= TRI_FORM_DATE || form->unit[0] == '%';
        put_input(&out, column->name, text ? "BYTES" : "FP64", &n);
    }
    tri__buffer_put(&out, "],\"outputs\":[%s\",\"datatype\":\"FP32\",\"shape\":[-1,%d]}]}",
                    facts->is_number ? "{\"name\":\"numbers"
                                     : "{\"name\":\"label\",\"datatype\":\"BYTES\",\"shape\":[-1]},"
                                       "{\"name\":\"probabilities", facts->n_classes);
    tri__server_release(server, live);
    tri__reply(exchange, "application/json", &out);
}

static void say_ready(void *context, tri_exchange *exchange) {
    tri_live *live = tri__server_find(context, exchange, tri__exchange_part(exchange));
    if (!live) return;
    tri__reply_ready(context, exchange, "{\"ready\":true}");
    tri__server_release(context, live);
}

static void alive(void *context, tri_exchange *exchange) {
    static const char yes[] = "{\"status\":\"live\"}";
    (void)context;
    tri__exchange_reply_const(exchange, 200, "application/json", yes, sizeof yes - 1);
}

const tri_http_route tri__routes_kserve[] = {
    {"POST", "/v2/models/*/infer", infer, 0, 0}, {"GET", "/v2/health/live", alive, 1, 1},
    {"GET", "/v2/health/ready", tri__handle_ready, 1, 1}, {"GET", "/v2", say_server, 0, 0},
    {"GET", "/v2/models/*", say_model, 0, 0}, {"GET", "/v2/models/*/ready", say_ready, 0, 1}, {0}};
