#!/usr/bin/env python3
"""Compares a quantised model folder with a numpy model of the same integers.

    .venv/bin/python tools/parity_quantized.py [BUILD] [--shared FOLDER]

`make parity` runs it. Trains a small model on the reviews, with and without --quantize int8, makes a folder of each
with `trident quantize`, and then, with the folder's own tensors:
1. Every product: rows of activations through each int8 weight; integers, scales and results are numpy's, bit by bit
   (test_products_golden).
2. The whole model, in fp32 around those integer products: probabilities are those of `trident predict`. Rounding to
   integers jumps, so rows are told apart: where noise like that of fp32 changes no integer, probabilities agree to
   1e-6; elsewhere a step of an integer may differ.
3. A run of --quantize int8 loses nothing: its figures before and after are the same.
"""
import argparse
import csv
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.torch import load_file
from tokenizers import BertWordPieceTokenizer

import golden_quantized
from golden_quantized import FP32, quantize

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
EQUAL, NEAR, NOISE = 1e-6, 0.02, 1e-6
ROWS = 120
ERF = np.vectorize(math.erf)


def run(*words):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"parity: {' '.join(map(str, words))}\nexited with {result.returncode}\n"
                 f"{result.stdout}{result.stderr}")
    return result.stdout


class Folder:
    """The model of a quantised folder, one row at a time. noise: on the inputs of products, relative to each token's
    largest element; seen: their integers."""

    def __init__(self, path):
        with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        with open(os.path.join(path, "preprocessing.json"), encoding="utf-8") as file:
            self.preprocessing = json.load(file)
        self.tensor = {name: (value if str(value.dtype) == "torch.int8" else value.float()).numpy()
                       for name, value in load_file(os.path.join(path, "model.safetensors")).items()}
        self.noise, self.seen, self.rng = 0.0, [], np.random.default_rng(1)

    def table(self, name, rows):
        values = self.tensor[name][rows]
        return values * self.tensor[name + ".scale"][rows, None] if values.dtype == np.int8 else values

    def linear(self, name, x):
        weight, bias = self.tensor[name + ".weight"], self.tensor[name + ".bias"]
        if weight.dtype != np.int8:
            return x @ weight.T + bias
        if self.noise:
            x = (x + self.noise * np.abs(x).max(-1, keepdims=True) * self.rng.uniform(-1, 1, x.shape)).astype(FP32)
        q, s = quantize(x)
        self.seen.append(q)
        return golden_quantized.product(q, s, weight, self.tensor[name + ".weight.scale"], bias)

    def norm(self, name, x, eps):
        x = x.astype(np.float64)
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
        return (y * self.tensor[name + ".weight"] + self.tensor[name + ".bias"]).astype(FP32)

    def attention(self, layer, x, heads):
        q, k, v = (self.linear(f"{layer}.attention.self.{part}", x).reshape(len(x), heads, -1).transpose(1, 0, 2)
                   .astype(np.float64) for part in ("query", "key", "value"))
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        context = (scores / scores.sum(-1, keepdims=True)) @ v
        return context.transpose(1, 0, 2).reshape(x.shape).astype(FP32)

    def encode(self, branch, ids):
        spec = self.config[f"{branch}_encoder"]
        eps, at = spec.get("layer_norm_eps", 1e-12), f"{branch}.embeddings"
        x = (self.table(f"{at}.word_embeddings.weight", np.array(ids)) +
             self.table(f"{at}.position_embeddings.weight", np.arange(len(ids))) +
             self.table(f"{at}.token_type_embeddings.weight", np.zeros(len(ids), int)))
        x = self.norm(f"{at}.LayerNorm", x, eps)
        for i in range(spec["num_hidden_layers"]):
            layer = f"{branch}.encoder.layer.{i}"
            mixed = self.linear(f"{layer}.attention.output.dense",
                                self.attention(layer, x, spec["num_attention_heads"]))
            x = self.norm(f"{layer}.attention.output.LayerNorm", mixed + x, eps)
            h = self.linear(f"{layer}.intermediate.dense", x).astype(np.float64)
            h = (h * 0.5 * (1 + ERF(h / math.sqrt(2)))).astype(FP32)
            x = self.norm(f"{layer}.output.LayerNorm", self.linear(f"{layer}.output.dense", h) + x, eps)
        pooling = self.config["pooling"]
        pooled = x.mean(0, keepdims=True) if pooling == "mean" else x[:1]
        if pooling == "pooler":
            pooled = np.tanh(self.linear(f"{branch}.pooler.dense", pooled))
        return self.linear(f"{branch}.projection", pooled)

    def numbers(self, row):
        values = []
        for column in self.preprocessing["columns"]:
            text = row[column["name"]].strip()
            values.append(((float(text) if text else column["fill"]) - column["mean"]) / column["deviation"])
        return np.array([values]).astype(FP32)

    def probabilities(self, row, ids):
        self.seen = []
        parts = [self.encode(branch, ids[branch]) for branch in ids]
        table = self.norm("tabular.norm", self.numbers(row), 1e-5)
        parts.append(np.maximum(self.linear("tabular.linear", table), 0))
        hidden = np.maximum(self.linear("fusion.dense", np.concatenate(parts, -1)), 0)
        logits = self.linear("fusion.output", hidden)[0].astype(np.float64)
        logits = np.exp(logits - logits.max())
        return logits / logits.sum()


