"""How fast collectives are: `trident bench comm` by itself and compared with Open MPI.

    python3 bench/comm.py [BUILD] [--rounds 3]

An all_reduce in the shared heap, 2 ranks and then 4 (more than the cores of a small machine: both sides yield). Every
run times ours, Open MPI's and a memory copy alternately, call by call; the median of the rounds counts. Prints one JSON
object per case; exit 1 if a target is missed. Without mpirun its cases are skipped, with a message.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

MPIRUN = ["mpirun", "--oversubscribe"]
CASES = [  # name, ranks, mpirun's options or None, size, figure, target, at least (1) or at most (-1)
    ("25 MB, 2 ranks, of a 2-thread memcpy", 2, None, "25M", "memcpy_ratio", 0.5, 1),
    ("4 KB, 2 ranks, us", 2, None, "4K", "time_us", 1.5, -1),
    ("25 MB, 2 ranks, times Open MPI", 2, ["--bind-to", "core"], "25M", "mpi_ratio", 4.0, 1),
    ("25 MB, 4 ranks, times Open MPI", 4, ["--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"], "25M",
     "mpi_ratio", 5.0, 1),
]


def measure(trident, ranks, mpi, size, figure):
    command = [trident, "bench", "comm", "--json", "--op", "all_reduce", "--sizes", size]
    if mpi is None:
        command += ["--nproc-per-node", str(ranks)]
    else:
        command = MPIRUN + mpi + ["-np", str(ranks)] + command
    allow = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(command, env={**os.environ, **allow}, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)[figure]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    trident = os.path.abspath(os.path.join(args.build, "trident"))
    has_mpi = shutil.which("mpirun") and os.path.exists(os.path.join(args.build, "libtrident_mpi.so"))
    missed = 0
    for name, ranks, mpi, size, figure, target, sign in CASES:
        if mpi is not None and not has_mpi:
            print(f"left out: {name}: no mpirun, or the MPI plug-in is not built", file=sys.stderr)
            continue
        rounds = [measure(trident, ranks, mpi, size, figure) for _ in range(args.rounds)]
        middle = statistics.median(rounds)
        met = sign * middle >= sign * target
        missed += not met
        print(json.dumps({"case": name, "rounds": rounds, "median": middle, "target": target, "met": met}))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
