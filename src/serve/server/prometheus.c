/* prometheus.c - GET /metrics in the text format of Prometheus. Counters are atomic and never reset. */
#include "serve/server/server_parts.h"

/* 0: the client left before the reply; -1: every other. */
static const int codes[TRI_METRIC_CODES] = {200, 400, 401, 403, 404, 405, 406, 408, 413,
                                            415, 422, 424, 429, 431, 500, 503, 0,   -1};

/* Upper bounds; seconds, or units. Ends at a 0. */
static const double seconds_bounds[TRI_METRIC_BUCKETS + 1] = {
    0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.004, 0.006, 0.008, 0.012, 0.016, 0.024, 0.032, 0.048, 0.064, 0.1, 0.25,
    0.5, 1, 2.5, 10};
static const double rows_bounds[TRI_METRIC_BUCKETS + 1] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048};
static const double tokens_bounds[TRI_METRIC_BUCKETS + 1] = {16,   32,   64,   128,  256,   512,
                                                             1024, 2048, 4096, 8192, 16384, 32768, 65536};

static const struct {
    const char *name, *help;
    const double *bounds;
    double unit;                /* of the stored sum */
} histograms[TRI_HISTOGRAMS] = {
    [TRI_HISTOGRAM_REQUEST] = {"trident_request_duration_seconds",
                               "From the end of a request's header until its reply was sent", seconds_bounds, 1e-9},
    [TRI_HISTOGRAM_TOKENIZE] = {"trident_tokenize_duration_seconds", "Preprocessing and tokenising a request",
                                seconds_bounds, 1e-9},
    [TRI_HISTOGRAM_QUEUE] = {"trident_queue_duration_seconds", "A request's wait for the model", seconds_bounds, 1e-9},
    [TRI_HISTOGRAM_COMPUTE] = {"trident_compute_duration_seconds", "The model's time for a request's batch",
                               seconds_bounds, 1e-9},
    [TRI_HISTOGRAM_ROWS] = {"trident_request_rows", "Rows of a request", rows_bounds, 1},
    [TRI_HISTOGRAM_BATCH_ROWS] = {"trident_batch_rows", "Rows of the batch that a request was computed in",
                                  rows_bounds, 1},
    [TRI_HISTOGRAM_BATCH_TOKENS] = {"trident_batch_tokens", "Tokens of the batch that a request was computed in",
                                    tokens_bounds, 1},
};

static int n_bounds(const double *bounds) {
    int n = 0;
    while (n < TRI_METRIC_BUCKETS && bounds[n] > 0) n++;
    return n;
}

void tri__metrics_observe(tri_server_metrics *metrics, tri_histogram_kind kind, double value) {
    tri_histogram *h = &metrics->histogram[kind];
    const double *bounds = histograms[kind].bounds;
    int at = 0, n = n_bounds(bounds);
    while (at < n && value > bounds[at]) at++;
    atomic_fetch_add_explicit(&h->bucket[at], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum, (uint64_t)(value / histograms[kind].unit), memory_order_relaxed);
}

void tri__metrics_request(tri_server_metrics *metrics, const tri_http_record *record) {
    int code = 0, route = record->route < 0 || record->route >= TRI_METRIC_ROUTES ? TRI_METRIC_ROUTES : record->route;
    while (code < TRI_METRIC_CODES - 1 && codes[code] != record->status) code++;
    atomic_fetch_add_explicit(&metrics->requests[route][code], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&metrics->bytes_in, record->bytes_in, memory_order_relaxed);
    atomic_fetch_add_explicit(&metrics->bytes_out, record->bytes_out, memory_order_relaxed);
    tri__metrics_observe(metrics, TRI_HISTOGRAM_REQUEST, record->seconds);
}

int64_t tri__metrics_answered(const tri_server_metrics *metrics) {
    uint64_t n = 0;
    for (int r = 0; r <= TRI_METRIC_ROUTES; r++)
        for (int c = 0; c < TRI_METRIC_CODES; c++) n += codes[c] ? atomic_load(&metrics->requests[r][c]) : 0;
    return (int64_t)n;
}

