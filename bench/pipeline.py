"""Pipelines: measured bubbles against those of the simulated step; branches against a chain of stages; ZB-H1 against
1F1B.

    python3 bench/pipeline.py [BUILD] [--rounds 3] [--no-cpu]

`trident bench pipeline` on the device "timed", whose stages sleep as long as they would compute, so that four of them
run on two cores; and two stages that do compute, one thread each, if there are two cores. All run alternately; medians
over the rounds count. Prints one JSON object per figure; exit 1 if a target of bench/README.md is missed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

TIMED = [["--pp-size", "4", "--num-microbatches", "8"],
         ["--pp-size", "4", "--num-microbatches", "4", "--schedules", "1f1b"],
         ["--pp-size", "2", "--num-microbatches", "4", "--schedules", "gpipe,1f1b,zb-h1", "--pipeline-shape", "chain"]]
CPU = [["--device", "cpu", "--pp-size", "2", "--num-microbatches", "4", "--schedules", "1f1b", "--pipeline-shape",
        "chain"]]
NEAR = 0.15   # measured bubble against the predicted one


def measure(trident, options, into):
    done = subprocess.run([trident, "bench", "pipeline", "--json", "--quiet", *options], stdout=subprocess.PIPE,
                          text=True, check=True)
    for run in map(json.loads, done.stdout.splitlines()):
        key = run["device"], run["stages"], run["microbatches"], run["schedule"], run["shape"]
        into.setdefault(key, []).append(run)


def figures(runs):
    """Name, value, target in words, whether it is reached; None where there is no target."""
    def median(key, field):
        return statistics.median(run[field] for run in runs[key])

    for key in runs:
        device, stages, microbatches, schedule, shape = key
        ratio = median(key, "bubble") / median(key, "predicted_bubble")
        name = (f"bubble over predicted bubble: {schedule}, {shape}, {stages} stages, {microbatches} microbatches, "
                f"device {device}")
        yield name, ratio, f"within {NEAR:.0%} of 1", abs(ratio - 1) <= NEAR
    branch, row = ("timed", 4, 4, "1f1b", "branch"), ("timed", 4, 4, "1f1b", "chain")
    value = median(row, "step_ms") / median(branch, "step_ms")
    yield "branch times as fast as chain: 4 stages, 4 microbatches", value, "at least 1.25", value >= 1.25
    for shape in "chain", "branch":
        value = median(("timed", 4, 8, "1f1b", shape), "step_ms") / median(("timed", 4, 8, "zb-h1", shape), "step_ms")
        target = ("at least 1.1", value >= 1.1) if shape == "chain" else (None, None)
        yield f"zb-h1 times as fast as 1f1b: {shape}, 4 stages, 8 microbatches", value, *target


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-cpu", action="store_true",
                        help="leave out the stages that compute; they need two cores to themselves")
    args = parser.parse_args()
    trident = os.path.abspath(os.path.join(args.build, "trident"))
    cpu = [] if args.no_cpu or len(os.sched_getaffinity(0)) < 2 else CPU
    if not cpu:
        print("left out: stages that compute", file=sys.stderr)
    runs, missed = {}, 0
    for turn in range(args.rounds):
        for options in TIMED + cpu:
            measure(trident, options, runs)
        print(f"  round {turn + 1} of {args.rounds}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    for key, rounds in runs.items():
        fields = ("step_ms", "flow_ms", "bubble", "predicted_bubble")
        print(json.dumps({"case": key, **{field: [run[field] for run in rounds] for field in fields},
                          "activation_bytes": rounds[0]["activation_bytes"]}))
    for name, value, target, reached in figures(runs):
        missed += reached is False
        print(json.dumps({"figure": name, "value": round(value, 3), "target": target, "reached": reached}))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
