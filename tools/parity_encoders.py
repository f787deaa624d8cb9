#!/usr/bin/env python3
"""Compares encoders of every family with transformers, by small random models of odd sizes.

    .venv/bin/python tools/parity_encoders.py [BUILD] [--seed N] [--only FAMILY]... | [--folder MODEL]

`make parity` runs it. --folder: point 2 for the folder of a real model, on reviews.
1. Models whose logits are their pooled hidden states, through BUILD/tests/test_golden on both CPU devices: hidden
   states and gradients within 1e-5, the losses of 50 steps within 1e-4.
2. Folders that transformers saved, in fp32, bf16 and fp16, in one file and in shards, of the base model and of one
   with a head: `trident train` reads every tensor exactly, `predict` gives the probabilities of the same model in
   PyTorch, and what `export` writes is opened by AutoModel without a missing or unexpected tensor, with the same
   weights, the same tokens and the same hidden states.
"""
import argparse
import csv
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer, logging

import encoders
import golden
from model import Trimodal, logical, logical_parameters, pad

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BOUND = 1e-5
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu")
# Sizes of models, beside encoders.spec's; texts of the second have more tokens than a block of attention.
SIZES = (
    {"width": 24, "heads": 3, "layers": 5, "inner": 37, "vocab": 131, "length": 40, "pooling": "mean"},
    {"width": 40, "heads": 5, "layers": 2, "inner": 51, "vocab": 67, "length": 150, "pooling": "pooler"},
    {"width": 16, "heads": 1, "layers": 1, "inner": 16, "vocab": 31, "length": 7, "pooling": "cls"},
    {"width": 32, "heads": 4, "layers": 3, "inner": 64, "vocab": 99, "length": 70, "pooling": "mean"},
    {"width": 12, "heads": 3, "layers": 3, "inner": 96, "vocab": 64, "length": 33, "pooling": "pooler"},
)
# What else a family's configuration may say: the keys of one of its models each.
VARIANTS = {
    "electra": ({"embedding_size": 24}, {"embedding_size": 7}, {}, {"type_vocab_size": 1}),
    "mpnet": ({"relative_attention_num_buckets": 40}, {}, {"relative_attention_num_buckets": 32}),
    "modernbert": ({"local_attention": 6}, {"local_attention": 64}, {}, {"global_attn_every_n_layers": 3}),
    "deberta-v2": ({"position_buckets": 6}, {"max_relative_positions": -1, "position_buckets": 32}, {},
                   {"position_buckets": 16, "pos_att_type": ["c2p", "p2c"]}),
}


def run(*words):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"parity: {' '.join(map(str, words))}\nexited with {result.returncode}\n"
                 f"{result.stdout[-3000:]}{result.stderr[-3000:]}")
    return result.stdout


def cases(family):
    """(name, keys of encoders.spec, pooling) of a family's models."""
    variants = VARIANTS.get(family, ({},))
    for i, size in enumerate(SIZES):
        keys = {key: value for key, value in size.items() if key != "pooling"}
        keys.update(act=ACTIVATIONS[i % len(ACTIVATIONS)], **variants[i % len(variants)])
        yield f"{family}-{i}", keys, size["pooling"]


def compare_numbers(build, folder, family, seed):
    names = []
    for name, keys, pooling in cases(family):
        keys = dict(keys)
        width, length = keys["width"], keys.pop("length")
        config = {**golden.family_config(family, length, pooling, **keys), "hidden_common_dim": width,
                  "fusion_hidden_dim": width, "num_classes": width, "class_weights": [1.0] * width}
        golden.make(name, folder, seed, config)
        names.append(name)
    report = run(os.path.join(build, "tests", "test_golden"), folder, *names)
    figures = {}
    for what in ("logits", "gradients", "losses"):
        found = [float(word) for word in re.findall(what + r" differ by at most (\S+)", report)]
        if len(found) != 2 * len(names):
            sys.exit(f"parity: {len(found)} comparisons of {what}, not {2 * len(names)}\n{report}")
        figures[what] = max(found)
    print(f"{family}: hidden states differ by at most {figures['logits']:.1e}, gradients by "
          f"{figures['gradients']:.1e} of their norm, losses of 50 steps by {figures['losses']:.1e}", flush=True)
    if figures["logits"] > BOUND or figures["gradients"] > BOUND:
        sys.exit(f"parity: {family} differs from transformers\n{report}")


