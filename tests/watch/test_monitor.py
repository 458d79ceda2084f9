"""Monitors: rates held while things drift, bounds, answers, state."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from manyone import (
    AutoOneClass,
    IndependentOCKSR,
    JointOCKSR,
    Monitor,
    TableModel,
    TimeBlocks,
)
from manyone.watch import MonitorState, thresholds

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
RATE = 0.1
TASKS = 20


@pytest.fixture(scope="module")
def model():
    """Twenty tasks of thirty rows in four columns, all about the origin."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(TASKS), 30)
    return IndependentOCKSR(alarm_rate=RATE).fit(
        rng.normal(size=(len(task), 4)), task=task
    )


def stream(n, seed=1, shift=0.0, at=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, TASKS, 4))
    X[at:] += shift
    return X.reshape(-1, 4), np.tile(np.arange(TASKS), n)


def equal(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("id", "p_value", "alarm", "drift")
    )


def test_batches_do_not_matter(model):
    X, task = stream(30)
    whole = Monitor(model).update(X, task)
    monitor = Monitor(model)
    parts = []
    for low, high in ((0, 1), (1, 2), (2, 250), (250, 600)):
        parts.append(monitor.update(X[low:high], task[low:high]))
    for name in ("id", "p_value", "alarm", "drift"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name))


def test_a_choice_is_watched_as_what_was_chosen():
    X, task = stream(10, seed=2)
    choice = AutoOneClass("faults", alarm_rate=RATE).fit(X, task=task)
    new = stream(5)
    watched = Monitor(choice).update(*new)
    assert equal(watched, Monitor(choice.estimator_).update(*new))
    with pytest.raises(ValueError, match="not fitted"):
        Monitor(AutoOneClass())


def test_nothing_drifts_and_the_rate_holds_by_itself(model):
    X, task = stream(300)
    found = Monitor(model).update(X, task)
    assert found.drift[-TASKS:].sum() <= binom.ppf(0.999, TASKS, 0.01)
    assert abs(found.alarm.mean() - RATE) < 0.02


@pytest.mark.parametrize(
    "n", [10, 30, 120]
)  # thresholds are borrowed, own, of a full window
def test_the_rate_holds_from_the_first_rows_on(n):
    rng = np.random.default_rng(0)
    T = 25
    found = []
    for _ in range(4):
        centres = 1.5 * rng.normal(size=(T, 8))
        task = np.arange(T)
        X = np.repeat(centres, n, axis=0) + rng.normal(size=(T * n, 8))
        model = IndependentOCKSR(alarm_rate=0.05).fit(X, task=np.repeat(task, n))
        new = (centres + rng.normal(size=(40, T, 8))).reshape(-1, 8)
        found.append(Monitor(model).update(new, np.tile(task, 40)).alarm)
    for rows in np.split(np.array(found).reshape(4, 40, T), [10, 20], axis=1):
        # (Rows of a task share a threshold: half as many alarms again as independent
        # rows.)
        assert rows.sum() <= 1.5 * binom.ppf(0.999, rows.size, 0.05)


@pytest.mark.parametrize("forward", [False, True])
def test_blocks_of_time_are_no_drift(forward):
    """Scores by models of few early rows are lower than later ones: no drift."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(TASKS), 30)
    when = np.tile(np.arange(30), TASKS)
    model = IndependentOCKSR(metric="adaptive", kernel="laplacian", alarm_rate=RATE)
    model.fit(
        rng.normal(size=(len(task), 4)),
        task=task,
        groups=TimeBlocks(when, forward=forward),
    )
    assert Monitor(model).update(*stream(300)).drift.sum() == 0


def test_rows_that_resemble_the_one_before_are_no_drift():
    """Correlation 0.8, no change: unguarded, nine streams of ten would be flagged."""
    rng = np.random.default_rng(0)
    d = 4
    rows = 100
    X = rng.normal(size=(400, TASKS, d))
    for i in range(1, len(X)):
        X[i] = 0.8 * X[i - 1] + 0.6 * X[i]
    task = np.tile(np.arange(TASKS), len(X))
    when = np.repeat(np.arange(rows), TASKS)
    model = IndependentOCKSR(alarm_rate=RATE).fit(
        X[:rows].reshape(-1, d),
        task=task[: len(when)],
        groups=TimeBlocks(when, forward=False),
    )
    quiet = X[rows:].copy()
    moved = X[rows:].copy()
    moved[200:] += 3.0
    drift = [
        Monitor(model)
        .update(Z.reshape(-1, d), task[: Z.size // d])
        .drift[-TASKS:]
        .mean()
        for Z in (quiet, moved)
    ]
    assert drift[0] <= 0.2 and drift[1] > 0.8


def test_a_drift_is_flagged_and_dated(model):
    X, task = stream(260, shift=2.0, at=200)
    monitor = Monitor(model)
    drift = monitor.update(X, task, time=np.arange(len(X)) // TASKS).drift.reshape(
        -1, TASKS
    )
    assert drift[:200].any(axis=0).mean() < 0.1
    delays = drift[200:].argmax(axis=0)
    assert np.median(delays) <= 40
    assert drift[-1].all()
    assert np.median(monitor.state.since) > 150
    assert monitor.state.flagged_time[0] == str(monitor.state.flagged[0])
    assert monitor.state.fleet_flagged[0] > 200 * TASKS
    monitor.reset()
    assert (monitor.state.flagged < 0).all()


def test_what_is_flagged_has_begun_before(model):
    """Also where rows differ from the model's from the first on, and stay so."""
    monitor = Monitor(model)
    monitor.update(*stream(400, shift=1.5))
    flagged = monitor.state.flagged >= 0
    assert flagged.all()
    assert (monitor.state.since <= monitor.state.flagged).all()


