"""Passes over Dask arrays and frames: partials by chunk, then a tree of merges.

Nothing as long as the rows comes to the client. A step travels inside the graph of its
pass: whatever a worker that dies had computed can be computed again. Dask is imported
only for rows of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Protocol, TypeGuard, runtime_checkable

import numpy as np

from manyone._types import Labels
from manyone.data.blocks import Block, MakeBlock, claims_of
from manyone.data.rows import number_of
from manyone.data.sweeps import Part, Step, Sweep
from manyone.progress import counted

if TYPE_CHECKING:
    import dask.array as da
    import dask.dataframe as dd
    from dask.delayed import Delayed

    #: Rows, or one value for each, in chunks.
    Chunked = da.Array | dd.DataFrame


@runtime_checkable
class Chunks(Protocol):
    """A Dask array, data frame or series."""

    def to_delayed(self) -> Labels | list[Delayed]:
        """Its chunks."""


# Partials that are merged at once.
_FAN_IN = 8


def is_dask(X: object) -> TypeGuard[Chunked]:
    """Whether rows are a Dask array or data frame; Dask is not imported to tell."""
    return type(X).__module__.partition(".")[0] == "dask"


def dask_sweep(X: Chunked, task: object, outlier: object, weight: object) -> Sweep:
    """Passes over a Dask array or data frame, on whatever scheduler is in use.

    Parameters
    ----------
    X : dask.array.Array of shape (n, d) or dask.dataframe.DataFrame
    task, outlier, weight
        As in `fit`: Dask or NumPy arrays, Dask series, or (of data frames) names of
        columns.

    Returns
    -------
    callable
    """
    return _sweep_over(delayed_blocks(X, task=task, outlier=outlier, weight=weight))


def chained_sweep(X: Chunked, make: MakeBlock) -> Sweep:
    """Passes over the partitions of a Dask data frame, made one after the other.

    Parameters
    ----------
    X : dask.dataframe.DataFrame
    make : callable
        See :func:`manyone.fitting.sources.sweep_in_order`.
    """
    import dask

    blocks: list[Delayed] = []
    before = None
    for block in delayed_blocks(X):
        blocks.append(dask.delayed(make, pure=False)(block, before))
        before = blocks[-1].after
    return _sweep_over(blocks)


def _sweep_over(blocks: list[Delayed]) -> Sweep:
    """Passes over delayed blocks."""
    import dask
    from dask.callbacks import Callback

    def sweep(step: Step[Part]) -> Part:
        shared = dask.delayed(step, pure=False)
        parts = [dask.delayed(_partial, pure=False)(shared, block) for block in blocks]
        while len(parts) > 1:
            parts = [
                dask.delayed(_merged, pure=False)(shared, parts[i : i + _FAN_IN])
                for i in range(0, len(parts), _FAN_IN)
            ]
        steps = counted(range(len(blocks)))
        next(steps, None)

        def tell(key: object, *_: object) -> None:
            """Count parts; schedulers in other processes have displays of their own."""
            if "_partial" in str(key):
                next(steps, None)

        with warnings.catch_warnings(), closing(steps), Callback(posttask=tell):
            # A step is as large as the landmarks and weights that all workers need.
            warnings.filterwarnings("ignore", "Sending large graph")
            merged: Part | None = dask.compute(parts[0])[0]
        if merged is None:
            raise ValueError("X has no row: give at least one.")
        return merged

    return sweep


class FittedMethod(Protocol):
    """A fitted estimator, as far as blocks are scored by it."""

    n_features_in_: int
    tasks_: Labels


def scored_lazily(
    method: Callable[..., Labels],
    model: FittedMethod,
    X: Chunked,
    given: dict[str, object],
) -> da.Array:
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
    import dask
    import dask.array as da

    roles = {"task": given.pop("task", None)}
    has_weight = "sample_weight" in given
    if has_weight:
        roles["weight"] = given.pop("sample_weight")
    name = method.__name__
    shared = dask.delayed(model, pure=False)
    kind = {"predict": np.int_, "predict_task": object}.get(name, np.float64)
    width = _width(name, model)
    sizes = X.chunks[0] if isinstance(X, da.Array) else [np.nan] * X.npartitions
    score = dask.delayed(_scored, pure=False)
    chunks = [
        da.from_delayed(
            score(name, shared, block, given, has_weight), (size, *width), dtype=kind
        )
        for block, size in zip(delayed_blocks(X, **roles), sizes, strict=True)
    ]
    return da.concatenate(chunks, allow_unknown_chunksizes=True)


def _width(name: str, model: FittedMethod) -> tuple[int, ...]:
    """Shape of what a scoring method returns for one row."""
    if name == "score_tasks":
        return (len(model.tasks_),)
    if name == "view_scores":
        return (len(getattr(model, "views_", ())),)
    return (3,) if name == "_claims_of_block" else ()


def delayed_blocks(X: Chunked, **roles: object) -> list[Delayed]:
    """One delayed :class:`Block` for every chunk of rows or partition."""
    import dask
    import dask.array as da

    columns = X.rechunk({1: -1}) if isinstance(X, da.Array) else X
    make = dask.delayed(Block, pure=False)
    chunks = np.ravel(columns.to_delayed())
    parts = {
        role: _along(X, role, values, len(chunks)) for role, values in roles.items()
    }
    return [
        make(rows, **{role: values[i] for role, values in parts.items()})
        for i, rows in enumerate(chunks)
    ]


def _along(X: Chunked, role: str, values: object, number: int) -> Sequence[object]:
    """Values for each chunk of `X`: delayed ones, or one name or None for all."""
    import dask.array as da

    if values is None or isinstance(values, str):
        return [values] * number
    if not isinstance(values, Chunks):  # in memory
        if not isinstance(X, da.Array):
            raise ValueError(
                f"{role} must be a column or a Dask series where X is a Dask frame."
            )
        values = da.from_array(np.asarray(values), chunks=-1)
    if isinstance(values, da.Array) and isinstance(X, da.Array):
        sizes_known = not np.isnan(sum(X.chunks[0]) + sum(values.chunks[0]))
        if sizes_known and sum(X.chunks[0]) != values.shape[0]:
            raise ValueError(
                f"{role} has {values.shape[0]} values but X has {X.shape[0]} rows: one "
                "per row."
            )
        values = values.rechunk((X.chunks[0],)) if sizes_known else values
    assert isinstance(values, Chunks)
    delayed: list[object] = list(np.ravel(values.to_delayed()))
    if len(delayed) != number:
        parts = f"{role} has {len(delayed)} partitions but X has {number}"
        raise ValueError(f"{parts}: make them alike.")
    return delayed


def _partial(step: Step[Part], block: Block) -> Part | None:
    return step.partial(block) if number_of(block.X) else None


def _merged(step: Step[Part], block_results: list[Part | None]) -> Part | None:
    merged = None
    for block_result in block_results:
        if block_result is not None:
            merged = (
                block_result if merged is None else step.merge(merged, block_result)
            )
    return merged


def _scored(
    name: str,
    model: FittedMethod,
    block: Block,
    given: dict[str, object],
    counted: bool,
) -> Labels:
    claims = claims_of(block, counted)
    return np.asarray(getattr(model, name)(block.X, **claims, **given))
