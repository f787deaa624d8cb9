"""What `fit` does, as one would on the command line: `trident vocab` where no encoder is given, `trident inspect
--write-config` for a configuration that suits the table, and `trident train` with it and the user's options."""
from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from . import _command, _options, _program
from ._command import Listener
from ._labels import kind_of
from ._options import Words
from ._tables import Tables, has_names, is_path, labels_of, stream_of, values_of
from .errors import DataError, Stopped, UsageError

# The vocabulary that is learned where no encoder is given: for the small encoder that begins with random weights.
LEARNED = ["--size=8000", "--lower-case"]


class Folder:
    """A run folder: the user's, or a temporary one that goes with its last user."""

    def __init__(self, path: Optional[Any] = None) -> None:
        self.is_kept = path is not None
        self.path: str = tempfile.mkdtemp(prefix="trident-") if path is None else os.fsdecode(path)
        if path is None:
            weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


class Request:
    """What a classifier is asked to be: its parameters."""

    def __init__(self, *, text: Any, numbers: Any, encoder: Any, config: Any, ranks: Any, device: Any,
                 options: Mapping[str, Any]) -> None:
        self.text, self.numbers, self.encoder, self.config = text, numbers, encoder, config
        self.ranks, self.device, self.options = ranks, device, options

    def is_several(self) -> bool:
        """Whether the run takes several processes."""
        return self.ranks not in (None, 1) or self.options.get("seeds") not in (None, 1)


class Data:
    """The tables of a run: in memory, or files."""

    def __init__(self, tables: Tables, work: str) -> None:
        self.tables, self.work = tables, work
        self.names: list[str] = []      # of tables in memory
        self.path = ""                  # --data-path
        self.label: Optional[str] = None
        self.weight: Optional[str] = None  # the column of the rows' weights
        self.kind = "str"               # Python's type of the labels
        self.has_several = False        # labels of a row
        self.columns: Optional[list[str]] = None  # that predict will need: not the label; None: of a file
        self.has_names = True           # X names its columns itself

    def add(self, name: str, X: Any, y: Any) -> None:
        """Adds a table with its labels, to memory."""
        stream = stream_of(X)
        names, formats = stream.names or [], stream.formats
        self.tables.add(name, stream)
        self.names.append(name)
        self.path = "memory:" + "+".join(self.names)
        columns = names
        if isinstance(y, str):
            labels = y.split(",") if self.has_several else [y]
            if not set(labels) <= set(names):
                raise UsageError(f'the table has no column "{y}" with labels: {", ".join(names[:12])}')
            self.label, kind = y, kind_of(formats[names.index(labels[0])])
            columns = [each for each in names if each not in labels]
        elif y is not None:
            if self.label is None:
                self.label = _new_name(getattr(y, "name", None), "label", names)
            several = labels_of(self.label, y) if self.has_several else {self.label: values_of(self.label, y)}
            self.label, kind = ",".join(several), kind_of(next(iter(several.values())).formats[0])
            for column, values in several.items():
                self.tables.add(name, values, column)
        else:
            return
        if self.columns is None:
            self.columns, self.kind = columns, kind
            self.has_names = has_names(X)

    def weigh(self, weights: Any, columns: Sequence[str]) -> None:
        """Adds weights to the training rows: values, or the name of the column that has them."""
        if isinstance(weights, str):
            self.weight = weights
            return
        self.weight = _new_name(getattr(weights, "name", None), "weight", [*columns, self.label])
        self.tables.add("train", values_of(self.weight, weights), self.weight)

    def link(self, name: str, path: Any) -> None:
        """A table that is a file, with its name, in a folder of such."""
        path = os.path.abspath(os.fsdecode(path))
        if os.path.isdir(path):
            raise UsageError(f"{path} is a folder, which names its own tables: train, valid and test")
        base, ending = os.path.splitext(path)
        if ending in (".gz", ".zst"):
            ending = os.path.splitext(base)[1] + ending
        os.symlink(path, os.path.join(self.work, name + ending))
        self.path = self.work


def _new_name(asked: Any, usual: str, taken: Sequence[Optional[str]]) -> str:
    """A name for a column that the table has not: that of the series, or else the usual one."""
    if isinstance(asked, str) and asked and asked not in taken:
        return asked
    name, n = usual, 2
    while name in taken:
        name, n = f"{usual}_{n}", n + 1
    return name


