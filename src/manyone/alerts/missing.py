"""Values missing more often than in training: a dead sensor raises no alarm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import betabinom

from manyone._types import Codes
from manyone.alerts.evidence import STANDS_OUT
from manyone.messages import plural


@dataclass(frozen=True, eq=False)
class ColumnGaps:
    """Missing values of one column.

    Attributes
    ----------
    column : str
    now, before : ndarray of shape (T,)
        Missing values of each task in the table, and in its training rows.
    """

    column: str
    now: Codes
    before: Codes


def gap_sentences(
    columns: Iterable[ColumnGaps],
    names: Sequence[str],
    rows: Codes,
    trained: Codes,
    most: int = 3,
) -> tuple[str, ...]:
    """Columns of tasks with more missing values than their training rows explain.

    Of m rows of a task k are missing. In training a of n were, and a share p of all
    rows. By chance K ~ BetaBin(m, a + 2 p, n - a + 2 (1 - p)) are missing. A column has
    a sentence where P(K >= k) times the number of columns and tasks is below
    `STANDS_OUT`.

    Parameters
    ----------
    columns : iterable of ColumnGaps
        Of every column that the model uses.
    names : sequence of str
        Of the T tasks.
    rows, trained : ndarray of shape (T,)
        Rows of each task in the table, and in training.
    most : int
        Sentences about columns.

    Returns
    -------
    tuple of str
        The most telling, and how many more there are.
    """
    all_columns = list(columns)
    looks = len(all_columns) * len(names)
    gaps = []
    for column in all_columns:
        share = (column.before.sum() + 0.5) / (trained.sum() + 1.0)
        missing = column.before + 2.0 * share
        measured = trained - column.before + 2.0 * (1.0 - share)
        by_chance = looks * betabinom(rows, missing, measured).sf(column.now - 1)
        is_new = (column.now > 0) & (by_chance < STANDS_OUT)
        for task in np.flatnonzero(is_new).tolist():
            of_rows = f"{column.now[task]:,} of {plural(int(rows[task]), 'row')}"
            usual = f"{share:.1%} of all rows"
            if trained[task]:
                usual = f"{column.before[task]:,} of {trained[task]:,}"
            text = (
                f"{column.column} is missing in {of_rows} of {names[task]} "
                f"(training: {usual}): is it still measured?"
            )
            gaps.append((float(by_chance[task]), text))
    sentences = [text for _, text in sorted(gaps)]
    shown = sentences[:most]
    if len(sentences) > most:
        more = plural(len(sentences) - most, "more column")
        shown.append(f"{more} of tasks are missing more often, too.")
    return tuple(shown)
