/* serve.c - `trident serve`: models behind HTTP, until a signal. The first line of its output has the address and a
 * request that can be pasted into a shell. */
#include "cli/launch.h"

#include "serve/infer/crew.h"
#include "serve/server/server.h"
#include "web/http_hosts.h"

#include <sys/resource.h>
#include <unistd.h>

enum { MODELS = TRI_WORDS_MODELS, KEY_FILE = 1 << 20, PEM_FILE = 1 << 20, SPARE_FILES = 64, LEAST_EACH = 256 };

typedef struct serve_options {
    char *host, *allow_host, *api_key_file, *tls_cert, *tls_key, *access_log, *max_body;
    int64_t port, max_batch_tokens, max_batch_rows, max_queue, max_rows, max_concurrent_requests, max_connections,
        max_per_address, http_threads;
    double max_wait_ms, idle_timeout, request_timeout, drain_timeout;
    int auto_truncate;
} serve_options;

static tri_status check_size(const char *text) {
    return tri__text_size(text) > 0 ? TRI_OK : tri__fail(TRI_USAGE, "a size is expected, as in 2M");
}

#define ROW(kind, field, ...) TRI_OWN_ROW(serve_options, "serve", kind, field, __VA_ARGS__)
const tri_option tri__serve_options[] = {
    ROW(TEXT, host, .value = "127.0.0.1", .help = "address to listen at; 0.0.0.0: all of this machine's"),
    ROW(TEXT, allow_host,
        .help = "names to answer to besides this machine's own, separated by commas, such as a proxy's; *: all"),
    ROW(INT, port, .value = "8080", .min = 0, .max = 65535, .help = "port to listen at; 0: a free one"),
    ROW(INT, max_batch_tokens, .value = "16384", .min = 1, .max = 1 << 24,
        .help = "tokens of both texts that the model computes at once"),
    ROW(INT, max_batch_rows, .value = "512", .min = 1, .max = 1 << 20, .help = "rows that the model computes at once"),
    ROW(REAL, max_wait_ms, .value = "0", .min = 0, .max = 10000,
        .help = "milliseconds that a row may wait for others to share a batch; 0: only while the model is busy"),
    ROW(INT, max_queue, .value = "4096", .min = 1, .max = 1 << 24,
        .help = "rows that may wait for the model; a request beyond them gets 429"),
    ROW(TEXT, max_body, .value = "2M", .check = check_size, .help = "bytes of a request's body; more gets 413"),
    ROW(INT, max_rows, .value = "32", .min = 1, .max = 1 << 20, .alias = "max_client_batch_size",
        .help = "rows of a request; more get 413"),
    ROW(INT, max_concurrent_requests, .value = "512", .min = 1, .max = 1 << 20,
        .help = "complete requests in flight, and slow ones of one address; more get 429"),
    ROW(INT, max_connections, .value = "16384", .min = 1, .max = 1 << 20,
        .help = "open connections; more wait until one is closed"),
    ROW(INT, max_per_address, .value = "0", .min = 0, .max = 1 << 20,
        .help = "open connections of one client's address; more get 429; 0: a quarter of all, at least 256"),
    ROW(BOOL, auto_truncate, .value = "false", .help = "cut texts that are too long, unless a request says otherwise"),
    ROW(TEXT, api_key_file, .help = "file of keys, one a line; requests then need Authorization: Bearer KEY"),
    ROW(TEXT, tls_cert, .help = "certificate (PEM, with its chain): HTTPS"),
    ROW(TEXT, tls_key, .help = "private key of the certificate (PEM)"),
    ROW(TEXT, access_log, .help = "file for a line of JSON a request, appended; -: stderr"),
    ROW(REAL, idle_timeout, .value = "75", .min = 0.1, .max = 86400,
        .help = "seconds until a connection without a complete request header is closed"),
    ROW(REAL, request_timeout, .value = "30", .min = 0.1, .max = 86400,
        .help = "seconds that a request's body may take to arrive; more gets 408"),
    ROW(REAL, drain_timeout, .value = "30", .min = 0, .max = 86400,
        .help = "seconds that requests in flight get after SIGTERM"),
    ROW(INT, http_threads, .value = "0", .min = 0, .max = 256,
        .help = "threads that read requests and tokenise; 0: one for every four cores, at most 8"),
    TRI_OWN_END(serve_options)};