def test_a_drift_before_the_first_row_is_flagged(model):
    X, task = stream(60, shift=1.5)
    assert Monitor(model).update(X, task).drift[-TASKS:].mean() > 0.8


@pytest.mark.parametrize("delay", [0, 20])
def test_refuted_alarms_hold_the_rate_while_things_drift(model, delay):
    """Rows move away for good: a static threshold would alarm on most of them."""
    n = 600
    X, task = stream(n, shift=1.2)
    assert np.mean(model.predict(X, task=task) == -1) > 0.25
    monitor = Monitor(model)
    alarms = []
    waiting = []
    for i in range(n):
        now = slice(i * TASKS, (i + 1) * TASKS)
        found = monitor.update(X[now], task[now])
        alarms.append(found.alarm)
        waiting.append(found.id[found.alarm])
        if i >= delay:
            monitor.feedback(waiting[i - delay], normal=True)
    rates = np.mean(alarms[100:], axis=0)
    assert abs(rates.mean() - RATE) < 0.015
    assert rates.max() < 0.15


def test_without_answers_lasting_anomalies_are_not_learned(model):
    X, task = stream(200, shift=3.0, at=100)
    alarm = Monitor(model).update(X, task).alarm.reshape(-1, TASKS)
    assert alarm[-50:].mean() > 0.95


def test_accepted_rows_cannot_move_the_border_beyond_its_bound(model):
    monitor = Monitor(model)
    way = np.linspace(0, 6, 601)[:, None] * np.array([[1.0, 0.0, 0.0, 0.0]])
    at = 0
    lowest = np.inf
    for _ in range(1500):
        found = monitor.update(way[[at]], [0])
        at = max(at - 8, 0) if found.alarm[0] else min(at + 2, 600)
        lowest = min(lowest, monitor.thresholds[0])
    first = model.offset_[0]
    middle = np.median(model.calibration_.scores[:30])
    assert lowest >= first - (middle - first) - 1e-12
    assert lowest < first  # it was pushed


def test_thresholds_are_where_alarms_begin(model):
    X, task = stream(40)
    monitor = Monitor(model)
    for i in range(40):
        now = slice(i * TASKS, (i + 1) * TASKS)
        before = monitor.thresholds
        found = monitor.update(X[now], task[now])
        np.testing.assert_array_equal(found.alarm, found.score < before)
        monitor.feedback(found.id[found.alarm], normal=i % 2 == 0)


def test_an_id_counts_once_and_answers_are_corrected(model):
    X, task = stream(3)
    monitor = Monitor(model)
    other = Monitor(model)
    ids = [f"row {i}" for i in range(len(X))]
    first = monitor.update(X, task, id=ids)
    again = monitor.update(np.r_[X, X], np.r_[task, task], id=ids + ids)
    assert equal(first, monitor.update(X, task, id=ids))
    np.testing.assert_array_equal(again.alarm[: len(X)], first.alarm)
    other.update(X, task, id=ids)
    assert np.array_equal(other.state.level, monitor.state.level)
    assert monitor.state.rows.sum() == len(X)
    # An answer taken back leaves the level as the other answer alone would.
    alarmed = first.id[first.alarm]
    assert monitor.feedback(alarmed, normal=True) == len(alarmed)
    assert monitor.feedback(alarmed, normal=True) == 0
    monitor.feedback(alarmed, normal=False)
    other.feedback(alarmed, normal=False)
    np.testing.assert_allclose(monitor.state.level, other.state.level, atol=1e-12)


