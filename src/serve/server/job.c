/* job.c - a request for predictions. On a thread of the HTTP server: parse, encode (preprocessing and tokens),
 * submit, hold. On the model's thread: probabilities are copied, and the exchange is resumed. On a thread of the HTTP
 * server again: the reply is written. */
#include "serve/server/server_parts.h"

#include <ctype.h>

typedef struct job {
    tri_server *server;
    const tri_protocol *protocol;
    tri_live *live;
    tri_exchange *exchange;
    tri_ask ask;
    tri_prediction told;
    tri_status status;          /* of the model */
    char *error;                /* owned; NULL with TRI_OK */
    float probs[];              /* [rows, n_classes] */
} job;

/* ---- what protocols share ---- */

const char *tri__label_of(const tri_prediction *told, int64_t row, tri_buffer *space) {
    const tri_model_facts *facts = told->facts;
    const float *probs = told->probs + row * facts->n_classes;
    if (!facts->separator) return facts->label[tri__decision_class(facts->decision, probs, facts->n_classes)];
    space->size = 0;
    tri__decision_labels(facts->decision, facts->label, facts->n_classes, probs, facts->separator, space);
    return space->failed || !space->size ? "" : space->text;
}

void tri__put_probability(tri_buffer *out, const char *before, float probability) {
    tri__buffer_put(out, "%s%.9g", before, (double)probability);
}

void tri__put_string(tri_buffer *out, const char *before, const char *text) {
    tri__buffer_add(out, before, strlen(before));
    tri__buffer_json(out, text, strlen(text));
}

void tri__reply(tri_exchange *exchange, const char *type, tri_buffer *out) {
    size_t size;
    char *text = tri__buffer_take(out, &size);
    tri__exchange_reply(exchange, 200, type, text, size);
}

/* Of a form, its usual type first. */
static const struct {
    const char *type;
    tri_wire_form form;
} media[] = {
    {"application/json", TRI_ROWS_JSON}, {"application/jsonlines", TRI_ROWS_LINES}, {"text/csv", TRI_ROWS_CSV},
    {"application/x-jsonlines", TRI_ROWS_LINES}, {"application/x-ndjson", TRI_ROWS_LINES},
    {"application/jsonl", TRI_ROWS_LINES}, {"application/csv", TRI_ROWS_CSV}};

/* The form of the media type at the beginning of `text`, up to a comma or its parameters. */
static int find_media(const char *text, tri_wire_form *out) {
    size_t n = strcspn(text, ";, ");
    for (size_t i = 0; i < sizeof media / sizeof *media; i++)
        if (strlen(media[i].type) == n && !strncasecmp(media[i].type, text, n)) return *out = media[i].form, 1;
    return 0;
}

int tri__form_of_type(const char *type, tri_wire_form *out) {
    *out = TRI_ROWS_JSON;
    return !type || !*type || find_media(type, out);
}

int tri__form_of_accept(const char *accept, tri_wire_form usual, tri_wire_form *out) {
    *out = usual;
    if (!accept || !*accept) return 1;
    for (const char *at = accept; *at; at += strcspn(at, ","), at += *at == ',') {
        at += strspn(at, " \t");
        if (!strncmp(at, "*/*", 3) || find_media(at, out)) return 1;
    }
    return 0;
}

const char *tri__form_type(tri_wire_form form) {
    int i = 0;
    while (media[i].form != form) i++;
    return media[i].type;
}

/* Of a request or an answer with binary tensors: the bytes of JSON before them. */
static const char binary_header[] = "Inference-Header-Content-Length";

/* ---- the end ---- */

/* Replies with what the failure of a parser or of a model means. */
static void refuse(tri_exchange *exchange, tri_status status, const char *why) {
    switch (status) {
    case TRI_DATA: tri__exchange_error(exchange, 400, "Validation", "%s", why); break;
    case TRI_USAGE: tri__exchange_error(exchange, 422, "Validation", "%s", why); break;
    case TRI_BUSY: tri__exchange_error(exchange, 429, "Overloaded", "%s", why); break;
    case TRI_STOPPED: tri__exchange_error(exchange, 503, "Unhealthy", "%s", why); break;
    case TRI_RESOURCE: tri__exchange_error(exchange, 500, "Backend", "%s", why); break;
    default: tri__exchange_error(exchange, 424, "Backend", "%s", why); break;
    }
}

static void job_free(job *j) {
    tri__ask_free(&j->ask);
    tri__server_release(j->server, j->live);
    TRI_FREE(j->error, j);
}

