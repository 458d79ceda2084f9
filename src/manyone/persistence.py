"""Save and load fitted models: plain arrays and known types, nothing that can run.

A file is one line of JSON (format, versions, class, SHA-256 of the rest) followed by a skops
archive. The checksum is compared before anything else is read, so a damaged file is refused. The
archive may only name types that are known to be harmless, so a hostile file cannot run code.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array, csr_matrix
from sklearn.utils.validation import check_is_fitted

import manyone
from manyone.calibration import Calibration
from manyone.calibration.tails import Tails
from manyone.engines.independent import TaskPlans
from manyone.engines.joint import Sums
from manyone.engines.plan import Plan
from manyone.engines.reach import Reach
from manyone.engines.sample import Sample
from manyone.engines.statistics import Statistics
from manyone.estimators import METHODS
from manyone.estimators.combined import CombinedOneClass
from manyone.files import write_atomically
from manyone.kernels.gram import Expansion, Points
from manyone.kernels.kernel import Kernel
from manyone.metric.shrinkage import TaskWhitenings, Whitening
from manyone.metric.whitener import TaskWhitener
from manyone.models.combined import CombinedScorer, Tail
from manyone.models.presence import Presence, Usual
from manyone.models.range_guard import RangeGuard
from manyone.models.resemblance import Resemblance
from manyone.models.scorers import Balls, InMetric, Projection, TwoLayers
from manyone.models.solution import FitReport, Solution
from manyone.models.task_expansions import TaskExpansions
from manyone.pipelines import TaskPipeline
from manyone.rows import TrainingRows
from manyone.solvers.ridge import RidgeFactor
from manyone.tables import TableModel
from manyone.tables.decisions import Decision
from manyone.tables.encoder import Encoder
from manyone.tables.frames import Column
from manyone.tables.maps import DateMap, LevelMap, NumberMap
from manyone.tables.reading import TrainingTable
from manyone.tables.unknown import UnknownTasks

FORMAT = "manyone model"
FORMAT_VERSION = 3
_LONGEST_HEADER = 4096


def trusted_types() -> tuple[str, ...]:
    """Types that a model file may hold beside what skops trusts by itself.

    Ours, sparse rows and dtypes: a list in this code, never read from a file.
    """
    ours: list[type] = [*METHODS.values(), CombinedOneClass, TaskWhitener]
    ours += [TaskPipeline, TableModel, TrainingTable, UnknownTasks]
    ours += [Encoder, Decision, NumberMap, LevelMap, DateMap, Column]
    ours += [
        Balls,
        CombinedScorer,
        Expansion,
        InMetric,
        Projection,
        TaskExpansions,
        TwoLayers,
    ]
    ours += [Solution, FitReport, Presence, Usual, RangeGuard, Tail]
    ours += [Whitening, TaskWhitenings]
    ours += [Calibration, Kernel, Points, TrainingRows, RidgeFactor]
    ours += [Plan, Reach, Statistics, Resemblance, Sample, Sums, Tails, TaskPlans]
    ours += [csc_array, csr_array, csr_matrix, np.dtype]
    return tuple(f"{cls.__module__}.{cls.__qualname__}" for cls in ours)


class ModelFileError(ValueError):
    """A file is not a model that can be loaded."""


def save(
    model: Any, path: str | os.PathLike[str], *, trusted: tuple[str, ...] = ()
) -> None:
    """Write a fitted estimator, or a pipeline around one, to a file.

    The file appears whole or not at all: it is written beside its place, flushed to disk, and
    renamed.

    Parameters
    ----------
    model : estimator
    path : path
        Conventionally ``*.manyone``.
    trusted : tuple of str
        Full names of further types that the model holds and that `load` will be told to trust.

    Raises
    ------
    ValueError
        If the model holds a type that `load` would refuse, such as a callable kernel.
    """
    skops_io, name = _skops(), type(model).__name__
    check_is_fitted(model)
    try:
        payload = skops_io.dumps(model)
    except RecursionError:
        raise ValueError(
            f"{name} cannot be saved: a step of it refers to itself, as a foreign step with "
            "metadata requests does (set_fit_request and the like). Save it without them."
        ) from None
    except Exception as error:
        raise ValueError(
            f"{name} cannot be saved: {error}. Models may hold arrays, numbers, strings and "
            "estimators; a callable kernel cannot be stored, a named one can."
        ) from error
    if untrusted := _untrusted(payload, trusted):
        raise ValueError(
            f"{name} cannot be saved: it holds {untrusted}, which load() would refuse. "
            "Remove it, or, if you know it, pass trusted=[...] here and there."
        )
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "manyone": manyone.__version__,
    }
    header |= {
        package: version(package) for package in ("scikit-learn", "numpy", "scipy")
    }
    header |= {
        "model": name,
        "bytes": len(payload),
        "sha256": hashlib.sha256(payload).hexdigest(),
    }
    write_atomically(Path(path), json.dumps(header).encode() + b"\n" + payload)


def load(path: str | os.PathLike[str], *, trusted: tuple[str, ...] = ()) -> Any:
    """Read a model that `save` wrote. No code from the file is ever executed.

    Parameters
    ----------
    path : path
    trusted : tuple of str
        Full names of further types to accept.

    Returns
    -------
    estimator

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelFileError
        If the file is damaged, foreign, too new, or names a type that is not trusted.
    """
    skops_io, content = _skops(), Path(path).read_bytes()
    header = read_header(path, content)
    payload = content[content.index(b"\n") + 1 :]
    if (
        len(payload) != header["bytes"]
        or hashlib.sha256(payload).hexdigest() != header["sha256"]
    ):
        raise ModelFileError(
            f"{path} is damaged: its {len(payload)} bytes do not match its checksum. Copy it again."
        )
    try:
        if untrusted := _untrusted(payload, trusted):
            raise ModelFileError(
                f"{path} holds types that are not trusted: {untrusted}. Load it only if you know "
                "where it comes from, with load(path, trusted=[...])."
            )
        return skops_io.loads(payload, trusted=[*trusted_types(), *trusted])
    except ModelFileError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise ModelFileError(f"{path} cannot be read as a model: {why}") from error


def read_header(
    path: str | os.PathLike[str], content: bytes | None = None
) -> dict[str, Any]:
    """The first line of a model file: format, versions, class, checksum.

    Parameters
    ----------
    path : path
    content : bytes or None
        The file's bytes if they are at hand.

    Returns
    -------
    dict
    """
    if content is None:
        with open(path, "rb") as stream:
            content = stream.read(_LONGEST_HEADER)
    line, newline, _ = content[:_LONGEST_HEADER].partition(b"\n")
    kinds = {"format_version": int, "bytes": int, "sha256": str, "model": str}
    try:
        header = json.loads(line)
        recognised = header["format"] == FORMAT and newline == b"\n"
        recognised &= all(isinstance(header[key], kind) for key, kind in kinds.items())
    except (ValueError, KeyError, TypeError, RecursionError):
        recognised = False
    if not recognised:
        raise ModelFileError(
            f"{path} is not a manyone model, or is damaged. Give a file that manyone fit or "
            "manyone.save wrote."
        )
    found = header["format_version"]
    if found != FORMAT_VERSION:
        again = "Fit the model again and save it, or load it with the version that wrote it."
        raise ModelFileError(
            f"{path} has format {found}, of manyone {header.get('manyone', '(unknown)')}; this "
            f"manyone ({manyone.__version__}) reads format {FORMAT_VERSION}. "
            + ("Upgrade manyone." if found > FORMAT_VERSION else again)
        )
    return dict(header)


def _untrusted(payload: bytes, trusted: Sequence[str]) -> str:
    """Names of the types in an archive that are neither ours nor trusted by the caller."""
    found = _skops().get_untrusted_types(data=payload)
    return ", ".join(sorted({*found} - {*trusted_types(), *trusted}))


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            "Saving and loading models needs skops: pip install '.[io]' in the checkout of manyone."
        ) from error
    return skops.io
