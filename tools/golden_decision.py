"""Writes tests/golden/decision.json: temperatures, thresholds, calibration figures and bootstrap intervals by
scikit-learn, scipy and numpy, which test_decision compares with.

    .venv/bin/python tools/golden_decision.py [FOLDER]

Temperature: the zero of the derivative of the mean log loss of softmax(log p / T) by 1 / T, by scipy's brentq.
Thresholds: the definition, tried for every distinct probability with scikit-learn's scores. Expected calibration error
by numpy, Brier score and all other figures by scikit-learn. Resamples are drawn by Philox4x32-10 as in
src/score/bootstrap.h, and intervals are as that says: Wilson's by statistics' formula, numpy.percentile's of the
figures of the drawn rows, macro F1's by numpy.corrcoef, ECE's by trying errors.
"""
import os
import sys
import warnings

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_softmax, softmax
from scipy.stats import binomtest
from sklearn import metrics

import golden_json

F32 = np.float32
TINY, MOST, SHARPEST, RESAMPLES, BINS = 2.0**-126, 10.0, 100.0, 60, 15
FIGURES = 9  # of the whole table
TARGETS = ["f1", "precision=0.75", "precision=0.99", "recall=0.9", "recall=1", "cost=1:5", "cost=50:1", "cost=1:1"]


def xxh32(data):
    """Of fewer than 16 bytes, seed 0 (tri__random_id)."""
    p = [2654435761, 2246822519, 3266489917, 668265263, 374761393]
    whole = 2**32 - 1
    turn = lambda x, r: ((x << r) | (x >> (32 - r))) & whole
    h, at = (p[4] + len(data)) & whole, 0
    while at + 4 <= len(data):
        h = turn((h + int.from_bytes(data[at : at + 4], "little") * p[2]) & whole, 17) * p[3] & whole
        at += 4
    for byte in data[at:]:
        h = turn((h + byte * p[4]) & whole, 11) * p[0] & whole
    h = (h ^ (h >> 15)) * p[1] & whole
    h = (h ^ (h >> 13)) * p[2] & whole
    return h ^ (h >> 16)


def philox(key0, key1, counters):
    whole = np.uint64(2**32 - 1)
    c = [np.asarray(x, dtype=np.uint64) for x in counters]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(key0), b & whole, (a >> np.uint64(32)) ^ c[3] ^ np.uint64(key1),
             a & whole]
        key0, key1 = (key0 + 0x9E3779B9) % 2**32, (key1 + 0xBB67AE85) % 2**32
    return c