static void finish(void *context, tri_exchange *exchange) {
    job *j = context;
    if (j->status != TRI_OK) refuse(exchange, j->status, j->error ? j->error : "out of memory");
    else {
        tri_buffer out = {0};
        size_t json = j->protocol->render(&j->told, &out);
        if (json) tri__exchange_add_copy(exchange, binary_header, TRI_TEXT(24, "%zu", json));
        tri__reply(exchange, json ? "application/octet-stream" : tri__form_type(j->told.form), &out);
    }
    job_free(j);
}

/* On the model's thread. */
static void answered(void *context, const tri_answer *answer) {
    job *j = context;
    tri_server_metrics *metrics = &j->server->metrics;
    j->status = answer->status;
    if (answer->status == TRI_OK) {
        memcpy(j->probs, answer->probs, (size_t)(j->told.rows * j->live->facts->n_classes) * sizeof *j->probs);
        tri__metrics_observe(metrics, TRI_HISTOGRAM_QUEUE, answer->queued);
        tri__metrics_observe(metrics, TRI_HISTOGRAM_COMPUTE, answer->computed);
        tri__metrics_observe(metrics, TRI_HISTOGRAM_BATCH_ROWS, (double)answer->batch_rows);
        tri__metrics_observe(metrics, TRI_HISTOGRAM_BATCH_TOKENS, (double)answer->batch_tokens);
    } else j->error = strdup(answer->error);
    tri__exchange_resume(j->exchange);
}

/* ---- the beginning ---- */

static tri_status encode(tri_server *server, const tri_live *live, const tri_ask *ask, tri_encoded **out) {
    double begin = tri__clock();
    int truncate = ask->truncate < 0 ? server->options.auto_truncate : ask->truncate;
    tri_status status = tri__model_encode(live->model, ask->rows.row, ask->rows.n,
                                          truncate ? TRI_OVERLONG_TRUNCATE : TRI_OVERLONG_REFUSE, out);
    tri__metrics_observe(&server->metrics, TRI_HISTOGRAM_TOKENIZE, tri__clock() - begin);
    return status;
}

/* Whether rows that were refused would be accepted if texts were cut: then only their length was wrong. */
static int is_overlong(const tri_live *live, const tri_ask *ask) {
    tri_encoded *encoded;
    TRI_KEEP_WORDS();
    if (tri__model_encode(live->model, ask->rows.row, ask->rows.n, TRI_OVERLONG_TRUNCATE, &encoded) != TRI_OK) return 0;
    tri__encoded_free(encoded);
    return 1;
}

static void refuse_rows(tri_exchange *exchange, const tri_live *live, const tri_ask *ask, tri_status status) {
    if (status == TRI_DATA && is_overlong(live, ask))
        tri__exchange_error(exchange, 413, "Validation", "%s; \"truncate\": true cuts it", tri_error());
    else if (status == TRI_DATA) tri__exchange_error(exchange, 422, "Tokenizer", "%s", tri_error());
    else refuse(exchange, status, tri_error());
}

/* Refuses what is wrong about the request as a whole: 1, and it is answered. */
static int refuse_ask(const tri_server *server, tri_exchange *exchange, tri_status status, const tri_ask *ask) {
    if (status != TRI_OK) refuse(exchange, status, tri_error());
    else if (ask->rows.n == 0) tri__exchange_error(exchange, 400, "Empty", "the request has no rows");
    else if (ask->rows.n > server->options.max_rows)
        tri__exchange_error(exchange, 413, "Validation", "%lld rows in a request; at most %lld are taken (--max-rows)",
                            (long long)ask->rows.n, (long long)server->options.max_rows);
    else return 0;
    return 1;
}

/* A request with binary tensors, whose Content-Type says nothing. 1: refused. */
static int refuse_binary(tri_exchange *exchange, const tri_protocol *protocol, const char *header, tri_ask_in *in) {
    char *end;
    in->form = TRI_ROWS_JSON;
    in->json_length = strtoull(header, &end, 10);
    if (!protocol->has_binary) {
        tri__exchange_error(exchange, 415, "Validation", "binary tensors are read by /v2/models/M/infer alone");
    } else if (!isdigit((unsigned char)*header) || *end || !in->json_length || in->json_length > in->length) {
        tri__exchange_error(exchange, 400, "Validation", "%s %.40s: the bytes of JSON at the beginning of the body are "
                            "expected, which has %zu", binary_header, header, in->length);
    } else return 0;
    return 1;
}

