/* profile_table.c - where the time of the recorded steps went, as text: by operation, transfer and module. Everything
 * is read from the profile's object (train/record/profile.h). */
#include "report/sinks/sinks.h"

#include "base/file.h"
#include "report/text/json_numbers.h"
#include "report/text/text_table.h"

enum { SHOWN = 10 };

typedef struct profile {
    FILE *out; /* NULL: profile.txt alone */
    int color;
    char folder[];
} profile;

static const char *rate_text(double amount, double seconds, char out[static 32]) {
    if (amount > 0 && seconds > 0) snprintf(out, 32, "%.1f", amount / seconds / 1e9);
    else strcpy(out, "-");
    return out;
}

/* Of which kinds the steps are, where a run has several: " (2 alone, 1 sync)". */
static void print_kinds(const tri_json *kinds, FILE *out) {
    int n = 0;
    tri__json_members(kinds, m)
        fprintf(out, "%s%lld %s", n++ ? ", " : " (", (long long)tri__json_integer_value(m->value), m->key);
    if (n) fputc(')', out);
}

static void print_parts(const tri_json *facts, FILE *out) {
    const tri_json *steps = tri__json_get(facts, "steps");
    double seconds = tri__number_in(facts, "seconds");
    int n = 0;
    fprintf(out, "steps %lld to %lld", (long long)tri__json_integer_value(tri__json_at(steps, 0)),
            (long long)tri__json_integer_value(tri__json_at(steps, 1)));
    print_kinds(tri__json_get(facts, "kinds"), out);
    fprintf(out, ", %.2f ms each:", 1e3 * seconds);
    tri__json_members(tri__json_get(facts, "parts"), m)
        fprintf(out, "%s %s %.1f %%", n++ ? "," : "", m->key,
                100 * tri__rate(tri__json_number_value(m->value), seconds));
    fputc('\n', out);
}

static tri_status finish_table(tri_text_table *table, FILE *out, int color) {
    fputc('\n', out);
    tri_status status = tri__text_table_print(table, out, color);
    tri__text_table_free(table);
    return status;
}

static tri_status print_operations(const tri_json *facts, FILE *out, int color) {
    const tri_json *list = tri__json_get(facts, "operations");
    tri_text_table table = {0};
    size_t n = tri__json_size(list);
    char flops[32], bytes[32], header[64];
    snprintf(header, sizeof header, n > SHOWN ? "%d costliest of %zu operations" : "operation", SHOWN, n);
    tri__text_table_add(&table, "%s\tcalls\tms\tshare\tavg us\tGFLOP/s\tGB/s", header);
    tri__json_each(list, i, one) {
        double seconds = tri__number_in(one, "seconds"), calls = tri__number_in(one, "calls");
        if (i >= SHOWN) break;
        tri__text_table_add(&table, "%s\t%.0f\t%.2f\t%.1f%%\t%.1f\t%s\t%s", tri__shown_in(one, "name"), calls,
                            1e3 * seconds, 100 * tri__rate(seconds, tri__number_in(facts, "seconds")),
                            1e6 * tri__rate(seconds, calls), rate_text(tri__number_in(one, "flops"), seconds, flops),
                            rate_text(tri__number_in(one, "bytes"), seconds, bytes));
    }
    return finish_table(&table, out, color);
}

static tri_status print_transfers(const tri_json *facts, FILE *out, int color) {
    const tri_json *list = tri__json_get(facts, "transfers");
    tri_text_table table = {0};
    if (!tri__json_size(list)) return TRI_OK;
    tri__text_table_add(&table, "transfer\tcount\tMB sent\tin flight ms\tmoving ms\twaiting ms\tshare");
    tri__json_items(list, one) {
        double exposed = tri__number_in(one, "exposed_seconds"), waiting = tri__number_in(one, "waiting_seconds");
        tri__text_table_add(&table, "%s\t%.0f\t%.3f\t%.2f\t%.2f\t%.2f\t%.1f%%", tri__shown_in(one, "kind"),
                            tri__number_in(one, "count"), tri__number_in(one, "bytes") / 1e6,
                            1e3 * tri__number_in(one, "seconds"), 1e3 * (exposed - waiting), 1e3 * waiting,
                            100 * tri__rate(exposed, tri__number_in(facts, "seconds")));
    }
    return finish_table(&table, out, color);
}

/* ---- Modules ---- */

/* A node of the tree, or the sum of several with equal names. */
typedef struct row {
    char name[64];
    double parameters, flops, seconds;
} row;

static row row_of(const tri_json *node) {
    row r = {"", tri__number_in(node, "parameters"), tri__number_in(node, "flops"), tri__number_in(node, "seconds")};
    snprintf(r.name, sizeof r.name, "%s", tri__shown_in(node, "name"));
    return r;
}

