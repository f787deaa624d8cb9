"""Opening and reading a large CSV file: Trident, pandas.read_csv and Python's csv, in the same run.

    .venv/bin/python bench/table.py [BUILD] [--bytes 1e9] [--rounds 3] [--jsonl] [--parquet ROWS]

The file is the reviews' train.csv repeated, made in a temporary folder and removed. They run alternately, each in a
new process, with the file in the page cache. Opening finds every row, checks UTF-8 and counts fields: after it every
field is one look-up away. pandas and csv also create objects, so Trident's time for reading every field once is
reported too. Rates of one thread are per second of CPU time: on a shared machine wall time depends too much on other
work. Exit 1 if the target is missed. --parquet compares Parquet alone, with pyarrow (table_parquet.py).
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile

import table_parquet

HERE = os.path.dirname(os.path.abspath(__file__))
REVIEWS = os.path.join(HERE, "..", "..", "shared", "data", "reviews", "train.csv")
TARGET = 2.0  # GB a second and core, opening

PANDAS = """
import sys, time
try:
    import pandas
except ImportError:
    sys.exit(77)
start, cpu = time.perf_counter(), time.process_time()
table = pandas.read_csv(sys.argv[1])
print(len(table), time.perf_counter() - start, time.process_time() - cpu)
"""
CSV = """
import csv, sys, time
start, cpu = time.perf_counter(), time.process_time()
with open(sys.argv[1], newline="", encoding="utf-8") as file:
    rows = sum(1 for _ in csv.reader(file)) - 1
print(rows, time.perf_counter() - start, time.process_time() - cpu)
"""


def make_file(reviews, path, size):
    with open(reviews, "rb") as file:
        header, body = file.read().split(b"\n", 1)
    with open(path, "wb") as file:
        file.write(header + b"\n")
        while file.tell() < size:
            file.write(body)
        file.flush()
        os.fsync(file.fileno())  # else the disk's writing runs beside the first rounds
    return os.path.getsize(path)


def make_lines(source, path):
    """The same rows as JSON lines; returns the size."""
    with open(source, newline="", encoding="utf-8") as file, open(path, "w", encoding="utf-8") as out:
        for row in csv.DictReader(file):
            out.write(json.dumps(row) + "\n")
    return os.path.getsize(path)


def run(words):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if result.returncode == 77:
        return None
    if result.returncode:
        sys.exit(f"bench: {words[0]} exited with {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def trident(build, path, threads):
    return json.loads(run([os.path.join(build, "bench", "table"), path, threads]))


def python(program, path):
    out = run([sys.executable, "-c", program, path])
    if out is None:
        return None
    rows, seconds, cpu = out.split()
    return {"rows": int(rows), "seconds": float(seconds), "cpu": float(cpu)}


def median(results, key):
    return statistics.median(result[key] for result in results)


def compare(options, folder):
    path = os.path.join(folder, "reviews.csv")
    size = make_file(options.reviews, path, options.bytes)
    one, two, pandas, plain = [], [], [], []
    for turn in range(options.rounds):
        one.append(trident(options.build, path, 1))
        two.append(trident(options.build, path, 2))
        pandas.append(python(PANDAS, path))
        plain.append(python(CSV, path))
        rows = {result["rows"] for result in (one[-1], two[-1], pandas[-1], plain[-1]) if result}
        if len(rows) != 1:
            sys.exit(f"bench: the readers found different numbers of rows: {rows}")
        print(f"  round {turn + 1}: Trident opens in {one[-1]['open_seconds']:.2f} s "
              f"(core {one[-1]['open_cpu']:.2f}), with two threads "
              f"{two[-1]['open_seconds']:.2f}; pandas {pandas[-1]['seconds'] if pandas[-1] else float('nan'):.2f} s, "
              f"csv {plain[-1]['seconds']:.2f} s", flush=True)
    rate = size / median(one, "open_cpu") / 1e9

    def wall(results):
        return round(size / median(results, "seconds") / 1e9, 3)

    report = {"bytes": size, "rows": one[0]["rows"], "rounds": options.rounds,
              "open_GB_per_core_second": round(rate, 3), "target": TARGET,
              "open_GB_per_second": round(size / median(one, "open_seconds") / 1e9, 3),
              "open_two_threads_GB_per_core_second": round(size / median(two, "open_cpu") / 1e9, 3),
              "open_two_threads_GB_per_second": round(size / median(two, "open_seconds") / 1e9, 3),
              "open_and_read_GB_per_core_second":
                  round(size / statistics.median(r["open_cpu"] + r["read_cpu"] for r in one) / 1e9, 3),
              "csv_GB_per_core_second": round(size / median(plain, "cpu") / 1e9, 3), "csv_GB_per_second": wall(plain),
              "reached": rate >= TARGET}
    if all(pandas):
        report["pandas_GB_per_core_second"] = round(size / median(pandas, "cpu") / 1e9, 3)
        report["pandas_GB_per_second"] = wall(pandas)
    else:
        print("  pandas is not installed here: left out")
    if options.jsonl:
        small, lines = os.path.join(folder, "part.csv"), os.path.join(folder, "part.jsonl")
        make_file(options.reviews, small, options.bytes / 4)
        bytes_of_lines = make_lines(small, lines)
        runs = [trident(options.build, lines, 1) for _ in range(options.rounds)]
        report["jsonl_open_GB_per_core_second"] = round(bytes_of_lines / median(runs, "open_cpu") / 1e9, 3)
    print(json.dumps(report), flush=True)
    return report["reached"]


def compare_parquet(options, folder):
    report = table_parquet.compare(options.reviews, folder, options.parquet, options.rounds,
                                   lambda path: trident(options.build, path, 1), python)
    print(json.dumps({"rows": options.parquet, "rounds": options.rounds, "parquet": report}), flush=True)
    return min(case["ratio"] for case in report.values()) >= 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--bytes", type=float, default=1e9)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jsonl", action="store_true", help="also JSON lines of a quarter of the rows")
    parser.add_argument("--parquet", type=int, default=0, metavar="ROWS", help="Parquet of so many rows, nothing else")
    parser.add_argument("--reviews", default=REVIEWS, help="their train.csv")
    options = parser.parse_args()
    if not os.path.exists(options.reviews):
        print("table: ../shared/data/reviews is not here: skipped")
        return
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(0 if (compare_parquet if options.parquet else compare)(options, folder) else 1)


if __name__ == "__main__":
    main()
