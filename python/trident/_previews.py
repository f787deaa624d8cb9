"""Plans, layouts and tables: the commands of the program that look before a run.

Keywords are the commands' options (`trident plan --help all`); `config` is a path or a dict, `data` a path, a table
as `Classifier.fit` takes it, or a pair of a table and its labels."""
from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any, Optional

from . import _command, _options
from ._tables import Tables, is_path, stream_of
from ._training import Data


class _Asked:
    """A command with its configuration and data, while it runs."""

    def __init__(self, command: str, config: Any, data: Any, options: Mapping[str, Any]) -> None:
        self._work = tempfile.TemporaryDirectory(prefix="trident-")
        self.folder = self._work.name
        self.tables = Tables()
        X, y = data if isinstance(data, tuple) else (data, None)
        label = y if isinstance(y, str) else None
        place = "" if X is None else os.fsdecode(X) if is_path(X) else "memory:train"
        if place and not is_path(X):
            held = Data(self.tables, self.folder)
            held.add("train", X, y)
            label = held.label
        words, keys = _options.split({"label_name": label, **options})
        path = _options.write_config(os.path.join(self.folder, "config.json"), config, keys)
        self.words = [command, *([f"--config={path}"] if path else []), *words]
        if place:
            self.words.append(place if command == "inspect" else f"--data-path={place}")

    def __enter__(self) -> _Asked:
        return self

    def __exit__(self, *_: object) -> None:
        self.tables.close()
        self._work.cleanup()

    def text(self, *words: str) -> str:
        return _command.run([*self.words, "--quiet", *words], self.tables)

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = _command.run_json([*self.words, "--quiet"], self.tables)
        return found


class Plan:
    """A training step as it would be: what each rank computes, sends and needs.

    str(plan) is the table of `trident plan`; `facts` has all figures, `svg` the simulated step as a picture, which a
    notebook shows."""

    def __init__(self, config: Any, data: Any, options: Mapping[str, Any]) -> None:
        self._asked = (config, data, dict(options))
        self._kept: dict[str, Any] = {}
        with _Asked("plan", *self._asked) as asked:
            self.text: str = asked.text()

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    @property
    def facts(self) -> dict[str, Any]:
        """Everything as one dict (docs/reference/commands.md: plan)."""
        if "facts" not in self._kept:
            with _Asked("plan", *self._asked) as asked:
                self._kept["facts"] = asked.json()
        facts: dict[str, Any] = self._kept["facts"]
        return facts

    @property
    def svg(self) -> str:
        """One step on the timeline, one row for each rank."""
        if "svg" not in self._kept:
            with _Asked("plan", *self._asked) as asked:
                path = os.path.join(asked.folder, "step.svg")
                asked.text(f"--svg={path}")
                with open(path, encoding="utf-8") as file:
                    self._kept["svg"] = file.read()
        svg: str = self._kept["svg"]
        return svg

    def _repr_html_(self) -> str:
        return self.svg


def plan(config: Any = None, data: Any = None, **options: Any) -> Plan:
    """Plans a training step; nothing runs and no device is needed.

    >>> trident.plan("config.json", world_size=16, pp_size=4, schedule="zb-h1", hardware="h200x8")
    """
    return Plan(config, data, options)


def choose(config: Any = None, data: Any = None, **options: Any) -> dict[str, Any]:
    """Searches the layouts of a number of ranks for the fastest one that fits into memory.

    >>> trident.choose("config.json", world_size=8, hardware="h200x8", top=3)["layouts"][0]
    """
    with _Asked("choose", config, data, options) as asked:
        return asked.json()


def simulate(config: Any = None, data: Any = None, **options: Any) -> dict[str, Any]:
    """Times a training step on described hardware.

    >>> trident.simulate("config.json", world_size=16, hardware="h200x8")["step_seconds"]
    """
    with _Asked("simulate", config, data, options) as asked:
        return asked.json()


def inspect(data: Any, y: Optional[Any] = None, **options: Any) -> dict[str, Any]:
    """Says what a table holds: columns and their kinds, labels, lengths of texts, warnings.

    >>> [(column["name"], column["kind"]) for column in trident.inspect(frame)["columns"]]
    """
    with _Asked("inspect", None, (data, y), options) as asked:
        return asked.json()


def run(*words: Any, tables: Optional[Mapping[str, Any]] = None) -> str:
    """Runs any command of the program in this process and returns what it prints.

    `tables` are tables in memory by name: where the command takes --data-path, "memory:NAME" is one of them.

    >>> trident.run("eval", "--checkpoint=run", "--data-path=memory:rows", tables={"rows": frame})
    """
    with Tables() as held:
        for name, table in (tables or {}).items():
            held.add(name, stream_of(table))
        return _command.run([os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in words], held)
