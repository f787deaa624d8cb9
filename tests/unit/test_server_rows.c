/* test_server_rows.c - the request parsers of the server: rows from JSON, JSON lines and CSV, and each protocol. */
#include "base/clock.h"
#include "serve/server/server_parts.h"

#include "tests/lib/test.h"

/* Rows as text: column=value, with ~ for a missing value; rows end in ; */
static const char *text_of(const tri_row_set *rows, char *out, size_t size) {
    size_t n = 0;
    out[0] = 0;
    for (int64_t i = 0; i < rows->n; i++) {
        for (int k = 0; k < rows->row[i].n; k++) {
            const tri_column_value *v = &rows->row[i].value[k];
            n += (size_t)snprintf(out + n, size - n, "%s%s=%.*s", k ? " " : "", v->column,
                                  v->value ? (int)v->length : 1, v->value ? v->value : "~");
        }
        n += (size_t)snprintf(out + n, size - n, ";");
    }
    return out;
}

typedef struct parse_case {
    tri_status (*parse)(const tri_ask_in *in, tri_ask *out);
    tri_wire_form form;
    const char *text_column, *body;
    tri_status status;
    const char *rows; /* or, after a failure, a part of the message */
} parse_case;

#define JSON TRI_ROWS_JSON, NULL
#define LINES TRI_ROWS_LINES, NULL
#define CSV TRI_ROWS_CSV, NULL
static const parse_case cases[] = {
    {tri__tei_parse, JSON, "{\"inputs\": [{\"a\": \"x\", \"b\": 3}, {\"b\": null}]}", TRI_OK, "a=x b=3;b=~;"},
    {tri__tei_parse, JSON, "{\"inputs\": {\"a\": true, \"b\": -0.5}}", TRI_OK, "a=true b=-0.5;"},
    {tri__tei_parse, JSON, "{\"inputs\": {\"a\": 0.1, \"b\": 1e300}}", TRI_OK,
     "a=0.1 b=1e+300;"},
    {tri__tei_parse, JSON, "{\"inputs\": {\"a\": -9223372036854775808}}", TRI_OK, "a=-9223372036854775808;"},
    {tri__tei_parse, JSON, "{\"inputs\": []}", TRI_OK, ""},
    {tri__tei_parse, JSON, "{\"inputs\": [{}]}", TRI_OK, ";"},
    {tri__tei_parse, JSON, "{\"inputs\": \"x\"}", TRI_USAGE, "row 1: an object"},
    {tri__tei_parse, TRI_ROWS_JSON, "t", "{\"inputs\": \"x\"}", TRI_OK, "t=x;"},
    {tri__tei_parse, TRI_ROWS_JSON, "t", "{\"inputs\": [\"x\", {\"u\": 1}]}", TRI_OK, "t=x;u=1;"},
    {tri__tei_parse, JSON, "{\"inputs\": {\"a\": 1, \"a\": 2}}", TRI_DATA, "duplicate key"},
    {tri__tei_parse, JSON, "{\"inputs\": {\"a\": {}}}", TRI_USAGE, "column \"a\": an object"},
    {tri__tei_parse, JSON, "{\"inputs\": {\"a\": NaN}}", TRI_DATA, "body:1:18"},
    {tri__tei_parse, JSON, "", TRI_DATA, "body:1:1"},
    {tri__tei_parse, JSON, "{\"inputs\": [], \"truncat\": true}", TRI_USAGE, "did you mean \"truncate\"?"},
    {tri__tei_parse, JSON, "{\"inputs\": [], \"truncation_direction\": \"Left\"}", TRI_USAGE, "Right"},
    {tri__tei_parse, LINES, "{\"a\": 1}\n\n {\"b\": \"y\"} \r\n", TRI_OK, "a=1;b=y;"},
    {tri__tei_parse, LINES, "", TRI_OK, ""},
    {tri__tei_parse, LINES, "{\"a\": 1}\n[1]\n", TRI_DATA, "line 2:1:1"},
    {tri__tei_parse, CSV, "a,b\n1,x\n,\"y\"\n", TRI_OK, "a=1 b=x;a=~ b=y;"},
    {tri__tei_parse, CSV, "\xEF\xBB\xBF"
                                "a,b\r\n\"1\n2\",\"x\"\"\"\r\n3,4\r\n\r\n",
     TRI_OK, "a=1\n2 b=x\";a=3 b=4;"},
    {tri__tei_parse, CSV, "a\n", TRI_OK, ""},
    {tri__tei_parse, CSV, "\"a\",\"b,c\"\n1,2", TRI_OK, "a=1 b,c=2;"},
    {tri__tei_parse, CSV, "", TRI_DATA, "CSV:1:1: the file is empty"},
    {tri__tei_parse, CSV, "a,a\n1,2\n", TRI_DATA, "\"a\" appears twice"},
    {tri__tei_parse, CSV, "a,b\n1\n", TRI_DATA, "CSV:2:1: row has 1 field, the header has 2"},
    {tri__tei_parse, CSV, "a,b\n1,2\n1,2,3\n", TRI_DATA, "CSV:3:1: row has 3 fields"},
    {tri__tei_parse, CSV, "a\n\"x\"y\n", TRI_DATA, "CSV:2:4: characters after the closing quote"},
    {tri__tei_parse, CSV, "a\nx\"y\n", TRI_OK, "a=x\"y;"},
    {tri__tei_parse, CSV, "a\n\"x\n\n", TRI_DATA, "CSV:2:1: quoted field is never closed"},
#define TENSOR(name, type, shape, data) \
    "{\"name\":\"" name "\",\"datatype\":\"" type "\",\"shape\":" shape ",\"data\":" data "}"
    {tri__kserve_parse, JSON, "{\"inputs\":[" TENSOR("a", "INT64", "[2]", "[1,2]") "," TENSOR("b", "BYTES", "[2,1]",
     "[[\"x\"],null]") "]}", TRI_OK, "a=1 b=x;a=2 b=~;"},
    {tri__kserve_parse, JSON, "{\"inputs\":[" TENSOR("a", "FP32", "[0]", "[]") "]}", TRI_OK, ""},
    {tri__kserve_parse, JSON, "{\"inputs\":[]}", TRI_USAGE, "\"inputs\" is missing"},
    {tri__kserve_parse, JSON, "{\"inputs\":[" TENSOR("a", "FP32", "[1000000000000]", "[1]") "]}", TRI_USAGE,
     "says 1000000000000 values"},
    {tri__kserve_parse, JSON, "{\"inputs\":[" TENSOR("a", "INT64", "[1]", "[1.5]") "]}", TRI_USAGE, "value 1"},
    {tri__kserve_parse, JSON, "{\"inputs\":[" TENSOR("a", "FP32", "[1]", "[1]") "," TENSOR("a", "FP32", "[1]", "[1]")
     "]}", TRI_USAGE, "twice"},
    {tri__kserve_parse, JSON, "{\"inputs\":[" TENSOR("a", "FP32", "[1]", "[1]") "," TENSOR("b", "FP32", "[2]", "[1,2]")
     "]}", TRI_USAGE, "has 2 rows, the first input has 1"},
    {tri__kserve_parse, JSON, "{\"inputs\":[{\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}]}", TRI_USAGE,
     "no name"},
    {tri__kserve_parse, JSON, "{\"inputs\":[1]}", TRI_USAGE, "shape"},
    {tri__kserve_parse, JSON, "{\"id\": 5, \"inputs\":[]}", TRI_USAGE, "\"id\""},
    {tri__kserve_parse, CSV, "a\n", TRI_USAGE, "JSON"},
#define ONE(type, value) "{\"inputs\":[" TENSOR("a", type, "[1]", "[" value "]") "]}"
    {tri__kserve_parse, JSON, ONE("INT8", "-128"), TRI_OK, "a=-128;"},
    {tri__kserve_parse, JSON, ONE("INT8", "128"), TRI_USAGE, "range that is read of INT8"},
    {tri__kserve_parse, JSON, ONE("UINT8", "256"), TRI_USAGE, "range that is read of UINT8"},
    {tri__kserve_parse, JSON, ONE("UINT16", "-1"), TRI_USAGE, "range that is read of UINT16"},
    {tri__kserve_parse, JSON, ONE("INT16", "-32769"), TRI_USAGE, "range that is read of INT16"},
    {tri__kserve_parse, JSON, ONE("INT32", "2147483648"), TRI_USAGE, "range that is read of INT32"},
    {tri__kserve_parse, JSON, ONE("UINT32", "4294967296"), TRI_USAGE, "range that is read of UINT32"},
    {tri__kserve_parse, JSON, ONE("UINT64", "-1"), TRI_USAGE, "range that is read of UINT64"},
    {tri__kserve_parse, JSON, ONE("INT64", "9223372036854775807"), TRI_OK, "a=9223372036854775807;"},
    {tri__kserve_parse, JSON, ONE("INT64", "9223372036854775808"), TRI_USAGE, "range that is read of INT64"},
    {tri__kserve_parse, JSON, ONE("UINT64", "18446744073709551615"), TRI_USAGE, "range that is read of UINT64"},
    {tri__kserve_parse, JSON, ONE("INT64", "1.5"), TRI_USAGE, "is not of its datatype, INT64"},
    {tri__kserve_parse, JSON, ONE("FP32", "1e39"), TRI_USAGE, "range that is read of FP32"},
    {tri__kserve_parse, JSON, ONE("FP16", "65505.5"), TRI_USAGE, "range that is read of FP16"},
    {tri__kserve_parse, JSON, ONE("FP64", "-2.5"), TRI_OK, "a=-2.5;"},
    {tri__tei_parse, JSON, "{\"inputs\": [{\"a\": 1}], \"parameters\": {\"top_k\": 1, \"function_to_apply\": null}}",
     TRI_OK, "a=1;"},
    {tri__tei_parse, JSON, "{\"inputs\": [], \"parameters\": {\"function_to_apply\": \"none\"}}", TRI_USAGE, "softmax"},
    {tri__tei_parse, JSON, "{\"inputs\": [], \"parameters\": {\"top_k\": 0}}", TRI_USAGE, "at least 1"},
    {tri__tei_parse, JSON, "{\"inputs\": [], \"parameters\": {\"topk\": 1}}", TRI_USAGE, "did you mean \"top_k\""},
    {tri__tei_parse, JSON, "{\"inputs\": [], \"parameters\": 3}", TRI_USAGE, "an object"},
};