def test_unknown_ids_are_said_and_wrong_ones_refused(model):
    X, task = stream(1)
    monitor = Monitor(model)
    monitor.update(X, task)
    with pytest.warns(UserWarning, match="1 of 2 ids"):
        monitor.feedback([0, 999], normal=False)
    with pytest.raises(ValueError, match="integers or texts"):
        monitor.update(X, task, id=np.arange(TASKS) / 2)
    with pytest.raises(ValueError, match="one per row"):
        monitor.update(X, task, id=[1])
    with pytest.raises(ValueError, match="Unknown task"):
        monitor.reset("nobody")


def test_the_oldest_ids_are_forgotten(model, monkeypatch):
    monkeypatch.setattr("manyone.watch.memory.REMEMBERED", 50)
    X, task = stream(10)
    monitor = Monitor(model)
    monitor.update(X[:60], task[:60])
    monitor.update(X[60:95], task[60:95])
    remembered, _ = monitor.state.memory.find(range(95))
    assert remembered.tolist() == [False] * 45 + [True] * 50


def test_ids_that_new_rows_drive_out_get_the_answer_they_had(model, monkeypatch):
    monkeypatch.setattr("manyone.watch.memory.REMEMBERED", TASKS)
    X, task = stream(3)
    monitor = Monitor(model)
    first = monitor.update(X[:TASKS], task[:TASKS], id=np.arange(TASKS))
    # As many new rows as are remembered, then the first ones, twice.
    ids = np.r_[TASKS : 2 * TASKS, np.arange(TASKS), 0]
    rows = np.r_[TASKS : 2 * TASKS, np.arange(TASKS), 0]
    again = monitor.update(X[rows], task[rows], id=ids)
    assert again.new.tolist() == [True] * TASKS + [False] * (TASKS + 1)
    for name in ("p_value", "alarm", "drift"):
        told = getattr(first, name)
        np.testing.assert_array_equal(
            getattr(again, name)[TASKS:], np.append(told, told[0])
        )


def test_kills_lose_nothing_and_count_nothing_twice(model, tmp_path):
    X, task = stream(20, shift=1.0, at=10)
    path = tmp_path / "state"
    whole = Monitor(model)
    rng = np.random.default_rng(0)
    cuts = [0, *np.sort(rng.choice(np.arange(1, len(X)), 40, replace=False)), len(X)]
    for low, high in itertools.pairwise(cuts):
        wanted = whole.update(X[low:high], task[low:high], id=np.arange(low, high))
        monitor = Monitor(model, state=path)
        monitor.update(
            X[low:high], task[low:high], id=np.arange(low, high)
        )  # killed: not saved
        monitor = Monitor(model, state=path)
        again = max(0, low - 5)
        found = monitor.update(
            X[again:high], task[again:high], id=np.arange(again, high)
        )
        for name in ("id", "p_value", "alarm", "drift"):
            np.testing.assert_array_equal(
                getattr(found, name)[low - again :], getattr(wanted, name)
            )
        for each in (whole, monitor):
            each.feedback(
                wanted.id[wanted.alarm], normal=wanted.id[wanted.alarm] % 3 > 0
            )
        monitor.save_state(path)
    assert not list(tmp_path.glob(".*"))


def test_damaged_states_and_those_of_other_models_are_refused(model, tmp_path):
    path = tmp_path / "state"
    Monitor(model).save_state(path)
    content = path.read_bytes()
    other = IndependentOCKSR(alarm_rate=RATE).fit(
        np.random.default_rng(5).normal(size=(40, 4))
    )
    with pytest.raises(ValueError, match="another model"):
        Monitor.load_state(path, other)
    path.write_bytes(content[:-9] + b"123456789")
    with pytest.raises(ValueError, match="checksum"):
        Monitor.load_state(path, model)
    path.write_bytes(b"hello")
    with pytest.raises(ValueError, match="not a manyone state"):
        Monitor.load_state(path, model)
    with pytest.raises(ValueError, match="drift_level"):
        MonitorState.start(model, drift_level=2)


@pytest.mark.parametrize("rate", [0.2, 0.6])
def test_another_promise_moves_the_level(model, rate):
    monitor = Monitor(model)
    try:
        with pytest.warns(
            UserWarning, match=f"alarms on {rate} of normal rows now, before"
        ):
            moved = Monitor(model.recalibrate(rate), state=monitor.state)
        np.testing.assert_allclose(moved.state.level, rate)
    finally:
        model.recalibrate(RATE)


