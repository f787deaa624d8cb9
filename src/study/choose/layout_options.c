/* layout_options.c - a layout as settings, as options and in words. */
#include "study/choose/layout_options.h"

#include "plan/choices.h"

static const char *const orders[TRI_LAYOUT_ORDERS] = {"pp,tp,dp", "pp,dp,tp", "dp,pp,tp",
                                                      "dp,tp,pp", "tp,pp,dp", "tp,dp,pp"};
#define ITEM(mem, word) word,
const char *const tri__offload_words[TRI_OFFLOADS] = {TRI_OFFLOAD_WORDS(ITEM)};

const char *const tri__layout_plans[TRI_LAYOUT_PLANS] = {"auto", "*.embeddings.words=sequence",
                                                         "*.feed_forward=sequence", "*.attention=sequence"};

const char *tri__layout_order(int order) { return orders[order]; }

void tri__layout_settings(const tri_layout *l, const tri_settings *asked, int64_t global, tri_layout_settings *out) {
    tri_settings *s = &out->settings;
    *s = *asked;
    s->pp_size = l->pp, s->tp_size = l->tp, s->cp_size = l->cp, s->dp_size = l->dp;
    s->ep_size = l->ep > 1 ? l->ep : 1;
    s->mesh_order = (char *)orders[l->order];
    s->shard = l->shard, s->shard_size = l->shard_size;
    s->schedule = l->schedule, s->pipeline_shape = l->shape, s->virtual_stages = l->chunks;
    s->recompute = l->recompute, s->precision = l->precision;
    s->num_microbatches = l->n_mb;
    s->global_batch_size = global, s->batch_size = (global + l->dp - 1) / l->dp;
    s->offload = (tri_texts){.at = out->offload};
    for (int i = 0; i < TRI_OFFLOADS; i++)
        if (l->offload >> i & 1) out->offload[s->offload.n++] = (char *)tri__offload_words[i];
    if (!s->offload.n) out->offload[s->offload.n++] = (char *)"none";
}

unsigned tri__offload_given(const tri_settings *s) {
    unsigned mask = 0;
    for (int i = 0; i < s->offload.n; i++)
        for (int k = 0; k < TRI_OFFLOADS; k++)
            if (strcmp(s->offload.at[i], tri__offload_words[k]) == 0) mask |= 1u << k;
    return mask;
}

tri_status tri__layout_of(const tri_settings *s, int world, int64_t global, tri_layout *out) {
    tri_settings of = *s; /* only read */
    tri_mesh mesh;
    char order[TRI_MESH_ORDER_TEXT];
    of.world_size = world;
    TRI_TRY(tri__settings_mesh(&of, &mesh));
    tri__mesh_order(&mesh, order);
    *out = (tri_layout){.pp = mesh.pp, .tp = mesh.tp, .cp = tri__mesh_cp(&mesh), .dp = tri__mesh_readers(&mesh),
                        .ep = tri__mesh_ep(&mesh), .shard = s->shard, .shard_size = (int)s->shard_size,
                        .schedule = s->schedule, .shape = s->pipeline_shape, .chunks = (int)s->virtual_stages,
                        .recompute = s->recompute, .precision = s->precision};
    while (strcmp(orders[out->order], order) != 0) out->order++;
    int64_t parts = out->pp > 1 ? 2 * out->pp : 1, most = global / out->dp;
    if (tri__settings_given(s, &s->num_microbatches)) out->n_mb = (int)s->num_microbatches;
    else out->n_mb = (int)(parts < most ? parts : most > 1 ? most : 1);
    out->offload = tri__settings_given(s, &s->offload) ? tri__offload_given(s) : 0;
    return TRI_OK;
}

static void offload_text(unsigned mask, char *out, size_t size) {
    snprintf(out, size, "%s", mask ? "" : "none");
    for (int i = 0; i < TRI_OFFLOADS; i++)
        if (mask >> i & 1)
            tri__text_append(out, size, ",", "%s", tri__offload_words[i]);
}

