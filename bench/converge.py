"""Final validation loss with less communication, against AdamW's with all of it.

    python3 bench/converge.py [BUILD] --into FILE [--data reviews;demo] [--variants a;b] [--seeds 1,2,3] [--budget S]
                              [--at-once N]
    python3 bench/converge.py --table FILE... [--json]

Trains a small model on two replicas for each data set, variant and seed: one epoch of the reviews of
../shared/data/reviews, and the data set of `trident demo` as long as the demo does; and in more than 5,000 steps, which
1-bit optimizers need: two epochs of the reviews in small batches, and ten times the rows of the demo. FILE keeps one
JSON object a run, and runs that it has are not repeated; with --budget none begins after so many seconds. So the whole
can be run in slices. N runs at once take 2 N cores.

Target: the mean of the seeds' final validation losses within 1 % of AdamW's. Exit 1 where one is missed. A variant's
seeds are compared with the same seeds of AdamW; the table has the standard error of the mean difference.
"""
import argparse
import concurrent.futures
import json
import math
import os
import queue
import shutil
import statistics
import subprocess
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
    "zero-one-adam": "--optimizer zero-one-adam",
    "onebit-lamb": "--optimizer onebit-lamb",
    "sync 8": "--sync-every 8",
    "sync 32, int8": "--sync-every 32 --compress-gradients int8",
    "lamb": "--optimizer lamb",
    "layers left out": "--layer-drop theta=0.5714",  # of 6 layers, three quarters are kept
}
LAMB_RATE = 10  # times AdamW's: LAMB's steps are a share of each tensor's norm
LONG = ("onebit-adam", "onebit-lamb")  # their variance is not stable in less than 1,250 steps
DEEP = ("adamw", "layers left out")
BESIDE = ("adamw", "int8", "zero-one-adam", "sync 8", "sync 32, int8", "lamb")  # trained beside them


def reviews(folder, trident, batch=64, epochs=1, rate=1e-3, layers=1):
    """One layer of 64, texts of at most 32 pieces, one epoch: a run takes seconds."""
    del trident
    small = encoder((layers, 64, 4, 256), 28996, 32) | {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.3}
    with open(os.path.join(HERE, "..", "configs", "reviews.json"), encoding="utf-8") as file:
        config = json.load(file)
    config |= {"primary_encoder": small, "secondary_encoder": small, "max_sen_len": 32, "lr": rate, "epochs": epochs,
               "global_batch_size": batch}
    del config["batch_size"], config["_comments"]
    path = os.path.join(folder, f"reviews-{batch}-{layers}.json")
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
    return ["--config", path, "--data-path", os.path.join(SHARED, "data", "reviews"), "--models-dir",
            os.path.join(SHARED, "tokenizers")], rate


def long_reviews(folder, trident):
    """6,272 steps in two epochs."""
    return reviews(folder, trident, batch=6, epochs=2, rate=3e-4)


def deep_reviews(folder, trident):
    """Six layers, of which steps may leave some out."""
    return reviews(folder, trident, layers=6)


