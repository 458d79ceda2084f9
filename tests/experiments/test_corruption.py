"""Training rows are corrupted as much as declared."""

import numpy as np
import pytest

from manyone.experiments.cells import corrupt


@pytest.fixture
def clean():
    rng = np.random.default_rng(0)
    task = np.repeat(["a", "b", "c", "d"], [10, 10, 10, 7])
    return rng.normal(size=(37, 50)) + (task == "b")[:, None], task, rng


@pytest.mark.parametrize("share", [0.1, 0.2, 0.4])
def test_labels_are_wrong_as_often_as_declared(clean, share):
    X, task, rng = clean
    ((mixed, labels),) = corrupt(X, task, f"labels={share}", rng)
    assert np.array_equal(labels, task)
    moved = np.flatnonzero(np.any(mixed != X, axis=1))
    assert len(moved) == round(share * 37)
    source = np.array(
        [int(np.flatnonzero(np.all(row == X, axis=1))[0]) for row in mixed]
    )
    assert sorted(source) == list(range(37)) and np.all(
        task[moved] != task[source][moved]
    )
    counts = np.array([np.sum(task[moved] == label) for label in "abcd"])
    assert np.all(np.abs(counts - share * np.array([10, 10, 10, 7])) < 1)


def test_noise_is_as_wide_as_declared(clean):
    X, task, rng = clean
    ((noisy, _),) = corrupt(X, task, "features=0.5", rng)
    assert np.std(noisy - X) == pytest.approx(0.5 * np.std(X - X.mean(axis=0)), rel=0.1)


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_a_share_of_the_pairs_of_tasks_never_meets(share):
    task = np.repeat(np.arange(10), 3)
    X = np.arange(30.0)[:, None]
    parts = corrupt(X, task, f"relations={share}", np.random.default_rng(0))
    together = np.zeros((10, 10), bool)
    for rows, labels in parts:
        assert np.array_equal(task[rows[:, 0].astype(int)], labels)
        together[np.ix_(labels, labels)] = True
    assert np.mean(~together) == pytest.approx(share)
    assert np.array_equal(
        np.sort(np.concatenate([rows[:, 0] for rows, _ in parts])), X[:, 0]
    )