def _valid_of(eval_set: Any) -> tuple[Any, Any]:
    """(X, y) of `eval_set`, which may be a list of one pair; or a path."""
    if is_path(eval_set):
        return eval_set, None
    if isinstance(eval_set, list) and len(eval_set) == 1:
        eval_set = eval_set[0]
    if not isinstance(eval_set, tuple) or len(eval_set) != 2:
        raise UsageError("eval_set is a pair (X, y), or the path of a table")
    X, y = eval_set
    return X, y


def gather(data: Data, request: Request, X: Any, y: Any, eval_set: Any, weights: Any) -> None:
    """Collects the tables of a run."""
    data.label, data.weight = request.options.get("label_name"), request.options.get("weight_name")
    data.has_several = request.options.get("task") == "multilabel"
    valid = None if eval_set is None else _valid_of(eval_set)
    if is_path(X):
        if y is not None and not isinstance(y, str):
            raise UsageError("X is a path: y is then the name of the label's column")
        if weights is not None and not isinstance(weights, str):
            raise UsageError("X is a path: sample_weight is then the name of the column of weights")
        data.label, data.path, data.weight = y or data.label, os.fsdecode(X), weights or data.weight
        if valid is not None:
            if not is_path(valid[0]):
                raise UsageError("X is a path: eval_set has to be one, too")
            data.link("train", X)
            data.link("valid", valid[0])
        return
    if y is None:
        y = data.label
    if y is None:
        raise UsageError("this Classifier requires y to be passed, but the target y is None: give the labels, or the "
                         "name of the column that has them")
    data.add("train", X, y)
    if weights is not None:
        data.weigh(weights, data.columns or [])
    if valid is not None:
        if is_path(valid[0]):
            raise UsageError("eval_set is a path: X has to be one, too")
        data.add("valid", valid[0], valid[1] if valid[1] is not None else data.label)


def _encoders(encoder: Any) -> list[Any]:
    """Of the first and of the second text."""
    if encoder is None:
        return []
    return list(encoder) if isinstance(encoder, (list, tuple)) else [encoder]


def _encoder_keys(request: Request, words: Words) -> tuple[dict[str, Any], bool]:
    """Keys for the encoders, and whether a vocabulary has to be learned."""
    keys: dict[str, Any] = {}
    for which, encoder in zip(("primary", "secondary"), _encoders(request.encoder)):
        if isinstance(encoder, Mapping):
            keys[f"{which}_encoder"] = encoder
        else:
            name = os.fsdecode(encoder)
            keys[f"{which}_tokenizer"] = os.path.abspath(name) if os.path.isdir(name) else name
    is_given = any(word.startswith("--primary-tokenizer=") for word in words)
    return keys, "primary_tokenizer" not in keys and not is_given


def _text_keys(text: Sequence[str], encoder: Any) -> dict[str, Any]:
    keys: dict[str, Any] = dict(zip(("primary_text_name", "secondary_text_name"), text))
    if len(text) > 2:
        keys["text_list"] = list(text)
    if len(text) > 2 and len(_encoders(encoder)) > 1:
        keys["text_encoders"] = ["primary", *["secondary"] * (len(text) - 1)]
    return keys


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


