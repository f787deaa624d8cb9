"""Writes the golden files of tests/golden/: PyTorch's results for small models, which test_golden compares with.

    .venv/bin/python tools/golden.py [FOLDER] [--seed N] [--only NAME]

Each NAME.json holds the configuration (Trident's keys), the samples (token ids, numbers, labels), the training recipe
and the expected losses; NAME.safetensors holds the initial weights under their logical names, `logits` and `grad.` +
name. Dropout is 0 throughout. The reference is computed in double from the fp32 weights, then rounded, so that
Trident is compared with the exact result, not with another engine's rounding.

The model `quantized` is trained through int8 products. Rounding to integers jumps, so its samples are drawn again until
noise like that of fp32 changes none of the integers: then both sides must find the same ones.

The models `columns`, `periods` and `fusion` have columns as vectors: their files also hold a table, the preprocessing
fitted to it, and what its fields and those of further rows, `probes`, become: `places`; null: missing.

optimizers.json has the losses, and the final weights in samples, of 50 steps of the model `bert` with other optimizers,
windows.json the losses of 50 steps of the models above with texts as overlapping windows, losses.json those with
smoothed labels, focal loss, losses of numbers, and several labels.
"""
import argparse
import copy
import json
import os
import random

import torch
from safetensors.torch import load_file, save_file

import columns
import encoders
import golden_json
from model import (
    NO_DECAY, Trimodal, encoder_spec, logical, logical_gradients, logical_parameters, make_optimizer, pad,
    quantize_encoders, rate_factor, text_names)

STEPS = 50
RECIPE = {
    "lr": 2e-3, "weight_decay": 0.05, "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_eps": 1e-8, "max_grad_norm": 1.0,
    "warmup_steps": 10, "total_steps": STEPS, "no_decay": list(NO_DECAY),
}
NOTES = {
    "learning_rate": "factor for 0-based step s: s < warmup_steps: s / max(1, warmup_steps); else "
                     "max(0, (total_steps - s) / max(1, total_steps - warmup_steps)): transformers' "
                     "get_linear_schedule_with_warmup. The first step has rate 0",
    "clip": "gradients times min(1, max_grad_norm / (norm + 1e-6)), norm over all parameters together",
    "decay": "decoupled: p -= lr * weight_decay * p, except where the name contains one of no_decay",
    "losses": "losses[s] is the loss of step s, before its update, on the samples of batches[s % len(batches)]; "
              "grad_norms[s] its norm before clipping",
    "logits": "of all samples with the initial weights; loss, grad.* and dropped (tokens that no expert took, over all "
              "layers) likewise, all samples as one batch",
}


def encoder(model_type, hidden, intermediate, vocab, positions, **more):
    spec = {
        "model_type": model_type, "vocab_size": vocab, "hidden_size": hidden, "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": intermediate, "max_position_embeddings": positions, "type_vocab_size": 2,
        "pad_token_id": 0,
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
    }
    spec.update(more)
    return spec


