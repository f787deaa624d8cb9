"""Trident: classifiers of texts, numbers and categories, trained and served by one native library.

>>> import trident
>>> m = trident.Classifier(text=["Title", "Review Text"], encoder="all-MiniLM-L6-v2").fit(reviews, "Recommended")
>>> m.predict_proba(more_reviews)

`Classifier` has scikit-learn's interface; `load` opens a model, `plan`, `choose` and `simulate` look at a run before it
begins, `inspect` at a table, `log` hands a run's figures to other tools, and `run` is any command of the program
`trident`. The package needs no other one. Tables may be pandas, polars, pyarrow or duckdb, which are not copied, dicts,
lists of dicts, numpy arrays, and files. docs/guide/python.md is the guide."""
from __future__ import annotations

from typing import Any

from ._command import TridentWarning
from .classifier import Classifier, load
from ._previews import Plan, choose, inspect, plan, run, simulate
from .errors import (
    BusyError,
    DataError,
    Disagreement,
    InputMissing,
    InputOutputError,
    InternalError,
    NotFinite,
    NotFittedError,
    ResourceError,
    Stopped,
    TridentError,
    UsageError,
)
from ._log import log

__all__ = [
    "BusyError", "Classifier", "DataError", "Disagreement", "InputMissing", "InputOutputError", "InternalError",
    "NotFinite", "NotFittedError", "Plan", "ResourceError", "Stopped", "TridentError", "TridentWarning", "UsageError",
    "choose", "inspect", "load", "log", "plan", "run", "simulate"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from ._library import version

        return version()
    raise AttributeError(f"module 'trident' has no attribute '{name}'")