def same_weights(what, model, tensors, prefix):
    """The tensors hold each of the model's parameters, to the bit."""
    for name, want in logical_parameters(model).items():
        got = tensors.get(prefix + name)
        if got is None or got.shape != want.shape or not torch.equal(got, want):
            sys.exit(f"parity: {what}: {prefix + name} is {'absent' if got is None else 'another'}")


def hidden_states(model, rows):
    ids, mask = pad(rows, model.config.pad_token_id)
    with torch.no_grad():
        states = model(input_ids=ids, attention_mask=mask).last_hidden_state
    return torch.cat([states[i, :len(row)] for i, row in enumerate(rows)])


def expected_probabilities(checkpoint, encoder, settings, rows):
    """From the encoder as transformers opened it, and the checkpoint's other weights."""
    model = Trimodal({**settings, "primary_encoder": encoder.config.to_dict()}).float().eval()
    weights = load_file(os.path.join(checkpoint, "weights-00000.safetensors"))
    own = {f"primary.{name}": value for name, value in logical_parameters(encoder).items()}
    with torch.no_grad():
        for name, parameter in logical_parameters(model).items():
            parameter.copy_(own[name] if name in own else weights[name])
        return model({"primary": pad(rows, encoder.config.pad_token_id)}).softmax(-1)


def tokenize(folder, texts, length):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return [tokenizer(text, truncation=True, max_length=length)["input_ids"] for text in texts]


def check_export(folder, encoder, texts, rows, length):
    """An exported encoder, opened by transformers: how far hidden states differ."""
    opened, said = AutoModel.from_pretrained(folder, output_loading_info=True)
    wrong = {key: value for key, value in said.items()
             if value and not (key == "missing_keys" and all("pooler" in name for name in value))}
    if wrong:
        sys.exit(f"parity: {folder}: {wrong}")
    opened.eval()
    same_weights(folder, encoder, {name: part for key, value in opened.state_dict().items()
                                   for name, part in logical(key, value).items()}, "")
    if tokenize(folder, texts, length) != rows:
        sys.exit(f"parity: {folder}: AutoTokenizer gives other ids than in the folder that was read")
    return float((hidden_states(opened, rows) - hidden_states(encoder, rows)).abs().max())


