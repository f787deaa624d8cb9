"""A model that is open for prediction (tri_model), and what it answers with.

Any number of threads may predict with one; it is closed when the last one who holds it lets go."""
from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_float, c_int, c_void_p

from . import _command
from ._arrow import Column, array_capsules
from ._columns import is_missing, numpy, text_of
from ._library import ColumnValue, Row, check, encode, library, may_close, word_list
from ._tables import Tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

FLOATS = POINTER(c_float)
FEW = 1024  # rows that are predicted in no time that one would interrupt


class _Rows:
    """What probabilities have besides the buffer protocol, which ctypes' arrays have: [rows, classes] of float."""

    def tolist(self) -> list[list[float]]:
        """Lists of floats."""
        return [list(row) for row in self]  # type: ignore[attr-defined]

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """A list of fixed size for each row."""
        rows, classes = len(self), self._type_._length_  # type: ignore[arg-type,attr-defined]
        values = Column("item", "f", rows * classes, [None, self])
        return array_capsules(Column("", f"+w:{classes}", rows, [None], children=[values]))

    def __repr__(self) -> str:
        return f"Probabilities({self.tolist()!r})"


@functools.lru_cache(maxsize=64)
def _matrix_type(rows: int, classes: int) -> Any:
    return type("Probabilities", (_Rows, ctypes.Array), {"_type_": c_float * classes, "_length_": rows})


def answer(matrix: Any, order: Optional[list[int]]) -> Any:
    """Probabilities for the user: of numpy where that is loaded. order: of the columns; None: as they are."""
    np = numpy()
    rows, classes = len(matrix), matrix._type_._length_
    if np is not None:
        found = np.frombuffer(matrix, dtype=np.float32).reshape(rows, classes)
        return found if order is None else np.ascontiguousarray(found[:, order])
    if order is None:
        return matrix
    moved = _matrix_type(rows, classes)()
    for to, row in zip(moved, matrix):
        to[:] = [row[i] for i in order]
    return moved


@functools.lru_cache(maxsize=4096)
def _name(column: str) -> bytes:
    return encode(column)


class Model:
    """A model folder, opened with options of `trident predict`."""

    def __init__(self, options: list[str]) -> None:
        self._handle = c_void_p()
        check(library().tri_model_open(len(options), word_list(options), byref(self._handle)))
        self.classes: int = library().tri_model_classes(self._handle)
        self.labels: list[str] = [self._words("tri_model_label", i) or "" for i in range(self.classes)]
        self.columns: list[str] = []
        while (column := self._words("tri_model_column", len(self.columns))) is not None:
            self.columns.append(column)

    def __del__(self) -> None:
        handle, self._handle = self._handle, c_void_p()
        if handle and may_close() and not sys.is_finalizing():
            library().tri_model_close(handle)

    def _words(self, function: str, index: int) -> Optional[str]:
        words: Optional[bytes] = getattr(library(), function)(self._handle, index)
        return None if words is None else words.decode("utf-8", "surrogateescape")

    def rows(self, rows: Sequence[Mapping[Any, Any]]) -> Any:
        """Probabilities of rows given by column names, [rows, classes]. Columns that are left out are missing."""
        taken = (Row * len(rows))()
        kept = []
        for to, row in zip(taken, rows):
            values = (ColumnValue * len(row))()
            for at, (column, value) in zip(values, row.items()):
                at.column = _name(column if type(column) is str else str(column))
                if type(value) is str:
                    text = value.encode()
                elif is_missing(value):
                    continue
                else:
                    text = text_of(value).encode()
                    at.number = isinstance(value, (int, float)) and not isinstance(value, bool)
                at.value, at.length = text, len(text)
            kept.append(values)
            to.value, to.n = values, len(row)
        out = _matrix_type(len(rows), self.classes)()
        check(library().tri_model_predict(self._handle, taken, len(rows), ctypes.cast(out, FLOATS)))
        return out

    def table(self, tables: Tables, name: str) -> Any:
        """Probabilities of all rows of a table. Ctrl-C ends it early."""
        rows, stop, failed = tables.rows(name), c_int(0), []
        out = _matrix_type(rows, self.classes)()

        def work() -> None:
            check(library().tri_model_predict_table(self._handle, tables.handle, encode(name),
                                                    ctypes.cast(out, FLOATS), byref(stop)))

        def fail(error: BaseException) -> None:
            failed.append(error)
            stop.value = 1

        if rows <= FEW or not _command.is_main():
            work()
        else:
            _command.wait(_command.beside(work, fail), fail)
        if failed:
            raise failed[0]
        return out

    def file(self, folder: str, path: str) -> Any:
        """Probabilities of all rows of a file. folder: of this model."""
        found = _command.run_json(["predict", f"--checkpoint={folder}", f"--data-path={path}"], is_one=False)
        out = _matrix_type(len(found), self.classes)()
        for to, row in zip(out, found):
            to[:] = [row.get("probabilities", row)[label] for label in self.labels]
        return out

    def thresholds(self) -> list[float]:
        """Of several labels: the probability from which each is one of a row's."""
        return [library().tri_model_threshold(self._handle, i) for i in range(self.classes)]

    def decide(self, matrix: Any) -> list[int]:
        """The class of each row: by the model's threshold, or else the most probable."""
        choose, handle = library().tri_model_decide, self._handle
        return [choose(handle, row) for row in matrix]
