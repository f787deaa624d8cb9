"""Final validation loss with less communication, against AdamW's with all of it.

    python3 bench/converge.py [BUILD] --into FILE [--data reviews;demo] [--variants a;b] [--seeds 1,2,3] [--budget S]
    python3 bench/converge.py --table FILE... [--json]

Trains a small model on two replicas for each data set, variant and seed: one epoch of the reviews of
../shared/data/reviews, and the data set of `trident demo` as long as the demo does. FILE keeps one JSON object a run,
and runs that it has are not repeated; with --budget none begins after so many seconds. So the whole can be run in
slices.

Target: the mean of the seeds' final validation losses within 1 % of AdamW's. Exit 1 where one is missed.
"""
import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time

from compress import chosen
from simulate import encoder, read_results, run

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.join(HERE, "..", "..", "shared")
TARGET = 0.01

VARIANTS = {
    "adamw": "",
    "bf16": "--compress-gradients bf16",
    "int8": "--compress-gradients int8",
    "fp8": "--compress-gradients fp8",
    "int4, error feedback": "--compress-gradients int4 --error-feedback",
    "zero3, weights int8": "--shard zero3 --compress-gradients int8 --compress-weights int8",
    "onebit-adam": "--optimizer onebit-adam",
    "sync 8": "--sync-every 8",
    "sync 32, int8": "--sync-every 32 --compress-gradients int8",
    "lamb": "--optimizer lamb",
}
LAMB_RATE = 10  # times AdamW's: LAMB's steps are a share of each tensor's norm


def reviews(folder, trident):
    """One layer of 64, texts of at most 32 pieces, one epoch: a run takes seconds."""
    del trident
    small = encoder((1, 64, 4, 256), 28996, 32) | {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.3}
    with open(os.path.join(HERE, "..", "configs", "reviews.json"), encoding="utf-8") as file:
        config = json.load(file)
    config |= {"primary_encoder": small, "secondary_encoder": small, "max_sen_len": 32, "lr": 1e-3, "epochs": 1,
               "global_batch_size": 64}
    del config["batch_size"], config["_comments"]
    path = os.path.join(folder, "reviews.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    return ["--config", path, "--data-path", os.path.join(SHARED, "data", "reviews"), "--models-dir",
            os.path.join(SHARED, "tokenizers")], config["lr"]


def demo(folder, trident):
    """The model of `trident demo` that sees all inputs."""
    home = os.path.join(folder, "demo")
    if not os.path.exists(os.path.join(home, "all.json")):
        run([trident, "demo", "--output-dir", home, "--quiet", "--threads", 1])
    with open(os.path.join(home, "all.json"), encoding="utf-8") as file:
        rate = json.load(file)["lr"]
    return ["--config", os.path.join(home, "all.json"), "--data-path", os.path.join(home, "data")], rate


DATA = {"reviews": reviews, "demo": demo}


def train(trident, folder, data, name, seed):
    words, rate = DATA[data](folder, trident)
    if "lamb" in name:
        words += ["--lr", LAMB_RATE * rate]
    output = os.path.join(folder, "run")
    shutil.rmtree(output, ignore_errors=True)
    begun = time.time()
    run([trident, "train", *words, *VARIANTS[name].split(), "--nproc-per-node", 2, "--threads", 1, "--seed", seed,
         "--save-every", 0, "--resume", "never", "--output-dir", output, "--cache-dir", os.path.join(folder, "cache"),
         "--quiet", "--no-report"])
    with open(os.path.join(output, "metrics.jsonl"), encoding="utf-8") as file:
        last = [event for event in map(json.loads, file) if event["event"] == "epoch"][-1]
    return {"data": data, "variant": name, "options": VARIANTS[name], "seed": seed, "steps": last["step"],
            "loss": last["valid_loss"], "pr_auc": last["pr_auc"], "seconds": time.time() - begun}


def table(results, as_json):
    """Prints the means over seeds; returns whether all are near AdamW's."""
    runs = {(one["data"], one["variant"], one["seed"]): one for one in results}
    rows = []
    for data in DATA:
        for name in VARIANTS:
            mine = [one for (where, what, _), one in sorted(runs.items()) if where == data and what == name]
            beside = [runs[data, "adamw", one["seed"]] for one in mine if (data, "adamw", one["seed"]) in runs]
            if mine and len(beside) == len(mine):
                loss, base = (statistics.mean(one["loss"] for one in some) for some in (mine, beside))
                rows.append({"data": data, "variant": name, "losses": [one["loss"] for one in mine], "loss": loss,
                             "against_adamw": loss / base - 1, "pr_auc": statistics.mean(one["pr_auc"] for one in mine),
                             "steps": mine[0]["steps"]})
    if as_json:
        print(json.dumps(rows))
    else:
        print("| data | variant | losses of the seeds | mean | against AdamW | PR AUC |\n" + "|---" * 6 + "|")
        for row in rows:
            print(f"| {row['data']} | {row['variant']} | {', '.join(f'{loss:.4f}' for loss in row['losses'])} | "
                  f"{row['loss']:.4f} | {100 * row['against_adamw']:+.2f} % | {row['pr_auc']:.4f} |")
    return all(row["against_adamw"] <= TARGET for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--into", help="file of results, read and appended to")
    parser.add_argument("--data", help="names, separated by semicolons; left out: all")
    parser.add_argument("--variants", help="names, separated by semicolons; left out: all")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which no run begins")
    parser.add_argument("--folder", help="where data and runs are kept between slices; left out: a temporary folder")
    parser.add_argument("--table", nargs="+", metavar="FILE", help="print the results of these files")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.table:
        sys.exit(0 if table(read_results(options.table), options.json) else 1)
    if not options.into:
        parser.error("--into names the file of results")
    trident = os.path.abspath(os.path.join(options.build, "trident"))
    begun = time.time()
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or made
        os.makedirs(folder, exist_ok=True)
        for seed in map(int, options.seeds.split(",")):
            for data in chosen(options.data, DATA, "data set"):
                for name in chosen(options.variants, VARIANTS, "variant"):
                    kept = read_results([options.into]) if os.path.exists(options.into) else []
                    if any((one["data"], one["variant"], one["seed"]) == (data, name, seed) for one in kept):
                        continue
                    if time.time() - begun > options.budget:
                        return
                    one = train(trident, folder, data, name, seed)
                    print(f"{data:8} {name:22} seed {seed}: {one['loss']:.4f}, {one['seconds']:.0f} s",
                          file=sys.stderr, flush=True)
                    with open(options.into, "a", encoding="utf-8") as file:
                        file.write(json.dumps(one) + "\n")
    table(read_results([options.into]), options.json)


if __name__ == "__main__":
    main()
