"""Data parallelism in the same run: DDP against one rank and against PyTorch's over gloo, ZeRO-3 and recomputation
against DDP.

    .venv/bin/python bench/ddp.py [BUILD] [--rounds 5] [--steps 6] [--batch 8] [--ranks 2]

Ranks have one thread and the same number of samples of 128 tokens each (bench/step.json's model). They run
alternately, each in a new process, so that a slow phase of the machine affects all equally; the figures are ratios of
medians over the rounds. bench/README.md states the targets; exit 1 if one is missed.
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


def trident(name, folder, data, models, options):
    """Samples a second of all ranks, and the bytes of activations of one."""
    ranks, output = 1 if name == "one" else options.ranks, os.path.join(folder, "run")
    run([os.path.join(options.build, "trident"), "train", "--config", os.path.join(HERE, "step.json"), "--data-path",
         data, "--models-dir", models,
         "--output-dir", output, "--batch-size", options.batch, "--max-steps", WARMUP + options.steps, "--save-every",
         0, "--resume", "never",
         "--threads", 1, "--nproc-per-node", ranks, "--bind-cores", "core", "--seed", 1, "--quiet", *LAYOUTS[name]])
    with open(os.path.join(output, "metrics.jsonl"), encoding="utf-8") as file:
        times = [event["step_ms"] for event in map(json.loads, file) if event["event"] == "train"][WARMUP:]
    with open(os.path.join(output, "summary.json"), encoding="utf-8") as file:
        activations = json.load(file)["ranks"][0]["bytes"]["act"]
    shutil.rmtree(output)
    return {"rate": 1000 * ranks * options.batch / statistics.median(times), "activations": activations}


def torch_ddp(options):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    cores = sorted(os.sched_getaffinity(0))
    words = [sys.executable, os.path.join(HERE, "torch_step.py"), "fixed", "--threads", "1", "--steps",
             str(options.steps), "--warmup", str(WARMUP),
             "--batch", str(options.batch), "--shared", options.shared]
    ranks = []
    for rank in range(options.ranks):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "RANK": str(rank), "WORLD_SIZE": str(options.ranks),
                       "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": str(port)}
        bound = ["taskset", "-c", str(cores[rank])] if options.ranks <= len(cores) else []
        ranks.append(subprocess.Popen(bound + words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True))
    ends = [(rank.communicate(), rank.returncode) for rank in ranks]
    for (out, err), code in ends:
        if code:
            sys.exit(f"bench: a rank of PyTorch exited with {code}\n{out}{err}")
    result = json.loads(ends[0][0][0])
    return {"rate": 1000 * options.ranks * options.batch / result["step_ms"], "engine": result["engine"]}


def judge(rounds, options):
    """Each figure, its target and whether it is reached."""
    rate = {name: statistics.median(turn[name]["rate"] for turn in rounds) for name in rounds[0]}
    act = {name: rounds[0][name]["activations"] for name in LAYOUTS}
    figures = [("ddp_efficiency", rate["ddp"] / (options.ranks * rate["one"]), 0.92, True),
               ("zero3_of_ddp", rate["zero3"] / rate["ddp"], 0.85, True),
               ("recompute_time", rate["ddp"] / rate["recompute"], 1.35, False),
               ("recompute_activations", act["recompute"] / act["ddp"], 1 / 3, False)]
    if "torch" in rate:
        figures.append(("ddp_of_pytorch", rate["ddp"] / rate["torch"], 1.5, True))
    rates = {name: round(value, 3) for name, value in rate.items()}
    print(json.dumps({"samples_per_second": rates, "ranks": options.ranks, "batch": options.batch,
                      "rounds": len(rounds),
                      "load_average": os.getloadavg()[0], "pytorch": rounds[0].get("torch", {}).get("engine")}))
    reached = True
    for name, value, target, at_least in figures:
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
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    parser.add_argument("--shared", default=SHARED, help=argparse.SUPPRESS)
    options = parser.parse_args()
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        data, models = prepare("fixed", folder, options, (WARMUP + options.steps) * options.batch * options.ranks)
        for turn in range(options.rounds):
            rounds.append({name: trident(name, folder, data, models, options) for name in LAYOUTS})
            if not options.no_torch:
                rounds[-1]["torch"] = torch_ddp(options)
            print(f"  round {turn + 1}: " + ", ".join(f"{name} {one['rate']:.2f}" for name, one in rounds[-1].items())
                  + " samples/s", flush=True)
    sys.exit(0 if judge(rounds, options) else 1)


if __name__ == "__main__":
    main()
