"""Figures of a run for other tools, through their own clients: Weights & Biases, MLflow, TensorBoard."""
from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any, Optional

from ._metrics import Lines
from .errors import InputMissing, UsageError

_FACTS = {"ts", "event", "step"}  # of a line, that are not figures
_PAUSE = 0.5  # seconds between looks at a run that goes on


def _numbers(event: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in event.items()
            if name not in _FACTS and isinstance(value, (int, float)) and not isinstance(value, bool)}


class _Wandb:
    def __init__(self, name: str, facts: dict[str, Any], options: dict[str, Any]) -> None:
        import wandb  # type: ignore[import-not-found,unused-ignore]

        self.run = wandb.init(**{"name": name, "config": facts, **options})

    def figures(self, kind: str, event: dict[str, Any]) -> None:
        self.run.log({f"{kind}/{key}": value for key, value in _numbers(event).items()}, step=event["step"])

    def end(self, summary: dict[str, Any]) -> None:
        self.run.summary.update(_numbers(summary))
        self.run.finish()


class _Mlflow:
    def __init__(self, name: str, facts: dict[str, Any], options: dict[str, Any]) -> None:
        import mlflow  # type: ignore[import-not-found,unused-ignore]

        self.client = mlflow
        mlflow.start_run(**{"run_name": name, **options})
        pairs = [(key, value) for key, value in facts.items() if not isinstance(value, (dict, list))]
        for at in range(0, len(pairs), 100):  # MLflow takes a hundred at once
            mlflow.log_params(dict(pairs[at:at + 100]))

    def figures(self, kind: str, event: dict[str, Any]) -> None:
        self.client.log_metrics({f"{kind}/{key}": value for key, value in _numbers(event).items()},
                                step=int(event["step"]))

    def end(self, summary: dict[str, Any]) -> None:
        self.client.log_metrics({f"end/{key}": value for key, value in _numbers(summary).items()})
        self.client.end_run()


class _Tensorboard:
    def __init__(self, name: str, facts: dict[str, Any], options: dict[str, Any]) -> None:
        from tensorboard.compat.proto import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
            event_pb2,
            summary_pb2,
        )
        from tensorboard.summary.writer.event_file_writer import (  # type: ignore
            EventFileWriter,
        )

        self.event, self.summary = event_pb2.Event, summary_pb2.Summary
        self.writer = EventFileWriter(os.fspath(options.get("log_dir", os.path.join("runs", name))))

    def figures(self, kind: str, event: dict[str, Any]) -> None:
        values = [self.summary.Value(tag=f"{kind}/{key}", simple_value=value) for key, value in _numbers(event).items()]
        self.writer.add_event(self.event(step=int(event["step"]), wall_time=event.get("ts", time.time()),
                                         summary=self.summary(value=values)))

    def end(self, summary: dict[str, Any]) -> None:
        self.writer.close()


_CLIENTS = {"wandb": _Wandb, "mlflow": _Mlflow, "tensorboard": _Tensorboard}


def _events(lines: Lines, follow: bool, timeout: Optional[float]) -> Iterator[dict[str, Any]]:
    """With `follow` until the run's end, or until nothing came for `timeout` seconds."""
    last = time.monotonic()
    while True:
        for line in lines.read():
            last = time.monotonic()
            event: dict[str, Any] = json.loads(line)
            yield event
            if follow and event["event"] == "end":
                return
        if not follow or (timeout is not None and time.monotonic() - last > timeout):
            return
        time.sleep(_PAUSE)


def log(run: Any, to: str = "wandb", *, follow: bool = False, timeout: Optional[float] = None,
        **options: Any) -> None:
    """Logs a run to another tool.

    Parameters
    ----------
    run : run folder, or a fitted Classifier
    to : "wandb", "mlflow" or "tensorboard"
        Whose package has to be installed; figures go through its own client.
    follow : bool
        Goes on until the run ends, and waits for one that has not begun: log a run while it trains, from another
        thread or process. False: what is there now.
    timeout : seconds, optional
        With `follow`: how long to wait for the next event.
    **options
        Of wandb.init (`project="reviews"`) or mlflow.start_run; of TensorBoard `log_dir`.

    >>> trident.log("run", to="mlflow")
    """
    if to not in _CLIENTS:
        raise UsageError(f'to="{to}": one of {", ".join(_CLIENTS)} is expected')
    folder = os.path.abspath(os.fsdecode(getattr(run, "run_dir_", run)))
    lines = Lines(folder)
    if not follow and not lines.is_there():
        raise InputMissing(f"{folder} is not a run folder: it has no metrics.jsonl")
    client: Any = None
    ended: dict[str, Any] = {}
    for event in _events(lines, follow, timeout):
        kind = event["event"]
        if client is None:
            facts = event.get("config", {}) if kind == "start" else {}
            try:
                client = _CLIENTS[to](os.path.basename(folder), facts, options)
            except ImportError as error:
                raise ImportError(f"trident.log to {to} needs its package: pip install {to} ({error})") from error
        if kind in ("train", "epoch"):
            client.figures("step" if kind == "train" else "epoch", event)
        elif kind == "end":
            ended = event
    if client is not None:
        client.end(ended)