ROBERTA = {"type_vocab_size": 1, "pad_token_id": 1, "layer_norm_eps": 1e-5}
COMMON = {"label_name": "label", "fusion_dropout": 0.0, "max_sen_len": 20}
CONFIGS = {
    # One text, three classes, class weights.
    "bert": {
        **COMMON, "primary_text_name": "text", "primary_tokenizer": "golden-bert",
        "primary_encoder": encoder("bert", 32, 64, 100, 24),
        "hidden_common_dim": 16, "fusion_hidden_dim": 12, "is_binary": False, "num_classes": 3,
        "class_weights": [1.0, 2.5, 0.5],
        "pooling": "pooler",
    },
    # RoBERTa's positions, epsilon and single token type.
    "roberta": {
        **COMMON, "primary_text_name": "text", "primary_tokenizer": "golden-roberta",
        "primary_encoder": encoder("roberta", 32, 64, 90, 24, **ROBERTA),
        "hidden_common_dim": 16, "fusion_hidden_dim": 12, "is_binary": False, "num_classes": 4,
        "class_weights": [1.0] * 4,
        "pooling": "mean",
    },
    # Three branches; the encoders differ in kind, width and vocabulary.
    "trimodal": {
        **COMMON, "primary_text_name": "text", "secondary_text_name": "note", "tab_field_list": ["a", "b", "c"],
        "primary_tokenizer": "golden-bert", "secondary_tokenizer": "golden-roberta",
        "primary_encoder": encoder("bert", 32, 48, 80, 22),
        "secondary_encoder": encoder("roberta", 24, 40, 60, 24, **ROBERTA),
        "hidden_common_dim": 16, "fusion_hidden_dim": 12, "is_binary": True, "num_classes": 2,
        "class_weights": [1.0, 2.0],
        "pooling": "cls",
    },
    # Block-sparse attention, with layouts that heads have by turns; texts of one to five blocks.
    "sparse": {
        **COMMON, "primary_text_name": "text", "primary_tokenizer": "golden-bert", "max_sen_len": 75,
        "primary_encoder": encoder("bert", 32, 48, 60, 76, attention_pattern={
            "mode": "fixed", "block": 16, "different_layout_per_head": True, "num_local_blocks": 2,
            "num_global_blocks": 1, "num_different_global_patterns": 2}),
        "hidden_common_dim": 16, "fusion_hidden_dim": 12, "is_binary": False, "num_classes": 3,
        "class_weights": [1.0, 2.5, 0.5],
        "pooling": "mean",
    },
    # Mixtures of experts: one or two for a token, places for fewer tokens than there are.
    "experts": {
        **COMMON, "primary_text_name": "text", "secondary_text_name": "note", "primary_tokenizer": "golden-bert",
        "secondary_tokenizer": "golden-roberta",
        "primary_encoder": encoder("bert", 24, 20, 60, 22, num_experts=4, experts_per_token=2,
                                   expert_capacity_factor=0.9, router_aux_loss_coef=0.05, expert_layers=[0, 1]),
        "secondary_encoder": encoder("roberta", 20, 24, 50, 24, num_experts=3, experts_per_token=1,
                                     expert_capacity_factor=1.1, expert_layers="every 2", **ROBERTA),
        "hidden_common_dim": 16, "fusion_hidden_dim": 12, "is_binary": False, "num_classes": 3,
        "class_weights": [1.0, 2.5, 0.5],
        "pooling": "cls",
    },
    # Both texts through one encoder; its gradient is the sum over them.
    "shared": {
        **COMMON, "primary_text_name": "text", "secondary_text_name": "note", "tab_field_list": ["a", "b"],
        "primary_tokenizer": "golden-bert", "share_encoders": True,
        "primary_encoder": encoder("bert", 24, 32, 40, 22),
        "hidden_common_dim": 16, "fusion_hidden_dim": 12, "is_binary": True, "num_classes": 2,
        "class_weights": [1.0, 2.0],
        "pooling": "pooler",
    },
    # Four texts, two encoders: the first reads three of them.
    "texts": {
        **COMMON, "text_list": ["text", "note", "name", "more"],
        "text_encoders": ["primary", "secondary", "primary", "primary"],
        "primary_text_name": "text", "secondary_text_name": "note", "tab_field_list": ["a", "b"],
        "primary_tokenizer": "golden-bert", "secondary_tokenizer": "golden-roberta",
        "primary_encoder": encoder("bert", 24, 32, 40, 22), "secondary_encoder": encoder("roberta", 16, 20, 50, 24,
                                                                                       **ROBERTA),
        "hidden_common_dim": 16, "fusion_hidden_dim": 12, "is_binary": True, "num_classes": 2,
        "class_weights": [1.0, 2.0],
        "pooling": "pooler",
    },
    # Columns as vectors, numbers by bins; gated branches.
    "columns": {
        **COMMON, "primary_text_name": "text", "primary_tokenizer": "golden-bert",
        "tab_field_list": ["a", "b", "c", "d", "color"], "cat_field_list": ["color"],
        "tabular": "embedded", "numeric_embedding": "piecewise", "numeric_bins": 8, "column_dim": 6,
        "fusion": "gated",
        "primary_encoder": encoder("bert", 8, 12, 30, 22),
        "hidden_common_dim": 8, "fusion_hidden_dim": 6, "is_binary": False, "num_classes": 3,
        "class_weights": [1.0, 2.5, 0.5],
        "pooling": "mean",
    },
    # Numbers by sines.
    "periods": {
        **COMMON, "primary_text_name": "text", "primary_tokenizer": "golden-bert",
        "tab_field_list": ["a", "b", "c", "d", "color"], "cat_field_list": ["color"],
        "tabular": "embedded", "numeric_embedding": "periodic", "numeric_frequencies": 5, "column_dim": 4,
        "primary_encoder": encoder("bert", 8, 12, 30, 22),
        "hidden_common_dim": 8, "fusion_hidden_dim": 6, "is_binary": True, "num_classes": 2,
        "class_weights": [1.0, 2.0],
        "pooling": "cls",
    },
    # Columns and two texts as tokens that attend to each other.
    "fusion": {
        **COMMON, "primary_text_name": "text", "secondary_text_name": "note", "primary_tokenizer": "golden-bert",
        "secondary_tokenizer": "golden-bert",
        "tab_field_list": ["a", "b", "c", "d", "color"], "cat_field_list": ["color"],
        "numeric_embedding": "piecewise", "numeric_bins": 8, "fusion": "columns", "fusion_layers": 2,
        "fusion_heads": 2,
        "primary_encoder": encoder("bert", 8, 12, 30, 22), "secondary_encoder": encoder("bert", 8, 12, 30, 22),
        "hidden_common_dim": 8, "fusion_hidden_dim": 6, "is_binary": False, "num_classes": 3,
        "class_weights": [1.0, 2.5, 0.5],
        "pooling": "mean",
    },
    # Products of 8 bits and a table.
    "quantized": {
        **COMMON, "primary_text_name": "text", "tab_field_list": ["a", "b"], "primary_tokenizer": "golden-bert",
        "primary_encoder": encoder("bert", 32, 48, 60, 22), "max_sen_len": 8,
        "hidden_common_dim": 16, "fusion_hidden_dim": 12, "is_binary": True, "num_classes": 2,
        "class_weights": [1.0, 2.0],
        "pooling": "pooler",
    },
}
QUANTIZED_STEPS = 1  # later ones have other integers
TABLE_ROWS = 60  # that columns are fitted to


