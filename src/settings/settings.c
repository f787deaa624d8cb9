/* settings.c - all settings of a run: from defaults, then the configuration file, then the command line. A setting that
 * this build does not support is refused by name; nothing is silently replaced. */
#include "settings/settings.h"

#include "base/file.h"
#include "base/limits.h"
#include "base/text.h"
#include "settings/column_info.h"
#include "settings/foreign.h"
#include "settings/forms.h"
#include "settings/learning_rate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORIGIN_BYTES = 512, SETS = 3 };

/* A row and the struct that it fills. */
typedef struct place {
    const tri_option *row;
    void *into;
} place;

/* The meaning of a name and a value. */
typedef struct meaning {
    place at;                   /* row NULL: nothing is set */
    const char *to;             /* the value to set; NULL: as given */
    const tri_foreign *foreign; /* the row of another program's name; NULL: our own name */
} meaning;

/* The names by which one source (the file or the command line) gave rows. */
typedef struct heard {
    struct {
        const tri_option *row;
        char name[TRI_OPTION_FLAG];
    } at[TRI_OPTIONS_MAX];
    int n;
} heard;

tri_status tri__settings_init(tri_settings *settings) {
    *settings = (tri_settings){0};
    TRI_TRY(tri__options_init(tri__model_options, &settings->model));
    tri_status status = tri__options_init(tri__run_options, settings);
    if (status != TRI_OK) tri__options_free(tri__model_options, &settings->model);
    return status;
}

static const tri_option no_rows[] = {{0}};

/* All sets of rows. */
static void sets_of(const tri_settings *settings, tri_option_set out[static SETS]) {
    out[0] = (tri_option_set){tri__model_options, (void *)&settings->model};
    out[1] = (tri_option_set){tri__run_options, (void *)settings};
    out[2] = settings->own.rows ? settings->own : (tri_option_set){no_rows, NULL};
}

/* The bit of a row, or of the row that fills a field (one of the two is NULL); -1 when there is none. */
static int bit_of(const tri_settings *settings, const tri_option *of, const void *field) {
    tri_option_set sets[SETS];
    int bit = 0;
    sets_of(settings, sets);
    for (int t = 0; t < SETS; t++)
        for (const tri_option *row = sets[t].rows; row->name && bit < TRI_OPTIONS_MAX; row++, bit++)
            if (of ? row == of : (char *)sets[t].into + row->offset == field) return bit;
    return -1;
}

static void note(const tri_settings *settings, const tri_option *row, uint64_t *bits) {
    int bit = bit_of(settings, row, NULL);
    if (bit >= 0) bits[bit / 64] |= (uint64_t)1 << bit % 64;
}

static int has_bit(const tri_settings *settings, const void *field, const uint64_t *bits) {
    int bit = bit_of(settings, NULL, field);
    TRI_ASSERT(bit >= 0);
    return bits[bit / 64] >> bit % 64 & 1;
}

int tri__settings_given(const tri_settings *s, const void *field) { return has_bit(s, field, s->given); }
int tri__settings_typed(const tri_settings *s, const void *field) { return has_bit(s, field, s->typed); }

void tri__settings_forget(tri_settings *settings, const void *field) {
    int bit = bit_of(settings, NULL, field);
    TRI_ASSERT(bit >= 0);
    settings->given[bit / 64] &= ~((uint64_t)1 << bit % 64);
}

void tri__settings_free(tri_settings *settings) {
    if (settings->own.rows) tri__options_free(settings->own.rows, settings->own.into);
    tri__options_free(tri__model_options, &settings->model);
    tri__options_free(tri__run_options, settings);
    for (int i = 0; i < settings->notes.n; i++) free(settings->notes.at[i]);
    free(settings->notes.at);
    settings->notes = (tri_texts){0};
    free(settings->calibrated);
    free(settings->hub_cache);
    free(settings->peaks);
    settings->calibrated = settings->hub_cache = settings->peaks = NULL;
}

/* The row of a name that is listed for `scope`; otherwise its first row. One name may mean different things for two
 * commands. */
