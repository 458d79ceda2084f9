"""Tables and series: keystrokes, spacecraft telemetry, turbofan engines."""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from numbers import Integral
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.utils import Bunch

from manyone._types import Array, Mask
from manyone.datasets._cache import (
    Arrays,
    PathLike,
    Values,
    bunch,
    choose,
    fetch,
    loader,
    numbered,
)
from manyone.tablefiles import read_table


@loader
def load_keystrokes(
    *,
    data_home: PathLike = None,
    download_if_missing: bool = True,
) -> Bunch:
    """Load MEU-Mobile keystroke dynamics: 56 users, 51 records each, 71 features.

    Parameters
    ----------
    data_home : path-like, optional
        Folder with ``meu_mobile_keystroke.npz``; default ``$MANYONE_DATA``, then the
        user's cache.
    download_if_missing : bool, default=True
        Whether to download and convert the original (needs pooch, polars and
        fastexcel).
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    Bunch
        ``data`` (2856, 71) float64, ``feature_names`` (71,), ``target`` (2856,) 0 to
        55, ``target_names`` ``"user1"`` to ``"user56"``, ``DESCR``.
    """
    arrays = fetch("keystrokes", _convert_keystrokes, data_home, download_if_missing)
    return bunch(
        "keystrokes",
        arrays["X"],
        arrays["y"] - 1,
        numbered("user", 56),
        feature_names=arrays["columns"],
    )


@loader
def load_telemetry(
    *,
    spacecraft: str | None = None,
    split: str = "train",
    window: int = 50,
    step: int | None = None,
    features: str = "commands",
    data_home: PathLike = None,
) -> Bunch:
    """Load NASA SMAP and MSL telemetry as rows of window features.

    Parameters
    ----------
    spacecraft : {"SMAP", "MSL"}, optional
        Channels of one spacecraft only; default both.
    split : {"train", "test"}, default="train"
        Series the rows are made of: the normal training series or the labelled test
        series.
    window : int, default=50
        Length of the windows.
    step : int, optional
        Distance between the starts of two windows; default `window`, so that they do
        not overlap. A shorter rest at the end of a series is left out.
    features : {"commands", "values"}, default="commands"
        Numbers that make a window a row, see below; ``"values"`` leaves the commands
        alone.
    data_home : path-like, optional
        Folder with ``nasa_smap_msl.npz``; default ``$MANYONE_DATA``, then the user's
        cache. This file is not downloaded: its authors' archive is no longer public.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    Bunch
        ``data`` (n, 8) or (n, 9) float64, one row per window: mean, standard deviation,
        minimum and maximum of the values, mean absolute change, last minus first value,
        and either commands per step and how many different commands were sent, or
        median, largest absolute change and share of steps without a change;
        ``feature_names``; ``target`` (n,) index of the channel, ``target_names`` the
        channels; ``label`` (n,) True where the window touches an anomaly (the training
        series have none), ``anomalous`` (n,) share of its steps that are; ``start``
        (n,) first step of the window; ``DESCR``.
    """
    choose("spacecraft", spacecraft, (None, "SMAP", "MSL"))
    choose("split", split, ("train", "test"))
    choose("features", features, ("commands", "values"))
    step = window if step is None else step
    for name, count, least in (("window", window, 2), ("step", step, 1)):
        if not isinstance(count, Integral) or count < least:
            raise ValueError(
                f"{name} must be an integer of at least {least}, got {count!r}."
            )
    arrays = fetch("telemetry", None, data_home, download=False)
    owners = ("SMAP", "MSL") if spacecraft is None else (spacecraft,)
    is_loaded = np.isin(arrays["spacecraft"], owners)
    channels = arrays["channels"][is_loaded]
    tables = []
    for name, n_commands in zip(channels, arrays["n_cmd"][is_loaded], strict=True):
        series = _series(arrays, name, n_commands, split)
        if len(series.values) < window:
            raise ValueError(
                f"window={window} is longer than the {split} series of channel {name} "
                f"({len(series.values)} steps); choose a shorter one."
            )
        tables.append(_windows(series, window, step, features))
    columns = {key: np.concatenate([t[key] for t in tables]) for key in tables[0]}
    about = {key: columns.pop(key) for key in ("label", "anomalous", "start")}
    return bunch(
        "telemetry",
        np.column_stack(list(columns.values())),
        np.repeat(np.arange(len(tables)), [len(table["start"]) for table in tables]),
        channels,
        feature_names=np.array(list(columns)),
        **about,
    )


