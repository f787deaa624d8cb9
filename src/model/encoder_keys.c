/* encoder_keys.c - misspelt keys of an encoder's object. A config.json has many keys that say nothing about the
 * architecture, so an unknown key is an error only if it looks like one that counts. */
#include "model/config.h"

enum { KNOWN_MAX = 128 };

/* Keys that are read but may be missing from tri__encoder_json, and BERT's names, which every family reads. */
static const char *const read_too[] = {"model_type", "vocab_size", "hidden_size", "num_hidden_layers",
                                       "num_attention_heads", "intermediate_size", "hidden_act",
                                       "max_position_embeddings", "type_vocab_size", "pad_token_id",
                                       "hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range",
                                       "layer_norm_eps", "attention_pattern", "num_experts", "experts_per_token",
                                       "expert_capacity_factor", "router_aux_loss_coef", "expert_layers"};

/* Keys of transformers' configurations that are of no account here, or of another family. */
static const char *const ignored[] = {
    "_name_or_path", "activation", "add_cross_attention", "architectures", "attention_bias", "attention_dropout",
    "bos_token_id", "chunk_size_feed_forward", "classifier_activation", "classifier_bias", "classifier_dropout",
    "classifier_pooling", "cls_token_id", "conv_act", "conv_kernel_size", "decoder_bias", "deterministic_flash_attn",
    "dim", "directionality", "dropout", "dtype", "embedding_dropout", "embedding_size", "eos_token_id",
    "finetuning_task", "global_attn_every_n_layers", "global_rope_theta", "gradient_checkpointing",
    "hidden_activation", "hidden_dim", "id2label", "initializer_cutoff_factor", "is_decoder", "is_encoder_decoder",
    "label2id", "layer_types", "legacy", "local_attention", "local_rope_theta", "mask_token_id",
    "max_relative_positions", "mlp_bias", "mlp_dropout", "n_heads", "n_layers", "norm_bias", "norm_eps",
    "norm_rel_ebd", "num_labels", "output_attentions", "output_hidden_states", "output_past", "pooler_dropout",
    "pooler_fc_size", "pooler_hidden_act", "pooler_hidden_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
    "pooler_size_per_head", "pooler_type", "pos_att_type", "position_biased_input", "position_buckets",
    "position_embedding_type", "problem_type", "qa_dropout", "relative_attention", "relative_attention_num_buckets",
    "return_dict", "rope_parameters", "rope_scaling", "sep_token_id", "seq_classif_dropout", "share_att_key",
    "sinusoidal_pos_embds", "sparse_pred_ignore_index", "sparse_prediction", "summary_activation",
    "summary_last_dropout", "summary_type", "summary_use_proj", "tie_word_embeddings", "torch_dtype",
    "torchscript", "transformers_version", "use_cache"};

tri_status tri__encoder_check_keys(const tri_json *json, const char *origin, const tri_encoder *encoder) {
    const char *known[KNOWN_MAX];
    size_t n = sizeof read_too / sizeof *read_too;
    TRI_OWNED(tri__json_drop) tri_json *own = tri__encoder_json(encoder);
    tri_status status = TRI_OK;
    memcpy(known, read_too, sizeof read_too);
    tri__json_members(own, m) {
        if (n < KNOWN_MAX) known[n++] = m->key;
    }
    tri__json_members(json, m) {
        if (status != TRI_OK || tri__text_index(m->key, known, (int)n) >= 0 ||
            tri__text_index(m->key, ignored, sizeof ignored / sizeof *ignored) >= 0)
            continue;
        const char *nearest = tri__text_nearest(m->key, known, (int)n);
        if (nearest)
            status = tri__fail(TRI_USAGE, "%s: unknown key \"%s\"; did you mean \"%s\"?", origin, m->key, nearest);
    }
    return status;
}
