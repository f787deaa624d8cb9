"""Keywords as options, labels as the user has them, figures for other tools: what needs no library."""
from __future__ import annotations

import json
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

import support  # noqa: F401
import trident
from trident import _labels, _options
from trident.errors import UsageError, error_of


class Options(unittest.TestCase):
    def test_words(self):
        words, keys = _options.split({
            "batch_size": 8, "lr": 1e-4, "stratify": True, "quiet": False, "missing": ["NA", "-"], "config": None,
            "models_dir": pathlib.Path("models"), "class_weights": (1, 2.5)})
        self.assertEqual(words, ["--batch-size=8", "--lr=0.0001", "--stratify=true", "--quiet=false", "--missing=NA,-",
                                 "--models-dir=models", "--class-weights=1,2.5"])
        self.assertEqual(keys, {})

    def test_values_without_a_word_become_keys(self):
        words, keys = _options.split({"tab_field_list": ["a,b", "c"], "primary_encoder": {"hidden_size": 32},
                                      "missing": [""]})
        self.assertEqual((words, keys), ([], {"tab_field_list": ["a,b", "c"], "primary_encoder": {"hidden_size": 32},
                                              "missing": [""]}))

    def test_configurations(self):
        with tempfile.TemporaryDirectory() as work:
            path, given = os.path.join(work, "out.json"), os.path.join(work, "in.json")
            self.assertIsNone(_options.write_config(path, None, {}))
            self.assertEqual(_options.write_config(path, "mine.json", {}), "mine.json")
            with open(given, "w", encoding="utf-8") as out:
                json.dump({"lr": 1, "epochs": 2}, out)
            self.assertEqual(_options.write_config(path, given, {"lr": 3}), path)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file), {"lr": 3, "epochs": 2})


class Labels(unittest.TestCase):
    def test_types(self):
        self.assertEqual(_labels.classes_of(["0", "1"], "int"), ([0, 1], None))
        self.assertEqual(_labels.classes_of(["1", "10", "2"], "int"), ([1, 2, 10], [0, 2, 1]))
        self.assertEqual(_labels.classes_of(["-1", "0.5"], "float"), ([-1.0, 0.5], None))
        self.assertEqual(_labels.classes_of(["false", "true"], "bool"), ([False, True], None))
        self.assertEqual(_labels.classes_of(["no", "yes"], "int"), (["no", "yes"], None))

    def test_spelling(self):
        self.assertEqual(_labels.classes_of(["false", "true"], "str", ["True", "False"]), (["False", "True"], None))
        self.assertEqual(_labels.classes_of(["1", "2"], "str", ["1.0", "2"])[0], ["1.0", "2"])
        self.assertEqual(_labels.classes_of(["1", "2"], "str", ["1.0", "1.00", "2"])[0], ["1", "2"])
        self.assertEqual(_labels.classes_of(["a", "b"], "str", ["b", None, "a"])[0], ["a", "b"])


class Errors(unittest.TestCase):
    def test_builtins(self):
        for status, builtin in {2: ValueError, 65: ValueError, 66: FileNotFoundError, 70: RuntimeError,
                                71: MemoryError, 73: FileExistsError, 74: OSError, 75: RuntimeError,
                                79: ArithmeticError}.items():
            error = error_of(status, "words")
            self.assertIsInstance(error, builtin)
            self.assertIsInstance(error, trident.TridentError)
            self.assertEqual((error.status, str(error)), (status, "words"))
        self.assertIsInstance(error_of(137, ""), trident.TridentError)


LINES = [{"ts": 1.0, "event": "start", "step": 0, "config": {"lr": 0.1, "label_list": ["a"]}},
         {"ts": 2.0, "event": "train", "step": 1, "loss": 0.5, "grad_norm": None},
         {"ts": 3.0, "event": "epoch", "step": 1, "valid_loss": 0.4, "best": True},
         {"ts": 4.0, "event": "end", "step": 1, "loss": 0.4}]


class Logs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        with open(os.path.join(self.folder.name, "metrics.jsonl"), "w", encoding="utf-8") as out:
            out.write("".join(json.dumps(line) + "\n" for line in LINES) + '{"torn')

    def test_mlflow(self):
        client = mock.MagicMock()
        with mock.patch.dict(sys.modules, {"mlflow": client}):
            trident.log(self.folder.name, to="mlflow", experiment_id="7")
        client.start_run.assert_called_once_with(run_name=os.path.basename(self.folder.name), experiment_id="7")
        client.log_params.assert_called_once_with({"lr": 0.1})
        self.assertEqual(client.log_metrics.call_args_list,
                         [mock.call({"step/loss": 0.5}, step=1), mock.call({"epoch/valid_loss": 0.4}, step=1),
                          mock.call({"end/loss": 0.4})])
        client.end_run.assert_called_once_with()

    def test_wandb_follows(self):
        run, client = mock.MagicMock(), types.SimpleNamespace()
        client.init = mock.MagicMock(return_value=run)
        with mock.patch.dict(sys.modules, {"wandb": client}):
            trident.log(self.folder.name, to="wandb", follow=True, project="reviews")
        self.assertEqual(client.init.call_args.kwargs["project"], "reviews")
        self.assertEqual(run.log.call_args_list[0], mock.call({"step/loss": 0.5}, step=1))
        run.finish.assert_called_once_with()

    def test_refusals(self):
        with self.assertRaisesRegex(UsageError, "wandb, mlflow, tensorboard"):
            trident.log(self.folder.name, to="comet")
        with self.assertRaisesRegex(FileNotFoundError, "metrics.jsonl"):
            trident.log(self.folder.name + "/nowhere")
        with mock.patch.dict(sys.modules, {"mlflow": None}), self.assertRaisesRegex(ImportError, "pip install mlflow"):
            trident.log(self.folder.name, to="mlflow")


class Parameters(unittest.TestCase):
    def test_only_stores(self):
        text = ["a"]
        model = trident.Classifier(text=text, epochs=3)
        self.assertIs(model.get_params()["text"], text)
        self.assertEqual(model.get_params()["epochs"], 3)
        self.assertEqual(repr(model.set_params(lr=0.1, text="b")), "Classifier(text='b', epochs=3, lr=0.1)")
        again = trident.Classifier(**model.get_params())
        self.assertEqual(again.get_params(), model.get_params())

    def test_not_fitted(self):
        for use in (lambda m: m.predict(["a"]), lambda m: m.classes_, lambda m: m.save("x"), lambda m: m.report()):
            with self.assertRaisesRegex(trident.NotFittedError, "not fitted yet"):
                use(trident.Classifier())
        self.assertFalse(hasattr(trident.Classifier(), "classes_"))
        self.assertIn("not fitted", trident.Classifier()._repr_html_())


if __name__ == "__main__":
    unittest.main()
