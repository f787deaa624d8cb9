"""Pipelines: what ranks wait against what the simulator makes of the measured times; encoders side by side against stages in a row; zb-h1 against 1f1b.

    python3 bench/pipeline.py [BUILD] [--rounds 3] [--steps 8] [--batch 32] [--layers 6] [--width 384]

Two encoders alike over texts of 128 tokens, made here with their vocabulary. A rank has one thread and a core of its own; cases that need more
cores than there are are left out, which is said. All take turns, so that a slow stretch of the machine falls on all; the figures are of medians
over the rounds. bench/README.md states the targets; exit 1 when one is missed.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

WARMUP, TOKENS, WORDS, HEADS = 2, 128, 500, 8

# name: stages, microbatches, options
LAYOUTS = {
    "pp2 chain 1f1b": (2, 4, ["--pipeline-shape", "chain"]),
    "pp2 branch 1f1b": (2, 4, ["--pipeline-shape", "branch"]),
    "pp4 chain 1f1b, 4 microbatches": (4, 4, ["--pipeline-shape", "chain"]),
    "pp4 branch 1f1b, 4 microbatches": (4, 4, ["--pipeline-shape", "branch"]),
    "pp4 chain 1f1b": (4, 8, ["--pipeline-shape", "chain"]),
    "pp4 chain zb-h1": (4, 8, ["--pipeline-shape", "chain", "--schedule", "zb-h1"]),
}
BUBBLE, SMALL = 0.15, 0.02  # the measured bubble may differ by this share of the predicted one, or of the step where that is small
RATIOS = [("pp4 branch 1f1b, 4 microbatches", "pp4 chain 1f1b, 4 microbatches", 1.25), ("pp4 chain zb-h1", "pp4 chain 1f1b", 1.1)]


def prepare(folder, options):
    """A table whose texts have TOKENS tokens each, a vocabulary, and a configuration."""
    words, rows = [f"w{i}" for i in range(WORDS)], options.batch * (WARMUP + options.steps)
    make = random.Random(1)
    text = lambda: " ".join(make.choice(words) for _ in range(TOKENS - 2))
    os.makedirs(os.path.join(folder, "vocab"))
    with open(os.path.join(folder, "vocab", "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n")
    with open(os.path.join(folder, "train.csv"), "w", encoding="utf-8") as file:
        file.write("label,first,second,number,other\n")
        for row in range(rows):
            file.write(f"{row % 2},{text()},{text()},{make.random():.4f},{row % 7}\n")
    encoder = {"model_type": "bert", "hidden_size": options.width, "num_hidden_layers": options.layers, "num_attention_heads": HEADS,
               "intermediate_size": 4 * options.width, "max_position_embeddings": TOKENS}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"label_name": "label", "primary_text_name": "first", "secondary_text_name": "second", "tab_field_list": ["number", "other"],
                   "primary_tokenizer": os.path.join(folder, "vocab"), "primary_encoder": encoder, "secondary_encoder": encoder,
                   "max_sen_len": TOKENS, "lr": 1e-4}, file)


def measure(name, folder, options):
    """Milliseconds of a step, and the bubbles of the run's summary."""
    stages, microbatches, words = LAYOUTS[name]
    output = os.path.join(folder, "run")
    command = [os.path.join(options.build, "trident"), "train", "--config", os.path.join(folder, "config.json"), "--data-path",
               os.path.join(folder, "train.csv"), "--output-dir", output, "--batch-size", options.batch, "--num-microbatches", microbatches,
               "--nproc-per-node", stages, "--pp-size", stages, "--threads", 1, "--bind-cores", "core", "--max-steps", WARMUP + options.steps,
               "--save-every", 0, "--resume", "never", "--seed", 1, "--quiet", *words]
    end = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if end.returncode:
        sys.exit(f"bench: {name}: trident exited with {end.returncode}\n{end.stderr}")
    with open(os.path.join(output, "metrics.jsonl"), encoding="utf-8") as file:
        times = [event["step_ms"] for event in map(json.loads, file) if event["event"] == "train"][WARMUP:]
    with open(os.path.join(output, "summary.json"), encoding="utf-8") as file:
        pipeline = json.load(file)["pipeline"]
    shutil.rmtree(output)
    return {"step_ms": statistics.median(times), "bubble": pipeline["bubble"], "predicted": pipeline["predicted_bubble"]}


def judge(results):
    """One line a figure; the number of targets that were missed."""
    missed = 0
    for name, rounds in results.items():
        found, wanted = (statistics.median(r[key] for r in rounds) for key in ("bubble", "predicted"))
        good = abs(found - wanted) <= max(BUBBLE * wanted, SMALL)
        missed += not good
        print(json.dumps({"case": name, "step_ms": round(statistics.median(r["step_ms"] for r in rounds), 2), "bubble": round(found, 4),
                          "predicted_bubble": round(wanted, 4), "within": BUBBLE, "met": good}))
    for fast, slow, target in RATIOS:
        if fast not in results:
            continue
        ratio = statistics.median(r["step_ms"] for r in results[slow]) / statistics.median(r["step_ms"] for r in results[fast])
        missed += ratio < target
        print(json.dumps({"case": f"{fast} against {slow}", "speedup": round(ratio, 3), "target": target, "met": ratio >= target}))
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build", nargs="?", default="build")
    for name, value in (("rounds", 3), ("steps", 8), ("batch", 32), ("layers", 6), ("width", 384)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    names = [name for name, (stages, _, _) in LAYOUTS.items() if stages <= cores]
    if len(names) < len(LAYOUTS):
        print(f"left out, with {cores} cores: {', '.join(name for name in LAYOUTS if name not in names)}", file=sys.stderr)
    folder = tempfile.mkdtemp()
    try:
        prepare(folder, options)
        results = {name: [] for name in names}
        for _ in range(options.rounds):
            for name in names:
                results[name].append(measure(name, folder, options))
        sys.exit(1 if judge(results) else 0)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
