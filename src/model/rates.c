/* rates.c - which units a run trains, and each parameter's factor of the learning rate.
 *
 * Layer k of an encoder's L, counted from 0 at the bottom, has layer_decay^(L - 1 - k): the top layer has the full
 * rate. The embeddings, with the tables of distances that layers share, have layer_decay^L (as in BEiT; ELECTRA counts
 * its head as one more layer). Parameters that pretrained weights lack have the head's: projections to the common
 * width, the tabular branch, the fusion, and a pooler where transformers' class of the family has none. What else is
 * above the layers (another pooler, ModernBERT's last norm) has the full rate. All this follows from the model alone,
 * not from the files that are there, so that plans need none. */
#include "model/family.h"

enum { EMBEDDINGS = -1, ABOVE = -2 };

/* The layer of an encoder that a unit is, or belongs to: its experts; EMBEDDINGS; ABOVE: neither. *branch: the
 * encoder. */
static int64_t layer_of(const tri_unit *unit, int *branch) {
    const char *rest;
    *branch = tri__branch_of(unit->name, &rest);
    if (*branch < 0) return ABOVE;
    if (strcmp(rest, ".embeddings") == 0) return EMBEDDINGS;
    return tri__text_begins(rest, ".layer.") ? strtoll(rest + strlen(".layer."), NULL, 10) : ABOVE;
}

/* Of a parameter above the layers: whether pretrained weights lack it. */
static int is_new(const tri_network *model, const tri_param *param) {
    const char *rest;
    int branch = tri__branch_of(param->name, &rest);
    return branch < 0 || tri__text_begins(rest, ".projection.") ||
           (tri__text_begins(rest, ".pooler.") && !tri__family(&model->encoder[branch])->has_pooler);
}

static double rate_of(const tri_network *model, const tri_param *param, const tri_recipe *recipe) {
    int branch;
    int64_t layer = layer_of(&model->unit[param->unit], &branch);
    if (layer == ABOVE) return is_new(model, param) && recipe->head > 0 ? recipe->head : 1;
    int64_t layers = model->encoder[branch].num_hidden_layers;
    return recipe->layer_decay > 0 ? pow(recipe->layer_decay, (double)(layers - 1 - layer)) : 1;
}

static tri_status check_layers(const tri_network *model, int64_t frozen) {
    for (int branch = 0; branch < model->n_encoders && frozen != TRI_ALL_LAYERS; branch++) {
        long long layers = (long long)model->encoder[branch].num_hidden_layers;
        if (frozen > layers)
            return tri__fail(TRI_USAGE, "--freeze layers=%lld: the %s encoder has %lld layers: give layers=%lld at "
                             "most, or layers=all for all of each encoder", (long long)frozen, tri__branch_name(branch),
                             layers, layers);
    }
    return TRI_OK;
}

tri_status tri__model_tune(tri_network *model, const tri_recipe *recipe) {
    TRI_TRY(check_layers(model, recipe->frozen_layers));
    for (int u = 0; u < model->n_units; u++) {
        int branch;
        int64_t layer = layer_of(&model->unit[u], &branch);
        model->unit[u].frozen = layer == EMBEDDINGS ? recipe->freezes_embeddings
                                                    : layer >= 0 && layer < recipe->frozen_layers;
    }
    for (int i = 0; i < model->n_params; i++) {
        tri_param *param = &model->param[i];
        param->rate = rate_of(model, param, recipe);
        if (model->unit[param->unit].frozen) param->decays = 0;
    }
    return TRI_OK;
}

int64_t tri__model_trained(const tri_network *model) {
    int64_t n = 0;
    for (int i = 0; i < model->n_params; i++)
        if (!model->unit[model->param[i].unit].frozen) n += model->param[i].count;
    return n;
}