class _Inspection:
    """`trident inspect` of a run's tables."""

    def __init__(self, data: Data, words: Words) -> None:
        self.data = data
        self.words = ["inspect", data.path, *_options.only_of("inspect", words)]
        self.label = {"label_name": data.label} if data.label else {}

    def _config(self, keys: Mapping[str, Any]) -> Words:
        path = _options.write_config(os.path.join(self.data.work, "asked.json"), None, {**self.label, **keys})
        return [f"--config={path}"] if path else []

    def guess(self) -> tuple[list[str], list[str]]:
        """The columns of texts, and those of numbers and categories."""
        found = _command.run_json([*self.words, "--quiet", *self._config({})], self.data.tables)
        text = [found[key] for key in ("primary_text", "secondary_text") if found.get(key)]
        return (found.get("text_list") or text + found.get("secondary_text_list", []),
                [column["name"] for column in found["columns"] if column["role"] == "tabular"])

    def write(self, keys: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration that it writes."""
        path = os.path.join(self.data.work, "starter.json")
        _command.run([*self.words, "--quiet", "--force", f"--write-config={path}", *self._config(keys)],
                     self.data.tables)
        with open(path, encoding="utf-8") as file:
            starter: dict[str, Any] = json.load(file)
        return starter


def _learn_vocabulary(data: Data, text: Sequence[str], folder: str) -> str:
    """A vocabulary of the training texts, in the run folder; one that is there is taken again."""
    columns = [name for name in text if "," not in name] or list(text)  # a name with a comma has no word
    path = os.path.join(os.path.abspath(folder), "vocabulary")
    if not os.path.isfile(os.path.join(path, "vocab.txt")):
        source = f"memory:{data.names[0]}" if data.names else _training_table(data.path)
        _command.run(["vocab", source, f"--column={','.join(columns)}", f"--output={path}", "--quiet", *LEARNED],
                     data.tables)
    return path


def _training_table(path: str) -> str:
    """The training table of a path: of a folder the file that is called train."""
    if not os.path.isdir(path):
        return path
    found = sorted(name for name in os.listdir(path) if name.startswith("train."))
    if not found:
        raise DataError(f"{path} has no table that is called train")
    return os.path.join(path, found[0])


def configure(request: Request, data: Data, words: Words, keys: dict[str, Any], folder: str) -> str:
    """The file to give as --config."""
    path = os.path.join(data.work, "config.json")
    if data.weight:
        keys["weight_name"] = data.weight
    text = [request.text] if isinstance(request.text, str) and request.text != "auto" else request.text
    numbers = request.numbers
    encoder_keys, learns = _encoder_keys(request, words)
    if request.config is not None:
        chosen = {} if _is_auto(text) else _text_keys(text, request.encoder)
        if not _is_auto(numbers):
            chosen["tab_field_list"] = list(numbers or [])
        if data.label:
            chosen["label_name"] = data.label
        return _options.write_config(path, request.config, {**keys, **encoder_keys, **chosen}) or path
    inspection = _Inspection(data, words)
    if _is_auto(text) != _is_auto(numbers) or (_is_auto(text) and learns) or (_is_auto(numbers) and data.weight):
        guessed_text, guessed_numbers = inspection.guess()
        text = guessed_text if _is_auto(text) else list(text)
        if _is_auto(numbers):
            numbers = [name for name in guessed_numbers if name not in text and name != data.weight]
        if not text:
            raise DataError("no column looks like a text; name it: text=[...]")
    chosen = {} if _is_auto(text) else _text_keys(text, request.encoder)
    if not _is_auto(numbers) and numbers:
        chosen["tab_field_list"] = list(numbers)
    if learns:
        encoder_keys["primary_tokenizer"] = _learn_vocabulary(data, text, folder)
    starter = inspection.write({**encoder_keys, **chosen, **_shown(keys)})
    return _options.write_config(path, starter, {**keys, **encoder_keys}) or path


def _shown(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Objects of the user's that the starter configuration is to know of: the architectures of encoders."""
    return {name: keys[name] for name in ("primary_encoder", "secondary_encoder") if name in keys}


def train(request: Request, data: Data, folder: Folder, listener: Optional[Listener], is_shown: bool) -> None:
    """Trains; a run that a callback ended has a checkpoint, and that is fine."""
    words, keys = _options.split({name: value for name, value in request.options.items()
                                  if name not in ("label_name", "weight_name")})
    if request.device is not None:
        words.append(f"--device={request.device}")
    config = configure(request, data, words, keys, folder.path)
    begin = ["train", f"--config={config}", f"--output-dir={folder.path}"]
    if not is_shown:
        words.append("--quiet")
    if not folder.is_kept:  # nobody sees these files
        begin += ["--cache-dir=none", "--no-report"]
    try:
        if request.is_several():
            _train_on_ranks(request, data, folder, begin, words, listener)
        else:
            _command.run([*begin, f"--data-path={data.path}", *words], data.tables, listener)
    except Stopped:
        pass


def _train_on_ranks(request: Request, data: Data, folder: Folder, begin: Words, words: Words,
                    listener: Optional[Listener]) -> None:
    words = [*begin, f"--nproc-per-node={request.ranks}", *words]
    if not data.names:
        _program.run([*words, f"--data-path={data.path}"], folder.path, listener)
        return
    with _program.passed(data.tables, data.names, data.work) as path:
        _program.run([*words, f"--data-path={path}"], folder.path, listener)
