/* settings.c - all settings of a run: from defaults, then the configuration file, then the command line. A setting that
 * this build does not support is refused by name; nothing is silently replaced. */
#include "settings/settings.h"

#include "base/file.h"
#include "device/device.h"
#include "settings/column_info.h"
#include "settings/foreign.h"
#include "settings/forms.h"

enum { ORIGIN_BYTES = 512, SETS = 3 };

/* A row and the struct that it fills. */
typedef struct place {
    const tri_option *row;
    void *into;
} place;

/* The meaning of a name and a value. */
typedef struct meaning {
    place at;                    /* row NULL: nothing is set */
    const char *to;              /* the value to set; NULL: as given */
    const tri_foreign *foreign;  /* the row of another program's name; NULL: our own name */
    char form[TRI_FOREIGN_TEXT]; /* holds `to`, where it is made of the given value */
} meaning;

/* The names by which one source (a file or the command line) gave rows. */
typedef struct heard {
    tri_settings *settings;
    struct {
        const tri_option *row;
        const tri_foreign *foreign;
        char name[TRI_OPTION_FLAG];
    } at[TRI_OPTIONS_MAX];
    int n;
    int is_theirs; /* another program's file */
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
    settings->translated[bit / 64] &= ~((uint64_t)1 << bit % 64);
}

