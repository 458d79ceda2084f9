"""Transformers undone, as far as they can be, so that rows are spoken of in the user's columns."""

from __future__ import annotations

import warnings

import numpy as np

from manyone._types import Array, Labels
from manyone.messages import warn_user
from manyone.routing import Transformer, asked


def undone(
    steps: list[tuple[str, Transformer]], Z: Array, task: Labels
) -> tuple[Array, int]:
    """Rows (n, d) before the steps that can be undone, and the number of steps before those."""
    for number in range(len(steps), 0, -1):
        name, step = steps[number - 1]
        rows, why = _undo(step, Z, task)
        if why:
            warn_user(
                f"{name} cannot be undone ({why}): explain() speaks of the columns that it makes.",
                UserWarning,
            )
            return Z, number
        Z = rows
    return Z, 0


def _undo(step: Transformer, Z: Array, task: Labels) -> tuple[Array, str]:
    """Rows (n, d) that a transformer makes into others (n, d), or why it cannot be undone."""
    if not hasattr(step, "inverse_transform"):
        return Z, "it has no inverse_transform"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that these rows have no names
            rows = step.inverse_transform(
                Z, **asked(step, "inverse_transform", task=task)
            )
            again = np.asarray(
                step.transform(rows, **asked(step, "transform", task=task))
            )
    except (NotImplementedError, ValueError) as error:  # as transformers say so
        return Z, str(error).rstrip(".")
    if np.shape(rows) != Z.shape or not np.allclose(again, Z, atol=1e-6 * np.ptp(Z)):
        return Z, "other rows come back"
    return np.asarray(rows, dtype=np.float64), ""
