"""Values that are missing more often than in training: a dead sensor raises no alarm by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import betabinom

from manyone._types import Codes
from manyone.labels import find
from manyone.messages import plural
from manyone.report.advice import STANDS_OUT
from manyone.tables.frames import read_column

if TYPE_CHECKING:
    from manyone.tables.model import TableModel

# Rows that the share of all tasks counts for beside a task's own training rows.
_PRIOR_ROWS = 2.0
_MOST = 3


def new_gaps(
    model: TableModel, frame: Any, codes: Codes, names: tuple[str, ...]
) -> tuple[str, ...]:
    """Sentences about columns of tasks that have more gaps than training rows let expect.

    Of m rows of a task k are missing; in training a of n were, and a share p of all rows. K ~
    BetaBin(m, a + 2 p, n - a + 2 (1 - p)) is what to expect, and what is told has P(K >= k) below
    0.05 over the number of columns and tasks.

    Parameters
    ----------
    model : TableModel
    frame : data frame
    codes : ndarray of shape (n,)
        Task of each row, among the names.
    names : tuple of str

    Returns
    -------
    tuple of str
        The most telling first, three at most, and how many more there are.
    """
    T, training = len(names), model.training_
    known = find(training.labels, model.tasks_)[0]
    known, kept = known[known >= 0], known >= 0
    rows, trained = np.bincount(codes, minlength=T), np.bincount(known, minlength=T)
    used = [str(name) for name in model.columns_["name"][model.columns_["used"]]]
    found = []
    for name in used:
        gone = np.isnan(read_column(frame.get_column(name)).values)
        if not gone.any():
            continue
        before = np.isnan(training.columns[name].values[kept])
        now, then = (
            np.bincount(codes[gone], minlength=T),
            np.bincount(known[before], minlength=T),
        )
        share = (before.sum() + 0.5) / (len(before) + 1.0)
        prior = _PRIOR_ROWS * share, _PRIOR_ROWS * (1.0 - share)
        law = betabinom(rows, then + prior[0], trained - then + prior[1])
        chance = np.asarray(law.sf(now - 1))
        for t in np.flatnonzero(
            (now > 0) & (chance * len(used) * T < STANDS_OUT)
        ).tolist():
            where = f"{now[t]:,} of {plural(int(rows[t]), 'row')} of {names[t]}"
            seen = (
                f"{then[t]:,} of {trained[t]:,}"
                if trained[t]
                else f"{share:.1%} of all rows"
            )
            found.append(
                (float(chance[t]), f"{name} is missing in {where} (training: {seen})")
            )
    found.sort()
    said = [f"{words}: is it still measured?" for _, words in found[:_MOST]]
    if len(found) > _MOST:
        said.append(
            f"{plural(len(found) - _MOST, 'more column')} of tasks have new gaps, too."
        )
    return tuple(said)