static const tri_option *find_row(const tri_option *rows, const char *name, const char *scope) {
    const tri_option *first = tri__option_find(rows, name), *row = first;
    while (row && !tri__option_listed(row, scope)) row = tri__option_find(row + 1, name);
    return row ? row : first;
}

/* A name that belongs to another command is found without a struct to fill. */
static place find(tri_settings *settings, const char *name, const char *scope) {
    tri_option_set sets[SETS];
    place first = {0};
    sets_of(settings, sets);
    for (int t = 0; t < SETS; t++) {
        place at = {.row = find_row(sets[t].rows, name, scope), .into = sets[t].into};
        if (at.row && tri__option_listed(at.row, scope)) return at;
        if (at.row && !first.row) first = at;
    }
    for (const tri_option *const *rows = settings->others; rows && *rows && !first.row; rows++)
        first = (place){.row = tri__option_find(*rows, name)};
    return first;
}

/* The name listed for `scope` that is most similar; NULL when none is similar. */
static const char *nearest(const tri_settings *settings, const char *name, const char *scope) {
    tri_option_set sets[SETS];
    const char *names[TRI_OPTIONS_MAX];
    int n = 0;
    sets_of(settings, sets);
    for (int t = 0; t < SETS; t++)
        for (const tri_option *row = sets[t].rows; row->name && n < TRI_OPTIONS_MAX; row++)
            if (tri__option_listed(row, scope) && (row->kind != TRI_OPTION_OBJECT || strcmp(scope, "config") == 0)) {
                names[n++] = row->name;
                if (row->alias && n < TRI_OPTIONS_MAX) names[n++] = row->alias;
            }
    return tri__text_nearest(name, names, n);
}

static void move_text(char **from, char **to) {
    if (*to) return;
    *to = *from, *from = NULL;
}

static void move_texts(tri_texts *from, tri_texts *to) {
    if (to->n) return;
    *to = *from, *from = (tri_texts){0};
}

/* Takes keys that are not given otherwise from a column_info.json: the first text is the primary one, all others form
 * the secondary. */
static void take_columns(tri_settings *settings, tri_column_info *info) {
    tri_model_config *model = &settings->model;
    int classes = info->labels.n;
    move_text(&info->label, &model->label_name);
    if (!model->primary_text_name && !model->secondary_text_name) {
        move_text(&info->text.at[0], &model->primary_text_name);
        if (info->text.n > 1) move_text(&info->text.at[1], &model->secondary_text_name);
        if (info->text.n > 2) {
            free(info->text.at[0]);
            free(info->text.at[1]);
            info->text.n -= 2;
            memmove(info->text.at, info->text.at + 2, (size_t)info->text.n * sizeof *info->text.at);
            move_texts(&info->text, &model->secondary_text_list);
        }
    }
    if (!model->tab_field_list.n) {
        move_texts(&info->columns, &model->tab_field_list);
        move_texts(&info->categorical, &model->cat_field_list);
    }
    move_texts(&info->labels, &model->label_list);
    if (classes > 1 && !tri__settings_given(settings, &model->num_classes)) model->num_classes = classes;
    if (classes > 1 && !tri__settings_given(settings, &model->is_binary)) model->is_binary = model->num_classes == 2;
}

/* Reads the column_info.json that is named, or the data folder's where no text column is named. */
static tri_status read_columns(tri_settings *settings) {
    char path[TRI_PATH_MAX];
    int there = 1;
    if (settings->column_info) {
        TRI_TRY(tri__path_join(path, "", settings->column_info));
    } else {
        if (settings->model.primary_text_name || !settings->data_path) return TRI_OK;
        TRI_TRY(tri__path_join(path, settings->data_path, "column_info.json"));
        TRI_TRY(tri__file_there(path, &there));
    }
    if (!there) return TRI_OK;
    tri_column_info info;
    TRI_TRY(tri__column_info_read(path, &info));
    take_columns(settings, &info);
    tri__column_info_free(&info);
    return TRI_OK;
}

