/* server_parts.h - internals of the server.
 *
 *   server.c           start, reload, close
 *   routes.c           the table of routes
 *   job.c              a request for predictions, from its body to its reply; what every protocol shares
 *   request_rows.c     rows in: JSON, JSON lines, CSV. Pure functions of bytes
 *   protocols/         a protocol each: its routes, parse (pure), render
 *   info.c             what says something about models
 *   prometheus.c, access_log.c   counters; the access log
 *   unseen_values.c    values that training did not have
 *   drift_metrics.c    how far requests are from training
 *
 * Parsers fail with TRI_DATA for what is not JSON or CSV at all (400) and TRI_USAGE for what is not a request (422). */
#pragma once

#include "serve/server/server.h"

#include <stdatomic.h>

/* ---- rows ---- */

typedef enum tri_wire_form { TRI_ROWS_JSON, TRI_ROWS_LINES, TRI_ROWS_CSV } tri_wire_form;

/* Rows and what their values point to. */
typedef struct tri_row_set {
    tri_row *row;               /* [n] */
    int64_t n;
    tri_column_value *value;    /* of all rows */
    char *text;                 /* numbers */
    tri_json *document;         /* strings and names; of CSV: */
    tri_table *table;
} tri_row_set;
void tri__row_set_free(tri_row_set *rows); /* accepts a zeroed one */
/* A list of objects {column: value}; `where`: how messages name the list. text_column: the column that a bare string is
 * for; NULL: none is accepted. Keeps a reference to the list. */
tri_status tri__rows_of_json(const tri_json *list, const char *where, const char *text_column, tri_row_set *out);
/* An object a line. */
tri_status tri__rows_of_lines(const char *body, size_t length, tri_row_set *out);
/* A header of column names, then rows: as tables in files. */
tri_status tri__rows_of_csv(const char *body, size_t length, tri_row_set *out);

/* ---- protocols ---- */

/* What a parser gets. */
typedef struct tri_ask_in {
    const char *body;           /* [length] */
    size_t length;
    size_t json_length;         /* Open Inference Protocol: of the JSON before binary tensors; 0: there are none */
    tri_wire_form form;
    const char *text_column;    /* as above */
} tri_ask_in;

/* What a request asks for. */
typedef struct tri_ask {
    tri_row_set rows;
    int truncate;               /* -1: not said */
    int single;                 /* one row, not a list of one */
    int top_k;                  /* classes of an answer; 0: all */
    int omit_label, omit_probabilities; /* Open Inference Protocol: outputs that were not asked for */
    int binary_label, binary_probabilities;
    char *id;                   /* echoed; NULL: none; owned */
} tri_ask;
void tri__ask_free(tri_ask *ask);

tri_status tri__tei_parse(const tri_ask_in *in, tri_ask *out);
tri_status tri__kserve_parse(const tri_ask_in *in, tri_ask *out);

/* Predictions to be written. */
typedef struct tri_prediction {
    const tri_model_facts *facts;
    const char *name;           /* of the model */
    const tri_ask *ask;
    const float *probs;         /* [rows, n_classes] */
    int64_t rows;
    tri_wire_form form;          /* of the answer */
} tri_prediction;

/* Of a row, by the model's decision; several labels, joined, are in *space, which the caller frees. */
const char *tri__label_of(const tri_prediction *told, int64_t row, tri_buffer *space);

typedef struct tri_protocol {
    tri_status (*parse)(const tri_ask_in *in, tri_ask *out);
    /* Bytes of the JSON before binary tensors; 0: there are none. */
    size_t (*render)(const tri_prediction *told, tri_buffer *out);
    int by_accept;              /* the answer's form is the Accept header's; else JSON */
    int has_binary;             /* a request may have binary tensors */
} tri_protocol;
/* Those that others build on, and tests call. */
extern const tri_protocol tri__protocol_tei, tri__protocol_inference, tri__protocol_kserve, tri__protocol_sagemaker;

/* `before`, as it stands, and a probability (%.9g: the float itself) or a text as a JSON string. */
void tri__put_probability(tri_buffer *out, const char *before, float probability);
void tri__put_string(tri_buffer *out, const char *before, const char *text);
/* Replies with the buffer's text, which is taken out of it. */
void tri__reply(tri_exchange *exchange, const char *type, tri_buffer *out);
/* Reads the forms of Content-Type and Accept; 0: not one of ours. */
int tri__form_of_type(const char *type, tri_wire_form *out);
int tri__form_of_accept(const char *accept, tri_wire_form usual, tri_wire_form *out);
const char *tri__form_type(tri_wire_form form);

/* ---- models ---- */

