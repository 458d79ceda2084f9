"""One splitter for every method: folds inside tasks, halves of the tasks."""

import numpy as np
import pytest

from manyone.selection.splits import fold_splits


def tasks_of(sizes):
    return np.repeat(np.arange(len(sizes)), sizes)


def none(codes):
    return np.zeros(len(codes), dtype=bool)


@pytest.mark.parametrize("kind", ["seen", "unseen", "both"])
@pytest.mark.parametrize("sizes", [(6, 6, 6, 6), (3, 9, 4, 7, 5), (2,) * 8])
def test_every_row_is_judged_once_by_a_model_of_its_task(kind, sizes):
    codes = tasks_of(sizes)
    splits = list(fold_splits(codes, none(codes), kind))
    assert len(splits) == 6 if min(sizes) > 2 else len(splits) >= 4
    judged = np.sum([split.test & split.enrolled for split in splits], axis=0)
    assert np.all(judged == 1)
    for train, test, enrolled in splits:
        assert not np.any(train & test) and np.all(train | test)
        # Tasks are in the model with all their rows or with none.
        assert set(codes[enrolled]) == set(codes[train]) and not set(codes[train]) & set(
            codes[~enrolled]
        )
        held = np.bincount(codes[test & enrolled], minlength=len(sizes))
        assert np.all(np.abs(held - np.array(sizes) / 3)[np.unique(codes[train])] < 1)


def test_halves_are_enrolled_in_turn():
    codes = tasks_of((3,) * 5)
    enrolled = [set(codes[s.enrolled].tolist()) for s in fold_splits(codes, none(codes), "both")]
    assert enrolled == [{0, 2, 4}] * 3 + [{1, 3}] * 3


@pytest.mark.parametrize("n_tasks", [1, 2, 3])
def test_few_tasks_keep_their_negatives(n_tasks):
    codes = tasks_of((4,) * n_tasks)
    seen = list(fold_splits(codes, none(codes), "seen"))
    assert len(seen) == 3 and all(np.all(split.enrolled) for split in seen)
    unseen = list(fold_splits(codes, none(codes), "unseen"))
    assert all(np.any(~split.enrolled) for split in unseen) or n_tasks == 1


def test_the_only_row_of_a_task_stays_in_the_model():
    codes = tasks_of((1, 4, 4, 1))
    for split in fold_splits(codes, none(codes), "seen"):
        for t in np.unique(codes[split.enrolled]):
            assert np.any(split.train[codes == t])
    codes = np.arange(5)
    assert list(fold_splits(codes, none(codes), "seen")) == []


def test_outliers_are_dealt_too():
    codes = np.append(tasks_of((6, 6, 6, 6)), [0, 1, 2, 3, -1, -1, -1])
    outlier = np.arange(len(codes)) >= 24
    splits = list(fold_splits(codes, outlier, "both"))
    for split in splits:
        assert np.all(split.enrolled[codes == -1])
        assert not np.any(split.train & split.test) and np.all(split.train | split.test)
    # Those without a task are judged in one fold of each half.
    judged = np.sum([split.test & split.enrolled for split in splits], axis=0)
    assert np.all(judged[codes == -1] == 2) and np.all(judged[outlier & (codes >= 0)] == 1)


def test_orders_of_the_caller_make_names_and_positions_irrelevant():
    rng = np.random.default_rng(0)
    codes, value = tasks_of((5, 6, 7, 4, 8)), rng.normal(size=30)
    outlier = rng.random(30) < 0.1

    def judged(codes, value, outlier):
        by_value = np.argsort(value)
        by_first = np.argsort([value[codes == t].min() for t in range(5)])
        found = fold_splits(codes, outlier, "both", task_order=by_first, row_order=by_value)
        return [tuple(np.sort(value[mask]).tolist() for mask in split) for split in found]

    name, place = rng.permutation(5), rng.permutation(30)
    expected = judged(codes, value, outlier)
    assert judged(name[codes][place], value[place], outlier[place]) == expected
    assert len(expected) == 6


@pytest.mark.parametrize("seed", range(20))
def test_as_settings_were_judged_before(seed):
    """The rule as it was written for the package's own methods: no choice of theirs moves."""
    rng = np.random.default_rng(seed)
    T = int(rng.integers(4, 9))
    codes = np.append(np.arange(T), rng.integers(-1, T, size=40))
    outlier = (codes < 0) | (rng.random(len(codes)) < 0.1)
    place = np.empty(len(codes), dtype=int)
    for group in [np.flatnonzero(outlier)] + [
        np.flatnonzero((codes == t) & ~outlier) for t in range(T)
    ]:
        place[group] = np.arange(len(group))
    single = np.bincount(codes[~outlier], minlength=T) == 1
    found = list(fold_splits(codes, outlier, "seen"))
    k = 0
    for half in range(2):
        for fold in range(3):
            enrolled = (codes % 2 == half) | (codes < 0)
            in_fold = (place % 3 == fold) & (outlier | ~(enrolled & single[np.maximum(codes, 0)]))
            train, test = enrolled & ~in_fold, in_fold | ~enrolled
            if np.any(train & ~outlier) and np.any(test & enrolled & ~outlier):
                for mine, theirs in zip(found[k], (train, test, enrolled), strict=True):
                    np.testing.assert_array_equal(mine, theirs)
                k += 1
    assert k == len(found) > 0