static void add_row(tri_text_table *table, int depth, const row *r, double whole) {
    tri__text_table_add(table, "%*s%s\t%.0f\t%.3f\t%.2f\t%s\t%.1f%%", 2 * depth, "", r->name, r->parameters,
                        r->flops / 1e9, 1e3 * r->seconds, rate_text(r->flops, r->seconds, (char[32]){0}),
                        100 * tri__rate(r->seconds, whole));
}

static int is_layer(const tri_json *node) { return strncmp(tri__shown_in(node, "name"), "layer.", 6) == 0; }

/* Adds a node to the row of its name; *n rows so far, at most `room`. */
static void gather(row *rows, int *n, int room, const tri_json *node) {
    row one = row_of(node);
    int at = 0;
    while (at < *n && strcmp(rows[at].name, one.name) != 0) at++;
    if (at == room) return;
    if (at == *n) rows[(*n)++] = (row){0}, memcpy(rows[at].name, one.name, sizeof one.name);
    rows[at].parameters += one.parameters, rows[at].flops += one.flops, rows[at].seconds += one.seconds;
}

/* All layers of a branch as one row, with their families below it. */
static void add_layers(tri_text_table *table, int depth, const tri_json *children, double whole) {
    enum { FAMILIES = 16 };
    row all = {0}, family[FAMILIES];
    int layers = 0, n = 0;
    tri__json_items(children, layer) {
        if (!is_layer(layer)) continue;
        row of = row_of(layer);
        layers++, all.parameters += of.parameters, all.flops += of.flops, all.seconds += of.seconds;
        tri__json_items(tri__json_get(layer, "children"), one) gather(family, &n, FAMILIES, one);
    }
    snprintf(all.name, sizeof all.name, layers == 1 ? "%d layer" : "%d layers", layers);
    add_row(table, depth, &all, whole);
    for (int f = 0; f < n; f++) add_row(table, depth + 1, &family[f], whole);
}

static void add_node(tri_text_table *table, int depth, const tri_json *node, double whole) {
    const tri_json *children = tri__json_get(node, "children");
    row own = row_of(node);
    int layered = 0;
    add_row(table, depth, &own, whole);
    tri__json_items(children, child) {
        if (!is_layer(child)) add_node(table, depth + 1, child, whole);
        else if (!layered++) add_layers(table, depth + 1, children, whole);
    }
}

static tri_status print_modules(const tri_json *facts, FILE *out, int color) {
    tri_text_table table = {0};
    tri__text_table_add(&table, "module\tparameters\tGFLOP\tms\tGFLOP/s\tshare");
    add_node(&table, 0, tri__json_get(facts, "modules"), tri__number_in(facts, "seconds"));
    return finish_table(&table, out, color);
}

/* ---- The sink ---- */

static tri_status print(const tri_json *facts, FILE *out, int color) {
    print_parts(facts, out);
    TRI_TRY(print_operations(facts, out, color));
    TRI_TRY(print_transfers(facts, out, color));
    return print_modules(facts, out, color);
}

static tri_status save(const profile *p, const tri_json *facts) {
    char path[TRI_PATH_MAX], *content = NULL;
    size_t size = 0;
    TRI_TRY(tri__path_join(path, p->folder, "profile.txt"));
    FILE *out = open_memstream(&content, &size);
    if (!out) return tri__fail(TRI_RESOURCE, "no memory for %s", path);
    tri_status status = print(facts, out, 0);
    if (!tri__memstream_close(out, &content) && status == TRI_OK)
        status = tri__fail(TRI_RESOURCE, "no memory for %s", path);
    if (status == TRI_OK) status = tri__file_write(path, content, size);
    free(content);
    return status;
}

static tri_status emit(void *context, const tri_event *event) {
    const profile *p = context;
    if (event->kind != TRI_EVENT_PROFILE || !event->spans) return TRI_OK;
    tri_status status = p->out ? print(event->facts, p->out, p->color) : TRI_OK;
    if (p->out) fflush(p->out);
    return status == TRI_OK ? save(p, event->facts) : status;
}

tri_status tri__profile_open(const char *folder, FILE *out, int color, tri_sink *sink) {
    *sink = (tri_sink){0};
    profile *p = calloc(1, sizeof *p + strlen(folder) + 1);
    if (!p) return tri__fail(TRI_RESOURCE, "no memory for the profile");
    p->out = out, p->color = color;
    strcpy(p->folder, folder);
    *sink = (tri_sink){.emit = emit, .context = p};
    return TRI_OK;
}
