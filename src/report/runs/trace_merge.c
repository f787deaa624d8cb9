/* trace_merge.c - merges traces in two passes over each file, a line at a time. The first finds the ranks' clocks and
 * the ends of messages; the second writes the lines with their times moved, then an arrow for each message. */
#include "report/runs/trace_merge.h"

#include "base/file.h"
#include "report/text/stream.h"

#include <errno.h>
#include <unistd.h>

typedef struct rank_trace {
    int rank, machine, cut;
    int world;                    /* ranks of the run that wrote it */
    double zero, uncertainty;     /* time 0 of the file on the shared clock, seconds; its error */
    double drift, drift_at;       /* how much the clock's offset had grown at that time; drift_at 0: unknown */
} rank_trace;

/* One end of a message: inside a slice of that rank and thread. */
typedef struct message_end {
    uint64_t key;                 /* of both ranks, the message and the step */
    int sends;
    int trace, tid;               /* index of traces */
    long long at;                 /* nanoseconds on the rank's own time */
} message_end;

typedef struct merge {
    const char *folder;
    FILE *out;
    rank_trace *trace;            /* [n], by rank */
    int n, world;                 /* world: of the first trace */
    tri_json *old;                /* ranks of which an earlier start left a trace, on other ranks than the first's */
    message_end *end;
    size_t n_ends, room_ends;
    double *shift;                /* [machines] seconds */
    int machines;
    double base;                  /* time 0 of the merged trace on the shared clock */
    long long events, messages;
    int written;                  /* events written so far: 0 or 1, for the comma */
} merge;

static tri_status no_memory(void) { return tri__fail(TRI_RESOURCE, "out of memory for the traces"); }

/* ---- Lines ---- */

/* The number after `key` in an event's line, in nanoseconds; -1: none. Writers of these files put no blanks. */
static long long micros_at(const char *line, const char *key, const char **where, const char **after) {
    const char *at = strstr(line, key);
    char *end;
    if (!at) return -1;
    at += strlen(key);
    long long whole = strtoll(at, &end, 10), part = 0;
    if (end == at || whole < 0) return -1;
    if (*end == '.') {
        const char *digits = end + 1;
        part = strtoll(digits, &end, 10);
        if (end != digits + 3) return -1;
    }
    if (where) *where = at;
    if (after) *after = end;
    return whole * 1000 + part;
}

/* FOLDER/trace-rank<r>.json; of: "trace", "profile" */
static tri_status rank_path(const merge *m, const char *of, int rank, char path[static TRI_PATH_MAX]) {
    return tri__path_join(path, m->folder, TRI_TEXT(64, "%s-rank%d.json", of, rank));
}

static int is_event(const char *line) { return line[0] == '{' && strncmp(line, "{\"ph\":\"", 7) == 0; }

/* A line as an event without the comma after it; TRI_DATA: it is incomplete or damaged. */
static tri_status trim(char *line, const char *name) {
    size_t length = strlen(line);
    while (length && (line[length - 1] == '\n' || line[length - 1] == ',')) line[--length] = 0;
    TRI_OWNED(tri__json_drop) tri_json *event = NULL;
    return tri__json_parse(line, length, name, TRI_DATA, &event);
}

typedef tri_status take_event(merge *m, int trace, char *line);

/* Calls take() for each whole event of a rank's trace. *cut: the file ends early. */
static tri_status each_event(merge *m, int trace, take_event *take, int *cut) {
    char path[TRI_PATH_MAX], *line = NULL;
    size_t room = 0, size, number = 0;
    int fd, ended = 0;
    TRI_TRY(rank_path(m, "trace", m->trace[trace].rank, path));
    TRI_TRY(tri__file_open(path, &fd, &size));
    FILE *in = tri__stream_open(fd, "r");
    tri_status status = in ? TRI_OK : no_memory();
    if (!in) close(fd);
    while (status == TRI_OK && !ended && getline(&line, &room, in) > 0) {
        int whole = strchr(line, '\n') != NULL;
        number++;
        ended = line[0] == ']';
        if (!is_event(line)) {
            if (number > 2 && !ended && whole)
                status = tri__fail(TRI_DATA, "%s:%zu: is not an event of a trace", path, number);
            continue;
        }
        status = trim(line, path);
        if (status == TRI_OK) status = take(m, trace, line);
        else if (status == TRI_DATA) status = whole ? tri__fail(TRI_DATA, "%s:%zu: is damaged", path, number) : TRI_OK;
    }
    if (status == TRI_OK && !ended && !feof(in)) /* newer C libraries count a lack of memory as an error of the file */
        status = ferror(in) && errno != ENOMEM ? tri__fail(TRI_IO, "cannot read %s", path) : no_memory();
    *cut = !ended;
    free(line);
    if (in) fclose(in);
    return status;
}

