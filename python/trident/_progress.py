"""A run as it goes on: callbacks, and a line of progress that updates in a notebook or a terminal."""
from __future__ import annotations

import sys
import time
from collections.abc import Callable

from ._command import Listener
from .errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    Callback = Callable[[dict[str, Any]], Optional[bool]]

_PAUSE = 0.1  # seconds between updates of the line


def is_notebook() -> bool:
    """Whether this is a notebook, where cells show objects."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


class _Terminal:
    """The last line of a terminal."""

    def __init__(self) -> None:
        self.width = 0

    def line(self, text: str) -> None:
        import shutil

        text = text[:shutil.get_terminal_size().columns - 1]
        sys.stderr.write("\r" + text.ljust(self.width))
        sys.stderr.flush()
        self.width = len(text)

    def message(self, text: str) -> None:
        self.line("")
        sys.stderr.write("\r" + text + "\n")

    def close(self) -> None:
        self.line("")
        sys.stderr.write("\r")
        sys.stderr.flush()


class _Cell:
    """The output of a notebook's cell: messages, and below them the line."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.handle: Any = None

    def line(self, text: str) -> None:
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

        shown = {"text/plain": "\n".join([*self.messages, text] if text else self.messages)}
        if self.handle is None:
            self.handle = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call,unused-ignore]
        else:
            self.handle.update(shown, raw=True)

    def message(self, text: str) -> None:
        self.messages.append(text)
        self.line("")

    def close(self) -> None:
        if self.handle is not None:
            self.line("")


def words_of(event: dict[str, Any]) -> str:
    """A step in one line."""
    parts = [f"epoch {event.get('epoch', 0):.2f}", f"step {event['step']:,}", f"loss {event.get('loss') or 0:.4f}"]
    if event.get("learning_rate") is not None:
        parts.append(f"lr {event['learning_rate']:.3g}")
    if event.get("samples_per_second"):
        parts.append(f"{event['samples_per_second']:,.0f} samples/s")
    return "  ".join(parts)


def _calls_of(callback: Any) -> dict[str, Callback]:
    """What is called for which event: methods on_step and on_epoch, or for both the object itself."""
    named = {"train": "on_step", "epoch": "on_epoch"}
    found = {event: getattr(callback, name) for event, name in named.items() if hasattr(callback, name)}
    if not found and not callable(callback):
        raise UsageError(f"a callback has on_step or on_epoch, or is a function; {type(callback).__name__} is neither")
    return found or dict.fromkeys(named, callback)


class Watcher(Listener):
    """Calls callbacks and shows progress."""

    def __init__(self, callbacks: Any, progress: Optional[bool]) -> None:
        if callbacks is None:
            callbacks = []
        elif not isinstance(callbacks, (list, tuple)):
            callbacks = [callbacks]
        self.calls = [_calls_of(callback) for callback in callbacks]
        self.waits = bool(self.calls)
        notebook = is_notebook()
        self.is_shown = bool(notebook or sys.stderr.isatty()) if progress is None else bool(progress)
        self._screen: Any = (_Cell() if notebook else _Terminal()) if self.is_shown else None
        self._last = 0.0

    def event(self, event: dict[str, Any]) -> Optional[bool]:
        if self._screen is not None and event["event"] == "train" and time.monotonic() - self._last > _PAUSE:
            self._last = time.monotonic()
            self._screen.line(words_of(event))
        goes_on = True
        for calls in self.calls:
            if event["event"] in calls and calls[event["event"]](event) is False:
                goes_on = False
        return goes_on

    def message(self, text: str) -> None:
        if self._screen is not None:
            self._screen.message(text)

    def close(self) -> None:
        """Ends the line."""
        if self._screen is not None:
            self._screen.close()
