"""Compares Trident with PyTorch and Hugging Face, live: `make parity`.

    .venv/bin/python tools/parity.py [BUILD]

1. Writes new golden files, with seeds of the day, and runs BUILD/tests/test_golden on them: logits, gradients, 50
   losses; one model through PyTorch's fake-quantise.
2. Trains a small model on the reviews for some steps (if ../shared/data/reviews exists), loads the checkpoint's
   weights into the PyTorch model, tokenises and standardises the test file here, and compares each row's probabilities
   with `trident predict` and the scores with `trident eval`.
3. Exports that checkpoint: AutoModel and AutoTokenizer open both encoders and give the same hidden states and ids, the
   file is byte-identical to the reference writer's, and weights that transformers saved are read back unchanged.
4. Encoders of every family, in models of odd sizes and in folders that transformers saved (parity_encoders.py).
5. Quantised folders against a numpy model of the same integers (parity_quantized.py).
6. Logs, opened by TensorBoard (parity_logs.py).
7. The server, asked by huggingface_hub and tritonclient (parity_clients.py).
Before them, tokenizers: every id of parity_tokenizer.py's texts, and the random folders of parity_folders.py; and
hostile safetensors files: the verdicts of parity_safetensors.py.
"""
import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import BertWordPieceTokenizer
from transformers import AutoModel, AutoTokenizer

import golden
import golden_layers
import parity_encoders
import parity_folders
import parity_logs
import parity_quantized
import parity_safetensors
import parity_tokenizer
from model import Trimodal, pad

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
SHARED = os.path.join(ROOT, "..", "shared")
PROBABILITY_BOUND = 1e-5
ROWS = 400  # of the test file


def run(*words):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"parity: {' '.join(map(str, words))}\nexited with {result.returncode}\n"
                 f"{result.stdout}{result.stderr}")
    return result.stdout


def compare_golden(build, folder, seeds):
    for seed in seeds:
        for name in golden.CONFIGS:
            golden.make(name, folder, seed)
        golden.make_optimizers(folder)
        golden_layers.make(folder)
        report = run(os.path.join(build, "tests", "test_golden"), folder)
        print("\n".join(line for line in report.splitlines() if line.startswith("  ")))


def encoder_spec(config, name):
    """The architecture as config.json of the checkpoint records it."""
    spec = dict(config[f"{name}_encoder"])
    spec.setdefault("model_type", "bert")
    return spec


def standardise(rows, preprocessing):
    """Missing numbers get the training file's fill value; then (x - mean) / deviation, in double, rounded to fp32."""
    columns = preprocessing["columns"]
    table = np.zeros((len(rows), len(columns)))
    for j, column in enumerate(columns):
        for i, row in enumerate(rows):
            text = row[column["name"]].strip()
            value = float(text) if text else float("nan")
            value = column["fill"] if np.isnan(value) else value
            table[i, j] = (value - column["mean"]) / column["deviation"]
    return torch.tensor(table, dtype=torch.float32)