/* ---- The first pass ---- */

/* The keys of the file's first line. */
static tri_status read_head(const merge *m, rank_trace *t) {
    char path[TRI_PATH_MAX], text[1024];
    TRI_TRY(rank_path(m, "trace", t->rank, path));
    tri__file_start(path, text, sizeof text);
    char *end = strchr(text, '\n');
    if (!end || end == text || end[-1] != ',') return tri__fail(TRI_DATA, "%s: is not a trace of a run", path);
    strcpy(end - 1, "}");
    TRI_OWNED(tri__json_drop) tri_json *head = NULL;
    TRI_TRY(tri__json_parse(text, strlen(text), path, TRI_DATA, &head));
    const tri_json *clock = tri__json_get(head, "clock"), *of = tri__json_get(head, "distributedInfo");
    tri_json_int world = tri__whole_in(of, "world_size");
    int known = tri__json_is_number(tri__json_get(clock, "zero"));
    t->zero = tri__number_in(clock, "zero"), t->uncertainty = tri__number_in(clock, "uncertainty");
    t->machine = (int)tri__whole_in(clock, "machine");
    if (!known || t->machine < 0 || t->machine > 1 << 20 || world < 1 || world > 1 << 24)
        return tri__fail(TRI_DATA, "%s: has no clock or world_size: it is not a trace of this version", path);
    t->world = (int)world;
    return TRI_OK;
}

/* How far the clock had moved at the end of the run; a run that did not end has no such figure. */
static tri_status read_drift(const merge *m, rank_trace *t) {
    char path[TRI_PATH_MAX];
    TRI_OWNED(tri__json_drop) tri_json *profile = NULL;
    TRI_TRY(rank_path(m, "profile", t->rank, path));
    if (!tri__is_file(path) || tri__json_load(path, TRI_DATA, &profile) != TRI_OK) return TRI_OK;
    const tri_json *end = tri__json_get(tri__json_get(profile, "clock"), "end");
    t->drift = tri__number_in(end, "drift"), t->drift_at = tri__number_in(end, "at");
    t->uncertainty = fmax(t->uncertainty, tri__number_in(end, "uncertainty"));
    return TRI_OK;
}

static tri_status take_end(merge *m, int trace, char *line) {
    const char *args = strstr(line, ",\"args\":{"), *sends = args ? strstr(args, ",\"sends\":\"") : NULL;
    const char *receives = args && !sends ? strstr(args, ",\"receives\":\"") : NULL, *tid = strstr(line, ",\"tid\":");
    const char *key = sends ? sends + 10 : receives ? receives + 13 : NULL;
    long long begin = micros_at(line, ",\"ts\":", NULL, NULL), length = micros_at(line, ",\"dur\":", NULL, NULL);
    if (!key || !tid || begin < 0 || length < 0 || strncmp(line, "{\"ph\":\"X\"", 9) != 0) return TRI_OK;
    if (!tri__grow(&m->end, &m->room_ends, m->n_ends + 1, sizeof *m->end)) return no_memory();
    m->end[m->n_ends++] = (message_end){.key = tri__hash64(0, key, strcspn(key, "\"")), .sends = sends != NULL,
                                        .trace = trace, .tid = atoi(tid + 7),
                                        .at = sends ? begin : begin + length - 1};
    return TRI_OK;
}

