"""Encoder families as transformers writes them: small configurations under each family's own keys, and folders of
random models saved by it.
"""
import json
import os

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

BERT_KEYS = {
    "width": "hidden_size", "heads": "num_attention_heads", "layers": "num_hidden_layers", "inner": "intermediate_size",
    "vocab": "vocab_size", "positions": "max_position_embeddings", "act": "hidden_act",
}
BERT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "pad_token_id": 0}
# {family: (names of its keys, other keys)}
FAMILIES = {
    "bert": (BERT_KEYS, {**BERT, "type_vocab_size": 2}),
    "roberta": (BERT_KEYS, {**BERT, "type_vocab_size": 1, "pad_token_id": 1, "layer_norm_eps": 1e-5}),
    "distilbert": (
        {**BERT_KEYS, "width": "dim", "heads": "n_heads", "layers": "n_layers", "inner": "hidden_dim",
         "act": "activation"},
        {"dropout": 0.0, "attention_dropout": 0.0, "pad_token_id": 0}),
    "electra": (BERT_KEYS, {**BERT, "embedding_size": 10, "type_vocab_size": 2}),
    "xlm-roberta": (BERT_KEYS, {**BERT, "type_vocab_size": 1, "pad_token_id": 1, "layer_norm_eps": 1e-5}),
    "mpnet": (BERT_KEYS, {**BERT, "pad_token_id": 1, "layer_norm_eps": 1e-5, "relative_attention_num_buckets": 32}),
    "modernbert": (
        {**BERT_KEYS, "act": "hidden_activation"},
        {"pad_token_id": 0, "bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3,
         "local_attention": 16, "global_attn_every_n_layers": 2, "global_rope_theta": 2000.0,
         "local_rope_theta": 50.0}),
    "deberta-v2": (
        BERT_KEYS,
        {**BERT, "layer_norm_eps": 1e-7, "type_vocab_size": 0, "relative_attention": True, "position_buckets": 8,
         "max_relative_positions": 40, "norm_rel_ebd": "layer_norm", "share_att_key": True,
         "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}),
}
COUNTS_FROM_PAD = ("roberta", "xlm-roberta", "mpnet")  # positions begin behind pad_token_id


def spec(family, length, width=24, heads=3, layers=2, inner=37, vocab=131, act="gelu", **more):
    """config.json of a family for texts of up to `length` tokens."""
    keys, others = FAMILIES[family]
    sizes = {"width": width, "heads": heads, "layers": layers, "inner": inner, "vocab": vocab, "act": act}
    sizes["positions"] = length + (2 if family in COUNTS_FROM_PAD else 0)
    return {"model_type": family, **others, **{keys[name]: value for name, value in sizes.items()}, **more}


def spread(name):
    """Standard deviation of a random parameter, by its name: no distance, window or head may be without effect. Only
    queries are small: the gradient of a key's bias is 0, fp32 leaves rounding noise in its place, which grows with the
    queries, and the bound on it (1e-10 of the whole gradient's norm) must leave room."""
    if any(part in name for part in (".query", ".q_lin.", ".attn.q.")):
        return 0.005
    if any(part in name for part in (".key", ".k_lin.", ".attn.k.", "relative_attention_bias", "rel_embeddings")):
        return 1.0
    return 0.3 if ".Wqkv." in name else 0.1


def is_gain(name):
    return name.endswith("norm.weight") or name.endswith("LayerNorm.weight")


def randomize(model):
    """Draws all parameters anew; rows of padding tokens stay 0."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.randn_like(parameter) * spread("." + name) + (1.0 if is_gain(name) else 0.0))
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = 0


def pass_on(model):
    """Makes the logits of a model of one text its pooled hidden states: three layers without effect, the middle one
    shifted so that its ReLU never turns (where it does, a rounding error decides about a gradient). It needs
    hidden_common_dim = fusion_hidden_dim = num_classes = the width."""
    shift = 8.0
    with torch.no_grad():
        for layer, bias in ((model.primary.projection, 0.0), (model.fusion.dense, shift),
                            (model.fusion.output, -shift)):
            layer.weight.copy_(torch.eye(layer.in_features))
            layer.bias.fill_(bias)


def words(vocab):
    """A vocabulary of whole words: ids are places in it."""
    special = ["[PAD]", "[pad1]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    return special + [f"w{i}" for i in range(vocab - len(special))]


def save_folder(model, folder, dtype=torch.float32, shard="5GB"):
    """A Hugging Face folder whose tokenizer makes an id of each word of words()."""
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    ids = {word: id for id, word in enumerate(words(model.config.vocab_size))}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast"}, file)
