"""Writes tests/golden/stack.json, which test_stack and test_trees compare with: scikit-learn's ridge and logistic
regression and TF-IDF; models of libxgboost as its JSON, with what XGBoosterPredict says of rows.

    .venv/bin/python tools/golden_stack.py [FOLDER]     with libxgboost-dev installed
"""
import ctypes
import json
import os
import sys

import numpy as np
import sklearn
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

import golden_json

WORDS = "the box was good bad late fine unbelievable".split()
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "box", "was", "good", "bad", "late", "fine", "un",
          "##believ", "##able"]
NOTHING = np.float32(np.nan)


def texts(random):
    documents = [" ".join(random.choice(WORDS, random.integers(1, 9))) for _ in range(24)]
    vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2, lowercase=False,
                              token_pattern=r"\S+").fit_transform(documents)
    return {"pieces": PIECES, "documents": documents,
            "values": [sorted(vectors[i].data.tolist()) for i in range(len(documents))]}


def linear(random):
    cases = []
    for name, classes, penalty, rows, features in (
            ("ridge", 0, 0.7, 40, 5), ("ridge, strong", 0, 90.0, 40, 5), ("two", 2, 0.5, 60, 4),
            ("two, weak", 2, 0.01, 60, 4), ("four", 4, 2.0, 80, 6), ("three", 3, 0.2, 50, 3)):
        x = random.standard_normal((rows, features)).astype(np.float32)
        x[:, features // 2:][random.random((rows, features - features // 2)) < 0.6] = 0  # the sparse part
        score = x @ random.standard_normal((features, max(classes, 1))) + 0.7 * random.standard_normal((rows, 1))
        y = score[:, 0] if not classes else np.argmax(score, axis=1) if classes > 2 else (score[:, 0] > 0.2).astype(int)
        weight = random.choice([0.5, 1.0, 2.0], rows)
        if classes:
            model = LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=100000).fit(x.astype(float), y, weight)
            at, bias = model.coef_, model.intercept_
        else:
            model = Ridge(alpha=penalty, tol=1e-12).fit(x.astype(float), y.astype(np.float32), weight)
            at, bias = model.coef_[None], np.atleast_1d(model.intercept_)
        cases.append({"name": name, "classes": classes, "penalty": penalty, "dense": features // 2,
                      "x": x.flatten().tolist(), "y": np.float32(y).tolist(), "weight": weight.tolist(),
                      "at": np.vstack([at.T, bias[None]]).flatten().tolist()})
    return cases


def boosted(random):
    library = ctypes.CDLL("libxgboost.so")
    library.XGBGetLastError.restype = ctypes.c_char_p

    def call(name, *args):
        if getattr(library, name)(*args):
            raise RuntimeError(library.XGBGetLastError().decode())

    def matrix(x, y=None):
        made = ctypes.c_void_p()
        call("XGDMatrixCreateFromMat", x.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(len(x)),
             ctypes.c_uint64(x.shape[1]), ctypes.c_float(NOTHING), ctypes.byref(made))
        if y is not None:
            call("XGDMatrixSetFloatInfo", made, b"label", y.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(len(y)))
        return made

    cases = []
    for name, objective, classes, depth, rounds in (
            ("two classes", "binary:logistic", 0, 4, 4), ("three classes", "multi:softprob", 3, 2, 3),
            ("a number", "reg:squarederror", 0, 3, 5), ("a stump", "binary:logistic", 0, 1, 1),
            ("a leaf", "reg:squarederror", 0, 3, 1)):
        x = random.standard_normal((150, 6)).astype(np.float32)
        x[random.random(x.shape) < 0.2] = NOTHING
        score = np.nan_to_num(x[:, 0] * x[:, 1] + x[:, 2], nan=0.4)
        y = np.float32(score if objective.startswith("reg") else np.digitize(score, [-0.3, 0.5][:max(classes - 1, 1)]))
        if name == "a leaf":
            y[:] = 3
        made, booster = matrix(x, y), ctypes.c_void_p()
        call("XGBoosterCreate", (ctypes.c_void_p * 1)(made), ctypes.c_uint64(1), ctypes.byref(booster))
        parameters = {"objective": objective, "max_depth": depth, "tree_method": "hist", "nthread": 1,
                      **({"num_class": classes} if classes else {})}
        for key, value in parameters.items():
            call("XGBoosterSetParam", booster, key.encode(), str(value).encode())
        for i in range(rounds):
            call("XGBoosterUpdateOneIter", booster, i, made)
        length, text, answer = ctypes.c_uint64(), ctypes.c_char_p(), ctypes.POINTER(ctypes.c_float)()
        call("XGBoosterSaveModelToBuffer", booster, b'{"format": "json"}', ctypes.byref(length), ctypes.byref(text))
        model = json.loads(ctypes.string_at(text, length.value))
        test = random.standard_normal((37, 6)).astype(np.float32)
        test[random.random(test.shape) < 0.2] = NOTHING
        test[0] = NOTHING
        call("XGBoosterPredict", booster, matrix(test), 0, 0, 0, ctypes.byref(length), ctypes.byref(answer))
        cases.append({"name": name, "model": model, "rows": [None if np.isnan(v) else float(v) for v in test.flatten()],
                      "answers": [answer[i] for i in range(length.value)]})
    version = [ctypes.c_int() for _ in range(3)]
    library.XGBoostVersion(*[ctypes.byref(v) for v in version])
    return cases, ".".join(str(v.value) for v in version)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "tests/golden"
    random = np.random.default_rng(11)
    trees, version = boosted(random)
    golden_json.write(os.path.join(folder, "stack.json"),
                      {"texts": [texts(random)], "linear": linear(random), "trees": trees,
                       "made_by": f"tools/golden_stack.py, scikit-learn {sklearn.__version__}, libxgboost {version}"})


if __name__ == "__main__":
    main()