TEST(parses) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const parse_case *c = &cases[i];
        const tri_ask_in in = {.body = c->body, .length = strlen(c->body), .form = c->form,
                               .text_column = c->text_column};
        tri_ask ask;
        char text[1024];
        tri_status status = c->parse(&in, &ask);
        if (status != c->status) fail_msg("%s: %d, %s", c->body, status, tri_error());
        if (status == TRI_OK) assert_string_equal(text_of(&ask.rows, text, sizeof text), c->rows);
        else if (!strstr(tri_error(), c->rows)) fail_msg("%s: %s", c->body, tri_error());
        tri__ask_free(&ask);
    }
}

/* ---- binary tensors, as Triton's clients send them ---- */

#define BINARY(name, type, shape, size) \
    "{\"name\": \"" name "\", \"shape\": " shape ", \"datatype\": \"" type "\", " \
    "\"parameters\": {\"binary_data_size\": " size "}}"
#define ALONE(type, shape, size) "{\"inputs\": [" BINARY("a", type, shape, size) "]}"
typedef struct binary_case {
    const char *json, *bytes;
    size_t size;
    tri_status status;
    const char *rows; /* or a part of the message */
} binary_case;
#define FOLLOWED(bytes) bytes, sizeof bytes - 1
static const binary_case binaries[] = {
    {"{\"id\": \"q\", \"inputs\": [" BINARY("t", "BYTES", "[2, 1]", "11") ", " BINARY("i", "INT64", "[2]", "16") ", "
     BINARY("f", "FP32", "[2]", "8") ", " TENSOR("j", "INT8", "[2]", "[7,8]") "], \"parameters\": "
     "{\"binary_data_output\": true}}",
     FOLLOWED("\3\0\0\0a b\0\0\0\0" "\1\0\0\0\0\0\0\0\376\377\377\377\377\377\377\377" "\0\0\300\77\0\0\300\177"),
     TRI_OK, "t=a b i=1 f=1.5 j=7;t= i=-2 f=~ j=8;"},
    {"{\"inputs\": [" BINARY("a", "FP64", "[1]", "8") "," BINARY("b", "FP16", "[1]", "2") ","
     BINARY("c", "UINT8", "[1]", "1") "," BINARY("d", "INT8", "[1]", "1") ","
     BINARY("e", "BOOL", "[1]", "1") "," BINARY("f", "UINT32", "[1]", "4")
     "," BINARY("g", "INT16", "[1]", "2") "]}",
     FOLLOWED("\0\0\0\0\0\0\370\277" "\0\202" "\377" "\377" "\1" "\377\377\377\377" "\0\200"), TRI_OK,
     "a=-1.5 b=-3.0517578125e-05 c=255 d=-1 e=true f=4294967295 g=-32768;"},
    {ALONE("BYTES", "[0]", "0"), FOLLOWED(""), TRI_OK, ""},
    {ALONE("BYTES", "[1]", "5"), FOLLOWED("\1\0\0\0\377"), TRI_USAGE, "not UTF-8"},
    {ALONE("BYTES", "[1]", "5"), FOLLOWED("\2\0\0\0a"), TRI_USAGE, "ends beyond"},
    {ALONE("BYTES", "[1]", "5"), FOLLOWED("\377\377\377\377a"), TRI_USAGE, "ends beyond"},
    {ALONE("BYTES", "[1]", "6"), FOLLOWED("\1\0\0\0ab"), TRI_USAGE, "1 bytes are left"},
    {ALONE("BYTES", "[2]", "9"), FOLLOWED("\4\0\0\0abcde"), TRI_USAGE, "value 2 is missing"},
    {ALONE("BYTES", "[2]", "7"), FOLLOWED("\0\0\0\0\0\0\0"), TRI_USAGE, "has 7 bytes"},
    {ALONE("FP32", "[2]", "4"), FOLLOWED("\0\0\0\0"), TRI_USAGE, "says 2 values of FP32"},
    {ALONE("FP64", "[2305843009213693953]", "8"), FOLLOWED("12345678"), TRI_USAGE, "says"},
    {ALONE("FP32", "[1]", "8"), FOLLOWED("\0\0\0\0"), TRI_USAGE, "binary_data_size"},
    {ALONE("FP32", "[1]", "-4"), FOLLOWED("\0\0\0\0"), TRI_USAGE, "binary_data_size"},
    {ALONE("FP32", "[1]", "\"4\""), FOLLOWED("\0\0\0\0"), TRI_USAGE, "binary_data_size"},
    {ALONE("FP32", "[1]", "4"), FOLLOWED("\0\0\0\0x"), TRI_USAGE, "1 bytes after the JSON"},
    {ALONE("FP32", "[1]", "4"), FOLLOWED("\0\0\200\177"), TRI_USAGE, "out of the range"},
    {ALONE("UINT64", "[1]", "8"), FOLLOWED("\0\0\0\0\0\0\0\200"), TRI_USAGE, "read of UINT64"},
    {ALONE("BOOL", "[1]", "1"), FOLLOWED("\2"), TRI_USAGE, "not of its datatype"},
    {"{\"inputs\": [{\"name\":\"a\",\"shape\":[1],\"datatype\":\"BOOL\",\"data\":[true],"
     "\"parameters\":{\"binary_data_size\":1}}]}",
     FOLLOWED("\1"), TRI_USAGE, "both data and binary data"},
    {"{\"inputs\": [" BINARY("a", "BOOL", "[1]", "1") "], \"outputs\": [{\"name\": \"label\", \"parameters\": "
     "{\"classification\": 2}}]}", FOLLOWED("\1"), TRI_USAGE, "classification"},
    {"{\"inputs\": [" BINARY("a", "BOOL", "[1]", "1") "], \"outputs\": [{\"name\": \"label\", \"parameters\": "
     "{\"binary_data\": 1}}]}", FOLLOWED("\1"), TRI_USAGE, "true or false"},
};

