"""Commands of the program in this process (tri_run_command): words in, what it prints out, errors as exceptions.

In the main thread a command runs in a thread of its own, while the main thread waits and calls callbacks: so Ctrl-C
reaches Python, which asks the command to stop, waits for its checkpoint, and raises KeyboardInterrupt."""
from __future__ import annotations

import ctypes
import queue
import sys
import threading
import warnings
from collections.abc import Callable
from ctypes import c_int, string_at

from . import _library
from ._library import EVENT, OUTPUT, Caller, library, word_list
from ._tables import Tables
from .errors import UsageError, error_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

RESULT, MESSAGE = 0, 1
WARNING = "warning: "
_POLL = 0.2  # seconds between looks at whether the command's thread is still there


class TridentWarning(UserWarning):
    """What a command warned of."""


class Listener:
    """What is told while a command runs. `event` returns False to end a run early, with a checkpoint."""

    waits = False  # whether a run waits for `event`: where it may stop the run

    def event(self, event: dict[str, Any]) -> Optional[bool]:
        """An event of the run (docs/reference/formats.md: metrics.jsonl)."""

    def message(self, text: str) -> None:
        """A line of progress."""


def _depth() -> int:
    """Frames from the caller to the first one outside of this package, as stacklevel counts them."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("trident."):
        frame, depth = frame.f_back, depth + 1
    return depth


def say(text: str, listener: Optional[Listener]) -> None:
    """Hands a message on: a warning to Python's warnings, all else to the listener."""
    for line in text.splitlines():
        if line.startswith(WARNING):
            warnings.warn(line[len(WARNING):], TridentWarning, stacklevel=_depth())
        elif line and listener is not None:
            listener.message(line)


class _Running:
    """One call of tri_run_command, and what it said."""

    def __init__(self, words: list[str], tables: Optional[Tables], listener: Optional[Listener]) -> None:
        self.words, self.tables, self.listener = words, tables, listener
        self.stop = c_int(0)
        self.result: list[bytes] = []
        self.status, self.error = 0, ""
        self.failed: Optional[BaseException] = None  # of a callback, or an interrupt
        self.tell: Callable[[str, Any], Optional[bool]] = self.told

    def told(self, kind: str, what: Any) -> Optional[bool]:
        """An event or a message, in the thread where callbacks belong."""
        if self.failed is not None:
            return False
        if kind == "message":
            say(what, self.listener)
            return None
        import json

        return self.listener.event(json.loads(what)) if self.listener else None

    def fail(self, error: BaseException) -> None:
        """The command is to end; the first error is the one to raise."""
        self.failed = self.failed or error
        self.stop.value = 1

    def _output(self, context: Any, kind: int, text: int, n: int) -> None:
        if kind == RESULT:
            self.result.append(string_at(text, n))
            return
        try:
            self.tell("message", string_at(text, n).decode("utf-8", "replace"))
        except BaseException as error:  # a warning that is an error, an interrupt
            self.fail(error)

    def _event(self, context: Any, line: int, n: int) -> int:
        try:
            return int(self.tell("event", string_at(line, n)) is False)
        except BaseException as error:
            self.fail(error)
            return 1

    def call(self) -> None:
        """Calls the library and keeps its status and words, both of which belong to this thread."""
        output, event = OUTPUT(self._output), EVENT(self._event)
        caller = Caller(self.tables.handle if self.tables else None, output,
                        event if self.listener is not None else EVENT(), None, ctypes.pointer(self.stop))
        self.status = library().tri_run_command(len(self.words), word_list(self.words), ctypes.byref(caller))
        if self.status:
            self.error = _library.error_words()


def beside(work: Callable[[], None], fail: Callable[[BaseException], None]) -> threading.Thread:
    """Starts work in another thread, whose errors go to `fail`."""
    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            fail(error)

    thread = threading.Thread(target=guarded, name="trident")
    thread.start()
    return thread


def wait(thread: threading.Thread, fail: Callable[[BaseException], None]) -> None:
    """Waits until a thread has ended; an interrupt goes to `fail`, and is not the end of the waiting."""
    while thread.is_alive():
        try:
            thread.join()
        except BaseException as error:
            fail(error)


def is_main() -> bool:
    """Whether this is the thread that Ctrl-C interrupts."""
    return threading.current_thread() is threading.main_thread()


def _call_beside(running: _Running) -> None:
    """Calls it in another thread, and does here what it tells."""
    told: queue.SimpleQueue[Optional[tuple[str, Any]]] = queue.SimpleQueue()
    answers: queue.SimpleQueue[Optional[bool]] = queue.SimpleQueue()
    waits = running.listener is not None and running.listener.waits

    def tell(kind: str, what: Any) -> Optional[bool]:
        if running.stop.value:
            return False
        told.put((kind, what))
        while waits and kind == "event":
            try:
                return answers.get(timeout=_POLL)
            except queue.Empty:
                if running.stop.value:
                    return False
        return None

    def work() -> None:
        try:
            running.call()
        finally:
            told.put(None)

    running.tell = tell
    thread = beside(work, running.fail)
    while True:
        try:
            item = told.get(timeout=_POLL)
            if item is None:
                break
            stays = running.told(*item)
            if stays is False:
                running.stop.value = 1
            if waits and item[0] == "event":
                answers.put(stays)
        except queue.Empty:
            if not thread.is_alive() and told.empty():
                break
        except BaseException as error:  # Ctrl-C, or an error of a callback: the run ends with a checkpoint
            running.fail(error)
    wait(thread, running.fail)


def run(words: list[str], tables: Optional[Tables] = None, listener: Optional[Listener] = None) -> str:
    """Runs a command and returns what it prints to stdout.

    A run that ends early because a listener said so raises Stopped; it has saved a checkpoint."""
    if any("\0" in word for word in words):
        raise UsageError("a word of a command has a 0 byte in it")
    running = _Running(words, tables, listener)
    library()
    if is_main():
        _call_beside(running)
    else:
        running.call()
    if running.failed is not None:
        raise running.failed
    if running.status:
        raise error_of(running.status, running.error)
    return b"".join(running.result).decode("utf-8", "surrogateescape")


def run_json(words: list[str], tables: Optional[Tables] = None, is_one: bool = True) -> Any:
    """Runs a command with --json and returns its object, or the objects of all its lines."""
    import json

    found = run([*words, "--json"], tables)
    return json.loads(found) if is_one else [json.loads(line) for line in found.splitlines() if line]
