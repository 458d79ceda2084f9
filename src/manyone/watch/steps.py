"""One step of a monitor: judge at most one row of each task, then learn from it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Codes
from manyone.watch import drift, thresholds
from manyone.watch.memory import RememberedRows
from manyone.watch.state import MonitorState
from manyone.watch.thresholds import Anchors

# Shares of the drift level. Ranks among new rows are exactly uniform where nothing
# drifts. Ranks among left-out and new rows are nearly so, and only they can show a
# drift before the first row (``tests/watch/test_drift.py``).
_LOG_SHARES = np.log([0.9, 0.1])


def judge_and_learn(
    state: MonitorState, anchors: Anchors, rows: RememberedRows, times: NDArray[np.str_]
) -> Array:
    """Judge rows (k,) of k different tasks, then learn from them.

    P-values, alarms, weights and drift flags are written into `rows`. Returns the log
    evidence (k,) that their tasks drift.
    """
    answered = bool(state.answers.any())
    learn_thresholds(state, anchors, rows, answered=answered)
    t: Codes = rows["task"].astype(np.intp)
    evidence = _bet(state, anchors, t, rows["score"], times)
    state.rows[t] += 1
    state.alarms[t] += rows["alarm"]
    rows["drift"] = state.flagged[t] >= 0
    return evidence


def learn_thresholds(
    state: MonitorState, anchors: Anchors, rows: RememberedRows, *, answered: bool
) -> None:
    """Judge rows (k,) of k different tasks, and move the thresholds of these tasks.

    Parameters
    ----------
    state : MonitorState
    anchors : Anchors
        Of the model.
    rows : ndarray of ROW of shape (k,)
        P-values, alarms and weights are written into them.
    answered : bool
        Whether somebody has answered an alarm of any task. Until then thresholds move
        in small steps and stay near the first ones.
    """
    t: Codes = rows["task"].astype(np.intp)
    scores: Array = rows["score"]
    low, threshold = thresholds_of(state, anchors, t)
    alarm = scores < threshold
    p = thresholds.reference_pvalues(state.window[t], scores)
    if answered:
        weight = np.where(alarm, _believed_normal(state, t), 1.0)
        state.level[t] = thresholds.moved_level(
            state.level[t], weight, alarm, state.rate, state.has_answers(t)
        )
        # A task in debt raises no alarm even for a row beyond the bound. Such a row is
        # not learned from.
        learned = ~alarm & (scores >= low)
    else:
        learned = state.run[t] <= thresholds.RUN
        weight = learned.astype(np.float64)
        state.level[t] = thresholds.guarded_level(
            state.level[t], weight, alarm, state.rate
        )
    state.run[t] = thresholds.moved_run(state.run[t], alarm)
    push(state, t[learned], scores[learned], confirmed=False)
    rows["p_value"] = p
    rows["alarm"] = alarm
    rows["weight"] = weight


def thresholds_of(
    state: MonitorState, anchors: Anchors, t: Codes | slice = slice(None)
) -> tuple[Array, Array]:
    """Lower bounds (k,) of the thresholds of k tasks, and the thresholds (k,)."""
    window = state.window[t]
    low = thresholds.confirmed_low(anchors.low[t], window, state.confirmed[t])
    now = thresholds.current_thresholds(
        window, state.level[t], low, anchors.high[t], state.has_answers(t)
    )
    return low, now


def forget_thresholds(state: MonitorState, anchors: Anchors, t: Codes) -> None:
    """Set the thresholds of tasks to their first values."""
    state.window[t] = thresholds.first_window(anchors.opening[t])
    state.confirmed[t] = False
    state.head[t] = 0
    state.level[t] = state.rate
    state.run[t] = 0.0


def _believed_normal(state: MonitorState, t: Codes) -> Array:
    """Probability (k,) that an unanswered alarm is of a normal row.

    Answers tell it: those of all tasks give a prior, which counts for two answers of
    the task. But people may answer faults alone. Normal rows of the task raise alarms
    at the rate all the same. So among the alarms that nobody has called a fault, at
    least as many are of normal rows (and one, as rows are few at first).
    """
    counts = np.ones(len(state.answers)) @ state.answers  # faster than sum(axis=0)
    prior = (1.0 + counts[0]) / (2.0 + counts.sum())
    normal, abnormal = state.answers[t].T
    answered = (normal + 2.0 * prior) / (normal + abnormal + 2.0)
    open_alarms = np.maximum(state.alarms[t] - abnormal, 1.0)
    expected = np.minimum((1.0 + state.rate * state.rows[t]) / open_alarms, 1.0)
    return np.asarray(np.maximum(answered, expected))


def push(state: MonitorState, t: Codes, scores: Array, *, confirmed: bool) -> None:
    """Add scores, at most one a task, to the references, in place of the oldest."""
    state.window[t, state.head[t]] = scores
    state.confirmed[t, state.head[t]] = confirmed
    state.head[t] = (state.head[t] + 1) % thresholds.WINDOW


def _bet(
    state: MonitorState,
    anchors: Anchors,
    t: Codes,
    scores: Array,
    times: NDArray[np.str_],
) -> Array:
    """Log evidence (k,) that tasks drift, after one more row of each."""
    rounded = scores.astype(np.float32)
    rows = state.rows[t]
    p = _ranks(state, anchors.scores[t], t, rounded)
    count = drift.weights_of_rows(state.neighbours[t])
    before = state.log_wealth[t]
    wealth, shares = drift.bet(before, state.shares[t], p, count[:, None])
    mark = drift.marks(p[:, 0])
    state.neighbours[t] += np.column_stack([mark * state.mark[t], state.mark[t] != 0.0])
    state.mark[t] = mark
    # The second bet ends with the first history: a later history would be ranked among
    # the left-out scores again.
    later = rows >= drift.LONGEST
    wealth[later, 1] = before[later, 1]
    state.log_wealth[t] = wealth
    state.shares[t] = shares
    _remember_scores(state, t, rounded)
    evidence: Array = (wealth + _LOG_SHARES).max(axis=1)
    state.most[t] = np.maximum(state.most[t], evidence)
    _flag(state, t, wealth[:, 0], evidence, times)
    return evidence


def _ranks(
    state: MonitorState, left_out: Array, t: Codes, scores: NDArray[np.float32]
) -> Array:
    """Ranks (k, 2) among new rows, and among left-out and new rows."""
    counts = state.counts[t]
    most = int(counts.max())
    u = drift.uniforms(t, state.rows[t])
    history = state.history[t, :most]
    history[np.arange(most) >= counts[:, None]] = np.nan
    with_left_out = np.concatenate([left_out.astype(np.float32), history], axis=1)
    return np.column_stack(
        [drift.smoothed_ranks(past, scores, u) for past in (history, with_left_out)]
    )


def _flag(
    state: MonitorState,
    t: Codes,
    wealth: Array,
    evidence: Array,
    times: NDArray[np.str_],
) -> None:
    """Flag tasks that drift, and note when the drift may have begun.

    It is taken to have begun where the wealth of the first bet was smallest.
    """
    rows = state.rows[t]
    raised = (evidence >= -np.log(state.drift_level)) & (state.flagged[t] < 0)
    state.flagged[t[raised]] = rows[raised]
    state.flagged_time[t[raised]] = times[raised]
    lower = (wealth < state.least[t]) & (state.flagged[t] < 0)
    state.least[t] = np.where(lower, wealth, state.least[t])
    state.since[t] = np.where(lower, rows + 1, state.since[t])
    state.since_time[t] = np.where(lower | (rows == 0), times, state.since_time[t])


def _remember_scores(
    state: MonitorState, t: Codes, scores: NDArray[np.float32]
) -> None:
    state.counts[t[state.counts[t] >= drift.LONGEST]] = 0
    if int(state.counts[t].max()) >= state.history.shape[1]:
        width = min(2 * state.history.shape[1], drift.LONGEST)
        wider = np.zeros((len(state.history), width), dtype=np.float32)
        wider[:, : state.history.shape[1]] = state.history
        state.history = wider
    state.history[t, state.counts[t]] = scores
    state.counts[t] += 1


def flag_fleet(state: MonitorState) -> None:
    """Flag the whole fleet where the mean wealth of its tasks is large enough."""
    needed = -np.log(state.drift_level)
    # Shortcut: a mean is at most its largest value.
    if state.fleet_flagged[0] >= 0 or state.log_wealth.max() < needed:
        return
    means = [drift.log_mean_wealth(wealth) for wealth in state.log_wealth.T]
    evidence = (np.array(means) + _LOG_SHARES).max()
    if evidence >= needed:
        state.fleet_flagged[0] = state.rows.sum()