/* What the server's options point to. */
typedef struct serving {
    tri_cli *cli;
    tri_settings *settings;
    const serve_options *own;
    tri_keys_file keys;
    char *certificate, *private_key;
    char *name[MODELS];         /* owned */
    const char *run[MODELS];
    int n;
    tri_server_options server;
} serving;

/* NAME=RUN, or RUN, which is named by its folder. */
static tri_status take_model(serving *s, const char *word) {
    char real[TRI_PATH_MAX];
    const char *equal = strchr(word, '='), *name = word, *run = word;
    size_t length = 0;
    tri_kind kind = TRI_KIND_NONE;
    if (equal) TRI_TRY(tri__path_kind(word, &kind));
    if (equal && kind == TRI_KIND_NONE) {
        length = (size_t)(equal - word), run = equal + 1;
        if (!length || !*run || memchr(word, '/', length))
            return tri__fail(TRI_USAGE, "\"%s\": NAME=RUN is expected, with a name without \"/\"", word);
    } else {
        TRI_TRY(tri__path_kind(word, &kind));
        if (kind == TRI_KIND_NONE) return tri__fail(TRI_NOINPUT, "%s: no such checkpoint or run folder", word);
        if (!tri__path_real(word, real)) return tri__fail_errno("find", word, TRI_NOINPUT);
        name = strrchr(real, '/') + 1, length = strlen(name);
        if (!length) return tri__fail(TRI_USAGE, "%s: name the model: NAME=RUN", word);
    }
    s->run[s->n] = run, s->name[s->n] = strndup(name, length);
    return s->name[s->n++] ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

/* A secret that every user of this machine can read. */
static void warn_of_readers(const serving *s, const char *path) {
    int mode = path ? tri__path_mode(path) : 0;
    if (!(mode & 4) || !tri__launch_speaks(s->cli->lookup)) return;
    fprintf(s->cli->err, "warning: every user of this machine can read %s (mode %03o); chmod 600 keeps it secret\n",
            path, (unsigned)mode);
}

static tri_status take_files(serving *s) {
    const serve_options *own = s->own;
    TRI_OWNED(tri__free_at) char *text = NULL;
    size_t size;
    if (!own->tls_cert != !own->tls_key) return tri__fail(TRI_USAGE, "--tls-cert and --tls-key are needed together");
    if (own->tls_cert) TRI_TRY(tri__file_read(own->tls_cert, PEM_FILE, &s->certificate, &size));
    if (own->tls_key) TRI_TRY(tri__file_read(own->tls_key, PEM_FILE, &s->private_key, &size));
    warn_of_readers(s, own->tls_key);
    warn_of_readers(s, own->api_key_file);
    if (!own->api_key_file) return TRI_OK;
    TRI_TRY(tri__file_read(own->api_key_file, KEY_FILE, &text, &size));
    return tri__keys_parse(text, size, own->api_key_file, &s->keys);
}

static tri_status open_log(serving *s) {
    s->server.access_log = -1;
    if (!s->own->access_log) return TRI_OK;
    if (!strcmp(s->own->access_log, "-")) {
        s->server.access_log = STDERR_FILENO;
        return TRI_OK;
    }
    const tri_output output = {.option = "--access-log", .path = s->own->access_log, .appends = 1};
    TRI_TRY(tri__output_check(s->settings, &output));
    return tri__file_own(s->own->access_log, TRI_OWN_APPEND, &s->server.access_log);
}

/* Each connection is an open file: raises this process's limit as far as it may, and takes no more connections than
 * that allows. */
static int64_t allow_connections(const serving *s, int64_t wanted) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return wanted;
    rlim_t need = (rlim_t)(wanted + SPARE_FILES), before = limit.rlim_cur;
    if (limit.rlim_cur >= need) return wanted;
    limit.rlim_cur = need < limit.rlim_max ? need : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit)) limit.rlim_cur = before;
    if (limit.rlim_cur >= need) return wanted;
    int64_t allowed = (int64_t)limit.rlim_cur - SPARE_FILES;
    if (allowed < 16) allowed = 16;
    if (!s->settings->quiet && tri__launch_speaks(s->cli->lookup))
        fprintf(s->cli->err, "%lld connections at most: the limit of open files is %lld (ulimit -n)\n",
                (long long)allowed, (long long)limit.rlim_cur);
    return allowed;
}