TEST(binary_tensors) {
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++) {
        const binary_case *c = &binaries[i];
        size_t json = strlen(c->json);
        char *body = malloc(json + c->size + 1), text[1024]; /* of exactly its size, for sanitizers; no empty one */
        memcpy(body, c->json, json), memcpy(body + json, c->bytes, c->size);
        const tri_ask_in in = {.body = body, .length = json + c->size, .json_length = json};
        tri_ask ask;
        tri_status status = tri__kserve_parse(&in, &ask);
        if (status != c->status) fail_msg("%s: %d, %s", c->json, status, tri_error());
        if (status == TRI_OK) assert_string_equal(text_of(&ask.rows, text, sizeof text), c->rows);
        else if (!strstr(tri_error(), c->rows)) fail_msg("%s: %s", c->json, tri_error());
        if (i == 0) assert_true(ask.binary_label && ask.binary_probabilities);
        tri__ask_free(&ask);
        free(body);
    }
}

/* A float of binary data is the number that its JSON is. */
TEST(binary_floats) {
    static const float floats[] = {0.1f, -3.3f, 1e-30f, 16777216.0f, 3.14159274f};
    static const char list[] = "{\"inputs\":[" TENSOR("a", "FP32", "[5]", "[0.1,-3.3,1e-30,16777216.0,3.1415927]") "]}",
                      head[] = "{\"inputs\":[" BINARY("a", "FP32", "[5]", "20") "]}";
    char body[sizeof head - 1 + sizeof floats], texts[2][512];
    tri_ask ask;
    memcpy(body, head, sizeof head - 1), memcpy(body + sizeof head - 1, floats, sizeof floats);
    const tri_ask_in in[] = {{.body = list, .length = sizeof list - 1},
                             {.body = body, .length = sizeof body, .json_length = sizeof head - 1}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tri__kserve_parse(&in[i], &ask), TRI_OK);
        text_of(&ask.rows, texts[i], sizeof texts[i]);
        tri__ask_free(&ask);
    }
    assert_string_equal(texts[0], texts[1]);
}