static tri_status add_note(tri_settings *settings, char *text) {
    tri_texts *notes = &settings->notes;
    char **at = text ? realloc(notes->at, (size_t)(notes->n + 1) * sizeof *at) : NULL;
    if (at) {
        notes->at = at, at[notes->n++] = text;
        return TRI_OK;
    }
    free(text);
    return tri__fail(TRI_RESOURCE, "out of memory while reading options");
}

/* Where epochs end the run, its length is known once rows are counted: then the session warns. */
static tri_status note_warmup(tri_settings *s) {
    char *text = NULL;
    tri_rates rates = tri__rates(s, s->max_steps);
    if (!s->max_steps || rates.warmup < s->max_steps) return TRI_OK;
    double reached = tri__learning_rate(&rates, s->max_steps - 1);
    if (asprintf(&text, TRI_WARMUP_WORDS, (long long)rates.warmup, (long long)s->max_steps, reached, s->lr) < 0)
        text = NULL;
    return add_note(s, text);
}

/* Sets missing values that follow from given ones. */
static tri_status complete(tri_settings *settings) {
    tri_model_config *model = &settings->model;
    char separator;
    TRI_TRY(tri__separator_parse(settings->separator, &separator));
    if (model->secondary_text_name && !model->secondary_tokenizer && model->primary_tokenizer) {
        model->secondary_tokenizer = strdup(model->primary_tokenizer);
        if (!model->secondary_tokenizer) return tri__fail(TRI_RESOURCE, "out of memory while reading options");
    }
    return tri__settings_ranks(settings);
}

/* ---- Names: ours, and other programs' ---- */

/* Commands (and the file) that describe a training run: there other programs' options are recognised. */
static int describes_run(const char *scope) {
    return tri__option_listed(tri__option_find(tri__run_options, "epochs"), scope);
}

/* origin: "--bf16", or "config.json:3: bf16". value NULL: none. */
static tri_status interpret(tri_settings *settings, const char *scope, const char *origin, const char *name,
                            const char *value, meaning *out) {
    const tri_foreign *foreign = tri__foreign_find(name, value);
    char flag[TRI_OPTION_FLAG];
    *out = (meaning){.at = find(settings, name, scope)};
    if (!foreign && !out->at.row && tri__foreign_is_switch(name))
        return tri__fail(TRI_USAGE, "%s: expected true or false, not \"%s\"", origin, value);
    if (!foreign || (foreign->held && !describes_run(scope))) return TRI_OK;
    out->foreign = foreign;
    if (!foreign->option && !foreign->held)
        return foreign->value
                   ? tri__fail(TRI_USAGE, "%s %s is not possible: %s", origin, foreign->value, foreign->words)
                   : tri__fail(TRI_USAGE, "%s is not an option of Trident: %s", origin, foreign->words);
    out->at = foreign->option ? find(settings, foreign->option, scope) : (place){0};
    out->to = foreign->to;
    if (out->at.row && !tri__option_listed(out->at.row, scope))
        return tri__fail(TRI_USAGE, "%s is %s here, which is not an option of trident %s", origin,
                         tri__option_flag(foreign->option, flag), scope);
    return TRI_OK;
}

/* Keeps the note on how another program's option was taken. `shown`: its value, "" for none. */
static tri_status keep_note(tri_settings *settings, const char *scope, const char *origin, const char *name,
                            const char *shown, const meaning *meant) {
    const tri_foreign *foreign = meant->foreign;
    char flag[TRI_OPTION_FLAG], *text = NULL;
    if (!foreign || (foreign->option && meant->at.row == find(settings, name, scope).row))
        return TRI_OK; /* the same value in another form */
    const char *between = *shown ? " " : "";
    int length = foreign->held ? asprintf(&text, "%s%s%.200s: %s", origin, between, shown, foreign->words)
                               : asprintf(&text, "%s%s%.200s is taken as %s %.200s", origin, between, shown,
                                          tri__option_flag(foreign->option, flag), meant->to ? meant->to : shown);
    return add_note(settings, length < 0 ? NULL : text);
}

