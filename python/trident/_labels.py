"""Labels as the user has them. The library's labels are texts in canonical form (docs/guide/data.md: equal values); the
classes of a classifier have the type of y, and texts are spelt as y has them."""
from __future__ import annotations


from ._columns import is_missing, numpy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

# Arrow formats of numbers and booleans, and the Python type of their values; all others are texts.
_KINDS: dict[str, str] = {**dict.fromkeys("cCsSiIlL", "int"), **dict.fromkeys("efg", "float"), "b": "bool"}


def kind_of(layout: str) -> str:
    """The Python type of labels by the Arrow format of their column: "int", "float", "bool" or "str"."""
    return _KINDS.get(layout, "str")


def _distinct(y: Any) -> list[str]:
    if hasattr(y, "unique"):
        y = y.unique()
    values = y.tolist() if hasattr(y, "tolist") else y.to_pylist() if hasattr(y, "to_pylist") else y
    return [value for value in set(values) if isinstance(value, str) and not is_missing(value)]


def _same(label: str, text: str) -> bool:
    """Whether a text has this canonical form."""
    text = text.strip()
    if label in ("true", "false"):
        return text in (label, label.capitalize(), label.upper())
    try:
        return text == label or float(text) == float(label)
    except ValueError:
        return False


def _spelt(labels: list[str], y: Any) -> list[str]:
    """Labels as y has them, where that is one way."""
    found = _distinct(y)
    if set(labels) <= set(found):
        return labels
    ways = [[text for text in found if _same(label, text)] for label in labels]
    return [way[0] if len(way) == 1 else label for label, way in zip(labels, ways)]


def classes_of(labels: list[str], kind: str, y: Any = None) -> tuple[list[Any], Optional[list[int]]]:
    """Classes in ascending order, as scikit-learn has them, and the place of each among `labels`; None: they are in
    that order already. kind: of y. y: its values, where they are at hand."""
    classes: list[Any] = labels
    try:
        if kind == "bool":
            classes = [{"true": True, "false": False}[label] for label in labels]
        elif kind != "str":
            classes = [int(label) if kind == "int" else float(label) for label in labels]
    except (KeyError, ValueError):
        pass  # names of label_list: y had class numbers
    if kind == "str" and y is not None:
        classes = _spelt(labels, y)
    order = sorted(range(len(classes)), key=lambda i: classes[i])
    return [classes[i] for i in order], None if order == list(range(len(classes))) else order


def as_array(values: list[Any], dtype: Any = None) -> Any:
    """Values as an array of numpy where that is loaded, else the list."""
    np = numpy()
    return values if np is None else np.asarray(values, dtype=dtype)