def small_config(folder):
    """The reviews' configuration with encoders so small that many rows have no activation near a rounding boundary."""
    with open(os.path.join(ROOT, "configs", "reviews.json"), encoding="utf-8") as file:
        config = json.load(file)
    spec = {"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
            "intermediate_size": 64, "max_position_embeddings": 64, "layer_norm_eps": 1e-12}
    config.update(primary_encoder=spec, secondary_encoder=spec, max_sen_len=7, lr=2e-3, warmup_steps=5)
    path = os.path.join(folder, "quantized.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    return path


def write_sample(source, rows, path):
    with open(source, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        names, kept = reader.fieldnames, [row for _, row in zip(range(rows), reader)]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(kept)
    return kept


def compare_products(build, folder, model):
    """Activations with rows of various sizes through every int8 weight of the model."""
    rng, cases = np.random.default_rng(3), []
    for name, w in sorted(model.tensor.items()):
        if w.dtype != np.int8 or "embeddings" in name:
            continue
        weight = w * model.tensor[name + ".scale"][:, None]
        x = (rng.standard_normal((19, w.shape[1])) * np.exp(rng.uniform(-6, 6, (19, 1)))).astype(FP32)
        again, scale = quantize(weight)
        if not np.array_equal(again, w) or not np.array_equal(scale, model.tensor[name + ".scale"]):
            sys.exit(f"parity: {name}: quantising its weights again gives others")
        cases.append((x, weight, model.tensor[name.removesuffix("weight") + "bias"]))
    path = os.path.join(folder, "products.safetensors")
    golden_quantized.write(path, cases)
    run(os.path.join(build, "tests", "test_products_golden"), path)
    return len(cases)


def compare_rows(trident, folder, model, rows, sample, vocabulary):
    tokenizer = BertWordPieceTokenizer(vocabulary, lowercase=False)
    tokenizer.enable_truncation(model.config["max_sen_len"])
    lines = list(csv.DictReader(run(trident, "predict", "--checkpoint", folder, "--data-path", sample,
                                    "--quiet").splitlines()))
    worst = {True: 0.0, False: 0.0}
    count = {True: 0, False: 0}
    for row, line in zip(rows, lines, strict=True):
        ids = {branch: tokenizer.encode(row[model.config[f"{branch}_text_name"]]).ids
               for branch in ("primary", "secondary")}
        model.noise = 0.0
        want = model.probabilities(row, ids)
        integers, firm = model.seen, True
        for _ in range(4):
            model.noise = NOISE
            model.probabilities(row, ids)
            firm = firm and all(np.array_equal(a, b) for a, b in zip(integers, model.seen, strict=True))
        got = np.array([float(line["prob_0"]), float(line["prob_1"])])
        worst[firm] = max(worst[firm], float(np.abs(got - want).max()))
        count[firm] += 1
    print(f"  {count[True]} rows with firm integers differ by {worst[True]:.1e} at most, {count[False]} others by "
          f"{worst[False]:.1e}")
    if count[True] < 5 or worst[True] > EQUAL or worst[False] > NEAR:
        sys.exit("parity: a quantised folder and its numpy model disagree")


def compare(build, folder, shared):
    data = os.path.join(shared, "data", "reviews")
    if not os.path.isdir(data):
        print("quantised: ../shared/data/reviews is not here: skipped")
        return
    trident, config = os.path.join(build, "trident"), small_config(folder)
    sample = os.path.join(folder, "quantized.csv")
    rows = write_sample(os.path.join(data, "test.csv"), ROWS, sample)
    for kind, options in (("float", ()), ("trained", ("--quantize", "int8"))):
        output, made = os.path.join(folder, f"run-{kind}"), os.path.join(folder, f"int8-{kind}")
        run(trident, "train", "--config", config, "--data-path", data, "--models-dir",
            os.path.join(shared, "tokenizers"), "--output-dir", output, "--max-steps", 40, "--epochs", 1, "--quiet",
            *options)
        facts = json.loads(run(trident, "quantize", output, "-o", made, "--data-path", sample, "--max-drop", 0.05,
                               "--json", "--quiet"))
        model = Folder(made)
        products = compare_products(build, folder, model)
        print(f"quantised, {kind}: {products} products are numpy's bit by bit; log loss "
              f"{facts['before']['log_loss']:.6f} before, {facts['after']['log_loss']:.6f} after; "
              f"{facts['bytes'] / facts['fp32_bytes']:.3f} of the bytes")
        if kind == "trained" and facts["before"] != facts["after"]:
            sys.exit("parity: the folder of a run of --quantize int8 has other figures than the run")
        compare_rows(trident, made, model, rows, sample,
                     os.path.join(shared, "tokenizers", "bert-base-cased", "vocab.txt"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--shared", default=os.path.join(ROOT, "..", "shared"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compare(os.path.abspath(options.build), folder, options.shared)


if __name__ == "__main__":
    main()