def make_demo(trident, home, seed):
    """Data, vocabulary and configurations of `trident demo`; its training is cut short."""
    words = [trident, "demo", "--output-dir", home, "--seed", str(seed), "--quiet", "--threads", "1"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not os.path.isdir(os.path.join(home, "all")) and process.poll() is None:
        time.sleep(0.05)
    process.terminate()
    process.wait()
    if not os.path.exists(os.path.join(home, "all.json")):
        sys.exit(f"bench: trident demo --output-dir {home} wrote no all.json")


def demo(folder, trident):
    """The model of `trident demo` that sees all inputs."""
    home = os.path.join(folder, "demo")
    if not os.path.exists(os.path.join(home, "all.json")):
        make_demo(trident, home, 42)
    with open(os.path.join(home, "all.json"), encoding="utf-8") as file:
        rate = json.load(file)["lr"]
    return ["--config", os.path.join(home, "all.json"), "--data-path", os.path.join(home, "data")], rate


def long_demo(folder, trident):
    """Ten times as many rows to train on, in batches of half the size: 5,625 steps in three epochs."""
    words, rate = demo(folder, trident)
    home = os.path.join(folder, "long")
    if not os.path.isdir(home):
        made = os.path.join(folder, "making")
        shutil.copytree(os.path.join(folder, "demo", "data"), made)
        with open(os.path.join(made, "train.csv"), "a", encoding="utf-8") as train_rows:
            for seed in range(101, 110):
                more = os.path.join(folder, f"demo-{seed}")
                make_demo(trident, more, seed)
                with open(os.path.join(more, "data", "train.csv"), encoding="utf-8") as file:
                    train_rows.writelines(file.readlines()[1:])
                shutil.rmtree(more)
        os.rename(made, home)
    return [*words[:2], "--data-path", home, "--global-batch-size", 16, "--epochs", 3], rate


DATA = {"reviews": reviews, "demo": demo, "reviews, long": long_reviews, "demo, long": long_demo,
        "reviews, deep": deep_reviews}


def is_asked(data, name):
    """Whether a variant is trained on this data where nothing is said."""
    if "deep" in data:
        return name in DEEP
    return name in LONG + BESIDE if "long" in data else name not in LONG + DEEP[1:]


def train(trident, folder, data, name, seed, cores=None):
    """One run; on its own two cores, where several run at once."""
    words, rate = DATA[data](folder, trident)
    if "lamb" in name:
        words += ["--lr", LAMB_RATE * rate]
    own = os.path.join(folder, f"run{cores or ''}")
    output = os.path.join(own, "out")
    shutil.rmtree(output, ignore_errors=True)
    begun = time.time()
    run([*(["taskset", "-c", cores] if cores else []), trident, "train", *words, *VARIANTS[name].split(),
         "--nproc-per-node", 2, "--threads", 1, "--seed", seed, "--save-every", 0, "--resume", "never", "--output-dir",
         output, "--cache-dir", os.path.join(own, "cache"), "--quiet", "--no-report"])
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
                apart = [one["loss"] - other["loss"] for one, other in zip(mine, beside)]
                error = statistics.stdev(apart) / math.sqrt(len(apart)) / base if len(apart) > 1 else math.nan
                rows.append({"data": data, "variant": name, "losses": [one["loss"] for one in mine], "loss": loss,
                             "against_adamw": loss / base - 1, "standard_error": error,
                             "pr_auc": statistics.mean(one["pr_auc"] for one in mine), "steps": mine[0]["steps"]})
    if as_json:
        print(json.dumps(rows))
    else:
        print("| data | variant | losses of the seeds | mean | against AdamW, standard error | PR AUC |\n"
              + "|---" * 6 + "|")
        for row in rows:
            print(f"| {row['data']} | {row['variant']} | {', '.join(f'{loss:.4f}' for loss in row['losses'])} | "
                  f"{row['loss']:.4f} | {100 * row['against_adamw']:+.2f} ± "
                  f"{100 * row['standard_error']:.2f} % | {row['pr_auc']:.4f} |")
    return all(row["against_adamw"] <= TARGET for row in rows)


def jobs_of(options):
    """(data, variant, seed) of the runs that the file of results does not have yet."""
    kept = read_results([options.into]) if os.path.exists(options.into) else []
    done = {(one["data"], one["variant"], one["seed"]) for one in kept}
    jobs = [(data, name, seed) for seed in map(int, options.seeds.split(","))
            for data in chosen(options.data, DATA, "data set") for name in chosen(options.variants, VARIANTS, "variant")
            if options.variants or is_asked(data, name)]
    return [job for job in jobs if job not in done]


def train_all(options, trident, folder):
    """The jobs in their order, so many at once, each on a pair of cores of its own."""
    begun = time.time()
    cores = sorted(os.sched_getaffinity(0))
    if 2 * options.at_once > len(cores) and options.at_once > 1:
        sys.exit(f"bench: {options.at_once} runs at once take {2 * options.at_once} cores; there are {len(cores)}")
    free = queue.Queue()
    for i in range(options.at_once):
        free.put(f"{cores[2 * i]},{cores[2 * i + 1]}" if options.at_once > 1 else None)

    def one(job):
        pair = free.get()
        try:
            if time.time() - begun > options.budget:
                return
            result = train(trident, folder, *job, pair)
            print(f"{job[0]:13} {job[1]:22} seed {job[2]}: {result['loss']:.4f}, {result['seconds']:.0f} s",
                  file=sys.stderr, flush=True)
            with open(options.into, "a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
        finally:
            free.put(pair)

    jobs = jobs_of(options)
    for data in {data for data, _, _ in jobs}:  # files that runs share are written before
        DATA[data](folder, trident)
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as workers:
        for _ in workers.map(one, jobs):
            pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--into", help="file of results, read and appended to")
    parser.add_argument("--data", help="names, separated by semicolons; left out: all")
    parser.add_argument("--variants", help="names, separated by semicolons; left out: all")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which no run begins")
    parser.add_argument("--at-once", type=int, default=1, help="runs at a time, each on two cores")
    parser.add_argument("--folder", help="where data and runs are kept between slices; left out: a temporary folder")
    parser.add_argument("--table", nargs="+", metavar="FILE", help="print the results of these files")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.table:
        sys.exit(0 if table(read_results(options.table), options.json) else 1)
    if not options.into:
        parser.error("--into names the file of results")
    trident = os.path.abspath(os.path.join(options.build, "trident"))
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or made
        os.makedirs(folder, exist_ok=True)
        train_all(options, trident, folder)
    table(read_results([options.into]), options.json)


if __name__ == "__main__":
    main()
