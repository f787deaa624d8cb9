"""Several labels: cells, columns, matrices; matrices of 0 and 1 as answers; copies."""
from __future__ import annotations

import pickle
import unittest

import support
import trident
from support import ENCODER, Case, rows_of

LABELS = ["box", "good", "late"]


def make_tags(rows: int, first: int = 0) -> dict[str, list]:
    """Each word of three says whether a label is there."""
    table: dict[str, list] = {name: [] for name in ("text", "weight", "tags", *LABELS)}
    for i in range(first, first + rows):
        has = [i % 2, int(i // 2 % 3 == 0), int((i * 7 + i // 5) % 5 < 2)]
        table["text"].append(f"the {'box' if has[0] else 'f'} was {'good' if has[1] else 'bad'} and "
                             f"{'late' if has[2] else 'early'}")
        table["weight"].append(i % 17)
        table["tags"].append(";".join(name for name, is_there in zip(LABELS, has) if is_there))
        for name, is_there in zip(LABELS, has):
            table[name].append(is_there)
    return table


def inputs(table: dict[str, list]) -> dict[str, list]:
    return {name: table[name] for name in ("text", "weight")}


def matrix(table: dict[str, list]) -> list[list[int]]:
    return [list(row) for row in zip(*(table[name] for name in LABELS))]


def listed(found: object) -> list:
    return [[float(each) for each in row] for row in found]  # type: ignore[attr-defined]


class Several(Case):
    def classifier(self, **options: object) -> trident.MultiLabelClassifier:
        config = {"primary_text_name": "text", "tab_field_list": ["weight"], "primary_tokenizer": self.model,
                  "primary_encoder": ENCODER, "hidden_common_dim": 16, "fusion_hidden_dim": 16, "max_sen_len": 32,
                  "lr": 5e-3, "batch_size": 16, "epochs": 6, "threads": 1, "pooling": "mean", "num_classes": 3}
        return trident.MultiLabelClassifier(config=config, progress=False, device="cpu", **options)

    def test_it_learns(self):
        train, valid, test = make_tags(256), make_tags(64, 256), make_tags(100, 320)
        model = self.classifier().fit(train, "tags", eval_set=(valid, "tags"))
        self.assertEqual(list(model.classes_), LABELS)
        found, true = listed(model.predict(inputs(test))), matrix(test)
        right = sum(a == b for a, b in zip(found, true)) / len(true)
        self.assertGreater(right, 0.9)
        self.assertAlmostEqual(model.score(test, "tags"), right, 6)
        probabilities = listed(model.predict_proba(inputs(test)))
        self.assertTrue(all(0 <= each <= 1 for row in probabilities for each in row))
        self.assertEqual(listed(model.predict(rows_of(inputs(test)))), found)
        copy = pickle.loads(pickle.dumps(model))
        self.assertEqual(listed(copy.predict(inputs(test))), found)
        again = trident.load(model.save(self.path("saved")))
        self.assertIsInstance(again, trident.MultiLabelClassifier)
        self.assertEqual(listed(again.predict_proba(inputs(test))), probabilities)

    def test_labels_may_be_cells_columns_a_matrix_or_lists(self):
        train = make_tags(64)
        lists = [[name for name, is_there in zip(LABELS, row) if is_there] for row in matrix(train)]
        ways = {"cells": (train, "tags"), "columns": (train, "box,good,late"), "matrix": (inputs(train), matrix(train)),
                "lists": (inputs(train), lists)}
        found = {}
        for name, (X, y) in ways.items():
            model = self.classifier(max_steps=4).fit(X, y)
            found[name] = listed(model.predict_proba(inputs(train)))
            self.assertEqual(model.evaluate(X, y)["rows"], 64)
            if name != "matrix":
                self.assertEqual(list(model.classes_), LABELS)
        self.assertTrue(all(each == found["cells"] for each in found.values()))

    def test_arrays_of_numpy(self):
        try:
            import numpy as np
        except ImportError:
            self.skipTest("no numpy")
        train = make_tags(64)
        model = self.classifier(max_steps=4).fit(inputs(train), np.array(matrix(train)))
        self.assertEqual(list(model.classes_), ["label_0", "label_1", "label_2"])
        found = model.predict(inputs(train))
        self.assertEqual((found.shape, found.dtype), ((64, 3), np.int64))

    def test_scikit_learns_figures(self):
        try:
            from sklearn import metrics
        except ImportError:
            self.skipTest("no scikit-learn")
        train, test = make_tags(64), make_tags(60, 64)
        model = self.classifier(max_steps=8).fit(train, "tags")
        figures, true, found = model.evaluate(test, "tags"), matrix(test), listed(model.predict(inputs(test)))
        for kind in ("micro", "macro", "samples"):
            self.assertAlmostEqual(figures[f"f1_{kind}"],
                                   metrics.f1_score(true, found, average=kind, zero_division=0), 9)
        self.assertAlmostEqual(figures["lrap"], metrics.label_ranking_average_precision_score(
            true, listed(model.predict_proba(inputs(test)))), 9)

    def test_what_has_no_meaning_is_refused(self):
        with self.assertRaisesRegex(trident.UsageError, "not a loss of this task"):
            self.classifier(loss="cross_entropy").fit(make_tags(64), "tags")
        with self.assertRaisesRegex(trident.UsageError, "no column"):
            self.classifier().fit(make_tags(64), "box,music")


if __name__ == "__main__":
    unittest.main()
