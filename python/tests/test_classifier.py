"""Classifiers: training, prediction, figures, copies, threads; a tiny model on tables in memory and in files."""
from __future__ import annotations

import copy
import gc
import json
import os
import pickle
import subprocess
import sys
import threading
import unittest

import support
import trident
from support import Case, make_table, rows_of, without_label, write_csv


def matrix(values):
    """Probabilities as lists, whether numpy is there or not."""
    return [list(map(float, row)) for row in values.tolist()]


class Fit(Case):
    def test_inputs_are_alike(self):
        """A dict of columns, a list of dicts, a label in the table and a file train the same model."""
        table = make_table(96)
        X, y = without_label(table), table["label"]
        path = write_csv(self.path("train.csv"), table)
        rows = make_table(8, 100)
        expected = matrix(self.fitted().predict_proba(without_label(rows)))
        for X, y in ((rows_of(X), y), (table, "label"), (path, None), (path, "label")):
            found = self.classifier(max_steps=6).fit(X, y)
            self.assertEqual(matrix(found.predict_proba(without_label(rows))), expected)

    def test_rows_and_tables_predict_alike(self):
        model, table = self.fitted(), without_label(make_table(20, 300))
        expected = matrix(model.predict_proba(table))
        self.assertEqual(matrix(model.predict_proba(rows_of(table))), expected)
        self.assertEqual([matrix(model.predict_proba(row))[0] for row in rows_of(table)], expected)
        path = write_csv(self.path("new.csv"), table)
        for ours, of_file in zip(expected, matrix(model.predict_proba(path))):
            self.assertLess(max(abs(a - b) for a, b in zip(ours, of_file)), 1e-6)
        for row in expected:
            self.assertAlmostEqual(sum(row), 1, 5)

    def test_labels_keep_their_type(self):
        table = make_table(96)
        X = without_label(table)
        for names in ([0, 1], [7, 13], [False, True], [0.5, 2.0], ["no", "yes"], ["False", "True"]):
            model = self.classifier(max_steps=2).fit(X, [names[each] for each in table["label"]])
            self.assertEqual(list(model.classes_), names)
            found = model.predict({name: values[:4] for name, values in X.items()})
            self.assertEqual(len(found), 4)
            for each in found:
                self.assertIn(each, names)

    def test_more_classes_are_in_order(self):
        table = make_table(96)
        y = [i % 12 for i in range(96)]
        config = support.config(self.model, is_binary=False, num_classes=12)
        model = trident.Classifier(config=config, max_steps=4).fit(without_label(table), y)
        self.assertEqual(list(model.classes_), list(range(12)))
        rows = rows_of(without_label(table))[:30]
        found, chosen = matrix(model.predict_proba(rows)), list(model.predict(rows))
        self.assertEqual([row.index(max(row)) for row in found], chosen)

    def test_weights_of_rows(self):
        table = make_table(96)
        X, y = without_label(table), table["label"]
        plain = trident.run("digest", self.fitted(output_dir=self.path("plain")).run_dir_)
        alike = self.classifier(max_steps=6).fit(X, y, sample_weight=[2] * 96)
        turned = [0 if i % 3 else 1 for i in range(96)]
        turned_y = [label if weight else 1 - label for label, weight in zip(y, turned)]
        other = self.classifier(max_steps=6).fit(X, turned_y, sample_weight=turned)
        same = self.classifier(max_steps=6).fit({**X, "factor": turned}, y, sample_weight="factor")
        self.assertEqual(trident.run("digest", other.run_dir_), trident.run("digest", same.run_dir_))
        self.assertNotEqual(trident.run("digest", other.run_dir_), plain)
        self.assertEqual(list(same.feature_names_in_), list(X))
        rows = rows_of(X)[:4]
        for ours, theirs in zip(matrix(alike.predict_proba(rows)), matrix(self.fitted().predict_proba(rows))):
            self.assertAlmostEqual(ours[0], theirs[0], 5)
        guessed = trident.Classifier(encoder=self.model, max_steps=2, progress=False)
        guessed.fit(table, "label", sample_weight=[1.5] * 96, eval_set=(make_table(20, 96), "label"))
        self.assertEqual(sorted(guessed._fit_model.columns), ["size", "text", "track", "weight"])
        with self.raises(trident.DataError, "weight"):
            self.classifier(max_steps=2).fit(X, y, sample_weight=[-1] * 96)

    def test_facts(self):
        model = self.fitted()
        self.assertEqual(model.n_features_in_, 4)
        self.assertEqual(list(model.feature_names_in_), ["text", "track", "size", "weight"])
        self.assertTrue(os.path.exists(os.path.join(model.run_dir_, "metrics.jsonl")))
        run = model.run_dir_
        self.assertIn("<table>", model._repr_html_())
        del model
        gc.collect()
        self.assertFalse(os.path.exists(run), "a temporary run folder goes with its classifier")

    def test_evaluation(self):
        table, valid = make_table(96), make_table(40, 96)
        model = self.classifier(epochs=6, lr=5e-3)
        model.fit(table, "label", eval_set=(without_label(valid), valid["label"]))
        figures = model.evaluate(valid, bootstrap=0)
        self.assertEqual(figures["rows"], 40)
        self.assertEqual(model.score(without_label(valid), valid["label"]), figures["accuracy"])
        chosen = model.predict(without_label(valid))
        right = sum(a == b for a, b in zip(chosen, valid["label"])) / 40
        self.assertAlmostEqual(model.score(valid, "label"), right, 6)
        with open(os.path.join(model.run_dir_, "summary.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["valid"]["rows"], 40)
        self.assertIn("accuracy", model._repr_html_())
        explained = model.explain(without_label(valid), rows=2)
        self.assertEqual([each["row"] for each in explained], [1, 2])
        self.assertIn("effect", explained[0]["inputs"][0])
        self.assertIsInstance(model.explain(valid, importance=True, repeats=1, rows=10), dict)
        self.assertIn("Trident report", model.report().text)

    def test_starter_configuration(self):
        """Without a configuration: columns are guessed, a vocabulary is learned."""
        table = make_table(200)
        model = trident.Classifier(max_steps=2, batch_size=16, progress=False)
        model.fit(without_label(table), table["label"])
        self.assertEqual(sorted(model._fit_model.columns), ["size", "text", "track", "weight"])
        one = trident.Classifier(text="track", numbers=["size"], encoder=self.model, max_steps=2, progress=False)
        one.fit(without_label(table), table["label"])
        self.assertEqual(one._fit_model.columns, ["track", "size"])
        none = trident.Classifier(text=["text", "track"], numbers=None, encoder=self.model, max_steps=2,
                                  progress=False).fit(table, "label")
        self.assertEqual(none._fit_model.columns, ["text", "track"])
        odd = {"a, b": table["text"], " c": table["size"], "label": table["label"]}
        model = trident.Classifier(text=["a, b"], encoder=self.model, max_steps=2, progress=False).fit(odd, "label")
        self.assertEqual(model._fit_model.columns, ["a, b", " c"])
        auto = trident.Classifier(text=["text"], encoder=self.model, max_steps=2, progress=False)
        auto.fit(table, "label")
        self.assertEqual(auto._fit_model.columns, ["text", "track", "size", "weight"])  # track: a category

    def test_more_than_two_texts(self):
        """Each is a branch of its own, of numbers and several labels, too; a second encoder reads the others."""
        table = make_table(96)
        table["more"] = [f"found {chr(97 + i % 26)} and lost {chr(97 + i // 26)}" for i in range(96)]
        table["note"] = [f"it was {word}" for word in table["more"]]
        names = ["text", "track", "more", "note"]
        rows = without_label({name: values[:5] for name, values in table.items()})
        model = self.classifier(max_steps=2, text=names).fit(table, "label")
        self.assertEqual(model._fit_model.columns, [*names, "size", "weight"])
        expected = matrix(model.predict_proba(rows))
        self.assertEqual([matrix(model.predict_proba(row))[0] for row in rows_of(rows)], expected)
        given = {"encoder": self.model, "max_steps": 2, "progress": False}
        guessed = trident.Classifier(**given).fit(table, "label")
        self.assertEqual(guessed._fit_model.columns[:3], ["text", "note", "more"])
        pair = trident.Classifier(**{**given, "encoder": (self.model, support.make_model(self.path("other")))},
                                  text=names, numbers=None).fit(table, "label")
        self.assertEqual(pair._fit_model.columns, names)
        number = trident.Regressor(**given, text=names, numbers=["weight"]).fit(table, "size")
        self.assertEqual(len(number.predict(rows)), 5)
        labels = trident.MultiLabelClassifier(**given, text=names, numbers=["weight"]).fit(
            {**table, "even": [i % 2 for i in range(96)]}, "label,even")
        self.assertEqual(len(labels.predict(rows)), 5)

    def test_output_dir_resumes(self):
        table = make_table(96)
        folder = self.path("resumed")
        first = self.classifier(output_dir=folder, until_epoch=1).fit(table, "label")
        before = trident.run("digest", first.run_dir_)
        second = self.classifier(output_dir=folder).fit(table, "label")
        self.assertEqual(second.run_dir_, folder)
        self.assertNotEqual(trident.run("digest", folder), before)
        whole = self.classifier(output_dir=self.path("whole")).fit(table, "label")
        self.assertEqual(trident.run("digest", folder), trident.run("digest", whole.run_dir_))

    def test_same_bits_as_the_program(self):
        table = make_table(96)
        write_csv(self.path("alike.csv"), table)
        with open(self.path("alike.json"), "w", encoding="utf-8") as out:
            json.dump(support.config(self.model), out)
        subprocess.run([support.PROGRAM, "train", "--config", self.path("alike.json"), "--data-path",
                        self.path("alike.csv"), "--output-dir", self.path("alike"), "--quiet"], check=True,
                       capture_output=True)
        ours = self.classifier(output_dir=self.path("ours")).fit(without_label(table), table["label"])
        self.assertEqual(trident.run("digest", ours.run_dir_), trident.run("digest", self.path("alike")))


class Refusals(Case):
    def test_words(self):
        table = make_table(32)
        X, y = without_label(table), table["label"]
        with self.raises(trident.UsageError, "did you mean"):
            self.classifier(lerning_rate=1).fit(X, y)
        with self.raises(trident.UsageError, "did you mean"):
            trident.Classifier(text="text", numbers=None, encoder=self.model, lerning_rate=1).fit(X, y)
        with self.raises(trident.UsageError, "batch-size", "-3"):
            self.classifier(batch_size=-3).fit(X, y)
        with self.raises(ValueError, "y to be passed"):
            trident.Classifier().fit(X)
        with self.raises(trident.UsageError, 'no column "lable"', "text, track, size, weight, label"):
            self.classifier().fit(table, "lable")
        with self.raises(trident.DataError, "rows"):
            self.classifier().fit(X, y[:-1])
        with self.raises(FileNotFoundError):
            self.classifier().fit(self.path("nowhere.csv"))
        with self.raises(trident.UsageError, "one text"):
            self.classifier().fit({**X, "text": "all"}, y)
        with self.raises(trident.DataError, "3"):
            self.classifier().fit(X, [i % 3 for i in range(32)])

    def test_prediction(self):
        model = self.fitted()
        with self.raises(trident.UsageError, "txet", "text"):
            model.predict([{"txet": "a"}])
        with self.raises(trident.DataError, "size"):
            model.predict([{"text": "a", "size": "many"}])
        with self.raises(trident.DataError, "track"):
            model.predict({"text": ["a"], "size": [1], "weight": [1]})
        self.assertEqual(len(model.predict([{"text": "a box"}])), 1)  # what is left out is missing


class Copies(Case):
    def test_pickle_deepcopy_save(self):
        model, rows = self.fitted(), rows_of(without_label(make_table(6, 50)))
        expected = matrix(model.predict_proba(rows))
        folder = model.save(self.path("saved"))
        for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), trident.load(folder),
                      pickle.loads(pickle.dumps(copy.deepcopy(model)))):
            self.assertEqual(matrix(again.predict_proba(rows)), expected)
            self.assertEqual(list(again.classes_), [0, 1])
            self.assertEqual(list(again.feature_names_in_), ["text", "track", "size", "weight"])
            self.assertEqual(again.get_params()["max_steps"], 6)
        with self.raises(FileExistsError):
            model.save(folder)
        run = trident.load(model.run_dir_)
        self.assertEqual(matrix(run.predict_proba(rows)), expected)
        self.assertEqual(list(run.classes_), ["0", "1"])  # of the program's files, labels are texts
        self.assertGreater(run.score(make_table(20, 50)), 0)
        unfitted = pickle.loads(pickle.dumps(trident.Classifier(epochs=2)))
        self.assertEqual(unfitted.get_params()["epochs"], 2)

    def test_threads(self):
        model, table = self.fitted(), without_label(make_table(30, 200))
        rows = rows_of(table)
        expected = matrix(model.predict_proba(table))
        wrong = []

        def work(i):
            for _ in range(10):
                if matrix(model.predict_proba([rows[i]]))[0] != expected[i]:
                    wrong.append(i)
                gc.collect(0)
            if matrix(model.predict_proba(table)) != expected:
                wrong.append(i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_fits_in_threads(self):
        table, found = make_table(64), []

        def work():
            found.append(matrix(self.classifier(max_steps=3).fit(table, "label").predict_proba(rows_of(table)[:3])))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [found[0]] * 4)

    def test_without_numpy(self):
        if "numpy" in sys.modules:
            self.skipTest("numpy is loaded")
        found = self.fitted().predict_proba(rows_of(without_label(make_table(3))))
        view = memoryview(found)
        self.assertEqual((view.shape, view.format), ((3, 2), "<f"))
        schema, array = found.__arrow_c_array__()
        self.assertIn("arrow_schema", repr(schema))
        self.assertIn("arrow_array", repr(array))


if __name__ == "__main__":
    unittest.main()
