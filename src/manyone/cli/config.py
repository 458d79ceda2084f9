"""The file of ``manyone run``: its sections and keys, and paths beside the file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from manyone.cli.common import InputError, command_of, refused_option
from manyone.cli.watch import watch

#: ``manyone watch`` as the command line has it, which reads the options of [watch].
WATCH = command_of(watch)
# Options of watch that are keys of other sections, or make no sense in a file.
_ELSEWHERE = {
    *("model", "table", "state", "sql", "db"),
    *("notify", "notify_test", "notify_later", "cool_down", "as_json", "exit_code"),
}
_PATHS = ("out", "feedback", "mute", "metrics")
# Texts, numbers from 0 on, and of watch one value of an option, or a list of values.
_KEYS: dict[str, dict[str, type]] = {
    "data": {"model": str, "state": str, "table": str},
    "watch": {
        option.name: list if option.multiple else object
        for option in WATCH.params
        if option.name not in _ELSEWHERE
    },
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
        raise InputError(
            f"{path} is not TOML: {error}. Put texts in quotes, as "
            'model = "fleet.manyone".'
        ) from error
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
    path: Path, kind: str, names: Iterable[str], keys: Iterable[str]
) -> None:
    """Refuse names of sections or keys that do not exist."""
    for name in names:
        if name not in keys:
            raise InputError(
                f"{path}: {name} is no {kind}. Known are {', '.join(keys)}."
            )


def _check(place: str, value: Any, kind: type) -> None:
    """Refuse a value that is not of the kind of its key."""
    if kind is str and not isinstance(value, str):
        raise InputError(f"{place}: give a text.")
    if kind is float and not (type(value) in (int, float) and value >= 0):
        raise InputError(f"{place}: give a number from 0 on.")
    values = value if kind is list and isinstance(value, list) else [value]
    if any(type(each) not in (str, int, float) for each in values):
        several = ", or a list of them" if kind is list else ""
        raise InputError(f"{place}: give a text or a number{several}.")


def watch_context(path: Path, settings: Settings, table: Path) -> Any:
    """Options of ``manyone watch`` in a file, as `WATCH` takes them.

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
        raise InputError(f"{path}, [watch]: {refused_option(error)}") from error
