"""metrics.jsonl of a run, while the run appends to it."""
from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


class Lines:
    """Whole lines of a run's metrics.jsonl, from the beginning or from those on that are not there yet."""

    def __init__(self, run: str, is_new: bool = False) -> None:
        self.path = os.path.join(run, "metrics.jsonl")
        self._at = os.path.getsize(self.path) if is_new and self.is_there() else 0

    def is_there(self) -> bool:
        """Whether the run has begun."""
        return os.path.exists(self.path)

    def read(self) -> Iterator[bytes]:
        """Those that were appended since the last call."""
        with contextlib.suppress(FileNotFoundError), open(self.path, "rb") as file:
            self._at = min(self._at, os.path.getsize(self.path))  # a resumed run drops what it repeats
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._at += len(line)
                yield line