def resample(n, r):
    groups = np.arange((n + 3) // 4, dtype=np.uint64)
    zero = np.zeros_like(groups)
    words = philox(0, xxh32(b"bootstrap"), [groups, zero + np.uint64(r), zero, zero + np.uint64(5)])
    return (np.stack(words, axis=1).reshape(-1)[:n] * np.uint64(n) >> np.uint64(32)).astype(int)


def logs(probs):
    return np.log(np.maximum(probs.astype(np.float64), TINY))


def slope(probs, labels, b, doubt=0):
    """doubt: the share of a row's target that its likeliest class other than the label has."""
    z = logs(probs)
    own = z[np.arange(len(z)), labels]
    other = np.where(np.eye(z.shape[1], dtype=bool)[labels], -np.inf, z).max(axis=1)
    return np.mean(np.sum(softmax(b * z, axis=1) * z, axis=1) - (1 - doubt) * own - doubt * other)


def loss(probs, labels, b=1.0):
    return -np.mean(log_softmax(b * logs(probs), axis=1)[np.arange(len(probs)), labels])


def temperature(probs, labels):
    own = probs[np.arange(len(probs)), labels][:, None]
    if np.all(probs == probs[:, :1]):
        return 1.0, "flat"
    if np.all(own >= probs):
        smoothed = lambda b: slope(probs, labels, b, 1 / (len(probs) + 2))
        if smoothed(1) >= 0:
            return 1.0, "separated"
        return (1 / SHARPEST if smoothed(SHARPEST) <= 0 else
                1 / brentq(smoothed, 1, SHARPEST, xtol=1e-14, rtol=1e-14)), "separated"
    if slope(probs, labels, 1 / MOST) >= 0:
        return MOST, "bounded"
    if slope(probs, labels, MOST) <= 0:
        return 1 / MOST, "bounded"
    return 1 / brentq(lambda b: slope(probs, labels, b), 1 / MOST, MOST, xtol=1e-14, rtol=1e-14), "found"


def apply(probs, t):
    return probs if t == 1 else softmax(logs(probs) / t, axis=1).astype(F32)


def ece(probs, labels):
    confidence, best = probs.max(axis=1).astype(np.float64), probs.argmax(axis=1)
    bins = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    return sum(np.mean(bins == k) * abs(np.mean(best[bins == k] == labels[bins == k]) - np.mean(confidence[bins == k]))
               for k in np.unique(bins))


def brier(probs, labels, positive):
    if positive >= 0:
        return metrics.brier_score_loss(labels == positive, probs[:, positive].astype(np.float64), pos_label=True)
    return metrics.brier_score_loss(labels, probs.astype(np.float64) / probs.sum(axis=1, dtype=np.float64)[:, None],
                                    labels=np.arange(probs.shape[1]))


def threshold(score, truth, target):
    """By trying all: (threshold, precision, recall, F1, reached); the threshold above all is null."""
    if not truth.any():
        return None
    kind, _, value = target.partition("=")
    rows = []
    for at in [None, *np.unique(score)[::-1]]:  # falling
        said = np.zeros(len(score), bool) if at is None else score >= at
        fp, fn = np.sum(said & ~truth), np.sum(~said & truth)
        rows.append((at, metrics.precision_score(truth, said, zero_division=0), metrics.recall_score(truth, said),
                     metrics.f1_score(truth, said), fp, fn))
    reached = True
    if kind == "f1":
        best = max(r[3] for r in rows)
        chosen = [r for r in rows if r[3] == best][-1]
    elif kind == "precision":
        fit = [r for r in rows[1:] if r[1] >= float(value)]
        reached = bool(fit)
        best = max(r[1] for r in rows[1:])
        chosen = fit[-1] if fit else [r for r in rows[1:] if r[1] == best][-1]
    elif kind == "recall":
        chosen = [r for r in rows if r[2] >= float(value)][0]
    else:
        a, b = map(float, value.split(":"))
        best = min(r[4] * a + r[5] * b for r in rows)
        chosen = [r for r in rows if r[4] * a + r[5] * b == best][-1]
    return {"threshold": None if chosen[0] is None else float(chosen[0]), "precision": chosen[1], "recall": chosen[2],
            "f1": chosen[3], "reached": reached}


def areas(probs, labels, positive):
    """PR AUC, average precision, ROC AUC: of the positive class, else means over classes that have rows."""
    found = []
    for c in [positive] if positive >= 0 else range(probs.shape[1]):
        truth, score = labels == c, probs[:, c]
        if not truth.any():
            continue
        p, r, _ = metrics.precision_recall_curve(truth, score)
        roc = np.nan if truth.all() else metrics.roc_auc_score(truth, score)
        found.append((metrics.auc(r, p), metrics.average_precision_score(truth, score), roc))
    each = np.array(found).reshape(-1, 3).T
    return [float(np.mean(e[~np.isnan(e)])) if (~np.isnan(e)).any() else np.nan for e in each]


def figures(probs, labels, positive, weights):
    n = probs.shape[1]
    best = probs.argmax(axis=1)
    each = -logs(probs)[np.arange(len(labels)), labels]
    w = np.array(weights)[labels]
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(labels, best, labels=np.arange(n),
                                                                       zero_division=0)
    pr, ap, roc = areas(probs, labels, positive)
    return [float(np.sum(each * w) / np.sum(w)), float(np.mean(each)), metrics.accuracy_score(labels, best),
            metrics.f1_score(labels, best, average="macro", zero_division=0), pr, ap, roc, ece(probs, labels),
            brier(probs, labels, positive), *precision, *recall, *f1]


def normals(count):
    """tri__random_normal of seed 0."""
    groups = np.arange((count + 3) // 4, dtype=np.uint64)
    zero = np.zeros_like(groups)
    words = philox(0, xxh32(b"reliability"), [groups, zero, zero, zero + np.uint64(1)])
    w = [x.astype(np.float64) * 2.0**-32 for x in words]
    pairs = []
    for a, b in ((w[0], w[1]), (w[2], w[3])):
        radius = np.sqrt(-2 * np.log(a + 2.0**-32))
        pairs += [radius * np.cos(2 * np.pi * b), radius * np.sin(2 * np.pi * b)]
    return np.stack(pairs, axis=1).reshape(-1)[:count].astype(F32).astype(np.float64)


def wilson(hits, n):
    if n == 0:
        return None
    found = binomtest(int(hits), int(n)).proportion_ci(0.95, method="wilson")
    return [found.low, found.high]


def ece_interval(probs, labels):
    """The errors that one like that of the rows is not unusual for."""
    confidence, best = probs.max(axis=1).astype(np.float64), probs.argmax(axis=1)
    bins = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    ks, n = np.unique(bins, return_counts=True)
    mean = np.array([np.mean(confidence[bins == k]) for k in ks])
    gap = np.array([np.mean(best[bins == k] == labels[bins == k]) for k in ks]) - mean
    seen = ece(probs, labels)
    z = normals(RESAMPLES * BINS).reshape(RESAMPLES, BINS)[:, ks]

    def at(error):
        accuracy = np.clip(mean + error * (gap / seen if seen > 0 else -np.ones_like(gap)), 0, 1)
        p = (accuracy * n + 0.5) / (n + 1)
        drawn = np.sum(n / len(labels) * np.abs(accuracy - mean + z * np.sqrt(p * (1 - p) / n)), axis=1)
        return np.mean(drawn <= seen) >= 0.025, np.mean(drawn >= seen) >= 0.025, \
            np.sum(n / len(labels) * np.abs(accuracy - mean))

    ends = []
    for side, first in ((1, 0.0), (0, 1.0)):
        low, high, found = 0.0, 1.0, first
        if not at(first)[side]:
            for _ in range(30):
                middle = (low + high) / 2
                low, high = (low, middle) if at(middle)[side] == bool(side) else (middle, high)
            found = high if side else low
        ends.append(at(found)[2])
    return [min(ends[0], seen), max(ends[1], seen)]


def intervals(probs, labels, positive, weights):
    drawn = [resample(len(labels), r) for r in range(RESAMPLES)]
    values = np.array([figures(probs[d], labels[d], positive, weights) for d in drawn]).T
    found = [None if np.isnan(v).all() or np.ptp(v[~np.isnan(v)]) <= 1e-12 * abs(np.nanmin(v))
             else list(np.percentile(v[~np.isnan(v)], [2.5, 97.5])) for v in values]
    k, best = probs.shape[1], probs.argmax(axis=1)
    shares = [[], [], []]
    for c in range(k):
        of, called = labels == c, best == c
        both, either = wilson(np.sum(of & called), np.sum(called)), wilson(np.sum(of & called), np.sum(of | called))
        shares[0].append(both)
        shares[1].append(wilson(np.sum(of & called), np.sum(of)))
        shares[2].append(either and [2 * e / (1 + e) for e in either])
    found[FIGURES:] = shares[0] + shares[1] + shares[2]
    found[2] = wilson(np.sum(labels == best), len(labels))
    # macro F1: the classes' F1, NaN in resamples in which no row is of the class or called it
    there = [c for c in range(k) if shares[2][c]]
    each = np.array([[f1(probs[d], labels[d], c) for d in drawn] for c in there])
    own = np.array([f1(probs, labels, c) for c in there])
    far = np.abs(np.array([shares[2][c] for c in there]).T - own) / len(there)
    mean, deviation = np.nanmean(each, axis=1), np.nanstd(each, axis=1)
    z = np.nan_to_num((each - mean[:, None]) / np.where(deviation > 1e-12, deviation, np.inf)[:, None])
    together = z @ z.T / RESAMPLES
    still = deviation <= 1e-12
    together[np.outer(still, still)] = 1 / max(len(there) - 1, 1)
    together[np.diag_indices(len(there))] = np.where(still, 1, np.diag(together))
    middle = 2 * np.mean(own) - np.mean(np.nanmean(each, axis=0))
    ends = [middle - np.sqrt(far[0] @ together @ far[0]), middle + np.sqrt(far[1] @ together @ far[1])]
    found[3] = [min(max(ends[0], 0), np.mean(own)), max(min(ends[1], 1), np.mean(own))]
    found[7] = ece_interval(probs, labels)
    return found


def f1(probs, labels, c):
    of, called = labels == c, probs.argmax(axis=1) == c
    return 2 * np.sum(of & called) / (np.sum(of) + np.sum(called)) if np.any(of | called) else np.nan


def make_cases():
    rng = np.random.default_rng(7)

    def learned(n, classes, sharp, share):
        """Rows whose logits are right by and large, and `sharp` times too certain."""
        labels = rng.choice(classes, n, p=share)
        z = rng.normal(size=(n, classes)) + 1.2 * np.eye(classes)[labels]
        return softmax(sharp * z, axis=1).astype(F32), labels

    two, rows = learned(61, 2, 3.0, [0.7, 0.3])
    yield "two classes", two, rows, 1, [1, 1]
    yield "the other is positive", two, rows, 0, [1, 3]
    soft, rows = learned(53, 2, 0.4, [0.5, 0.5])
    yield "too cautious", soft, rows, 1, [1, 1]
    three, rows = learned(64, 3, 2.0, [0.5, 0.3, 0.2])
    yield "three classes", three, rows, -1, [1, 2, 0.5]
    pair = lambda p: np.stack([1 - np.array(p, F32), np.array(p, F32)], axis=1)
    yield "separated", pair([0.1, 0.2, 0.6, 0.9, 0.8]), np.array([0, 0, 1, 1, 1]), 1, [1, 1]
    yield "separated, cautious", pair([0.42, 0.45, 0.55, 0.6, 0.65, 0.7]), np.array([0, 0, 1, 1, 1, 1]), 1, [1, 1]
    yield "separated, barely", pair([0.4999, 0.4998, 0.5001, 0.5002]), np.array([0, 0, 1, 1]), 1, [1, 1]
    yield "separated, sure", pair([0.0001, 0.0002, 0.9999, 0.9998]), np.array([0, 0, 1, 1]), 1, [1, 1]
    three = softmax(rng.normal(size=(40, 3)), axis=1).astype(F32)
    yield "separated, three classes", three, three.argmax(axis=1), -1, [1, 2, 0.5]
    yield "one class", pair([0.1, 0.7, 0.4, 0.2]), np.array([0, 0, 0, 0]), 1, [1, 1]
    yield "one class, the positive one", pair([0.1, 0.7, 0.4, 0.2]), np.array([1, 1, 1, 1]), 1, [1, 1]
    yield "one row", pair([0.25]), np.array([1]), 1, [1, 1]
    yield "all equal", pair([0.5] * 6), np.array([0, 1, 0, 1, 1, 1]), 1, [1, 1]
    ties = [0.5, 0.5, 0.25, 0.75, 0.75, 0.5, 0.25, 0.75, 0.125, 0.875]
    yield "ties", pair(ties), np.array([0, 1, 0, 1, 0, 1, 1, 1, 0, 1]), 1, [1, 1]
    sure = [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.5, 1.0]
    yield "zeros and ones", pair(sure), np.array([0, 1, 0, 0, 1, 1, 1, 1]), 1, [1, 1]
    yield "worse than chance", pair([0.9, 0.8, 0.1, 0.3]), np.array([0, 0, 1, 1]), 1, [1, 1]


def case(name, probs, labels, positive, weights):
    t, fit = temperature(probs, labels)
    after = apply(probs, t)
    score = after[:, positive]
    return {"name": name, "classes": probs.shape[1], "positive": positive, "weights": weights,
            "probs": [float(p) for p in probs.reshape(-1)], "labels": [int(y) for y in labels], "temperature": t,
            "fit": fit, "log_loss": [loss(probs, labels), loss(probs, labels, 1 / t)],
            "ece": [ece(probs, labels), ece(after, labels)],
            "brier": [brier(probs, labels, positive), brier(after, labels, positive)],
            "thresholds": {k: threshold(score, labels == positive, k) for k in TARGETS} if positive >= 0 else {},
            "intervals": intervals(probs, labels, positive, weights)}


def rounded(value):
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(v) for v in value]
    if isinstance(value, (bool, str)) or value is None:
        return value
    return value if isinstance(value, int) else float("%.12g" % value)


warnings.simplefilter("ignore")  # figures of a resample without one of the classes
folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "tests", "golden")
written = {"resamples": RESAMPLES, "cases": [rounded(case(*c)) for c in make_cases()]}
golden_json.write(os.path.join(folder, "decision.json"), written)