/* Refuses two names of one option from one source, since it is unclear which one counts. */
static tri_status hear(heard *h, const tri_option *row, const char *origin, const char *name) {
    char one[TRI_OPTION_FLAG], other[TRI_OPTION_FLAG], ours[TRI_OPTION_FLAG];
    tri__option_flag(name, one);
    for (int i = 0; i < h->n; i++) {
        if (h->at[i].row != row) continue;
        if (!strcmp(tri__option_flag(h->at[i].name, other), one)) return TRI_OK; /* repeated: the last one counts */
        return tri__fail(TRI_USAGE, "%s and %s are the same option, %s: give one of them", origin,
                         other + (origin[0] == '-' ? 0 : 2), tri__option_flag(row->name, ours));
    }
    if (h->n == TRI_OPTIONS_MAX) return TRI_OK;
    h->at[h->n].row = row;
    snprintf(h->at[h->n++].name, TRI_OPTION_FLAG, "%s", name);
    return TRI_OK;
}

/* ---- The configuration file ---- */

/* A scalar as it would be typed; NULL: it is not a scalar. */
static const char *typed(const tri_json *value, char out[static 64]) {
    if (tri__json_is_string(value)) return tri__json_string_value(value);
    if (tri__json_is_boolean(value)) return tri__json_is_true(value) ? "true" : "false";
    if (tri__json_is_integer(value)) snprintf(out, 64, "%lld", (long long)tri__json_integer_value(value));
    else if (tri__json_is_number(value)) snprintf(out, 64, "%.9g", tri__json_number_value(value));
    return tri__json_is_number(value) ? out : NULL;
}

static tri_status read_key(tri_settings *settings, heard *h, const char *path, int line, const char *key,
                           const tri_json *value) {
    char origin[ORIGIN_BYTES], where[ORIGIN_BYTES], number[64], form[TRI_FOREIGN_TEXT];
    const char *text = typed(value, number);
    meaning meant;
    snprintf(where, sizeof where, line ? "%s:%d" : "%s", path, line);
    snprintf(origin, sizeof origin, "%.400s: %.100s", where, key);
    TRI_TRY(interpret(settings, "config", origin, key, text ? text : "{...}", &meant));
    const tri_option *row = meant.at.row;
    if (meant.foreign && meant.foreign->read && tri__json_is_object(value)) {
        TRI_TRY(meant.foreign->read(origin, value, form));
        meant.to = form;
    }
    if (!row && !meant.foreign) {
        const char *near = nearest(settings, key, "config");
        if (near) return tri__fail(TRI_USAGE, "%s: unknown key \"%s\"; did you mean \"%s\"?", where, key, near);
        return tri__fail(TRI_USAGE, "%s: unknown key \"%s\"", where, key);
    }
    TRI_TRY(keep_note(settings, "config", origin, key, text ? text : "", &meant));
    if (!row) return TRI_OK;
    if (!tri__option_listed(row, "config"))
        return tri__fail(TRI_USAGE, "%s: \"%s\" belongs on the command line, not in the configuration file", where,
                         key);
    TRI_TRY(hear(h, row, origin, key));
    note(settings, row, settings->given);
    return meant.to ? tri__option_set_text(row, meant.at.into, origin, meant.to)
                    : tri__option_set_json(row, meant.at.into, origin, value);
}

static tri_status read_config(tri_settings *settings, const char *path) {
    tri_json *root, *value;
    char *text;
    const char *key;
    size_t size;
    heard h = {.n = 0};
    tri_status status = tri__file_read(path, TRI_LIMIT_JSON_FILE, &text, &size);
    if (status != TRI_OK) return status == TRI_DATA ? TRI_USAGE : status;
    status = tri__json_parse(text, size, path, TRI_USAGE, &root);
    tri_json_lines lines = {.text = text, .length = size};
    tri__json_each_member(root, key, value) {
        if (strcmp(key, "_comments") == 0 || strcmp(key, "model_type") == 0)
            continue; /* the latter: in exports, for other programs */
        status = read_key(settings, &h, path, tri__json_line_of(&lines, key), key, value);
        if (status != TRI_OK) break;
    }
    tri__json_decref(root);
    free(text);
    return status;
}

