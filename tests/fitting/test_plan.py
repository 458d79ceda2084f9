"""Learned landmarks: better than rows, and judged by rows without a part."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from manyone import JointOCKSR, LinearOCKSR
from manyone.engines import Block, fit, local_sweep

RNG = np.random.default_rng(3)
CENTRES = RNG.normal(size=(4, 3, 6))  # each task lives in three places


def made(n, seed):
    rng = np.random.default_rng(seed)
    code = rng.integers(0, 4, n)
    place = rng.integers(0, 3, n)
    return CENTRES[code, place] + 0.5 * rng.normal(size=(n, 6)), np.array(list("abcd"))[
        code
    ]


X, TASK = made(4000, 0)
NEW, TRUE = made(4000, 1)


def auc(model):
    scores = model.score_tasks(NEW)
    return np.mean(
        [roc_auc_score(label == TRUE, scores[:, t]) for t, label in enumerate("abcd")]
    )


def test_moved_landmarks_are_better_than_rows(monkeypatch):
    moved = JointOCKSR(landmarks=12, random_state=0).fit(X, task=TASK)
    monkeypatch.setattr("manyone.fitting.plan.Plan.learned", lambda plan, *_: plan)
    rows = JointOCKSR(landmarks=12, random_state=0).fit(X, task=TASK)
    assert auc(moved) > auc(rows) + 0.01


@pytest.mark.parametrize("method", [JointOCKSR, LinearOCKSR])
def test_rows_that_moved_them_are_not_judged(method):
    model = method(landmarks=12, random_state=0, alarm_rate=0.1)
    model.fit(X, task=TASK)
    sizes = np.unique(TASK, return_counts=True)[1]
    counts = model.calibration_.counts
    assert np.all(counts < sizes) and np.all(counts >= 0.75 * sizes)
    alarms = model.predict(NEW, task=TRUE) < 0
    assert np.mean(alarms) == pytest.approx(0.1, abs=0.02)


def test_order_blocks_and_names_do_not_matter():
    one = JointOCKSR(landmarks=12, random_state=0).fit(X, task=TASK)
    order = np.random.default_rng(0).permutation(len(X))
    names = np.array(
        [{"a": "z", "b": "y", "c": "x", "d": "w"}[label] for label in TASK]
    )
    blocks = [Block(X[part], names[part]) for part in np.split(order, [100, 1700])]
    other = fit(JointOCKSR(landmarks=12, random_state=0), local_sweep(blocks))
    scores = one.score_tasks(NEW), other.score_tasks(NEW)[:, ::-1]
    np.testing.assert_allclose(*scores, atol=1e-7)
