"""Passes over Dask arrays and data frames: partials where the chunks are, one tree of merges.

Nothing as long as the rows comes to the client. A step travels inside the graph of its pass, so
that a worker which dies takes nothing along that cannot be computed again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.callbacks import Callback

from manyone.data.blocks import Block
from manyone.fitting.passes import Step, Sweep
from manyone.fitting.sources import claims_of
from manyone.progress import counted

# Partials that are merged at once.
_FAN_IN = 8


def dask_sweep(X: Any, task: Any, outlier: Any, weight: Any) -> Sweep:
    """Passes over a Dask array or data frame, on whatever scheduler is in use.

    Parameters
    ----------
    X : dask.array.Array of shape (n, d) or dask.dataframe.DataFrame
    task, outlier, weight
        As in `fit`: Dask or NumPy arrays, Dask series, or (of data frames) names of columns.

    Returns
    -------
    callable
    """
    blocks = delayed_blocks(X, task=task, outlier=outlier, weight=weight)

    def sweep(step: Step) -> Any:
        shared = dask.delayed(step, pure=False)
        parts = [dask.delayed(_partial, pure=False)(shared, block) for block in blocks]
        while len(parts) > 1:
            parts = [
                dask.delayed(_merged, pure=False)(shared, parts[i : i + _FAN_IN])
                for i in range(0, len(parts), _FAN_IN)
            ]
        steps = counted(range(len(blocks)))
        with warnings.catch_warnings(), closing(steps), _OnePart(steps):
            # A step is as large as the landmarks and weights that all workers need.
            warnings.filterwarnings("ignore", "Sending large graph")
            found = dask.compute(parts[0])[0]
        if found is None:
            raise ValueError("X has no row: give at least one.")
        return found

    return sweep


def scored_lazily(
    method: Callable[..., Any], model: Any, X: Any, given: dict[str, Any]
) -> Any:
    """The result of a scoring method as a Dask array, one chunk for each of `X`.

    Parameters
    ----------
    method : callable
        Of the estimator, not bound to it.
    model : estimator
    X : dask.array.Array or dask.dataframe.DataFrame
    given : dict
        Further arguments; `task` may be a Dask array or series.

    Returns
    -------
    dask.array.Array of shape (n,) or (n, T)
    """
    roles = {"task": given.pop("task", None)}
    counted = "sample_weight" in given
    if counted:
        roles["weight"] = given.pop("sample_weight")
    name = method.__name__
    shared = dask.delayed(model, pure=False)
    kind = {"predict": np.int_, "predict_task": object}.get(name, np.float64)
    width = _width(name, model)
    sizes = X.chunks[0] if isinstance(X, da.Array) else [np.nan] * X.npartitions
    chunks = []
    for block, size in zip(delayed_blocks(X, **roles), sizes, strict=True):
        values = dask.delayed(_scored, pure=False)(name, shared, block, given, counted)
        chunks.append(da.from_delayed(values, (size, *width), dtype=kind))
    return da.concatenate(chunks, allow_unknown_chunksizes=True)


def _width(name: str, model: Any) -> tuple[int, ...]:
    """Shape of what a scoring method says of one row."""
    if name == "score_tasks":
        return (len(model.tasks_),)
    if name == "view_scores":
        return (len(model.views_),)
    return (3,) if name == "_claims_of_block" else ()


def delayed_blocks(X: Any, **roles: Any) -> list[Any]:
    """One delayed :class:`Block` for every chunk of rows or partition."""
    columns = (
        X.rechunk({1: -1}).to_delayed() if isinstance(X, da.Array) else X.to_delayed()
    )
    parts = {role: _along(X, role, values) for role, values in roles.items()}
    make = dask.delayed(Block, pure=False)
    return [
        make(
            rows,
            **{
                role: values if whole else values[i]
                for role, (values, whole) in parts.items()
            },
        )
        for i, rows in enumerate(np.ravel(columns))
    ]


def _along(X: Any, role: str, values: Any) -> tuple[Any, bool]:
    """Values for each chunk of `X`, or one for all: a name, or nothing."""
    if values is None or isinstance(values, str):
        return values, True
    if not hasattr(values, "to_delayed"):  # in memory
        if not isinstance(X, da.Array):
            raise ValueError(
                f"{role} must be a column or a Dask series where X is a Dask frame."
            )
        values = da.from_array(np.asarray(values), chunks=-1)
    if isinstance(values, da.Array) and isinstance(X, da.Array):
        known = not np.isnan(sum(X.chunks[0]) + sum(values.chunks[0]))
        if known and sum(X.chunks[0]) != values.shape[0]:
            raise ValueError(
                f"{role} has {values.shape[0]} values but X has {X.shape[0]} rows: one per row."
            )
        values = values.rechunk((X.chunks[0],)) if known else values
    delayed = np.ravel(values.to_delayed())
    number = X.numblocks[0] if isinstance(X, da.Array) else X.npartitions
    if len(delayed) != number:
        parts = f"{role} has {len(delayed)} partitions but X has {number}"
        raise ValueError(f"{parts}: make them alike.")
    return delayed, False


class _OnePart(Callback):
    """Tells of every part that is done; schedulers in other processes have their own displays."""

    def __init__(self, steps: Iterator[int]) -> None:
        super().__init__(posttask=self._done)
        self._steps = steps
        next(steps, None)

    def _done(self, key: Any, *_: Any) -> None:
        if "_partial" in str(key):
            next(self._steps, None)


def _partial(step: Step, block: Block) -> Any:
    return step.partial(block) if len(block.X) else None


def _merged(step: Step, parts: list[Any]) -> Any:
    found = None
    for part in parts:
        if part is not None:
            found = part if found is None else step.merge(found, part)
    return found


def _scored(
    name: str,
    model: Any,
    block: Block,
    given: dict[str, Any],
    counted: bool,
) -> Any:
    claims = claims_of(block, counted)
    return np.asarray(getattr(model, name)(block.X, **claims, **given))