@loader
def load_turbofan(
    *,
    split: str = "train",
    data_home: PathLike = None,
    download_if_missing: bool = True,
) -> Bunch:
    """Load C-MAPSS FD001: turbofan engines, one row of 21 sensors per flight cycle.

    Parameters
    ----------
    split : {"train", "test"}, default="train"
        100 engines run to failure, or 100 *other* engines whose series stop before it.
    data_home : path-like, optional
        Folder with ``cmapss_fd001.npz``; default ``$MANYONE_DATA``, then the user's
        cache.
    download_if_missing : bool, default=True
        Whether to download and convert the original (12 MB; needs pooch).
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    Bunch
        ``data`` (n, 21) float64, the sensors; ``feature_names`` ``"s1"`` to ``"s21"``;
        ``target`` (n,) 0 to 99, ``target_names`` ``"engine1"`` to ``"engine100"``,
        ``cycle`` (n,) from 1, ``settings`` (n, 3) float64, ``rul`` (n,) cycles left
        before failure, ``DESCR``. 20,631 rows for ``"train"``, 13,096 for ``"test"``.
    """
    choose("split", split, ("train", "test"))
    arrays = fetch("turbofan", _convert_turbofan, data_home, download_if_missing)
    engine = arrays[f"{split}_unit"].astype(np.intp) - 1
    cycle = arrays[f"{split}_cycle"].astype(np.intp)
    last = np.zeros(engine.max() + 1, dtype=np.intp)
    np.maximum.at(last, engine, cycle)
    if split == "test":
        last += arrays["test_rul"]
    return bunch(
        "turbofan",
        arrays[f"{split}_sensors"],
        engine,
        numbered("engine", len(last)),
        feature_names=np.array(numbered("s", 21)),
        cycle=cycle,
        settings=arrays[f"{split}_settings"].astype(np.float64),
        rul=last[engine] - cycle,
    )


class _Series(NamedTuple):
    """A telemetry channel: values (n,), anomalies (n,), commands sent (n, c)."""

    values: Array
    label: Mask
    commands: Mask


def _series(arrays: Arrays, name: str, n_commands: int, split: str) -> _Series:
    values = arrays[f"{name}/{split}_value"].astype(np.float64)
    label = np.zeros(len(values), dtype=bool)
    if split == "test":
        label = arrays[f"{name}/label"].astype(bool)
    bits = arrays[f"{name}/{split}_cmd"]
    commands = np.unpackbits(bits, axis=1, count=n_commands).astype(bool)
    return _Series(values, label, commands)


def _windows(series: _Series, window: int, step: int, features: str) -> Arrays:
    """Features, ``label``, ``anomalous`` and ``start`` of windows of a series."""

    def cut(steps: Values) -> Values:  # windows along the last axis
        return sliding_window_view(steps, window, axis=0)[::step]

    windows = cut(series.values)
    change = np.abs(np.diff(windows, axis=1))
    columns: Arrays = {
        "mean": windows.mean(axis=1),
        "std": windows.std(axis=1),
        "min": windows.min(axis=1),
        "max": windows.max(axis=1),
        "roughness": change.mean(axis=1),
        "trend": windows[:, -1] - windows[:, 0],
    }
    if features == "commands":
        sent = cut(series.commands)
        columns["commands"] = sent.sum(axis=(1, 2)) / window
        columns["command_kinds"] = sent.any(axis=2).sum(axis=1)
    else:
        columns["median"] = np.median(windows, axis=1)
        columns["jump"] = change.max(axis=1)
        columns["still"] = (change == 0.0).mean(axis=1)
    anomalous = cut(series.label)
    columns["label"] = anomalous.max(axis=1)
    columns["anomalous"] = anomalous.mean(axis=1)
    columns["start"] = np.arange(len(windows)) * step
    return columns


def _convert_keystrokes(workbook: Path) -> Arrays:
    """Arrays of the workbook: a header, then the subject and 71 features per row."""
    sheet = read_table(workbook)
    table = sheet.to_numpy()
    if table.dtype.kind != "f":
        raise ValueError("the workbook has cells that are not numbers")
    # Blank rows separate the subjects.
    table = table[~np.isnan(table).all(axis=1)]
    if not np.isfinite(table).all():
        raise ValueError("the workbook has cells that are not numbers")
    table = table[np.argsort(table[:, 0], kind="stable")]
    user = table[:, 0].astype(np.int16)
    if set(Counter(user.tolist()).values()) != {51}:
        raise ValueError("the workbook has not 51 rows of every subject")
    # Two keys are typed twice, and the second of a name comes as "name_1".
    columns = [re.sub(r"_(\d+)$", r".\1", name) for name in sheet.columns[1:]]
    return {
        "X": table[:, 1:].astype(np.float32),
        "y": user,
        "columns": np.array(columns),
    }


def _convert_turbofan(archive: Path) -> Arrays:
    """Arrays of the three FD001 text files, in a zip within the zip."""
    with zipfile.ZipFile(archive) as outer:
        inner = next(
            (name for name in outer.namelist() if name.endswith("CMAPSSData.zip")), None
        )
        nested = io.BytesIO(outer.read(inner)) if inner else archive
    tables = {}
    with zipfile.ZipFile(nested) as members:
        for name in members.namelist():
            if name.endswith("_FD001.txt"):
                text = io.BytesIO(members.read(name))
                tables[Path(name).name] = np.loadtxt(text, ndmin=2)
    arrays: Arrays = {"test_rul": tables["RUL_FD001.txt"][:, 0].astype(np.int16)}
    for split in ("train", "test"):
        rows = tables[f"{split}_FD001.txt"]
        arrays[f"{split}_unit"] = rows[:, 0].astype(np.int16)
        arrays[f"{split}_cycle"] = rows[:, 1].astype(np.int16)
        arrays[f"{split}_settings"] = rows[:, 2:5].astype(np.float32)
        arrays[f"{split}_sensors"] = rows[:, 5:].astype(np.float32)
    return arrays