void tri__settings_free(tri_settings *settings) {
    if (settings->own.rows) tri__options_free(settings->own.rows, settings->own.into);
    tri__options_free(tri__model_options, &settings->model);
    tri__options_free(tri__run_options, settings);
    tri__texts_free(&settings->notes);
    tri__texts_free(&settings->refused);
    TRI_FREE(settings->calibrated, settings->hub_cache, settings->peaks);
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

const char *tri__settings_nearest(const tri_settings *settings, const char *name, const char *scope) {
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

/* Where epochs end the run, its length is known once rows are counted: then the session warns. */
static tri_status note_warmup(tri_settings *s) {
    char *text = NULL;
    tri_rates rates = tri__rates(s, s->max_steps);
    if (!s->max_steps || rates.warmup < s->max_steps) return TRI_OK;
    double reached = tri__learning_rate(&rates, s->max_steps - 1);
    if (asprintf(&text, TRI_WARMUP_WORDS, (long long)rates.warmup, (long long)s->max_steps, reached, s->lr) < 0)
        text = NULL;
    return tri__texts_push(&s->notes, text);
}

/* A failure that is to be listed. */
static tri_status list_refused(tri_settings *settings, tri_status status) {
    if (status != TRI_USAGE || !settings->lists_refused) return status;
    return tri__texts_push(&settings->refused, strdup(tri_error()));
}

static tri_status check_theirs(const tri_settings *s) {
    if (s->backend && strcmp(s->device, s->backend->device) != 0)
        return tri__fail(TRI_USAGE, "--backend %s with --device %s: %s; give --device %s, or leave --backend out",
                         s->backend->value, s->device, s->backend->words, s->backend->device);
    if (!s->unpaired) return TRI_OK;
    return tri__fail(TRI_USAGE, "%1$lld accumulated microbatches of how many samples? Give per_device_train_batch_size "
                     "too, or for %1$lld parts of B samples --batch-size %1$lldxB --num-microbatches %1$lld",
                     (long long)s->unpaired);
}

/* Sets missing values that follow from given ones. */
/* --device auto. */
static tri_status find_device(tri_settings *settings) {
    const tri_device *device;
    if (strcmp(settings->device, "auto")) return TRI_OK;
    int is_gpu = tri__gpus() > 0 && tri__device_get("cuda", &device) == TRI_OK;
    free(settings->device);
    settings->device = strdup(is_gpu ? "cuda" : "cpu");
    return settings->device ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory while reading options");
}

static tri_status complete(tri_settings *settings) {
    tri_model_config *model = &settings->model;
    char separator;
    TRI_TRY(find_device(settings));
    TRI_TRY(tri__separator_parse(settings->separator, &separator));
    TRI_TRY(list_refused(settings, check_theirs(settings)));
    int shares_given = tri__settings_given(settings, &model->share_encoders);
    TRI_TRY(list_refused(settings, tri__model_take_texts(model, shares_given)));
    if (model->secondary_text_name && !model->secondary_tokenizer && model->primary_tokenizer) {
        model->secondary_tokenizer = strdup(model->primary_tokenizer);
        if (!model->secondary_tokenizer) return tri__fail(TRI_RESOURCE, "out of memory while reading options");
    }
    if (!tri__settings_given(settings, &settings->loss))
        settings->loss = model->task == TRI_TASK_NUMBER      ? TRI_LOSS_SQUARED
                         : model->task == TRI_TASK_QUANTILES ? TRI_LOSS_PINBALL
                         : model->task == TRI_TASK_LABELS    ? TRI_LOSS_BINARY : TRI_LOSS_CROSS_ENTROPY;
    return tri__settings_ranks(settings);
}

/* ---- Names: ours, and other programs' ---- */

/* Commands (and the file) that describe a training run: there other programs' options are recognised. */
static int describes_run(const char *scope) {
    return tri__option_listed(tri__option_find(tri__run_options, "epochs"), scope);
}

/* What another program's row says of a value: refused, held, or our value for it. */
static tri_status answer(tri_settings *settings, const char *origin, const char *text, const tri_json *value,
                         meaning *out) {
    const tri_foreign *foreign = out->foreign;
    char *end;
    int shows = text && strcmp(text, TRI_FOREIGN_OBJECT) != 0;
    if (!foreign->option && !foreign->held)
        return tri__fail(TRI_USAGE, "%s%s%.100s is not possible: %s", origin, shows ? " " : "", shows ? text : "",
                         foreign->words);
    out->to = foreign->to;
    if (foreign->device) settings->backend = foreign;
    if (foreign->scale && text) {
        snprintf(out->form, sizeof out->form, "%.9g", strtod(text, &end) * foreign->scale);
        out->to = *end ? text : out->form; /* what is not a number is refused by our row */
    }
    if (!foreign->read || !tri__json_is_object(value)) return TRI_OK;
    out->to = out->form;
    return foreign->read(origin, value, out->form);
}

/* origin: "--bf16", or "config.json:3: bf16". text NULL: no value; value: of a file. */
static tri_status interpret(tri_settings *settings, const char *scope, const char *origin, const char *name,
                            const char *text, const tri_json *value, meaning *out) {
    const tri_foreign *foreign = tri__foreign_find(name, text);
    *out = (meaning){.at = find(settings, name, scope)};
    if (!foreign && !out->at.row && tri__foreign_is_switch(name))
        return tri__fail(TRI_USAGE, "%s: expected true or false, not \"%s\"", origin, text);
    if (!foreign || (foreign->held && !describes_run(scope))) return TRI_OK;
    out->foreign = foreign;
    TRI_TRY(answer(settings, origin, text, value, out));
    out->at = foreign->option ? find(settings, foreign->option, scope) : (place){0};
    if (out->at.row && !tri__option_listed(out->at.row, scope))
        return tri__fail(TRI_USAGE, "%s is %s here, which is not an option of trident %s", origin,
                         tri__option_flag(foreign->option, (char[TRI_OPTION_FLAG]){0}), scope);
    return TRI_OK;
}

/* Keeps the note on how another program's option was taken. `shown`: its value, "" for none. */
static tri_status keep_note(tri_settings *settings, const char *scope, const char *origin, const char *name,
                            const char *shown, const meaning *meant) {
    const tri_foreign *foreign = meant->foreign;
    char flag[TRI_OPTION_FLAG], *text = NULL;
    if (!foreign || (foreign->held && !foreign->words) ||
        (foreign->option && meant->at.row == find(settings, name, scope).row))
        return TRI_OK; /* the same value in another form */
    const char *between = *shown ? " " : "", *words = foreign->words ? foreign->words : "";
    int length = foreign->held ? asprintf(&text, "%s%s%.200s: %s", origin, between, shown, words)
                               : asprintf(&text, "%s%s%.200s is taken as %s %.200s%s%s", origin, between, shown,
                                          tri__option_flag(foreign->option, flag), meant->to ? meant->to : shown,
                                          *words ? ": " : "", words);
    return tri__texts_push(&settings->notes, length < 0 ? NULL : text);
}

/* The place of a row among those heard; -1: it was not. */
static int heard_at(const heard *h, const char *row) {
    int i = h->n - 1;
    while (i >= 0 && strcmp(h->at[i].row->name, row)) i--;
    return i;
}

static tri_status twice(const heard *h, int i, const char *origin) {
    char other[TRI_OPTION_FLAG], ours[TRI_OPTION_FLAG];
    tri__option_flag(h->at[i].name, other);
    return tri__fail(TRI_USAGE, "%s and %s are the same option, %s: give one of them", origin,
                     h->is_theirs ? h->at[i].name : other + (origin[0] == '-' ? 0 : 2),
                     tri__option_flag(h->at[i].row->name, ours));
}

/* Sets a row: to meant->to, else to the text, else to the JSON value. Two names of one option from one source are
 * refused, since it is unclear which one counts; in another program's file, if their values differ. */
static tri_status give(heard *h, meaning *meant, const char *origin, const char *name, const char *text,
                       const tri_json *value) {
    const tri_option *row = meant->at.row;
    const tri_foreign *foreign = meant->foreign;
    char one[TRI_OPTION_FLAG], other[TRI_OPTION_FLAG], all[TRI_OPTION_TYPED];
    int i = heard_at(h, row->name), is_first = i < 0;
    if (is_first) i = h->n < TRI_OPTIONS_MAX ? h->n++ : 0;
    const tri_foreign *first = is_first ? NULL : h->at[i].foreign;
    int refines = foreign && foreign->refines, joins = row->kind == TRI_OPTION_TEXTS && first && first->to && meant->to;
    if (first && first->refines && !refines) return TRI_OK;
    if (!is_first && !joins && !h->is_theirs &&
        strcmp(tri__option_flag(name, one), tri__option_flag(h->at[i].name, other)))
        return twice(h, i, origin);
    if (is_first) snprintf(h->at[i].name, TRI_OPTION_FLAG, "%s", name);
    if (is_first || refines) h->at[i].row = row, h->at[i].foreign = foreign;
    note(h->settings, row, h->settings->given);
    if (h->is_theirs) note(h->settings, row, h->settings->translated), note(h->settings, row, h->settings->typed);
    TRI_OWNED(tri__json_drop) tri_json *was = tri__option_json(row, meant->at.into), *is = NULL;
    const char *before = joins ? tri__option_typed(was, ',', all) : NULL;
    text = meant->to ? meant->to : text;
    if (before && !strstr(before, text)) { /* offload_optimizer and offload_param are both --offload */
        snprintf(meant->form, sizeof meant->form, "%.60s,%.30s", before, text);
        text = meant->to = meant->form;
    } else if (before) {
        text = before;
    }
    if (text) TRI_TRY(tri__option_set_text(row, meant->at.into, origin, text));
    else TRI_TRY(tri__option_set_json(row, meant->at.into, origin, value));
    if (!is_first && !joins && !refines && h->is_theirs &&
        !tri__json_equal(was, is = tri__option_json(row, meant->at.into)))
        return twice(h, i, origin);
    return TRI_OK;
}

/* At a source's end. Other programs count the samples of a microbatch, and microbatches: a step of a replica is the
 * product. With the whole step's samples, the first gives the second once replicas are counted (mesh_options.c). */
static tri_status pair_batch(const heard *h) {
    tri_settings *s = h->settings;
    const tri_option *row = tri__option_find(tri__run_options, "batch_size");
    int m = heard_at(h, "batch_size"), g = heard_at(h, "num_microbatches");
    int has_micro = m >= 0 && h->at[m].foreign, has_parts = g >= 0 && h->at[g].foreign;
    int has_global = tri__settings_given(s, &s->global_batch_size);
    if (m >= 0 || g >= 0) s->micro_batch = 0;
    int is_whole = has_micro || has_global || s->num_microbatches == 1;
    if (g >= 0) s->unpaired = has_parts && !is_whole ? s->num_microbatches : 0;
    if (has_micro && has_parts) {
        const char *product = TRI_TEXT(32, "%lld", (long long)(s->batch_size * s->num_microbatches));
        TRI_TRY(tri__option_set_text(row, s, "samples of a microbatch x gradient accumulation", product));
    } else if (has_micro && has_global) {
        s->micro_batch = s->batch_size;
        tri__settings_forget(s, &s->batch_size);
        if (h->is_theirs) note(s, tri__option_find(tri__run_options, "num_microbatches"), s->translated);
    }
    if (has_parts && s->num_microbatches == 1) tri__settings_forget(s, &s->num_microbatches);
    return TRI_OK;
}

/* ---- Other programs' files ---- */

static tri_status read_theirs(heard *h, const char *option, const char *path, const tri_foreign_key *key);

/* Takes a key that has a row, or an option of ours of the same name. */
static tri_status take_row(heard *h, const tri_foreign_key *key, place at) {
    meaning meant = {.foreign = key->row, .at = at};
    const char *shown = tri__json_is_object(key->value) ? "" : key->text;
    if (key->row) TRI_TRY(answer(h->settings, key->origin, key->text, key->value, &meant));
    if (meant.to == tri__foreign_file) meant.to = key->path;
    if (!at.row) return keep_note(h->settings, "config", key->origin, "", shown, &meant);
    if (tri__foreign_rows(at.row->name)) return read_theirs(h, at.row->name, key->text, key);
    int is_text = *shown && !tri__json_is_array(key->value);
    TRI_TRY(give(h, &meant, key->origin, key->name, is_text ? key->text : NULL, key->value));
    return keep_note(h->settings, "config", key->origin, key->leaf, shown, &meant);
}

static tri_status take_key(void *context, const tri_foreign_key *key) {
    heard *h = context;
    const char *option = key->row ? key->row->option : key->is_ours ? key->leaf : NULL;
    place at = option ? find(h->settings, option, "config") : (place){0};
    if (at.row && !tri__option_listed(at.row, "config") && !tri__option_listed(at.row, "train")) at.row = NULL;
    tri_status status = TRI_OK;
    if (key->row || (at.row && key->text)) status = take_row(h, key, at);
    else if (!at.row && !key->is_known) status = tri__fail(TRI_USAGE, "%s: unknown key", key->origin);
    else if (key->text)
        status = tri__fail(TRI_USAGE, "%s %s is not possible: Trident has nothing like it; leave it out", key->origin,
                           key->text);
    return list_refused(h->settings, status);
}

/* Reads the file, or the object that is the key's value. */
static tri_status read_theirs(heard *h, const char *option, const char *path, const tri_foreign_key *key) {
    int was_theirs = h->is_theirs;
    h->is_theirs = 1;
    tri_status status = key && tri__json_is_object(key->value)
                            ? tri__foreign_read_object(option, key->path, *key->lines, key->value, take_key, h)
                            : tri__foreign_read_file(option, path, take_key, h);
    h->is_theirs = was_theirs;
    return status;
}

/* ---- The configuration file ---- */

static tri_status read_key(heard *h, const char *path, const tri_json_lines *lines, int line, const char *key,
                           tri_json *value) {
    tri_settings *settings = h->settings;
    char origin[ORIGIN_BYTES], where[ORIGIN_BYTES], typed[TRI_OPTION_TYPED];
    const char *text = tri__json_is_array(value) ? NULL : tri__option_typed(value, ' ', typed);
    meaning meant;
    snprintf(where, sizeof where, line ? "%s:%d" : "%s", path, line);
    snprintf(origin, sizeof origin, "%.400s: %.100s", where, key);
    TRI_TRY(interpret(settings, "config", origin, key, text ? text : TRI_FOREIGN_OBJECT, value, &meant));
    const tri_option *row = meant.at.row;
    if (!row && !meant.foreign) {
        const char *near = tri__settings_nearest(settings, key, "config");
        if (near) return tri__fail(TRI_USAGE, "%s: unknown key \"%s\"; did you mean \"%s\"?", where, key, near);
        return tri__fail(TRI_USAGE, "%s: unknown key \"%s\"", where, key);
    }
    const tri_foreign_key whole = {.path = path, .value = value, .lines = lines};
    if (row && tri__foreign_rows(row->name))
        return tri__json_is_string(value) || tri__json_is_object(value)
                   ? read_theirs(h, row->name, text, &whole)
                   : tri__option_set_json(row, meant.at.into, origin, value);
    TRI_TRY(keep_note(settings, "config", origin, key, text ? text : "", &meant));
    if (!row) return TRI_OK;
    if (!tri__option_listed(row, "config"))
        return tri__fail(TRI_USAGE, "%s: \"%s\" belongs on the command line, not in the configuration file", where,
                         key);
    return give(h, &meant, origin, key, NULL, value);
}

static tri_status read_config(tri_settings *settings, const char *path) {
    TRI_OWNED(tri__json_drop) tri_json *root = NULL;
    TRI_OWNED(tri__free_at) char *text = NULL;
    size_t size;
    heard h = {.settings = settings};
    tri_status status = tri__file_read(path, TRI_LIMIT_JSON_FILE, &text, &size);
    if (status != TRI_OK) return status == TRI_DATA ? TRI_USAGE : status;
    TRI_TRY(tri__json_parse(text, size, path, TRI_USAGE, &root));
    tri_json_lines lines = {.text = text, .length = size};
    tri__json_members(root, m) {
        if (strcmp(m->key, "_comments") == 0 || strcmp(m->key, "model_type") == 0)
            continue; /* the latter: in exports, for other programs */
        int line = tri__json_line_of(&lines, m->key);
        TRI_TRY(read_key(&h, path, &lines, line, m->key, m->value));
    }
    return pair_batch(&h);
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
static int is_truth(const char *word) { return tri__option_truth(word) >= 0 && word[0] != '0' && word[0] != '1'; }

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
    TRI_TRY(interpret(settings, scope, tri__option_flag(out->name, written), out->name, out->value, NULL, &out->meant));
    row = out->meant.at.row;
    if (!row && !out->meant.foreign) {
        const char *near = tri__settings_nearest(settings, out->name, scope);
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

/* Options that name files of options, in the order in which those are read. */
enum { NAMED = 4 };
static const char *const named_by[NAMED] = {"config", "training_arguments", "accelerate", "deepspeed"};

/* Walks through the arguments. With `named`, only stores what names files of options there; else sets all options, and
 * collects positional words and everything after "--". */
static tri_status read_arguments(tri_settings *settings, const char *scope, int n, const char *const *args,
                                 const char **named, const char **words, int max_words, int *n_words) {
    heard h = {.settings = settings};
    int only_words = 0;
    *n_words = 0;
    for (int i = 0; i < n;) {
        argument argument;
        char origin[TRI_OPTION_FLAG];
        if (only_words || args[i][0] != '-' || args[i][1] == 0) { /* "-" is a word too */
            if (!named && *n_words == max_words)
                return tri__fail(TRI_USAGE, "unexpected word \"%s\"; trident %s --help shows what is expected", args[i],
                                 scope);
            if (!named) words[(*n_words)++] = args[i];
            i++;
            continue;
        }
        if (strcmp(args[i], "--") == 0) {
            only_words = 1, i++;
            continue;
        }
        TRI_TRY(read_argument(settings, scope, n - i, args + i, &argument));
        i += argument.used;
        const tri_option *row = argument.meant.at.row;
        for (int f = 0; f < NAMED && named && row; f++)
            if (!strcmp(row->name, named_by[f])) named[f] = argument.value;
        if (named) continue;
        tri__option_flag(argument.name, origin);
        TRI_TRY(
            keep_note(settings, scope, origin, argument.name, argument.value ? argument.value : "", &argument.meant));
        if (row) TRI_TRY(give(&h, &argument.meant, origin, argument.name, argument.value, NULL));
        if (row) note(settings, row, settings->typed);
    }
    return named ? TRI_OK : pair_batch(&h);
}

tri_status tri__settings_parse(tri_settings *settings, const char *scope, int n, const char *const *args,
                               const char **words, int max_words, int *n_words) {
    const char *named[NAMED] = {NULL};
    heard h = {.settings = settings, .is_theirs = 1};
    TRI_TRY(read_arguments(settings, scope, n, args, named, words, max_words, n_words));
    settings->lists_refused = strcmp(scope, "plan") == 0 && !named[0];
    if (named[0]) TRI_TRY(read_config(settings, named[0]));
    for (int f = 1; f < NAMED; f++)
        if (named[f]) TRI_TRY(read_theirs(&h, named_by[f], named[f], NULL));
    TRI_TRY(pair_batch(&h));
    TRI_TRY(read_arguments(settings, scope, n, args, NULL, words, max_words, n_words));
    if (tri__option_listed(tri__option_find(tri__run_options, "column_info"), scope))
        TRI_TRY(tri__column_info_adopt(settings));
    if (tri__option_listed(tri__option_find(tri__run_options, "warmup_steps"), scope)) TRI_TRY(note_warmup(settings));
    return complete(settings);
}

static const char *const precisions[] = {TRI_PRECISIONS(TRI_NAMED)};

const char *tri__settings_computing(const tri_settings *s) { return precisions[s->precision]; }

const char *tri__settings_products(const tri_settings *s) {
    return s->quantize == TRI_QUANTIZE_INT8  ? precisions[TRI_PRECISION_INT8]
           : s->quantize == TRI_QUANTIZE_FP8 ? precisions[TRI_PRECISION_FP8] : tri__settings_computing(s);
}

tri_loss_form tri__settings_loss(const tri_settings *s) {
    switch ((tri_loss_kind)s->loss) {
#define TRI_LOSS(id, word, task, ...) case TRI_LOSS_##id: return (tri_loss_form){__VA_ARGS__};
#include "settings/losses.def"
    }
    return (tri_loss_form){0};
}

char tri__settings_decimal(const tri_settings *settings) {
    static const char marks[] = {[TRI_DECIMAL_AUTO] = 0, [TRI_DECIMAL_POINT] = '.', [TRI_DECIMAL_COMMA] = ','};
    return marks[settings->decimal_mark];
}

/* Keys of a configuration file; or what other programs' files gave. */
static tri_json *options_json(const tri_settings *settings, int translated) {
    tri_option_set sets[SETS];
    tri_json *all = tri__json_object();
    int bit = 0;
    sets_of(settings, sets);
    for (int t = 0; t < SETS; t++)
        for (const tri_option *row = sets[t].rows; row->name; row++, bit++) {
            if (translated ? (settings->translated[bit / 64] >> bit % 64 & 1) != 0 : tri__option_listed(row, "config"))
                tri__json_set_new(all, row->name, tri__option_json(row, sets[t].into));
        }
    return tri__json_whole(all);
}

tri_json *tri__settings_json(const tri_settings *settings) { return options_json(settings, 0); }

tri_json *tri__settings_translated(const tri_settings *settings) { return options_json(settings, 1); }
