"""Trident's training step against PyTorch's, in the same run: same model, same samples, same threads.

    .venv/bin/python bench/step.py [BUILD] [--case fixed|reviews|modernbert] [--threads 2] [--rounds 3]
                                   [--precision bf16] [--against fp32]

The two alternate (A B A B ...), each in a new process, so that a slow phase of the machine affects both equally; the
figure is the ratio of the medians over the rounds. bench/README.md states the targets; exit 1 if one is missed.
"""
import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

from torch_step import HERE, SHARED, make_vocabulary, ragged_lengths, read_reviews

BATCH = {"fixed": 16, "reviews": 32, "modernbert": 16}
TARGET = {"fixed": 1.3, "reviews": 2.2, "modernbert": 2.0}
TARGET_BF16 = {"bf16": {"fixed": 2.0, "reviews": 2.0}, "fp32": {"reviews": 6.0}}  # by PyTorch's precision
CONFIG = {"modernbert": "modernbert.json"}
WARMUP = 2


def run(words, **environment):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                            env={**os.environ, **environment})
    if result.returncode:
        sys.exit(f"bench: {' '.join(map(str, words))}\nexited with {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def write_table(folder, columns, rows):
    os.makedirs(folder)
    with open(os.path.join(folder, "train.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def config_of(case):
    return os.path.join(HERE, CONFIG.get(case, "step.json"))


def prepare(case, folder, options, count):
    """Data folder of `count` samples and models folder for Trident: those that torch_step.py takes, or others of the
    same length."""
    with open(config_of(case), encoding="utf-8") as file:
        config = json.load(file)
    texts = [config[name] for name in ("primary_text_name", "secondary_text_name") if name in config]
    columns = [*texts, *config["tab_field_list"], config["label_name"]]
    data, models = os.path.join(folder, "data"), os.path.join(folder, "models")
    if case == "reviews":
        write_table(data, columns, [[row[name] for name in columns] for row in read_reviews(options.shared, count)])
        return data, os.path.join(options.shared, "tokenizers")
    words = make_vocabulary(os.path.join(models, config["primary_tokenizer"]), config["primary_encoder"]["vocab_size"])
    rng = random.Random(1)
    lengths = ragged_lengths(count, config["max_sen_len"]) if case == "modernbert" else [128] * count
    text = lambda length: " ".join(rng.choice(words) for _ in range(length - 2))  # and [CLS] and [SEP]
    write_table(data, columns, [[*(text(length) for _ in texts), *(round(rng.gauss(0, 1), 4) for _ in range(3)),
                                 rng.randrange(2)] for length in lengths])
    return data, models


def trident_step(build, case, folder, data, models, options):
    output = os.path.join(folder, "run")
    run([os.path.join(build, "trident"), "train", "--config", config_of(case), "--data-path", data,
         "--models-dir", models, "--output-dir", output, "--batch-size", BATCH[case], "--epochs", 1, "--save-every", 0,
         "--resume", "never", "--threads", options.threads, "--seed", 1, "--quiet", "--precision", options.precision])
    with open(os.path.join(output, "metrics.jsonl"), encoding="utf-8") as file:
        events = [event for event in map(json.loads, file) if event["event"] == "train"]
    times = [event["step_ms"] for event in events[WARMUP:]]
    subprocess.run(["rm", "-rf", output], check=True)
    return {"step_ms": statistics.median(times), "samples_per_second": 1000 * BATCH[case] * len(times) / sum(times)}


def torch_step(case, options):
    """The faster of eager and compiled, where that takes seconds: modernbert, and bf16."""
    words = [sys.executable, os.path.join(HERE, "torch_step.py"), case, "--threads", options.threads, "--steps",
             options.steps, "--warmup", WARMUP, "--shared", options.shared]
    bf16 = (options.against or options.precision) == "bf16"
    words += ["--bf16"] if bf16 else []
    ways = [[], ["--compile"]] if (case == "modernbert" or bf16) and not options.eager else [[]]
    made = [json.loads(run(words + way, OMP_NUM_THREADS=str(options.threads))) for way in ways]
    return max(made, key=lambda result: result["samples_per_second"])


def compare(case, options):
    if case == "reviews" and not os.path.isdir(os.path.join(options.shared, "data", "reviews")):
        print("reviews: ../shared/data/reviews is not here: skipped")
        return True
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        data, models = prepare(case, folder, options, (WARMUP + options.steps) * BATCH[case])
        for turn in range(options.rounds):
            ours.append(trident_step(options.build, case, folder, data, models, options))
            theirs.append(torch_step(case, options))
            print(f"  {case} round {turn + 1}: trident {ours[-1]['step_ms']:.0f} ms, "
                  f"PyTorch {theirs[-1]['step_ms']:.0f} ms a step", flush=True)
    # Equal batches: the median step represents all. Ragged batches differ in length: all steps count.
    rate = (lambda r: 1000 * BATCH[case] / r["step_ms"]) if case == "fixed" else (lambda r: r["samples_per_second"])
    mine, yours = statistics.median(map(rate, ours)), statistics.median(map(rate, theirs))
    target = TARGET_BF16[options.against or "bf16"].get(case) if options.precision == "bf16" else TARGET[case]
    reached = target is None or mine / yours >= target
    print(json.dumps({"case": case, "threads": options.threads, "rounds": options.rounds,
                      "trident_samples_per_second": round(mine, 3),
                      "pytorch_samples_per_second": round(yours, 3), "ratio": round(mine / yours, 3),
                      "precision": options.precision, "target": target,
                      "reached": reached, "pytorch": theirs[0]["engine"]}), flush=True)
    return reached


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--case", choices=tuple(BATCH), action="append")
    parser.add_argument("--eager", action="store_true", help="not through torch.compile")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="both engines'")
    parser.add_argument("--against", choices=("fp32", "bf16"), help="PyTorch's, if another")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6, help="timed steps of a round")
    parser.add_argument("--shared", default=SHARED, help="folder with data/reviews and tokenizers")
    options = parser.parse_args()
    results = [compare(case, options) for case in options.case or BATCH]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
