"""A regressor: numbers as labels."""
from __future__ import annotations

from .classifier import Classifier
from ._columns import numpy
from ._model import answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


class Regressor(Classifier):
    """Learns a number, or quantiles of it, from up to two texts and a row of numbers and categories.

    >>> m = trident.Regressor(text="review", encoder="all-MiniLM-L6-v2").fit(wines, "price", eval_set=more_wines)
    >>> m.predict(new_wines), m.predict_interval(new_wines)

    Parameters are those of `Classifier`. Among the options are `loss` ("squared", "absolute", "huber", "poisson"),
    `target_transform` ("standard", "log", "quantile_normal", "none"), `interval` (the share of new rows that intervals
    hold, 0.9), and `quantiles=[0.1, 0.5, 0.9]`, with which quantiles are learned (docs/guide/numbers.md)."""

    _estimator_type = "regressor"  # scikit-learn before 1.6

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
            RegressorTags,
        )

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags, tags.regressor_tags = "regressor", None, RegressorTags()
        return tags

    def _asked(self) -> dict[str, Any]:
        return {"task": "quantiles" if self._options.get("quantiles") else "regression", **self._options}

    def _classes_of(self, labels: list[str], kind: str, y: Any) -> tuple[list[Any], Optional[list[int]]]:
        return [], None

    @property
    def classes_(self) -> Any:
        raise AttributeError("a Regressor has no classes")

    @property
    def predict_proba(self) -> Any:
        raise AttributeError("a Regressor predicts numbers, which have no probabilities; predict_interval says how far "
                             "they may be off")

    def _columns_of(self, X: Any, names: list[str]) -> Any:
        """These columns of the answers, [rows, names]."""
        places = [self._ready().labels.index(name) for name in names]
        matrix = self._matrix(X)
        np = numpy()
        if np is None:
            return [[row[i] for i in places] for row in matrix]
        return np.ascontiguousarray(answer(matrix, None)[:, places], dtype=np.float64)

    def predict(self, X: Any) -> Any:
        """The number of each row."""
        found = self._columns_of(X, ["prediction"])
        return found[:, 0] if hasattr(found, "dtype") else [row[0] for row in found]

    def predict_interval(self, X: Any) -> Any:
        """Of each row the lower and the upper end of an interval that holds the true number of new rows in at least
        `interval` of cases, by the rows of `eval_set`."""
        if "low" not in self._ready().labels:
            raise AttributeError("the model has no intervals: give fit an eval_set, whose rows they are fitted to")
        return self._columns_of(X, ["low", "high"])

    def predict_quantiles(self, X: Any) -> Any:
        """The quantiles of each row, [rows, quantiles]."""
        names = [name for name in self._ready().labels if name not in ("prediction", "low", "high")]
        if not names:
            raise AttributeError("the model has no quantiles: fit one with quantiles=[0.1, 0.5, 0.9]")
        return self._columns_of(X, names)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R2 of a table with labels; `evaluate` has all figures."""
        if sample_weight is not None:
            raise ValueError("sample_weight: score counts rows alike")
        return float(self.evaluate(X, y, bootstrap=0)["r2"])
