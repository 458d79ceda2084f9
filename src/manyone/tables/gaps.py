"""What a missing measurement is expected to be, from the others of its row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from manyone._types import Array, Codes, Mask
from manyone.data.rows import row_blocks


def relations(about: Array, freedom: int, rounds: int = 5) -> Array:
    """Inverse covariance from rows with gaps, by expectation and maximisation.

    It is shrunk as if as many further rows had been seen as there are measurements,
    with unrelated values.

    Parameters
    ----------
    about : ndarray of shape (n, m)
        Deviations from the means of tasks, NaN where missing.
    freedom : int
        How many more rows than tasks there are.
    rounds : int
        How often gaps are filled and the covariance is learned again. More rounds
        change next to nothing, unless most values are missing.

    Returns
    -------
    ndarray of shape (m, m)
    """
    lost = np.isnan(about)
    unrelated = np.eye(about.shape[1])
    rows = np.where(lost, 0.0, about)
    scale = np.sqrt((rows**2).sum(axis=0) / np.maximum((~lost).sum(axis=0), 1))
    scale[scale == 0.0] = 1.0
    rows /= scale
    share = freedom / len(rows)
    prior = len(unrelated)
    precision = unrelated
    for _ in range(rounds):
        rows = completed(rows, lost, precision)
        scatter = rows.T @ rows
        for _, gaps, among in _lost_together(lost, precision):
            # What is missing varies about what is expected.
            np.add.at(
                scatter, (gaps[:, :, None], gaps[:, None, :]), np.linalg.inv(among)
            )
        covariance = (share * scatter + prior * unrelated) / (freedom + prior)
        precision = cho_solve(cho_factor(covariance), unrelated)
    return np.asarray(precision / np.outer(scale, scale))


def completed(about: Array, lost: Mask, precision: Array) -> Array:
    """Deviations from means (n, m), with expected ones where they are lost."""
    filled = np.where(lost, 0.0, about)
    # Row by row: in one product the last bits depend on where a row stands.
    one_by_one = np.ascontiguousarray(filled)[:, None, :]
    pull = (one_by_one @ precision)[:, 0, :]
    for rows, gaps, among in _lost_together(lost, precision):
        expected = np.linalg.solve(among, -pull[rows[:, None], gaps][:, :, None])
        filled[rows[:, None], gaps] = expected[:, :, 0]
    return filled


def _lost_together(
    lost: Mask, precision: Array
) -> Iterator[tuple[Codes, Codes, Array]]:
    """Rows (k,) that lack g values each, which (k, g), their precision (k, g, g)."""
    number = lost.sum(axis=1)
    for g in np.unique(number[number > 0]).tolist():
        same = np.flatnonzero(number == g)
        for places in row_blocks(len(same), 3 * g * g):
            gaps = np.nonzero(lost[same[places]])[1].reshape(-1, g)
            yield same[places], gaps, precision[gaps[:, :, None], gaps[:, None, :]]