def family_config(family, length, pooling, **sizes):
    """One text and one encoder of a family."""
    return {
        **COMMON, "primary_text_name": "text", "primary_tokenizer": f"golden-{family}", "max_sen_len": length,
        "primary_encoder": encoders.spec(family, length, **sizes),
        "hidden_common_dim": 8, "fusion_hidden_dim": 6, "is_binary": False, "num_classes": 3,
        "class_weights": [1.0, 2.5, 0.5],
        "pooling": pooling,
    }


FAMILIES = [name for name in encoders.FAMILIES if name not in CONFIGS]
FAMILY_STEPS = 12  # their texts are long; parity_encoders.py compares 50
SMALL = {"width": 12, "inner": 17, "vocab": 40}
# The families beyond BERT and RoBERTa: texts go beyond windows and distances that have buckets of their own.
CONFIGS.update({
    "distilbert": family_config("distilbert", 20, "pooler", **SMALL),
    "electra": family_config("electra", 20, "pooler", act="gelu_new", **SMALL),
    "xlm-roberta": family_config("xlm-roberta", 20, "mean", act="silu", **SMALL),
    "mpnet": family_config("mpnet", 140, "pooler", act="relu", **SMALL),
    "modernbert": family_config("modernbert", 90, "mean", **{**SMALL, "layers": 4}),
    "deberta-v2": family_config("deberta-v2", 90, "cls", **SMALL),
})


