/* config.c - the model's keys as option rows, and their consistency checks. */
#include "model/config.h"

#include "layout/columns.h"

#define MODEL "train,plan,choose,simulate,inspect"
#define RANGE(least, most) .min = (least), .max = (most)

const tri_option tri__model_options[] = {
#define TRI_OPTION(kind_, field_, effect_, value_, commands_, help_, ...) \
    TRI_OPTION_ROW(tri_model_config, kind_, field_, effect_, value_, commands_, help_, __VA_ARGS__),
#include "model/keys.def"
#undef TRI_OPTION
    {0}};

static tri_status require(const char *name, const char *value, const char *what) {
    if (value) return TRI_OK;
    return tri__fail(TRI_USAGE, "%s is not given: it names %s; set it in the configuration file", name, what);
}

/* Whether a column is (part of) a text. */
static int is_text(const tri_model_config *config, const char *name) {
    return tri__texts_has(&config->secondary_text_list, name) || tri__texts_has(&config->text_list, name) ||
           !strcmp(config->primary_text_name, name) ||
           (config->secondary_text_name && !strcmp(config->secondary_text_name, name));
}

/* Takes the next of several columns of labels off the front; NULL: there are no more. */
static const char *next_column(const char **names, size_t *length) {
    const char *at = *names + strspn(*names, ", ");
    *length = strcspn(at, ",");
    *names = at + *length;
    while (*length && at[*length - 1] == ' ') --*length;
    return *length ? at : NULL;
}

/* How many columns of labels have this name [length]. */
static int count_labels(const tri_model_config *config, const char *name, size_t length) {
    const char *separator = tri__model_separator(config), *names = config->label_name, *one;
    size_t n;
    int found = 0;
    if (!separator || *separator) return strlen(names) == length && !strncmp(names, name, length);
    while ((one = next_column(&names, &n))) found += n == length && !strncmp(one, name, n);
    return found;
}

/* Whether a column has labels. */
static int is_label(const tri_model_config *c, const char *name) { return count_labels(c, name, strlen(name)) > 0; }

/* A column of labels that a text has, too; NULL: there is none. */
static const char *find_label_in_texts(const tri_model_config *config) {
    const tri_texts first[] = {{(char *[]){config->primary_text_name, config->secondary_text_name},
                                config->secondary_text_name ? 2 : 1}, config->secondary_text_list, config->text_list};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < first[k].n; i++)
            if (is_label(config, first[k].at[i])) return first[k].at[i];
    return NULL;
}

/* Several columns of labels are different ones. */
static tri_status check_label_columns(const tri_model_config *config) {
    const char *separator = tri__model_separator(config), *names = config->label_name, *one;
    size_t n;
    if (!separator || *separator) return TRI_OK;
    if (config->label_list.n || config->label_separator)
        return tri__fail(TRI_USAGE, "%s and several columns in label_name: the columns' names are the labels; leave it "
                         "out", config->label_list.n ? "label_list" : "label_separator");
    if (tri__model_outputs(config) < 2)
        return tri__fail(TRI_USAGE, "label_name \"%s\" has a comma, but not two columns", config->label_name);
    while ((one = next_column(&names, &n)))
        if (count_labels(config, one, n) > 1)
            return tri__fail(TRI_USAGE, "label_name holds \"%.*s\" twice", (int)n, one);
    return TRI_OK;
}

/* Lists of what columns of the table hold: a column is in one of them at most. */
static tri_status check_kinds(const tri_model_config *config) {
    const struct {
        const char *key;
        const tri_texts *names;
    } lists[] = {{"cat_field_list", &config->cat_field_list}, {"hashed_field_list", &config->hashed_field_list},
                 {"boolean_field_list", &config->boolean_field_list}};
    for (int l = 0; l < 3; l++)
        for (int i = 0; i < lists[l].names->n; i++) {
            const char *name = lists[l].names->at[i];
            if (!tri__texts_has(&config->tab_field_list, name))
                return tri__fail(TRI_USAGE, "%s holds \"%s\", which tab_field_list does not", lists[l].key, name);
            for (int before = 0; before < l; before++)
                if (tri__texts_has(lists[before].names, name))
                    return tri__fail(TRI_USAGE, "%s and %s both hold \"%s\": name it in one of them",
                                     lists[before].key, lists[l].key, name);
        }
    return TRI_OK;
}

