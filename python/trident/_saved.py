"""Models as folders: what `save` writes, `load` reads, and pickle carries as bytes.

Beside an export's own files is `classifier.json`: the type of the labels and the parameters, which no other program
needs."""
from __future__ import annotations

import glob
import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any, Optional

from . import _command

_FACTS = "classifier.json"


def _export(source: str, folder: str) -> None:
    _command.run(["export", f"--checkpoint={source}", f"--output-dir={folder}", "--quiet"])


def _can_be_kept(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False


def save(source: str, folder: str, facts: Mapping[str, Any]) -> str:
    """Exports a model; facts: of the classifier."""
    _export(source, folder)
    parameters = {name: value for name, value in facts["parameters"].items()
                  if _can_be_kept(value) and name != "output_dir"}
    with open(os.path.join(folder, _FACTS), "w", encoding="utf-8") as file:
        json.dump({**facts, "parameters": parameters}, file, indent=1)
    return folder


def read(folder: str) -> tuple[Optional[dict[str, Any]], dict[str, Any]]:
    """The facts of a classifier that was saved, or None, and its parameters."""
    try:
        with open(os.path.join(folder, _FACTS), encoding="utf-8") as file:
            facts: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return None, {}
    return facts, facts.pop("parameters")


def _preprocessing(folder: str) -> dict[str, Any]:
    """How a model's columns are read: all checkpoints of a run have the same."""
    inside = glob.escape(folder)
    for path in sorted(glob.glob(f"{inside}/preprocessing.json") + glob.glob(f"{inside}/*/preprocessing.json")):
        with open(path, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
            return found
    return {}


def label_name(folder: str) -> Optional[str]:
    """The column of labels of a model's training table."""
    return _preprocessing(folder).get("label_name")


def is_number(folder: str) -> bool:
    """Whether a model predicts numbers."""
    return "target" in _preprocessing(folder) and not has_several(folder)


def has_several(folder: str) -> bool:
    """Whether a model predicts several labels."""
    return "separator" in _preprocessing(folder)


def export_bytes(source: str) -> dict[str, bytes]:
    """All files of a model's export."""
    files = {}
    with tempfile.TemporaryDirectory(prefix="trident-") as work:
        folder = os.path.join(work, "model")
        _export(source, folder)
        for place, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                with open(path, "rb") as file:
                    files[os.path.relpath(path, folder)] = file.read()
    return files


def write_bytes(folder: str, files: Mapping[str, bytes]) -> None:
    """Writes them into a folder."""
    for name, data in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
