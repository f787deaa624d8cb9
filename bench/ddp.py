"""Data parallelism in the same run: DDP against one rank and against PyTorch's over gloo, ZeRO-3 and recomputation
against DDP.

    .venv/bin/python bench/ddp.py [BUILD] [--rounds 5] [--steps 6] [--batch 8] [--ranks 2] [--threads 1] [--scaling]

Ranks have the same number of samples of 128 tokens each (bench/step.json's model). They run alternately, each in a new
process, so that a slow phase of the machine affects all equally; the figures are ratios of medians over the rounds.
--scaling: DDP alone, of both engines, with 1, 2, 4, ... ranks up to --ranks. bench/README.md states the targets; exit 1
if one is missed.
"""
import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile

from step import WARMUP, prepare, run
from torch_step import HERE, SHARED

LAYOUTS = {"one": [], "ddp": ["--shard", "none"], "zero3": ["--shard", "zero3"],
           "recompute": ["--shard", "none", "--recompute", "full"]}


def trident(layout, ranks, folder, data, models, options):
    """Samples a second of all ranks, and the bytes of activations of one."""
    output = os.path.join(folder, "run")
    run([os.path.join(options.build, "trident"), "train", "--config", os.path.join(HERE, "step.json"), "--data-path",
         data, "--models-dir", models,
         "--output-dir", output, "--batch-size", options.batch, "--max-steps", WARMUP + options.steps, "--save-every",
         0, "--resume", "never", "--threads", options.threads, "--nproc-per-node", ranks, "--bind-cores", "core",
         "--seed", 1, "--quiet", *layout])
    with open(os.path.join(output, "metrics.jsonl"), encoding="utf-8") as file:
        times = [event["step_ms"] for event in map(json.loads, file) if event["event"] == "train"][WARMUP:]
    with open(os.path.join(output, "summary.json"), encoding="utf-8") as file:
        activations = json.load(file)["ranks"][0]["bytes"]["act"]
    shutil.rmtree(output)
    return {"rate": 1000 * ranks * options.batch / statistics.median(times), "activations": activations}


def torch_ddp(count, options):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    cores = sorted(os.sched_getaffinity(0))
    words = [sys.executable, os.path.join(HERE, "torch_step.py"), "fixed", "--threads", str(options.threads),
             "--steps", str(options.steps), "--warmup", str(WARMUP),
             "--batch", str(options.batch), "--shared", options.shared]
    ranks = []
    for rank in range(count):
        environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "RANK": str(rank),
                       "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        own = cores[rank * options.threads:(rank + 1) * options.threads]
        bound = ["taskset", "-c", ",".join(map(str, own))] if count * options.threads <= len(cores) else []
        ranks.append(subprocess.Popen(bound + words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True))
    ends = [(rank.communicate(), rank.returncode) for rank in ranks]
    for (out, err), code in ends:
        if code:
            sys.exit(f"bench: a rank of PyTorch exited with {code}\n{out}{err}")
    result = json.loads(ends[0][0][0])
    return {"rate": 1000 * count * options.batch / result["step_ms"], "engine": result["engine"]}


def runs_of(options):
    """Name: what to run. All layouts, or DDP with more and more ranks."""
    bind = lambda layout, ranks: lambda *rest: trident(layout, ranks, *rest, options)
    torch = lambda ranks: lambda *_: torch_ddp(ranks, options)
    if not options.scaling:
        runs = {name: bind(layout, 1 if name == "one" else options.ranks) for name, layout in LAYOUTS.items()}
        return runs if options.no_torch else {**runs, "torch": torch(options.ranks)}
    counts = [2 ** power for power in range(options.ranks.bit_length())]
    runs = {f"ddp {ranks}": bind(LAYOUTS["ddp"], ranks) for ranks in counts}
    return runs if options.no_torch else {**runs, **{f"torch {ranks}": torch(ranks) for ranks in counts}}


def figures_of(rate, rounds, options):
    """Name, value, target, whether that is a minimum."""
    if options.scaling:
        most = 2 ** (options.ranks.bit_length() - 1)
        figures = [("ddp_efficiency", rate[f"ddp {most}"] / (most * rate["ddp 1"]), 0.9, True)]
        if not options.no_torch:
            figures.append(("ddp_of_pytorch", rate[f"ddp {most}"] / rate[f"torch {most}"], 1.7, True))
        return figures
    act = {name: rounds[0][name]["activations"] for name in LAYOUTS}
    figures = [("ddp_efficiency", rate["ddp"] / (options.ranks * rate["one"]), 0.92, True),
               ("zero3_of_ddp", rate["zero3"] / rate["ddp"], 0.85, True),
               ("recompute_time", rate["ddp"] / rate["recompute"], 1.35, False),
               ("recompute_activations", act["recompute"] / act["ddp"], 1 / 3, False)]
    if "torch" in rate:
        figures.append(("ddp_of_pytorch", rate["ddp"] / rate["torch"], 1.5, True))
    return figures


def judge(rounds, options):
    """Each figure, its target and whether it is reached."""
    rate = {name: statistics.median(turn[name]["rate"] for turn in rounds) for name in rounds[0]}
    rates = {name: round(value, 3) for name, value in rate.items()}
    print(json.dumps({"samples_per_second": rates, "ranks": options.ranks, "threads": options.threads,
                      "batch": options.batch, "rounds": len(rounds), "load_average": os.getloadavg()[0],
                      "pytorch": next((one["engine"] for one in rounds[0].values() if "engine" in one), None)}))
    reached = True
    for name, value, target, at_least in figures_of(rate, rounds, options):
        good = value >= target if at_least else value <= target
        reached = reached and good
        print(json.dumps({"figure": name, "value": round(value, 3), "target": ("at least " if at_least else "at most ")
                          + f"{target:.3g}",
                          "reached": good}), flush=True)
    return reached


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="timed steps of a round")
    parser.add_argument("--batch", type=int, default=8, help="samples of a rank")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of a rank")
    parser.add_argument("--scaling", action="store_true", help="DDP alone, with 1, 2, 4, ... ranks")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    parser.add_argument("--shared", default=SHARED, help=argparse.SUPPRESS)
    options = parser.parse_args()
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        data, models = prepare("fixed", folder, options, (WARMUP + options.steps) * options.batch * options.ranks)
        for turn in range(options.rounds):
            rounds.append({})
            for name, work in runs_of(options).items():
                rounds[-1][name] = work(folder, data, models)
                print(f"  round {turn + 1}: {name} {rounds[-1][name]['rate']:.2f} samples/s", flush=True)
    sys.exit(0 if judge(rounds, options) else 1)


if __name__ == "__main__":
    main()
