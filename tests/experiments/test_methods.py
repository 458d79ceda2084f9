"""Every method of the package and every rival fits and scores."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from manyone import JointOCKSR
from manyone.calibration.folds import halved_splits
from manyone.data.rows import training_rows
from manyone.estimators import METHODS
from manyone.experiments import Plan, methods
from manyone.experiments.methods import AS_IN_PAPER, Method, _chosen, package_method
from manyone.experiments.rivals.base import Rival
from manyone.metrics import task_aucs


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    centres = 4 * rng.normal(size=(4, 5))
    task = np.repeat(["a", "b", "c", "d"], 9)
    codes = np.repeat(np.arange(4), 9)
    X, Z = (rng.normal(size=(36, 5)) + centres[codes] for _ in range(2))
    return X, task, Z, codes


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(methods()))
def test_every_method_tells_far_tasks_apart(name, blobs):
    X, task, Z, codes = blobs
    method = methods()[name]
    model = method.fit(X, task, "seen")
    scores = model.score_tasks(Z)
    assert scores.shape == (36, 4)
    assert np.all(task_aucs(scores, codes) > 0.9)
    assert method.alarms == hasattr(model, "recalibrate")
    if method.alarms:
        assert model.recalibrate(0.2).offset_.shape == (4,)


@pytest.mark.filterwarnings("ignore")
def test_paper_setting_fixes_kernel_and_ridge(blobs):
    X, task, *_ = blobs
    model = methods()["C-OCKSR" + AS_IN_PAPER].fit(X, task)
    assert (model.kernel, model.alpha) == ("rbf", 1.0)
    assert package_method("C-OCKSR", "alpha=1e-3").fit(X, task).alpha == 1e-3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("family", "strengths"),
    [
        ("C-OCKSR", {"width"}),
        ("OCKSR-L", {"width", "frobenius", "nuclear"}),
        ("OCKSR-N", {"width", "beta"}),
        ("OCKSR-NS", {"width", "l1"}),
        ("SVDD", {"width", "nu"}),
    ],
)
def test_paper_setting_chooses_the_strengths(blobs, family, strengths):
    X, task, *_ = blobs
    tried = package_method(family, "alpha=1").fit(X, task, calibrate=False).tuning_
    varied = {name for name in strengths if len(set(tried[name])) > 1}
    assert varied == strengths
    for name in {"kernel", "alpha"} & set(tried):
        assert len(set(tried[name])) == 1


@pytest.mark.filterwarnings("ignore")
def test_models_without_thresholds_score_the_same(blobs):
    X, task, Z, _ = blobs
    method = package_method("KNFST", "alpha=1")
    whole = method.fit(X, task)
    bare = method.fit(X, task, calibrate=False)
    np.testing.assert_array_equal(whole.score_tasks(Z), bare.score_tasks(Z))
    assert whole.predict(Z, task=task[:1].repeat(len(Z))).min() == -1
    with pytest.raises(NotFittedError, match="held-out normal rows"):
        bare.predict(Z, task=task[:1].repeat(len(Z)))


class NearestMean(Rival):
    """Distance to the mean of a task, or how much nearer it is than all others."""

    def __init__(self, margin=False):
        self.margin = margin

    def _fit(self, X, codes):
        self._means = np.stack(
            [X[codes == t].mean(axis=0) for t in range(len(self.tasks_))]
        )

    def score_tasks(self, X):
        scores = -np.linalg.norm(X[:, None] - self._means, axis=2)
        if not self.margin:
            return scores
        others = [
            np.delete(scores, t, axis=1).max(axis=1) for t in range(scores.shape[1])
        ]
        return scores - np.column_stack(others)


@pytest.mark.parametrize("order", [(False, True), (True, False)])
def test_rivals_are_chosen_for_the_anomalies_to_expect(order):
    # Beside a row's own noise, the same for all tasks, margins know best; but an
    # unknown row beyond a task is further from all others than the task itself.
    rng = np.random.default_rng(0)
    centres = np.zeros((4, 20))
    centres[:, 0] = [4.0, 12.0, -4.0, -12.0]
    codes = np.repeat([0, 1, 2, 3], 15)
    noise = rng.normal(size=(60, 20)) * rng.uniform(0.2, 3, size=(60, 1))
    noise[:, 0] = rng.normal(size=60)
    X = centres[codes] + noise
    task = np.array(["a", "b", "c", "d"])[codes]
    grid = {"margin": order}
    assert _chosen(NearestMean(), grid, X, task, "seen").margin
    assert not _chosen(NearestMean(), grid, X, task, "unseen").margin


@pytest.mark.parametrize("kind", ["seen", "unseen"])
def test_rivals_are_judged_on_the_rows_that_our_methods_are_judged_on(blobs, kind):
    X, task, _, codes = blobs
    fitted = []
    scored = []

    class Watched(NearestMean):
        def _fit(self, X, codes):
            fitted.append(sorted(map(tuple, X)))
            super()._fit(X, codes)

        def score_tasks(self, X):
            scored.append(sorted(map(tuple, X)))
            return super().score_tasks(X)

    Method("watched", "watched", "tuned", Watched(), {"margin": (False, True)}).fit(
        X, task, kind
    )
    rows, *_ = training_rows(JointOCKSR(), X, task)
    X = rows.X
    splits = list(halved_splits(rows, kind))
    assert fitted[:6] == [sorted(map(tuple, X[split.train])) for split in splits]
    assert scored[:6] == [sorted(map(tuple, X[split.test])) for split in splits]
    assert fitted[6:12] == fitted[:6] and fitted[12:] == [sorted(map(tuple, X))]


def test_rivals_need_tasks_to_hold_out(blobs):
    X, task, *_ = blobs
    few = np.isin(task, ["a", "b", "c"])
    with pytest.raises(ValueError, match="at least 4 tasks; got 3"):
        _chosen(NearestMean(), {"margin": (False, True)}, X[few], task[few], "unseen")


def test_rivals_that_are_not_installed_are_named(monkeypatch):
    everything = set(methods()) | set(Plan().missing)
    module = sys.modules[
        "manyone.experiments.methods"
    ]  # the package has a function of that name
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert set(Plan().missing) == {"ECOD (PyOD)", "KPCA (PyOD)"}
    assert set(methods()) == everything - set(Plan().missing)


@pytest.mark.filterwarnings("ignore")
def test_a_method_without_closed_form_is_chosen_by_folds(blobs, monkeypatch):
    class Newcomer(JointOCKSR):
        can = replace(JointOCKSR.can, left_out_grid=None)

    monkeypatch.setitem(METHODS, "OCKSR-X", Newcomer)
    X, task, Z, codes = blobs
    table = methods()
    assert "OCKSR-X" in table
    assert "OCKSR-X" + AS_IN_PAPER not in table  # the paper does not have it
    model = table["OCKSR-X"].fit(X, task)
    assert isinstance(model, Newcomer)
    assert "folds" in model.tuning_["stage"]
    assert np.mean(task_aucs(model.score_tasks(Z), codes)) > 0.9


@pytest.mark.filterwarnings("ignore")
def test_two_rows_per_task_are_enough_to_choose_by(blobs):
    X, task, Z, _ = blobs
    few = np.concatenate([np.flatnonzero(task == label)[:2] for label in "abcd"])
    for name in ("SVC (one-vs-rest)", "Mahalanobis (per task)", "OneClassSVM"):
        model = methods()[name].fit(X[few].tolist(), task[few].tolist(), "seen")
        assert np.all(np.isfinite(model.score_tasks(Z)))
    single = np.concatenate([np.flatnonzero(task == label)[:1] for label in "abcd"])
    with pytest.raises(ValueError, match="single row"):
        methods()["SVC (one-vs-rest)"].fit(X[single], task[single], "seen")


def test_other_kinds_of_anomaly_are_refused(blobs):
    X, task, *_ = blobs
    with pytest.raises(ValueError, match="kind must be"):
        methods()["LDA"].fit(X, task, "foo")
