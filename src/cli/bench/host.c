/* host.c - `trident bench serve --checkpoint RUN --data-path TABLE`: the host's side of a server without HTTP. The
 * rows of a table are encoded, queued, joined to batches and answered, on a device that computes nothing. */
#include "cli/bench/bench.h"

#include "report/text/text_table.h"
#include "serve/infer/model.h"

enum { REQUESTS = 20000, IN_FLIGHT = 64, OPENINGS = 5 };

typedef struct host {
    tri_settings asked;         /* borrows the command's */
    tri_table *table;
    tri_column_value *values;   /* [rows, columns] */
    tri_row *rows;              /* [n] */
    int64_t n;
    tri_model *model;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t in_flight, failed;  /* guarded by the lock */
} host;

typedef struct figures {
    double open, open_cpu;      /* seconds: median, least CPU time */
    double encode, request;     /* seconds of CPU time: of a row; of a request of one row, encoded to answered */
    double tokens;              /* of a row */
} figures;

/* Reads the table's columns that the model knows. */
static tri_status read_rows(host *h) {
    int columns = tri__table_columns(h->table), n = 0;
    h->n = tri__table_rows(h->table);
    h->values = malloc((size_t)(h->n * columns + 1) * sizeof *h->values);
    h->rows = malloc((size_t)(h->n + 1) * sizeof *h->rows);
    TRI_OWNED(tri__free_at) int *known = malloc((size_t)(columns + 1) * sizeof *known);
    if (!h->values || !h->rows || !known) return tri__fail(TRI_RESOURCE, "out of memory");
    const char *name;
    for (int c = 0; c < columns; c++)
        for (int i = 0; (name = tri__model_column(h->model, i)) != NULL; i++)
            if (strcmp(name, tri__table_name(h->table, c)) == 0) known[n++] = c;
    for (int64_t r = 0; r < h->n; r++) {
        h->rows[r] = (tri_row){h->values + r * n, n};
        for (int k = 0; k < n; k++) {
            tri_field_text field = tri__table_field(h->table, r, known[k]);
            h->values[r * n + k] = (tri_column_value){tri__table_name(h->table, known[k]), field.text, field.length,
                                                      field.number};
        }
    }
    return h->n ? TRI_OK : tri__fail(TRI_DATA, "%s: no rows", tri__table_path(h->table));
}

static tri_status time_open(host *h, figures *f) {
    double times[OPENINGS];
    for (int i = 0; i < OPENINGS; i++) {
        tri__model_close(h->model);
        h->model = NULL;
        double begin = tri__clock(), used = tri__bench_cpu(0);
        TRI_TRY(tri__model_open(&h->asked, NULL, NULL, &h->model));
        times[i] = tri__clock() - begin, used = tri__bench_cpu(0) - used;
        f->open_cpu = i && f->open_cpu < used ? f->open_cpu : used;
    }
    f->open = tri__bench_median(times, OPENINGS);
    return TRI_OK;
}

static tri_status time_encode(host *h, figures *f) {
    int64_t tokens = 0;
    double begin = 0;
    for (int64_t i = -h->n; i < REQUESTS; i++) { /* once through the table to warm up */
        tri_encoded *encoded;
        if (i == 0) begin = tri__bench_cpu(0);
        TRI_TRY(tri__model_encode(h->model, &h->rows[(i + h->n) % h->n], 1, TRI_OVERLONG_TRUNCATE, &encoded));
        if (i >= 0) tokens += tri__encoded_tokens(encoded);
        tri__encoded_free(encoded);
    }
    f->encode = (tri__bench_cpu(0) - begin) / REQUESTS, f->tokens = (double)tokens / REQUESTS;
    return TRI_OK;
}

/* tri_answered */
static void answered(void *context, const tri_answer *answer) {
    host *h = context;
    TRI_LOCKED(&h->lock);
    h->failed += answer->status != TRI_OK;
    if (h->in_flight-- == IN_FLIGHT) pthread_cond_signal(&h->changed);
}

/* Waits until another request may be in flight, and counts it. */
static void begin_request(host *h) {
    TRI_LOCKED(&h->lock);
    while (h->in_flight >= IN_FLIGHT) pthread_cond_wait(&h->changed, &h->lock);
    h->in_flight++;
}

static tri_status time_requests(host *h, figures *f) {
    double begin = 0;
    for (int64_t i = -1000; i < REQUESTS; i++) {
        tri_encoded *encoded;
        if (i == 0) begin = tri__bench_cpu(0);
        TRI_TRY(tri__model_encode(h->model, &h->rows[(i + 1000) % h->n], 1, TRI_OVERLONG_TRUNCATE, &encoded));
        begin_request(h);
        tri_status status = tri__model_submit(h->model, encoded, answered, h);
        if (status == TRI_OK) continue;
        tri__encoded_free(encoded);
        return status;
    }
    tri__model_close(h->model); /* answers all */
    h->model = NULL;
    f->request = (tri__bench_cpu(0) - begin) / REQUESTS;
    return h->failed ? tri__fail(TRI_INTERNAL, "%lld requests failed", (long long)h->failed) : TRI_OK;
}

static tri_status run(host *h, figures *f) {
    tri_table_options options = {.threads = 1};
    if (!h->asked.data_path)
        return tri__fail(TRI_USAGE, "bench serve --checkpoint needs rows: give --data-path, a table");
    TRI_TRY(tri__separator_parse(h->asked.separator, &options.separator));
    TRI_TRY(tri__table_open(h->asked.data_path, &options, &h->table));
    TRI_TRY(time_open(h, f));
    TRI_TRY(read_rows(h));
    TRI_TRY(time_encode(h, f));
    return time_requests(h, f);
}

static tri_status print(tri_cli *cli, const tri_settings *settings, const figures *f) {
    if (settings->json) {
        tri_json *o = tri__json_pack("{s:f, s:f, s:f, s:f, s:f}", "open_ms", 1e3 * f->open, "open_cpu_ms",
                                     1e3 * f->open_cpu, "encode_us", 1e6 * f->encode, "request_us", 1e6 * f->request,
                                     "tokens_per_row", f->tokens);
        return tri__print_json_new(cli->out, o);
    }
    tri_text_table table = {0};
    tri__text_table_add(&table, "open ms\tits CPU ms\ttokens a row\tencode us\trequest us");
    tri__text_table_add(&table, "%.0f\t%.0f\t%.1f\t%.2f\t%.2f", 1e3 * f->open, 1e3 * f->open_cpu, f->tokens,
                        1e6 * f->encode, 1e6 * f->request);
    return tri__print_table(cli, &table);
}

tri_status tri__bench_host(tri_cli *cli, tri_settings *settings) {
    host h = {.asked = *settings, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    figures f = {0};
    h.asked.device = (char *)"null";
    h.asked.stub = 1;
    tri_status status = run(&h, &f);
    tri__model_close(h.model);
    tri__table_close(h.table);
    TRI_FREE(h.values, h.rows);
    return status == TRI_OK ? print(cli, settings, &f) : status;
}
