"""Writes tests/golden/numbers.json: scikit-learn's figures of predicted numbers, which test_numbers compares with.

    .venv/bin/python tools/golden_numbers.py [FOLDER]
"""
import os
import sys

import numpy as np
import sklearn
from sklearn import metrics

import golden_json

LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]


def figures(values, targets, levels):
    point = values[:, int(np.argmin(np.abs(np.array(levels or [0.5]) - 0.5)))]
    found = {"r2": metrics.r2_score(targets, point),
             "rmse": float(np.sqrt(metrics.mean_squared_error(targets, point))),
             "mae": metrics.mean_absolute_error(targets, point),
             "median_error": metrics.median_absolute_error(targets, point)}
    if levels:
        found["pinball"] = float(np.mean([metrics.mean_pinball_loss(targets, values[:, c], alpha=level)
                                          for c, level in enumerate(levels)]))
        found["coverage"] = float(np.mean((targets >= values[:, 0]) & (targets <= values[:, -1])))
    return {name: float(value) for name, value in found.items()}


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "tests/golden"
    random = np.random.default_rng(5)
    cases = []
    for name, rows, levels, scale in (
            ("even", 10, None, 1), ("odd", 101, None, 1), ("large", 64, None, 1e6), ("two", 2, None, 1),
            ("quantiles", 90, LEVELS, 1), ("few levels", 33, [0.1, 0.6], 3), ("constant", 7, None, 0)):
        targets = (scale * random.standard_normal(rows) + scale).astype(np.float32)
        columns = len(levels or [0])
        values = targets[:, None] + 0.4 * (scale or 1) * random.standard_normal((rows, columns))
        values = np.sort(values, axis=1).astype(np.float32)
        cases.append({"name": name, "values": values.flatten().tolist(), "targets": targets.tolist(),
                      **({"levels": levels} if levels else {}),
                      "figures": figures(values.astype(float), targets.astype(float), levels)})
    golden_json.write(os.path.join(folder, "numbers.json"),
                      {"cases": cases, "made_by": f"tools/golden_numbers.py, scikit-learn {sklearn.__version__}"})


if __name__ == "__main__":
    main()
