"""Regressors: numbers and quantiles as labels; intervals, copies, what a Regressor has not."""
from __future__ import annotations

import math
import os
import pickle
import unittest

import support
import trident
from support import ENCODER, Case, rows_of


def make_prices(rows: int, first: int = 0) -> dict[str, list]:
    """A price that a word and a weight make, and some noise."""
    table: dict[str, list] = {"text": [], "weight": [], "price": []}
    for i in range(first, first + rows):
        good, weight = (i * 7 + i // 3) % 2, i * 13 % 50
        table["text"].append(f"the box was {'good' if good else 'bad'}")
        table["weight"].append(weight)
        table["price"].append(100 + 40 * good + 2 * weight + 3 * ((i * 7919 % 1000) / 500 - 1))
    return table


def without_price(table: dict[str, list]) -> dict[str, list]:
    return {name: values for name, values in table.items() if name != "price"}


class Numbers(Case):
    def regressor(self, **options: object) -> trident.Regressor:
        config = {"primary_text_name": "text", "tab_field_list": ["weight"], "primary_tokenizer": self.model,
                  "primary_encoder": ENCODER, "hidden_common_dim": 16, "fusion_hidden_dim": 16, "max_sen_len": 32,
                  "lr": 5e-3, "batch_size": 16, "epochs": 6, "threads": 1, "pooling": "mean"}
        return trident.Regressor(config=config, progress=False, device="cpu", **options)

    def test_it_learns(self):
        train, valid, test = make_prices(256), make_prices(64, 256), make_prices(100, 320)
        model = self.regressor().fit(train, "price", eval_set=(valid, "price"))
        found, true = [float(each) for each in model.predict(without_price(test))], test["price"]
        mean = sum(true) / len(true)
        r2 = 1 - sum((a - b) ** 2 for a, b in zip(found, true)) / sum((b - mean) ** 2 for b in true)
        self.assertGreater(r2, 0.7)
        self.assertAlmostEqual(model.score(test, "price"), r2, 5)
        figures = model.evaluate(test, "price")
        self.assertAlmostEqual(figures["rmse"],
                               math.sqrt(sum((a - b) ** 2 for a, b in zip(found, true)) / len(true)), 3)
        ends = [[float(end) for end in row] for row in model.predict_interval(without_price(test))]
        inside = sum(low <= each <= high for (low, high), each in zip(ends, true)) / len(true)
        self.assertGreater(inside, 0.8)
        self.assertTrue(all(low < each < high for (low, high), each in zip(ends, found)))
        rows = [float(each) for each in model.predict(rows_of(without_price(test)))]
        self.assertEqual(rows, found)
        copy = pickle.loads(pickle.dumps(model))
        self.assertEqual([float(each) for each in copy.predict(without_price(test))], found)
        folder = model.save(self.path("saved"))
        again = trident.load(folder)
        self.assertIsInstance(again, trident.Regressor)
        self.assertEqual([float(each) for each in again.predict(without_price(test))], found)
        self.assertIn("r2", model._repr_html_())
        for name in ("predict_proba", "classes_"):
            self.assertFalse(hasattr(model, name))

    def test_quantiles(self):
        model = self.regressor(quantiles=[0.1, 0.5, 0.9], target_transform="log", epochs=2)
        model.fit(make_prices(128), "price", eval_set=(make_prices(64, 128), "price"))
        for row in model.predict_quantiles(without_price(make_prices(20, 300))):
            self.assertEqual(sorted(map(float, row)), list(map(float, row)))
            self.assertEqual(len(row), 3)

    def test_without_validation_there_are_no_intervals(self):
        model = self.regressor(max_steps=2).fit(make_prices(64), "price")
        with self.assertRaisesRegex(AttributeError, "eval_set"):
            model.predict_interval(without_price(make_prices(4)))
        with self.assertRaisesRegex(AttributeError, "quantiles"):
            model.predict_quantiles(without_price(make_prices(4)))

    def test_losses_of_other_tasks_are_refused(self):
        with self.assertRaisesRegex(trident.UsageError, "not a loss of this task"):
            self.regressor(loss="cross_entropy").fit(make_prices(64), "price")


if __name__ == "__main__":
    unittest.main()