def make_samples(config, count, rng):
    """Ragged samples: one shortest possible (2 tokens), one of max_sen_len; every other one has a pad token inside."""
    lengths = [2, config["max_sen_len"]] + [rng.randrange(3, config["max_sen_len"]) for _ in range(count - 2)]
    samples = []
    for i in range(count):
        sample = {"label": i % config["num_classes"]}
        for t, name in enumerate(text_names(config)):
            length = lengths[-1 - i if t == 1 else (i + t) % count]
            spec = encoder_spec(config, name)
            sample[name] = [rng.randrange(2, spec["vocab_size"]) for _ in range(length)]
            if i % 2:
                sample[name][length // 2] = spec["pad_token_id"]
        if columns.are_vectors(config):
            probes = columns.probes(far=config["numeric_embedding"] == "piecewise")
            sample["fields"] = (probes + columns.make_table(count, 11))[i]
        elif config.get("tab_field_list"):
            sample["numbers"] = [round(rng.gauss(0, 1.5), 3) for _ in config["tab_field_list"]]
        samples.append(sample)
    return samples


def cut_windows(ids, config):
    """A text as overlapping windows of max_sen_len tokens, each between the text's first and last token, which stand
    for [CLS] and [SEP]."""
    size, content, windows = config["max_sen_len"] - 2, ids[1:-1], []
    for k in range(config["windows"]):
        start = k * config["stride"]
        windows.append([ids[0], *content[start:start + size], ids[-1]])
        if start + size >= len(content):
            break
    return windows


def pack(config, name, samples):
    pad_id = encoder_spec(config, name)["pad_token_id"]
    if config.get("windows", 1) == 1:
        return pad([s[name] for s in samples], pad_id)
    windows = [cut_windows(s[name], config) for s in samples]
    return *pad([window for text in windows for window in text], pad_id), [len(text) for text in windows]


def forward_loss(model, config, samples):
    texts = {name: pack(config, name, samples) for name in model.branches}
    dtype = next(model.parameters()).dtype
    if columns.are_vectors(config):
        numbers = [s["fields"] for s in samples]
    else:
        numbers = (torch.tensor([s["numbers"] for s in samples], dtype=torch.float32).to(dtype) if model.tabular
                   else None)
    logits = model(texts, numbers)
    return logits, model.loss(logits, torch.tensor([s["label"] for s in samples]))


SAMPLED = 8  # elements of each final weight


def take_steps(model, document, steps, recipe, optimizer, factor, after=None):
    """Losses and norms of a run over the document's batches. factor: of the rates, by step; after: called after each
    step."""
    losses, norms = [], []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = group.get("rate", recipe["lr"]) * factor(step)
        optimizer.zero_grad()
        batch = document["batches"][step % len(document["batches"])]
        _, loss = forward_loss(model, document["config"], [document["samples"][i] for i in batch])
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), recipe["max_grad_norm"]).item())
        optimizer.step()
        losses.append(loss.item())
        if after:
            after()
    return losses, norms


def train(model, document, steps, recipe=RECIPE, after=None):
    optimizer = make_optimizer(model, recipe["lr"], recipe["weight_decay"], recipe["no_decay"], recipe)
    return take_steps(model, document, steps, recipe, optimizer,
                      lambda step: rate_factor(step, recipe["warmup_steps"], recipe["total_steps"]), after)


