"""Plans, layouts and tables: the commands of the program that look before a run.

Keywords are the commands' options (`trident plan --help all`); `config` is a path or a dict, `data` a path or a table
as `Classifier.fit` takes it."""
from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any, Optional

from . import _command, _options
from ._tables import Tables, is_path, stream_of, values_of


class _Asked:
    """A command with its configuration and data, while it runs."""

    def __init__(self, command: str, config: Any, data: Any, options: Mapping[str, Any]) -> None:
        self._work = tempfile.TemporaryDirectory(prefix="trident-")
        self.folder = self._work.name
        self.tables = Tables()
        words, keys = _options.split(options)
        path = _options.write_config(os.path.join(self.folder, "config.json"), config, keys)
        self.words = [command, *([f"--config={path}"] if path else []), *words]
        if data is not None:
            path = os.fsdecode(data) if is_path(data) else self._add(data)
            self.words.append(path if command == "inspect" else f"--data-path={path}")

    def _add(self, data: Any) -> str:
        X, y = data if isinstance(data, tuple) else (data, None)
        self.tables.add("train", stream_of(X))
        if y is not None:
            self.tables.add("train", values_of("label", y), "label")
        return "memory:train"

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
    if isinstance(y, str):
        options, y = {**options, "label_name": y}, None
    elif y is not None:
        options, data = {"label_name": "label", **options}, (data, y)
    with _Asked("inspect", None, data, options) as asked:
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
