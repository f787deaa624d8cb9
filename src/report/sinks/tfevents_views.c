/* tfevents_views.c - values for TensorBoard's plug-ins. Each has a tensor and metadata that name the plug-in; formats
 * as tensorboard/plugins/{pr_curve,text,hparams} read them. */
#include "report/sinks/tfevents_parts.h"

enum {
    PLUGIN_NAME = 1, PLUGIN_CONTENT,
    TENSOR_TYPE = 1, TENSOR_SHAPE, TENSOR_CONTENT = 4, TENSOR_STRING = 8, SHAPE_DIM = 2, DIM_SIZE = 1,
    TYPE_FLOAT = 1, TYPE_STRING = 7,
    CURVE_VERSION = 1, CURVE_THRESHOLDS,
    HYPER_START = 3, HYPER_END, START_HYPER = 1, START_TIME = 5, END_STATUS = 1, END_TIME, END_SUCCESS = 1,
    ENTRY_KEY = 1, ENTRY_VALUE, JSON_NUMBER = 2, JSON_STRING, JSON_BOOL
};

static tri_buffer metadata_of(const char *plugin, tri_buffer *content, const char *name, const char *text) {
    tri_buffer data = {0}, metadata = {0};
    tri__proto_text(&data, PLUGIN_NAME, plugin);
    if (content) tri__proto_message(&data, PLUGIN_CONTENT, content);
    tri__proto_message(&metadata, TRI_METADATA_PLUGIN, &data);
    if (name) tri__proto_text(&metadata, TRI_METADATA_NAME, name);
    if (text) tri__proto_text(&metadata, TRI_METADATA_TEXT, text);
    return metadata;
}

static void put_value(tri_buffer *summary, const char *tag, tri_buffer *tensor, tri_buffer *metadata) {
    tri_buffer value = {0};
    tri__proto_text(&value, TRI_VALUE_TAG, tag);
    if (tensor) tri__proto_message(&value, TRI_VALUE_TENSOR, tensor);
    tri__proto_message(&value, TRI_VALUE_METADATA, metadata);
    tri__proto_message(summary, TRI_SUMMARY_VALUE, &value);
}

static void put_dim(tri_buffer *shape, uint64_t size) {
    tri_buffer dim = {0};
    tri__proto_integer(&dim, DIM_SIZE, size);
    tri__proto_message(shape, SHAPE_DIM, &dim);
}

const char *tri__tfevents_class(const tri_scores *scores, int class, char out[static TRI_CLASS_TAG]) {
    enum { WIDTH = 30 };
    char own[WIDTH * 4 + 8], other[WIDTH * 4 + 8];
    tri__text_brief(scores->label[class], WIDTH, own, sizeof own);
    snprintf(out, TRI_CLASS_TAG, "%s", own);
    for (int c = 0; c < scores->n_classes; c++)
        if (c != class && !strcmp(own, tri__text_brief(scores->label[c], WIDTH, other, sizeof other)))
            snprintf(out, TRI_CLASS_TAG, "%s (class %d)", own, class); /* equal once they are cut */
    return out;
}

void tri__tfevents_curve(tri_buffer *summary, const tri_scores *scores, int class) {
    enum { TP, FP, TN, FN, PRECISION, RECALL, ROWS };
    float data[ROWS][TRI_THRESHOLDS];
    char name[TRI_CLASS_TAG], tag[TRI_CLASS_TAG + 40];
    const int64_t(*above)[2] = (const int64_t(*)[2])(scores->above + class * TRI_THRESHOLDS * 2);
    double hits = (double)above[0][0], others = (double)above[0][1]; /* threshold 0: every row */
    for (int k = 0; k < TRI_THRESHOLDS; k++) {
        double tp = (double)above[k][0], fp = (double)above[k][1];
        data[TP][k] = (float)tp, data[FP][k] = (float)fp;
        data[TN][k] = (float)(others - fp), data[FN][k] = (float)(hits - tp);
        data[PRECISION][k] = tp + fp > 0 ? (float)(tp / (tp + fp)) : 0;
        data[RECALL][k] = hits > 0 ? (float)(tp / hits) : 0;
    }
    tri_buffer content = {0}, shape = {0}, tensor = {0};
    tri__proto_integer(&content, CURVE_VERSION, 0);
    tri__proto_integer(&content, CURVE_THRESHOLDS, TRI_THRESHOLDS);
    put_dim(&shape, ROWS);
    put_dim(&shape, TRI_THRESHOLDS);
    tri__proto_integer(&tensor, TENSOR_TYPE, TYPE_FLOAT);
    tri__proto_message(&tensor, TENSOR_SHAPE, &shape);
    tri__proto_bytes(&tensor, TENSOR_CONTENT, data, sizeof data);
    tri__tfevents_class(scores, class, name);
    snprintf(tag, sizeof tag, "eval/%s/pr_curves", name);
    tri_buffer metadata = metadata_of("pr_curves", &content, name, "validation rows, one class against the rest");
    put_value(summary, tag, &tensor, &metadata);
}

