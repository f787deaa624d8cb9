/* rank_streams.c - pipes from the ranks, split into lines. A blocked console must not block the supervisor: a line is
 * written only when poll says that the console is writable, and a rank whose pipe is full waits, as it would without
 * the supervisor. */
#include "job/rank_streams.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#define RANDOM "XX" "XX" "XX" /* tri__folder_temporary fills it in */

/* Whether a file is requested. */
static int any_file(const tri_rank_logs *logs, int n) {
    for (int i = 0; i < n; i++)
        if (logs->redirect[i] | logs->tee[i]) return 1;
    return 0;
}

/* Settings of one stream. first: on the console only while it is rank 0's. */
typedef struct way {
    int file, console, piped, first;
} way;

static way way_of(const tri_rank_logs *logs, int rank, int stream) {
    int bit = stream ? TRI_STDERR : TRI_STDOUT;
    int tee = (logs->tee[rank] & bit) != 0, redirect = (logs->redirect[rank] & bit) != 0;
    int first = logs->elastic && rank > 0 && stream == 0 && !tee;
    int console = !logs->hidden[rank] && (tee || (!redirect && (rank == 0 || stream == 1 || first)));
    return (way){.file = tee || redirect, .console = console, .piped = tee || rank > 0, .first = first};
}

int tri__streams_need(const tri_rank_logs *logs, int n) {
    int need = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 2; k++) {
            way w = way_of(logs, i, k);
            need += w.file + (w.console && w.piped ? 2 : 0) + (!w.file && !w.console);
        }
    return need;
}

static tri_status make_folder(const tri_rank_logs *logs, char out[static TRI_PATH_MAX]) {
    char *name = TRI_TEXT(TRI_PATH_MAX, "%.200s_" RANDOM, logs->run && *logs->run ? logs->run : "none");
    for (char *at = name; *at; at++)
        if (*at == '/') *at = '_';
    TRI_TRY(tri__folder_make(logs->folder));
    TRI_PATH(run, logs->folder, name);
    tri_status status = tri__folder_temporary(run);
    if (status != TRI_OK)
        return tri__fail_in(status, "no folder of logs can be made in %s; name another with --log-dir", logs->folder);
    return tri__path_join(out, run, "attempt_0");
}

static tri_status open_log(const tri_streams *streams, int rank, int stream, int *fd) {
    TRI_PATH(folder, streams->folder, TRI_TEXT(32, "%d", rank));
    TRI_TRY(tri__folder_make(folder));
    TRI_PATH(path, folder, stream ? "stderr.log" : "stdout.log");
    return tri__file_own(path, TRI_OWN_APPEND, fd);
}

static tri_status open_stream(tri_streams *streams, const tri_rank_logs *logs, int rank, int stream, int console) {
    tri_stream *s = &streams->rank[rank][stream];
    way w = way_of(logs, rank, stream);
    int end[2];
    if (w.file) TRI_TRY(open_log(streams, rank, stream, w.console ? &s->file : &s->child));
    if (!w.file && !w.console) TRI_TRY(tri__null_open(&s->child));
    if (!w.console || !w.piped) return TRI_OK;
    if (pipe2(end, O_CLOEXEC))
        return tri__fail(TRI_RESOURCE, "cannot make a pipe for rank %d: %s; raise `ulimit -n`", rank, strerror(errno));
    s->from = end[0], s->child = end[1], s->console = console;
    s->tee = w.file, s->first = w.first, s->erase = stream == 1 && isatty(console);
    fcntl(s->from, F_SETFL, O_NONBLOCK);
    return TRI_OK;
}

tri_status tri__streams_open(const tri_rank_logs *logs, int n, int out, int err, const tri_log *log,
                             tri_streams *streams) {
    *streams = (tri_streams){.n = n, .rank = calloc((size_t)n, sizeof *streams->rank), .log = log};
    if (!streams->rank) return tri__fail(TRI_RESOURCE, "out of memory for the output of %d ranks", n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 2; k++)
            streams->rank[i][k] = (tri_stream){.child = -1, .from = -1, .file = -1, .console = -1, .number = i};
    tri_status status = any_file(logs, n) ? make_folder(logs, streams->folder) : TRI_OK;
    for (int i = 0; i < n && status == TRI_OK; i++)
        for (int k = 0; k < 2 && status == TRI_OK; k++) status = open_stream(streams, logs, i, k, k ? err : out);
    if (status != TRI_OK) tri__streams_close(streams);
    return status;
}

tri_status tri__streams_reopen(tri_streams *streams, const tri_rank_logs *logs, int rank, int out, int err) {
    for (int k = 0; k < 2; k++) {
        tri_stream *s = &streams->rank[rank][k];
        if (s->file >= 0) close(s->file);
        *s = (tri_stream){.child = -1, .from = -1, .file = -1, .console = -1, .number = s->number};
    }
    for (int k = 0; k < 2; k++) TRI_TRY(open_stream(streams, logs, rank, k, k ? err : out));
    return TRI_OK;
}

