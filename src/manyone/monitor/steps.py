"""One step of a monitor: one row of each of some tasks is judged, then learned from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Codes, Mask
from manyone.monitor import martingale
from manyone.monitor import threshold as thresholds
from manyone.monitor.state import MonitorState

# Shares of the drift level. Ranks among new rows are exactly uniform where nothing drifts. Ranks
# among left-out and new rows are nearly so, and only they can show a drift before the first row.
_LOG_SHARES = np.log([0.9, 0.1])


def judge_and_learn(
    state: MonitorState, t: Codes, scores: Array, times: NDArray[Any]
) -> tuple[Array, Mask, Mask, Array, Array]:
    """One row of each of some tasks: p-value, alarm, drift, weight it was given, evidence."""
    window = state.window[t]
    low = thresholds.confirmed_low(state.low[t], window, state.confirmed[t])
    p = thresholds.reference_pvalues(window, scores)
    alarm = thresholds.alarms_of(p, state.level[t], scores, low, state.high[t])
    answered = np.ones(len(state.answers)) @ state.answers  # faster than sum(axis=0)
    if answered.any():
        # Alarms without an answer are taken as normal as often as answered ones of the task were.
        prior = (1.0 + answered[0]) / (2.0 + answered.sum())
        normal, abnormal = state.answers[t].T
        believed = (normal + 2.0 * prior) / (normal + abnormal + 2.0)
        weight = np.where(alarm, believed, 1.0)
        state.level[t] = thresholds.moved_level(
            state.level[t], weight, alarm, state.rate
        )
        learned = ~alarm
    else:
        learned = state.run[t] <= thresholds.RUN
        weight = learned.astype(np.float64)
        state.level[t] = thresholds.guarded_level(
            state.level[t], weight, alarm, state.rate
        )
    state.run[t] = thresholds.moved_run(state.run[t], alarm)
    push(state, t[learned], scores[learned], confirmed=False)
    evidence = _bet(state, t, scores, times)
    state.rows[t] += 1
    state.alarms[t] += alarm
    return p, alarm, state.flagged[t] >= 0, weight, evidence


def push(state: MonitorState, t: Codes, scores: Array, *, confirmed: bool) -> None:
    """Add scores, at most one of each task, to the references; the oldest ones leave."""
    state.window[t, state.head[t]] = scores
    state.confirmed[t, state.head[t]] = confirmed
    state.head[t] = (state.head[t] + 1) % thresholds.WINDOW


def _bet(state: MonitorState, t: Codes, scores: Array, times: NDArray[Any]) -> Array:
    """Log evidence (k,) for drift after one more row of each of some tasks."""
    rounded = scores.astype(np.float32)
    counts, rows = state.counts[t], state.rows[t]
    most = int(counts.max())
    u = martingale.uniforms(state.seed, t, rows)
    history = state.history[t, :most]
    history[np.arange(most) >= counts[:, None]] = np.nan
    both = np.concatenate([state.anchor[t].astype(np.float32), history], axis=1)
    p = np.column_stack(
        [martingale.smoothed_ranks(past, rounded, u) for past in (history, both)]
    )
    count = martingale.weights_of_rows(state.neighbours[t])
    wealth, shares = martingale.bet(
        state.log_wealth[t], state.shares[t], p, count[:, None]
    )
    mark = martingale.marks(p[:, 0])
    state.neighbours[t] += np.column_stack([mark * state.mark[t], state.mark[t] != 0.0])
    state.mark[t] = mark
    # Only in the first history: a second one would be ranked among the left-out scores again.
    wealth[rows >= martingale.LONGEST, 1] = state.log_wealth[t, 1][
        rows >= martingale.LONGEST
    ]
    state.log_wealth[t], state.shares[t] = wealth, shares
    _remember_scores(state, t, rounded)
    evidence = (wealth + _LOG_SHARES).max(axis=1)
    state.most[t] = np.maximum(state.most[t], evidence)
    raised = (evidence >= -np.log(state.drift_level)) & (state.flagged[t] < 0)
    state.flagged[t[raised]] = rows[raised]
    state.flagged_time[t[raised]] = times[raised]
    # What is flagged has begun before.
    lower = (wealth[:, 0] < state.least[t]) & (state.flagged[t] < 0)
    state.least[t] = np.where(lower, wealth[:, 0], state.least[t])
    state.since[t] = np.where(lower, rows + 1, state.since[t])
    state.since_time[t] = np.where(lower | (rows == 0), times, state.since_time[t])
    return evidence


def _remember_scores(
    state: MonitorState, t: Codes, scores: NDArray[np.float32]
) -> None:
    state.counts[t[state.counts[t] >= martingale.LONGEST]] = 0
    if int(state.counts[t].max()) >= state.history.shape[1]:
        width = min(2 * state.history.shape[1], martingale.LONGEST)
        wider = np.zeros((len(state.history), width), dtype=np.float32)
        wider[:, : state.history.shape[1]] = state.history
        state.history = wider
    state.history[t, state.counts[t]] = scores
    state.counts[t] += 1


def flag_fleet(state: MonitorState) -> None:
    """Flag all tasks together where the mean of their wealth says so."""
    needed = -np.log(state.drift_level)
    if (
        state.fleet_flagged[0] >= 0 or state.log_wealth.max() < needed
    ):  # no mean is larger
        return
    means = [martingale.log_mean_wealth(wealth) for wealth in state.log_wealth.T]
    evidence = (np.array(means) + _LOG_SHARES).max()
    if evidence >= needed:
        state.fleet_flagged[0] = state.rows.sum()
