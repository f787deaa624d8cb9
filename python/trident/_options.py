"""Keywords as options of the program: words of the command line, or keys of a configuration where words have no form.

There is no table of options here: names are passed on, and the library says what is wrong with one."""
from __future__ import annotations

import os
from collections.abc import Mapping

from . import _command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Union

Words = list[str]


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, set, frozenset)) or (
        hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1)


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if _is_list(value):
        return [_plain(each) for each in (value.tolist() if hasattr(value, "tolist") else value)]
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    return value.item() if hasattr(value, "item") else value


def _typed(value: Any) -> str:
    """A value as it would be typed."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def _has_word(value: Any) -> bool:
    """Whether a value can be typed: not an object, nor a list with an item that has a comma or blanks around it."""
    if isinstance(value, dict):
        return False
    return not isinstance(value, list) or all("," not in _typed(each) and _typed(each).strip() == _typed(each) != ""
                                              for each in value)


def split(options: Mapping[str, Any]) -> tuple[Words, dict[str, Any]]:
    """Words ("--batch-size=8"), and keys of a configuration for values that have no word. None is left out."""
    words, keys = [], {}
    for name, given in options.items():
        value = _plain(given)
        if value is None:
            continue
        if not _has_word(value):
            keys[name] = value
            continue
        typed = ",".join(map(_typed, value)) if isinstance(value, list) else _typed(value)
        words.append(f"--{name.replace('_', '-')}={typed}")
    return words, keys


def write_config(path: str, config: Union[str, os.PathLike[str], Mapping[str, Any], None],
                 keys: Mapping[str, Any]) -> Optional[str]:
    """The file to give as --config: `config` itself if it is a file and nothing is added; None: there is nothing."""
    import json

    if isinstance(config, (str, os.PathLike)):
        if not keys:
            return os.fspath(config)
        with open(config, encoding="utf-8") as file:
            config = json.load(file)
    merged = {**_plain(config or {}), **keys}
    if not merged:
        return None
    with open(path, "w", encoding="utf-8") as file:
        json.dump(merged, file, indent=1)
    return path


_of_command: dict[str, frozenset[str]] = {}


def taken_by(command: str) -> frozenset[str]:
    """The names of a command's options, as its help lists them."""
    if command not in _of_command:
        import re

        listed = _command.run([command, "--help", "all"])
        _of_command[command] = frozenset(re.findall(r"^  (--[a-z0-9-]+)\b", listed, re.MULTILINE))
    return _of_command[command]


def only_of(command: str, words: Words) -> Words:
    """Those words that the command takes."""
    taken = taken_by(command)
    return [word for word in words if word.partition("=")[0] in taken]