tri_status tri__settings_config(tri_settings *settings, const char *path) {
    TRI_TRY(read_config(settings, path));
    return complete(settings);
}

/* ---- The command line ---- */

/* One option of a command line. */
typedef struct argument {
    char name[TRI_OPTION_FLAG]; /* without leading dashes; truncated when too long to be an option */
    const char *value;         /* NULL: none */
    int used;                  /* arguments taken: 1 or 2 */
    meaning meant;
} argument;

/* A switch takes the next argument only if it is a word for true or false; a digit may be a file's name. */
static int is_truth(const char *word) { return tri__foreign_truth(word) >= 0 && word[0] != '0' && word[0] != '1'; }

/* The value of an option whose text has no "=": the next argument, where it takes one. */
static void take_value(const tri_option *row, int n, const char *const *args, argument *out) {
    int is_switch = row ? row->kind == TRI_OPTION_BOOL : tri__foreign_is_switch(out->name);
    if (n < 2 || (is_switch ? !is_truth(args[1]) : strncmp(args[1], "--", 2) == 0)) return;
    out->value = args[1], out->used = 2;
}

/* Splits "--name=value", or "--name" and the next argument where the option takes one. */
static tri_status read_argument(tri_settings *settings, const char *scope, int n, const char *const *args,
                                argument *out) {
    static const char *const short_names[][2] = {{"-o", "--output"}, {"-r", "--redirects"}, {"-t", "--tee"}};
    const char *text = args[0];
    for (size_t i = 0; i < sizeof short_names / sizeof *short_names; i++)
        if (strcmp(text, short_names[i][0]) == 0) text = short_names[i][1];
    if (strncmp(text, "--", 2)) return tri__fail(TRI_USAGE, "unknown option %s; options begin with --", text);
    const char *equal = strchr(text, '=');
    int length = equal ? (int)(equal - text) : (int)strlen(text);
    *out = (argument){.value = equal ? equal + 1 : NULL, .used = 1};
    snprintf(out->name, sizeof out->name, "%.*s", length - 2, text + 2);
    const tri_option *row = find(settings, out->name, scope).row;
    char written[TRI_OPTION_FLAG];
    if (!equal) take_value(row, n, args, out);
    TRI_TRY(interpret(settings, scope, tri__option_flag(out->name, written), out->name, out->value, &out->meant));
    row = out->meant.at.row;
    if (!row && !out->meant.foreign) {
        const char *near = nearest(settings, out->name, scope);
        if (near)
            return tri__fail(TRI_USAGE, "unknown option %.*s; did you mean %s?", length, text,
                             tri__option_flag(near, written));
        return tri__fail(TRI_USAGE, "unknown option %.*s; trident %s --help all lists them", length, text, scope);
    }
    if (!row) return TRI_OK;
    if (!tri__option_listed(row, scope))
        return tri__fail(TRI_USAGE, "%.*s is not an option of trident %s; trident %s --help all lists them", length,
                         text, scope, scope);
    if (!out->value && row->kind == TRI_OPTION_BOOL) out->value = "true";
    return out->value || out->meant.to ? TRI_OK : tri__fail(TRI_USAGE, "%s needs a value", text);
}

