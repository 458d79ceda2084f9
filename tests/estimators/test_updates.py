"""Enrolling and forgetting against refits."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import manyone
from manyone import CalibrationWarning, IndependentOCKSR, JointOCKSR, tune

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
both = pytest.mark.parametrize("method", [IndependentOCKSR, JointOCKSR])


def assert_same(model, fresh, Z):
    assert np.array_equal(model.tasks_, fresh.tasks_)
    np.testing.assert_allclose(model.score_tasks(Z), fresh.score_tasks(Z), atol=1e-8)
    np.testing.assert_allclose(model.offset_, fresh.offset_, atol=1e-8)
    np.testing.assert_allclose(
        np.sort(model.calibration_.scores),
        np.sort(fresh.calibration_.scores),
        atol=1e-8,
    )
    claims = np.resize(model.tasks_, len(Z))
    exact = [m.pvalues(Z, task=claims, exact=True) for m in (model, fresh)]
    np.testing.assert_allclose(exact[0], exact[1], atol=1e-8)


@both
@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
def test_hundred_random_changes_equal_a_refit(method, alpha):
    rng = np.random.default_rng(0)
    centres = {f"t{i}": rng.normal(size=3) for i in range(12)}

    def draw(name, k):
        return rng.normal(size=(k, 3)) + centres[name]

    rows = {"t0": draw("t0", 4), "t1": draw("t1", 3)}
    weights = {
        name: rng.integers(1, 3, len(x)).astype(float) for name, x in rows.items()
    }

    def stacked():
        names = list(rows)
        return (
            np.vstack([rows[n] for n in names]),
            np.repeat(names, [len(rows[n]) for n in names]),
            np.concatenate([weights[n] for n in names]),
        )

    X, task, weight = stacked()
    model = method(gamma=0.3, alpha=alpha, alarm_rate=0.2).fit(
        X, task=task, sample_weight=weight
    )
    for step in range(100):
        if len(rows) > 2 and rng.uniform() < 0.4:
            name = str(rng.choice(list(rows)))
            model.forget(name)
            del rows[name], weights[name]
        else:
            name = str(rng.choice(list(centres)))
            new = draw(name, int(rng.integers(1, 5)))
            count = rng.integers(1, 3, len(new)).astype(float)
            model.enroll(new, task=[name] * len(new), sample_weight=count)
            rows[name] = np.vstack([rows.get(name, np.empty((0, 3))), new])
            weights[name] = np.concatenate([weights.get(name, []), count])
        if step % 20 == 19:
            X, task, weight = stacked()
            fresh = method(gamma=0.3, alpha=alpha, alarm_rate=0.2)
            fresh.fit(X, task=task, sample_weight=weight)
            assert_same(model, fresh, rng.normal(size=(15, 3)))


@both
def test_the_width_follows_from_all_rows(method, fleet):
    X, task = fleet
    model = method().fit(X[:40], task=task[:40])
    model.enroll(X[40:], task=task[40:])
    fresh = method().fit(X, task=task)
    assert model.gamma_ == fresh.gamma_
    assert_same(model, fresh, X[:9])


@both
def test_whitened_models_learn_their_metric_anew(method, fleet):
    X, task = fleet
    model = method(metric="whitened", alarm_rate=0.2).fit(X[:40], task=task[:40])
    model.enroll(X[40:], task=task[40:]).forget("bea")
    kept = task != "bea"
    fresh = method(metric="whitened", alarm_rate=0.2).fit(X[kept], task=task[kept])
    np.testing.assert_allclose(model.score_tasks(X), fresh.score_tasks(X), atol=1e-8)


@both
def test_outliers_can_be_enrolled(method, fleet):
    X, task = fleet
    bad = X[:4] + 2.0
    for labels in (task[:4], [None] * 4):
        model = method(gamma=0.2).fit(X, task=task)
        model.enroll(bad, task=labels, outlier=[True] * 4)
        fresh = method(gamma=0.2).fit(
            np.vstack([X, bad]),
            task=[*task.tolist(), *labels],
            outlier=np.arange(len(X) + 4) >= len(X),
        )
        assert_same(model, fresh, X[:9])
        model.forget("ada")
        assert "ada" not in model.tasks_


@both
def test_single_task_needs_no_label(method):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    model = method(gamma=0.2).fit(X[:30]).enroll(X[30:])
    np.testing.assert_allclose(
        model.score_samples(X), method(gamma=0.2).fit(X).score_samples(X), atol=1e-9
    )


@both
def test_after_loading_too(method, fleet, tmp_path):
    X, task = fleet
    model = method(gamma=0.2).fit(X[:40], task=task[:40])
    manyone.save(model, tmp_path / "m")
    loaded = manyone.load(tmp_path / "m").enroll(X[40:], task=task[40:]).forget("eve")
    kept = task != "eve"
    assert_same(loaded, method(gamma=0.2).fit(X[kept], task=task[kept]), X[:9])


@both
def test_forgotten_rows_are_gone(method, fleet, tmp_path):
    X, task = fleet
    model = method().fit(X, task=task).forget("cleo")
    manyone.save(model, tmp_path / "m")
    # Files hold arrays as they lie in memory: the eight bytes of a number would be
    # found.
    for content in ((tmp_path / "m").read_bytes(), pickle.dumps(model)):
        assert X[task != "cleo"][0, 0].tobytes() in content
        for row in X[task == "cleo"]:
            assert not any(value.tobytes() in content for value in row)
        assert b"cleo" not in content
        assert "cleo".encode("utf-32-le") not in content


@both
def test_misuse_is_explained(method, fleet):
    X, task = fleet
    model = method().fit(X, task=task)
    with pytest.raises(ValueError, match="Unknown task 'zoe'"):
        model.forget("zoe")
    with pytest.raises(ValueError, match="5 tasks"):
        model.enroll(X)
    with pytest.raises(ValueError, match=r"New task 'zoe' has no normal row"):
        model.enroll(X[:2], task=["zoe"] * 2, outlier=[True, True])
    with pytest.raises(ValueError, match="only task"):
        method().fit(X).forget(0)
    with pytest.raises(ValueError, match="features"):
        model.enroll(X[:, :2], task=task)
    given = method(kernel="precomputed").fit(X @ X.T, task=task)
    with pytest.raises(ValueError, match="precomputed"):
        given.enroll(X, task=task)
    # A refused change leaves the model as it was.
    np.testing.assert_array_equal(
        model.score_tasks(X), method().fit(X, task=task).score_tasks(X)
    )


def test_models_of_kernel_matrices_say_why_not(fleet):
    X, task = fleet
    model = JointOCKSR(kernel="precomputed").fit(X @ X.T, task=task)
    with pytest.raises(ValueError, match="precomputed"):
        model.enroll(X @ X.T, task=task)


@both
def test_held_out_calibration_is_given_up_with_a_warning(method, fleet):
    X, task = fleet
    model = method(alarm_rate=0.3).fit(X, task=task).calibrate(X + 0.1, task=task)
    with pytest.warns(CalibrationWarning, match="held-out"):
        model.enroll(X[:3] + 1, task=task[:3])
    assert model.calibration_.source == "leave-one-out"


@pytest.mark.parametrize("metric", ["plain", "whitened"])
def test_models_without_thresholds_stay_so(metric, fleet):
    X, task = fleet
    known = task != task[0]
    bare = tune(
        JointOCKSR(metric=metric),
        X[known],
        task=task[known],
        grid={"alpha": [0.1]},
        calibrate=False,
    )
    bare.enroll(X[~known], task=task[~known])
    with pytest.raises(NotFittedError, match="held-out normal rows"):
        bare.predict(X, task=task)
    full = JointOCKSR(metric=metric).fit(X, task=task)
    np.testing.assert_allclose(bare.score_tasks(X), full.score_tasks(X), atol=1e-9)
