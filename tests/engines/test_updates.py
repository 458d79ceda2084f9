"""Rows that come and go: the functions of a fit to what is left, in the same landmarks."""

import numpy as np
import pytest

import manyone
from manyone import IndependentOCKSR, JointOCKSR
from manyone.engines import Block
from manyone.engines.fitting import local_sweep
from manyone.engines.hashing import row_hashes
from manyone.engines.joint import joint_passes

RNG = np.random.default_rng(8)
TASK = np.array(["a", "b", "c", "d"])[RNG.integers(0, 4, 400)]
OTHERS = TASK != "b"


def data(d):
    centres = {label: RNG.normal(size=d) for label in "abcd"}
    return RNG.normal(size=(400, d)) + np.array([centres[label] for label in TASK])


def model():
    return JointOCKSR(landmarks=30, random_state=0, alarm_rate=0.1)


@pytest.mark.parametrize("d", [2, 30])  # ill and well conditioned landmarks
def test_enrolled_rows_are_added(d):
    X = data(d)
    grown = model().fit(X[OTHERS], task=TASK[OTHERS]).enroll(X[~OTHERS], task=TASK[~OTHERS])
    assert grown.tasks_.tolist() == list("abcd")
    plan = grown.solution_.learned["sums"].plan
    again, tails = joint_passes(plan, local_sweep([Block(X, TASK)]), 0.1)
    np.testing.assert_allclose(again.scorer.all(X), grown.solution_.scorer.all(X), atol=1e-8)
    own = tails.calibration(4, "leave-one-out")
    b = slice(own.starts[1], own.starts[2])
    np.testing.assert_allclose(grown.calibration_.scores[b], own.scores[b], atol=1e-8)
    assert np.mean(grown.predict(X[~OTHERS], task=TASK[~OTHERS]) < 0) < 0.2
    more = model().fit(X[::2], task=TASK[::2]).enroll(X[1::2], task=TASK[1::2])
    np.testing.assert_array_equal(more.calibration_.counts, np.unique(TASK, return_counts=True)[1])


@pytest.mark.parametrize("d", [2, 30])
def test_forgotten_rows_are_subtracted(d, tmp_path):
    X = data(d)
    full = model().fit(X, task=TASK)
    manyone.save(full, tmp_path / "full.manyone")
    full = manyone.load(tmp_path / "full.manyone")
    left = full.forget("b", X=X[~OTHERS])
    assert left.tasks_.tolist() == list("acd")
    plan = left.solution_.learned["sums"].plan
    gone = {row.tobytes() for row in X[~OTHERS]}
    assert not any(row.tobytes() in gone for row in plan.points.X)
    again, _ = joint_passes(plan, local_sweep([Block(X[OTHERS], TASK[OTHERS])]), 0.1)
    np.testing.assert_allclose(again.scorer.all(X), left.solution_.scorer.all(X), atol=1e-6)
    assert np.mean(left.predict(X[OTHERS], task=TASK[OTHERS]) < 0) < 0.2


def test_what_cannot_be_forgotten():
    X = data(3)
    fitted = model().fit(X, task=TASK)
    with pytest.raises(ValueError, match="X=its rows"):
        fitted.forget("b")
    with pytest.raises(ValueError, match="needs all rows of the task"):
        fitted.forget("b", X=X[~OTHERS][:5])


def test_a_word_about_landmarks_that_are_gone():
    X = data(3)
    half = np.where(np.arange(400) < 250, "most", TASK)
    fitted = model().fit(X, task=half)
    gone = np.isin(row_hashes(fitted.X_fit_), row_hashes(X[half == "most"])).sum()
    with pytest.warns(UserWarning, match=f"{gone} of 30 landmarks were rows of 'most'"):
        fitted.forget("most", X=X[half == "most"])
    assert len(fitted.X_fit_) == 30 - gone


@pytest.mark.parametrize("method", [JointOCKSR, IndependentOCKSR])
def test_others_take_the_place_of_landmarks_that_go(method):
    """With the rows that stay: the model of a fit without the task, wherever these rows are."""
    X = data(3)
    stay = {"X": X[OTHERS], "task": TASK[OTHERS]}
    fitted = method(landmarks=30, random_state=0).fit(X, task=TASK).recalibrate(0.1)
    fitted.forget("b", others={"X": lambda: [(stay["X"][:90], stay["task"][:90]),
                                             (stay["X"][90:], stay["task"][90:])]})  # fmt: skip
    known = method(landmarks=30, random_state=0, alarm_rate=0.1).fit(**stay)
    np.testing.assert_allclose(fitted.score_tasks(X), known.score_tasks(X), atol=1e-8)
    np.testing.assert_allclose(fitted.offset_, known.offset_, atol=1e-8)
    assert len(fitted.X_fit_) == len(known.X_fit_)
    with pytest.raises(ValueError, match="that stay, 'a', 'c'; they are of 'a', 'c', 'd'"):
        fitted.forget("d", others=stay)
    assert fitted.tasks_.tolist() == list("acd")
