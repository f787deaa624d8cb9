"""Steps a second with less communication, between two machines and on one.

    python3 bench/compress.py [BUILD] [--variants a;b] [--links a;b] [--into FILE]
    python3 bench/compress.py --table FILE... [--json]

Two hosts are network namespaces of this machine, each bound to a core of its own, with one rank of one thread; the link
between them is limited in both directions by tc tbf. The model has 44.6 million parameters, and each rank one text of
16 tokens a step, so that on a slow link the reduction is the step. Needs root, ip, tc and Open MPI's mpirun.

Links: `any` (not limited), 1 Gbit/s, 100 Mbit/s, and `memory` (two ranks of one machine, over shared memory; also with
16 texts a step and rank). Over `any` two runs of different length give the bytes that a step sends, as the network
device of the first host counts them.

step, ms:   median of the timed steps; of variants whose steps are of several kinds the mean of whole periods
computing:  the part of the step outside of transfers and waits
bound:      the variant's computing over `any` + sent bytes / link. Ratio: bound / step. `one`: the same with the step
            of a single rank, which codes and sends nothing, as computing

Targets: 100 Mbit/s: onebit-adam 8 times the steps of `full`, int8 3 times, sync 32 12 times; both links: ratio 0.85;
sent bytes: onebit-adam 1/26, int8 0.27 of full's; memory: step within 1.1 of full's. Exit 1 where one is missed.
"""
import argparse
import csv
import json
import os
import random
import shutil
import statistics
import sys
import tempfile

from simulate import Hosts, Machine, encoder, read_results, run
from torch_step import make_vocabulary

LAYERS, WIDTH, HEADS, INNER, VOCABULARY, TOKENS = 9, 512, 8, 2048, 30522, 16

# name: options, steps before the timed ones, steps of a period
VARIANTS = {
    "full": ("", 2, 1),
    "bf16": ("--compress-gradients bf16", 2, 1),
    "int8": ("--compress-gradients int8", 2, 1),
    "fp8": ("--compress-gradients fp8", 2, 1),
    "int4": ("--compress-gradients int4 --error-feedback", 2, 1),
    "onebit-adam": ("--optimizer onebit-adam --full-steps 1", 3, 1),
    "onebit-lamb": ("--optimizer onebit-lamb --full-steps 1", 3, 1),
    "zero-one-adam": ("--optimizer zero-one-adam --var-freeze-step 2 --var-update-scaler 1 --local-step-scaler 2 "
                      "--local-step-clipper 4", 8, 4),
    "sync 32": ("--sync-every 32", 32, 32),
    "sync 32, int8": ("--sync-every 32 --compress-gradients int8", 32, 32),
}
# name: rate of tc, bytes a second, texts of a step and rank
LINKS = {"any": (None, 0, 1), "1 Gbit/s": ("1gbit", 1.25e8, 1), "100 Mbit/s": ("100mbit", 1.25e7, 1),
         "memory": (None, 0, 1), "memory, 16 texts": (None, 0, 16)}
SPEED_UPS = {"onebit-adam": 8, "int8": 3, "sync 32": 12}  # at 100 Mbit/s
BYTES = {"onebit-adam": 1 / 26, "int8": 0.27}
RATIO, MEMORY_COST = 0.85, 1.1