/* Walks through the arguments. With `config`, only stores the value of --config there; else sets all options. */
static tri_status read_arguments(tri_settings *settings, const char *scope, int n, const char *const *args,
                                 const char **config) {
    heard h = {.n = 0};
    for (int i = 0; i < n;) {
        if (args[i][0] != '-' || args[i][1] == 0) { /* a positional word; "-" is one too */
            i++;
            continue;
        }
        if (strcmp(args[i], "--") == 0) break;
        argument argument;
        TRI_TRY(read_argument(settings, scope, n - i, args + i, &argument));
        i += argument.used;
        place at = argument.meant.at;
        if (config) {
            if (at.row && strcmp(at.row->name, "config") == 0) *config = argument.value;
            continue;
        }
        char origin[TRI_OPTION_FLAG];
        tri__option_flag(argument.name, origin);
        TRI_TRY(
            keep_note(settings, scope, origin, argument.name, argument.value ? argument.value : "", &argument.meant));
        if (!at.row) continue;
        TRI_TRY(hear(&h, at.row, origin, argument.name));
        note(settings, at.row, settings->given), note(settings, at.row, settings->typed);
        TRI_TRY(tri__option_set_text(at.row, at.into, origin, argument.meant.to ? argument.meant.to : argument.value));
    }
    return TRI_OK;
}

/* The positional words, and everything after "--". read_arguments has accepted the arguments. */
static tri_status read_words(tri_settings *settings, const char *scope, int n, const char *const *args,
                             const char **words, int max_words, int *n_words) {
    int only_words = 0;
    *n_words = 0;
    for (int i = 0; i < n;) {
        argument argument = {.used = 1};
        if (!only_words && strcmp(args[i], "--") == 0) {
            only_words = 1;
        } else if (!only_words && args[i][0] == '-' && args[i][1]) {
            TRI_TRY(read_argument(settings, scope, n - i, args + i, &argument));
        } else {
            if (*n_words == max_words)
                return tri__fail(TRI_USAGE, "unexpected word \"%s\"; trident %s --help shows what is expected", args[i],
                                 scope);
            words[(*n_words)++] = args[i];
        }
        i += argument.used;
    }
    return TRI_OK;
}

tri_status tri__settings_parse(tri_settings *settings, const char *scope, int n, const char *const *args,
                               const char **words, int max_words, int *n_words) {
    const char *config = NULL;
    TRI_TRY(read_arguments(settings, scope, n, args, &config));
    if (config) TRI_TRY(read_config(settings, config));
    TRI_TRY(read_arguments(settings, scope, n, args, NULL));
    TRI_TRY(read_words(settings, scope, n, args, words, max_words, n_words));
    if (tri__option_listed(tri__option_find(tri__run_options, "column_info"), scope)) TRI_TRY(read_columns(settings));
    if (tri__option_listed(tri__option_find(tri__run_options, "warmup_steps"), scope)) TRI_TRY(note_warmup(settings));
    return complete(settings);
}

static const char *const precisions[] = {TRI_PRECISIONS(TRI_NAMED)};

const char *tri__settings_computing(const tri_settings *s) { return precisions[s->precision]; }

const char *tri__settings_products(const tri_settings *s) {
    switch (s->quantize) {
    case TRI_QUANTIZE_INT8: return precisions[TRI_PRECISION_INT8];
    case TRI_QUANTIZE_FP8: return precisions[TRI_PRECISION_FP8];
    default: return tri__settings_computing(s);
    }
}

tri_loss_form tri__settings_loss(const tri_settings *s) {
    switch ((tri_loss_kind)s->loss) {
#define TRI_LOSS(id, word, ...) case TRI_LOSS_##id: return (tri_loss_form){__VA_ARGS__};
#include "settings/losses.def"
#undef TRI_LOSS
    }
    return (tri_loss_form){0};
}

char tri__settings_decimal(const tri_settings *settings) {
    static const char marks[] = {[TRI_DECIMAL_AUTO] = 0, [TRI_DECIMAL_POINT] = '.', [TRI_DECIMAL_COMMA] = ','};
    return marks[settings->decimal_mark];
}

tri_json *tri__settings_json(const tri_settings *settings) {
    tri_option_set sets[SETS];
    tri_json *all = tri__json_object();
    sets_of(settings, sets);
    for (int t = 0; t < SETS; t++)
        for (const tri_option *row = sets[t].rows; row->name; row++)
            if (tri__option_listed(row, "config"))
                tri__json_set_new(all, row->name, tri__option_json(row, sets[t].into));
    if (tri__json_is_whole(all)) return all;
    tri__json_decref(all);
    return NULL;
}