void tri__streams_number(tri_streams *streams, int rank, int number) {
    for (int k = 0; k < 2; k++) streams->rank[rank][k].number = number;
}

void tri__streams_close(tri_streams *streams) {
    for (int i = 0; i < streams->n && streams->rank; i++)
        for (int k = 0; k < 2; k++) {
            tri_stream *s = &streams->rank[i][k];
            tri__fd_drop(&s->child);
            tri__fd_drop(&s->from);
            tri__fd_drop(&s->file);
        }
    free(streams->rank);
    *streams = (tri_streams){0};
}

int tri__stream_can_read(const tri_stream *stream) { return stream->from >= 0 && stream->used < sizeof stream->line; }

/* Stores a line as the last one, without surrounding blanks and without the program's "trident: ". */
static void remember(tri_stream *s, const char *line, size_t n) {
    static const char own[] = "trident: ";
    while (n && (line[n - 1] == '\n' || line[n - 1] == '\r' || line[n - 1] == ' ')) n--;
    if (n > strlen(own) && !memcmp(line, own, strlen(own))) line += strlen(own), n -= strlen(own);
    if (n) snprintf(s->last, sizeof s->last, "%.*s", (int)n, line);
}

/* Writes part of a line to the console, with the rank's prefix at its beginning and, if it `ends` there, a newline, in
 * one call: other ranks write there too. 0: the console is not writable now. */
static int say(tri_stream *s, const char *line, size_t n, int ends, int wait) {
    char text[TRI_STREAM_LINE + 64];
    struct pollfd room = {.fd = s->console, .events = POLLOUT};
    if (s->console < 0 || (s->first && s->number)) return 1;
    int ready = poll(&room, 1, wait);
    if (ready == 0 || (ready < 0 && errno == EINTR)) return 0;
    int used = 0;
    if (!s->begun && s->erase) used = snprintf(text, sizeof text, "\r\033[K");
    if (!s->begun && (s->tee || s->number))
        used += snprintf(text + used, sizeof text - (size_t)used, "[rank %d] ", s->number);
    memcpy(text + used, line, n);
    if (ends) text[used + (int)n++] = '\n';
    ssize_t wrote = write(s->console, text, (size_t)used + n);
    if (wrote < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (wrote < 0) s->console = -1; /* closed at the other end: the rank continues, as with SIGPIPE ignored */
    return 1;
}

static void keep(tri_streams *streams, tri_stream *s, int rank, const char *line, size_t n) {
    if (s->file < 0 || tri__write_all(s->file, line, n, "the rank's log") == TRI_OK) return;
    tri__say(streams->log, TRI_LOG_WARN, "rank %d: %s; its log ends here", rank, tri_error());
    tri__fd_drop(&s->file);
}

/* Forwards complete lines of the buffer, or all of a full buffer without a newline; everything if `last`. `wait` in
 * milliseconds, per line. */
static void pass_on(tri_streams *streams, int rank, int stream, int last, int wait) {
    tri_stream *s = &streams->rank[rank][stream];
    while (s->used) {
        char *newline = memchr(s->line, '\n', s->used);
        int whole = newline != NULL;
        if (!whole && s->used < sizeof s->line && !last) return;
        size_t n = whole ? (size_t)(newline - s->line) + 1 : s->used;
        int ends = last && !whole;
        if (!say(s, s->line, n, ends, wait)) return;
        keep(streams, s, rank, s->line, n);
        if (!s->begun) remember(s, s->line, n);
        s->begun = !whole && !ends;
        s->used -= n;
        memmove(s->line, s->line + n, s->used);
    }
}

/* Reads what fits; 0: nothing more for now. */
static int take(tri_stream *s) {
    if (!tri__stream_can_read(s)) return 0;
    ssize_t n = read(s->from, s->line + s->used, sizeof s->line - s->used);
    if (n > 0) s->used += (size_t)n;
    else if (n == 0 || (errno != EAGAIN && errno != EINTR)) tri__fd_drop(&s->from);
    return n > 0;
}

void tri__stream_pump(tri_streams *streams, int rank, int stream) {
    take(&streams->rank[rank][stream]);
    pass_on(streams, rank, stream, 0, 0);
}

void tri__stream_drain(tri_streams *streams, int rank, int stream) {
    enum { WAIT_MS = 200 };
    tri_stream *s = &streams->rank[rank][stream];
    while (take(s)) {
        size_t before = s->used;
        pass_on(streams, rank, stream, 0, WAIT_MS);
        if (s->used == before && before == sizeof s->line) break; /* the console is blocked: the rest is lost */
    }
    pass_on(streams, rank, stream, 1, WAIT_MS);
    if (s->begun) say(s, "\n", 1, 0, WAIT_MS);
    s->used = 0, s->begun = 0;
    tri__fd_drop(&s->from);
}