static void put_requests(const tri_server *server, tri_buffer *out) {
    const tri_server_metrics *metrics = &server->metrics;
    tri__buffer_put(out, "# HELP trident_requests_total Requests by route and status; 499: the client left before "
                    "the reply\n# TYPE trident_requests_total counter\n");
    for (int r = 0; r <= TRI_METRIC_ROUTES; r++)
        for (int c = 0; c < TRI_METRIC_CODES; c++) {
            uint64_t n = atomic_load(&metrics->requests[r][c]);
            const char *code = codes[c] > 0 ? TRI_TEXT(16, "%d", codes[c]) : codes[c] ? "other" : "499";
            if (!n) continue;
            tri__buffer_put(out, "trident_requests_total{route=\"%s\",code=\"%s\"} %llu\n",
                            r < TRI_METRIC_ROUTES ? server->routes[r].path : "other", code, (unsigned long long)n);
        }
}

static void put_one(tri_buffer *out, const char *name, const char *type, const char *help, double value) {
    tri__buffer_put(out, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, type, name, value);
}

static void put_histogram(const tri_histogram *h, tri_histogram_kind kind, tri_buffer *out) {
    const double *bounds = histograms[kind].bounds;
    const char *name = histograms[kind].name;
    uint64_t below = 0;
    int n = n_bounds(bounds);
    tri__buffer_put(out, "# HELP %s %s\n# TYPE %s histogram\n", name, histograms[kind].help, name);
    for (int i = 0; i <= n; i++) {
        below += atomic_load(&h->bucket[i]);
        if (i < n) tri__buffer_put(out, "%s_bucket{le=\"%g\"} %llu\n", name, bounds[i], (unsigned long long)below);
    }
    tri__buffer_put(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9g\n%s_count %llu\n", name, (unsigned long long)below,
                    name, (double)atomic_load(&h->sum) * histograms[kind].unit, name, (unsigned long long)below);
}

static void put_models(tri_server *server, tri_buffer *out, int running, const char *name, const char *help) {
    tri__buffer_put(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
    for (int m = 0; m < server->options.n_models; m++) {
        tri_model_load load;
        tri_live *live = tri__server_use(server, &server->served[m]);
        tri__model_load(live->model, &load);
        tri__server_release(server, live);
        tri__buffer_put(out, "%s", name);
        tri__put_string(out, "{model=", server->served[m].name);
        tri__buffer_put(out, "} %lld\n", (long long)(running ? load.running_rows : load.queued_rows));
    }
}

void tri__handle_metrics(void *context, tri_exchange *exchange) {
    tri_server *server = context;
    const tri_server_metrics *metrics = &server->metrics;
    tri_buffer out = {0};
    put_requests(server, &out);
    put_one(&out, "trident_requests_in_flight", "gauge", "Requests that are not answered yet",
            tri__http_in_flight(server->http));
    put_models(server, &out, 0, "trident_queue_rows", "Rows that wait for a model");
    put_models(server, &out, 1, "trident_running_rows", "Rows that a model computes now");
    put_one(&out, "trident_rows_total", "counter", "Rows given to models", (double)atomic_load(&metrics->rows));
    put_one(&out, "trident_tokens_total", "counter", "Tokens given to models", (double)atomic_load(&metrics->tokens));
    tri__put_unseen(server, &out);
    tri__put_drift(server, &out);
    put_one(&out, "trident_request_bytes_total", "counter", "Bytes of request bodies",
            (double)atomic_load(&metrics->bytes_in));
    put_one(&out, "trident_reply_bytes_total", "counter", "Bytes of reply bodies",
            (double)atomic_load(&metrics->bytes_out));
    put_one(&out, "trident_reloads_total", "counter", "Models loaded again", (double)atomic_load(&metrics->reloads));
    put_one(&out, "trident_failed_reloads_total", "counter", "Models that could not be loaded again",
            (double)atomic_load(&metrics->failed_reloads));
    for (int k = 0; k < TRI_HISTOGRAMS; k++) put_histogram(&metrics->histogram[k], (tri_histogram_kind)k, &out);
    put_one(&out, "process_resident_memory_bytes", "gauge", "Memory of the server", (double)tri__memory_held());
    put_one(&out, "trident_uptime_seconds", "gauge", "Since the server started", tri__clock() - server->started);
    tri__reply(exchange, "text/plain; version=0.0.4; charset=utf-8", &out);
}
