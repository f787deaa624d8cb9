/* config.c - the model's keys as option rows, and their consistency checks. */
#include "model/config.h"

#include "layout/columns.h"

#include <stddef.h>
#include <string.h>

/* All are allowed in the configuration file; all but objects also on the command line. A change makes another run,
 * except for positive_label, on which only figures depend. */
#define COMMANDS "train,plan,choose,simulate,inspect"
#define ROW_OF(commands_, effect_, kind_, field_, ...) \
    {.name = #field_, .kind = TRI_OPTION_##kind_, .offset = offsetof(tri_model_config, field_), \
     .commands = commands_, .effect = TRI_EFFECT_##effect_, __VA_ARGS__}
#define ROW(kind_, field_, ...) ROW_OF(COMMANDS, RUN, kind_, field_, __VA_ARGS__)

const tri_option tri__model_options[] = {
    ROW(TEXT, label_name, .help = "column of the label"),
    ROW(TEXT, primary_text_name, .help = "column of the first text"),
    ROW(TEXT, secondary_text_name, .help = "column of the second text; default: no such branch"),
    ROW(TEXTS, secondary_text_list, .help = "further columns whose text is joined to the second one, a space between"),
    ROW(TEXTS, tab_field_list, .help = "columns of numbers or categories; default: no such branch"),
    ROW(TEXTS, cat_field_list, .help = "columns of tab_field_list that are categories although they look like numbers"),
    ROW(TEXTS, label_list, .help = "labels in the order of the classes; default: as in the training data"),
    ROW(TEXTS, missing, .value = "NA,N/A,n/a,null,NULL,NaN,-,?",
        .help = "fields of columns and labels, not of texts, that count as missing, in addition to empty ones"),
    ROW_OF(COMMANDS ",eval,quantize", NOTHING, TEXT, positive_label,
           .help = "of two labels, the one that PR AUC, average precision and ROC AUC belong to; default: the rarer "
                   "one in training"),
    ROW(CHOICE, numeric_missing, .value = "median", .choices = "median|mean|zero",
        .help = "what a missing number becomes"),
    ROW(CHOICE, numeric_transform, .value = "standard", .choices = "standard|quantile_normal|none",
        .help = "what numbers become: mean 0 and deviation 1, normal by rank, or as they are"),
    ROW(CHOICE, tabular, .value = "plain", .choices = "plain|embedded",
        .help = "columns as they are (categories one-hot), or each as a learned vector"),
    ROW(CHOICE, numeric_embedding, .value = "piecewise", .choices = "piecewise|periodic",
        .help = "tabular embedded: how numbers become vectors: piecewise linear between quantiles, or sines of "
                "learned frequencies"),
    ROW(INT, column_dim, .value = "16", .min = 1, .max = TRI_COLUMN_DIM_MAX,
        .help = "tabular embedded: width of a column's vector"),
    ROW(INT, numeric_bins, .value = "32", .min = 1, .max = TRI_BINS_MAX,
        .help = "piecewise: most bins of a column, between quantiles of the training rows"),
    ROW(INT, numeric_frequencies, .value = "48", .min = 1, .max = 4096, .help = "periodic: frequencies of a column"),
    ROW(REAL, frequency_scale, .value = "0.2", .min = 1e-6, .max = 1e6,
        .help = "periodic: standard deviation of initial frequencies, in periods for each unit of the number"),
    ROW(CHOICE, fusion, .value = "concat", .choices = "concat|gated",
        .help = "how branches meet: side by side, or each scaled by learned gates first"),
    ROW(TEXT, primary_tokenizer,
        .help = "folder of the first text's tokenizer and encoder, or a known name (bert-base-cased, ...)"),
    ROW(TEXT, secondary_tokenizer, .help = "the same for the second text; default: as the first"),
    ROW(INT, hidden_common_dim, .value = "256", .min = 1, .max = 65536,
        .help = "width that each branch is projected to"),
    ROW(INT, fusion_hidden_dim, .value = "128", .min = 1, .max = 65536, .help = "width of the fusion's hidden layer"),
    ROW(REAL, fusion_dropout, .value = "0.1", .min = 0, .max = 0.999, .help = "dropout in the fusion"),
    ROW(BOOL, is_binary, .value = "true", .help = "two classes; false: num_classes of them"),
    ROW(INT, num_classes, .value = "2", .min = 2, .max = 65536, .help = "number of classes"),
    ROW(REALS, class_weights, .choices = "balanced",
        .help = "weight of each class in the loss, or balanced: rows / (classes x the class's rows); default: all 1"),
    ROW(INT, max_sen_len, .value = "512", .min = 3, .max = 65536,
        .help = "longest text in tokens; longer ones are cut, or windowed"),
    ROW(INT, windows, .value = "1", .min = 1, .max = 1024,
        .help =
            "longer texts become up to this many overlapping windows of max_sen_len tokens, whose pooled vectors are "
            "averaged"),
    ROW(INT, stride, .value = "128", .min = 1, .max = 65536,
        .help = "tokens of the text from one window's first to the next one's"),
    ROW_OF(COMMANDS, NOTHING, CHOICE, extend_positions, .value = "no", .choices = "no|copy",
           .help = "max_sen_len beyond the encoder's positions: refused, or its position embeddings are repeated"),
    ROW(TEXT, attention,
        .help =
            "keys that tokens attend to: dense|window|longformer|bigbird|fixed (windows of 512 tokens, half on each "
            "side), or a JSON file; default: the encoder's attention_pattern, else dense"),
    ROW(CHOICE, pooling, .value = "pooler", .choices = "pooler|cls|mean",
        .help = "how a text's tokens become one vector"),
    ROW(BOOL, share_encoders, .value = "false",
        .help = "both texts go through one encoder, the first one's: half the memory of two"),
    ROW(OBJECT, primary_encoder,
        .help = "Hugging Face config.json keys that override the first encoder's architecture"),
    ROW(OBJECT, secondary_encoder, .help = "the same for the second encoder"),
    {0}};

static tri_status require(const char *name, const char *value, const char *what) {
    if (value) return TRI_OK;
    return tri__fail(TRI_USAGE, "%s is not given: it names %s; set it in the configuration file", name, what);
}

/* Whether a column is (part of) a text. */
static int is_text(const tri_model_config *config, const char *name) {
    const tri_texts *further = &config->secondary_text_list;
    for (int i = 0; i < further->n; i++)
        if (!strcmp(further->at[i], name)) return 1;
    return !strcmp(config->primary_text_name, name) ||
           (config->secondary_text_name && !strcmp(config->secondary_text_name, name));
}

/* A column has one role. */
static tri_status check_columns(const tri_model_config *config) {
    const tri_texts *fields = &config->tab_field_list;
    const char *label = config->label_name, *second = config->secondary_text_name;
    if (is_text(config, label))
        return tri__fail(TRI_USAGE, "label_name and a text are the same column, \"%s\"", label);
    for (int i = 0; i < fields->n; i++) {
        if (strcmp(fields->at[i], label) == 0)
            return tri__fail(TRI_USAGE,
                             "tab_field_list holds the label's column \"%s\": the model would see the answer", label);
        if (is_text(config, fields->at[i]))
            return tri__fail(TRI_USAGE, "\"%s\" is a text and in tab_field_list: name it in one of them",
                             fields->at[i]);
        for (int j = 0; j < i; j++)
            if (strcmp(fields->at[i], fields->at[j]) == 0)
                return tri__fail(TRI_USAGE, "tab_field_list holds \"%s\" twice", fields->at[i]);
    }
    for (int i = 0; i < config->cat_field_list.n; i++) {
        const char *name = config->cat_field_list.at[i];
        int j = 0;
        while (j < fields->n && strcmp(fields->at[j], name)) j++;
        if (j == fields->n)
            return tri__fail(TRI_USAGE, "cat_field_list holds \"%s\", which tab_field_list does not", name);
    }
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
    if (labels->n && labels->n != config->num_classes)
        return tri__fail(TRI_USAGE, "label_list has %d label%s, but num_classes is %lld", labels->n,
                         labels->n == 1 ? "" : "s", (long long)config->num_classes);
    for (int i = 0; i < labels->n; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(labels->at[i], labels->at[j]) == 0)
                return tri__fail(TRI_USAGE, "label_list holds \"%s\" twice", labels->at[i]);
    int named = !config->positive_label || !labels->n;
    for (int i = 0; i < labels->n && !named; i++) named = strcmp(labels->at[i], config->positive_label) == 0;
    if (!named) return tri__fail(TRI_USAGE, "positive_label \"%s\" is not in label_list", config->positive_label);
    if (config->positive_label && config->num_classes > 2)
        return tri__fail(TRI_USAGE,
                         "positive_label \"%s\" names one of two classes, but num_classes is %lld: beyond two, figures "
                         "are means over all classes; leave it out",
                         config->positive_label, (long long)config->num_classes);
    return TRI_OK;
}

/* One encoder has one vocabulary and one architecture. */
static tri_status check_sharing(const tri_model_config *c) {
    if (!c->share_encoders || !c->secondary_text_name) return TRI_OK;
    if (c->secondary_tokenizer && strcmp(c->primary_tokenizer, c->secondary_tokenizer) != 0)
        return tri__fail(TRI_USAGE,
                         "share_encoders: both texts go through one encoder, which has one vocabulary, but "
                         "primary_tokenizer is \"%s\" and secondary_tokenizer \"%s\"; leave the latter out",
                         c->primary_tokenizer, c->secondary_tokenizer);
    if (c->secondary_encoder && !(c->primary_encoder && tri__json_equal(c->primary_encoder, c->secondary_encoder)))
        return tri__fail(TRI_USAGE,
                         "share_encoders: both texts go through the first one's encoder, but secondary_encoder "
                         "describes another one than primary_encoder; leave it out");
    return TRI_OK;
}

tri_status tri__model_config_check(const tri_model_config *config) {
    TRI_TRY(require("label_name", config->label_name, "the label's column"));
    TRI_TRY(require("primary_text_name", config->primary_text_name, "the first text's column"));
    TRI_TRY(require("primary_tokenizer", config->primary_tokenizer, "the first text's tokenizer and encoder"));
    TRI_TRY(check_columns(config));
    TRI_TRY(check_labels(config));
    TRI_TRY(check_sharing(config));
    if (config->is_binary && config->num_classes != 2)
        return tri__fail(TRI_USAGE,
                         "is_binary is true, but num_classes is %lld; set is_binary to false, or num_classes to 2",
                         (long long)config->num_classes);
    const tri_reals *weights = &config->class_weights;
    if (weights->n && weights->n != config->num_classes)
        return tri__fail(TRI_USAGE, "class_weights has %d numbers, but num_classes is %lld", weights->n,
                         (long long)config->num_classes);
    for (int i = 0; i < weights->n; i++)
        if (!(weights->at[i] > 0))
            return tri__fail(TRI_USAGE, "class_weights holds %g; weights must be above 0", weights->at[i]);
    return TRI_OK;
}