/* Bytes that are not text: refused with a position, not read past. */
TEST(bytes) {
    static const char csv[] = "a\nx\0y\n", quoted[] = "a\n\"x\0y\"\n", after[] = "a\n\"x\"\0\n",
                      line[] = "{\"a\": \"\xff\"}";
    tri_row_set rows;
    assert_int_equal(tri__rows_of_csv(csv, sizeof csv - 1, &rows), TRI_DATA);
    assert_int_equal(tri__rows_of_csv(quoted, sizeof quoted - 1, &rows), TRI_DATA);
    assert_int_equal(tri__rows_of_csv(after, sizeof after - 1, &rows), TRI_DATA);
    assert_int_equal(tri__rows_of_lines(line, sizeof line - 1, &rows), TRI_DATA);
}

TEST(asks) {
    tri_ask ask;
#define PARSE(parse, text) \
    assert_int_equal(parse(&(tri_ask_in){.body = (text), .length = strlen(text)}, &ask), TRI_OK)
    PARSE(tri__tei_parse, "{\"inputs\": [{}]}");
    assert_int_equal(ask.truncate, -1);
    assert_int_equal(ask.single, 0);
    tri__ask_free(&ask);
    PARSE(tri__tei_parse, "{\"inputs\": {}, \"truncate\": true, \"raw_scores\": false}");
    assert_int_equal(ask.truncate, 1);
    assert_int_equal(ask.single, 1);
    tri__ask_free(&ask);
    PARSE(tri__kserve_parse, "{\"id\": \"q\", \"parameters\": {\"truncate\": false}, \"outputs\": [{\"name\": "
          "\"probabilities\"}], \"inputs\": [" TENSOR("a", "FP32", "[1]", "[1]") "]}");
    assert_string_equal(ask.id, "q");
    assert_int_equal(ask.truncate, 0);
    assert_true(ask.omit_label && !ask.omit_probabilities);
    tri__ask_free(&ask);
}