static int http_threads(const serving *s) {
    int threads = (int)s->own->http_threads;
    if (!threads) threads = tri__cores() / 4 > 8 ? 8 : tri__cores() / 4;
    return threads > 1 ? threads : 1;
}

static void fill(serving *s) {
    const serve_options *own = s->own;
    int64_t connections = allow_connections(s, own->max_connections), each = own->max_per_address;
    int open = !own->api_key_file && tri__host_is_loopback(own->host); /* pages in a browser here could use it */
    s->server = (tri_server_options){
        .n_models = s->n, .name = (const char *const *)s->name, .run = s->run, .asked = s->settings,
        .batching = {.max_batch_tokens = own->max_batch_tokens, .max_batch_rows = own->max_batch_rows,
                     .max_wait = own->max_wait_ms / 1000, .queue_rows = own->max_queue},
        .http = {.host = own->host, .port = (int)own->port, .keys = own->api_key_file ? &s->keys : NULL,
                 .certificate = s->certificate, .private_key = s->private_key,
                 .max_body = (size_t)tri__text_size(own->max_body), .check_host = open || own->allow_host,
                 .allow_host = own->allow_host, .max_connections = (int)connections,
                 .max_per_address = (int)(each ? each : connections > 4 * LEAST_EACH ? connections / 4 : LEAST_EACH),
                 .max_requests = (int)own->max_concurrent_requests, .idle_seconds = own->idle_timeout,
                 .request_seconds = own->request_timeout, .threads = http_threads(s)},
        .key_file = own->api_key_file, .max_rows = own->max_rows, .auto_truncate = own->auto_truncate};
}

/* Serves until a signal asks for the end. */
static tri_status serve(serving *s, const tri_log *log) {
    tri_server *server = NULL;
    TRI_TRY(tri__server_open(&s->server, log, &server));
    TRI_OWNED(tri__free_at) char *example = tri__server_example(server);
    if (!example) {
        tri__server_close(server, 0);
        return tri__fail(TRI_RESOURCE, "out of memory");
    }
    fprintf(s->cli->out, "serving %s at %s; try: %s\n", s->name[0], tri__server_address(server), example);
    fflush(s->cli->out);
    while (tri__signals_wait() == TRI_SERVER_RELOAD) (void)tri__server_reload(server); /* the log has said why */
    int64_t answered = tri__server_close(server, s->own->drain_timeout);
    tri__say(log, TRI_LOG_INFO, "%lld requests were answered", (long long)answered);
    return TRI_OK;
}

/* Rank 0 has the requests; the others compute when it says so. */
static tri_status serve_here(tri_cli *cli, const tri_settings *settings, tri_world *world, int rank, const tri_log *log,
                             void *context) {
    serving *s = context;
    (void)cli;
    s->server.asked = settings;
    if (rank) return tri__crew_follow(world, settings, &s->server.batching);
    tri_status status = world ? tri__crew_open(world, &s->server.batching.crew) : TRI_OK;
    if (status == TRI_OK) status = open_log(s);
    if (status == TRI_OK) status = serve(s, log);
    TRI_KEEP_WORDS();
    tri__crew_close(s->server.batching.crew);
    if (s->server.access_log > STDERR_FILENO) close(s->server.access_log);
    return status;
}

static tri_status prepare(serving *s, const tri_command_call *call) {
    if (s->settings->cp_size > 1)
        return tri__fail(TRI_USAGE, "--cp-size %lld: a server's first rank sends the others whole batches, not runs of "
                         "their tokens; take --tp-size, or trident predict for long texts in a file",
                         (long long)s->settings->cp_size);
    if (!call->n_words) return tri__fail(TRI_USAGE, "which model? trident serve RUN, a checkpoint or a run folder");
    for (int i = 0; i < call->n_words; i++) TRI_TRY(take_model(s, call->words[i]));
    TRI_TRY(take_files(s));
    fill(s);
    return TRI_OK;
}

tri_status tri__command_serve(tri_cli *cli, tri_command_call *call) {
    serving s = {.cli = cli, .settings = &call->settings, .own = call->own};
    tri_status status = prepare(&s, call);
    if (status == TRI_OK) {
        tri__signals_serve(cli);
        status = tri__launch_infer(cli, s.settings, serve_here, &s);
    }
    for (int i = 0; i < s.n; i++) free(s.name[i]);
    tri__keys_file_free(&s.keys);
    TRI_FREE(s.certificate, s.private_key);
    return status;
}
