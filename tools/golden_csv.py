#!/usr/bin/env python3
"""Makes tests/golden/csv_python.json: hostile tables, and what Python's csv module reads in them."""
import csv
import io
import json
import os
import random

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PARTS = ["a", "b", " ", ",", '"', '""', "\n", "\r\n", "'", ";", "\t", "0", "-1.5", "é", "中", "\u2028", "😀", "x,y", '"q"', "\n\n"]


def field(rng):
    return "".join(rng.choice(PARTS) for _ in range(rng.choice([0, 0, 1, 1, 2, 3, 6])))


def table(rng):
    columns, rows = rng.randint(2, 5), rng.randint(0, 6)
    made = [[f"c{i}" + rng.choice(["", " ", ",", '"', "\n"]) for i in range(columns)]]
    made += [[field(rng) for _ in range(columns)] for _ in range(rows)]
    out = io.StringIO()
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    csv.writer(out, quoting=quoting, lineterminator=rng.choice(["\n", "\r\n"])).writerows(made)
    text = out.getvalue()
    if rng.random() < 0.3:
        text = text[:-2] if text.endswith("\r\n") else text[:-1]
    return rng.choice(["", "", "\ufeff"]) + text


def main():
    rng = random.Random(7)
    cases = []
    for _ in range(80):
        text = table(rng)
        rows = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True))
        cases.append(json.dumps({"text": text, "rows": rows}, separators=(",", ":")))
    with open(os.path.join(ROOT, "tests", "golden", "csv_python.json"), "w", encoding="utf-8", newline="\n") as file:
        file.write('{"made_by": "tools/golden_csv.py", "cases": [\n' + ",\n".join(cases) + "\n]}\n")


if __name__ == "__main__":
    main()
