/* run_curves.c - metrics.jsonl read as it grows, and put into a run's data as curves and lists. */
#include "report/runs/run_parts.h"

#include "base/sort.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fewer bytes than asked for: the file ends there. */
static tri_status read_at(const char *path, int fd, char *into, size_t size, int64_t at, size_t *n) {
    for (*n = 0; *n < size;) {
        ssize_t got = pread(fd, into + *n, size - *n, at + (off_t)*n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return tri__fail(TRI_IO, "%s: %s", path, strerror(errno));
        if (got == 0) break;
        *n += (size_t)got;
    }
    return TRI_OK;
}

static void begin_again(tri_run_reader *f) {
    tri__run_lines_close(&f->lines);
    f->at = f->n_seen = 0;
    tri__run_lines_open(&f->lines);
}

/* Begins again at the start, unless the file only grew. */
static tri_status recognise(tri_run_reader *f, int fd, size_t size) {
    char seen[TRI_RUN_SEEN];
    size_t n = 0;
    struct stat stat;
    if (fstat(fd, &stat)) return tri__fail(TRI_IO, "%s: %s", f->path, strerror(errno));
    int same = stat.st_ino == f->inode && (int64_t)size >= f->at;
    if (same) TRI_TRY(read_at(f->path, fd, seen, (size_t)f->n_seen, f->at - f->n_seen, &n));
    f->inode = stat.st_ino;
    if (!same || n != (size_t)f->n_seen || memcmp(seen, f->seen, n)) begin_again(f);
    return TRI_OK;
}

/* Takes complete lines of a text that begins at f->at. */
static tri_status take_lines(tri_run_reader *f, const char *text, size_t size) {
    size_t at = 0;
    tri_status status = TRI_OK;
    while (at < size && status == TRI_OK) {
        const char *end = memchr(text + at, '\n', size - at);
        if (!end) break;
        status = tri__run_lines_take(&f->lines, text + at, (size_t)(end - (text + at)));
        at = (size_t)(end - text) + 1;
    }
    f->torn = at < size;
    if (at) {
        f->n_seen = at < TRI_RUN_SEEN ? (int)at : TRI_RUN_SEEN;
        memcpy(f->seen, text + at - f->n_seen, (size_t)f->n_seen);
    }
    f->at += (int64_t)at;
    return status;
}

static tri_status read_more(tri_run_reader *f, int fd, size_t size) {
    size_t n = 0;
    TRI_TRY(recognise(f, fd, size));
    TRI_OWNED(tri__free_at) char *text = malloc(size - (size_t)f->at + 1);
    if (!text) return tri__fail(TRI_RESOURCE, "no memory for %s", f->path);
    TRI_TRY(read_at(f->path, fd, text, size - (size_t)f->at, f->at, &n));
    return take_lines(f, text, n);
}

/* The median of a column over the last half of the steps; NaN: none. values: [n] scratch. */
static double median(const tri_run_lines *e, const char *key, double *values) {
    int column = 0;
    int64_t n = 0;
    while (column < e->n_keys && strcmp(e->key[column], key)) column++;
    for (int64_t i = e->n / 2; i < e->n && column < e->n_keys; i++)
        if (isfinite(e->value[i * TRI_RUN_COLUMNS + column])) values[n++] = e->value[i * TRI_RUN_COLUMNS + column];
    if (!n) return NAN;
    tri__sort_doubles(values, n);
    return values[n / 2];
}

static void set_real(tri_json *object, const char *key, double value) {
    if (isfinite(value)) tri__json_set_new(object, key, tri__json_real(value));
}

static tri_status put_rates(const tri_run_lines *e, tri_json *run) {
    static const char *const keys[] = {"samples_per_second", "tokens_per_second", "gflops", "mfu", "mem_bytes"};
    double *values = malloc((size_t)(e->n + 1) * sizeof *values), used = 0;
    if (!values) return tri__fail(TRI_RESOURCE, "no memory for the events of a run");
    tri_json *rates = tri__json_object(), *shares = tri__json_object();
    set_real(rates, "step_seconds", median(e, "step_ms", values) / 1e3);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) set_real(rates, keys[i], median(e, keys[i], values));
    static const char *const parts[] = {"comm", "idle", "loader"};
    for (int i = 0; i < 3; i++) {
        double share = median(e, TRI_TEXT(32, "%s_share", parts[i]), values);
        share = share < 0 ? 0 : share > 1 ? 1 : share;
        set_real(shares, parts[i], share);
        if (isfinite(share)) used += share;
    }
    if (tri__json_object_size(shares)) set_real(shares, "compute", used < 1 ? 1 - used : 0);
    free(values);
    tri__json_set_filled(run, "rates", rates);
    tri__json_set_filled(run, "shares", shares);
    return TRI_OK;
}

/* What the lines said, into the run's data. Lists that others add to are copied. */
static tri_status put_all(const tri_run_lines *e, int points, tri_json *run) {
    double step = e->last_step;
    tri_json *last;
    TRI_TRY(tri__run_lines_last(e, &last));
    tri__json_update(run, e->head);
    tri_json *curves = tri__json_object();
    for (int c = TRI_RUN_FIGURES; c < e->n_keys && e->n; c++) {
        tri_json *curve = tri__thin_curve(e->value + TRI_RUN_STEP, e->value + c, e->n, TRI_RUN_COLUMNS, points);
        if (!curve || tri__json_size(tri__json_get(curve, "step"))) tri__json_set_new(curves, e->key[c], curve);
        else tri__json_decref(curve);
    }
    tri__json_set_new(run, "curves", curves);
    if (e->n) {
        const double *at = e->value + (e->n - 1) * TRI_RUN_COLUMNS;
        step = fmax(step, at[TRI_RUN_STEP]);
        set_real(run, "epoch", at[TRI_RUN_EPOCH]);
        if (at[TRI_RUN_TIME] > tri__number_in(run, "updated"))
            tri__json_set_new(run, "updated", tri__run_time(at[TRI_RUN_TIME]));
    }
    tri__json_set_new(run, "step", tri__json_integer((tri_json_int)step));
    tri__json_set(run, "starts", e->starts);
    tri__json_set_new(run, "checkpoints", tri__json_deep_copy(e->checkpoints));
    tri__json_set(run, "warnings", e->warnings);
    tri__json_set_new(run, "n_warnings", tri__json_integer(e->n_warnings));
    tri__json_set(run, "validations", e->validations);
    if (last) tri__json_set_new(run, "last", last);
    if (e->damaged)
        tri__run_missing(run, "metrics.jsonl: %lld of %lld lines are damaged and left out", (long long)e->damaged,
                         (long long)e->lines);
    return put_rates(e, run);
}

tri_status tri__run_follow(tri_run_reader *f, const tri_run_data_options *options, tri_json *run) {
    TRI_OWNED(tri__fd_drop) int fd = -1;
    size_t size;
    tri_status status = tri__file_open(f->path, &fd, &size);
    f->torn = 0, f->found = status == TRI_OK;
    if (f->found) status = read_more(f, fd, size);
    else if (status == TRI_NOINPUT) begin_again(f); /* what was read is no longer there */
    if (status == TRI_RESOURCE) return status;
    if (status != TRI_OK)
        tri__run_missing(run, "metrics.jsonl: %s", status == TRI_NOINPUT ? "no such file" : tri_error());
    return put_all(&f->lines, options->points ? options->points : 2000, run);
}
