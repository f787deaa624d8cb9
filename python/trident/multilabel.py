"""A classifier of several labels at once."""
from __future__ import annotations

from collections.abc import Mapping

from ._columns import numpy
from ._labels import as_array
from ._model import answer
from ._tables import labels_of
from .classifier import Classifier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


class MultiLabelClassifier(Classifier):
    """Says of each of several labels whether a row has it, from up to two texts and a row of numbers and categories.

    >>> m = trident.MultiLabelClassifier(text="comment", encoder="all-MiniLM-L6-v2").fit(comments, "toxic,threat")
    >>> m.predict(more), m.predict_proba(more), m.classes_

    y is the name of a column of cells ("a;b"), the names of several columns of 0 and 1 between commas, a matrix of 0
    and 1, or a list of labels for each row. Other parameters are those of `Classifier`; among the options are
    `threshold` ("f1", "precision=0.9", "none") and `best_by` ("f1_micro", "lrap"; docs/guide/multilabel.md)."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class, tags.classifier_tags.multi_label = False, True
        tags.target_tags.multi_output = True
        return tags

    def _asked(self) -> dict[str, Any]:
        return {"task": "multilabel", **self._options}

    def _classes_of(self, labels: list[str], kind: str, y: Any) -> tuple[list[Any], Optional[list[int]]]:
        return labels, None

    def _labels_of(self, name: str, y: Any) -> Mapping[str, Any]:
        return labels_of(name, y)

    @property
    def classes_(self) -> Any:
        """The names of the labels."""
        return as_array(self._facts()["classes"])

    def predict(self, X: Any) -> Any:
        """Whether each row has each label, [rows, labels] of 0 and 1, in the order of `classes_`: by the label's own
        threshold."""
        least, matrix, np = self._ready().thresholds(), self._matrix(X), numpy()
        if np is not None:
            return (answer(matrix, None) >= np.asarray(least, dtype=np.float32)).astype(np.int64)
        return [[int(each >= start) for each, start in zip(row, least)] for row in matrix]
