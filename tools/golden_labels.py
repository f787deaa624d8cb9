"""Writes tests/golden/labels.json: scikit-learn's figures of several labels, which test_labels compares with.

    .venv/bin/python tools/golden_labels.py [FOLDER]
"""
import os
import sys

import numpy as np
import sklearn
from sklearn import metrics

import golden_json


def figures(probs, targets, start):
    found = {f"f1_{kind}": metrics.f1_score(targets, probs >= start, average=kind, zero_division=0)
             for kind in ("micro", "macro", "samples")}
    both = (targets.min(axis=0) == 0) & (targets.max(axis=0) == 1)
    areas = [metrics.roc_auc_score(targets[:, c], probs[:, c]) for c in np.flatnonzero(both)]
    likelihood = np.where(targets == 1, np.log(probs), np.log1p(-probs))
    return {name: float(value) for name, value in {
        **found, "accuracy": metrics.accuracy_score(targets, probs >= start),
        "lrap": metrics.label_ranking_average_precision_score(targets, probs), "roc_auc": np.mean(areas),
        "loss": -likelihood.mean()}.items()}


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "tests/golden"
    random = np.random.default_rng(7)
    cases = []
    for name, rows, labels, share, levels in (
            ("even", 40, 4, 0.5, 0), ("rare", 90, 7, 0.1, 0), ("two", 30, 2, 0.4, 0), ("ties", 60, 5, 0.3, 8),
            ("full rows", 20, 3, 0.9, 0), ("absent label", 25, 4, 0.3, 0)):
        targets = (random.random((rows, labels)) < share).astype(int)
        if name == "absent label":
            targets[:, 2] = 0
        probs = 1 / (1 + np.exp(-(2 * random.standard_normal((rows, labels)) + 2 * targets - 1)))
        if levels:
            probs = (np.floor(probs * levels) + 0.5) / levels
        probs, start = probs.astype(np.float32), np.float32([0.5, 0.25, 0.6, 0.375, 0.5, 0.45, 0.5])[:labels]
        cases.append({"name": name, "probs": probs.flatten().tolist(), "targets": targets.flatten().tolist(),
                      "from": start.tolist(),
                      "figures": figures(probs.astype(float), targets, start.astype(float))})
    golden_json.write(os.path.join(folder, "labels.json"),
                      {"cases": cases, "made_by": f"tools/golden_labels.py, scikit-learn {sklearn.__version__}"})


if __name__ == "__main__":
    main()
