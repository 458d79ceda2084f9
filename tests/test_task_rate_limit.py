"""`task_rate_limit`: what a single task may raise, wherever thresholds are set."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

import manyone
from manyone import AutoOneClass, IndependentOCKSR, JointOCKSR, TableModel
from manyone.engines import Block, local_sweep
from manyone.engines import fit as fit_blocks
from manyone.estimators import METHODS

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")

TASK = np.repeat(np.arange(12), 10)


def rows(seed=0, n=10):
    """One task in four is four times as wide as the others."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(12), n)
    spread = np.where(task % 4 == 0, 4.0, 1.0)
    centre = 20.0 * np.random.default_rng(9).normal(size=(12, 3))
    return centre[task] + spread[:, None] * rng.normal(size=(len(task), 3)), task


def test_ranks_beyond_the_limit_raise_no_alarm_and_leave_the_rate_to_others():
    X, task = rows()
    free = IndependentOCKSR(alarm_rate=0.1, task_rate_limit=1.0).fit(X, task=task)
    tight = IndependentOCKSR(alarm_rate=0.1, task_rate_limit=0.2).fit(X, task=task)
    Z, claim = rows(1, 40)
    scores = free.score_samples(Z, task=claim)
    calibration = free.calibration_
    rank = np.empty(len(Z))
    for code in range(12):
        own = calibration.scores[calibration.starts[code] :][:10]
        mine = claim == code
        rank[mine] = (1 + np.sum(own <= scores[mine, None], axis=1)) / 11.0
    p = tight.pvalues(Z, task=claim)
    limited = np.where(rank > 1.5 / 11.0, rank * 0.1 / 0.2, 0.0)
    assert np.all(p >= limited - 1e-12)
    for model in (free, tight):
        alarm = model.pvalues(Z, task=claim) <= 0.1
        assert np.array_equal(model.predict(Z, task=claim) < 0, alarm)
    assert np.all(rank[p <= 0.1] <= 0.2)
    assert np.any(rank[free.pvalues(Z, task=claim) <= 0.1] > 0.2)
    # Rows that may not raise an alarm are not among those that use up the rate.
    assert np.any(tight.offset_ < free.offset_)
    assert np.any(tight.offset_ > free.offset_)


def test_no_task_raises_more_than_its_limit():
    """Ranks among own held-out rows: a theorem, whatever the other tasks are like."""
    rates = []
    for seed in range(60):
        X, task = rows(seed, 20)
        model = JointOCKSR(alarm_rate=0.1, task_rate_limit=0.2)
        model.fit(X[::2], task=task[::2]).calibrate(X[1::2], task=task[1::2])
        Z, claim = rows(1000 + seed, 50)
        alarm = model.predict(Z, task=claim) < 0
        rates.append(np.bincount(claim, alarm) / 50.0)
    error = np.std(rates, axis=0) / np.sqrt(60)
    assert np.all(np.mean(rates, axis=0) <= 0.2 + 3.0 * error)
    assert np.mean(rates) <= 0.1 + 2.0 * np.std(np.mean(rates, axis=1)) / np.sqrt(60)


def test_recalibrate_keeps_the_ratio_and_1_stays_no_limit():
    X, task = rows()
    fresh = IndependentOCKSR(alarm_rate=0.2, task_rate_limit=0.4).fit(X, task=task)
    model = IndependentOCKSR(alarm_rate=0.1, task_rate_limit=0.2).fit(X, task=task)
    model.recalibrate(0.2)
    assert model.task_rate_limit == pytest.approx(0.4)
    np.testing.assert_array_equal(model.offset_, fresh.offset_)
    np.testing.assert_array_equal(
        model.pvalues(X, task=task), fresh.pvalues(X, task=task)
    )
    free = IndependentOCKSR(alarm_rate=0.5, task_rate_limit=1.0).fit(X, task=task)
    again = free.recalibrate(0.05).offset_
    direct = IndependentOCKSR(task_rate_limit=1.0).fit(X, task=task).offset_
    np.testing.assert_array_equal(again, direct)


