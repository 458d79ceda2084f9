"""The file of ``manyone run``: sections, keys, what they may be, and paths beside the file."""

from __future__ import annotations

import difflib
import inspect
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from manyone.cli.common import InputError
from manyone.cli.watch import watch

# Options of watch that other sections have, or that make no sense here.
_ELSEWHERE = {
    *("model", "table", "state", "sql", "db"),
    *("notify", "notify_test", "notify_later", "cool_down", "as_json", "exit_code"),
}


@dataclass(frozen=True)
class Key:
    """What a key may be: a type, and the lowest number."""

    kind: Any
    lowest: float | None = None


def _options_of(command: Callable[..., None]) -> dict[str, Key]:
    """The options of a command as keys, so that it never has more than a file."""
    hints = get_type_hints(command, include_extras=True)
    keys = {}
    for name in inspect.signature(command).parameters:
        kind = hints[name]
        lowest = None
        for part in (kind, *get_args(kind)):
            for extra in getattr(part, "__metadata__", ()):
                lowest = getattr(extra, "min", None)
        keys[name] = Key(_plain(kind), lowest)
    return keys


def _plain(kind: Any) -> Any:
    """A type without what is said about it, and without None."""
    if hasattr(kind, "__metadata__"):
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        (kind,) = [_plain(part) for part in get_args(kind) if part is not NoneType]
    return kind


_DAYS = Key(float, 0.0)
SECTIONS: dict[str, dict[str, Key]] = {
    "data": {"model": Key(Path), "state": Key(Path), "table": Key(str)},
    "watch": {
        name: key for name, key in _options_of(watch).items() if name not in _ELSEWHERE
    },
    "notify": {"url": Key(str), "cool_down": Key(float, 0.0)},
    "report": {"out": Key(Path), "every_days": _DAYS},
    "refit": {"every_days": _DAYS, "train_days": _DAYS},
}
_NEEDED = {"data": ("model", "state", "table"), "notify": ("url",), "report": ("out",)}


def read_config(path: Path) -> dict[str, dict[str, Any]]:
    """The sections of a file, with paths from its folder on.

    Raises
    ------
    InputError
        If a section or a key is not known, is missing, or is not what it should be.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}.") from error
    _refuse_unknown(path, "section", content, SECTIONS)
    if "data" not in content:
        raise InputError(f"{path} has no section [data]. Add model, state and table.")
    settings: dict[str, dict[str, Any]] = {}
    for section, given in content.items():
        if not isinstance(given, dict):
            raise InputError(f"{path}: {section} is no section. Write [{section}].")
        keys = SECTIONS[section]
        _refuse_unknown(path, f"key of [{section}]", given, keys)
        settings[section] = {
            name: _value(f"{path}: [{section}] {name}", value, keys[name], path.parent)
            for name, value in given.items()
        }
        for name in _NEEDED.get(section, ()):
            if name not in given:
                raise InputError(f"{path}: [{section}] has no {name}. Add it.")
    return settings


def _refuse_unknown(
    path: Path, what: str, given: Iterable[str], known: Mapping[str, object]
) -> None:
    for name in given:
        if name in known:
            continue
        close = difflib.get_close_matches(name, known, 1, 0.5)
        remedy = (
            f"Did you mean {close[0]}?" if close else f"Known are {', '.join(known)}."
        )
        raise InputError(f"{path}: {name} is no {what}. {remedy}")


def _value(place: str, value: Any, key: Key, folder: Path) -> Any:
    """A value of the type that a key has."""
    kind = key.kind
    if kind is Path and isinstance(value, str):
        return folder / value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if get_origin(kind) is list:
        value = [value] if isinstance(value, str) else value
        is_right = isinstance(value, list) and all(isinstance(v, str) for v in value)
    elif get_origin(kind) is Literal:
        is_right = value in get_args(kind)
    else:
        is_right = type(value) is kind
    if not is_right:
        raise InputError(f"{place} = {value!r}: give {_described(kind)}.")
    if key.lowest is not None and value < key.lowest:
        raise InputError(f"{place} = {value!r}: give {key.lowest:g} or more.")
    return value


def _described(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(get_args(kind))
    names = {
        Path: "a path",
        str: "a text",
        int: "a whole number",
        bool: "true or false",
    }
    return names.get(kind, "a number" if kind is float else "a list of texts")
