/* split.c - how tensor-parallel ranks hold layers, as a user wants it: "layers=how", in PyTorch's words. Layers are
 * given by their logical names, by unit and part (primary.layer.0.attention.qkv, the same for all families), or by what
 * either begins with, where * is any text. What a kind of layer cannot be is refused here; whether neighbours fit
 * together is found where values are placed (plan/pass_tensor.c). */
#include "model/family.h"

#include <fnmatch.h>

enum { NAME = 256 };

typedef enum how { COLWISE, ROWWISE, REPLICATE, SEQUENCE, COLWISE_REP, ROWWISE_REP, HOWS } how;
static const struct {
    const char *word;
    how how;
} words[] = {{"colwise", COLWISE},         {"rowwise", ROWWISE},           {"replicate", REPLICATE},
             {"sequence", SEQUENCE},       {"ColwiseParallel", COLWISE},   {"RowwiseParallel", ROWWISE},
             {"colwise_rep", COLWISE_REP}, {"SequenceParallel", SEQUENCE}, {"rowwise_rep", ROWWISE_REP},
             {"sequence_parallel", SEQUENCE}};

typedef enum kind { DENSE, VOCABULARY, TABLE, HEADS, NORM, KINDS } kind;

/* What each kind can be, by how: rows, columns, whole, tokens (tri_share); -: it cannot. A vocabulary's rows are words,
 * which a lookup does not multiply by: rowwise_rep is the same. */
static const char shares[] = "WRCT";
static const struct {
    const char *by_how, *why;
} can_be[KINDS] = {
    [DENSE] = {"RCWT--", "columns are neither gathered nor cut: a colwise layer feeds a rowwise one"},
    [VOCABULARY] = {"-RWT-R", "the norm after it needs whole rows"},
    [TABLE] = {"--WT--", "its rows are added to values that every rank has whole"},
    [HEADS] = {"C-W---", "it has a column for each head: colwise, as the queries, or replicate"},
    [NORM] = {"--WT--", "a norm needs whole rows: sequence or replicate"}};

#define AT(name) offsetof(tri_layer_names, name)
static const struct {
    size_t name;
    const char *part;
} parts[] = {{AT(query), "attention.qkv"},        {AT(key), "attention.qkv"},
             {AT(value), "attention.qkv"},        {AT(attention), "attention.output"},
             {AT(attention_norm), "attention.norm"}, {AT(inner), "feed_forward.inner"},
             {AT(outer), "feed_forward.outer"},   {AT(norm), "feed_forward.norm"}};

static kind kind_of(const tri_param *param) {
    const char *name = param->name;
    if (strstr(name, ".word_embeddings.") || strstr(name, ".tok_embeddings.")) return VOCABULARY;
    if (strstr(name, ".relative_attention_bias.")) return HEADS;
    if (strstr(name, "_embeddings.") || strstr(name, ".router.") || strstr(name, ".columns.") ||
        strstr(name, ".numbers.") || strstr(name, ".categories.") || strstr(name, ".frequencies."))
        return TABLE;
    return strstr(name, "orm.") ? NORM : DENSE;
}

static int is_bias(const tri_param *param) { return param->shape.n - (param->experts > 0) == 1; }

const char *tri__share_word(tri_share share, const tri_param *param) {
    const char *can = can_be[kind_of(param)].by_how;
    int of_experts = share == TRI_SHARE_COLS && is_bias(param);
    return words[of_experts ? COLWISE : strchr(can, shares[share]) - can].word;
}

/* A parameter's name without .weight or .bias. */
static const char *layer_of(const char *name, char out[static NAME]) {
    size_t n = strlen(name), cut = tri__text_ends(name, ".weight") ? 7 : tri__text_ends(name, ".bias") ? 5 : 0;
    snprintf(out, NAME, "%.*s", (int)(n - cut), name);
    return out;
}

const char *tri__param_part(const tri_network *model, const tri_param *param) {
    const char *rest;
    const char *unit = model->unit[param->unit].name;
    int branch = tri__branch_of(unit, &rest), fuses = tri__text_begins(unit, "fusion.layer.");
    if (!fuses && (branch < 0 || !tri__text_begins(rest, ".layer."))) return NULL;
    const tri_layer_names *names = fuses ? &tri__fusion_names : tri__family(&model->encoder[branch])->names;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *name = *(const char *const *)((const char *)names + parts[i].name);
        const char *at = name ? strstr(param->name, name) : NULL;
        if (at && at[-1] == '.' && at[strlen(name)] == '.') return parts[i].part;
    }
    return NULL;
}