def load_model(checkpoint):
    with open(os.path.join(checkpoint, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    for name in ("primary", "secondary"):
        config[f"{name}_encoder"] = encoder_spec(config, name)
    model = Trimodal(config).eval()
    model.load_state_dict(load_file(os.path.join(checkpoint, "weights-00000.safetensors")))
    return model, config


def torch_probabilities(checkpoint, rows, shared):
    with open(os.path.join(checkpoint, "preprocessing.json"), encoding="utf-8") as file:
        preprocessing = json.load(file)
    model, config = load_model(checkpoint)
    vocabulary = os.path.join(shared, "tokenizers", "bert-base-cased", "vocab.txt")
    tokenizer = BertWordPieceTokenizer(vocabulary, lowercase=False)
    tokenizer.enable_truncation(config["max_sen_len"])
    numbers = standardise(rows, preprocessing)
    parts = []
    with torch.no_grad():
        for at in range(0, len(rows), 64):
            part = rows[at:at + 64]
            texts = {name: pad([tokenizer.encode(row[config[f"{name}_text_name"]]).ids for row in part], 0)
                     for name in model.branches}
            parts.append(model(texts, numbers[at:at + 64]).softmax(-1))
    return torch.cat(parts).double().numpy()


def compare_reviews(build, folder, shared, config, steps):
    data = os.path.join(shared, "data", "reviews")
    if not os.path.isdir(data):
        print("reviews: ../shared/data/reviews is not here: skipped")
        return
    trident = os.path.join(build, "trident")
    output = os.path.join(folder, "run")
    run(trident, "train", "--config", config, "--data-path", data, "--models-dir", os.path.join(shared, "tokenizers"),
        "--output-dir", output, "--max-steps", steps, "--epochs", 1, "--quiet")
    checkpoint = os.path.join(output, f"checkpoint-{steps}")
    with open(os.path.join(data, "test.csv"), newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        names, rows = reader.fieldnames, list(reader)[:ROWS]
    sample = os.path.join(folder, "sample.csv")
    with open(sample, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    expected = torch_probabilities(checkpoint, rows, shared)
    lines = list(csv.DictReader(run(trident, "predict", "--checkpoint", checkpoint, "--data-path", sample,
                                    "--quiet").splitlines()))
    got = np.array([[float(line["prob_0"]), float(line["prob_1"])] for line in lines])
    worst = np.abs(got - expected).max()
    scores = json.loads(run(trident, "eval", "--checkpoint", checkpoint, "--data-path", sample, "--json", "--quiet"))
    labels = np.array([int(row["Recommended IND"]) for row in rows])
    accuracy = float((expected.argmax(1) == labels).mean())
    log_loss = float(-np.log(expected[np.arange(len(labels)), labels]).mean())
    print(f"reviews: {len(rows)} rows after {steps} steps: probabilities differ by {worst:.1e} at most; accuracy "
          f"{scores['accuracy']:.4f} here {accuracy:.4f}; log loss {scores['log_loss']:.6f} here {log_loss:.6f}")
    if got.shape != expected.shape or worst > PROBABILITY_BOUND or abs(scores["log_loss"] - log_loss) > 1e-5:
        sys.exit("parity: predict or eval disagrees with PyTorch")
    compare_export(trident, folder, checkpoint, rows)


def compare_export(trident, folder, checkpoint, rows):
    exported = os.path.join(folder, "export")
    run(trident, "export", "--checkpoint", checkpoint, "--output-dir", exported)
    whole = os.path.join(exported, "model.safetensors")
    again = os.path.join(folder, "again.safetensors")
    save_file(load_file(whole), again, metadata={"format": "pt"})
    with open(whole, "rb") as one, open(again, "rb") as other:
        if one.read() != other.read():
            sys.exit("parity: model.safetensors is not what the reference writer writes")
    model, config = load_model(checkpoint)
    worst = 0.0
    for name in model.branches:
        encoder = AutoModel.from_pretrained(os.path.join(exported, name)).eval()
        tokenizer = AutoTokenizer.from_pretrained(os.path.join(exported, name))
        texts = [row[config[f"{name}_text_name"]] for row in rows[:64]]
        batch = tokenizer(texts, padding=True, truncation=True, max_length=config["max_sen_len"], return_tensors="pt")
        with torch.no_grad():
            got = encoder(**batch).last_hidden_state
            want = getattr(model, name)(input_ids=batch["input_ids"],
                                        attention_mask=batch["attention_mask"]).last_hidden_state
        worst = max(worst, float((got - want).abs()[batch["attention_mask"].bool()].max()))
        lines = "\n".join(text.replace("\n", " ") for text in texts) + "\n"
        ids = subprocess.run([trident, "tokenize", "--tokenizer", os.path.join(exported, name)], input=lines,
                             capture_output=True,
                             text=True, check=True).stdout.splitlines()
        for line, text in zip(ids, texts, strict=True):
            if [int(word) for word in line.split()] != tokenizer(text.replace("\n", " "))["input_ids"]:
                sys.exit(f"parity: {name}: ids differ for {text!r}")
        saved = os.path.join(folder, f"saved-{name}")
        encoder.save_pretrained(saved)
        before = load_file(os.path.join(exported, name, "model.safetensors"))
        after = load_file(os.path.join(saved, "model.safetensors"))
        if any(not torch.equal(before[key], after[key]) for key in before):
            sys.exit(f"parity: {name}: transformers saves other weights than it opened")
    print(f"export: hidden states of transformers' encoders differ by {worst:.1e} at most; files and ids are the same")
    if worst > PROBABILITY_BOUND:
        sys.exit("parity: an exported encoder gives other hidden states")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--shared", default=SHARED)
    parser.add_argument("--config", default=os.path.join(ROOT, "configs", "reviews.json"))
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    torch.set_num_threads(1)
    today = int(time.time()) % 100000
    with tempfile.TemporaryDirectory() as folder:
        parity_tokenizer.compare(build, folder)
        parity_folders.compare(build, os.path.join(folder, "folders"), today, 1000)
        parity_safetensors.compare(build, folder, today, 5000)
        compare_golden(build, os.path.join(folder, "golden"), (today, today + 1))
        compare_reviews(build, folder, options.shared, options.config, options.steps)
        parity_encoders.compare(build, os.path.join(folder, "encoders"), today)
        parity_quantized.compare(build, folder, options.shared)
        parity_logs.compare(build)
        online = {key: os.environ[key] for key in os.environ if key != "HF_HUB_OFFLINE"}  # it refuses 127.0.0.1
        subprocess.run([sys.executable, f"{ROOT}/tools/parity_clients.py", build], env=online, check=True)
    print("parity: everything agrees")


if __name__ == "__main__":
    main()