/* A model and how many requests use it. */
typedef struct tri_live {
    const char *name;
    tri_model *model;
    const tri_model_facts *facts;
    const char *text_column;    /* the only one, for which a row may be a bare string; NULL: there is not one */
    tri_unseen *unseen;         /* [n_columns] of its requests; under the server's mutex */
    int users;                  /* under the server's mutex */
} tri_live;

typedef struct tri_served {
    const char *name, *run;
    tri_live *live;             /* under the server's mutex */
} tri_served;

/* ---- metrics ---- */

enum { TRI_METRIC_ROUTES = 40, TRI_METRIC_CODES = 18, TRI_METRIC_BUCKETS = 20 };
typedef enum tri_histogram_kind {
    TRI_HISTOGRAM_REQUEST, TRI_HISTOGRAM_TOKENIZE, TRI_HISTOGRAM_QUEUE, TRI_HISTOGRAM_COMPUTE,
    TRI_HISTOGRAM_ROWS, TRI_HISTOGRAM_BATCH_ROWS, TRI_HISTOGRAM_BATCH_TOKENS, TRI_HISTOGRAMS
} tri_histogram_kind;
typedef struct tri_histogram {
    _Atomic uint64_t bucket[TRI_METRIC_BUCKETS + 1]; /* values up to each bound; the last: larger */
    _Atomic uint64_t sum;       /* nanoseconds, or units */
} tri_histogram;
typedef struct tri_server_metrics {
    _Atomic uint64_t requests[TRI_METRIC_ROUTES + 1][TRI_METRIC_CODES]; /* the last row: no route */
    _Atomic uint64_t bytes_in, bytes_out, rows, tokens, reloads, failed_reloads;
    tri_histogram histogram[TRI_HISTOGRAMS];
} tri_server_metrics;
void tri__metrics_request(tri_server_metrics *metrics, const tri_http_record *record);
void tri__metrics_observe(tri_server_metrics *metrics, tri_histogram_kind kind, double value);
int64_t tri__metrics_answered(const tri_server_metrics *metrics);

/* ---- the access log ---- */

typedef struct tri_access_log {
    pthread_mutex_t mutex;
    int fd;                     /* -1: none */
    tri_buffer lines;           /* not yet written */
} tri_access_log;
void tri__access_open(tri_access_log *log, int fd);
void tri__access_add(tri_access_log *log, const tri_http_record *record);
void tri__access_tick(tri_access_log *log); /* writes what has gathered */
void tri__access_close(tri_access_log *log);

/* ---- the server ---- */

struct tri_server {
    tri_server_options options;
    const tri_log *log;
    tri_served *served;         /* [n_models] */
    tri_http *http;
    tri_http_route *routes;
    char *address;
    double started;             /* tri__clock() */
    _Atomic int closing;        /* requests may not be held any more */
    pthread_mutex_t mutex;
    pthread_cond_t unused;      /* some model has lost its last user */
    tri_server_metrics metrics;
    tri_access_log access;
};

/* The table of routes, which the caller frees. A file protocols/NAME.c has its own in `tri__routes_NAME`, which ends
 * with a NULL path. */
tri_status tri__routes_make(tri_http_route **out);
tri_http_handler tri__handle_info, tri__handle_tokenize, tri__handle_metrics, tri__handle_ready;
/* Replies with the text unless the server drains. */
void tri__reply_ready(const tri_server *server, tri_exchange *exchange, const char *text);

/* A model in use, until it is released. */
tri_live *tri__server_use(tri_server *server, tri_served *served);
/* That of a name; NULL or "": the first. NULL: there is none, and the exchange has its reply. */
tri_live *tri__server_find(tri_server *server, tri_exchange *exchange, const char *name);
void tri__server_release(tri_server *server, tri_live *live);
/* Values of a model's requests that training did not have: adds an answer's; of a column. */
void tri__server_unseen(tri_server *server, tri_live *live, const tri_encoded *encoded);
void tri__live_unseen(tri_server *server, const tri_live *live, int column, tri_unseen *out);
void tri__put_unseen(tri_server *server, tri_buffer *out); /* for /metrics */
/* drift_metrics.c: how far the last rows are from the reference. */
void tri__put_drift(tri_server *server, tri_buffer *out);
/* A body of an object with one made-up row, as /predict takes it; NULL: out of memory. */
tri_json *tri__example_row(const tri_model_facts *facts);

/* Answers a request for predictions of the model of that name. */
void tri__predict(tri_server *server, tri_exchange *exchange, const char *name, const tri_protocol *protocol);
/* Reads and encodes a request's rows. 1: *ask, *form (of the answer) and *encoded are set; 0: it was refused, and the
 * exchange has its reply. */
int tri__ask_take(tri_server *server, tri_exchange *exchange, const tri_live *live, const tri_protocol *protocol,
                  tri_ask *ask, tri_wire_form *form, tri_encoded **encoded);