TEST(forms) {
    tri_wire_form form;
    assert_true(tri__form_of_type(NULL, &form) && form == TRI_ROWS_JSON);
    assert_true(tri__form_of_type("text/csv; charset=utf-8", &form) && form == TRI_ROWS_CSV);
    assert_true(tri__form_of_type("Application/JSONLines", &form) && form == TRI_ROWS_LINES);
    assert_false(tri__form_of_type("text/csvx", &form));
    assert_true(tri__form_of_accept(NULL, TRI_ROWS_CSV, &form) && form == TRI_ROWS_CSV);
    assert_true(tri__form_of_accept("text/html, text/csv;q=0.5", TRI_ROWS_JSON, &form) && form == TRI_ROWS_CSV);
    assert_true(tri__form_of_accept("*/*", TRI_ROWS_LINES, &form) && form == TRI_ROWS_LINES);
    assert_false(tri__form_of_accept("text/html", TRI_ROWS_JSON, &form));
}

/* Replies as text. */
TEST(renders) {
    static const char *const labels[] = {"no \"1\"", "yes, 2"};
    static const float probs[] = {0.25f, 0.75f, 0.5f, 0.5f};
    const tri_model_facts facts = {.n_classes = 2, .label = labels};
    tri_ask ask = {.id = (char *)"i"};
    tri_prediction p = {.facts = &facts, .name = "m", .ask = &ask, .probs = probs, .rows = 2};
    tri_buffer out = {0};
#define RENDERS(protocol, form_, want) \
    do { \
        p.form = form_; \
        protocol.render(&p, &out); \
        assert_string_equal(out.text, want); \
        tri__buffer_free(&out); \
    } while (0)
    RENDERS(tri__protocol_tei, TRI_ROWS_JSON,
            "[[{\"score\":0.75,\"label\":\"yes, 2\"},{\"score\":0.25,\"label\":\"no \\\"1\\\"\"}],"
            "[{\"score\":0.5,\"label\":\"no \\\"1\\\"\"},{\"score\":0.5,\"label\":\"yes, 2\"}]]");
    RENDERS(tri__protocol_sagemaker, TRI_ROWS_CSV,
            "label,\"prob_no \"\"1\"\"\",\"prob_yes, 2\"\n\"yes, 2\",0.25,0.75\n\"no \"\"1\"\"\",0.5,0.5\n");
    RENDERS(tri__protocol_sagemaker, TRI_ROWS_LINES,
            "{\"label\":\"yes, 2\",\"probabilities\":{\"no \\\"1\\\"\":0.25,\"yes, 2\":0.75}}\n"
            "{\"label\":\"no \\\"1\\\"\",\"probabilities\":{\"no \\\"1\\\"\":0.5,\"yes, 2\":0.5}}\n");
    RENDERS(tri__protocol_kserve, TRI_ROWS_JSON,
            "{\"model_name\":\"m\",\"id\":\"i\",\"outputs\":[{\"name\":\"label\",\"datatype\":\"BYTES\",\"shape\":[2],"
            "\"data\":[\"yes, 2\",\"no \\\"1\\\"\"]},{\"name\":\"probabilities\",\"datatype\":\"FP32\",\"shape\":[2,2],"
            "\"data\":[0.25,0.75,0.5,0.5]}]}");
    ask.binary_label = 1;
    static const char mixed[] = "{\"model_name\":\"m\",\"id\":\"i\",\"outputs\":[{\"name\":\"label\","
                                "\"datatype\":\"BYTES\",\"shape\":[2],\"parameters\":{\"binary_data_size\":20}},"
                                "{\"name\":\"probabilities\","
                                "\"datatype\":\"FP32\",\"shape\":[2,2],\"data\":[0.25,0.75,0.5,0.5]}]}",
                      labels_binary[] = "\6\0\0\0yes, 2\6\0\0\0no \"1\"";
    assert_int_equal(tri__protocol_kserve.render(&p, &out), sizeof mixed - 1);
    assert_int_equal(out.size, sizeof mixed - 1 + sizeof labels_binary - 1);
    assert_memory_equal(out.text, mixed, sizeof mixed - 1);
    assert_memory_equal(out.text + sizeof mixed - 1, labels_binary, sizeof labels_binary - 1);
    tri__buffer_free(&out);
    ask.omit_label = 1, ask.binary_probabilities = 1;
    size_t json = tri__protocol_kserve.render(&p, &out);
    assert_int_equal(out.size, json + sizeof probs);
    assert_memory_equal(out.text + json, probs, sizeof probs);
    tri__buffer_free(&out);
    ask.top_k = 1;
    RENDERS(tri__protocol_inference, TRI_ROWS_JSON,
            "[[{\"score\":0.75,\"label\":\"yes, 2\"}],[{\"score\":0.5,\"label\":\"no \\\"1\\\"\"}]]");
    ask.top_k = 0, ask.single = 1, p.rows = 1;
    RENDERS(tri__protocol_tei, TRI_ROWS_JSON,
            "[{\"score\":0.75,\"label\":\"yes, 2\"},{\"score\":0.25,\"label\":\"no \\\"1\\\"\"}]");
}