@pytest.mark.parametrize("method", [JointOCKSR, IndependentOCKSR])
def test_a_single_task_needs_no_label(method):
    rng = np.random.default_rng(0)
    monitor = Monitor(method(alarm_rate=0.1).fit(rng.normal(size=(30, 3))))
    assert monitor.update(rng.normal(size=(5, 3))).alarm.shape == (5,)


@pytest.fixture
def pumps():
    """A model of a table with two pumps."""
    pd = pytest.importorskip("pandas")
    flow = np.random.default_rng(0).normal(9, 1, 80)
    table = pd.DataFrame({"pump": np.repeat(["a", "b"], 40), "flow": flow})
    return TableModel("pump", method="default", anomalies="faults", alarm_rate=0.1).fit(
        table
    )


def test_tables_are_watched_and_unknown_tasks_answered(pumps):
    pd = pytest.importorskip("pandas")
    monitor = Monitor(pumps)
    new = pd.DataFrame({"pump": ["a", "b", "c", "a"], "flow": [9.0, 90.0, 9.0, 9.1]})
    found = monitor.update(new, id=["w", "x", "y", "z"])
    assert found.alarm.tolist()[:2] == [False, True]
    assert (found.codes >= 0).tolist() == [True, True, False, True]
    assert monitor.state.rows.tolist() == [2, 1]
    answered = pumps.score(new)
    assert found.p_value[2] == answered.p_value[2]


def test_columns_of_a_table_may_say_when_and_which(pumps):
    pd = pytest.importorskip("pandas")
    new = pd.DataFrame({"pump": list("abab"), "flow": [9.0, 90.0, 9.2, 9.1]})
    when = pd.date_range("2026-01-01", periods=4)
    ids = np.array(list("wxyz"))
    wide = new.assign(when=when, reading=ids)
    estimator = IndependentOCKSR(alarm_rate=RATE).fit(
        new.iloc[[0, 2, 3] * 9], task="pump"
    )
    for watched, task in ((pumps, None), (estimator, "pump")):
        named = Monitor(watched)
        given = Monitor(watched)
        found = named.update(wide, task, time="when", id="reading")
        assert equal(found, given.update(new, task, time=when, id=ids))
        assert found.id.tolist() == list("wxyz")
    assert named.feedback("w", normal=True) == 1


@pytest.mark.parametrize(
    "normal", ["no", "False", [True, False, True], [True, None], 2]
)
def test_answers_are_true_or_false_for_each_id(model, normal):
    X, task = stream(1)
    monitor = Monitor(model)
    monitor.update(X, task)
    with pytest.raises(ValueError, match="normal must be True or False"):
        monitor.feedback([0, 1], normal=normal)
    assert monitor.feedback([0, 1], normal=[1, np.False_]) == 2


def test_the_rate_differs_from_the_promise_by_the_way_of_the_level(model):
    """As docs/watching.rst says: with answers, and a level between its bounds."""
    rows = 700
    X, task = stream(rows, shift=0.6)
    monitor = Monitor(model)
    first = monitor.update(X[:TASKS], task[:TASKS])
    monitor.feedback(first.id, normal=True)  # from now on the level moves in full steps
    monitor.state.answers[:, 0] = 1.0
    start = monitor.state.level.copy()
    alarms = np.zeros(TASKS)
    inside = np.ones(TASKS, dtype=bool)
    for row in range(1, rows):
        now = slice(row * TASKS, (row + 1) * TASKS)
        watched = monitor.update(X[now], task[now])
        monitor.feedback(watched.id[watched.alarm], normal=True)
        alarms += watched.alarm
        inside &= (monitor.state.level > 0.0) & (monitor.state.level < 0.5)
    n = rows - 1
    assert inside.mean() > 0.5
    difference = alarms / n - RATE
    way = (start - monitor.state.level) / (thresholds.STEP * n)
    np.testing.assert_allclose(difference[inside], way[inside], atol=1e-9)
    assert np.abs(difference[inside]).max() <= 0.5 / (thresholds.STEP * n)


def test_answered_alarms_stay_within_the_bound_whatever_rows_do():
    """A point moves outwards for ever, and every alarm is answered: normal, at once."""
    rng = np.random.default_rng(0)
    rate = 0.05
    model = IndependentOCKSR(alarm_rate=rate).fit(rng.normal(size=(50, 2)))
    monitor = Monitor(model)
    alarms = []
    for step in range(400):
        found = monitor.update(np.array([[2.0 + 0.02 * step, 0.0]]))
        alarms.append(bool(found.alarm[0]))
        monitor.feedback(found.id[found.alarm], normal=True)
    normal_rows = np.arange(1, 401)
    # The level is at most twice the rate when the first alarm is answered.
    most = 1.0 + rate * normal_rows + 2.0 * rate / 0.02 + thresholds.MOST_DEBT + 1.0
    assert np.all(np.cumsum(alarms) <= most + 1e-9)
    assert np.sum(alarms) > 15  # the rate is used


