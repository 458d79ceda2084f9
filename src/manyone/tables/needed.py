"""Why there was no alarm: the value of a column at which it would have started."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.tables.answers import scores_of, thresholds_of
from manyone.tables.columns import Columns, taken
from manyone.tables.rows import TableRows

if TYPE_CHECKING:
    from manyone.tables.explain import Explanation
    from manyone.tables.model import TableModel

# Steps away from a value, in ranges of its column.
_STEPS = 2.0 ** np.arange(-5, 15)


def needed_values(
    model: TableModel, rows: TableRows, explanation: Explanation
) -> Array:
    """Values at which the verdict on rows would change, all other columns as they are.

    Parameters
    ----------
    model : TableModel
    rows : TableRows
    explanation : Explanation
        Of the rows, with k columns each.

    Returns
    -------
    ndarray of shape (n, k)
        The closest value that was found, of each column that is named: at which a row
        without an alarm would raise one, and a row with an alarm would raise none. NaN
        where there is none, or the column holds no numbers.
    """
    needed = np.full(explanation.column.shape, np.nan)
    if len(needed) == 0:
        return needed
    verdict = _alarms(model, rows.columns, rows.codes)
    start = np.where(
        np.isnan(explanation.number), explanation.expected_number, explanation.number
    )
    decisions = {each.name: each for each in model.encoder_.decisions}
    for name in np.unique(explanation.column.astype(str)).tolist():
        places, ranks = np.nonzero((explanation.column == name) & np.isfinite(start))
        if len(places) == 0:
            continue
        columns = taken(rows.columns, places)

        def changes(
            values: Array,
            columns: Columns = columns,
            places: Codes = places,
            name: str = name,
        ) -> Mask:
            changed = {**columns, name: columns[name].with_values(values)}
            return _alarms(model, changed, rows.codes[places]) != verdict[places]

        high = decisions[name].high
        unit = max(high - decisions[name].low, 1e-12 * abs(high), 1e-300)
        expected = explanation.expected_number[places, ranks]
        needed[places, ranks] = _closest_change(
            changes, start[places, ranks], expected, unit
        )
    return needed


def _alarms(model: TableModel, columns: Columns, codes: Codes) -> Mask:
    """Which rows raise an alarm, shape (n,)."""
    scores = scores_of(model, columns, codes)
    return np.asarray(scores < thresholds_of(model, codes))


def _closest_change(
    changes: Callable[[Array], Mask],
    start: Array,
    expected: Array,
    unit: float,
    halvings: int = 40,
) -> Array:
    """The closest value (n,) to a start at which something changes; NaN for none.

    It is looked for between the start and the expected value, and in doubling steps up
    and down, so a closer one between two steps may be missed. The last step is then
    halved so often.
    """
    best = np.where(changes(start), start, np.nan)
    to_expected = np.nan_to_num(expected - start)[None, :]
    doubled = unit * _STEPS[:, None]
    for steps in (to_expected, doubled, -doubled):
        before = start
        after = np.full(len(start), np.nan)
        for step in steps:
            value = start + step
            after = np.where(np.isnan(after) & changes(value), value, after)
            before = np.where(np.isnan(after), value, before)
        is_found = ~np.isnan(after)
        for _ in range(halvings if is_found.any() else 0):
            middle = np.where(is_found, before + 0.5 * (after - before), start)
            hit = changes(middle)
            after = np.where(is_found & hit, middle, after)
            before = np.where(is_found & ~hit, middle, before)
        closer = is_found & ~(np.abs(after - start) >= np.abs(best - start))
        best = np.where(closer, after, best)
    return best
