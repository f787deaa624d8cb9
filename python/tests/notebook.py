"""Runs the cells of a notebook one after the other, without Jupyter: what they print is shown, and the last expression
of a cell as the notebook would show it.

    python3 python/tests/notebook.py examples/reviews.ipynb"""
from __future__ import annotations

import ast
import json
import sys


def run(path: str, shows: bool = True) -> dict[str, object]:
    """Runs all cells and returns their names."""
    with open(path, encoding="utf-8") as file:
        cells = [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
    names: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(cells, 1):
        source = "".join(cell["source"])
        tree = ast.parse(source, f"{path}, cell {number}")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"{path}, cell {number}", "exec"), names)
        if last is None:
            continue
        value = eval(compile(ast.Expression(last.value), f"{path}, cell {number}", "eval"), names)
        if hasattr(value, "_repr_html_"):
            value._repr_html_()
        if shows and value is not None:
            print(f"[{number}]: {value!r}"[:500])
    return names


if __name__ == "__main__":
    run(sys.argv[1])