/* The forms of request and answer; 1: refused. */
static int refuse_forms(tri_exchange *exchange, const tri_protocol *protocol, tri_ask_in *asked, tri_wire_form *out) {
    const char *type = tri__exchange_header(exchange, "Content-Type"),
               *accept = tri__exchange_header(exchange, "Accept"),
               *json = tri__exchange_header(exchange, binary_header);
    tri_wire_form *in = &asked->form;
    *out = TRI_ROWS_JSON;
    if (json) return refuse_binary(exchange, protocol, json, asked);
    if (!tri__form_of_type(type, in)) {
        int is_form = !strncasecmp(type, "application/x-www-form-urlencoded", 33);
        tri__exchange_error(exchange, 415, "Validation", "Content-Type %.100s; application/json, application/jsonlines "
                            "and text/csv are read%s", type,
                            is_form ? " (curl -d needs -H 'Content-Type: application/json')" : "");
        return 1;
    }
    if (!protocol->by_accept || tri__form_of_accept(accept, *in, out)) return 0;
    tri__exchange_error(exchange, 406, "Validation", "Accept %.100s; application/json, application/jsonlines and "
                        "text/csv are written", accept);
    return 1;
}

/* ?truncate=true, for forms whose body cannot say it; the body has the last word. */
static tri_status read_query(tri_exchange *exchange, tri_ask *ask) {
    const char *truncate = tri__exchange_query(exchange, "truncate");
    int yes = truncate && (!strcasecmp(truncate, "true") || !strcmp(truncate, "1"));
    if (!truncate) return TRI_OK;
    if (!yes && strcasecmp(truncate, "false") && strcmp(truncate, "0"))
        return tri__fail(TRI_USAGE, "?truncate=%.40s: true or false is expected", truncate);
    if (ask->truncate < 0) ask->truncate = yes;
    return TRI_OK;
}

int tri__ask_take(tri_server *server, tri_exchange *exchange, const tri_live *live, const tri_protocol *protocol,
                  tri_ask *ask, tri_wire_form *form, tri_encoded **encoded) {
    tri_ask_in in = {.text_column = live->text_column};
    *ask = (tri_ask){0};
    in.body = tri__exchange_body(exchange, &in.length);
    if (refuse_forms(exchange, protocol, &in, form)) return 0;
    tri_status status = protocol->parse(&in, ask);
    if (status == TRI_OK) status = read_query(exchange, ask);
    int taken = !refuse_ask(server, exchange, status, ask);
    if (taken && (status = encode(server, live, ask, encoded)) != TRI_OK)
        refuse_rows(exchange, live, ask, status), taken = 0;
    if (!taken) tri__ask_free(ask);
    return taken;
}

/* Hands the encoded rows to the model. From here on the answer may come at any moment. */
static void submit(job *j, tri_encoded *encoded) {
    tri_exchange *exchange = j->exchange;
    atomic_fetch_add(&j->server->metrics.rows, (uint64_t)j->told.rows);
    atomic_fetch_add(&j->server->metrics.tokens, (uint64_t)tri__encoded_tokens(encoded));
    tri__metrics_observe(&j->server->metrics, TRI_HISTOGRAM_ROWS, (double)j->told.rows);
    tri__server_unseen(j->server, j->live, encoded);
    tri__row_set_free(&j->ask.rows);
    tri__exchange_hold(exchange, finish, j);
    tri_status status = tri__model_submit(j->live->model, encoded, answered, j);
    if (status == TRI_OK) return;
    tri__encoded_free(encoded);
    j->status = status, j->error = strdup(tri_error());
    tri__exchange_resume(exchange);
}

void tri__predict(tri_server *server, tri_exchange *exchange, const char *name, const tri_protocol *protocol) {
    tri_live *live = tri__server_find(server, exchange, name);
    if (!live) return;
    tri_ask ask;
    tri_wire_form form;
    tri_encoded *encoded;
    if (atomic_load(&server->closing)) /* nothing can be held any more */
        tri__exchange_error(exchange, 503, "Unhealthy", "the server has shut down");
    else if (tri__ask_take(server, exchange, live, protocol, &ask, &form, &encoded)) {
        job *j = malloc(sizeof *j + (size_t)(ask.rows.n * live->facts->n_classes) * sizeof *j->probs);
        if (j) {
            *j = (job){.server = server, .protocol = protocol, .live = live, .exchange = exchange, .ask = ask};
            j->told = (tri_prediction){.facts = live->facts, .name = live->name, .ask = &j->ask, .probs = j->probs,
                                       .rows = ask.rows.n, .form = form};
            submit(j, encoded);
            return;
        }
        tri__exchange_error(exchange, 500, "Backend", "out of memory");
        tri__encoded_free(encoded);
        tri__ask_free(&ask);
    }
    tri__server_release(server, live);
}