def prepare(folder):
    """Writes configuration, vocabulary and samples; returns the common words of all commands."""
    words = make_vocabulary(os.path.join(folder, "models", "made"), VOCABULARY)
    config = {"label_name": "label", "primary_text_name": "text", "primary_tokenizer": "made",
              "tab_field_list": ["a", "b", "c"], "hidden_common_dim": 128, "fusion_hidden_dim": 64, "is_binary": True,
              "num_classes": 2, "max_sen_len": 2 * TOKENS, "lr": 1e-4,
              "primary_encoder": encoder((LAYERS, WIDTH, HEADS, INNER), VOCABULARY, 512)}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    os.makedirs(os.path.join(folder, "data"))
    rng = random.Random(1)
    with open(os.path.join(folder, "data", "train.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "a", "b", "c", "label"])
        for row in range(1024):
            writer.writerow([" ".join(rng.choice(words) for _ in range(TOKENS - 2)),  # without [CLS] and [SEP]
                             *(round(rng.gauss(0, 1), 4) for _ in range(3)), row % 2])
    return ["--config", os.path.join(folder, "config.json"), "--data-path", os.path.join(folder, "data"),
            "--models-dir", os.path.join(folder, "models"), "--cache-dir", os.path.join(folder, "cache")]


def sent(hosts):
    """Bytes that the first host has sent so far."""
    name = hosts.names[0]
    return json.loads(run(["ip", "-n", name, "-s", "-j", "link", "show", "dev", f"v{name}"]))[0]["stats64"]["tx"][
        "bytes"]


def train(machine, ranks, common, more, steps):
    """Trains for so many steps; returns their times, and their times outside of transfers, in ms."""
    output = os.path.join(machine.folder, "run")
    shutil.rmtree(output, ignore_errors=True)
    machine.train(ranks, [*common, *more.split(), "--threads", 1, "--max-steps", steps, "--output-dir", output,
                          "--save-every", 0, "--resume", "never", "--seed", 1, "--quiet", "--no-report"])
    with open(os.path.join(output, "metrics.jsonl"), encoding="utf-8") as file:
        events = [event for event in map(json.loads, file) if event["event"] == "train"]
    return ([event["step_ms"] for event in events],
            [event["step_ms"] * (1 - event["comm_share"] - event["idle_share"] - event["loader_share"])
             for event in events])


def middle(times, warm, period):
    return statistics.median(times[warm:]) if period == 1 else statistics.mean(times[warm:])


def planned(trident, common, more):
    """Bytes that a rank sends in a step, by the plan."""
    plan = json.loads(run([trident, "plan", *common, *more.split(), "--world-size", 2, "--json", "--quiet"]))
    return sum(plan["ranks"][0]["sent_bytes"].values())


def measure(trident, folder, common, link, name):
    more, warm, period = VARIANTS[name]
    rate, bytes_a_second, texts = LINKS[link]
    common, hosts = [*common, "--batch-size", texts], not link.startswith("memory")
    timed = 32 if period > 1 else 3 if link == "100 Mbit/s" and not more else 7
    result = {"link": link, "variant": name, "options": more, "link_bytes": bytes_a_second}
    machine = Hosts(trident, folder, link, rate) if hosts else Machine(trident, folder)
    try:
        if link == "any":
            result["one_ms"] = middle(train(Machine(trident, folder), 1, common, "", 9)[0], 2, 1)
            result["planned_bytes"] = planned(trident, common, more)
            before = sent(machine)
            train(machine, 2, common, more, warm)
            between = sent(machine)
        steps, computing = train(machine, 2, common, more, warm + timed)
        if link == "any":
            result["sent_bytes"] = (sent(machine) - between - (between - before)) / timed
    finally:
        if hosts:
            machine.close()
    result |= {"step_ms": middle(steps, warm, period), "computing_ms": middle(computing, warm, period),
               "steps_ms": steps}
    return result


def complete(rows):
    """Adds to each limited link's row what follows from `any` and from full's."""
    for (link, name), row in rows.items():
        free, full, own = rows.get(("any", name)), rows.get((link, "full")), row["step_ms"]
        if full:
            row["speed_up"] = full["step_ms"] / own
        if free and ("any", "full") in rows:
            row["sent_bytes"] = free["sent_bytes"]
            row["sent_share"] = free["sent_bytes"] / rows["any", "full"]["sent_bytes"]
        if free and row["link_bytes"]:
            travel = 1e3 * free["sent_bytes"] / row["link_bytes"]
            row["bound_ms"] = free["computing_ms"] + travel
            row["ratio"] = row["bound_ms"] / own
            row["ratio_one"] = (free["one_ms"] + travel) / own


def misses(rows):
    """What misses its target, in words."""
    for (link, name), row in rows.items():
        if link == "100 Mbit/s" and row.get("speed_up", 99) < SPEED_UPS.get(name, 0):
            yield f"{link}, {name}: {row['speed_up']:.1f} times full, not {SPEED_UPS[name]}"
        if row.get("ratio", 1) < RATIO:
            yield f"{link}, {name}: {row['ratio']:.2f} of the bound, not {RATIO}"
        if link == "any" and row.get("sent_share", 0) > BYTES.get(name, 9):
            yield f"{name}: {row['sent_share']:.4f} of full's bytes, not {BYTES[name]:.4f}"
        if link.startswith("memory") and row.get("speed_up", 1) < 1 / MEMORY_COST:
            yield f"{link}, {name}: {1 / row['speed_up']:.2f} of full's step, not {MEMORY_COST}"


def table(results, as_json):
    """Prints all results, later ones of the same case replacing earlier; returns whether targets are met."""
    rows = {(one["link"], one["variant"]): one for one in results}
    complete(rows)
    missed = list(misses(rows))
    if as_json:
        print(json.dumps({"rows": [row for row in rows.values()], "missed": missed}))
        return not missed
    print("| link | variant | step, ms | steps/s | times full | sent, MB a step | of full | computing, ms | "
          "bound, ms | of the bound | `one` |")
    print("|---" * 11 + "|")

    def cell(row, key, form, scale=1.0):
        return format(row[key] * scale, form) if key in row else ""
    for link in LINKS:
        for name in VARIANTS:
            row = rows.get((link, name))
            if row:
                print(f"| {link} | {name} | {row['step_ms']:.1f} | {1e3 / row['step_ms']:.3f} | "
                      f"{cell(row, 'speed_up', '.2f')} | {cell(row, 'sent_bytes', '.2f', 1e-6)} | "
                      f"{cell(row, 'sent_share', '.4f')} | {row['computing_ms']:.1f} | {cell(row, 'bound_ms', '.1f')} "
                      f"| {cell(row, 'ratio', '.3f')} | {cell(row, 'ratio_one', '.3f')} |")
    print()
    for words in missed:
        print(f"missed: {words}")
    return not missed


def chosen(text, known, what):
    names = [name.strip() for name in text.split(";")] if text else list(known)
    for name in names:
        if name not in known:
            sys.exit(f"bench: no {what} {name!r}; there are: {'; '.join(known)}")
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--variants", help="names, separated by semicolons; left out: all")
    parser.add_argument("--links", help="names, separated by semicolons; left out: all")
    parser.add_argument("--into", help="file to append results to")
    parser.add_argument("--table", nargs="+", metavar="FILE", help="print the results of these files")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = []
    if options.table:
        sys.exit(0 if table(read_results(options.table), options.json) else 1)
    if not all(shutil.which(tool) for tool in ("ip", "tc", "mpirun")) or os.geteuid():
        sys.exit("bench: two hosts need root, ip, tc and mpirun")
    trident = os.path.abspath(os.path.join(options.build, "trident"))
    with tempfile.TemporaryDirectory() as folder:
        common = prepare(folder)
        for link in chosen(options.links, LINKS, "link"):
            for name in chosen(options.variants, VARIANTS, "variant"):
                results.append(measure(trident, folder, common, link, name))
                print(f"{link:10} {name:14} {results[-1]['step_ms']:9.1f} ms a step", file=sys.stderr, flush=True)
                if options.into:
                    with open(options.into, "a", encoding="utf-8") as file:
                        file.write(json.dumps(results[-1]) + "\n")
    sys.exit(0 if table(results, options.json) else 1)


if __name__ == "__main__":
    main()
