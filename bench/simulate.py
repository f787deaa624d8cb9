"""Predicted against measured step times, on layouts and models that calibration never ran.

    python3 bench/simulate.py [BUILD] [--cases a;b | --part K/N] [--hosts [--rate R]] [--into FILE] [--rounds 2]
    python3 bench/simulate.py [BUILD] --choose N
    python3 bench/simulate.py --table FILE... [--json]

`trident calibrate` measures this machine first, and again after every third of the cases; in a slice, once. Each case
is simulated and trained in turn; the measured figure is the median of the rounds' median steps (step_ms of
metrics.jsonl, without warm-up). --into appends one JSON object a case to FILE, so that a run can be cut into slices;
--table prints all of them as Markdown, with the median and the worst error.

--hosts: the same over MPI between two network namespaces of this machine, each bound to a core of its own, joined by a
link of 1 Gbit/s and then of 100 Mbit/s (tc tbf). Needs root, ip, tc and Open MPI's mpirun.

--choose N: trains the first choice of `trident choose` on N ranks, and meshes, sharding and pipelines of the same model
(choices()), of which the fastest is compared with it.

Targets: CPU median 5 %, worst 12 %; two hosts median 8 %; first choice within 5 % of the fastest. Exit 1 where one is
missed.
"""
import argparse
import csv
import json
import os
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

from torch_step import make_vocabulary

TARGETS = {"cpu": (0.05, 0.12), "hosts": (0.08, None)}  # median, worst
CHOICE_TARGET = 0.05

# Encoders: layers, width, heads, inner width; lengths: tokens of each text, drawn evenly from a range.
MODELS = {
    "narrow": {"encoders": [(3, 128, 2, 512), (3, 128, 2, 512)], "vocabulary": 4000, "lengths": [(24, 96), (24, 96)]},
    "small": {"encoders": [(4, 256, 4, 1024), (4, 256, 4, 1024)], "vocabulary": 6000, "lengths": [(32, 64), (32, 64)]},
    "lopsided": {"encoders": [(4, 320, 10, 1280), (2, 192, 6, 768)], "vocabulary": 5000,
                 "lengths": [(96, 128), (8, 24)]},
    "wide": {"encoders": [(2, 576, 18, 2304)], "vocabulary": 3000, "lengths": [(40, 56)]},
    "long": {"encoders": [(3, 192, 6, 768)], "vocabulary": 8000, "lengths": [(192, 384)]},
}

# name: model, ranks, samples of a step in all, options. Pipelines name their shape: `auto` would depend on hardware.
CASES = {
    "one": ("small", 1, 8, "--threads 1"),
    "one, 2 threads": ("lopsided", 1, 8, "--threads 2"),
    "one, 4 microbatches": ("wide", 1, 16, "--threads 2 --num-microbatches 4"),
    "one, full recomputation": ("narrow", 1, 16, "--threads 2 --recompute full"),
    "one, long texts": ("long", 1, 4, "--threads 2"),
    "one, offload": ("wide", 1, 8, "--threads 1 --offload optimizer"),
    "ddp 2": ("small", 2, 8, ""),
    "ddp 2, 3 microbatches": ("lopsided", 2, 12, "--num-microbatches 3"),
    "zero1 2": ("wide", 2, 16, "--shard zero1"),
    "zero2 2": ("narrow", 2, 24, "--shard zero2"),
    "zero3 2": ("small", 2, 16, "--shard zero3"),
    "zero3 2, recomputation": ("lopsided", 2, 8, "--shard zero3 --recompute full"),
    "tp 2": ("wide", 2, 8, "--tp-size 2"),
    "tp 2, long texts": ("long", 2, 6, "--tp-size 2"),
    "pp 2, 1f1b": ("small", 2, 16, "--pp-size 2 --pipeline-shape chain --num-microbatches 4"),
    "pp 2, gpipe, branch": ("small", 2, 16,
                            "--pp-size 2 --schedule gpipe --pipeline-shape branch --num-microbatches 4"),
    "pp 2, zb-h1": ("lopsided", 2, 16, "--pp-size 2 --schedule zb-h1 --pipeline-shape chain --num-microbatches 4"),
    "pp 2, interleaved": ("narrow", 2, 32,
                          "--pp-size 2 --schedule interleaved --virtual-stages 2 --pipeline-shape chain "
                          "--num-microbatches 4"),
    "pp 2, zbv": ("wide", 2, 16, "--pp-size 2 --schedule zbv --pipeline-shape chain --num-microbatches 4"),
    "ddp 4": ("narrow", 4, 32, ""),
    "hybrid 4": ("small", 4, 16, "--shard hybrid --shard-size 2"),
    "pp 2 x dp 2": ("small", 4, 16, "--pp-size 2 --pipeline-shape chain --num-microbatches 4"),
    "tp 2 x zero1 2": ("wide", 4, 16, "--tp-size 2 --shard zero1"),
    "pp 2 x tp 2": ("lopsided", 4, 16, "--pp-size 2 --tp-size 2 --pipeline-shape chain --num-microbatches 4"),
}

