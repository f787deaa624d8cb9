"""Tables in memory: what a user gives as X and y, handed to the library (tri_tables).

A table is whatever has __arrow_c_stream__ (pandas, polars, pyarrow, duckdb), a dict of columns, a list of dicts, a list
of texts, an array of two dimensions, or a path."""
from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping, Sequence

from . import _columns
from ._arrow import Stream, give, give_values, take
from ._library import check, encode, library, may_close
from .errors import DataError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


def is_path(table: Any) -> bool:
    """Whether a table is given by its path."""
    return isinstance(table, (str, os.PathLike))


def is_records(table: Any) -> bool:
    """Whether it is a list of dicts."""
    return isinstance(table, (list, tuple)) and len(table) > 0 and isinstance(table[0], Mapping)


def _is_pandas(table: Any) -> bool:
    return type(table).__module__.partition(".")[0] == "pandas" and hasattr(table, "columns")


def has_names(table: Any) -> bool:
    """Whether a table names its columns: not arrays, lists of values, nor frames whose columns are numbered."""
    if _is_pandas(table):
        return any(isinstance(name, str) for name in table.columns)
    if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__") or isinstance(table, Mapping):
        return True
    return is_records(table)


def _of_pandas(table: Any) -> Stream:
    """pandas makes Arrow by pyarrow, where that is installed and takes the columns; the index is not a column."""
    if not has_names(table):
        table = table.set_axis([f"x{i}" for i in range(table.shape[1])], axis=1)
    try:
        import pyarrow  # type: ignore[import-not-found,import-untyped,unused-ignore]

        stream = take(pyarrow.Table.from_pandas(table, preserve_index=False))
    except Exception:  # no pyarrow, or a column that it does not take (mixed types: ArrowInvalid, ArrowTypeError)
        stream = None
    return stream or give(_columns.of_frame(table))


def stream_of(table: Any) -> Stream:
    """The columns of a table."""
    np = _columns.numpy()
    if type(table).__module__.partition(".")[0] == "scipy":
        raise UsageError("Sparse data is not read: give columns, or X.toarray()")
    if _is_pandas(table):
        return _of_pandas(table)
    stream = take(table)
    if stream is not None:
        if stream.names is None:
            raise UsageError("a table is expected, not one column of values")
        return stream
    if isinstance(table, Mapping):
        return give(_columns.of_mapping(table))
    if np is not None and isinstance(table, np.ndarray):
        return give(_columns.of_matrix(table))
    if isinstance(table, Sequence) and not isinstance(table, (str, bytes)):
        if not len(table):
            raise DataError("the table has no rows")
        return give(_columns.of_sequence(table))
    if np is not None and hasattr(table, "__array__"):
        return give(_columns.of_matrix(np.asarray(table)))
    raise UsageError(f"a table is expected, not {type(table).__name__}: whatever has __arrow_c_stream__ (pandas, "
                     "polars, pyarrow, duckdb), a dict of columns, a list of dicts or texts, an array, or a path")


def values_of(name: str, values: Any) -> Stream:
    """One column: labels."""
    if type(values).__module__.partition(".")[0] != "pandas":
        stream = take(values)
        if stream is not None:
            if stream.names is not None and len(stream.names) != 1:
                raise UsageError(f"y should be a 1d array, got {len(stream.names)} columns instead")
            return stream
    elif _is_pandas(values):
        if len(values.columns) != 1:
            raise UsageError(f"y should be a 1d array, got {len(values.columns)} columns instead")
        values = values.iloc[:, 0]
    np = _columns.numpy()
    if np is not None and isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] > 1:
        raise UsageError(f"y should be a 1d array, got an array of shape {values.shape} instead.")
    return give_values(_columns.column_of(name, values))


def labels_of(name: str, y: Any) -> dict[str, Stream]:
    """The columns of several labels: of a matrix of 0 and 1 one for each of its columns, which `name` has between
    commas where they are known; of a list of labels for each row one of cells. Other values are a column."""
    known = name.split(",")
    if _is_pandas(y) and len(y.columns) > 1:
        return {str(each): values_of(str(each), y[each]) for each in y.columns}
    y = y.tolist() if hasattr(y, "tolist") else y
    if not isinstance(y, Sequence) or not len(y) or not isinstance(y[0], (list, tuple, set, frozenset)):
        return {name: values_of(name, y)}
    if any(isinstance(each, str) for row in y for each in row) or not len(y[0]):
        return {name: values_of(name, [";".join(sorted(row)) for row in y])}
    names = known if len(known) > 1 else [f"{name}_{i}" for i in range(len(y[0]))]
    return {each: values_of(each, [row[i] for row in y]) for i, each in enumerate(names)}


class Tables:
    """Tables by name, until this is closed."""

    def __init__(self) -> None:
        self._handle = ctypes.c_void_p()
        check(library().tri_tables_open(ctypes.byref(self._handle)))

    def __enter__(self) -> Tables:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Releases all arrays; nothing that reads them may be open."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle and may_close() and not sys.is_finalizing():
            library().tri_tables_close(handle)

    @property
    def handle(self) -> Optional[int]:
        """tri_tables *"""
        return self._handle.value

    def add(self, table: str, stream: Stream, column: Optional[str] = None) -> None:
        """Adds the columns of a stream, or with `column` its one column, to a table."""
        name = None if column is None else encode(column)
        check(library().tri_tables_add(self._handle, encode(table), name, stream.address))

    def rows(self, table: str) -> int:
        """Rows of a table."""
        return int(library().tri_tables_rows(self._handle, encode(table)))

    def write(self, table: str, file: int) -> None:
        """Writes a table to a file as an Arrow stream."""
        check(library().tri_tables_write(self._handle, encode(table), file))
