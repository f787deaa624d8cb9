/* layout_table.c - a table of layouts: its columns, its forms, and layouts as words. */
#include "cli/cli.h"

#include "report/text/text_table.h"
#include "web/pages.h"

/* ---- columns ---- */

typedef enum form { TEXT, COUNT, BYTES, TIME, RATE, TIMES, SHARE } form;

static const struct column {
    const char *key, *title;
    form form;
} columns[] = {
    {"model", "model", TEXT}, {"hardware", "hardware", TEXT}, {"ranks", "ranks", COUNT}, {"layout", "layout", TEXT},
    {"memory_bytes", "memory", BYTES}, {"held_bytes", "measured", BYTES}, {"state_bytes", "states", BYTES},
    {"step_seconds", "step", TIME},
    {"samples_per_second", "samples/s", RATE}, {"times", "x one device", TIMES}, {"efficiency", "efficiency", SHARE},
    {"gather", "gather", SHARE}, {"reduce_scatter", "reduce-scatter", SHARE},
    {"all_reduce", "all-reduce", SHARE}, {"recv", "receive", SHARE}, {"exposed", "for bytes", SHARE},
    {"waiting", "for others", SHARE}, {"sent_bytes", "sent", BYTES}, {"note", "note", TEXT},
};
enum { COLUMNS = sizeof columns / sizeof *columns, CELL = 1024 };

static int is_shown(const tri_json *rows, const struct column *column) {
    tri__json_items(rows, row) if (column->form == TEXT ? *tri__text_in(row, column->key) != 0
                                                          : tri__number_in(row, column->key) > 0) return 1;
    return 0;
}

static const char *cell(const tri_json *row, const struct column *of, char out[static CELL]) {
    const tri_json *value = tri__json_get(row, of->key);
    double number = tri__json_number_value(value);
    char bytes[32];
    snprintf(out, CELL, "-");
    if (of->form != TEXT && !(number > 0)) return out;
    switch (of->form) {
    case TEXT: return tri__text_brief(tri__json_string_value(value), CELL / 4, out, CELL);
    case COUNT: snprintf(out, CELL, "%.0f", number); break;
    case BYTES: snprintf(out, CELL, "%s", tri__text_bytes(number, bytes)); break;
    case TIME: snprintf(out, CELL, "%.*f ms", number < 0.1, 1e3 * number); break;
    case RATE: snprintf(out, CELL, "%.*f", number < 100, number); break;
    case TIMES: snprintf(out, CELL, "%.2f", number); break;
    case SHARE: snprintf(out, CELL, "%.1f %%", 100 * number); break;
    }
    return out;
}

/* ---- forms ---- */

/* The rows as lines of cells separated by tabs, aligned or as Markdown. */
static tri_status put_lines(const tri_json *table, FILE *out, int is_markdown) {
    const tri_json *rows = tri__json_get(table, "rows");
    TRI_OWNED(tri__text_table_free) tri_text_table text = {0};
    char value[CELL];
    for (size_t i = 0; i <= tri__json_size(rows); i++)
        for (int k = 0, n = 0; k < COLUMNS; k++) {
            if (!is_shown(rows, &columns[k])) continue;
            const char *shown = i ? cell(tri__json_at(rows, i - 1), &columns[k], value) : columns[k].title;
            if (n++) tri__text_table_more(&text, "%s", shown);
            else tri__text_table_add(&text, "%s", shown);
        }
    fprintf(out, "%s\n%s\n\n", tri__text_in(table, "title"), tri__text_in(table, "rule"));
    if (!is_markdown) TRI_TRY(tri__text_table_print(&text, out, 0));
    for (int r = 0; r < text.n && is_markdown; r++) {
        fputs("| ", out);
        for (const char *c = text.row[r]; *c; c++) fprintf(out, *c == '\t' ? " | " : *c == '|' ? "\\|" : "%c", *c);
        fputs(" |\n", out);
        for (int k = 0; k < COLUMNS && !r; k++)
            if (is_shown(rows, &columns[k])) fputs("|---", out);
        if (!r) fputs("|\n", out);
    }
    return TRI_OK;
}

static tri_status put_text(const tri_json *table, FILE *out) { return put_lines(table, out, 0); }
static tri_status put_markdown(const tri_json *table, FILE *out) { return put_lines(table, out, 1); }
static tri_status put_json(const tri_json *table, FILE *out) { return tri__print_json(out, table); }

static tri_status put_page(const tri_json *table, FILE *out) {
    TRI_OWNED(tri__free_at) char *data = tri__json_line(table);
    TRI_OWNED(tri__buffer_free) tri_buffer page = {0};
    if (data) tri__page_fill(tri__page_layouts, data, &page);
    if (!data || page.failed) return tri__fail(TRI_RESOURCE, "no memory for the page");
    fwrite(page.text, 1, page.size, out);
    return TRI_OK;
}

typedef tri_status put_form(const tri_json *table, FILE *out);
static const struct {
    const char *ending;
    put_form *put;
} forms[] = {{".txt", put_text}, {".md", put_markdown}, {".json", put_json}, {".html", put_page}};

