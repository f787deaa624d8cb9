"""Training steps on a GPU against PyTorch's, in one job: `trident bench step` and torch_step.py, compiled and eager,
run alternately.

    python3 bench/cuda.py [BUILD] [--cases base128,base512,...] [--rounds 3] [--seconds 540] [--each 150] [--by-layer]
                          [--engines trident,trident_fp8,compile,compile_fp8,eager]

Each run is a separate process; in a round every engine runs a case once, so that a slow phase of the GPU affects all
equally. A run is not started if its previous time exceeds what is left of --seconds, and is killed if it takes longer
than --each: PyTorch compiles base512real, whose batches differ in length, for minutes. Prints a JSON object per run,
then the table of docs/internals/cuda.md: medians over the rounds. PyTorch compiles for most of a minute per case, but
only the first time if TORCHINDUCTOR_CACHE_DIR and TRITON_CACHE_DIR are persistent folders. With --by-layer it compiles
one layer of a model and uses it for all. Engines that end with _fp8 train with 8-bit factors. Ratios and targets are
against compile in bf16, and for the FP8 step also against compile_fp8. Exit 1 if a target is missed or a case lacks an
engine.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FAMILIES = ("bert", "distilbert", "electra", "mpnet", "modernbert", "deberta")
CASES = ("minilm", "base128", "base512", "base512real", "large512", "oneb", *FAMILIES)
# Times as fast as torch.compile in bf16; shares of the ceiling.
TARGET = {"trident": {"base128": 1.4, "base512": 1.4, "base512real": 4.0, "large512": 1.35, "oneb": 1.15,
                      "modernbert": 3.0},
          "trident_fp8": {"base128": 2.0, "base512": 1.85, "base512real": 6.5, "large512": 1.8, "oneb": 1.75}}
MFU = {"trident": {"base128": 0.58, "base512": 0.61, "large512": 0.63, "oneb": 0.69}}
ENGINES = ("trident", "trident_fp8", "compile", "compile_fp8", "eager")
GIB = 1 << 30


def command(engine, case, options):
    if engine.startswith("trident"):
        words = [os.path.join(options.build, "trident"), "bench", "step", "--device", "cuda", "--precision",
                 "fp8" if engine == "trident_fp8" else "bf16", "--cases", case,
                 "--json", "--quiet"] + (["--max-steps", "400"] if case == "minilm" else [])
        return words + (["--tune-products"] if options.tune else [])
    words = [sys.executable, os.path.join(HERE, "torch_step.py"), case, "--steps", "12", "--warmup", "4"]
    if case in FAMILIES:
        words += ["--pad", "64"]
    if engine == "eager":
        return words
    return words + ["--compile"] + (["--by-layer"] if options.by_layer else []) + \
        (["--fp8"] if engine == "compile_fp8" else [])


def run(engine, case, left, options):
    """One run as a dictionary; None, with a message, if it fails or takes too long."""
    begin, limit = time.monotonic(), max(min(left, options.each), 1)
    try:
        done = subprocess.run(command(engine, case, options), capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        print(f"bench: {engine} {case}: given up after {limit:.0f} s", file=sys.stderr)
        return None
    if done.returncode:
        print(f"bench: {engine} {case}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}",
              file=sys.stderr)
        return None
    found = json.loads(done.stdout.strip().splitlines()[-1])
    found.update(engine=engine, run_seconds=round(time.monotonic() - begin, 1))
    print(json.dumps(found), flush=True)
    return found


def measure(options):
    """runs[case][engine]: a list of dictionaries."""
    runs = {case: {engine: [] for engine in options.engines} for case in options.cases}
    lost, end = set(), time.monotonic() + options.seconds
    for _ in range(options.rounds):
        for case in options.cases:
            for engine in options.engines:
                left, earlier = end - time.monotonic(), runs[case][engine]
                if (case, engine) in lost or left < (earlier[-1]["run_seconds"] if earlier else 5):
                    continue
                found = run(engine, case, left, options)
                if found:
                    earlier.append(found)
                else:
                    lost.add((case, engine))
    return runs


def median(found, key):
    return statistics.median(r[key] for r in found) if found else None


def memory(found):
    """GPU bytes that a run uses: for Trident the decrease of free memory, for PyTorch the memory of its allocator."""
    return max(r["device_bytes"] if r["engine"].startswith("trident") else r["reserved_bytes"] for r in found)


def side(found):
    if not found:
        return "-"
    return f"{median(found, 'step_ms'):.1f}, {100 * median(found, 'mfu'):.0f} %, {memory(found) / GIB:.1f} GiB"


def times_as_fast(ours, theirs):
    return median(theirs, "step_ms") / median(ours, "step_ms") if ours and theirs else 0


def row(case, engine, of):
    """A line of the table of one of our engines, and whether it reached its targets."""
    ours, target, least = of.get(engine, []), TARGET[engine].get(case, 0), MFU.get(engine, {}).get(case, 0)
    others = " | ".join(side(of.get(name, [])) for name in ENGINES[2:])
    if not ours:
        return f"| {case} | {engine} | - | | | | {others} | | |", False
    ratio, mfu = times_as_fast(ours, of.get("compile", [])), median(ours, "mfu")
    reached = ratio >= target and mfu >= least
    beside = times_as_fast(ours, of.get("compile_fp8", [])) if engine == "trident_fp8" else 0
    return (f"| {case} | {engine} | {median(ours, 'step_ms'):.1f} | {100 * mfu:.1f} % | "
            f"{median(ours, 'first_step_seconds'):.1f} s | {memory(ours) / GIB:.1f} GiB | {others} | "
            f"{ratio:.2f}{f', fp8 {beside:.2f}' if beside else ''} | {target:.2f}"
            f"{f', MFU {100 * least:.0f} %' if least else ''}{'' if reached else ': missed'} |"), reached


def table(runs, options):
    ok = True
    print("\n| case | engine | ms a step | MFU | first step | memory | torch.compile: ms, MFU, memory | in fp8 | eager "
          "| ratio | target |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for case in options.cases:
        for engine in (name for name in ENGINES[:2] if name in options.engines):
            line, reached = row(case, engine, runs[case])
            ok = ok and reached
            print(line)
    ceilings = [r["ceiling_tflops"] for case in runs.values() for found in case.values() for r in found]
    if ceilings:
        print(f"\nA product of 8192 x 8192 matrices reached {min(ceilings):.0f} to {max(ceilings):.0f} TFLOP/s.")
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("--engines", type=lambda text: text.split(","), default=["trident", "compile", "eager"],
                        help=",".join(ENGINES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--each", type=float, default=150, help="seconds that a run may take")
    parser.add_argument("--tune", action="store_true", help="Trident with --tune-products")
    parser.add_argument("--by-layer", action="store_true", help="PyTorch compiles one layer, not the model; BERT only")
    options = parser.parse_args()
    strange = [engine for engine in options.engines if engine not in ENGINES]
    if strange:
        parser.error(f"no engine {strange[0]}; there are {', '.join(ENGINES)}")
    unknown = [case for case in options.cases if case not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]}; there are {', '.join(CASES)}")
    sys.exit(0 if table(measure(options), options) else 1)


if __name__ == "__main__":
    main()
