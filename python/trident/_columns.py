"""Columns of Python values: lists, numpy arrays, anything that numpy reads; each becomes an Arrow column.

Numbers of contiguous arrays are not copied. None, NaN, NaT and pandas' NA are missing. A list takes the narrowest of
booleans, whole numbers, numbers and texts that holds all its values."""
from __future__ import annotations

import itertools
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence

from ._arrow import Column
from .errors import DataError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

# Formats of memoryview and numpy, as Arrow's.
_NUMBERS = {"b": "c", "B": "C", "h": "s", "H": "S", "i": "i", "I": "I", "l": "l", "L": "L", "q": "l", "Q": "L",
            "e": "e", "f": "f", "d": "g"}
_TIMES = {"s": "tss:", "ms": "tsm:", "us": "tsu:", "ns": "tsn:"}
_MISSING = {"NoneType", "NAType", "NaTType"}


def numpy() -> Any:
    """numpy, if the program has it loaded."""
    return sys.modules.get("numpy")


def _bits(values: Iterable[bool]) -> bytes:
    """A bit for each value, the first lowest."""
    digits = "".join(["1" if value else "0" for value in values])
    return int(digits[::-1] or "0", 2).to_bytes((len(digits) + 7) // 8, "little")


def is_missing(value: Any) -> bool:
    """None, NaN, and what pandas has for them."""
    return type(value).__name__ in _MISSING or (isinstance(value, float) and value != value)


def _plain(value: Any) -> Any:
    """Python's own value of a scalar of numpy."""
    return value.item() if hasattr(value, "item") and not isinstance(value, (str, bytes)) else value


def text_of(value: Any) -> str:
    """A value as the text that a table has for it."""
    value = _plain(value)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8")
    if hasattr(value, "isoformat"):
        text: str = value.isoformat(" ") if hasattr(value, "hour") and hasattr(value, "year") else value.isoformat()
        return text
    if isinstance(value, (list, tuple, dict, set)):
        raise DataError(f"a value of a column is a {type(value).__name__}: text, number, boolean or None is expected")
    return str(value)


def _texts(name: str, values: Sequence[Any], present: Optional[bytes], missing: int) -> Column:
    """large_utf8: offsets of 8 bytes, and all texts one behind the other."""
    try:
        joined = "".join(values)
        if joined.isascii():
            data, lengths = joined.encode("ascii"), map(len, values)
        else:
            pieces = [value.encode("utf-8") for value in values]
            data, lengths = b"".join(pieces), map(len, pieces)
    except UnicodeEncodeError as error:
        raise DataError(f'column "{name}": half of a surrogate pair is not a text ({error.reason})') from None
    offsets = array("q", itertools.accumulate(lengths, initial=0))
    return Column(name, "U", len(values), [present, offsets, data], missing)


def _of_values(name: str, values: list[Any]) -> Column:
    """A list of Python's own values."""
    kinds = {type(value) for value in values}
    if any(kind.__module__ == "numpy" for kind in kinds):
        values = [_plain(value) for value in values]
        kinds = {type(value) for value in values}
    gone = [kind for kind in kinds if kind.__name__ in _MISSING]
    known = kinds.difference(gone)
    if str in known and float in known and all(value != value for value in values if type(value) is float):
        gone.append(float)  # pandas' NaN among texts
        known.discard(float)
    present, missing = None, 0
    if gone:
        there = [type(value) not in gone for value in values]
        present, missing = _bits(there), len(there) - sum(there)
    n = len(values)
    if not known:
        return Column(name, "n", n, [], n)
    if known == {bool}:
        return Column(name, "b", n, [present, _bits(bool(value) if value else False for value in values)], missing)
    if known == {str}:
        return _texts(name, ["" if type(value) in gone else value for value in values] if gone else values, present,
                      missing)
    if known <= {int, float}:
        kind = "d" if float in known else "q"
        try:
            numbers = array(kind, [0 if type(value) in gone else value for value in values] if gone else values)
            return Column(name, _NUMBERS[kind], n, [present, numbers], missing)
        except OverflowError:
            pass  # whole numbers beyond 64 bits are texts of digits
    absent = [is_missing(value) for value in values]
    there = [not each for each in absent]
    return _texts(name, ["" if gone else text_of(value) for value, gone in zip(values, absent)], _bits(there),
                  sum(absent))


def _of_numpy(name: str, values: Any) -> Column:
    np = numpy()
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise UsageError(f'column "{name}": {values.ndim} dimensions; one is expected')
    kind, n = values.dtype.kind, len(values)
    if kind == "b":
        return Column(name, "b", n, [None, np.packbits(values, bitorder="little")])
    if kind == "M" and np.datetime_data(values.dtype)[0] in _TIMES:
        gone = np.isnat(values)
        present = np.packbits(~gone, bitorder="little") if gone.any() else None
        return Column(name, _TIMES[np.datetime_data(values.dtype)[0]], n,
                      [present, np.ascontiguousarray(values).view("i8")], int(gone.sum()))
    if kind in "iuf" and values.dtype.char in _NUMBERS:
        numbers = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
        return Column(name, _NUMBERS[numbers.dtype.char], n, [None, numbers])
    if kind == "c":
        raise UsageError(f'column "{name}": Complex data not supported')
    return _of_values(name, values.tolist())


def column_of(name: str, values: Any) -> Column:
    """A column of a list, a tuple, an array, or whatever numpy reads."""
    np = numpy()
    if np is not None and isinstance(values, np.ndarray):
        return _of_numpy(name, values)
    if isinstance(values, (str, bytes)):
        raise UsageError(f'column "{name}" is one text; a list of them is expected')
    if isinstance(values, (array, memoryview)):
        view = memoryview(values)
        if view.ndim == 1 and view.contiguous and view.format in _NUMBERS:
            return Column(name, _NUMBERS[view.format], len(view), [None, view])
        return _of_values(name, view.tolist())
    if isinstance(values, (list, tuple, range)):
        return _of_values(name, list(values))
    if np is not None and hasattr(values, "__array__"):
        return _of_numpy(name, np.asarray(values))
    if hasattr(values, "tolist"):
        return _of_values(name, values.tolist())
    if isinstance(values, Iterable):
        return _of_values(name, list(values))
    raise UsageError(f'column "{name}": values are expected, not {type(values).__name__}')


def _same_length(columns: list[Column]) -> list[Column]:
    lengths = {column.length for column in columns}
    if len(lengths) > 1:
        shown = ", ".join(f'"{column.name}" {column.length:,}' for column in columns[:8])
        raise DataError(f"columns have different numbers of values: {shown}")
    return columns


def of_mapping(table: Mapping[Any, Any]) -> list[Column]:
    """A dict of columns."""
    return _same_length([column_of(str(name), values) for name, values in table.items()])


def of_records(rows: Sequence[Mapping[Any, Any]]) -> list[Column]:
    """A list of dicts; what one of them lacks is missing."""
    names = dict.fromkeys(itertools.chain.from_iterable(rows))
    return [_of_values(str(name), [row.get(name) for row in rows]) for name in names]


def of_matrix(table: Any) -> list[Column]:
    """A numpy array of two dimensions; columns are x0, x1, ... as scikit-learn calls them."""
    if table.ndim == 1:
        raise UsageError("Expected 2D array, got 1D array instead. Reshape your data either using "
                         "array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if it "
                         "contains a single sample; texts are given as a list of str")
    if table.ndim != 2:
        raise UsageError(f"an array of {table.ndim} dimensions; 2 are expected")
    if not table.shape[1]:
        raise UsageError(f"Found array with 0 feature(s) (shape={table.shape}) while a minimum of 1 is required.")
    return [_of_numpy(f"x{i}", table[:, i]) for i in range(table.shape[1])]


def of_frame(table: Any) -> list[Column]:
    """A pandas DataFrame, without pyarrow."""
    return [column_of(str(name), series.to_numpy() if type(series.dtype).__module__.startswith("numpy")
                      else series.tolist()) for name, series in table.items()]


def of_sequence(rows: Sequence[Any]) -> list[Column]:
    """A list: of dicts, of texts (one column, "text"), or of lists of values (x0, x1, ...)."""
    first = rows[0]
    if isinstance(first, Mapping):
        return of_records(rows)
    if isinstance(first, str):
        return [_of_values("text", list(rows))]
    if isinstance(first, (list, tuple)):
        return _same_length([_of_values(f"x{i}", list(values)) for i, values in enumerate(zip(*rows))])
    np = numpy()
    if np is not None and isinstance(first, np.ndarray):
        return of_matrix(np.asarray(rows))
    raise UsageError(f"rows are dicts, texts or lists of values, not {type(first).__name__}")
