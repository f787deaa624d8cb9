"""The program `trident` as a process: runs on several ranks, which take over the process that they are started in.

Tables go to it without a file on disk: each is written to a memory file (memfd_create) as an Arrow stream and found by
a link to /proc/PID/fd/N. Events are read from the run's metrics.jsonl, and Ctrl-C is passed on."""
from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import IO, Optional

from ._command import Listener, say
from ._library import path as library_path
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


class _Events:
    """Whole lines that are appended to a run's metrics.jsonl."""

    def __init__(self, run: str) -> None:
        self.path = os.path.join(run, "metrics.jsonl")
        self.at = os.path.getsize(self.path) if os.path.exists(self.path) else 0

    def read(self) -> Iterator[str]:
        if not os.path.exists(self.path):
            return
        self.at = min(self.at, os.path.getsize(self.path))  # a resumed run drops what it repeats
        with open(self.path, "rb") as file:
            file.seek(self.at)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self.at += len(line)
                yield line.decode("utf-8", "surrogateescape")


def _listen(stream: IO[str], listener: Optional[Listener], errors: list[str]) -> None:
    for line in stream:
        line = line.rstrip("\n")
        if line.startswith(_WORDS):
            errors.append(line[len(_WORDS):])
        else:
            say(line, listener)


def run(words: list[str], output_dir: str, listener: Optional[Listener] = None) -> None:
    """Runs the program, like _command.run; output_dir is its run folder."""
    events = _Events(output_dir)
    errors: list[str] = []
    failed: Optional[BaseException] = None
    # A session of its own: a terminal's Ctrl-C reaches the ranks once, from here.
    process = subprocess.Popen([find(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace",
                               start_new_session=True)
    assert process.stderr is not None
    reader = threading.Thread(target=_listen, args=(process.stderr, listener, errors), name="trident messages")
    reader.start()
    is_told = False
    while True:
        try:
            is_over = process.poll() is not None
            for line in events.read() if listener is not None else ():
                if listener is not None and listener.event(json.loads(line)) is False and not is_told:
                    is_told = True
                    process.send_signal(signal.SIGINT)
            if is_over:
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL)
        except BaseException as error:
            failed = failed or error
            listener = None
            if not is_told:
                is_told = True
                process.send_signal(signal.SIGINT)
    reader.join()
    process.stderr.close()
    if failed is not None:
        raise failed
    if process.returncode:
        raise error_of(process.returncode, errors[-1] if errors else f"{words[0]} ended with {process.returncode}")
