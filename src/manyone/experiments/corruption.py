"""Ways to corrupt training rows: what the paper claims of corrupted data, measured."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array
from manyone.estimators import METHODS

#: Levels of each kind that are tried (see `corrupt`).
CORRUPTION_KINDS = {"labels": (0.1, 0.2, 0.4), "features": (0.5, 1.0), "relations": (0.5, 0.8)}


def corruptions(family: str) -> list[str]:
    """How the training rows of a method are corrupted, see `corrupt`; not at all if it is slow."""
    can = METHODS[family].can
    # Learned from its own rows alone, a task has no relations to lose; the regression of the paper
    # that does so is the line to compare with.
    lost = () if can.joint or can.regression else ("relations",)
    kinds = [] if can.slow else [kind for kind in CORRUPTION_KINDS if kind not in lost]
    return [f"{kind}={level}" for kind in kinds for level in CORRUPTION_KINDS[kind]]


def corrupt(
    X: Array, task: NDArray[Any], corruption: str, rng: np.random.Generator
) -> list[tuple[Array, NDArray[Any]]]:
    """Corrupt training rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    task : ndarray of shape (n,)
    corruption : str
        ``"labels=p"``: a share p of all rows, spread over the tasks, change places with rows of
        other tasks. ``"features=p"``: normal noise, p times as wide as the rows are about their
        mean. ``"relations=p"``: tasks fall into 1 / (1 - p) groups (rounded) at random, and each
        group is learned by itself: a share p of all pairs of tasks never meet in a model.
    rng : Generator

    Returns
    -------
    list of (ndarray of shape (m, d), ndarray of shape (m,))
        Rows and tasks to learn together; more than one entry where relations are missing.
    """
    kind, level = corruption.split("=")
    share = float(level)
    labels, sizes = np.unique(task, return_counts=True)
    if kind == "features":
        spread = float(np.std(X - X.mean(axis=0)))
        return [(X + share * spread * rng.normal(size=X.shape), task)]
    if kind == "relations":
        groups = np.array_split(rng.permutation(labels), round(1.0 / (1.0 - share)))
        return [(X[mine], task[mine]) for mine in (np.isin(task, group) for group in groups)]
    # As even over the tasks as the share allows: a few rows per task cannot give a tenth each.
    counts = np.floor(share * sizes + 1e-9).astype(int)
    more = round(share * len(task)) - counts.sum()
    missing = np.round(share * sizes - counts, 9)
    counts[np.lexsort((rng.random(len(labels)), -missing))[:more]] += 1
    order = rng.permutation(len(labels))
    drawn = [rng.permutation(np.flatnonzero(task == labels[t]))[: counts[t]] for t in order]
    moved, source = np.concatenate(drawn), np.arange(len(X))
    # Handed on by as many places as one task has at most: none gets its own back.
    source[moved] = np.roll(moved, counts.max())
    return [(X[source], task)]
