/* serve_http.c - `trident bench serve --http RUN`: the whole server over loopback, in this process, loaded by a client
 * of our own; or a server that runs already, by its address. Rows come from --data-path, by the columns that /info
 * names; without it, one made-up row. */
#include "cli/bench/bench.h"
#include "cli/bench/http_load.h"

#include "report/text/text_table.h"
#include "serve/server/server.h"

enum { ROWS = 4096 }; /* different rows that are sent at most */

typedef struct requests {
    const char *host;
    char **text;               /* [n] */
    size_t *length;            /* [n] */
    int64_t n;
} requests;

static void requests_free(requests *r) {
    for (int64_t i = 0; i < r->n; i++) free(r->text[i]);
    TRI_FREE(r->text, r->length);
}

/* Takes the body's text. */
static tri_status add_request(requests *r, char *body) {
    char *text = NULL;
    int n = body ? asprintf(&text,
                            "POST /predict HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
                            "Content-Length: %zu\r\n\r\n%s", r->host, strlen(body), body)
                 : -1;
    free(body);
    if (n < 0) return tri__fail(TRI_RESOURCE, "out of memory");
    r->text[r->n] = text, r->length[r->n++] = (size_t)n;
    return TRI_OK;
}

static tri_status body_of(const tri_json *row, char **out) {
    TRI_OWNED(tri__json_drop) tri_json *body = tri__json_pack("{s:O, s:b}", "inputs", row, "truncate", 1);
    *out = body ? tri__json_line(body) : NULL;
    return *out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

/* A row of the table as an object of the model's columns. */
static tri_json *row_of(const tri_table *table, int64_t row, const tri_json *columns, const int *at) {
    tri_json *object = tri__json_object();
    tri__json_each(columns, i, column) {
        tri_field_text field = tri__table_field(table, row, at[i]);
        if (field.length)
            tri__json_set_new(object, tri__text_in(column, "name"), tri__json_stringn(field.text, field.length));
    }
    return object;
}

static tri_status rows_of_table(const char *path, const tri_json *columns, requests *r) {
    TRI_OWNED(tri__table_drop) tri_table *table = NULL;
    TRI_OWNED(tri__free_at) int *at = malloc((tri__json_size(columns) + 1) * sizeof *at);
    if (!at) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(tri__table_open(path, NULL, &table));
    for (size_t i = 0; i < tri__json_size(columns); i++)
        TRI_TRY(tri__table_find(table, tri__text_in(tri__json_at(columns, i), "name"), &at[i]));
    for (int64_t i = 0; i < tri__table_rows(table) && i < ROWS; i++) {
        TRI_OWNED(tri__json_drop) tri_json *row = row_of(table, i, columns, at);
        char *body;
        TRI_TRY(body_of(row, &body));
        TRI_TRY(add_request(r, body));
    }
    return r->n ? TRI_OK : tri__fail(TRI_DATA, "%s has no rows", path);
}

/* Requests for what the server's /info says. */
static tri_status make_requests(const char *host, int port, const char *data, requests *r) {
    TRI_OWNED(tri__free_at) char *text = NULL;
    char *body;
    TRI_OWNED(tri__json_drop) tri_json *info = NULL;
    TRI_TRY(tri__http_get(host, port, "/info", &text));
    TRI_TRY(tri__json_parse(text, strlen(text), "/info", TRI_DATA, &info));
    r->text = calloc(ROWS, sizeof *r->text), r->length = calloc(ROWS, sizeof *r->length);
    if (!r->text || !r->length) return tri__fail(TRI_RESOURCE, "out of memory");
    else if (data) TRI_TRY(rows_of_table(data, tri__json_get(info, "columns"), r));
    else {
        TRI_TRY(body_of(tri__json_get(info, "example"), &body));
        TRI_TRY(add_request(r, body));
    }
    return TRI_OK;
}

static double percentile(const tri_load_out *out, double share) {
    int64_t at = (int64_t)(share * (double)out->answered);
    return out->answered ? out->latency[at < out->answered ? at : out->answered - 1] : 0;
}

/* cpu: seconds of the server; below 0: unknown. */
static tri_status print(tri_cli *cli, const tri_settings *settings, const tri_load_in *in, const tri_load_out *out,
                        double cpu) {
    double each = cpu < 0 || !out->answered ? -1 : 1e6 * cpu / (double)out->answered;
    if (settings->json) {
        tri_json *o = tri__json_pack(
            "{s:i, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "clients", in->clients, "rate",
            in->rate, "answered", (tri_json_int)out->answered, "refused", (tri_json_int)out->refused, "failed",
            (tri_json_int)out->failed, "wrong", (tri_json_int)out->wrong, "retried", (tri_json_int)out->retried,
            "requests_per_second", (double)out->answered / out->seconds, "p50_ms", 1e3 * percentile(out, 0.5),
            "p90_ms", 1e3 * percentile(out, 0.9), "p99_ms", 1e3 * percentile(out, 0.99), "max_ms",
            1e3 * percentile(out, 1));
        if (each >= 0) tri__json_set_new(o, "cpu_us", tri__json_real(each));
        return tri__print_json_new(cli->out, o);
    }
    tri_text_table table = {0};
    char rate[32], host[32] = "-";
    snprintf(rate, sizeof rate, in->rate > 0 ? "%.0f/s" : "closed", in->rate);
    if (each >= 0) snprintf(host, sizeof host, "%.1f", each);
    tri__text_table_add(&table, "load\tclients\trequests/s\tp50 ms\tp90 ms\tp99 ms\tmax ms\tCPU us a request\trefused\t"
                        "failed\twrong\tretried");
    tri__text_table_add(&table, "%s\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t%lld\t%lld\t%lld\t%lld", rate, in->clients,
                        (double)out->answered / out->seconds, 1e3 * percentile(out, 0.5), 1e3 * percentile(out, 0.9),
                        1e3 * percentile(out, 0.99), 1e3 * percentile(out, 1), host, (long long)out->refused,
                        (long long)out->failed, (long long)out->wrong, (long long)out->retried);
    return tri__print_table(cli, &table);
}

static tri_status load_server(tri_cli *cli, const tri_settings *settings, const tri_bench_options *options,
                              const char *host, int port, int is_own) {
    TRI_OWNED(requests_free) requests r = {.host = host};
    TRI_OWNED(tri__load_free) tri_load_out out = {0};
    TRI_TRY(make_requests(host, port, settings->data_path, &r));
    tri_load_in in = {.host = host, .port = port, .request = (const char *const *)r.text, .length = r.length, .n = r.n,
                      .clients = (int)options->clients, .rate = options->rate, .seconds = options->seconds,
                      .requests = options->requests};
    tri_load_in warm = in;
    warm.rate = 0, warm.seconds = 0.3, warm.clients = in.clients < 8 ? in.clients : 8;
    TRI_TRY(tri__http_load(&warm, &out));
    tri__load_free(&out);
    double cpu = tri__bench_cpu(0);
    TRI_TRY(tri__http_load(&in, &out));
    cpu = is_own ? tri__bench_cpu(0) - cpu - out.cpu : -1;
    if (!out.answered) return tri__fail(TRI_DATA, "the server answered no request with 200");
    return print(cli, settings, &in, &out, cpu);
}

tri_status tri__bench_serve_http(tri_cli *cli, tri_settings *settings, const tri_bench_options *options) {
    char host[64];
    int port;
    tri_server *server;
    if (sscanf(options->http, "http://%63[0-9.]:%d", host, &port) == 2)
        return load_server(cli, settings, options, host, port, 0);
    const tri_log log = {0};
    settings->stub = 1; /* --device null: the host's side alone */
    const char *const name = "bench";
    const tri_server_options serving = {
        .n_models = 1, .name = &name, .run = (const char *const *)&options->http, .asked = settings,
        .http = {.host = "127.0.0.1", .max_body = 1 << 21, .max_connections = 10000, .max_requests = 10000,
                 .idle_seconds = 75, .request_seconds = 30, .threads = 1},
        .max_rows = 32, .access_log = -1};
    TRI_TRY(tri__server_open(&serving, &log, &server));
    port = atoi(strrchr(tri__server_address(server), ':') + 1);
    tri_status status = load_server(cli, settings, options, "127.0.0.1", port, 1);
    TRI_KEEP_WORDS();
    tri__server_close(server, 5);
    return status;
}