def sampled(model):
    """Every n-th element of each parameter, n = its elements / SAMPLED, rounded up."""
    flat = {key: parameter.detach().flatten() for key, parameter in model.named_parameters()}
    return {key: values[::max(1, -(-values.numel() // SAMPLED))].tolist() for key, values in flat.items()}


def write_json(folder, name, document):
    golden_json.write(os.path.join(folder, name), document)


def integers(model, layers, config, samples, noise):
    """All integers that the inputs of the products become."""
    seen = []
    for layer in layers:
        layer.noise, layer.seen = noise, seen
    with torch.no_grad():
        forward_loss(model, config, samples)
    for layer in layers:
        layer.noise, layer.seen = 0.0, None
    return seen


def has_margin(model, layers, config, samples):
    """Whether noise of 1e-6 leaves all integers as they are."""
    exact = integers(model, layers, config, samples, 0.0)
    return all(torch.equal(a, b) for _ in range(5)
               for a, b in zip(exact, integers(model, layers, config, samples, 1e-6), strict=True))


def draw_weights(model):
    """Nontrivial biases and gains; queries and keys stay small (encoders.spread)."""
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            spread = 0.02 if ".self.query." in key or ".self.key." in key else 1.0 if ".router." in key else 0.05
            if columns.are_vectors(model.config) and key.startswith(("tabular.", "fusion.")):
                spread = 0.5
            gain = encoders.is_gain(next(iter(logical(key, parameter))))
            parameter.copy_(torch.randn_like(parameter) * spread + (1.0 if gain else 0.0))
            if ".in_proj_" in key:  # queries, keys, values
                parameter[:len(parameter) // 3] *= 0.005


def make(name, folder, seed, config=None):
    """config: other than CONFIGS[name], a model of a family whose logits are its pooled hidden states."""
    direct = config is not None
    config = copy.deepcopy(config if direct else CONFIGS[name])
    torch.manual_seed(seed)
    table = columns.make_table(TABLE_ROWS, 3) if columns.are_vectors(config) else None
    preprocessing = columns.fit(config, table) if table else None
    model = Trimodal(config, preprocessing).eval()
    if direct or name in FAMILIES:
        encoders.randomize(model)
    else:
        draw_weights(model)
    if direct:
        encoders.pass_on(model)
    weights = {key: value.clone() for key, value in logical_parameters(model).items()}
    model = model.double()
    rng = random.Random(seed)
    if name == "quantized":
        layers = quantize_encoders(model)
        samples = make_samples(config, 3, rng)
        while not has_margin(model, layers, config, samples):
            samples = make_samples(config, 3, rng)
        batches, recipe = [[0, 1, 2]], {**RECIPE, "quantize": "int8"}
    else:
        samples = make_samples(config, 6, rng)
        batches, recipe = [[0, 1, 2, 3, 4, 5], [5, 1, 3], [0, 2, 4, 1]], RECIPE

    logits, loss = forward_loss(model, config, samples)
    loss.backward()
    tensors = dict(weights)
    tensors["logits"] = logits.detach().float()
    for key, gradient in logical_gradients(model).items():
        tensors["grad." + key] = gradient.float()
    dropped = model.dropped()
    steps = QUANTIZED_STEPS if name == "quantized" else FAMILY_STEPS if name in FAMILIES else STEPS
    losses, norms = train(model, {"config": config, "samples": samples, "batches": batches}, steps)

    os.makedirs(folder, exist_ok=True)
    save_file({key: value.contiguous() for key, value in tensors.items()}, os.path.join(folder, name + ".safetensors"),
              {"format": "pt"})
    document = {
        "name": name, "config": config, "recipe": recipe, "notes": NOTES, "samples": samples, "batches": batches,
        "loss": loss.item(), "losses": losses, "grad_norms": norms,
        "made_by": f"tools/golden.py --seed {seed}, torch {torch.__version__}",
    }
    if name == "experts":
        document["dropped"] = dropped
    if table:
        places = [[columns.number_of(preprocessing, column, text)
                   for column, text in zip(preprocessing["columns"], row, strict=True)]
                  for row in table + columns.probes()]
        document |= {"table": table, "probes": columns.probes(), "preprocessing": preprocessing, "places": places}
    write_json(folder, name + ".json", document)
    size = os.path.getsize(os.path.join(folder, name + ".safetensors"))
    print(f"{name}: {sum(v.numel() for v in weights.values())} parameters, loss {loss.item():.6f}, "
          f"after {len(losses)} steps {losses[-1]:.6f}, {size} bytes")


OPTIMIZERS = (  # beside RECIPE, which is AdamW's; lr and decay so large that a slip in their use shows
    {"optimizer": "adam"},
    {"optimizer": "sgd", "lr": 0.1, "momentum": 0.0},
    {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9},
    {"optimizer": "sgd", "lr": 0.05, "momentum": 0.8, "nesterov": True},
    {"optimizer": "lamb", "lr": 0.02, "adam_eps": 1e-6},
)


def reopen(folder, name):
    """The document of a golden model, and the model in double with its initial weights."""
    with open(os.path.join(folder, name + ".json"), encoding="utf-8") as file:
        document = json.load(file)
    weights = load_file(os.path.join(folder, name + ".safetensors"))
    model = Trimodal(document["config"]).eval()
    with torch.no_grad():
        for key, parameter in logical_parameters(model).items():
            parameter.copy_(weights[key])
    return document, model.double()


def make_optimizers(folder):
    """50 steps of the model `bert`, from its golden files, with each of OPTIMIZERS."""
    runs = []
    for change in OPTIMIZERS:
        recipe = {**RECIPE, **change}
        bert, model = reopen(folder, "bert")
        losses, norms = train(model, bert, STEPS, recipe)
        runs.append({"recipe": change, "losses": losses, "grad_norms": norms, "weights": sampled(model)})
        print(f"{change}: after {len(losses)} steps {losses[-1]:.6f}")
    document = {"of": "bert", "notes": "weights: every n-th element of each parameter after the last step, n = its "
                                       f"elements / {SAMPLED}, rounded up",
                "runs": runs, "made_by": f"tools/golden.py, torch {torch.__version__}"}
    write_json(folder, "optimizers.json", document)


WINDOWS = {"max_sen_len": 9, "windows": 3, "stride": 6}  # the samples have up to 20 tokens


def make_windows(folder):
    """50 steps of golden models with their texts as windows: pooled by the pooler, the mean and the first token."""
    runs = []
    for name in ("bert", "roberta", "trimodal", "shared", "texts"):
        document, model = reopen(folder, name)
        config = {**document["config"], **WINDOWS}
        losses, norms = train(model, {**document, "config": config}, STEPS)
        runs.append({"of": name, "config": WINDOWS, "losses": losses, "grad_norms": norms})
        print(f"windows of {name}: after {len(losses)} steps {losses[-1]:.6f}")
    write_json(folder, "windows.json", {"runs": runs, "made_by": f"tools/golden.py, torch {torch.__version__}"})


LOSSES = ({"label_smoothing": 0.1}, {"loss": "focal"}, {"loss": "focal", "focal_gamma": 0.5})


NUMBERS = ("squared", "absolute", "huber", "poisson", "pinball")
LEVELS = {"bert": [0.2, 0.5, 0.9], "trimodal": [0.3, 0.7]}  # as many as the models have outputs


def make_losses(folder):
    """50 steps of golden models, of two and of three classes with weights, with each of LOSSES; and with outputs that
    are numbers."""
    runs = []
    for name in ("bert", "trimodal"):
        for change in LOSSES:
            document, model = reopen(folder, name)
            model.label_smoothing = change.get("label_smoothing", 0.0)
            model.focal_gamma = change.get("focal_gamma", 2.0) if change.get("loss") == "focal" else 0.0
            losses, norms = train(model, document, STEPS)
            runs.append({"of": name, "recipe": change, "losses": losses, "grad_norms": norms})
            print(f"{name}, {change}: after {len(losses)} steps {losses[-1]:.6f}")
    for name in LEVELS:
        for loss in NUMBERS:
            document, model = reopen(folder, name)
            model.number = {"loss": loss, "delta": 0.3, "levels": LEVELS[name]}
            losses, norms = train(model, document, STEPS)
            runs.append({"of": name, "config": {"task": "quantiles", "quantiles": LEVELS[name]},
                         "recipe": {"loss": loss, "huber_delta": 0.3}, "losses": losses, "grad_norms": norms})
            print(f"{name}, {loss}: after {len(losses)} steps {losses[-1]:.6f}")
        document, model = reopen(folder, name)
        model.number = {"loss": "binary_cross_entropy"}
        losses, norms = train(model, document, STEPS)
        runs.append({"of": name, "config": {"task": "multilabel"}, "recipe": {"loss": "binary_cross_entropy"},
                     "losses": losses, "grad_norms": norms})
        print(f"{name}, several labels: after {len(losses)} steps {losses[-1]:.6f}")
    notes = ("targets of numbers: 0.75 * label - 0.5; of several labels, label k: (label + k) % 2, not known where the "
             "sum is 3")
    write_json(folder, "losses.json", {"runs": runs, "notes": notes,
                                       "made_by": f"tools/golden.py, torch {torch.__version__}"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("folder", nargs="?", default=os.path.join(here, "..", "tests", "golden"))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", choices=[*CONFIGS, "optimizers", "windows", "losses"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in CONFIGS:
        if options.only in (None, name):
            make(name, options.folder, options.seed)
    if options.only in (None, "optimizers"):
        make_optimizers(options.folder)
    if options.only in (None, "windows"):
        make_windows(options.folder)
    if options.only in (None, "losses"):
        make_losses(options.folder)


if __name__ == "__main__":
    main()