/* NULL: there is no such form. */
static put_form *form_of(const tri_settings *s) {
    const char *ending = s->output ? strrchr(s->output, '.') : s->json ? ".json" : ".txt";
    for (size_t i = 0; ending && i < sizeof forms / sizeof *forms; i++)
        if (strcmp(ending, forms[i].ending) == 0) return forms[i].put;
    return NULL;
}

tri_status tri__layout_table_check(const tri_settings *s) {
    if (form_of(s)) return tri__output_check(s, &(tri_output){.option = "-o", .path = s->output});
    return tri__fail(TRI_USAGE, "-o %s: a table of layouts is written as .txt, .md, .json or .html", s->output);
}

typedef struct printed {
    const tri_json *table;
    put_form *put;
} printed;

static tri_status put_table(void *context, FILE *out) {
    const printed *p = context;
    return p->put(p->table, out);
}

tri_status tri__layout_table_print(const tri_cli *cli, const tri_settings *s, tri_json *table) {
    printed p = {table, form_of(s)};
    TRI_OWNED(tri__json_drop) tri_json *own = table;
    if (!tri__json_is_whole(own)) return tri__fail(TRI_RESOURCE, "out of memory");
    return tri__output_write(cli, s, "the table", put_table, &p);
}

/* ---- layouts as words ---- */

/* What people call the axes. */
static const char *option_of(const char *key) {
    static const char names[][2][20] = {{"pp", "pp-size"},   {"tp", "tp-size"}, {"cp", "cp-size"},
                                        {"dp", "dp-size"},   {"ep", "ep-size"}, {"mb", "num-microbatches"},
                                        {"ranks", "world-size"}, {"compress", "compress-gradients"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(key, names[i][0]) == 0) return names[i][1];
    return key;
}

/* What replicas shard, up to a "|"; NULL: it is no word for that. */
static const char *shard_of(const char *word) {
    const tri_option *row = tri__option_find(tri__run_options, "shard");
    return strcmp(word, "ddp") == 0 ? "none" : strcmp(word, "fsdp") == 0 ? "zero3" : strstr(row->choices, word);
}

/* One "KEY=VALUE", a word for --shard, or a further part of the value before it. */
static tri_status add_part(tri_layout_words *to, const char *part) {
    char key[TRI_LAYOUT_WORD], *word = to->n ? to->word[to->n - 1] : to->model;
    const char *equal = strchr(part, '='), *shard = equal ? NULL : shard_of(part);
    size_t used = strlen(word), named = strlen(to->name);
    int n = 0;
    snprintf(key, sizeof key, "%.*s", equal ? (int)(equal - part) : 0, part);
    int of_row = strcmp(key, "model") == 0;
    if (of_row) n = snprintf(to->model, TRI_LAYOUT_WORD, "%s", equal + 1);
    else if (!equal && to->n && !shard) n = snprintf(word + used, TRI_LAYOUT_WORD - used, ",%s", part) + (int)used;
    else if (to->n == TRI_LAYOUT_WORDS) n = TRI_LAYOUT_WORD;
    else if (!equal)
        n = snprintf(to->word[to->n++], TRI_LAYOUT_WORD, "--shard=%.*s", (int)strcspn(shard ? shard : part, "|"),
                     shard ? shard : part);
    else n = snprintf(to->word[to->n++], TRI_LAYOUT_WORD, "--%s=%s", option_of(key), equal + 1);
    if (!of_row) named += (size_t)snprintf(to->name + named, TRI_LAYOUT_WORD - named, "%s%s", named ? "," : "", part);
    if (n < TRI_LAYOUT_WORD && named < TRI_LAYOUT_WORD) return TRI_OK;
    return tri__fail(TRI_USAGE, "--layouts: \"%s\" is longer than the %d characters, or has more than the %d options, "
                                "of a layout",
                     to->name, TRI_LAYOUT_WORD - 1, TRI_LAYOUT_WORDS);
}

/* The text without the blanks around it. */
static char *trim(char *text) {
    text += strspn(text, " \n\t");
    size_t n = strlen(text);
    while (n && strchr(" \n\t", text[n - 1])) text[--n] = 0;
    return text;
}

tri_status tri__layout_words(const tri_texts *asked, int i, tri_layout_words *out, int *found) {
    TRI_OWNED(tri__buffer_free) tri_buffer all = {0};
    *out = (tri_layout_words){.n = 0}, *found = 0;
    for (int k = 0; k < asked->n; k++) tri__buffer_put(&all, "%s%s", k ? "," : "", asked->at[k]);
    if (all.failed) return tri__fail(TRI_RESOURCE, "out of memory");
    char *rest = all.text, *layout = NULL;
    for (int k = 0; k <= i;) { /* empty ones do not count: "a; b;" */
        layout = strsep(&rest, ";");
        if (!layout) break;
        layout = trim(layout);
        k += *layout != 0;
    }
    *found = layout && *layout;
    while (*found && layout) TRI_TRY(add_part(out, trim(strsep(&layout, ","))));
    return TRI_OK;
}
