"""Trident: classifiers of texts, numbers and categories, and regressors, trained and served by one native library.

>>> import trident
>>> m = trident.Classifier(text=["Title", "Review Text"], encoder="all-MiniLM-L6-v2").fit(reviews, "Recommended")
>>> m.predict_proba(more_reviews)

`Classifier` has scikit-learn's interface; `load` opens a model, `plan`, `choose` and `simulate` look at a run before it
begins, `inspect` at a table, `log` hands a run's figures to other tools, and `run` is any command of the program
`trident`. The package needs no other one. Tables may be pandas, polars, pyarrow or duckdb, which are not copied, dicts,
lists of dicts, numpy arrays, and files. Errors are those of trident.errors. docs/guide/python.md is the guide."""
from __future__ import annotations

# For type checkers, in each module: importing typing takes as long as all else of this package together.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._command import TridentWarning
    from ._log import log
    from ._previews import Plan, choose, inspect, plan, run, simulate
    from .classifier import Classifier, load
    from .multilabel import MultiLabelClassifier
    from .regressor import Regressor
    from .errors import BusyError as BusyError
    from .errors import DataError as DataError
    from .errors import Disagreement as Disagreement
    from .errors import InputMissing as InputMissing
    from .errors import InputOutputError as InputOutputError
    from .errors import InternalError as InternalError
    from .errors import NotFinite as NotFinite
    from .errors import NotFittedError as NotFittedError
    from .errors import ResourceError as ResourceError
    from .errors import Stopped as Stopped
    from .errors import TridentError as TridentError
    from .errors import UsageError as UsageError

    __version__: str

# What help(trident) shows; the errors, which are names of this module too, are in trident.errors.
__all__ = ["Classifier", "MultiLabelClassifier", "Plan", "Regressor", "TridentWarning", "choose", "inspect", "load",
           "log", "plan", "run", "simulate"]
_ERRORS = ["BusyError", "DataError", "Disagreement", "InputMissing", "InputOutputError", "InternalError", "NotFinite",
           "NotFittedError", "ResourceError", "Stopped", "TridentError", "UsageError"]

# Modules are imported when a name of theirs is first used, and the library is loaded by the first call.
_HOMES = {
    **dict.fromkeys(["Classifier", "load"], "classifier"), "Regressor": "regressor",
    "MultiLabelClassifier": "multilabel", "TridentWarning": "_command", "log": "_log",
    **dict.fromkeys(["Plan", "choose", "inspect", "plan", "run", "simulate"], "_previews"),
    **dict.fromkeys(_ERRORS, "errors")}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from ._library import version

        try:
            return version()
        except ImportError as error:  # help() asks for it, too
            raise AttributeError(str(error)) from error
    if name not in _HOMES:
        raise AttributeError(f"module 'trident' has no attribute '{name}'")
    from importlib import import_module

    found: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*_HOMES, "__version__", "errors"])
