"""Inputs that break numerical code, for every method, with all flags raised.

Not only "does not crash": offsets and scores are finite, normal rows are more normal
than rows far away, p-values are p-values and agree with the alarms, inputs are left
alone, and whatever has an equivalent benign input gives the same answer as that.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from every_method import EVERY_METHOD, PAIR, methods, parameters
from manyone import (
    CalibrationWarning,
    CombinedOneClass,
    IndependentOCKSR,
    JointOCKSR,
    MultiTaskOneClassSVM,
    NonlinearOCKSR,
    SparseOCKSR,
    TaskWhitener,
    tune,
)
from manyone.estimators import METHODS
from manyone.kernels import KERNELS

#: Methods that solve one small problem per task, whatever the number of tasks.
BLOCKWISE = {"OCKSR", "SVDD"}


@contextmanager
def strict():
    """Every floating-point flag is an error, and so is every RuntimeWarning."""
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", CalibrationWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings(
            "ignore", message="X (does not have|has) .*feature names"
        )
        yield


@pytest.fixture(autouse=True)
def _strict():
    with strict():
        yield


# Few iterations of two layers: rounding has no time to grow, and hard inputs are as
# hard. Others are set to what makes the claims of this file theirs.
SHORT = {
    "NonlinearOCKSR": {"max_iter": 5},
    "SparseOCKSR": {"max_iter": 0},
    "MORVR": {"tol": 1e-12},
    "KNFST": {
        "origin": True
    },  # without it, rows far from all tasks are near all of them
}


def make(method, **params):
    known = parameters(method)
    params = {**SHORT.get(method.__name__, {}), **params}
    if "alpha" in params and "alpha" not in known:
        pytest.skip("this method has no alpha")
    return method(**{name: value for name, value in params.items() if name in known})


def blobs(n=12, d=3, tasks=2, seed=0, apart=3.0):
    rng = np.random.default_rng(seed)
    task = np.repeat([f"t{i}" for i in range(tasks)], n)
    return rng.normal(size=(n * tasks, d)) + apart * np.repeat(
        np.eye(tasks, d), n, axis=0
    ), task


def far_from(X: np.ndarray) -> np.ndarray:
    """A row well outside the box of the data, in units of that box."""
    X = np.asarray(X, dtype=float)
    with np.errstate(under="ignore"):
        low = X.min(axis=0)
        high = X.max(axis=0)
        reach = np.max(high / 2 - low / 2)
        step = reach if reach > 0 else max(1.0, np.abs(X).max())
        # Within the range of float64 there may be less room than 40 boxes.
        room = np.min(1.79e308 - np.maximum(high, 0.0))
        return high + (40.0 * step if step < room / 40.0 else room)


def assert_healthy(model, X, task, *, normal=None, far=True):
    """What must hold after any fit that was not refused."""
    normal = np.ones(len(task), dtype=bool) if normal is None else normal
    X = X[np.flatnonzero(normal)]
    task = [name for name, ok in zip(task, normal, strict=True) if ok]
    codes = np.array([model.tasks_.tolist().index(name) for name in task])
    scores = model.score_samples(X, task=task)
    assert np.all(np.isfinite(scores))
    assert np.all(scores <= 0) or isinstance(
        model, MultiTaskOneClassSVM
    )  # a signed margin
    assert model.offset_.shape == (len(model.tasks_),)
    assert np.all(np.isfinite(model.offset_))
    p = model.pvalues(X, task=task)
    assert np.all((p > 0) & (p <= 1))
    predicted = model.predict(X, task=task)
    assert np.array_equal(predicted == -1, p <= model.alarm_rate_[codes])
    table = model.score_tasks(X)
    assert table.shape == (len(codes), len(model.tasks_))
    assert np.all(np.isfinite(table))
    np.testing.assert_allclose(
        table[np.arange(len(codes)), codes], scores, rtol=1e-8, atol=1e-10
    )
    one_sided = isinstance(model, MultiTaskOneClassSVM) and not model.kernel_.fading
    if far and not one_sided:
        alien = np.vstack([far_from(X)] * len(model.tasks_))
        outside = model.score_samples(alien, task=list(model.tasks_))
        assert np.all(np.isfinite(outside))
        for code in range(len(model.tasks_)):
            if np.any(codes == code):
                assert np.median(scores[codes == code]) > outside[code]
    return scores


@dataclass
class Case:
    """A hard input and, where there is one, an easy input that means the same."""

    X: Any
    task: Any = None
    params: dict[str, Any] = field(default_factory=dict)
    fit: dict[str, Any] = field(default_factory=dict)
    twin: np.ndarray | None = None
    twin_params: dict[str, Any] | None = None
    far: bool = True
    tol: float = 1e-9


CASES: dict[str, Callable[[], Case]] = {}


def case(function):
    CASES[function.__name__] = function
    return function


# --------------------------------------------------------------------------- few, equal


@case
def one_row():
    return Case(np.array([[0.3, -2.0]]), ["a"])


@case
def one_value():
    return Case(np.array([[0.0]]), ["a"])


@case
def two_rows():
    return Case(np.array([[0.3, -2.0], [1.0, 1.0]]), ["a", "a"])


@case
def two_equal_rows():
    return Case(np.array([[0.3, -2.0]] * 2), ["a", "a"])


@case
def every_task_one_row():
    X, _ = blobs(1, tasks=5, d=5)
    return Case(X, list("abcde"))


@case
def one_task_of_one_row():
    X, task = blobs()
    task = task.astype(object)
    task[3] = "alone"
    return Case(X, task)


@case
def one_feature():
    X, task = blobs(d=1)
    return Case(X, task)


@case
def more_features_than_rows():
    X, task = blobs(n=3, d=400)
    return Case(X, task)


@case
def constant_feature():
    X, task = blobs()
    return Case(np.column_stack([X, np.full(len(X), 7.0)]), task, twin=X)


@case
def all_features_constant():
    X, task = blobs()
    return Case(np.ones_like(X), task)


@case
def all_zero():
    X, task = blobs()
    return Case(np.zeros_like(X), task)


@case
def each_task_constant():
    X, task = blobs()
    return Case(np.where(task[:, None] == "t0", 1.0, -1.0) * np.ones_like(X), task)


@case
def everything_twice():
    X, task = blobs()
    return Case(np.vstack([X, X]), np.r_[task, task])


@case
def duplicates_across_tasks():
    X, task = blobs()
    X[12:15] = X[0:3]
    return Case(X, task)


@case
def one_row_a_hundred_times():
    X, task = blobs()
    return Case(
        np.vstack([X, np.repeat(X[:1], 100, axis=0)]), np.r_[task, ["t0"] * 100]
    )


@case
def nearly_equal_rows():
    X, task = blobs()
    return Case(1.0 + 1e-15 * np.round(X), task, far=False)


@case
def integer_grid():
    X, task = blobs()
    return Case(np.round(X), task)


# ------------------------------------------------------------------------ scale, offset


def _scaled(factor: float, **params):
    def build():
        X, task = blobs()
        with np.errstate(under="ignore"):
            return Case(X * factor, task, params=params, twin=X)

    return build


for _factor in (1e150, 1e-150, 1e300, 1e-300):
    for _kernel in ("rbf", "laplacian", "rbf+laplacian"):
        CASES[f"scale_{_factor:g}_{_kernel}"] = _scaled(_factor, kernel=_kernel)
for _gamma in ("median", "scale"):
    CASES[f"scale_1e150_{_gamma}"] = _scaled(1e150, gamma=_gamma)
    CASES[f"scale_1e-150_{_gamma}"] = _scaled(1e-150, gamma=_gamma)
for _kernel in ("poly", "cosine"):
    CASES[f"scale_1e150_{_kernel}"] = _scaled(1e150, kernel=_kernel)
    CASES[f"scale_1e-150_{_kernel}"] = _scaled(1e-150, kernel=_kernel)
CASES["scale_1e150_whitened"] = _scaled(1e150, metric="whitened")
CASES["scale_1e-150_whitened"] = _scaled(1e-150, metric="whitened")


@case
def largest_floats():
    X, task = blobs()
    return Case(X / np.abs(X).max() * 1.7e308, task, twin=X)


@case
def subnormals():
    X, task = blobs()
    # Multiples of the smallest float, so that nothing is lost against the twin.
    steps = np.round(X * 1e6)
    with np.errstate(under="ignore"):
        return Case(steps * 5e-324, task, twin=steps)


@case
def mixed_scales():
    X, task = blobs()
    # Next to 1e150, columns of size 1 and 1e-150 do not count.
    return Case(X * [1e150, 1.0, 1e-150], task, twin=X[:, :1])


@case
def one_wild_row():
    X, task = blobs()
    X[0] = 1e12
    return Case(X, task, far=False)


def _shifted(kernel, offset, tol=1e-6, **params):
    def build():
        X, task = blobs()
        X = np.round(X * 2**10) / 2**10  # exact after the shift
        return Case(
            X + offset, task, params={"kernel": kernel, **params}, twin=X, tol=tol
        )

    return build


for _kernel in ("rbf", "laplacian", "rbf+laplacian"):
    CASES[f"huge_offset_{_kernel}"] = _shifted(_kernel, 1e8)
CASES["huge_offset_scale"] = _shifted("rbf", 1e8, gamma="scale")
CASES["huge_offset_median"] = _shifted("rbf", 1e8, gamma="median")
CASES["huge_offset_fixed_gamma"] = _shifted("rbf", 1e8, gamma=0.5)
# Means of values near 1e8 are rounded to 1e-8. Tail values of combinations are steep:
# they make some tens of times as much of the scores' differences.
CASES["huge_offset_whitened"] = _shifted("rbf", 1e8, tol=1e-5, metric="whitened")


# --------------------------------------------------------------------------- parameters


def _with(far=True, twin_params=None, **params):
    def build():
        X, task = blobs()
        twin = X if twin_params is not None else None
        return Case(
            X,
            task,
            params=params,
            far=far,
            twin=twin,
            twin_params=twin_params,
            tol=1e-6,
        )

    return build


CASES["alpha_0"] = _with(alpha=0)
CASES["alpha_1e-300"] = _with(alpha=1e-300, twin_params={"alpha": 0})
CASES["alpha_5e-324"] = _with(alpha=5e-324, twin_params={"alpha": 0})
CASES["alpha_1e300"] = _with(alpha=1e300)
CASES["alpha_largest"] = _with(alpha=1.7e308, twin_params={"alpha": 1e300})
CASES["gamma_1e-300"] = _with(gamma=1e-300, far=False)
CASES["gamma_5e-324"] = _with(gamma=5e-324, far=False)
CASES["gamma_1e300"] = _with(gamma=1e300)
CASES["gamma_largest"] = _with(gamma=1.7e308, twin_params={"gamma": 1e300})
CASES["width_1e300"] = _with(width=1e300, far=False)
CASES["width_1e-300"] = _with(width=1e-300, twin_params={"gamma": 1e300})
CASES["laplacian_gamma_1e300"] = _with(kernel="laplacian", gamma=1e300)
CASES["alarm_rate_1e-12"] = _with(alarm_rate=1e-12)
CASES["alarm_rate_1e-300"] = _with(alarm_rate=1e-300, twin_params={"alarm_rate": 1e-12})
CASES["alarm_rate_5e-324"] = _with(alarm_rate=5e-324, twin_params={"alarm_rate": 1e-12})
CASES["alarm_rate_almost_1"] = _with(alarm_rate=1 - 1e-16)
CASES["whitened"] = _with(metric="whitened")


@case
def alpha_0_singular():
    X, task = blobs()
    return Case(np.vstack([X, X]), np.r_[task, task], params={"alpha": 0})


@case
def whitened_constant():
    X, task = blobs()
    return Case(np.ones_like(X), task, params={"metric": "whitened"})


# ------------------------------------------------------------------------------ weights


def _weighted(weight, **extra):
    def build():
        X, task = blobs()
        value = weight(np.random.default_rng(0), len(X), task)
        return Case(X, task, fit={"sample_weight": value}, **extra)

    return build


CASES["weight_fractional"] = _weighted(lambda rng, n, task: rng.uniform(0.01, 3.0, n))
CASES["weight_1e-3"] = _weighted(lambda rng, n, task: np.full(n, 1e-3))
CASES["weight_1e-20"] = _weighted(lambda rng, n, task: np.full(n, 1e-20))
CASES["weight_1e-300"] = _weighted(lambda rng, n, task: np.full(n, 1e-300))
CASES["weight_1e6"] = _weighted(lambda rng, n, task: np.full(n, 1e6))
CASES["weight_1e300"] = _weighted(lambda rng, n, task: np.full(n, 1e300))
CASES["weight_1e-10_to_1e10"] = _weighted(
    lambda rng, n, task: 10.0 ** rng.uniform(-10, 10, n)
)
CASES["weight_one_task_huge"] = _weighted(
    lambda rng, n, task: np.where(task == "t0", 1e17, 1.0)
)


# --------------------------------------------------------------------------- the checks


@methods
@pytest.mark.parametrize("name", list(CASES))
def test_hard_input(method, name):
    hard = CASES[name]()
    X = hard.X
    task = list(hard.task)
    before = X.copy()
    model = make(method, **hard.params).fit(X, task=task, **hard.fit)
    scores = assert_healthy(model, X, task, far=hard.far)
    np.testing.assert_array_equal(X, before)
    if hard.twin is not None:
        easy = make(method, **(hard.twin_params or hard.params))
        easy.fit(hard.twin, task=task, **hard.fit)
        np.testing.assert_allclose(
            scores,
            easy.score_samples(hard.twin, task=task),
            rtol=hard.tol,
            atol=hard.tol,
        )
        np.testing.assert_allclose(
            # Iterations of refits may end a little apart.
            model.offset_,
            easy.offset_,
            rtol=max(hard.tol, 1e-5),
            atol=max(hard.tol, 1e-5),
        )


@methods
@pytest.mark.parametrize("n", [2, 5, 20, 70, 150])
@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1.0])
def test_a_constant_task_does_not_alarm_on_its_own_value(method, n, alpha):
    """A machine that always reports one vector is normal when it does again."""
    values = np.random.default_rng(n).normal(size=(4, 3))
    X = np.repeat(values, n, axis=0)
    task = np.repeat(list("abcd"), n)
    model = make(method, alpha=alpha).fit(X, task=task)
    assert np.all(model.predict(values, task=list("abcd")) == 1)
    assert np.all(model.pvalues(values, task=list("abcd")) == 1)
    assert np.all(model.predict(X, task=task) == 1)
    alone = make(method, alpha=alpha).fit(X[:n])
    assert np.all(alone.predict(X[:n]) == 1)


@methods
def test_tasks_far_apart_keep_their_inner_distances(method):
    """Tasks of unit size at +1e8 and -1e8 do not drown in their distance."""
    X, task = blobs(n=15, apart=0.0)
    X = np.round(X * 2**10) / 2**10
    away = np.where(task == "t0", 1e8, -1e8)[:, None]
    params = {"gamma": 0.5, "alarm_rate": 0.2}
    if method in (NonlinearOCKSR, SparseOCKSR):
        # A learned first layer, and a theta that follows the data, let such tasks see
        # each other.
        params |= {"max_iter": 0, "theta": 10.0}
    model = make(method, **params).fit(X + away, task=task)
    # At a millionth of that distance the kernel between the tasks is zero too.
    near = X + away / 2**20
    same = make(method, **params).fit(near, task=task)
    np.testing.assert_allclose(
        model.score_samples(X + away, task=task),
        same.score_samples(near, task=task),
        atol=1e-6,
    )


@methods
def test_one_heavy_task_leaves_the_counts_of_others_alone(method):
    X, task = blobs(n=30)
    weight = np.where(task == "t0", 1e17, 1.0)
    model = make(method, alarm_rate=0.1).fit(X, task=task, sample_weight=weight)
    np.testing.assert_allclose(model.calibration_.counts, [30e17, 30.0])
    assert model.alarm_rate_[1] == 0.1


@pytest.mark.slow
@methods
@pytest.mark.parametrize("rate", [1 - 1e-16, 1 - 1e-12])
def test_a_rate_of_almost_one_alarms_on_almost_all(method, rate):
    X, task = blobs(n=20)
    for seed in range(20):
        weight = np.random.default_rng(seed).uniform(0.1, 3.0, len(X))
        model = make(method, alarm_rate=rate).fit(X, task=task, sample_weight=weight)
        # Only rows at least as normal as every left-out row are no alarm.
        best = [
            model.calibration_.scores[:20].max(),
            model.calibration_.scores[20:].max(),
        ]
        np.testing.assert_allclose(model.offset_, best)


# -------------------------------------------------------------------- rows to be scored


@pytest.mark.slow
@methods
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "rbf+laplacian"])
@pytest.mark.parametrize("value", [1e8, 1e150, 1e200, 1e300, 1.7e308])
def test_rows_infinitely_far_away_are_abnormal(method, kernel, value):
    X, task = blobs()
    model = make(method, kernel=kernel, alarm_rate=0.3).fit(X, task=task)
    alien = np.array([[value, 0, 0], [-value, value, value]])
    limit = model.score_samples(np.full((2, 3), 1e6), task=["t0", "t1"])
    np.testing.assert_allclose(
        model.score_samples(alien, task=["t0", "t1"]), limit, rtol=1e-9
    )
    assert np.all(model.predict_task(alien) == np.array([None, None]))


@pytest.mark.parametrize("method", [JointOCKSR, IndependentOCKSR])
def test_enrolling_rows_infinitely_far_away(method):
    """The model is that of a fit to all rows."""
    X, task = blobs()
    far = np.array([[1e300, 0, 0], [1e300, -1e300, 1e300]])
    model = method().fit(X, task=task).enroll(far, task=["new", "new"])
    whole = method().fit(np.vstack([X, far]), task=[*task, "new", "new"])
    np.testing.assert_array_equal(model.score_tasks(X), whole.score_tasks(X))
    np.testing.assert_array_equal(model.offset_, whole.offset_)


@methods
def test_scoring_subnormal_rows_of_an_ordinary_model(method):
    for metric in ("plain", "whitened"):
        X, task = blobs()
        model = make(method, metric=metric).fit(X, task=task)
        tiny = model.score_samples(np.full((2, 3), 5e-324), task=["t0", "t1"])
        zero = model.score_samples(np.zeros((2, 3)), task=["t0", "t1"])
        np.testing.assert_allclose(tiny, zero, rtol=1e-12)


@methods
def test_held_out_calibration_on_a_single_point(method):
    X, task = blobs()
    model = make(method, alarm_rate=0.1).fit(X, task=task)
    same = np.repeat(X[:1], 30, axis=0)
    model.calibrate(same, task=["t0"] * 30)
    assert np.all(model.predict(same, task=["t0"] * 30) == 1)
    assert np.all(np.isfinite(model.offset_))


# -------------------------------------------------------------------- containers, types

CONTAINERS: dict[str, Callable[[np.ndarray], Any]] = {
    "list": lambda X: X.tolist(),
    "fortran": np.asfortranarray,
    "non_contiguous": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda X: X[::-1].copy()[::-1],
    "big_endian": lambda X: X.astype(">f8"),
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.astype(np.float16),
    "longdouble": lambda X: X.astype(np.longdouble),
    "int64": lambda X: X.astype(np.int64),
    "int8": lambda X: X.astype(np.int8),
    "uint8": lambda X: X.astype(np.uint8),
    "bool": lambda X: X.astype(bool),
    "object": lambda X: X.astype(object),
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "csr_matrix": sparse.csr_matrix,
    "int_csr": lambda X: sparse.csr_array(X.astype(np.int64)),
    "pandas": lambda X: pd.DataFrame(X, columns=list("abc")),
    "pandas_nullable": lambda X: pd.DataFrame(X, columns=list("abc")).convert_dtypes(),
    "pandas_strange_index": lambda X: pd.DataFrame(
        X, columns=list("abc"), index=[5] * len(X)
    ),
    "polars": lambda X: pl.DataFrame(X, schema=list("abc")),
    "pyarrow": lambda X: pa.table({name: X[:, i] for i, name in enumerate("abc")}),
}


@methods
@pytest.mark.parametrize("name", list(CONTAINERS))
def test_container(method, name):
    """Small integers are the same numbers in every type."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2 if name == "bool" else 9, size=(24, 3)).astype(float)
    task = np.repeat(["a", "b"], 12)
    wrapped = CONTAINERS[name](X)
    model = make(method).fit(wrapped, task=task)
    plain = make(method).fit(X, task=task)
    expected = plain.score_samples(X, task=task)
    np.testing.assert_allclose(model.offset_, plain.offset_, rtol=1e-9, atol=1e-10)
    for fitted, rows in ((model, wrapped), (model, X), (plain, wrapped)):
        scores = fitted.score_samples(rows, task=task)
        np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-10)
        assert scores.dtype == np.float64