/* A float's %.9g is read back as the same float. */
TEST(probabilities) {
    for (uint32_t bits = 0x33800000; bits < 0x3f800000; bits += 99991) {
        float p, back;
        tri_buffer out = {0};
        memcpy(&p, &bits, sizeof p);
        tri__put_probability(&out, "", p);
        back = strtof(out.text, NULL);
        assert_memory_equal(&p, &back, sizeof p);
        tri__buffer_free(&out);
    }
}

TEST(histograms) {
    tri_server_metrics *m = calloc(1, sizeof *m);
    tri__metrics_observe(m, TRI_HISTOGRAM_REQUEST, 0.0001); /* a bound belongs to its own bucket */
    tri__metrics_observe(m, TRI_HISTOGRAM_REQUEST, 0.00011);
    tri__metrics_observe(m, TRI_HISTOGRAM_REQUEST, 1e6);
    assert_int_equal(m->histogram[TRI_HISTOGRAM_REQUEST].bucket[0], 1);
    assert_int_equal(m->histogram[TRI_HISTOGRAM_REQUEST].bucket[1], 1);
    assert_int_equal(m->histogram[TRI_HISTOGRAM_REQUEST].bucket[TRI_METRIC_BUCKETS], 1);
    tri__metrics_observe(m, TRI_HISTOGRAM_ROWS, 4096);
    assert_int_equal(m->histogram[TRI_HISTOGRAM_ROWS].bucket[12], 1);
    tri__metrics_request(m, &(tri_http_record){.route = -1, .status = 404});
    tri__metrics_request(m, &(tri_http_record){.route = 0, .status = 299});
    tri__metrics_request(m, &(tri_http_record){.route = 0, .status = 0});
    assert_int_equal(m->requests[TRI_METRIC_ROUTES][4], 1);
    assert_int_equal(m->requests[0][TRI_METRIC_CODES - 1], 1);
    assert_int_equal(tri__metrics_answered(m), 2);
    free(m);
}

