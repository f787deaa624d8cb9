"""The program `trident` as a process: runs on several ranks, which take over the process that they are started in.

Tables go to it without a file on disk: each is written to a memory file (memfd_create) as an Arrow stream and found by
a link to /proc/PID/fd/N. Events are read from the run's metrics.jsonl, and Ctrl-C is passed on."""
from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import IO, Optional

from ._command import Listener, say
from ._library import path as library_path
from ._metrics import Lines
from ._tables import Tables
from .errors import InputMissing, error_of

_POLL = 0.1  # seconds between looks at the run's events
_WORDS = "trident: "  # an error of the program begins with it


def find() -> str:
    """The program: beside the library or the package, else on the PATH."""
    here = os.path.dirname(os.path.abspath(__file__))
    beside = os.path.dirname(library_path())
    places = [os.path.join(here, "bin"), here]
    places += [beside, os.path.join(beside, os.pardir, "bin")] if beside else []
    for folder in places:
        program = os.path.join(folder, "trident")
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    found = shutil.which("trident")
    if found is None:
        raise InputMissing("several ranks need the program `trident`, which is neither beside the library nor on the "
                           "PATH")
    return found


def _guard() -> list[str]:
    """What starts the program so that it is interrupted, as by Ctrl-C, when this process dies: a notebook whose kernel
    is restarted leaves no run behind. setpriv is part of util-linux; without it the run goes on alone."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "INT", "--"] if setpriv else []


@contextlib.contextmanager
def passed(tables: Tables, names: list[str], folder: str) -> Iterator[str]:
    """A data folder with these tables for another process."""
    files: list[int] = []
    try:
        for name in names:
            files.append(os.memfd_create(f"trident-{name}"))
            tables.write(name, files[-1])
            link = os.path.join(folder, f"{name}.arrow")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(link)
            os.symlink(f"/proc/{os.getpid()}/fd/{files[-1]}", link)
        yield folder
    finally:
        for file in files:
            os.close(file)


def _read(stream: IO[str], lines: queue.SimpleQueue[str]) -> None:
    for line in stream:
        lines.put(line.rstrip("\n"))


class _Process:
    """The program, and what it says. In a session of its own: a terminal's Ctrl-C reaches the ranks once, from here."""

    def __init__(self, words: list[str]) -> None:
        self._process = subprocess.Popen([*_guard(), find(), *words], stdin=subprocess.DEVNULL,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                         encoding="utf-8", errors="replace", start_new_session=True)
        assert self._process.stderr is not None
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=_read, args=(self._process.stderr, self._lines), name="trident messages")
        self._reader.start()
        self._is_told = False
        self.error = ""

    def stop(self) -> None:
        """Asks for a checkpoint and the end, once."""
        if not self._is_told:
            self._is_told = True
            self._process.send_signal(signal.SIGINT)

    def is_over(self) -> bool:
        """Looks after a moment whether it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_POLL)
        return self._process.returncode is not None

    def close(self) -> int:
        """Its exit code, once all is read."""
        self._reader.join()
        if self._process.stderr is not None:
            self._process.stderr.close()
        return int(self._process.returncode)

    def say(self, listener: Optional[Listener]) -> None:
        """Hands on what it has said; the last error is kept."""
        while not self._lines.empty():
            line = self._lines.get()
            if line.startswith(_WORDS):
                self.error = line[len(_WORDS):]
            else:
                say(line, listener)


def run(words: list[str], output_dir: str, listener: Optional[Listener] = None) -> None:
    """Runs the program, like _command.run; output_dir is its run folder."""
    events, process = Lines(output_dir, is_new=True), _Process(words)
    failed: Optional[BaseException] = None
    is_over = False
    while not is_over:
        try:
            is_over = process.is_over()
            process.say(listener)
            for line in events.read() if listener is not None else ():
                if listener is not None and listener.event(json.loads(line)) is False:
                    process.stop()
        except BaseException as error:  # Ctrl-C, or an error of a callback: the run ends with a checkpoint
            failed, listener = failed or error, None
            process.stop()
    code = process.close()
    process.say(listener)
    if failed is not None:
        raise failed
    if code:
        raise error_of(code, process.error or f"{words[0]} ended with {code}")