/* A column has one role. */
static tri_status check_columns(const tri_model_config *config) {
    const tri_texts *fields = &config->tab_field_list;
    const char *second = config->secondary_text_name, *label = find_label_in_texts(config);
    if (label) return tri__fail(TRI_USAGE, "label_name and a text are the same column, \"%s\"", label);
    if (config->weight_name && (is_text(config, config->weight_name) || is_label(config, config->weight_name)))
        return tri__fail(TRI_USAGE, "weight_name and a text or the label are the same column, \"%s\"",
                         config->weight_name);
    for (int i = 0; i < fields->n; i++) {
        if (is_label(config, fields->at[i]))
            return tri__fail(TRI_USAGE,
                             "tab_field_list holds the label's column \"%s\": the model would see the answer",
                             fields->at[i]);
        if (is_text(config, fields->at[i]))
            return tri__fail(TRI_USAGE, "\"%s\" is a text and in tab_field_list: name it in one of them",
                             fields->at[i]);
        if (tri__texts_has(&(tri_texts){fields->at, i}, fields->at[i]))
            return tri__fail(TRI_USAGE, "tab_field_list holds \"%s\" twice", fields->at[i]);
    }
    TRI_TRY(check_kinds(config));
    if (config->secondary_text_list.n && !second)
        return tri__fail(TRI_USAGE, "secondary_text_list adds to a second text, but there is no secondary_text_name");
    if (config->secondary_encoder && !second)
        return tri__fail(TRI_USAGE, "secondary_encoder is given, but there is no secondary_text_name for it to read: "
                                    "name the column, or leave it out");
    return TRI_OK;
}

/* As many labels as classes, all different. */
static tri_status check_labels(const tri_model_config *config) {
    const tri_texts *labels = &config->label_list;
    if (labels->n && config->task == TRI_TASK_CLASSES && labels->n != config->num_classes)
        return tri__fail(TRI_USAGE, "label_list has %d label%s, but num_classes is %lld", labels->n,
                         labels->n == 1 ? "" : "s", (long long)config->num_classes);
    for (int i = 0; i < labels->n; i++)
        if (tri__texts_has(&(tri_texts){labels->at, i}, labels->at[i]))
            return tri__fail(TRI_USAGE, "label_list holds \"%s\" twice", labels->at[i]);
    if (config->positive_label && labels->n && !tri__texts_has(labels, config->positive_label))
        return tri__fail(TRI_USAGE, "positive_label \"%s\" is not in label_list", config->positive_label);
    if (config->positive_label && config->num_classes > 2)
        return tri__fail(TRI_USAGE, "positive_label \"%s\" names one of two classes, but num_classes is %lld: beyond "
                         "two, figures are means over all classes; leave it out", config->positive_label,
                         (long long)config->num_classes);
    return TRI_OK;
}

tri_reals tri__model_levels(const tri_model_config *config) {
    static const double usual[] = {0.05, 0.25, 0.5, 0.75, 0.95};
    return config->quantiles.n ? config->quantiles
                               : (tri_reals){.at = (double *)usual, .n = sizeof usual / sizeof *usual};
}

const char *tri__model_separator(const tri_model_config *config) {
    if (config->task != TRI_TASK_LABELS) return NULL;
    if (config->label_name && strchr(config->label_name, ',')) return "";
    return config->label_separator ? config->label_separator : ";";
}

int64_t tri__model_outputs(const tri_model_config *config) {
    const char *separator = tri__model_separator(config), *names = config->label_name;
    int64_t columns = 0;
    size_t length;
    switch (config->task) {
    case TRI_TASK_NUMBER: return 1;
    case TRI_TASK_QUANTILES: return tri__model_levels(config).n;
    case TRI_TASK_LABELS:
        while (!*separator && next_column(&names, &length)) columns++;
        return !*separator ? columns : config->label_list.n ? config->label_list.n : config->num_classes;
    default: return config->num_classes;
    }
}

int tri__model_has_vectors(const tri_model_config *config) {
    return config->tabular == TRI_TABULAR_EMBEDDED || config->fusion == TRI_FUSION_COLUMNS;
}

