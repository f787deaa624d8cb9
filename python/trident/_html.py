"""What notebooks show: a classifier as a small table, a page of the program in a frame."""
from __future__ import annotations

import html
import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any, Optional

from . import _command, _options

_FIGURES = ("r2", "rmse", "mae", "accuracy", "f1", "pr_auc", "roc_auc", "log_loss", "loss")


class Page:
    """A page as HTML: shown by a notebook, `save`d to a file, or read as `text`."""

    def __init__(self, text: str, height: int = 600) -> None:
        self.text, self._height = text, height

    def __repr__(self) -> str:
        return f"<trident page, {len(self.text):,} characters; .save(path) writes it>"

    def _repr_html_(self) -> str:
        return (f'<iframe style="width:100%;height:{self._height}px;border:0" '
                f'srcdoc="{html.escape(self.text, quote=True)}"></iframe>')

    def save(self, path: Any) -> None:
        """Writes the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text)


def report(runs: list[str], path: Optional[Any], options: Mapping[str, Any]) -> Page:
    """The page of `trident report` about runs; path: where to keep it."""
    words = _options.split(options)[0]
    with tempfile.TemporaryDirectory(prefix="trident-") as work:
        file = os.path.join(work, "report.html")
        _command.run(["report", *runs, f"--output={file}", "--quiet", *words])
        with open(file, encoding="utf-8") as written:
            page = Page(written.read())
    if path is not None:
        page.save(path)
    return page


def _rows(pairs: list[tuple[str, str]]) -> str:
    return "".join(f"<tr><th style='text-align:left'>{html.escape(name)}</th><td style='text-align:left'>"
                   f"{html.escape(value)}</td></tr>" for name, value in pairs)


def _figures(run: str) -> list[tuple[str, str]]:
    """Of the best validation."""
    try:
        with open(os.path.join(run, "summary.json"), encoding="utf-8") as file:
            summary = json.load(file)
    except (OSError, ValueError):
        return []
    figures = (summary.get("best") or {}).get("figures") or {}
    shown = [(name.replace("_", " "), f"{figures[name]:.4f}") for name in _FIGURES
             if isinstance(figures.get(name), float)]
    return [("steps", f"{summary.get('steps', 0):,}"), ("seconds", f"{summary.get('seconds', 0):.1f}"), *shown]


def of_classifier(classifier: Any) -> str:
    """A classifier with its parameters, and what validation said."""
    title = html.escape(repr(classifier))
    if not classifier.__sklearn_is_fitted__():
        return f"<code>{title}</code>, not fitted"
    classes = [str(each) for each in classifier._facts()["classes"]]
    pairs = [("classes", ", ".join(classes[:12]) + (", ..." if len(classes) > 12 else ""))] if classes else []
    pairs.append(("columns", ", ".join(classifier._facts()["columns"])))
    run = getattr(classifier, "run_dir_", None)
    if run is not None:
        pairs += [*_figures(run), ("run", run)]
    return f"<code>{title}</code><table>{_rows(pairs)}</table>"
