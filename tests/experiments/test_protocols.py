"""Splits are what the paper says, and never leak."""

import numpy as np
import pytest

from manyone.experiments import Protocol, data

PAPER = [
    ("mnist", "seen", 10, 15, 150, 1350),
    ("mnist", "unseen", 5, 15, 150, 1350),
    ("coil100", "seen", 50, 7, 65, 585),
    ("coil100", "unseen", 50, 7, 65, 585),
    ("face", "seen", 10, 4, 40, 160),
    ("face", "unseen", 6, 4, 40, 160),
]
CLASSES = {"mnist": (10, 600), "coil100": (100, 72), "face": (12, 52)}


def labels_like(name):
    """Labels of a data set of the same shape, shuffled."""
    classes, rows = CLASSES[name]
    return np.random.default_rng(1).permutation(np.repeat(np.arange(classes), rows))


@pytest.mark.parametrize(
    ("name", "kind", "tasks", "train", "positive", "negative"), PAPER
)
def test_sizes_and_disjointness(name, kind, tasks, train, positive, negative):
    labels = labels_like(name)
    split = data.DATASETS[name].protocols[kind].split(labels, labels, seed=3)
    assert np.array_equal(split.tasks, np.unique(split.task))
    assert np.array_equal(
        np.unique(split.task, return_counts=True)[1], np.full(tasks, train)
    )
    assert np.array_equal(labels[split.train], split.task)
    assert not set(split.train) & set(split.test)
    owner = labels[split.test]
    for label in split.tasks:
        is_judged = split.judged == label
        assert len(np.unique(split.test[is_judged])) == positive + negative
        assert np.sum(is_judged & split.anomalous) == negative
        assert np.all(owner[is_judged & ~split.anomalous] == label)
        against = owner[is_judged & split.anomalous]
        assert label not in against
        enrolled = np.isin(against, split.tasks)
        assert np.all(enrolled) if kind == "seen" else not np.any(enrolled)


def test_seed_fixes_the_split_and_changes_it():
    labels = labels_like("mnist")
    protocol = Protocol("unseen", 4, 5, 20, 30, n_unseen=3)
    a, b, c = (
        protocol.split(labels, labels, seed=seed) for seed in ((0, 1), (0, 1), (0, 2))
    )
    assert np.array_equal(a.train, b.train) and np.array_equal(a.test, b.test)
    assert not np.array_equal(a.train, c.train)


class Claims:
    """Scores that tell which task a row was scored against."""

    def score_tasks(self, X):
        return X[:, :1] + 100.0 * np.arange(5)


def test_rows_are_scored_against_the_task_that_is_judged_by_them():
    labels = labels_like("face")
    split = Protocol("seen", 5, 4, 10, 17).split(labels, labels, seed=0)
    X = np.random.default_rng(0).normal(size=(len(labels), 1))
    scores = split.scores(Claims(), X)
    place = [split.tasks.tolist().index(label) for label in split.judged]
    np.testing.assert_array_equal(scores, X[split.test, 0] + 100.0 * np.array(place))


def test_aucs_agree_with_scikit_learn():
    from sklearn.metrics import roc_auc_score

    labels = labels_like("face")
    split = Protocol("seen", 5, 4, 10, 17).split(labels, labels, seed=0)
    scores = np.random.default_rng(0).normal(size=len(split.test))
    expected = [
        roc_auc_score(~split.anomalous[judged], scores[judged])
        for judged in (split.judged == label for label in split.tasks)
    ]
    np.testing.assert_allclose(split.aucs(scores), expected)
    # Whatever the units of the scores are.
    np.testing.assert_array_equal(split.aucs(1e-15 * scores), split.aucs(scores))


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        (Protocol("seen", 20, 5, 5, 5), "20 classes"),
        (Protocol("seen", 5, 50, 50, 5), "at least 100 rows"),
        (Protocol("unseen", 10, 5, 5, 5, n_unseen=5), "5 others"),
        (Protocol("seen", 2, 5, 5, 6), "only 5 rows"),
    ],
)
def test_data_that_is_too_small_is_refused(protocol, words):
    labels = labels_like("face")
    with pytest.raises(ValueError, match=words):
        protocol.split(labels, labels, seed=0)


def test_contradictory_protocols_are_refused():
    with pytest.raises(ValueError, match="kind"):
        Protocol("new", 2, 2, 2, 2)
    with pytest.raises(ValueError, match="n_unseen"):
        Protocol("unseen", 2, 2, 2, 2)
    with pytest.raises(ValueError, match="labels"):
        Protocol("seen", 2, 2, 2, 2).split(np.zeros((4, 1)), [0, 1], seed=0)


@pytest.mark.parametrize("name", ["n_tasks", "n_train", "n_positive", "n_negative"])
@pytest.mark.parametrize("wrong", [0, -1, 2.5])
def test_sizes_are_positive_integers(name, wrong):
    sizes = {"n_tasks": 2, "n_train": 3, "n_positive": 2, "n_negative": 2} | {
        name: wrong
    }
    with pytest.raises(ValueError, match=f"{name} must be a positive integer"):
        Protocol("seen", **sizes)