@methods
def test_read_only_memory_map(method, tmp_path):
    X, task = blobs()
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    weight = np.ones(len(X))
    weight.flags.writeable = False
    model = make(method).fit(mapped, task=task, sample_weight=weight)
    expected = make(method).fit(X, task=task)
    np.testing.assert_array_equal(
        model.score_samples(mapped, task=task), expected.score_samples(X, task=task)
    )


@methods
@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_inputs_are_left_alone(method, kernel):
    X, task = blobs()
    X = X @ X.T if kernel == "precomputed" else X
    task = task.astype(object)
    outlier = np.zeros(len(X), dtype=bool)
    outlier[-1] = True
    weight = np.linspace(0.0, 2.0, len(X))
    kept = [part.copy() for part in (X, task, outlier, weight)]
    model = make(method, kernel=kernel)
    model.fit(X, task=task, outlier=outlier, sample_weight=weight)
    model.score_samples(X, task=task)
    model.score_tasks(X)
    model.pvalues(X, task=task)
    model.calibrate(X, task=task, sample_weight=weight)
    for part, copy in zip((X, task, outlier, weight), kept, strict=True):
        np.testing.assert_array_equal(part, copy)


@methods
def test_float32_scores_are_those_of_the_same_numbers(method):
    X, task = blobs(d=5)
    X32 = (X + 1e3).astype(np.float32)
    model = make(method).fit(X32, task=task)
    for rows in (X32, X32.astype(np.float64)):
        np.testing.assert_allclose(
            model.score_samples(rows, task=task),
            make(method)
            .fit(X32.astype(float), task=task)
            .score_samples(rows, task=task),
            rtol=1e-12,
            atol=1e-13,
        )