/* Fusion by attention: heads, and columns as vectors of its width. */
static tri_status check_fusion(const tri_model_config *c) {
    long long width = c->hidden_common_dim, heads = c->fusion_heads;
    if (c->fusion != TRI_FUSION_COLUMNS) return TRI_OK;
    if (width % heads)
        return tri__fail(TRI_USAGE, "fusion columns: hidden_common_dim is %lld, which %lld fusion_heads do not divide",
                         width, heads);
    if (c->tab_field_list.n && width > TRI_COLUMN_DIM_MAX)
        return tri__fail(TRI_USAGE, "fusion columns: hidden_common_dim is %lld, but vectors of columns have %d "
                         "elements at most", width, TRI_COLUMN_DIM_MAX);
    return TRI_OK;
}

/* What belongs to another task. */
static tri_status check_task(const tri_model_config *config) {
    static const char *const tasks[] = {"classification", "regression", "quantiles", "multilabel"};
    int labels = config->task == TRI_TASK_LABELS, numbers = config->task != TRI_TASK_CLASSES && !labels;
    const char *other = numbers && config->label_list.n      ? "label_list"
                        : (numbers || labels) && config->positive_label  ? "positive_label"
                        : numbers && (config->class_weights.n || config->class_weights.word) ? "class_weights"
                        : config->task != TRI_TASK_QUANTILES && config->quantiles.n ? "quantiles"
                        : !numbers && config->target_transform != 0          ? "target_transform"
                        : !labels && config->label_separator ? "label_separator" : NULL;
    if (other) return tri__fail(TRI_USAGE, "%s: task %s has none: leave it out", other, tasks[config->task]);
    double before = 0;
    for (int i = 0; i < config->quantiles.n; before = config->quantiles.at[i++])
        if (!(config->quantiles.at[i] > before && config->quantiles.at[i] < 1))
            return tri__fail(TRI_USAGE, "quantiles: %g: levels are between 0 and 1, rising", config->quantiles.at[i]);
    if (config->quantiles.n > TRI_QUANTILE_LEVELS_MAX)
        return tri__fail(TRI_USAGE, "quantiles: %d levels; %d at most", config->quantiles.n, TRI_QUANTILE_LEVELS_MAX);
    return TRI_OK;
}

int tri__model_texts(const tri_model_config *c) {
    return c->text_list.n ? c->text_list.n : c->secondary_text_name ? 2 : 1;
}

int tri__model_encoders(const tri_model_config *c) { return c->secondary_text_name && !c->share_encoders ? 2 : 1; }

tri_readers tri__model_readers(const tri_model_config *c) {
    tri_readers readers = {.joined = tri__model_texts(c) > tri__model_encoders(c)};
    for (int t = 0; t < c->text_encoders.n && t < TRI_TEXTS_MAX; t++)
        readers.of[t] = !strcmp(c->text_encoders.at[t], tri__branch_name(1));
    return readers;
}

/* The encoders of text_list. */
static tri_status check_readers(const tri_model_config *c) {
    const tri_texts *which = &c->text_encoders;
    int n = c->text_list.n, seconds = 0;
    if (which->n != n)
        return tri__fail(TRI_USAGE, "text_encoders names %d encoders, but text_list %d texts: name one for each",
                         which->n, n);
    for (int t = 0; t < n; t++) {
        int second = !strcmp(which->at[t], tri__branch_name(1));
        if (!second && strcmp(which->at[t], tri__branch_name(0)))
            return tri__fail(TRI_USAGE, "text_encoders holds \"%s\": a model has two encoders at most, primary and "
                             "secondary; let one of them read text \"%s\"", which->at[t], c->text_list.at[t]);
        seconds += second;
        if (t == 0 ? second : second && seconds == 1 && t != 1)
            return tri__fail(TRI_USAGE, "text_encoders: the primary encoder reads the first text of text_list, a "
                             "secondary one the second: put the texts in that order");
    }
    return TRI_OK;
}

/* name is the first or second text, or becomes it. */
static tri_status take_text(const tri_texts *list, int t, char **name, const char *key) {
    if (*name && strcmp(*name, list->at[t]))
        return tri__fail(TRI_USAGE, "%s is \"%s\", but text %d of text_list \"%s\": leave the former out", key, *name,
                         t + 1, list->at[t]);
    if (!*name && !(*name = strdup(list->at[t]))) return tri__fail(TRI_RESOURCE, "out of memory");
    return TRI_OK;
}