/* The files of a folder, by rank. */
static tri_status find_traces(merge *m) {
    TRI_OWNED(tri__names_free) tri_names names = {0};
    TRI_TRY(tri__folder_list(m->folder, &names));
    m->trace = calloc((size_t)names.n + 1, sizeof *m->trace);
    for (int i = 0; i < names.n && m->trace; i++) {
        int rank, end = -1;
        if (sscanf(names.name[i], "trace-rank%d.json%n", &rank, &end) == 1 && end > 0 && !names.name[i][end])
            m->trace[m->n++].rank = rank;
    }
    if (!m->trace) return no_memory();
    return m->n ? TRI_OK
                : tri__fail(TRI_NOINPUT, "%s: has no trace-rank<r>.json: `trident train --profile "
                                         "wait=1,warmup=1,active=3` records one", m->folder);
}

static int by_rank(const void *a, const void *b) {
    return ((const rank_trace *)a)->rank - ((const rank_trace *)b)->rank;
}

/* Equal messages together, and of them the k-th send beside the k-th receive. */
static int by_message(const void *a, const void *b) {
    const message_end *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    if (x->sends != y->sends) return y->sends - x->sends;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Traces of another number of ranks than the first are left out. */
static tri_status read_heads(merge *m) {
    int kept = 0;
    for (int i = 0; i < m->n; i++) {
        rank_trace *t = &m->trace[i];
        TRI_TRY(read_head(m, t));
        if (i == 0) m->world = t->world;
        if (t->world != m->world) {
            tri__json_append_new(m->old, tri__json_integer(t->rank));
            continue;
        }
        if (t->machine >= m->machines) m->machines = t->machine + 1;
        m->trace[kept++] = *t;
    }
    m->n = kept;
    return TRI_OK;
}

static tri_status look(merge *m) {
    TRI_TRY(find_traces(m));
    qsort(m->trace, (size_t)m->n, sizeof *m->trace, by_rank);
    TRI_TRY(read_heads(m));
    for (int i = 0; i < m->n; i++) {
        TRI_TRY(read_drift(m, &m->trace[i]));
        TRI_TRY(each_event(m, i, take_end, &m->trace[i].cut));
    }
    if (m->n_ends) qsort(m->end, m->n_ends, sizeof *m->end, by_message);
    m->shift = calloc((size_t)m->machines + 1, sizeof *m->shift);
    return m->shift ? TRI_OK : no_memory();
}

/* ---- One clock ---- */

/* A rank's time as seconds of the shared clock. */
static double shared(const merge *m, int trace, long long nanos) {
    const rank_trace *t = &m->trace[trace];
    double at = t->zero + 1e-9 * (double)nanos;
    if (t->drift_at > 0) at += t->drift * at / t->drift_at;
    return at + m->shift[t->machine];
}

/* Nanoseconds of the merged trace. */
static long long merged(const merge *m, int trace, long long nanos) {
    double at = shared(m, trace, nanos) - m->base;
    return at > 0 ? llround(at * 1e9) : 0;
}

/* Calls with the next message from *i on whose two ends are known: *send and *receive, then 1; 0: there is none. */
static int next_message(const merge *m, size_t *i, const message_end **send, const message_end **receive) {
    while (*i < m->n_ends) {
        size_t first = *i, end = first, sends = 0;
        while (first > 0 && m->end[first - 1].key == m->end[*i].key) first--;
        for (end = first; end < m->n_ends && m->end[end].key == m->end[first].key; end++)
            sends += (size_t)m->end[end].sends;
        size_t k = *i - first;
        if (k < sends && first + sends + k < end) {
            *send = &m->end[*i], *receive = &m->end[first + sends + k], ++*i;
            return 1;
        }
        *i = end;
    }
    return 0;
}

/* Moves machines later until no message arrives before it was sent. Rank 0's machine stays: there the sender is moved
 * back. Each round settles at least the messages of one more machine, if their clocks can agree at all. */
static void align(merge *m) {
    const message_end *send, *receive;
    int home = m->trace[0].machine, moved = 1;
    for (int round = 0; round <= 2 * m->machines && moved; round++) {
        moved = 0;
        for (size_t i = 0; next_message(m, &i, &send, &receive);) {
            int from = m->trace[send->trace].machine, to = m->trace[receive->trace].machine;
            double late = shared(m, send->trace, send->at) - shared(m, receive->trace, receive->at);
            if (from == to || late <= 0) continue;
            late += 1e-9;
            if (to == home) m->shift[from] -= late;
            else m->shift[to] += late;
            moved = 1;
        }
    }
}

/* ---- The second pass ---- */

static void put_comma(merge *m) {
    if (m->written) fputs(",\n", m->out);
    m->written = 1;
    m->events++;
}

/* Flow ids are unique in a file; here the rank makes them unique in all. */
static void put_rest(merge *m, int trace, const char *rest) {
    const char *after, *where;
    long long id = strncmp(rest, "{\"ph\":\"s\"", 9) == 0 || strncmp(rest, "{\"ph\":\"f\"", 9) == 0
                       ? micros_at(rest, ",\"id\":", &where, &after)
                       : -1;
    if (id < 0) fputs(rest, m->out);
    else fprintf(m->out, "%.*s%lld%s", (int)(where - rest), rest, id / 1000 * m->n + trace, after);
}

static tri_status write_event(merge *m, int trace, char *line) {
    const char *where, *after;
    long long at = micros_at(line, ",\"ts\":", &where, &after);
    put_comma(m);
    if (at < 0) {
        fputs(line, m->out);
        return TRI_OK;
    }
    at = merged(m, trace, at);
    line[where - line] = 0; /* the time begins here; `after` is behind it */
    put_rest(m, trace, line);
    fprintf(m->out, "%lld.%03lld%s", at / 1000, at % 1000, after);
    return TRI_OK;
}

static void write_arrow(merge *m, const message_end *end) {
    long long at = merged(m, end->trace, end->at);
    put_comma(m);
    fprintf(m->out,
            "{\"ph\":\"%s\",\"name\":\"message\",\"cat\":\"message\",\"id\":%lld,\"pid\":%d,\"tid\":%d,"
            "\"ts\":%lld.%03lld}",
            end->sends ? "s" : "f\",\"bp\":\"e", m->messages, m->trace[end->trace].rank, end->tid, at / 1000,
            at % 1000);
}

static tri_status write_all(merge *m) {
    const message_end *send, *receive;
    int cut;
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", m->out);
    for (int i = 0; i < m->n; i++) TRI_TRY(each_event(m, i, write_event, &cut));
    for (size_t i = 0; next_message(m, &i, &send, &receive);) {
        m->messages++;
        write_arrow(m, send);
        write_arrow(m, receive);
    }
    fputs("\n]}\n", m->out);
    return ferror(m->out) ? tri__fail(TRI_IO, "cannot write the merged trace") : TRI_OK;
}

static tri_json *facts_of(const merge *m) {
    tri_json *missing = tri__json_array(), *cut = tri__json_array(), *undated = tri__json_array();
    double uncertainty = 0, shift = 0;
    for (int rank = 0, i = 0; rank < m->world; rank++) {
        while (i < m->n && m->trace[i].rank < rank) i++;
        if (i == m->n || m->trace[i].rank != rank) tri__json_append_new(missing, tri__json_integer(rank));
    }
    for (int i = 0; i < m->n; i++) {
        const rank_trace *t = &m->trace[i];
        if (t->cut) tri__json_append_new(cut, tri__json_integer(t->rank));
        if (t->machine != m->trace[0].machine && !(t->drift_at > 0))
            tri__json_append_new(undated, tri__json_integer(t->rank));
        uncertainty = fmax(uncertainty, t->uncertainty);
        shift = fmax(shift, fabs(m->shift[t->machine]));
    }
    return tri__json_pack("{s:i, s:i, s:I, s:I, s:o, s:o, s:o, s:O, s:f, s:f}", "ranks", m->n, "world", m->world,
                          "events", (tri_json_int)m->events, "messages", (tri_json_int)m->messages, "missing", missing,
                          "cut", cut, "undated", undated, "old", m->old, "uncertainty", uncertainty, "shift", shift);
}

tri_status tri__traces_merge(const char *folder, FILE *out, tri_json **facts) {
    merge m = {.folder = folder, .out = out, .old = tri__json_array(), .base = INFINITY};
    *facts = NULL;
    tri_status status = m.old ? look(&m) : no_memory();
    if (status == TRI_OK) {
        align(&m);
        for (int i = 0; i < m.n; i++) m.base = fmin(m.base, shared(&m, i, 0));
        status = write_all(&m);
    }
    if (status == TRI_OK && !(*facts = facts_of(&m))) status = no_memory();
    tri__json_decref(m.old);
    TRI_FREE(m.trace, m.end, m.shift);
    return status;
}
