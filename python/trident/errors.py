"""Errors of Trident, one class for each status of the library and exit code of the program.

Each is a :class:`TridentError` and the builtin that fits, so ``except ValueError`` catches a wrong option and a value
that cannot be read, ``except FileNotFoundError`` a missing table. ``error.status`` is the number of
docs/reference/exit-codes.md."""
from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar


class TridentError(Exception):
    """What a call of the library could not do, in its own words: what happened, why, and what to try."""

    status: ClassVar[int] = 70


class UsageError(TridentError, ValueError):
    """A wrong option or configuration, or something that this build cannot do."""

    status = 2


class DataError(TridentError, ValueError):
    """The content of an input is wrong."""

    status = 65


class InputMissing(TridentError, FileNotFoundError):
    """An input file or folder is missing."""

    status = 66


class InternalError(TridentError, RuntimeError):
    """A bug in Trident."""

    status = 70


class ResourceError(TridentError, MemoryError):
    """Out of memory, descriptors or processes."""

    status = 71


class BusyError(TridentError, FileExistsError):
    """An output is in use or exists already, or too many rows wait for a model."""

    status = 73


class InputOutputError(TridentError, OSError):
    """Reading or writing failed."""

    status = 74


class Stopped(TridentError, RuntimeError):
    """Stopped early; what was trained is saved."""

    status = 75


class Disagreement(TridentError, RuntimeError):
    """Ranks disagree about operations, settings, data or weights."""

    status = 76


class NotFinite(TridentError, ArithmeticError):
    """A number became infinite or undefined."""

    status = 79


class NotFittedError(TridentError, ValueError, AttributeError):
    """A classifier was used before ``fit``. Where scikit-learn is loaded, it is its NotFittedError, too."""

    status = 2


_CLASSES: list[type[TridentError]] = [
    UsageError, DataError, InputMissing, InternalError, ResourceError, BusyError, InputOutputError, Stopped,
    Disagreement, NotFinite]
_BY_STATUS: dict[int, type[TridentError]] = {each.status: each for each in _CLASSES}


def error_of(status: int, words: str) -> TridentError:
    """The error of a status; codes that the table lacks (128 + a signal) are a TridentError."""
    return _BY_STATUS.get(status, TridentError)(words or f"trident ended with {status}")


def not_fitted(words: str) -> NotFittedError:
    """A NotFittedError that scikit-learn recognises where it is loaded."""
    theirs = sys.modules.get("sklearn.exceptions")
    if theirs is None:
        return NotFittedError(words)
    error: NotFittedError = type("NotFittedError", (NotFittedError, theirs.NotFittedError), {})(words)
    return error
