/* info.c - what the server says about its models: GET /info, POST /tokenize; and the example of a request. */
#include "serve/server/server_parts.h"

/* How many values of requests training did not have, and examples. */
static tri_json *unseen_json(tri_server *server, const tri_live *live, int column) {
    tri_unseen unseen;
    tri_json *examples = tri__json_array();
    tri__live_unseen(server, live, column, &unseen);
    for (int i = 0; i < unseen.n_examples; i++) tri__json_append_new(examples, tri__json_string(unseen.example[i]));
    return tri__json_pack("{s:I, s:o}", "values", (tri_json_int)unseen.unseen, "examples", examples);
}

/* The columns that the model reads: name, kind, and for a category its values, and those that it does not know. */
static tri_json *columns_json(tri_server *server, const tri_live *live) {
    const tri_model_facts *facts = live->facts;
    tri_json *list = tri__json_array();
    for (int t = 0; t < facts->n_texts; t++)
        for (int i = 0; i < facts->text[t].n; i++)
            tri__json_append_new(list, tri__json_pack("{s:s, s:s}", "name", facts->text[t].at[i], "kind", "text"));
    for (int c = 0; c < facts->n_columns; c++) {
        const tri_column_stats *of = facts->column[c];
        char words[TRI_FORM_WORDS];
        static const char *const kinds[] = {"number", "number", "date", "boolean", "hashed"};
        const char *kind = of->category ? "category" : kinds[of->read_as.kind];
        tri_json *column = tri__json_pack("{s:s, s:s}", "name", of->name, "kind", kind);
        if (of->read_as.kind) tri__json_set_new(column, "form", tri__json_string(tri__form_words(&of->read_as, words)));
        if (of->category) {
            tri__json_set_new(column, "values", tri__json_strings(of->category, of->n_categories));
            tri__json_set_new(column, "unseen", unseen_json(server, live, c));
        }
        tri__json_append_new(list, column);
    }
    return list;
}

tri_json *tri__example_row(const tri_model_facts *facts) {
    static const char *const words[2] = {"Lovely, I would buy it again", "Just right"};
    tri_json *row = tri__json_object();
    for (int t = 0; t < facts->n_texts; t++)
        for (int i = 0; i < facts->text[t].n; i++)
            tri__json_set_new(row, facts->text[t].at[i], tri__json_string(words[t > 0]));
    for (int c = 0; c < facts->n_columns; c++) {
        const tri_column_stats *column = facts->column[c];
        const tri_value_form *form = &column->read_as;
        const char *text = column->category && column->n_categories ? column->category[0]
                           : form->unit[0] == '%'                   ? "1%"
                           : form->kind == TRI_FORM_BOOLEAN         ? "yes"
                           : form->kind == TRI_FORM_HASHED          ? "Nova 12"
                           : form->kind != TRI_FORM_DATE            ? NULL
                           : form->clock                            ? "08:30"
                           : form->zoned                            ? "2024-12-31T08:30Z"
                                                                    : "2024-12-31";
        tri__json_set_new(row, column->name, text ? tri__json_string(text) : tri__json_integer(1));
    }
    return row;
}

static tri_json *labels_json(const tri_model_facts *facts) {
    tri_json *id2label = tri__json_object(), *label2id = tri__json_object();
    for (int c = 0; c < facts->n_classes; c++) {
        tri__json_set_new(id2label, TRI_TEXT(16, "%d", c), tri__json_string(facts->label[c]));
        tri__json_set_new(label2id, facts->label[c], tri__json_integer(c));
    }
    return tri__json_pack("{s:{s:o, s:o}}", "classifier", "id2label", id2label, "label2id", label2id);
}

/* Members of text-embeddings-inference first, then ours. */
static tri_json *info_json(tri_server *server, const tri_live *live) {
    const tri_server_options *options = &server->options;
    const tri_model_facts *facts = live->facts;
    tri_json *names = tri__json_array();
    for (int i = 0; i < options->n_models; i++) tri__json_append_new(names, tri__json_string(server->served[i].name));
    const tri_decision *d = facts->decision;
    return tri__json_pack(
        "{s:s, s:n, s:s, s:o, s:i, s:i, s:I, s:n, s:I, s:b, s:i, s:s, s:o, s:s, s:I, s:s, s:I, s:I, s:o, s:o, s:o, "
        "s:s*, s:f, s:f, s:s*}",
        "model_id", live->name, "model_sha", "model_dtype", facts->precision, "model_type", labels_json(facts),
        "max_concurrent_requests", options->http.max_requests, "max_input_length", facts->max_len, "max_batch_tokens",
        (tri_json_int)options->batching.max_batch_tokens, "max_batch_requests", "max_client_batch_size",
        (tri_json_int)options->max_rows, "auto_truncate", options->auto_truncate, "tokenization_workers",
        options->http.threads, "version", tri_version(), "models", names, "checkpoint", facts->path, "step",
        (tri_json_int)facts->step, "device", facts->device, "parameters", (tri_json_int)facts->parameters, "bytes",
        (tri_json_int)facts->bytes, "labels", tri__json_strings((char *const *)facts->label, facts->n_classes),
        "columns", columns_json(server, live), "example", tri__example_row(facts), "positive_label",
        facts->positive >= 0 ? facts->label[facts->positive] : NULL, "temperature", d->temperature, "threshold",
        d->has_threshold ? d->threshold : NAN, "threshold_label", d->has_threshold ? facts->label[d->positive] : NULL);
}

static void reply_json(tri_exchange *exchange, tri_json *value) {
    char *line = value ? tri__json_line(value) : NULL;
    tri__exchange_reply(exchange, 200, "application/json", line, line ? strlen(line) : 0);
    tri__json_decref(value);
}

void tri__handle_info(void *context, tri_exchange *exchange) {
    tri_server *server = context;
    tri_live *live = tri__server_find(server, exchange, tri__exchange_query(exchange, "model"));
    if (!live) return;
    tri_json *info = info_json(server, live);
    tri__server_release(server, live);
    reply_json(exchange, info);
}

/* For each row the ids of each text. */
static tri_json *tokens_json(const tri_model_facts *facts, const tri_encoded *encoded) {
    tri_json *rows = tri__json_array();
    for (int64_t row = 0; row < tri__encoded_rows(encoded); row++) {
        tri_json *texts = tri__json_array();
        for (int t = 0; t < facts->n_texts; t++) {
            const int32_t *ids;
            int n = tri__encoded_ids(encoded, row, t, &ids);
            tri_json *list = tri__json_array();
            for (int i = 0; i < n; i++) tri__json_append_new(list, tri__json_integer(ids[i]));
            tri_json *columns = tri__json_strings(facts->text[t].at, facts->text[t].n);
            tri__json_append_new(texts, tri__json_pack("{s:o, s:o}", "columns", columns, "ids", list));
        }
        tri__json_append_new(rows, texts);
    }
    return rows;
}

void tri__handle_tokenize(void *context, tri_exchange *exchange) {
    tri_server *server = context;
    tri_live *live = tri__server_find(server, exchange, tri__exchange_query(exchange, "model"));
    if (!live) return;
    tri_ask ask;
    tri_wire_form form;
    tri_encoded *encoded;
    if (tri__ask_take(server, exchange, live, &tri__protocol_tei, &ask, &form, &encoded)) {
        reply_json(exchange, tokens_json(live->facts, encoded));
        tri__encoded_free(encoded);
        tri__ask_free(&ask);
    }
    tri__server_release(server, live);
}
