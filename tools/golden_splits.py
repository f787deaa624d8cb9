#!/usr/bin/env python3
"""Writes tests/golden/splits.txt: how many rows of each class scikit-learn puts into each part and each fold.

A line: kind, parts, shares (0 for folds), classes, rows of each class, then rows of each part by class. Only cases
whose counts do not depend on scikit-learn's random ties, and whose parts have every class.
Run with scikit-learn: python3 tools/golden_splits.py
"""
import pathlib
import sys

import numpy
import sklearn
from sklearn.model_selection import StratifiedKFold, train_test_split


def sizes_of(shares, n):
    """Largest remainder; of equal ones the first."""
    quotas = [share * n for share in shares]
    sizes = [int(quota) for quota in quotas]
    while sum(sizes) < n:
        rests = [round(quota - size, 9) for quota, size in zip(quotas, sizes)]
        sizes[rests.index(max(rests))] += 1
    return sizes


def count(labels, rows, classes):
    return tuple(int((labels[rows] == c).sum()) for c in range(classes))


def split(labels, shares, classes, seed):
    rows, sizes, parts = numpy.arange(len(labels)), sizes_of(shares, len(labels)), {}
    for part in range(len(shares) - 1, 0, -1):
        rows, parts[part] = train_test_split(rows, test_size=sizes[part], stratify=labels[rows], random_state=seed)
    parts[0] = rows
    return [count(labels, parts[p], classes) for p in range(len(shares))]


def folds(labels, k, classes, seed):
    made = StratifiedKFold(k, shuffle=True, random_state=seed)
    return [count(labels, test, classes) for _, test in made.split(labels, labels)]


def main():
    random, lines = numpy.random.default_rng(5), []
    asked = [(0.8, 0.1, 0.1), (0.7, 0.3), (0.6, 0.25, 0.15), (0.9, 0.05, 0.05)]
    while len(lines) < 24:
        classes = int(random.integers(2, 6))
        rows = [int(n) for n in random.integers(40, 300, classes)]
        labels = numpy.repeat(numpy.arange(classes), rows)
        if len(lines) % 3 == 2:
            k = int(random.integers(2, 7))
            found = {tuple(folds(labels, k, classes, seed)) for seed in range(5)}
            head = f"folds {k} 0 0 0"
        else:
            shares = asked[len(lines) % len(asked)]
            found = {tuple(split(labels, shares, classes, seed)) for seed in range(20)}
            head = f"split {len(shares)} " + " ".join(str(s) for s in (*shares, 0)[:3])
        if len(found) > 1 or any(0 in part for part in list(found)[0]):
            continue
        numbers = [n for part in found.pop() for n in part]
        lines.append(" ".join([head, str(classes), *map(str, rows), *map(str, numbers)]))
    text = "\n".join([f"# scikit-learn {sklearn.__version__}: tools/golden_splits.py", *lines])
    pathlib.Path(sys.argv[0]).resolve().parent.parent.joinpath("tests/golden/splits.txt").write_text(text + "\n")


main()