tri_status tri__layout_options(const tri_layout *l, int all, const tri_settings *given, tri_layout_each *each,
                               void *context) {
    const struct {
        const char *key;
        int value;
    } keys[] = {{"pp_size", l->pp},       {"tp_size", l->tp},         {"cp_size", l->cp},         {"dp_size", l->dp},
                {"mesh_order", l->order}, {"shard", l->shard},        {"shard_size", l->shard_size},
                {"schedule", l->schedule}, {"pipeline_shape", l->shape}, {"virtual_stages", l->chunks},
                {"num_microbatches", l->n_mb}, {"recompute", l->recompute}, {"offload", (int)l->offload},
                {"precision", l->precision}, {"tp_plan", l->tp_plan}, {"ep_size", l->ep > 1 ? l->ep : 1}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const tri_option *row = tri__option_find(tri__run_options, keys[i].key);
        int of_pipeline = strcmp(row->name, "schedule") == 0 || strcmp(row->name, "pipeline_shape") == 0;
        char text[TRI_OPTION_FLAG];
        if (strcmp(row->name, "tp_plan") == 0) {
            if (!l->tp_plan) continue;
            snprintf(text, sizeof text, "%s", tri__layout_plans[l->tp_plan]);
        } else if (row->kind == TRI_OPTION_CHOICE) tri__option_word(row, keys[i].value, text);
        else if (row->kind == TRI_OPTION_INT) snprintf(text, sizeof text, "%d", keys[i].value);
        else if (row->kind == TRI_OPTION_TEXTS) offload_text(l->offload, text, sizeof text);
        else snprintf(text, sizeof text, "%s", orders[l->order]);
        int as_given = given && tri__settings_given(given, (const char *)given + row->offset);
        if (!all && !as_given && (strcmp(text, row->value) == 0 || (of_pipeline && l->pp == 1))) continue;
        if (!all && strcmp(row->name, "dp_size") == 0) continue; /* what the other axes leave */
        if (!all && !as_given && strcmp(row->name, "num_microbatches") == 0 && l->pp == 1 && l->n_mb == 1) continue;
        TRI_TRY(each(context, row->name, text));
    }
    return TRI_OK;
}

static tri_status add_member(void *context, const char *key, const char *value) {
    const tri_option *row = tri__option_find(tri__run_options, key);
    int number;
    int fails = row->kind == TRI_OPTION_INT && sscanf(value, "%d", &number) == 1
                    ? tri__json_set_new(context, key, tri__json_integer(number))
                    : tri__json_set_new(context, key, tri__json_string(value));
    return fails ? tri__fail(TRI_RESOURCE, "out of memory") : TRI_OK;
}

tri_json *tri__layout_json(const tri_layout *l) {
    tri_json *object = tri__json_object();
    if (object && tri__layout_options(l, 1, NULL, add_member, object) == TRI_OK) return object;
    tri__json_decref(object);
    return NULL;
}

static tri_status add_value(void *context, const char *key, const char *value) {
    static const struct {
        const char *key, *join, *format;
    } shown[] = {{"shard", ", ", "%s"},         {"recompute", ", ", "recompute %s"}, {"precision", ", ", "%s"},
                 {"schedule", ", ", "%s"},      {"pipeline_shape", ", ", "%s"},      {"mesh_order", ", ", "order %s"},
                 {"tp_plan", ", ", "%s"},       {"ep_size", ", ", "ep %s"},         {"shard_size", " ", "of %s"},
                 {"virtual_stages", " ", "x %s"}, {"offload", ", ", "offload %s"},
                 {"num_microbatches", ", ", "%s microbatches"}};
    char words[TRI_LAYOUT_TEXT];
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        if (strcmp(shown[i].key, key) != 0) continue;
        snprintf(words, sizeof words, shown[i].format, value);
        if (strcmp(words, "1 microbatches") == 0) words[strlen("1 microbatch")] = 0;
        tri__text_append(context, TRI_LAYOUT_TEXT, shown[i].join, "%s", words);
    }
    return TRI_OK;
}

const char *tri__layout_text(const tri_layout *l, char out[static TRI_LAYOUT_TEXT]) {
    const int size[] = {l->dp, l->cp, l->tp, l->pp};
    static const char *const axis[] = {"dp", "cp", "tp", "pp"};
    *out = 0;
    for (int i = 0; i < 4; i++)
        if (size[i] != 1) tri__text_append(out, TRI_LAYOUT_TEXT, " x ", "%s %d", axis[i], size[i]);
    if (!*out) strcpy(out, "1 rank");
    tri__layout_options(l, 0, NULL, add_value, out);
    return out;
}