@pytest.mark.parametrize("method", METHODS.values())
def test_every_method_has_it_and_keeps_it(method, tmp_path):
    X, task = rows()
    loose = method(alarm_rate=0.1, task_rate_limit=1.0).fit(X, task=task)
    tight = clone(loose).set_params(task_rate_limit=0.1).fit(X, task=task)
    calibration = tight.calibration_
    lowest = calibration.scores[calibration.starts[:-1]]
    assert np.all(tight.offset_ <= np.nextafter(lowest, 0.0))
    assert np.any(loose.offset_ > np.nextafter(lowest, 0.0))
    manyone.save(tight, tmp_path / "model")
    twin = manyone.load(tmp_path / "model")
    assert twin.task_rate_limit == 0.1
    assert np.array_equal(twin.pvalues(X, task=task), tight.pvalues(X, task=task))
    # At the rate itself a task is limited to its own rank.
    p = tight.pvalues(X, task=task)
    assert np.all(p[tight.predict(X, task=task) < 0] <= 0.1)


@pytest.mark.parametrize("limit", [0.0, 1.5, "much", -1])
def test_limits_that_are_none_are_refused(limit):
    X, task = rows()
    for model in (IndependentOCKSR(), AutoOneClass()):
        with pytest.raises(ValueError, match="task_rate_limit"):
            model.set_params(task_rate_limit=limit).fit(X, task=task)


def test_a_limit_below_the_rate_is_refused_with_both():
    X, task = rows()
    table = pd.DataFrame(X, columns=list("abc")).assign(task=task)
    for fit in (
        lambda: IndependentOCKSR(task_rate_limit=0.01).fit(X, task=task),
        lambda: manyone.auto(X, task=task, task_rate_limit=0.01),
        lambda: TableModel("task", task_rate_limit=0.01).fit(table),
    ):
        with pytest.raises(ValueError, match=r"0\.01 is below alarm_rate=0\.05"):
            fit()


def test_a_refused_fit_leaves_the_promise_of_the_last():
    X, task = rows()
    model = IndependentOCKSR(alarm_rate=0.1, task_rate_limit=0.2).fit(X, task=task)
    with pytest.raises(ValueError, match="outlier"):
        model.fit(X, task=task, outlier=["?"] * len(X))
    assert model.recalibrate(0.2).task_rate_limit == pytest.approx(0.4)


def test_every_fit_takes_the_limit_of_the_parameters():
    X, task = rows()
    sweep = local_sweep([Block(X, task)])
    model = fit_blocks(JointOCKSR(landmarks=20, random_state=0), sweep)
    fit_blocks(model.set_params(task_rate_limit=0.1), sweep)
    assert model.limit_ratio_ == pytest.approx(2.0)


def test_updates_keep_the_limit_of_the_fit():
    X, task = rows()
    model = IndependentOCKSR(task_rate_limit=0.1).fit(X, task=task)
    offsets = model.offset_
    model.set_params(task_rate_limit=1.0).enroll(X[:3], task=["new"] * 3)
    assert model.limit_ratio_ == pytest.approx(2.0)
    assert len(model.offset_) == len(offsets) + 1


def test_pipelines_tables_and_the_choice_pass_it_on(tmp_path):
    X, task = rows()
    options = {"anomalies": "faults", "task_rate_limit": 0.1}
    pipeline = manyone.make_pipeline(StandardScaler(), manyone.AutoOneClass(**options))
    pipeline.fit(X, task=task)
    chosen = manyone.auto(X, task=task, **options)
    table = pd.DataFrame(X, columns=list("abc")).assign(task=task)
    model = TableModel("task", method="default", **options).fit(table)
    for estimator in (chosen, model.model_):
        assert estimator.task_rate_limit == 0.1
        assert estimator.limit_ratio_ == pytest.approx(2.0)
    model.recalibrate(0.1)
    assert model.task_rate_limit == pytest.approx(0.2)
    manyone.save(model, tmp_path / "table")
    twin = manyone.load(tmp_path / "table")
    assert twin.task_rate_limit == pytest.approx(0.2)
    assert twin.recalibrate(0.05).model_.limit_ratio_ == pytest.approx(2.0)


def test_the_command_takes_it(tmp_path):
    X, task = rows()
    table = pd.DataFrame(X, columns=list("abc")).assign(task=task)
    table.to_csv(tmp_path / "table.csv", index=False)

    def fit(limit):
        command = [
            sys.executable,
            "-m",
            "manyone",
            "fit",
            "table.csv",
            "--task",
            "task",
        ]
        command += ["--out", "model", "--no-tune", "--task-rate-limit", limit]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert fit("0.1").returncode == 0
    assert manyone.load(tmp_path / "model").task_rate_limit == 0.1
    refused = fit("0.01")
    assert refused.returncode == 2
    assert "--task-rate-limit 0.01" in refused.stderr
