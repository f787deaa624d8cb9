"""libtrident.so.0: found, loaded at the first call, its functions declared, its statuses raised.

It is looked for in the file that TRIDENT_LIBRARY names, then beside this package (a wheel has it there), then where the
system's loader looks. After a fork the child may not call it: threads that the library waits for are not in the child,
so that each call there raises RuntimeError with words instead of hanging."""
from __future__ import annotations

import ctypes
import os
import threading
from ctypes import POINTER, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p

from .errors import error_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

NAME = "libtrident.so.0"


class ColumnValue(ctypes.Structure):
    """tri_column_value: a value of one column, as text."""

    _fields_ = [("column", c_char_p), ("value", c_char_p), ("length", c_size_t), ("number", c_int)]


class Row(ctypes.Structure):
    """tri_row: the values of one row."""

    _fields_ = [("value", POINTER(ColumnValue)), ("n", c_int)]


OUTPUT = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p, c_size_t)
EVENT = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)


class Caller(ctypes.Structure):
    """tri_caller: what a command is given."""

    _fields_ = [("tables", c_void_p), ("output", OUTPUT), ("event", EVENT), ("context", c_void_p),
                ("stop", POINTER(c_int))]


# Of include/trident.h and include/trident_table.h: the result and the arguments. Functions whose result is STATUS are
# called through `check`.
STATUS = c_int
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "tri_error": (c_char_p, []),
    "tri_version": (c_char_p, []),
    "tri_model_open": (STATUS, [c_int, POINTER(c_char_p), POINTER(c_void_p)]),
    "tri_model_close": (None, [c_void_p]),
    "tri_model_classes": (c_int, [c_void_p]),
    "tri_model_label": (c_char_p, [c_void_p, c_int]),
    "tri_model_column": (c_char_p, [c_void_p, c_int]),
    "tri_model_predict": (STATUS, [c_void_p, POINTER(Row), c_int64, POINTER(c_float)]),
    "tri_model_decide": (c_int, [c_void_p, POINTER(c_float)]),
    "tri_model_threshold": (c_float, [c_void_p, c_int]),
    "tri_model_predict_table": (STATUS, [c_void_p, c_void_p, c_char_p, POINTER(c_float), POINTER(c_int)]),
    "tri_tables_open": (STATUS, [POINTER(c_void_p)]),
    "tri_tables_add": (STATUS, [c_void_p, c_char_p, c_char_p, c_void_p]),
    "tri_tables_rows": (c_int64, [c_void_p, c_char_p]),
    "tri_tables_write": (STATUS, [c_void_p, c_char_p, c_int]),
    "tri_tables_close": (None, [c_void_p]),
    "tri_run_command": (STATUS, [c_int, POINTER(c_char_p), POINTER(Caller)]),
}

_lock = threading.Lock()
_loaded: Optional[ctypes.CDLL] = None
_path: str = ""
_is_forked = False


def _places() -> list[str]:
    chosen = os.environ.get("TRIDENT_LIBRARY")
    if chosen:
        return [chosen]
    here = os.path.dirname(os.path.abspath(__file__))
    beside = [os.path.join(here, NAME), os.path.join(here, "lib", NAME)]
    return [path for path in beside if os.path.exists(path)] + [NAME]


def _spins() -> dict[str, str]:
    """OpenMP's threads spin at the end of each parallel loop for milliseconds, which costs several times the work where
    others want the same cores; both OpenMP libraries read from the environment how long, while they are loaded. About
    20 us bridge the gap between two operations: the figures of wait_briefly in src/cli/program.c."""
    chosen = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
    if os.environ.get("OMP_NUM_THREADS") == "1" or any(name in os.environ for name in chosen):
        return {}
    return {"GOMP_SPINCOUNT": "500" if os.uname().machine == "x86_64" else "10000", "KMP_BLOCKTIME": "0"}


def _open() -> tuple[ctypes.CDLL, str]:
    spins = _spins()
    os.environ.update(spins)
    failures = []
    try:
        for path in _places():
            try:
                return ctypes.CDLL(path), path
            except OSError as error:
                failures.append(str(error))
    finally:
        for name in spins:
            os.environ.pop(name, None)
    raise ImportError(f"{NAME} cannot be loaded: {'; '.join(failures)}. Install Trident (make install, or the wheel), "
                      "or name the file in TRIDENT_LIBRARY")


def _declare(library: ctypes.CDLL, path: str) -> None:
    for name, (result, arguments) in _FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{path} has no {name}: it is older than this package") from None
        function.restype, function.argtypes = result, arguments


def _after_fork() -> None:
    global _is_forked
    _is_forked = _loaded is not None


def library() -> ctypes.CDLL:
    """The library, loaded by the first call."""
    global _loaded, _path
    if _is_forked:
        raise RuntimeError(
            "trident was used before this process was forked, and the threads that it needs did not come along. Start "
            "processes with multiprocessing.set_start_method('spawn') or 'forkserver', or take threads: any number of "
            "them may call one model")
    if _loaded is None:
        with _lock:
            if _loaded is None:
                opened, path = _open()
                _declare(opened, path)
                os.register_at_fork(after_in_child=_after_fork)
                _loaded, _path = opened, path
    return _loaded


def path() -> str:
    """The file of the library that is loaded: its name alone where the system's loader found it."""
    library()
    return _path


def may_close() -> bool:
    """Whether handles may still be closed: not in the child of a fork, nor when the interpreter has gone."""
    return _loaded is not None and not _is_forked


def version() -> str:
    """The version of the library."""
    found: bytes = library().tri_version()
    return found.decode()


def encode(word: str) -> bytes:
    """A word as the library takes it: file names keep bytes that are not UTF-8."""
    return word.encode("utf-8", "surrogateescape")


def error_words() -> str:
    """Why this thread's last call failed."""
    words: bytes = library().tri_error()
    return words.decode("utf-8", "replace")


def check(status: int) -> None:
    """Raises the error of a status that is not 0."""
    if status:
        raise error_of(status, error_words())


def word_list(words: list[str]) -> Any:
    """A list of words as C takes it."""
    return (c_char_p * len(words))(*[encode(word) for word in words])
