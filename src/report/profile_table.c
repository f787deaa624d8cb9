/* profile_table.c - the ten costliest operations of the recorded steps. Data loading overlaps with them and is omitted;
 * metrics.jsonl has its share. */
#include "report/sinks.h"

#include "base/file.h"
#include "report/numbers.h"
#include "report/table.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN = 10, TRACK_DATA = 1 };

typedef struct profile {
    char *folder;
    FILE *out;
    int color;
} profile;

typedef struct cost {
    const char *name;
    int64_t calls;
    double seconds, flops, bytes;
} cost;

static int dearest_first(const void *a, const void *b) {
    const cost *x = a, *y = b;
    if (x->seconds != y->seconds) return x->seconds < y->seconds ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* Sums by name; a program has a few dozen operations, so a list suffices. NULL if out of memory. */
static cost *sum_costs(const tri_event *event, int *n) {
    int capacity = 64;
    cost *costs = calloc((size_t)capacity, sizeof *costs);
    *n = 0;
    for (int64_t i = 0; i < event->n_spans && costs; i++) {
        const tri_span *span = &event->spans[i];
        if (span->track == TRACK_DATA) continue;
        int at = 0;
        while (at < *n && strcmp(costs[at].name, span->name) != 0) at++;
        if (at == capacity) {
            cost *grown = realloc(costs, (size_t)(capacity *= 2) * sizeof *costs);
            if (!grown) free(costs);
            costs = grown;
            if (!costs) return NULL;
        }
        if (at == *n) costs[(*n)++] = (cost){.name = span->name};
        costs[at].calls++;
        costs[at].seconds += span->end - span->begin;
        costs[at].flops += span->flops;
        costs[at].bytes += span->bytes;
    }
    if (costs) qsort(costs, (size_t)*n, sizeof *costs, dearest_first);
    return costs;
}

static const char *rate_text(double amount, double seconds, char out[static 32]) {
    if (amount > 0 && seconds > 0) snprintf(out, 32, "%.1f", amount / seconds / 1e9);
    else strcpy(out, "-");
    return out;
}

static tri_status print(const cost *costs, int n, FILE *out, int color) {
    tri_text_table table = {0};
    double total = 0;
    int shown = n < SHOWN ? n : SHOWN;
    char flops[32], bytes[32];
    for (int i = 0; i < n; i++) total += costs[i].seconds;
    fprintf(out, "%d costliest of %d operations, %.1f ms recorded\n", shown, n, 1e3 * total);
    tri__text_table_add(&table, "operation\tcalls\ttotal ms\tshare\tavg us\tGFLOP/s\tGB/s");
    for (int i = 0; i < shown; i++) {
        const cost *c = &costs[i];
        tri__text_table_add(&table, "%s\t%lld\t%.1f\t%.1f%%\t%.1f\t%s\t%s", c->name, (long long)c->calls,
                            1e3 * c->seconds, 100 * tri__rate(c->seconds, total), 1e6 * c->seconds / (double)c->calls,
                            rate_text(c->flops, c->seconds, flops), rate_text(c->bytes, c->seconds, bytes));
    }
    tri_status status = tri__text_table_print(&table, out, color);
    tri__text_table_free(&table);
    return status;
}

static tri_status save(const profile *p, const cost *costs, int n) {
    char path[TRI_PATH_MAX], *text = NULL;
    size_t size = 0;
    TRI_TRY(tri__path_join(path, p->folder, "profile.txt"));
    FILE *out = open_memstream(&text, &size);
    if (!out) return tri__fail(TRI_RESOURCE, "no memory for %s", path);
    tri_status status = print(costs, n, out, 0);
    int failed = ferror(out);
    if ((fclose(out) || failed || !text) && status == TRI_OK)
        status = tri__fail(TRI_RESOURCE, "no memory for %s", path);
    if (status == TRI_OK) status = tri__file_write(path, text, size);
    free(text);
    return status;
}

static tri_status emit(void *context, const tri_event *event) {
    const profile *p = context;
    if (event->kind != TRI_EVENT_PROFILE || !event->spans) return TRI_OK;
    int n;
    cost *costs = sum_costs(event, &n);
    if (!costs) return tri__fail(TRI_RESOURCE, "no memory for the profile");
    tri_status status = p->out ? print(costs, n, p->out, p->color) : TRI_OK;
    if (p->out) fflush(p->out);
    if (status == TRI_OK && p->folder) status = save(p, costs, n);
    free(costs);
    return status;
}

tri_status tri__profile_open(const char *folder, FILE *out, int color, tri_sink *sink) {
    *sink = (tri_sink){0};
    profile *p = calloc(1, sizeof *p);
    if (p && folder) p->folder = strdup(folder);
    if (!p || (folder && !p->folder)) {
        free(p);
        return tri__fail(TRI_RESOURCE, "no memory for the profile");
    }
    p->out = out, p->color = color;
    *sink = (tri_sink){.emit = emit, .context = p};
    return TRI_OK;
}

void tri__profile_close(tri_sink *sink) {
    profile *p = sink->context;
    if (p) free(p->folder);
    free(p);
    *sink = (tri_sink){0};
}
