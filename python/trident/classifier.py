"""A classifier of texts, numbers and categories, with the interface of scikit-learn."""
from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence

from . import _command, _labels, _options
from ._labels import as_array
from ._model import Model, answer
from ._progress import Watcher
from ._tables import Tables, is_path, is_records, stream_of, values_of
from .errors import UsageError, not_fitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Union

    from ._html import Page
    from ._training import Data, Folder

    Path = Union[str, os.PathLike[str]]

FEW = 256  # rows given as dicts that are predicted as they are; more become a table first


class Classifier:
    """Trains and applies a classifier of texts and a row of numbers and categories.

    >>> m = trident.Classifier(text=["Title", "Review Text"], encoder="all-MiniLM-L6-v2")
    >>> m.fit(reviews, "Recommended", eval_set=(more_reviews, "Recommended"))
    >>> m.predict_proba([{"Title": "Lovely", "Review Text": "I would buy it again", "Age": 33}])

    Parameters
    ----------
    text : "auto", a column's name, or a list of them
        The texts, 16 at most: one encoder reads all; of two encoders the first reads the first text, the second the
        others.
        "auto": all columns of free text, the longest first.
    numbers : "auto", a list of columns, or None
        Columns of numbers, categories, dates and amounts. "auto": all that are of use. None: none.
    encoder : folder or name of a Hugging Face model, dict, pair of them, or None
        What the texts' encoders begin with: a folder, a name in `models_dir`, ./models or Hugging Face's cache; or a
        dict of keys of its config.json. A pair: two encoders. None: a small encoder with random weights, whose
        vocabulary is learned from the texts; pretrained weights give better answers.
    config : path or dict, optional
        A configuration of `trident train`. It is taken as it is, with the other parameters on top. None: `trident
        inspect` writes one that suits the table (docs/guide/recipe.md).
    ranks : int or "auto"
        Processes that train together on this machine; more than one starts the program `trident`.
    device : "auto", "cpu" or "cuda"
        Where to compute. "auto": on a GPU where there is one, and its plug-in.
    output_dir : path, optional
        The run folder. A run in it that was stopped goes on. None: a temporary one, which goes with the classifier.
    callbacks : function, object, or a list of them
        Objects with `on_step(event)` and `on_epoch(event)`, or functions that are called for both, with the dicts of
        metrics.jsonl (docs/reference/formats.md). One that returns False ends the run, with a checkpoint.
    progress : bool, optional
        Whether to show a line of progress. None: in notebooks and terminals.
    **options
        Every option of `trident train` and every key of its configuration: `epochs=3`, `batch_size=64`, `lr=1e-4`,
        `class_weights="balanced"`, `missing=["", "NA"]`, `precision="bf16"`. `trident train --help all` lists them;
        a name that is not one is an error of `fit` with the nearest.

    Attributes
    ----------
    classes_ : the labels, in ascending order
    feature_names_in_, n_features_in_ : columns of X
    run_dir_ : the run folder: metrics.jsonl, checkpoints, summary.json
    """

    _estimator_type = "classifier"  # scikit-learn before 1.6

    def __init__(self, *, text: Union[str, Sequence[str]] = "auto",
                 numbers: Union[str, Sequence[str], None] = "auto", encoder: Any = None,
                 config: Union[Path, Mapping[str, Any], None] = None, ranks: Union[int, str] = 1,
                 device: Optional[str] = "auto", output_dir: Optional[Path] = None, callbacks: Any = None,
                 progress: Optional[bool] = None, **options: Any) -> None:
        self.text = text
        self.numbers = numbers
        self.encoder = encoder
        self.config = config
        self.ranks = ranks
        self.device = device
        self.output_dir = output_dir
        self.callbacks = callbacks
        self.progress = progress
        self._options = options

    # ---- Parameters, as scikit-learn reads and sets them ----

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters and options by name."""
        return {**{name: getattr(self, name) for name in _named()}, **self._options}

    def set_params(self, **params: Any) -> Classifier:
        """Sets parameters and options; `fit` says if a name is not one."""
        for name, value in params.items():
            if name in _named():
                setattr(self, name, value)
            else:
                self._options = {**self._options, name: value}
        return self

    def __repr__(self) -> str:
        defaults = type(self).__init__.__kwdefaults__ or {}
        shown = [f"{name}={value!r}" for name, value in self.get_params().items()
                 if name not in defaults or not _is_same(value, defaults[name])]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_html_(self) -> str:
        from . import _html

        return _html.of_classifier(self)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
            ClassifierTags,
            InputTags,
            Tags,
            TargetTags,
        )

        return Tags(estimator_type="classifier", target_tags=TargetTags(required=True), transformer_tags=None,
                    classifier_tags=ClassifierTags(), regressor_tags=None,
                    input_tags=InputTags(string=True, allow_nan=True, categorical=True))

    def __sklearn_is_fitted__(self) -> bool:
        return "_source" in self.__dict__

    # ---- Training ----

    def fit(self, X: Any, y: Any = None, *, eval_set: Any = None, sample_weight: Any = None) -> Classifier:
        """Trains on a table.

        Parameters
        ----------
        X : table
            Whatever has `__arrow_c_stream__` (pandas, polars, pyarrow, duckdb), a dict of columns, a list of dicts, a
            list of texts, an array of two dimensions, or the path of a table or of a folder of train, valid and test.
        y : labels, or the name of the column of X that has them
        eval_set : (X, y), or a path
            Rows to validate on after each epoch: they choose the best checkpoint and fit its temperature.
        sample_weight : numbers from 0, or the name of the column of X that has them
            What each row adds to the loss that training minimises is multiplied by its number. Their scale does not
            matter. `class_weights="balanced"` weighs classes.

        Ctrl-C ends the run after the step in progress, with a checkpoint; the classifier is then that checkpoint, and
        KeyboardInterrupt is raised. With `output_dir` the same `fit` goes on from there.
        """
        import tempfile

        from . import _training

        self._forget()
        folder = _training.Folder(self.output_dir)
        request = _training.Request(text=self.text, numbers=self.numbers, encoder=self.encoder, config=self.config,
                                    ranks=self.ranks, device=self.device, options=self._asked())
        watcher = Watcher(self.callbacks, self.progress)
        with Tables() as tables, tempfile.TemporaryDirectory(prefix="trident-fit-") as work:
            data = _training.Data(tables, work)
            _training.gather(data, request, X, y, eval_set, sample_weight)
            try:
                _training.train(request, data, folder, watcher, watcher.is_shown)
            except KeyboardInterrupt:
                with contextlib.suppress(Exception):  # what was trained so far can be used, if anything was
                    self._adopt(folder, data, y)
                raise
            finally:
                watcher.close()
        self._adopt(folder, data, y)
        return self

    def _asked(self) -> dict[str, Any]:
        """Options of the run."""
        return self._options

    def _classes_of(self, labels: list[str], kind: str, y: Any) -> tuple[list[Any], Optional[list[int]]]:
        """Classes in ascending order, and the place of each among the model's labels."""
        return _labels.classes_of(labels, kind, y)

    def _labels_of(self, name: str, y: Any) -> Mapping[str, Any]:
        """The columns of labels that are given beside a table."""
        return {name: values_of(name, y)}

    def _forget(self) -> None:
        for name in [name for name in self.__dict__ if name.startswith("_fit_") or name in ("_source", "run_dir_")]:
            del self.__dict__[name]

    def _adopt(self, folder: Folder, data: Data, y: Any) -> None:
        """Takes over what a run has left."""
        model = self._open(folder.path)
        labels = None if isinstance(y, str) else y
        classes, order = self._classes_of(model.labels, data.kind, labels)
        columns = model.columns if data.columns is None else data.columns
        columns = [name for name in columns if name != data.weight]
        self._fit_facts: dict[str, Any] = {
            "classes": classes, "order": order, "kind": data.kind, "label": data.label, "columns": columns,
            "has_names": data.has_names}
        self._fit_dtype = getattr(y, "dtype", None) if type(y).__module__ == "numpy" else None
        self._fit_model: Optional[Model] = model
        self._fit_folder: Optional[Folder] = folder
        self._source = folder.path
        self.run_dir_ = folder.path

    def _open(self, path: str) -> Model:
        words, _ = _options.split({name: value for name, value in self._options.items() if name == "threads"})
        if self.device is not None:
            words.append(f"--device={self.device}")
        return Model([f"--checkpoint={path}", *words])

    # ---- What a fitted classifier knows ----

    def _facts(self) -> dict[str, Any]:
        if "_source" not in self.__dict__:
            raise not_fitted(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate "
                             "arguments before using this estimator.")
        facts: dict[str, Any] = self._fit_facts
        return facts

    def _ready(self) -> Model:
        self._facts()
        model = self._fit_model
        if model is None:
            model = self._fit_model = self._open(self._source)
        return model

    @property
    def classes_(self) -> Any:
        """The labels, in ascending order and of the type of y."""
        classes = self._facts()["classes"]
        dtype = self._fit_dtype if self._fit_dtype is not None and self._fit_dtype.kind in "iufb" else None
        return as_array(classes, dtype)

    @property
    def n_features_in_(self) -> int:
        """The number of columns of X."""
        return len(self._facts()["columns"])

    @property
    def feature_names_in_(self) -> Any:
        """The names of the columns of X, where it had names."""
        if not self._facts()["has_names"]:
            raise AttributeError("X had no names of columns")
        return as_array(self._facts()["columns"], object)

    # ---- Prediction ----

    def _check_width(self, names: Optional[list[str]]) -> None:
        facts = self._facts()
        if not facts["has_names"] and names is not None and len(names) != len(facts["columns"]):
            raise UsageError(f"X has {len(names)} features, but {type(self).__name__} is expecting "
                             f"{len(facts['columns'])} features as input")

    def _matrix(self, X: Any) -> Any:
        """Probabilities [rows, classes] of the library's classes."""
        model = self._ready()
        if isinstance(X, Mapping) and X and not any(_is_column(value) for value in X.values()):
            X = [X]
        if is_records(X) and len(X) <= FEW:
            return model.rows(X)
        if is_path(X):
            return model.file(self._source, os.fsdecode(X))
        with Tables() as tables:
            stream = stream_of(X)
            self._check_width(stream.names)
            tables.add("rows", stream)
            return model.table(tables, "rows")

    def predict_proba(self, X: Any) -> Any:
        """The probability of each class, [rows, classes], in the order of `classes_`.

        X is a table like that of `fit`, without labels, or rows: `[{"Title": "Lovely", "Age": 33}]`, where columns
        that are left out are missing. A numpy array where numpy is loaded; else an object with the buffer protocol,
        `tolist` and `__arrow_c_array__`.
        """
        return answer(self._matrix(X), self._facts()["order"])

    def predict(self, X: Any) -> Any:
        """The class of each row: by the model's threshold, if it has one, else the most probable."""
        model, matrix, facts = self._ready(), self._matrix(X), self._facts()
        chosen = model.decide(matrix)
        if facts["order"] is not None:
            place = {label: i for i, label in enumerate(facts["order"])}
            chosen = [place[each] for each in chosen]
        classes = self.classes_
        return classes[chosen] if hasattr(classes, "dtype") else [classes[each] for each in chosen]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of rows whose label is predicted; `evaluate` has all figures."""
        if sample_weight is not None:
            raise UsageError("sample_weight: score counts rows alike")
        return float(self.evaluate(X, y)["accuracy"])

    def evaluate(self, X: Any, y: Any = None, **options: Any) -> dict[str, Any]:
        """All figures of a table with labels, with intervals: what `trident eval --json` prints.

        Options are those of `trident eval`: `bootstrap=0`, `positive_label="yes"`."""
        found = self._on_table("eval", X, y, options)
        assert isinstance(found, dict)
        return found

    def explain(self, X: Any, y: Any = None, *, importance: bool = False, **options: Any) -> Any:
        """What moved the model's answers: for each row a dict with the effects of its inputs and words.

        importance: instead how much each input matters over a table with labels (a dict). Options are those of
        `trident explain`: `rows=10`, `label="yes"`, `repeats=5` (docs/guide/explaining.md)."""
        return self._on_table("explain", X, y, {**options, "importance": importance or None}, is_one=importance)

    def _on_table(self, command: str, X: Any, y: Any, options: Mapping[str, Any], is_one: bool = True) -> Any:
        """The JSON of a command on a table: one object, or one for each row."""
        facts, words = self._facts(), _options.split(options)[0]
        if self.device is not None:
            words.append(f"--device={self.device}")
        with Tables() as tables:
            if is_path(X):
                path = os.fsdecode(X)
            else:
                path = "memory:rows"
                stream = stream_of(X)
                self._check_width([name for name in stream.names or [] if not (isinstance(y, str) and name == y)])
                tables.add("rows", stream)
                if y is not None and not isinstance(y, str):
                    for column, values in self._labels_of(facts["label"] or "label", y).items():
                        tables.add("rows", values, column)
            return _command.run_json([command, f"--checkpoint={self._source}", f"--data-path={path}", *words], tables,
                                     is_one=is_one)

    # ---- What is left of a run ----

    def report(self, path: Optional[Path] = None, **options: Any) -> Page:
        """The page about the run: curves, validation, where the time went. A notebook shows it; `path` keeps it."""
        self._facts()
        if "run_dir_" not in self.__dict__:
            raise UsageError("this classifier was loaded without its run, of which a report would tell")
        from . import _html

        return _html.report([self.run_dir_], path, options)

    def save(self, path: Path) -> str:
        """Writes the model as a folder for `trident.load`, `trident predict` and `trident serve`; it must not exist.

        The folder holds Hugging Face folders of the encoders, too (docs/guide/exporting.md)."""
        from . import _saved

        facts = self._facts()
        return _saved.save(self._source, os.fsdecode(path), {**facts, "parameters": self.get_params()})

    def __getstate__(self) -> dict[str, Any]:
        """Parameters, and the bytes of an export."""
        state = {name: value for name, value in self.__dict__.items()
                 if name not in ("_fit_model", "_fit_folder", "_source", "run_dir_")}
        if "_source" in self.__dict__:
            from . import _saved

            state["_files"] = _saved.export_bytes(self._source)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("_files", None)
        self.__dict__.update(state)
        if files is not None:
            from . import _saved, _training

            folder = _training.Folder()
            _saved.write_bytes(folder.path, files)
            self._fit_folder, self._source, self._fit_model = folder, folder.path, None


def _named() -> list[str]:
    """Names of the parameters that are not options."""
    return sorted(Classifier.__init__.__kwdefaults__ or {})


def _is_same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and value == default)


def _is_column(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes))


def load(path: Path) -> Classifier:
    """Opens a model: what `Classifier.save` or `trident export` wrote, a checkpoint, or a run folder. A model of
    numbers is a `Regressor`, one of several labels a `MultiLabelClassifier`.

    >>> m = trident.load("model")
    >>> m.predict([{"Title": "Lovely", "Review Text": "I would buy it again"}])
    """
    from . import _saved

    source, (facts, parameters) = os.fsdecode(path), _saved.read(os.fsdecode(path))
    found = Classifier()
    if _saved.is_number(source):
        from .regressor import Regressor

        found = Regressor()
    elif _saved.has_several(source):
        from .multilabel import MultiLabelClassifier

        found = MultiLabelClassifier()
    found.set_params(**parameters)
    found._source, found._fit_folder = source, None
    found._fit_model = model = found._open(found._source)
    found._fit_dtype = None
    found._fit_facts = facts or {"classes": model.labels, "order": None, "kind": "str", "columns": model.columns,
                                 "label": _saved.label_name(found._source), "has_names": True}
    if os.path.exists(os.path.join(found._source, "metrics.jsonl")):
        found.run_dir_ = found._source
    return found
