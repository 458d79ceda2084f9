"""The forward check: what a model of earlier rows would have raised on later ones.

Thresholds promise a rate for rows like those of training. Rows that come in time drift,
and the table itself says by how much: a model of the first three quarters of every
task, with thresholds set as those of the model are, scores the last quarter. The share
that raises an alarm is a forecast for tomorrow. It changes nothing in the model.

Thresholds look ahead: later rows are expected to be farther away than left-out ones, by
as much as blocks of time show (:mod:`manyone.calibration.equal_terms`). This amount is
an estimate. From three quarters of the rows it differs by chance from that of all rows,
and this would be the largest error of the check (``python benchmarks/bench_forward.py
ceiling``). So the check takes the amount of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import betabinom

from manyone._types import Array, Codes
from manyone.calibration.dependence import correlation_time
from manyone.data.labels import find
from manyone.messages import warn_user
from manyone.tables.fitting import fit_again
from manyone.tables.in_time import LATER, earlier_and_later

if TYPE_CHECKING:
    from manyone.tables.model import TableModel


@dataclass(frozen=True, eq=False)
class ForwardCheck:
    """P-values of later rows under a model of the earlier ones.

    Parameters
    ----------
    codes : ndarray of shape (m,)
        Tasks of the later rows, ascending.
    p_value : ndarray of shape (m,)
        In the order of time within each task.
    n_tasks : int
        Of the model.
    calibrated : float
        Independent rows that the thresholds of the earlier model rest on.
    """

    codes: Codes
    p_value: Array
    n_tasks: int
    calibrated: float

    def raised(self, rate: float) -> float:
        """Share of the later rows that raises an alarm."""
        return float(np.mean(self.p_value <= rate))

    def by_chance(self, rate: float, level: float = 0.01) -> tuple[float, float]:
        """Shares between which `raised` lies, in 99 of 100 tables that do not drift.

        Neither the later rows nor those behind the thresholds are independent. The
        share that a threshold raises varies as a beta variable, the alarms then as a
        binomial one, with as many rows as are independent.
        """
        sizes = np.bincount(self.codes)
        counts = sizes[sizes > 0] / correlation_time(self.p_value, self.codes)
        number = max(1, round(float(np.maximum(counts, 1.0).sum())))
        rows = max(self.calibrated, 1.0)
        law = betabinom(number, rate * rows, (1.0 - rate) * rows)
        low, high = law.ppf([level / 2.0, 1.0 - level / 2.0])
        return float(low) / number, float(high) / number

    def differs(self, rate: float) -> int:
        """1 where more is raised than chance explains, -1 where less is, else 0."""
        low, high = self.by_chance(rate)
        raised = self.raised(rate)
        return int(raised > high) - int(raised < low)

    def sentence(self, rate: float) -> str:
        """The forecast beside the promise, and what to do, in words."""
        text = (
            f"asked {_percent(rate)}; on the last quarter of your own rows it would "
            f"have raised {_percent(self.raised(rate))}"
        )
        sign = self.differs(rate)
        if sign > 0:
            return f"{text}: they drift. Watch new rows with answers to alarms."
        if sign < 0:
            advice = "so faults may be missed. A higher alarm rate catches more."
            return f"{text}: fewer than asked, {advice}"
        low, high = self.by_chance(rate)
        return f"{text} (chance explains {_percent(low)} to {_percent(high)})."


def check_forward(model: TableModel) -> ForwardCheck | None:
    """Fit to the earlier rows of every task as the model was, and test with the later.

    Settings are those of the model: nothing is tuned again. The check takes about as
    long as a fit without tuning.

    Parameters
    ----------
    model : TableModel
        Fitted.

    Returns
    -------
    ForwardCheck or None
        None without a time column, and where no task has later rows to test with.
    """
    training = model.training_
    if training.times is None:
        return None
    is_earlier, is_later = earlier_and_later(training)
    if not is_later.any():
        return None
    earlier = training.take(np.flatnonzero(is_earlier))
    try:
        fitted = fit_again(model, earlier, 1.0 - LATER)
    except ValueError as error:
        warn_user(f"Later rows cannot be forecast from earlier ones: {error}")
        return None
    rows = np.flatnonzero(is_later)
    rows = rows[np.lexsort((training.times[rows], training.codes()[rows]))]
    later = training.take(rows)
    codes = find(later.labels, fitted.tasks)[0]
    solution = fitted.model.solution_
    scores = solution.own(fitted.encoder.encode(later.columns, codes), codes)
    scores *= np.exp(solution.drift - model.model_.solution_.drift)
    p_value = fitted.model.thresholds_at(model.alarm_rate).pvalues(scores, codes)
    calibrated = float(fitted.model.calibration_.counts.sum())
    return ForwardCheck(codes, p_value, len(fitted.tasks), calibrated)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