/* By unit and part, primary.embeddings.words; others by unit and the last word of their name. */
static const char *short_name(const tri_network *model, const tri_param *param, char out[static NAME]) {
    char layer[NAME];
    const char *part = kind_of(param) == VOCABULARY ? "words" : tri__param_part(model, param),
               *last = strrchr(layer_of(param->name, layer), '.');
    snprintf(out, NAME, "%s.%s", model->unit[param->unit].name, part ? part : last + 1);
    return out;
}

static int matches(const char *pattern, const char *name) {
    char longer[NAME + 2];
    snprintf(longer, sizeof longer, "%s.*", pattern);
    return fnmatch(pattern, name, 0) == 0 || fnmatch(longer, name, 0) == 0;
}

static tri_status set(tri_param *param, const char *entry, how as) {
    kind is = kind_of(param);
    char share = can_be[is].by_how[as];
    if (share == '-')
        return tri__fail(TRI_USAGE, "--tp-plan %s: %s cannot be %s: %s", entry, param->name, strrchr(entry, '=') + 1,
                         can_be[is].why);
    if (is_bias(param)) share = share == 'C' ? 'W' /* added once */ : share == 'R' && param->experts ? 'C' : share;
    param->share = (tri_share)(strchr(shares, share) - shares);
    return TRI_OK;
}

static tri_status no_such_layer(const tri_network *model, const char *entry, const char *pattern) {
    int n = 2 * model->n_params;
    const char **name = tri__arena_alloc(model->arena, (size_t)n * sizeof *name), *near;
    char text[NAME];
    for (int i = 0; i < n; i++) {
        const tri_param *param = &model->param[i / 2];
        name[i] = tri__arena_copy(model->arena, i % 2 ? layer_of(param->name, text) : short_name(model, param, text));
    }
    near = tri__text_nearest(pattern, name, n);
    return tri__fail(TRI_USAGE, "--tp-plan %s: no layer of this model has such a name; %s%s%s", entry,
                     near ? "did you mean " : "trident plan --params lists them", near ? near : "", near ? "?" : "");
}

/* One entry; named [n_params]: those that any entry names. */
static tri_status apply(tri_network *model, const char *entry, uint8_t *named) {
    const char *equal = strrchr(entry, '=');
    char pattern[NAME], text[NAME], name[NAME];
    int found = 0;
    how as = HOWS;
    size_t length = equal ? strcspn(equal + 1, "(") : 0; /* "RowwiseParallel()" */
    for (size_t i = 0; equal && i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == length && strncasecmp(words[i].word, equal + 1, length) == 0) as = words[i].how;
    if (as == HOWS)
        return tri__fail(TRI_USAGE, "--tp-plan %s: expected layers=how, where how is colwise, rowwise, replicate or "
                         "sequence, or PyTorch's ColwiseParallel, RowwiseParallel or SequenceParallel", entry);
    snprintf(text, sizeof text, "%.*s", (int)(equal - entry), entry);
    layer_of(text, pattern);
    for (int i = 0; i < model->n_params; i++) {
        tri_param *param = &model->param[i];
        if (!matches(pattern, layer_of(param->name, name)) && !matches(pattern, short_name(model, param, name)))
            continue;
        TRI_TRY(set(param, entry, as));
        named[i] = found = 1;
    }
    return found ? TRI_OK : no_such_layer(model, entry, pattern);
}

/* Tables that are added to words are looked up where these are; what is one product is cut alike. */
static tri_status join(tri_network *model, const uint8_t *named) {
    for (int i = 0; i < model->n_params; i++) {
        tri_param *param = &model->param[i], *first = &model->param[model->unit[param->unit].first];
        const char *part = tri__param_part(model, param);
        if (kind_of(first) == VOCABULARY && kind_of(param) == TABLE && !named[i] && !strstr(param->name, ".rel_"))
            param->share = first->share == TRI_SHARE_TOKENS ? TRI_SHARE_TOKENS : TRI_SHARE_WHOLE;
        if (named[i] && param->share == TRI_SHARE_TOKENS && !model->by_tokens) model->by_tokens = param->name;
        for (; part && first < param; first++)
            if (tri__param_part(model, first) == part && first->shape.n == param->shape.n &&
                first->share != param->share)
                return tri__fail(TRI_USAGE, "--tp-plan: %s is %s, but %s is %s: they are one product; say it of %s.%s",
                                 first->name, tri__share_word(first->share, first), param->name,
                                 tri__share_word(param->share, param), model->unit[param->unit].name, part);
    }
    return TRI_OK;
}

tri_status tri__model_split(tri_network *model, const tri_texts *plan) {
    uint8_t *named = tri__arena_alloc(model->arena, (size_t)model->n_params);
    for (int i = 0; i < plan->n; i++)
        if (strcmp(plan->at[i], "auto") != 0) TRI_TRY(apply(model, plan->at[i], named));
    TRI_TRY(join(model, named));
    tri__model_arrange(model);
    return TRI_OK;
}
