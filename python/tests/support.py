"""What the tests share: the library of a build, tiny tables and a tiny model, as tests/lib/cli_lib.sh makes them."""
from __future__ import annotations

import contextlib
import csv
import os
import shutil
import sys
import tempfile
import unittest
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TRI_BUILD", os.path.join(ROOT, "build")))
PROGRAM = os.path.join(BUILD, "trident")
sys.path.insert(0, os.path.join(ROOT, "python"))
os.environ.setdefault("TRIDENT_LIBRARY", os.path.join(BUILD, "libtrident.so"))
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # tests run side by side

import trident  # noqa: E402

WORDS = "good bad fine late early box lost found the a was is it and not very . ,".split()
ENCODER = {"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
           "intermediate_size": 64, "max_position_embeddings": 64}


def make_model(folder: str) -> str:
    """A tokenizer's folder without weights."""
    os.makedirs(folder, exist_ok=True)
    letters = [chr(ord("a") + i) for i in range(26)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys([*WORDS, *letters, *map(str, range(10))])]
    pieces += ["##" + each for each in [*letters, *map(str, range(10))]]
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as out:
        out.write("\n".join(pieces) + "\n")
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as out:
        out.write('{"do_lower_case": true}\n')
    return folder


def make_table(rows: int, first: int = 0) -> dict[str, list]:
    """Two texts, two numbers and a label that the words decide."""
    table: dict[str, list] = {name: [] for name in ("text", "track", "size", "weight", "label")}
    for i in range(first, first + rows):
        y = (i * 7 + i // 3) % 2
        table["text"].append(f"the box was {'bad' if y else 'good'}, and it is {'fine' if i % 3 else 'late'}")
        table["track"].append(f"{'early' if i % 2 else 'late'} a box {'lost' if y else 'found'}")
        table["size"].append(i % 11)
        table["weight"].append((i % 17) / 4)
        table["label"].append(y)
    return table


def without_label(table: dict[str, list]) -> dict[str, list]:
    """The columns that a model reads."""
    return {name: values for name, values in table.items() if name != "label"}


def write_csv(path: str, table: dict[str, list]) -> str:
    """A table as a file."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(table)
        writer.writerows(zip(*table.values()))
    return path


def config(model: str, **keys: object) -> dict[str, object]:
    """A tiny model of the table above."""
    return {"label_name": "label", "primary_text_name": "text", "secondary_text_name": "track",
            "tab_field_list": ["size", "weight"], "primary_tokenizer": model, "primary_encoder": ENCODER,
            "secondary_encoder": ENCODER, "hidden_common_dim": 16, "fusion_hidden_dim": 16, "max_sen_len": 32,
            "lr": 1e-3, "batch_size": 16, "epochs": 2, "threads": 1, **keys}


def rows_of(table: dict[str, list]) -> list[dict[str, object]]:
    """The same as a list of dicts."""
    return [dict(zip(table, values)) for values in zip(*table.values())]


class Case(unittest.TestCase):
    """A test with a folder of its own, a tokenizer in it, and no model or setting of this machine."""

    work: str
    model: str
    _kept: dict[str, object]

    @classmethod
    def setUpClass(cls) -> None:
        cls.work = tempfile.mkdtemp(prefix="trident-test-")
        cls.model = make_model(os.path.join(cls.work, "model"))
        places = {name: os.path.join(cls.work, name.lower())
                  for name in ("XDG_CONFIG_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME")}
        cls._kept = {name: os.environ.get(name) for name in places}
        os.environ.update(places)

    @classmethod
    def tearDownClass(cls) -> None:
        for name, value in cls._kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = str(value)
        shutil.rmtree(cls.work, ignore_errors=True)

    def setUp(self) -> None:
        warned = warnings.catch_warnings()
        warned.__enter__()
        self.addCleanup(warned.__exit__, None, None, None)
        warnings.simplefilter("ignore", trident.TridentWarning)

    def path(self, *names: str) -> str:
        """A place in the test's folder."""
        return os.path.join(self.work, *names)

    def classifier(self, **options: object) -> trident.Classifier:
        """A tiny one, with its columns given."""
        return trident.Classifier(config=config(self.model), progress=False, **options)

    def fitted(self, **options: object) -> trident.Classifier:
        """A tiny one after a few steps."""
        table = make_table(96)
        return self.classifier(**{"max_steps": 6, **options}).fit(without_label(table), table["label"])

    @contextlib.contextmanager
    def raises(self, kind: type, *words: str):
        """An error of this class with these words."""
        with self.assertRaises(kind) as found:
            yield found
        for word in words:
            self.assertIn(word, str(found.exception))