def test_rows_far_out_raise_alarms_in_tasks_that_have_raised_too_many():
    """A dead sensor is told, also after a week of answered false alarms."""
    rng = np.random.default_rng(0)
    model = IndependentOCKSR(alarm_rate=0.05).fit(rng.normal(size=(50, 2)))
    monitor = Monitor(model)
    for step in range(6):
        found = monitor.update(np.array([[4.0 + step, 4.0]]))
        monitor.feedback(found.id[found.alarm], normal=True)
    assert monitor.state.level[0] <= 0.0
    borderline = monitor.update(np.array([[4.0, -4.0]]))
    dead = monitor.update(np.tile([40.0, -40.0], (12, 1)))
    assert not borderline.alarm.any()
    assert dead.alarm.all()


def test_alarms_that_wait_for_answers_add_at_most_one_each():
    rng = np.random.default_rng(0)
    model = IndependentOCKSR(alarm_rate=0.05).fit(rng.normal(size=(50, 2)))
    monitor = Monitor(model)
    waiting = []
    raised = 0
    for step in range(400):
        found = monitor.update(np.array([[3.0 + 0.02 * step, 0.0]]))
        if found.alarm[0]:
            raised += 1
            waiting.append((step, found.id[0]))
        while waiting and waiting[0][0] <= step - 40:
            monitor.feedback([waiting.pop(0)[1]], normal=True)
    assert raised <= 0.05 * 400 + 3.5 + thresholds.MOST_DEBT + 40


def test_drifting_tasks_of_a_large_fleet_are_few_quiet_ones():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(60), 20)
    model = IndependentOCKSR().fit(rng.normal(size=(1200, 2)), task=task)
    monitor = Monitor(model)
    for _ in range(60):
        rows = rng.normal(size=(60, 2))
        rows[:6] += 4.0
        monitor.update(rows, np.arange(60))
    drifting = monitor.drifting(0.1)
    assert set(range(6)) <= set(drifting.tolist())
    assert len(drifting) <= 7
    assert len(monitor.reset().drifting()) == 0
    with pytest.raises(ValueError, match="fdr"):
        monitor.drifting(0)


@pytest.mark.parametrize("sizes", [(8,) * 10, (30,) * 4, (3, 3), (1, 2, 5, 20, 120)])
@pytest.mark.parametrize("rate", [0.002, 0.05, 0.2])
def test_first_rows_of_every_task_raise_the_alarms_of_the_model(sizes, rate):
    rng = np.random.default_rng(5)
    tasks = np.arange(len(sizes))
    task = np.repeat(tasks, sizes)
    centre = 2.0 * rng.normal(size=(len(sizes), 3))
    X = centre[task] + rng.normal(size=(len(task), 3))
    model = JointOCKSR(alarm_rate=rate).fit(X, task=task)
    raised = 0
    for _ in range(20):
        new = centre + 2.0 * rng.normal(size=centre.shape)
        alarm = Monitor(model).update(new, task=tasks).alarm
        np.testing.assert_array_equal(alarm, model.predict(new, task=tasks) == -1)
        raised += np.count_nonzero(alarm)
    assert raised > 0


def test_answers_to_faults_alone_do_not_loosen_thresholds():
    """One machine breaks, and somebody calls its alarms faults; others go on."""
    rng = np.random.default_rng(0)
    n_tasks = 8
    trained = 60
    rate = 0.05
    X = rng.normal(size=(n_tasks * trained, 4))
    task = np.repeat(np.arange(n_tasks), trained)
    method = IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0)
    monitor = Monitor(method.set_params(alarm_rate=rate).fit(X, task=task))
    quiet = []
    for step in range(300):
        rows = rng.normal(size=(n_tasks, 4))
        is_broken = 50 <= step < 62
        rows[0] += 30.0 * is_broken
        watched = monitor.update(
            rows, task=np.arange(n_tasks), id=np.arange(8) + 8 * step
        )
        if is_broken and watched.alarm[0]:
            monitor.feedback([8 * step], normal=False)
        quiet.append(watched.alarm[1:])
    assert np.mean(quiet[62:]) <= 0.075