tri_status tri__model_take_texts(tri_model_config *c, int shares_given) {
    tri_texts *list = &c->text_list;
    int n = list->n, seconds = tri__texts_has(&c->text_encoders, tri__branch_name(1));
    if (!n && c->text_encoders.n)
        return tri__fail(TRI_USAGE, "text_encoders is for the texts of text_list, which is not given");
    if (!n) return TRI_OK;
    if (n < 2 || n > TRI_TEXTS_MAX)
        return tri__fail(TRI_USAGE, "text_list has %d text%s: it takes 2 to %d; %s", n, n > 1 ? "s" : "", TRI_TEXTS_MAX,
                         n < 2 ? "a single text is primary_text_name"
                               : "secondary_text_list joins columns to the second one");
    for (int t = 1; t < n; t++)
        if (tri__texts_has(&(tri_texts){list->at, t}, list->at[t]) ||
            tri__texts_has(&c->secondary_text_list, list->at[t]))
            return tri__fail(TRI_USAGE, "\"%s\" is twice among the texts: name it once", list->at[t]);
    TRI_TRY(take_text(list, 0, &c->primary_text_name, "primary_text_name"));
    TRI_TRY(take_text(list, 1, &c->secondary_text_name, "secondary_text_name"));
    if (c->text_encoders.n) TRI_TRY(check_readers(c));
    if (shares_given && c->share_encoders == seconds && (seconds || n > 2))
        return tri__fail(TRI_USAGE, seconds ? "share_encoders: one encoder for all texts, but text_encoders names two: "
                                              "leave one of them out"
                                            : "share_encoders is false, but two encoders cannot have a text each: "
                                              "say which reads each of text_list in text_encoders");
    if (!shares_given) c->share_encoders = !seconds;
    if (n > 2) return TRI_OK;
    tri__texts_free(list), tri__texts_free(&c->text_encoders);
    return TRI_OK;
}

/* One encoder has one vocabulary and one architecture. */
static tri_status check_sharing(const tri_model_config *c) {
    int many = c->text_list.n > 2;
    const char *all = many ? "all" : "both", *or = many ? ", or name each text's encoder in text_encoders" : "";
    if (!c->share_encoders || !c->secondary_text_name) return TRI_OK;
    if (c->secondary_tokenizer && strcmp(c->primary_tokenizer, c->secondary_tokenizer) != 0)
        return tri__fail(TRI_USAGE, "share_encoders: %s texts go through one encoder, which has one vocabulary, but "
                         "primary_tokenizer is \"%s\" and secondary_tokenizer \"%s\"; leave the latter out%s", all,
                         c->primary_tokenizer, c->secondary_tokenizer, or);
    if (c->secondary_encoder && !(c->primary_encoder && tri__json_equal(c->primary_encoder, c->secondary_encoder)))
        return tri__fail(TRI_USAGE, "share_encoders: %s texts go through the first one's encoder, but "
                         "secondary_encoder describes another one than primary_encoder; leave it out%s", all, or);
    return TRI_OK;
}

tri_status tri__model_config_check(const tri_model_config *config) {
    TRI_TRY(require("label_name", config->label_name, "the label's column"));
    TRI_TRY(require("primary_text_name", config->primary_text_name, "the first text's column"));
    TRI_TRY(require("primary_tokenizer", config->primary_tokenizer, "the first text's tokenizer and encoder"));
    TRI_TRY(check_columns(config));
    TRI_TRY(check_task(config));
    TRI_TRY(check_label_columns(config));
    TRI_TRY(check_sharing(config));
    TRI_TRY(check_fusion(config));
    if (config->task == TRI_TASK_NUMBER || config->task == TRI_TASK_QUANTILES) return TRI_OK;
    TRI_TRY(check_labels(config));
    if (config->task == TRI_TASK_CLASSES && config->is_binary && config->num_classes != 2)
        return tri__fail(TRI_USAGE, "is_binary is true, but num_classes is %lld; set is_binary to false, or "
                         "num_classes to 2", (long long)config->num_classes);
    const tri_reals *weights = &config->class_weights;
    if (weights->n && weights->n != tri__model_outputs(config))
        return tri__fail(TRI_USAGE, "class_weights has %d numbers, but num_classes is %lld", weights->n,
                         (long long)tri__model_outputs(config));
    for (int i = 0; i < weights->n; i++)
        if (!(weights->at[i] > 0))
            return tri__fail(TRI_USAGE, "class_weights holds %g; weights must be above 0", weights->at[i]);
    return TRI_OK;
}