@methods
@pytest.mark.parametrize("factor", [1e150, 1e-150])
def test_sparse_rows_of_extreme_scale(method, factor):
    X, task = blobs()
    X[X < 0.3] = 0.0
    scaled = sparse.csr_array(X * factor)
    expected = make(method).fit(X, task=task).score_samples(X, task=task)
    model = make(method).fit(scaled, task=task)
    np.testing.assert_allclose(
        model.score_samples(scaled, task=task), expected, atol=1e-9
    )


@methods
def test_an_all_zero_sparse_matrix(method):
    X = sparse.csr_array((20, 3))
    model = make(method).fit(X, task=["a", "b"] * 10)
    assert np.all(np.isfinite(model.score_samples(X, task=["a", "b"] * 10)))


# ------------------------------------------------------------------------------- labels

LABELS: dict[str, Callable[[], Any]] = {
    "int": lambda: [3, -7],
    "zero_and_minus_one": lambda: [-1, 0],
    "bool": lambda: [False, True],
    "float": lambda: [0.5, float("inf")],
    "bytes": lambda: np.array([b"a", b"b"]),
    "non_ascii": lambda: ["Żółć", "日本語 🦀"],
    "empty_string": lambda: ["", " "],
    "newlines": lambda: ["a\nb", "a\tb"],
    "long": lambda: ["x" * 10_000, "x" * 9_999],
    "tuple": lambda: [("a", 1), ("a", 2)],
    "tuple_uneven": lambda: [("a",), ("a", "b")],
    "mixed": lambda: ["a", 1],
    "mixed_many": lambda: [("a", 1), 2.5],
    "frozenset": lambda: [frozenset([1]), frozenset([2])],
    "timestamp": lambda: [pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-02")],
    "datetime64": lambda: np.array(["2024-01-01", "2024-01-02"], dtype="M8[ns]"),
    "uint64": lambda: np.array([2**63 + 5, 2**63 + 6], dtype=np.uint64),
    "huge_int": lambda: [2**70, 2**70 + 1],
    "int_beyond_float": lambda: [2**63 + 5, -1],
    "trailing_nul": lambda: ["a", "a\0"],
    "numpy_str": lambda: [np.str_("a"), np.str_("b")],
    "int8": lambda: np.array([-100, 100], dtype=np.int8),
}


@methods
@pytest.mark.parametrize("name", list(LABELS))
def test_labels(method, name):
    """Any hashable label is a task of its own, and comes back as it was given."""
    pair = LABELS[name]()
    X, plain = blobs(n=12, apart=6.0)
    which = (plain == "t1").astype(int)
    task = pair[which] if isinstance(pair, np.ndarray) else [pair[i] for i in which]
    expected = make(method, alarm_rate=0.2).fit(X, task=plain)
    model = make(method, alarm_rate=0.2).fit(X, task=task)
    assert len(model.tasks_) == 2
    np.testing.assert_allclose(
        model.score_samples(X, task=task),
        expected.score_samples(X, task=plain),
        atol=1e-9,
    )
    found = model.predict_task(X)
    accepted = expected.predict_task(X)
    for label, name_of in zip(found, accepted, strict=True):
        if name_of is None:
            assert label is None or label == -1
        else:
            assert label == pair[["t0", "t1"].index(name_of)]
    model.forget(model.tasks_.tolist()[0])
    assert len(model.tasks_) == 1


COLUMNS: dict[str, Callable[[np.ndarray], Any]] = {
    "pandas_object": lambda task: pd.Series(task, dtype=object),
    "pandas_string": lambda task: pd.Series(task, dtype="string"),
    "pandas_str": lambda task: pd.Series(task),
    "pandas_categorical": lambda task: pd.Series(
        pd.Categorical(task, categories=["t1", "t0", "?"])
    ),
    "pandas_index": lambda task: pd.Index(task),
    "pandas_shuffled_index": lambda task: pd.Series(
        task, index=np.arange(len(task))[::-1]
    ),
    "polars": lambda task: pl.Series(task),
    "polars_categorical": lambda task: pl.Series(task, dtype=pl.Categorical),
    "pyarrow_chunked": lambda task: pa.chunked_array([pa.array(task)]),
    "pyarrow_array": lambda task: pa.array(task),
    "tuple": tuple,
    "list": list,
}


@methods
@pytest.mark.parametrize("name", list(COLUMNS))
def test_columns_of_labels(method, name):
    X, task = blobs()
    expected = make(method).fit(X, task=task)
    model = make(method).fit(X, task=COLUMNS[name](task))
    assert model.tasks_.tolist() == ["t0", "t1"]
    for labels in (task, COLUMNS[name](task)):
        np.testing.assert_array_equal(
            model.score_samples(X, task=labels), expected.score_samples(X, task=task)
        )


@methods
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_with_task_and_outlier_columns(method, frame):
    X, task = blobs()
    outlier = np.zeros(len(X), dtype=bool)
    outlier[[0, 13]] = True
    table = frame(
        {"a": X[:, 0], "task": task, "b": X[:, 1], "bad": outlier, "c": X[:, 2]}
    )
    expected = make(method).fit(X, task=task, outlier=outlier)
    model = make(method).fit(table, task="task", outlier="bad")
    np.testing.assert_allclose(model.offset_, expected.offset_, atol=1e-12)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    predicted = make(method).fit_predict(table, task="task", outlier="bad")
    np.testing.assert_array_equal(predicted, expected.predict(X, task=task))


@methods
def test_pandas_with_missing_tasks_of_outliers(method):
    X, task = blobs()
    for missing in (None, np.nan, pd.NA, pd.NaT):
        labels = task.astype(object)
        labels[[2, 15]] = missing
        outlier = np.isin(np.arange(len(X)), [2, 15])
        table = pd.DataFrame(X, columns=list("abc")).assign(
            task=pd.Series(labels, dtype=object)
        )
        model = make(method).fit(table, task="task", outlier=outlier)
        assert model.tasks_.tolist() == ["t0", "t1"]
        assert_healthy(model, X[~outlier], task[~outlier])


# ----------------------------------------------------------------------------- outliers


@methods
def test_outliers_of_a_task_push_it_away(method):
    X, task = blobs(n=15)
    bad = np.full((6, 3), 2.0) + 0.1 * np.random.default_rng(1).normal(size=(6, 3))
    plain = make(method).fit(X, task=task)
    names = ["t0"] * 6
    model = make(method).fit(
        np.vstack([X, bad]),
        task=np.r_[task, names],
        outlier=np.r_[np.zeros(30), np.ones(6)],
    )
    normal = np.r_[np.ones(30, dtype=bool), np.zeros(6, dtype=bool)]
    assert_healthy(model, np.vstack([X, bad]), np.r_[task, names], normal=normal)
    spot = [[2.0, 2.0, 2.0]]
    assert model.score_samples(spot, task=["t0"]) < plain.score_samples(
        spot, task=["t0"]
    )


@methods
def test_outliers_without_a_task_push_all_away(method):
    X, task = blobs(n=15)
    bad = np.full((6, 3), 2.0) + 0.1 * np.random.default_rng(1).normal(size=(6, 3))
    plain = make(method).fit(X, task=task)
    model = make(method).fit(
        np.vstack([X, bad]),
        task=[*task, *[None] * 6],
        outlier=np.r_[np.zeros(30), np.ones(6)],
    )
    assert_healthy(model, X, task)
    spot = [[2.0, 2.0, 2.0]]
    assert np.all(model.score_tasks(spot) < plain.score_tasks(spot))


@methods
def test_a_single_task_with_outliers(method):
    X, _ = blobs(n=20, tasks=1)
    bad = np.full((5, 3), 2.5)
    model = make(method).fit(np.vstack([X, bad]), outlier=[False] * 20 + [True] * 5)
    scores = model.score_samples(np.vstack([X, bad]))
    assert np.median(scores[:20]) > scores[20:].max()
    missing = make(method).fit(
        np.vstack([X, bad]),
        task=["a"] * 20 + [None] * 5,
        outlier=[False] * 20 + [True] * 5,
    )
    np.testing.assert_allclose(missing.score_samples(X), scores[:20], atol=1e-9)


@methods
def test_an_outlier_equal_to_a_normal_row(method):
    X, task = blobs()
    model = make(method).fit(
        np.vstack([X, X[:1]]), task=[*task, "t0"], outlier=[False] * len(X) + [True]
    )
    assert_healthy(model, X, task)


@methods
def test_more_outliers_than_normal_rows(method):
    X, task = blobs(n=2)
    bad = 5.0 + np.random.default_rng(0).normal(size=(60, 3))
    model = make(method).fit(
        np.vstack([X, bad]),
        task=[*task, *[None] * 60],
        outlier=[False] * 4 + [True] * 60,
    )
    assert_healthy(model, X, task)


@methods
def test_a_task_of_outliers_alone_is_refused(method):
    X, task = blobs()
    with pytest.raises(ValueError, match=r"t1.*normal"):
        make(method).fit(X, task=task, outlier=task == "t1")
    with pytest.raises(ValueError, match="normal"):
        make(method).fit(X, outlier=np.ones(len(X), dtype=bool))


# ------------------------------------------------------------------------ many, kernels


@pytest.mark.slow
@methods
def test_very_many_tasks(method, request):
    tasks = 10_000 if request.node.callspec.id in BLOCKWISE else 150
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(tasks, 3))
    task = np.repeat(np.arange(tasks), 2)
    X = centres[task] + 0.1 * rng.normal(size=(2 * tasks, 3))
    model = make(method).fit(X, task=task)
    scores = model.score_samples(X, task=task)
    assert np.all(np.isfinite(scores))
    assert np.all(np.isfinite(model.offset_))
    rows = rng.permutation(len(X))[:200]
    wrong = model.score_samples(X[rows], task=(task[rows] + tasks // 2) % tasks)
    assert np.mean(scores[rows] > wrong) > 0.9
    np.testing.assert_allclose(
        model.score_tasks(X[rows[:3]])[np.arange(3), task[rows[:3]]],
        scores[rows[:3]],
        atol=1e-9,
    )


@pytest.mark.slow
@methods
@pytest.mark.parametrize("kernel", sorted(KERNELS - {"precomputed"}))
@pytest.mark.parametrize("gamma", ["mean", "median", "scale", 0.2])
def test_every_kernel(method, kernel, gamma):
    """On positive rows, with a ridge that makes up for indefinite kernels."""
    X, task = blobs(apart=1.0)
    X = np.abs(X) + 0.1
    indefinite = kernel in ("sigmoid", "additive_chi2")
    params = {"kernel": kernel, "gamma": gamma}
    if indefinite and "alpha" in parameters(method):
        params["alpha"] = 500.0
    model = make(method, **params).fit(X, task=task)
    assert_healthy(model, X, task, far=False)
    if method is PAIR and kernel == "cosine":
        return  # its values alone look like those of a kernel of a distance
    matrix = np.array([[_kernel_value(model, a, b) for b in X] for a in X])
    again = make(method, **{**params, "kernel": "precomputed"}).fit(matrix, task=task)
    np.testing.assert_allclose(
        again.score_samples(matrix, task=task),
        model.score_samples(X, task=task),
        rtol=1e-7,
        atol=1e-7,
    )


def _kernel_value(model, a, b) -> float:
    """Kernels as in text books, with the coefficient that the model reports."""
    model = (
        next(iter(model.views_.values()))
        if isinstance(model, CombinedOneClass)
        else model
    )
    gamma = model.gamma_
    name = model.kernel
    chi2 = -np.sum((a - b) ** 2 / (a + b))
    if name == "rbf+laplacian":
        rbf, laplacian = np.broadcast_to(gamma, 2)
        return 0.5 * (
            np.exp(-rbf * np.sum((a - b) ** 2))
            + np.exp(-laplacian * np.sum(np.abs(a - b)))
        )
    values = {
        "rbf": lambda: np.exp(-gamma * np.sum((a - b) ** 2)),
        "laplacian": lambda: np.exp(-gamma * np.sum(np.abs(a - b))),
        "chi2": lambda: np.exp(gamma * chi2),
        "additive_chi2": lambda: chi2,
        "linear": lambda: a @ b,
        "cosine": lambda: a @ b / np.sqrt((a @ a) * (b @ b)),
        "poly": lambda: (gamma * (a @ b) + 1) ** 3,
        "polynomial": lambda: (gamma * (a @ b) + 1) ** 3,
        "sigmoid": lambda: np.tanh(gamma * (a @ b) + 1),
    }
    return values[name]()


def _bent(a, b, power=1.0):
    return float(np.exp(-(np.sum(np.abs(a - b)) ** power)))


@methods
def test_callable_kernel_with_parameters(method):
    X, task = blobs()
    model = make(method, kernel=_bent, kernel_params={"power": 0.5}).fit(X, task=task)
    assert_healthy(model, X, task, far=False)
    matrix = np.exp(-np.sqrt(np.abs(X[:, None] - X).sum(axis=2)))
    expected = make(method, kernel="precomputed").fit(matrix, task=task)
    pairs = [(model, expected)]
    if hasattr(model, "views_"):
        # Rows of a matrix have another order of content, so ties of folds are dealt
        # otherwise, and tails of views differ. What the views score does not.
        pairs = zip(model.views_.values(), expected.views_.values(), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(
            one.score_samples(X, task=task),
            other.score_samples(matrix, task=task),
            rtol=1e-7,
            atol=1e-9,
        )


@methods
def test_a_kernel_that_returns_nan_is_refused(method):
    X, task = blobs()
    with pytest.raises(ValueError, match=r"(?i)kernel"):
        make(method, kernel=lambda a, b: np.nan).fit(X, task=task)


@methods
def test_a_fractional_degree_of_a_negative_number_is_refused(method):
    X, task = blobs()
    with pytest.raises(ValueError, match=r"degree|kernel"):
        make(method, kernel="poly", degree=2.5, coef0=0.0).fit(X, task=task)


@methods
@pytest.mark.parametrize("shape", ["diagonal", "spread", "negative_trace"])
def test_slightly_indefinite_kernel_matrix(method, shape):
    """Works where alpha exceeds the negative eigenvalue, else says so."""
    X, task = blobs()
    n = len(X)
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(n, n)))[0]
    values = {
        "diagonal": np.r_[np.linspace(0.1, 5.0, n - 1), -0.05],
        "spread": np.r_[np.full(n // 2, 2.0), np.full(n - n // 2, -0.05)],
        "negative_trace": np.r_[1.0, np.full(n - 1, -0.09)],
    }[shape]
    K = (Q * values) @ Q.T
    model = make(method, kernel="precomputed", alpha=0.2).fit(K, task=task)
    assert np.all(np.isfinite(model.score_samples(K, task=task)))
    for one in getattr(model, "views_", {"": model}).values():
        assert one.alpha_ == pytest.approx(0.2)
    with pytest.raises(ValueError, match=r"(?s)alpha.*larger|larger.*alpha"):
        make(method, kernel="precomputed", alpha=1e-3).fit(
            K - 0.5 * np.eye(n), task=task
        )


@methods
def test_singular_kernel_matrices(method):
    _, task = blobs()
    n = len(task)
    for K in (
        np.zeros((n, n)),
        np.ones((n, n)),
        np.outer(np.arange(n), np.arange(n)) * 1.0,
    ):
        model = make(method, kernel="precomputed").fit(K, task=task)
        assert np.all(np.isfinite(model.score_samples(K, task=task)))
        assert np.all(np.isfinite(model.offset_))


@methods
def test_a_ridge_is_the_ridge_that_was_asked_for(method):
    """Rows of one task in other units do not change the ridge of the others."""
    if method not in (METHODS["OCKSR"],):
        pytest.skip("tasks of this method share a ridge")
    X, task = blobs(n=15)
    X[task == "t0"] *= 1e10
    second = task == "t1"
    model = make(method, kernel="linear", alarm_rate=0.2).fit(X, task=task)
    alone = make(method, kernel="linear", alarm_rate=0.2).fit(X[second])
    np.testing.assert_allclose(
        model.score_samples(X[second], task=task[second]),
        alone.score_samples(X[second]),
        atol=1e-8,
    )


# -------------------------------------------------------------- landmarks, metric, tune


def _with_landmarks():
    return [m for m in EVERY_METHOD.values() if "landmarks" in parameters(m)]


@pytest.mark.slow
@pytest.mark.parametrize("method", _with_landmarks())
@pytest.mark.parametrize("m", [1, 3, 24, 1000])
@pytest.mark.parametrize(
    "name", ["plain", "equal", "zero_linear", "duplicates", "huge", "sparse"]
)
def test_landmarks(method, m, name):
    X, task = blobs()
    kernel = "rbf"
    if name == "equal":
        X = np.ones_like(X)
    elif name == "zero_linear":
        X = np.zeros_like(X)
        kernel = "linear"
    elif name == "duplicates":
        X[1:12] = X[0]
    elif name == "huge":
        X = X * 1e150
    rows = sparse.csr_array(X) if name == "sparse" else X
    params = {"kernel": kernel, "random_state": 0}
    model = make(method, landmarks=m, **params).fit(rows, task=task)
    scores = model.score_samples(rows, task=task)
    assert np.all(np.isfinite(scores))
    assert np.all(np.isfinite(model.offset_))
    if m >= len(X):
        exact = make(method, **params).fit(rows, task=task)
        np.testing.assert_allclose(
            scores, exact.score_samples(rows, task=task), atol=1e-6
        )
    again = make(method, landmarks=m, **params).fit(rows, task=task)
    np.testing.assert_array_equal(again.score_samples(rows, task=task), scores)


def test_landmarks_are_few_and_reported():
    X, task = blobs(n=40)
    model = JointOCKSR(landmarks=10, random_state=0).fit(X, task=task)
    assert model.X_fit_.shape == (10, 3)
    assert model.dual_coef_.shape == (10, 2)


@methods
def test_whitened_weights_are_repetition(method):
    X, task = blobs(n=15)
    weight = np.random.default_rng(0).integers(1, 4, len(X))
    a = make(method, metric="whitened").fit(X, task=task, sample_weight=weight)
    rows = np.repeat(np.arange(len(X)), weight)
    b = make(method, metric="whitened").fit(X[rows], task=task[rows])
    np.testing.assert_allclose(
        a.score_samples(X, task=task),
        b.score_samples(X, task=task),
        rtol=1e-8,
        atol=1e-9,
    )


@pytest.mark.parametrize("shrinkage", ["auto", 0.0, 1.0, 0.3])
@pytest.mark.parametrize(
    "X",
    [
        np.zeros((5, 3)),
        np.ones((1, 3)),
        np.eye(3),
        np.diag([1e150, 1.0, 1e-150]),
        np.arange(12.0).reshape(4, 3) * 1e300,
        np.arange(12.0).reshape(4, 3) * 1e-300,
        1e8 + np.arange(12.0).reshape(4, 3) ** 2,
    ],
    ids=["zero", "one_row", "eye", "mixed", "1e300", "1e-300", "offset"],
)
def test_whitener(shrinkage, X):
    Z = TaskWhitener(shrinkage=shrinkage).fit_transform(X)
    assert Z.shape == X.shape
    assert np.all(np.isfinite(Z))


@methods
@pytest.mark.parametrize(
    "name", ["plain", "equal", "one_row_tasks", "huge", "tiny", "outliers"]
)
def test_tune_on_hard_tables(method, name):
    if not method.can.left_out_grid:
        pytest.skip("this method cannot be tuned by closed forms")
    X, task = blobs(n=8, tasks=5, d=5)
    outlier = None
    if name == "equal":
        X = np.ones_like(X)
    elif name == "one_row_tasks":
        X = X[::8]
        task = task[::8]
    elif name == "huge":
        X = X * 1e150
    elif name == "tiny":
        X = X * 1e-150
    elif name == "outliers":
        outlier = np.arange(len(X)) % 8 == 0
    grid = {
        "kernel": ["rbf", "laplacian"],
        "alpha": [0.0, 0.1, 1e300],
        "metric": ["plain", "whitened"],
    }
    model = tune(make(method), X, task=task, outlier=outlier, grid=grid)
    assert np.all(np.isfinite(model.score_samples(X, task=task)))
    assert np.sum(model.tuning_["chosen"]) == 1
    chosen = model.tuning_["chosen"]
    assert model.tuning_["alpha"][chosen][0] == model.alpha