# The same for two hosts: ranks are split evenly between them.
HOST_CASES = {
    "ddp 2": ("narrow", 2, 16, ""),
    "zero1 2": ("small", 2, 16, "--shard zero1"),
    "zero3 2": ("narrow", 2, 32, "--shard zero3"),
    "pp 2": ("small", 2, 16, "--pp-size 2 --pipeline-shape chain --num-microbatches 4"),
    "tp 2": ("narrow", 2, 16, "--tp-size 2"),
    "ddp 4": ("narrow", 4, 32, ""),
    "hybrid 4": ("narrow", 4, 32, "--shard hybrid --shard-size 2"),
    "pp 2 x dp 2": ("small", 4, 16, "--pp-size 2 --pipeline-shape chain --num-microbatches 4"),
    "dp 2 x tp 2": ("narrow", 4, 32, "--tp-size 2 --mesh-order dp,pp,tp"),
}
RATES = {"1 Gbit/s": "1gbit", "100 Mbit/s": "100mbit"}


def run(words, **environment):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                            env={**os.environ, **environment})
    if result.returncode:
        sys.exit(f"bench: {' '.join(map(str, words))}\nexited with {result.returncode}\n{result.stdout[-2000:]}"
                 f"{result.stderr[-4000:]}")
    return result.stdout


