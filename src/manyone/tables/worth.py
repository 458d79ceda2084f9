"""Changes worth an alarm: the smallest one, and the direction, of chosen columns.

An alarm stays only if the column that leads it differs from what was expected by so
much, that way. Alarms led by other columns stay. So do those led by an empty field, or
by a field that is usually empty: there is no difference to measure. Scores and p-values
do not change, and no alarm is added: normal rows raise no more alarms than before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from manyone.messages import shortlist
from manyone.tables.answers import Answers
from manyone.tables.explain import explain_answers
from manyone.tables.incidents import REASONS
from manyone.tables.rows import TableRows

if TYPE_CHECKING:
    from manyone.tables.model import TableModel

_SIGNS = {"up": 1.0, "down": -1.0}


@dataclass(frozen=True)
class Worth:
    """What is worth an alarm.

    Parameters
    ----------
    at_least : dict of str to (float, float)
        Smallest difference of a column from the expected value, and the same as a share
        of that value.
    sign : dict of str to float
        1 where only values above the expected ones are worth an alarm, -1 below.
    """

    at_least: Mapping[str, tuple[float, float]]
    sign: Mapping[str, float]

    @classmethod
    def of(
        cls,
        model: TableModel,
        at_least: Mapping[str, float | str] | None,
        direction: Mapping[str, str] | None,
    ) -> Worth | None:
        """What is worth an alarm, checked; None where every alarm is.

        Parameters
        ----------
        model : TableModel
        at_least : dict or None
            A number, or a text as ``"10%"``, for each column.
        direction : dict or None
            ``"up"`` or ``"down"`` for each column.

        Raises
        ------
        ValueError
            If a column is no feature that holds numbers, or an amount is none.
        """
        amounts = dict(at_least or {})
        ways = dict(direction or {})
        if not amounts and not ways:
            return None
        _check_columns(model, "at_least", amounts)
        _check_columns(model, "direction", ways)
        for name, way in ways.items():
            if way not in _SIGNS:
                raise ValueError(
                    f"direction: {name!r} must be 'up' or 'down'; got {way!r}."
                )
        return cls(
            {name: _amount(name, amount) for name, amount in amounts.items()},
            {name: _SIGNS[way] for name, way in ways.items()},
        )

    def applied(self, model: TableModel, rows: TableRows, answers: Answers) -> Answers:
        """The answers without alarms that are not worth it; such rows do not count.

        Parameters
        ----------
        model : TableModel
        rows : TableRows
            Those that were skipped included.
        answers : Answers
        """
        alarms = np.flatnonzero(answers.alarm)
        if len(alarms) == 0:
            return answers
        why = explain_answers(model, rows, answers, alarms, REASONS)
        rank = why.tells.argmax(axis=1)[:, None]
        expected = np.take_along_axis(why.expected_number, rank, axis=1)[:, 0]
        step = np.take_along_axis(why.number, rank, axis=1)[:, 0] - expected
        leading = why.leading()
        nothing = (0.0, 0.0)
        least, share = np.array(
            [self.at_least.get(each, nothing) for each in leading]
        ).T
        sign = np.array([self.sign.get(name, 0.0) for name in leading])
        needed = np.maximum(least, share * np.abs(expected))
        is_worth = np.ones(len(answers.rows), dtype=bool)
        # Where there is no difference it is NaN, and both comparisons are false.
        is_worth[alarms] = ~((np.abs(step) < needed) | (sign * step < 0.0))
        return replace(
            answers, alarm=answers.alarm & is_worth, counts=answers.counts & is_worth
        )


def _check_columns(model: TableModel, name: str, chosen: Mapping[str, object]) -> None:
    kinds = model.encoder_.layout.kinds
    numeric = [column for column, kind in kinds.items() if kind == "number"]
    for column in chosen:
        if column not in numeric:
            raise ValueError(
                f"{name}: {column!r} is no column of numbers that the model uses. "
                f"These are {shortlist(numeric, 8)}."
            )


def _amount(name: str, amount: float | str) -> tuple[float, float]:
    """A difference, and a share of the expected value, one of which is 0."""
    text = str(amount).strip()
    is_share = text.endswith("%")
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = np.nan
    if not 0.0 <= value < np.inf:
        raise ValueError(
            f"at_least: give {name!r} a number, as 5, or a share, as '10%'; "
            f"got {amount!r}."
        )
    return (0.0, value / 100.0) if is_share else (value, 0.0)