/* A cell of a table in Markdown. */
static void put_cell(tri_buffer *out, const char *text) {
    for (const char *c = text; *c; c++) {
        if (*c == '|' || *c == '\\' || *c == '`' || *c == '*' || *c == '_' || *c == '<')
            tri__buffer_put(out, "\\%c", *c);
        else tri__buffer_add(out, (unsigned char)*c < ' ' ? " " : c, 1);
    }
}

static void put_row(tri_buffer *out, const char *key, const tri_json *value) {
    TRI_OWNED(tri__free_at) char *text =
        tri__json_is_string(value) ? NULL : tri__json_text(value, TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(9));
    tri__buffer_put(out, "| ");
    put_cell(out, key);
    tri__buffer_put(out, " | ");
    put_cell(out, text ? text : tri__json_is_string(value) ? tri__json_string_value(value) : "");
    tri__buffer_put(out, " |\n");
}

void tri__tfevents_config(tri_buffer *summary, const tri_json *facts) {
    tri_json *config = tri__json_get(facts, "config");
    tri_buffer table = {0}, tensor = {0}, shape = {0};
    if (!tri__json_is_object(config)) return;
    tri__buffer_put(&table, "| setting | value |\n|---|---|\n");
    tri__json_members(facts, m)
        if (!tri__json_is_object(m->value) && !tri__json_is_array(m->value)) put_row(&table, m->key, m->value);
    tri__json_members(config, m) if (!tri__json_is_null(m->value)) put_row(&table, m->key, m->value);
    tri__proto_integer(&tensor, TENSOR_TYPE, TYPE_STRING);
    tri__proto_message(&tensor, TENSOR_SHAPE, &shape); /* a scalar */
    tri__proto_text(&tensor, TENSOR_STRING, table.text ? table.text : "");
    summary->failed |= table.failed;
    tri__buffer_free(&table);
    tri_buffer metadata = metadata_of("text", NULL, "configuration", NULL);
    put_value(summary, "configuration/text_summary", &tensor, &metadata);
}

static void put_hyper(tri_buffer *start, const char *key, const tri_json *value) {
    tri_buffer entry = {0}, json = {0};
    if (tri__json_is_string(value)) tri__proto_text(&json, JSON_STRING, tri__json_string_value(value));
    else if (tri__json_is_boolean(value)) tri__proto_integer(&json, JSON_BOOL, (uint64_t)tri__json_is_true(value));
    else if (tri__json_is_number(value)) tri__proto_double(&json, JSON_NUMBER, tri__json_number_value(value));
    else return;
    tri__proto_text(&entry, ENTRY_KEY, key);
    tri__proto_message(&entry, ENTRY_VALUE, &json);
    tri__proto_message(start, START_HYPER, &entry);
}

static void put_session(tri_buffer *summary, const char *tag, int field, tri_buffer *info) {
    tri_buffer content = {0};
    tri__proto_message(&content, field, info);
    tri_buffer metadata = metadata_of("hparams", &content, NULL, NULL);
    put_value(summary, tag, NULL, &metadata);
}

void tri__tfevents_hyper(tri_buffer *summary, const tri_json *facts, double time) {
    tri_json *config = tri__json_get(facts, "config");
    tri_buffer start = {0};
    if (!tri__json_is_object(config)) return;
    tri__json_members(config, m) put_hyper(&start, m->key, m->value);
    tri__proto_double(&start, START_TIME, time);
    put_session(summary, "_hparams_/session_start_info", HYPER_START, &start);
}

void tri__tfevents_hyper_end(tri_buffer *summary, double time) {
    tri_buffer end = {0};
    tri__proto_integer(&end, END_STATUS, END_SUCCESS);
    tri__proto_double(&end, END_TIME, time);
    put_session(summary, "_hparams_/session_end_info", HYPER_END, &end);
}