def encoder(shape, vocabulary, positions):
    layers, width, heads, inner = shape
    return {"model_type": "bert", "vocab_size": vocabulary, "hidden_size": width, "num_hidden_layers": layers,
            "num_attention_heads": heads, "intermediate_size": inner, "max_position_embeddings": positions,
            "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}


def prepare(folder, name, rows):
    """Writes a model's configuration, vocabulary and `rows` samples; returns the common words of its commands."""
    model = MODELS[name]
    home = os.path.join(folder, f"{name}-{rows}")
    if not os.path.isdir(home):
        longest = max(high for _, high in model["lengths"])
        words = make_vocabulary(os.path.join(home, "models", "made"), model["vocabulary"])
        texts = ["text", "other"][:len(model["encoders"])]
        config = {"label_name": "label", "tab_field_list": ["a", "b", "c"], "hidden_common_dim": 128,
                  "fusion_hidden_dim": 64, "is_binary": True, "num_classes": 2, "max_sen_len": longest, "lr": 1e-4}
        for which, text, shape in zip(("primary", "secondary"), texts, model["encoders"]):
            config |= {f"{which}_text_name": text, f"{which}_tokenizer": "made",
                       f"{which}_encoder": encoder(shape, model["vocabulary"], longest)}
        with open(os.path.join(home, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        os.makedirs(os.path.join(home, "data"))
        rng = random.Random(1)
        with open(os.path.join(home, "data", "train.csv"), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([*texts, "a", "b", "c", "label"])
            for row in range(rows):
                lengths = [rng.randint(low, high) - 2 for low, high in model["lengths"]]  # without [CLS] and [SEP]
                writer.writerow([*(" ".join(rng.choice(words) for _ in range(n)) for n in lengths),
                                 *(round(rng.gauss(0, 1), 4) for _ in range(3)), row % 2])
    return ["--config", os.path.join(home, "config.json"), "--data-path", os.path.join(home, "data"), "--models-dir",
            os.path.join(home, "models"), "--cache-dir", os.path.join(home, "cache")]


class Machine:
    """This machine: ranks share its memory."""
    kind, title = "cpu", "2 cores"

    def __init__(self, trident, folder):
        self.trident, self.folder, self.calibrations = trident, folder, 0
        self.hardware = os.path.join(folder, "hardware.json")

    def calibrate(self, ranks):
        run([self.trident, "calibrate", "-o", self.hardware, "--force", "--quiet"])

    def simulate(self, ranks, words):
        return json.loads(run([self.trident, "simulate", *words, "--world-size", ranks, "--nproc-per-node", ranks,
                               "--hardware", self.hardware, "--json", "--quiet"]))

    def train(self, ranks, words):
        run([self.trident, "train", *words, "--nproc-per-node", ranks])


class Hosts(Machine):
    """Two network namespaces, each on a core of its own, joined by a link of limited rate (None: of any)."""
    kind = "hosts"

    def __init__(self, trident, folder, title, rate):
        super().__init__(trident, folder)
        self.title, self.names = title, [f"tri_{end}{os.getpid()}" for end in "ab"]
        self.agent = os.path.join(folder, "agent")
        a, b = self.names
        for words in (f"netns add {a}", f"netns add {b}", f"link add v{a} netns {a} type veth peer name v{b} netns {b}",
                      *(f"-n {name} {what}" for name, address in ((a, "10.78.0.1"), (b, "10.78.0.2"))
                        for what in (f"addr add {address}/24 dev v{name}", "link set lo up", f"link set v{name} up"))):
            run(["ip", *words.split()])
        for name in self.names if rate else ():
            run(["ip", "netns", "exec", name, *f"tc qdisc add dev v{name} root tbf rate {rate} burst 70kb latency 50ms"
                 .split()])
        with open(self.agent, "w", encoding="utf-8") as file:  # what mpirun takes for ssh: enters the second host
            file.write(f"#!/bin/sh\nshift\nexec ip netns exec {b} unshare -u taskset -c 1 sh -c "
                       "'hostname trident-b; exec sh -c \"$*\"' sh \"$@\"\n")
        os.chmod(self.agent, 0o755)

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)

    def launch(self, ranks, words):
        each = ranks // 2
        return run(["ip", "netns", "exec", self.names[0], "unshare", "-u", "taskset", "-c", "0", "sh", "-c",
                    'hostname trident-a; exec "$@"', "sh", "mpirun", "--oversubscribe", "--bind-to", "none", "--mca",
                    "plm_rsh_agent", self.agent, "--mca", "btl_tcp_if_include", "10.78.0.0/24", "--mca",
                    "oob_tcp_if_include", "10.78.0.0/24", "-H", f"10.78.0.1:{each},10.78.0.2:{each}", "-np", ranks,
                    self.trident, *words], OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def calibrate(self, ranks):
        self.launch(4, ["calibrate", "-o", self.hardware, "--force", "--quiet"])

    def simulate(self, ranks, words):
        return json.loads(run([self.trident, "simulate", *words, "--world-size", ranks, "--nproc-per-node", ranks // 2,
                               "--hardware", self.hardware, "--json", "--quiet"]))

    def train(self, ranks, words):
        self.launch(ranks, ["train", *words])


def steps_of(output, warmup):
    with open(os.path.join(output, "metrics.jsonl"), encoding="utf-8") as file:
        return [event["step_ms"] for event in map(json.loads, file) if event["event"] == "train"][warmup:]


def measure(machine, name, case, options):
    """Simulates and trains a case in turn; the result is one object of --into."""
    model, ranks, batch, more = case
    steps = options.warmup + options.steps  # one epoch: so predictions are of the batches that are measured
    common = [*prepare(machine.folder, model, batch * steps), *more.split(), "--global-batch-size", batch,
              "--max-steps", steps]
    if "--threads" not in more:
        common += ["--threads", 1]
    output = os.path.join(machine.folder, "run")
    predicted, medians, spread = [], [], []
    for _ in range(options.rounds):
        shutil.rmtree(output, ignore_errors=True)
        simulated = machine.simulate(ranks, common)
        predicted.append(1e3 * simulated["forecast"]["step_seconds"])  # the mean of sampled steps
        machine.train(ranks, [*common, "--output-dir", output, "--save-every", 0, "--resume", "never", "--seed", 1,
                              "--quiet"])
        times = steps_of(output, options.warmup)
        medians.append(statistics.median(times))
        spread.append((max(times) - min(times)) / medians[-1])
    result = {"machine": machine.kind, "link": machine.title, "case": name, "model": model, "ranks": ranks,
              "batch": batch, "options": more, "predicted_ms": statistics.median(predicted),
              "measured_ms": statistics.median(medians), "rounds_ms": medians, "spread": max(spread)}
    result["error"] = result["predicted_ms"] / result["measured_ms"] - 1
    if options.runs:
        home = os.path.join(options.runs, f"{machine.title} {name}".replace("/", " per ").replace(" ", "_"))
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(output, home)
        with open(os.path.join(home, "simulated.json"), "w", encoding="utf-8") as file:
            json.dump(simulated, file)
    return result


def choices(ranks):
    """Options of layouts on so many ranks, to be measured against the first choice; the planner refuses some."""
    for tp in (1, 2, 4):
        for pp in (1, 2, 4):
            if ranks % (tp * pp):
                continue
            dp = ranks // tp // pp
            if pp == 1:
                last = ["", "--shard zero1", "--shard zero2", "--shard zero3", "--shard hybrid --shard-size 2"][:dp + 2]
                last = last if dp > 1 else [""]
            else:
                last = [f"--pp-size {pp} --num-microbatches 4 --schedule {schedule} --pipeline-shape {shape}"
                        for schedule in ("1f1b", "gpipe", "zb-h1", "zbv") for shape in ("chain", "branch")]
            yield from (f"--tp-size {tp} {more}".strip() for more in last)


def choose(machine, ranks, options):
    """Trains all layouts of choices(ranks) and the first choice of `trident choose`; whether that is fast enough."""
    batch, steps, output = 16, options.warmup + options.steps, os.path.join(machine.folder, "run")
    common = [*prepare(machine.folder, "small", batch * steps), "--max-steps", steps,
              "--global-batch-size", batch]

    def train(more):
        shutil.rmtree(output, ignore_errors=True)
        machine.train(ranks, [*common, *more, "--threads", 1, "--output-dir", output, "--save-every", 0, "--resume",
                              "never", "--seed", 1, "--quiet", "--no-report"])
        return statistics.median(steps_of(output, options.warmup))

    if options.hardware:
        machine.hardware = options.hardware
    if not os.path.exists(machine.hardware):
        machine.calibrate(ranks)
    first = json.loads(run([machine.trident, "choose", *common, "--world-size", ranks, "--nproc-per-node", ranks,
                            "--hardware", machine.hardware, "--json", "--quiet"]))["layouts"][0]
    words = shlex.split(first["command"])
    words = words[words.index("--global-batch-size") + 2:]
    measured = {}
    for more in choices(ranks):
        plan = subprocess.run([str(word) for word in (machine.trident, "plan", *common, *more.split(), "--world-size",
                                                      ranks, "--quiet")], capture_output=True, check=False)
        if plan.returncode == 0:
            measured[more] = train(more.split())
            print(f"{ranks} ranks: {measured[more]:8.1f} ms {more}", flush=True)
    own = statistics.median(train(words) for _ in range(3))
    best = min(measured, key=measured.get)
    best_ms = statistics.median(train(best.split()) for _ in range(3))  # the least of many is low by chance
    result = {"machine": "choose", "ranks": ranks, "layouts": len(measured), "choice": " ".join(words),
              "predicted_ms": 1e3 * first["step_seconds"], "choice_ms": own, "best": best, "best_ms": best_ms,
              "error": own / best_ms - 1, "measured": measured}
    print(f"{ranks} ranks: first choice {own:.1f} ms ({result['choice']}; predicted {result['predicted_ms']:.1f}), "
          f"fastest of {len(measured)} {best_ms:.1f} ms ({best}): {100 * result['error']:+.1f} %")
    keep(result, options)
    return result["error"] <= CHOICE_TARGET


def keep(result, options):
    if options.into:
        with open(options.into, "a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")


def measure_all(machine, cases, options, results):
    names = list(cases)
    often = len(names) if options.cases or options.part or options.hardware else (len(names) + 2) // 3
    if options.hardware:
        machine.hardware = options.hardware
    for i, name in enumerate(names):
        if i % often == 0 and not (options.hardware and os.path.exists(options.hardware)):
            machine.calibrate(4)
        results.append(measure(machine, name, cases[name], options))
        one = results[-1]
        print(f"{machine.title:11} {name:26} {one['model']:9} predicted {one['predicted_ms']:8.1f} ms, measured "
              f"{one['measured_ms']:8.1f} ms, {100 * one['error']:+.1f} %", flush=True)
        keep(one, options)


def pick(cases, options):
    if options.cases:
        names = [name.strip() for name in options.cases.split(";")]
        unknown = [name for name in names if name not in cases]
        if unknown:
            sys.exit(f"bench: no case {unknown[0]!r}; there are: {'; '.join(cases)}")
        return {name: cases[name] for name in names}
    if options.part:
        part, parts = map(int, options.part.split("/"))
        return {name: cases[name] for i, name in enumerate(cases) if i % parts == part - 1}
    return cases


def choice_table(rows, as_json):
    """Prints first choices against the fastest measured; returns whether all are near enough."""
    if rows and not as_json:
        print("| ranks | first choice | predicted, ms | measured, ms | layouts | fastest | measured, ms | slower by |")
        print("|---" * 8 + "|")
    for one in rows:
        print(json.dumps(one) if as_json else
              f"| {one['ranks']} | `{one['choice']}` | {one['predicted_ms']:.1f} | {one['choice_ms']:.1f} | "
              f"{one['layouts']} | `{one['best']}` | {one['best_ms']:.1f} | {100 * one['error']:+.1f} % |")
    return all(one["error"] <= CHOICE_TARGET for one in rows)


def table(results, as_json):
    """Prints all results, later ones of the same case replacing earlier; returns whether targets are met."""
    rows = {(one["machine"], one["link"], one["case"]): one for one in results if one["machine"] in TARGETS}
    reached = choice_table([one for one in results if one["machine"] == "choose"], as_json)
    for kind in sorted({one["machine"] for one in rows.values()}):
        mine = [one for one in rows.values() if one["machine"] == kind]
        errors = sorted(abs(one["error"]) for one in mine)
        median, worst, target = statistics.median(errors), errors[-1], TARGETS[kind]
        met = median <= target[0] and (target[1] is None or worst <= target[1])
        reached &= met
        if as_json:
            print(json.dumps({"machine": kind, "cases": mine, "median_error": median, "worst_error": worst,
                              "reached": met}))
            continue
        link = kind == "hosts"
        head = "| layout | model | ranks | options | predicted, ms | measured, ms | error |"
        print(f"| link {head}" if link else head)
        print("|---" * (8 if link else 7) + "|")
        for one in mine:
            print((f"| {one['link']} " if link else "") + f"| {one['case']} | {one['model']} | {one['ranks']} | "
                  f"{'`' + one['options'] + '`' if one['options'] else ''} | {one['predicted_ms']:.1f} | "
                  f"{one['measured_ms']:.1f} | {100 * one['error']:+.1f} % |")
        print(f"\n{len(mine)} cases: median error {100 * median:.1f} %, worst {100 * worst:.1f} %\n")
    return reached


def read_results(paths):
    """The objects of files that have one a line."""
    results = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            results += map(json.loads, file)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--cases", help="names of cases, separated by semicolons")
    parser.add_argument("--part", metavar="K/N", help="every Nth case, from the Kth on")
    parser.add_argument("--hosts", action="store_true", help="two hosts over MPI")
    parser.add_argument("--choose", type=int, metavar="N", help="the first choice on N ranks against measured layouts")
    parser.add_argument("--hardware", help="a file to use instead of calibrating; written where it is missing")
    parser.add_argument("--rate", choices=RATES, help="with --hosts: only this link")
    parser.add_argument("--into", help="file to append results to")
    parser.add_argument("--table", nargs="+", metavar="FILE", help="print the results of these files")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", metavar="FOLDER", help="keep the last run of each case here, and what was simulated")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=9, help="timed steps of a round")
    parser.add_argument("--warmup", type=int, default=3, help="steps before them")
    options = parser.parse_args()
    results = []
    if options.table:
        sys.exit(0 if table(read_results(options.table), options.json) else 1)
    trident = os.path.abspath(os.path.join(options.build, "trident"))
    with tempfile.TemporaryDirectory() as folder:
        if options.choose:
            sys.exit(0 if choose(Machine(trident, folder), options.choose, options) else 1)
        if not options.hosts:
            measure_all(Machine(trident, folder), pick(CASES, options), options, results)
        for title, rate in RATES.items() if options.hosts else ():
            if options.rate and title != options.rate:
                continue
            if not all(shutil.which(tool) for tool in ("ip", "tc", "mpirun")) or os.geteuid():
                print("two hosts: needs root, ip, tc and mpirun: skipped")
                return
            hosts = Hosts(trident, folder, title, rate)
            try:
                measure_all(hosts, pick(HOST_CASES, options), options, results)
            finally:
                hosts.close()
    sys.exit(0 if table(results, options.json) else 1)


if __name__ == "__main__":
    main()
