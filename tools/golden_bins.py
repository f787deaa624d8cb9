"""Writes tests/golden/bins.json: bins and population stability indices by numpy, which test_bins compares with.

    .venv/bin/python tools/golden_bins.py [FOLDER]
"""
import os
import sys

import numpy as np

import golden_json


def edges_of(values, of):
    """Below the least; the lower of the two values around each tenth. Of indices evenly many, the last alone."""
    if of:
        bins = min(of, 20)
        return np.array([(k + 1) * (of - 1) // (bins - 1) - 1 for k in range(bins - 1)], np.float32)
    tenths = np.quantile(values, np.arange(1, 11) / 10, method="lower")
    return np.unique(np.append(np.nextafter(values.min(), np.float32(-np.inf)), tenths).astype(np.float32))


def counts(values, edges):
    known = values[~np.isnan(values)]
    return np.append(np.bincount(np.searchsorted(edges, known), minlength=len(edges) + 1), len(values) - len(known))


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "tests/golden"
    random = np.random.default_rng(11)

    def normal(n, mean=0.0, missing=0.0):
        values = random.normal(mean, 1, n).astype(np.float32)
        values[random.random(n) < missing] = np.nan
        return values

    cases = []
    for name, of, then, now in (
            ("the same", 0, normal(500), normal(300)), ("moved", 0, normal(500), normal(300, 1)),
            ("more missing", 0, normal(400, 0, 0.1), normal(400, 0, 0.5)),
            ("few values", 0, random.integers(0, 4, 300).astype(np.float32), random.integers(1, 5, 200) * 1.0),
            ("one value", 0, np.full(50, 3, np.float32), np.full(50, 4, np.float32)),
            ("categories", 5, random.integers(0, 5, 300) * 1.0, random.integers(2, 5, 300) * 1.0),
            ("many categories", 77, random.integers(0, 77, 900) * 1.0, random.integers(0, 40, 500) * 1.0)):
        then, now = np.float32(then), np.float32(now)
        edges = edges_of(then[~np.isnan(then)], of)
        was, are = counts(then, edges), counts(now, edges)
        before, after = np.maximum(was / len(then), 1e-4), np.maximum(are / len(now), 1e-4)
        cases.append({"name": name, "of": of, "edges": edges.tolist(),
                      "then": [None if np.isnan(v) else float(v) for v in then],
                      "now": [None if np.isnan(v) else float(v) for v in now],
                      "by_chance": float((np.sum(was + are > 0) - 1) * (1 / len(then) + 1 / len(now))),
                      "psi": float(np.sum((after - before) * np.log(after / before)))})
    golden_json.write(os.path.join(folder, "bins.json"),
                      {"cases": cases, "made_by": f"tools/golden_bins.py, numpy {np.__version__}"})


if __name__ == "__main__":
    main()