def check_folder(build, here, encoder, texts, length, pooling, output):
    """A folder, and what transformers reads from it: trained for a step at a rate of 0, asked, and exported. How far
    probabilities and hidden states differ."""
    os.makedirs(output)
    for name in ("train", "valid"):
        with open(os.path.join(output, name + ".csv"), "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["text", "label"], *([text, i % 3] for i, text in enumerate(texts))])
    settings = {"label_name": "label", "primary_text_name": "text", "primary_tokenizer": here, "pooling": pooling,
                "hidden_common_dim": 8, "fusion_hidden_dim": 6, "fusion_dropout": 0.0, "is_binary": False,
                "num_classes": 3, "max_sen_len": length, "warmup_steps": 5}
    config = os.path.join(output, "config.json")
    with open(config, "w", encoding="utf-8") as file:
        json.dump(settings, file)
    trident, checkpoint = os.path.join(build, "trident"), os.path.join(output, "run", "checkpoint-1")
    run(trident, "train", "--config", config, "--data-path", output, "--output-dir", os.path.join(output, "run"),
        "--max-steps", 1, "--batch-size", len(texts), "--epochs", 1, "--quiet")
    if pooling != "pooler":
        encoder.pooler = None
    same_weights(here, encoder, load_file(os.path.join(checkpoint, "weights-00000.safetensors")), "primary.")
    rows = tokenize(here, texts, length)
    want = expected_probabilities(checkpoint, encoder, settings, rows)
    lines = csv.DictReader(run(trident, "predict", "--checkpoint", checkpoint, "--data-path",
                               os.path.join(output, "valid.csv"), "--quiet").splitlines())
    got = torch.tensor([[float(line[f"prob_{k}"]) for k in range(3)] for line in lines])
    exported = os.path.join(output, "export")
    run(trident, "export", "--checkpoint", checkpoint, "--output-dir", exported, "--quiet")
    hidden = check_export(os.path.join(exported, "primary"), encoder, texts, rows, length)
    probabilities = float((got - want).abs().max())
    if probabilities > BOUND or hidden > 1e-6:
        sys.exit(f"parity: {here}: probabilities differ by {probabilities:.1e}, exported hidden states by {hidden:.1e}")
    return probabilities, hidden


def saved_folder(family, number, seed, here):
    """One model saved by transformers: (the encoder as it is in the folder, texts, length, pooling)."""
    _, keys, pooling = list(cases(family))[number]
    keys = dict(keys)
    length = keys.pop("length")
    dtype, head = (torch.float32, torch.bfloat16, torch.float16)[number % 3], number % 2 == 1
    torch.manual_seed(seed + number)
    kind = AutoModelForSequenceClassification if head else AutoModel
    model = kind.from_config(AutoConfig.for_model(**encoders.spec(family, length, **keys)))
    encoders.randomize(model)
    encoders.save_folder(model, here, dtype, "20KB" if number % 2 == 0 else "5GB")
    rng, words = random.Random(seed + number), encoders.words(keys["vocab"])[6:]
    lengths = [length - 2] + [rng.randrange(0, length + 3) for _ in range(11)]
    texts = [" ".join(rng.choice(words) for _ in range(count)) for count in lengths]
    encoder = kind.from_pretrained(here, dtype=torch.float32).eval()  # frequencies of rotations are never rounded
    return (encoder.base_model if head else encoder), texts, length, pooling


def compare_folders(build, folder, family, seed):
    figures = []
    for number in range(len(SIZES)):
        here = os.path.join(folder, f"folder-{family}-{number}")
        figures.append(check_folder(build, here, *saved_folder(family, number, seed, here), here + "-run"))
    worst = [max(column) for column in zip(*figures)]
    print(f"{family}: {len(SIZES)} folders of transformers read and exported; probabilities differ by at most "
          f"{worst[0]:.1e}, hidden states of the exports by {worst[1]:.1e}", flush=True)


def compare_real(build, folder, here, shared):
    """The folder of a real model, on reviews."""
    with open(os.path.join(shared, "data", "reviews", "test.csv"), newline="", encoding="utf-8") as file:
        texts = [row["Review Text"] for row in csv.DictReader(file)][:64]
    for pooling in ("mean", "cls"):
        encoder = AutoModel.from_pretrained(here, dtype=torch.float32).eval()
        figures = check_folder(build, here, encoder, texts, 128, pooling, os.path.join(folder, pooling))
        print(f"{here}: pooling {pooling}: probabilities of {len(texts)} reviews differ by at most {figures[0]:.1e}, "
              f"hidden states of the export by {figures[1]:.1e}", flush=True)


def compare(build, folder, seed, families=tuple(encoders.FAMILIES)):
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    os.makedirs(folder, exist_ok=True)
    for family in families:
        compare_numbers(build, folder, family, seed)
        compare_folders(build, folder, family, seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=list(encoders.FAMILIES))
    parser.add_argument("--folder")
    parser.add_argument("--shared", default=os.path.join(ROOT, "..", "shared"))
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        if options.folder:
            compare_real(build, folder, os.path.abspath(options.folder), options.shared)
        else:
            compare(build, folder, options.seed, options.only or tuple(encoders.FAMILIES))


if __name__ == "__main__":
    main()
