"""Fitted models are frozen values; later parameters do not touch them."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from manyone import IndependentOCKSR, JointOCKSR, NonlinearOCKSR, load, save, tune
from manyone.calibration.equal_terms import with_a_row_more
from manyone.data.memory import NotEnoughMemory
from manyone.estimators import METHODS
from manyone.kernels import kernel as kernel_module
from manyone.models.scale import sizes_of

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
methods = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())


def other_value(name, value):
    """A legal value of a parameter that differs from the one in use."""
    if isinstance(value, bool):
        return not value
    special = {
        "kernel": "laplacian",
        "gamma": 0.7,
        "metric": "whitened",
        "origin": True,
        "theta": 3.0,
        "l1": 0.02,
        "group": 0.02,
        "solver": "paper",
        "kernel_params": {},
        "landmarks": 7,
        "random_state": 3,
    }
    return special[name] if name in special else value * 2 if value else 1


@methods
def test_parameters_set_after_the_fit_change_nothing_until_the_next(method, fleet):
    X, task = fleet
    model = method(alarm_rate=0.2).fit(X, task=task)
    Z = X[:9] + 0.3
    asked = {
        "score": lambda: model.score_samples(Z, task=task[:9]),
        "alarm": lambda: model.decision_function(Z, task=task[:9]),
        "p": lambda: model.pvalues(Z, task=task[:9]),
        "tasks": lambda: model.score_tasks(Z),
    }
    before = {name: call() for name, call in asked.items()}
    for name, value in method(alarm_rate=0.2).get_params().items():
        model.set_params(**{name: other_value(name, value)})
        for key, call in asked.items():
            np.testing.assert_array_equal(
                call(), before[key], err_msg=f"{key} after {name}"
            )


@methods
def test_a_solution_is_frozen_and_left_out_scores_follow_the_rows(method, fleet):
    X, task = fleet
    model = method(alarm_rate=0.2).fit(X, task=task)
    with pytest.raises(FrozenInstanceError):
        model.solution_.scorer = None
    with pytest.raises(FrozenInstanceError):
        model.solution_.scorer.points = None
    content = pickle.dumps(model.solution_)
    model.score_samples(X, task=task), model.score_tasks(X), model.predict_task(X)
    assert pickle.dumps(model.solution_) == content
    solution = model.solution_
    rows = model.training_
    left_out = solution.left_out
    assert left_out.shape == rows.codes.shape and np.isfinite(left_out).all()
    if solution.responses is not None:  # of closed forms: on the terms of new rows
        sizes = sizes_of(solution.scorer.far(), rows.n_tasks)
        given = (solution.responses, rows.codes, rows.weight, sizes)
        left_out = with_a_row_more(left_out, *given)
    expected = np.sort(model.calibration_.scores)
    np.testing.assert_allclose(np.sort(left_out), expected, atol=1e-9)
    counts = np.bincount(rows.codes)
    np.testing.assert_array_equal(np.diff(model.calibration_.starts), counts)


def test_known_outliers_have_no_left_out_score(fleet):
    X, task = fleet
    outlier = np.arange(len(X)) % 7 == 0
    model = JointOCKSR(alarm_rate=0.2).fit(X, task=task, outlier=outlier)
    np.testing.assert_array_equal(
        np.isnan(model.solution_.left_out), model.training_.outlier
    )


@pytest.mark.parametrize("method", [JointOCKSR, IndependentOCKSR, NonlinearOCKSR])
@pytest.mark.parametrize("loaded", [False, True])
def test_threads_get_what_one_thread_gets(method, loaded, fleet, tmp_path):
    X, task = fleet
    model = method(alarm_rate=0.2).fit(X, task=task)
    if loaded:
        save(model, tmp_path / "model")
        model = load(tmp_path / "model")
    Z = np.tile(X, (4, 1)) + 0.1
    claim = np.tile(task, 4)

    def ask(_):
        answers = [model.score_samples(Z, task=claim), model.score_tasks(Z)]
        answers.append(model.pvalues(Z, task=claim, exact=model.can.exact_pvalues))
        return answers

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(ask, range(16)))
    alone = ask(0)
    for answers in together:
        for one, other in zip(answers, alone, strict=True):
            np.testing.assert_array_equal(one, other)


@methods
def test_labels_in_the_place_of_y_are_not_lost_without_a_word(method, fleet):
    X, task = fleet
    with pytest.warns(UserWarning, match="task="):
        method().fit(X, task)


def test_a_y_that_is_no_label_is_ignored_in_silence(fleet, recwarn):
    X, task = fleet
    JointOCKSR(alarm_rate=0.2).fit(X, np.where(np.arange(len(X)) % 2, 1, -1))
    JointOCKSR(alarm_rate=0.2).fit(X, np.arange(len(X)))
    JointOCKSR(alarm_rate=0.2).fit(X, X[:, 0])
    JointOCKSR(alarm_rate=0.2).fit(X, task, task=task)
    assert not [w for w in recwarn if "task=" in str(w.message)]


@methods
def test_what_cannot_fit_into_memory_is_refused_before_it_is_asked_for(
    method, monkeypatch
):
    monkeypatch.setattr(kernel_module, "_LARGE", 30)
    monkeypatch.setattr("manyone.data.memory.available_bytes", lambda: 16.0 * 50**2 - 1)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    task = np.repeat([0, 1, 2], 40)
    if method().can.joint:
        with pytest.raises(
            NotEnoughMemory, match=r"120 rows .* GiB.*landmarks=.*IndependentOCKSR"
        ):
            method().fit(X, task=task)
    else:
        method().fit(X, task=task)  # the matrix of one task at a time
        with pytest.raises(MemoryError, match="landmarks="):
            method().fit(X)


def test_a_memory_error_of_numpy_says_what_to_do(fleet, monkeypatch):
    X, task = fleet

    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr("manyone.estimators.joint.solve_ridge", full)
    with pytest.raises(NotEnoughMemory, match="landmarks="):
        JointOCKSR().fit(X, task=task)
    monkeypatch.setattr("manyone.fitting.task_ridges.solve_ridge_stack", full)
    with pytest.raises(
        NotEnoughMemory, match=r"20 rows of one task .*SparseOCKSR\)\.$"
    ):
        IndependentOCKSR().fit(X, task=task)  # the largest task has 20 rows


@pytest.mark.parametrize("n_rows", [18, 19, 30, 60])
def test_more_rows_never_cost_a_selection_its_power(n_rows):
    """The smallest possible p-values follow from the batch, not alarm_rate."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(20), n_rows)
    centres = 3.0 * rng.normal(size=(20, 4))
    model = IndependentOCKSR().fit(
        centres[task] + rng.normal(size=(len(task), 4)), task=task
    )
    claim = np.arange(20).repeat(10)
    Z = centres[claim] + rng.normal(size=(200, 4))
    wrong = np.arange(200) % 10 == 0
    Z[wrong] += 10.0
    chosen = model.select(Z, task=claim, fdr=0.1)
    assert chosen[wrong].all() and chosen[~wrong].mean() < 0.05


@pytest.mark.slow
def test_the_choice_of_a_setting_does_not_depend_on_names_or_order():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(40), 60)
    X = rng.normal(size=(2400, 6)) + 1.2 * rng.normal(size=(40, 6))[task]
    grid = {"alpha": [1e-3, 0.03, 1.0], "kernel": ["rbf", "laplacian"]}
    first = tune(JointOCKSR(), X, task=task, grid=grid, calibrate=False)
    order = rng.permutation(len(X))
    names = rng.permutation(40)
    second = tune(
        JointOCKSR(), X[order], task=names[task][order], grid=grid, calibrate=False
    )
    np.testing.assert_allclose(
        first.tuning_["score"], second.tuning_["score"], atol=1e-9
    )
    assert (first.alpha, first.kernel) == (second.alpha, second.kernel)
    assert set(first.tuning_["tasks"]) == {40} and first.tuning_["rows"][0] >= 1000


def test_what_was_learned_is_read_only():
    rng = np.random.default_rng(0)
    model = JointOCKSR().fit(rng.normal(size=(20, 3)), task=["a", "b"] * 10)
    for name in ("dual_coef_", "mean_response_", "structure_"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(model, name)[:] = 0.0
