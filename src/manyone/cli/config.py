"""The file of ``manyone run``: its sections and keys, and paths beside the file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from inspect import signature
from pathlib import Path
from typing import Any

import typer

from manyone.cli.common import InputError, command_of
from manyone.cli.watch import watch

#: ``manyone watch`` as the command line has it, which reads the options of [watch].
WATCH = command_of(watch)
# Options of watch that other sections have, or that make no sense here.
_ELSEWHERE = {
    *("model", "table", "state", "sql", "db"),
    *("notify", "notify_test", "notify_later", "cool_down", "as_json", "exit_code"),
}
_OPTIONS = [name for name in signature(watch).parameters if name not in _ELSEWHERE]
_PATHS = ("out", "feedback", "mute", "metrics")
# Texts, and numbers from 0 on.
_KEYS: dict[str, dict[str, type]] = {
    "data": {"model": str, "state": str, "table": str},
    "watch": dict.fromkeys(_OPTIONS, object),
    "notify": {"url": str, "cool_down": float},
    "report": {"out": str, "every_days": float},
    "refit": {"every_days": float, "train_days": float},
}
_NEEDED = {"data": ("model", "state", "table"), "notify": ("url",), "report": ("out",)}
Settings = dict[str, dict[str, Any]]


def read_config(path: Path) -> Settings:
    """The sections of a file.

    Raises
    ------
    InputError
        If a section or a key is not known, is missing, or is not what it should be.
    """
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}.") from error
    _refuse_unknown(path, "section", settings, _KEYS)
    if "data" not in settings:
        raise InputError(f"{path} has no section [data]. Add model, state and table.")
    for section, entries in settings.items():
        if not isinstance(entries, dict):
            raise InputError(f"{path}: {section} is no section. Write [{section}].")
        keys = _KEYS[section]
        _refuse_unknown(path, f"key of [{section}]", entries, keys)
        for name, value in entries.items():
            _check(f"{path}: [{section}] {name} = {value!r}", value, keys[name])
        for name in _NEEDED.get(section, ()):
            if name not in entries:
                raise InputError(f"{path}: [{section}] has no {name}. Add it.")
    return settings


def _refuse_unknown(
    path: Path, what: str, given: Iterable[str], keys: Iterable[str]
) -> None:
    for name in given:
        if name in keys:
            continue
        raise InputError(f"{path}: {name} is no {what}. Known are {', '.join(keys)}.")


def _check(place: str, value: Any, kind: type) -> None:
    """Refuse what is no text, or no number from 0 on."""
    if kind is str and not isinstance(value, str):
        raise InputError(f"{place}: give a text.")
    if kind is float and not (type(value) in (int, float) and value >= 0):
        raise InputError(f"{place}: give a number from 0 on.")


def watch_asked_for(path: Path, settings: Settings, table: Path) -> Any:
    """The options of ``manyone watch`` that a file stands for, as `WATCH` takes them.

    Raises
    ------
    InputError
        If an option of [watch] is not what it should be.
    """
    folder = path.parent
    data = settings["data"]
    words = [str(folder / data["model"]), str(table), "--exit-code"]
    words += ["--state", str(folder / data["state"])]
    for name, value in settings.get("watch", {}).items():
        for each in value if isinstance(value, list) else [value]:
            text = str(folder / str(each)) if name in _PATHS else str(each)
            words += [f"--{name.replace('_', '-')}", text]
    if "notify" in settings:
        notify = settings["notify"]
        words += ["--notify", notify["url"], "--notify-later"]
        words += ["--cool-down", str(notify.get("cool_down", 60))]
    try:
        return WATCH.make_context("watch", words)
    except typer.BadParameter as error:
        raise InputError(f"{path}, [watch]: {error.format_message()}") from error