/* Bodies of many columns take time in proportion. Comparing each name with each took 50 s for 100,000 names. */
TEST(wide_requests) {
    enum { COLUMNS = 50000, BYTES = 80 };
    char *csv = malloc(COLUMNS * BYTES), *tensors = malloc(COLUMNS * BYTES);
    size_t n = 0, m = (size_t)sprintf(tensors, "{\"inputs\":[");
    for (int i = 0; i < COLUMNS; i++) {
        n += (size_t)sprintf(csv + n, "%sc%d", i ? "," : "", i);
        m += (size_t)sprintf(tensors + m, "%s{\"name\":\"c%d\",\"datatype\":\"FP32\",\"shape\":[1],\"data\":[1]}",
                             i ? "," : "", i);
    }
    m += (size_t)sprintf(tensors + m, "]}");
    const tri_ask_in in[] = {{.body = csv, .length = n, .form = TRI_ROWS_CSV},
                             {.body = tensors, .length = m, .form = TRI_ROWS_JSON}};
    double begin = tri__clock();
    for (int i = 0; i < 2; i++) {
        tri_ask ask;
        assert_int_equal((i ? tri__kserve_parse : tri__tei_parse)(&in[i], &ask), TRI_OK);
        assert_int_equal(ask.rows.n, i);
        tri__ask_free(&ask);
    }
    assert_true(tri__clock() - begin < 6);
    free(csv);
    free(tensors);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
