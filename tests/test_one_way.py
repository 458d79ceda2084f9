"""One way through: model and thresholds are the same on every path of rows.

Every property is asked of every method of the registry that it can be asked of.
"""

import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, Event

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import manyone
from every_method import EVERY_METHOD, parameters
from fleets import gaussian_tasks
from manyone import tune
from manyone.data.rows import training_rows
from manyone.threads import blas_threads, one_blas_thread

SIZES = [12, 7, 20, 9, 12]
NAMES = np.array(["ada", "bea", "cleo", "dora", "eve"])


def make_fleet(n_rounds=1, seed=0):
    """Rows (n, 4) of five tasks of unlike size, and their tasks."""
    sizes = np.multiply(n_rounds, SIZES)
    rows, codes = gaussian_tasks(sizes, 4, apart=1.5, shuffled=True, seed=seed)
    return rows, NAMES[codes]


X, TASK = make_fleet()
# So many that landmarks are moved where they can be.
MANY, MANY_TASK = make_fleet(n_rounds=9)
NEW = np.vstack([make_fleet(seed=1)[0], 1e3 * np.eye(4)])
# Every third row again, in its own task.
TWICE = np.append(np.arange(len(X)), np.arange(0, len(X), 3))


def make_model(name, landmarks=None, **params):
    """An estimator by its name in the registry."""
    method = EVERY_METHOD[name]
    if landmarks is not None:
        params = {"landmarks": landmarks, "random_state": 0, **params}
    return method(**params)


LANDMARKS = [name for name, method in EVERY_METHOD.items() if method.can.landmarks]
UPDATES = list(EVERY_METHOD)
TUNED = [name for name in EVERY_METHOD if name != "combined"]


def over(names):
    """Parametrise by name."""
    return pytest.mark.parametrize("name", names)


def tolerance(name):
    """What rounding may do to scores of a method.

    Views of the combination differ by 4e-12. Its scores interpolate between left-out
    scores of views, and two of these may be a thousandth apart.
    """
    return 1e-8 if name == "combined" else 1e-9


def quietly(function, *args, **kwargs):
    """What a function returns, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def messages_of(function, *args, **kwargs):
    """Categories and texts of the warnings of a call, each once, sorted."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*args, **kwargs)
    return sorted({(each.category.__name__, str(each.message)) for each in caught})


def assert_same(model, reference, atol, rows=NEW):
    """Equal scores of all rows for all tasks, and equal thresholds."""
    # Scores of rows far from everything are in the hundreds: rounding grows with them.
    rounding = {"rtol": 1e-11, "atol": atol}
    scores = model.score_tasks(rows)
    np.testing.assert_allclose(scores, reference.score_tasks(rows), **rounding)
    np.testing.assert_allclose(model.offset_, reference.offset_, **rounding)


# -------------------------------------------------------------------- groups of one row


@over(list(EVERY_METHOD))
def test_groups_of_one_row_change_nothing(name):
    plain = quietly(make_model(name).fit, X, task=TASK)
    groups = np.arange(len(X))
    grouped = quietly(make_model(name).fit, X, task=TASK, groups=groups)
    assert_same(grouped, plain, 1e-9)


@over(LANDMARKS)
def test_groups_of_one_row_change_no_landmark_model(name):
    plain = quietly(make_model(name, 12).fit, MANY, task=MANY_TASK)
    groups = np.arange(len(MANY))
    grouped = quietly(make_model(name, 12).fit, MANY, task=MANY_TASK, groups=groups)
    assert_same(grouped, plain, 1e-9)


# ---------------------------------------------------------- thresholds or no thresholds


def assert_thresholds_change_no_score(model, rows, task):
    """`_fit_rows(calibrate=False)` scores as `fit` does."""
    fitted = quietly(model().fit, rows, task=task)
    bare = model()
    checked_rows, tasks, _ = training_rows(bare, rows, task)
    quietly(bare._fit_rows, checked_rows, tasks, calibrate=False)
    np.testing.assert_allclose(
        bare.score_tasks(NEW), fitted.score_tasks(NEW), rtol=1e-11, atol=1e-9
    )


@over(list(EVERY_METHOD))
def test_thresholds_change_no_score(name):
    assert_thresholds_change_no_score(partial(make_model, name), X, TASK)


@over(LANDMARKS)
def test_thresholds_change_no_score_of_landmarks(name):
    model = partial(make_model, name, 12)
    assert_thresholds_change_no_score(model, MANY, MANY_TASK)


@over(LANDMARKS)
def test_rows_are_not_judged_for_nothing(name, monkeypatch):
    """Without a rate only combinations make left-out scores, for their views."""
    fitted = quietly(make_model(name, 12).fit, MANY, task=MANY_TASK)

    def refuse(*given):
        raise AssertionError("a row was judged")

    monkeypatch.setattr("manyone.calibration.tails.Tails.known", refuse)
    monkeypatch.setattr("manyone.models.nearness.TrainingNearness.left_out", refuse)
    bare = make_model(name, 12, alarm_rate=None).fit(MANY, task=MANY_TASK)
    scores = bare.score_tasks(NEW)
    np.testing.assert_allclose(scores, fitted.score_tasks(NEW), rtol=1e-11, atol=1e-9)


def assert_tuned_alike(model, rows, task):
    """`tune` with `calibrate` false and true chooses models that score alike."""
    choose = partial(tune, model, rows, task=task, grid={"width": [1.0]})
    bare = quietly(choose, calibrate=False)
    fitted = quietly(choose, calibrate=True)
    np.testing.assert_allclose(
        bare.score_tasks(NEW), fitted.score_tasks(NEW), rtol=1e-11, atol=1e-9
    )


@over(TUNED)
def test_tuning_with_and_without_thresholds(name):
    assert_tuned_alike(make_model(name), X, TASK)


@over([name for name in TUNED if name in LANDMARKS])
def test_tuning_landmarks_with_and_without_thresholds(name):
    assert_tuned_alike(make_model(name, 12), MANY, MANY_TASK)


# ------------------------------------------------------------------- where the rows are


def cut_at_random(rows, task, seed):
    """Blocks of rows, cut at random places."""
    rng = np.random.default_rng(seed)
    cuts = np.unique(rng.integers(1, len(rows), 6))
    return lambda: zip(np.split(rows, cuts), np.split(task, cuts), strict=True)


@pytest.fixture(params=["whole", "sampled"])
def many_rows(request, monkeypatch):
    """Rows that fit into the sample of a fit by passes, or do not."""
    if request.param == "sampled":
        monkeypatch.setattr("manyone.fitting.plan._FEWEST", 100)
        monkeypatch.setattr("manyone.fitting.sources._ROWS", 64)
    return make_fleet(n_rounds=4)


@pytest.mark.parametrize("seed", [0, 1, 2])
@over(LANDMARKS)
def test_any_cut_into_blocks(name, seed, many_rows):
    reference = quietly(make_model(name, 25).fit, many_rows[0], task=many_rows[1])
    model = quietly(make_model(name, 25).fit, cut_at_random(*many_rows, seed))
    assert_same(model, reference, tolerance(name))


@over(LANDMARKS)
def test_parquet(name, many_rows, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rows, task = many_rows
    frame = pandas.DataFrame(rows, columns=list("abcd"))
    frame["who"] = task
    frame.to_parquet(tmp_path / "rows.parquet")
    reference = quietly(make_model(name, 25).fit, frame, task="who")
    model = quietly(
        make_model(name, 25).fit, str(tmp_path / "rows.parquet"), task="who"
    )
    assert_same(
        model, reference, tolerance(name), pandas.DataFrame(NEW, columns=list("abcd"))
    )


@over(LANDMARKS)
def test_dask(name, many_rows):
    dask = pytest.importorskip("dask")
    array = pytest.importorskip("dask.array")
    rows, task = many_rows
    reference = quietly(make_model(name, 25).fit, rows, task=task)
    with dask.config.set(scheduler="synchronous"):
        model = quietly(
            make_model(name, 25).fit, array.from_array(rows, chunks=(47, 4)), task=task
        )
    assert_same(model, reference, tolerance(name))


@over(LANDMARKS)
def test_all_rows_as_landmarks_are_the_exact_model(name):
    exact = quietly(make_model(name).fit, X, task=TASK)
    landmarks = quietly(make_model(name, len(X)).fit, X, task=TASK)
    assert_same(landmarks, exact, 1e-6)


# ------------------------------------------------------------------ warnings and copies


@over(LANDMARKS)
def test_warnings_of_all_paths(name):
    rows = X[TWICE] * [1e5, 1.0, 1.0, 1.0]
    task = TASK[TWICE]
    exact = messages_of(make_model(name).fit, rows, task=task)
    n = len(rows)
    assert {"CalibrationWarning"} < {category for category, _ in exact}
    assert messages_of(make_model(name, n).fit, rows, task=task) == exact
    assert messages_of(make_model(name, n).fit, cut_at_random(rows, task, 0)) == exact


@over(LANDMARKS)
def test_warnings_of_files_and_of_dask(name, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    dask = pytest.importorskip("dask")
    array = pytest.importorskip("dask.array")
    rows = X[TWICE] * [1e5, 1.0, 1.0, 1.0]
    task = TASK[TWICE]
    n = len(rows)
    frame = pandas.DataFrame(rows, columns=list("abcd")).assign(who=task)
    frame.to_parquet(tmp_path / "rows.parquet")
    file = str(tmp_path / "rows.parquet")
    of_frame = messages_of(make_model(name).fit, frame, task="who")
    assert messages_of(make_model(name, n).fit, file, task="who") == of_frame
    in_memory = messages_of(make_model(name).fit, rows, task=task)
    chunks = array.from_array(rows, chunks=(23, 4))
    with dask.config.set(scheduler="synchronous"):
        assert messages_of(make_model(name, n).fit, chunks, task=task) == in_memory


@over(list(EVERY_METHOD))
def test_copies_leave_alone_with_groups_and_without(name):
    rows = X[TWICE]
    task = TASK[TWICE]
    plain = quietly(make_model(name).fit, rows, task=task)
    groups = np.arange(len(rows))
    grouped = quietly(make_model(name).fit, rows, task=task, groups=groups)
    assert_same(grouped, plain, 1e-9)


@over(LANDMARKS)
def test_copies_on_all_paths(name):
    rows = X[TWICE]
    task = TASK[TWICE]
    n = len(rows)
    exact = quietly(make_model(name).fit, rows, task=task)
    in_memory = quietly(make_model(name, n).fit, rows, task=task)
    by_blocks = quietly(make_model(name, n).fit, cut_at_random(rows, task, 0))
    assert_same(by_blocks, in_memory, tolerance(name))
    assert_same(in_memory, exact, 1e-6)


# -------------------------------------------------------------------------- two threads


def assert_threads_do_not_disturb(model, n_rounds):
    """Two fits side by side give the bits of two fits one after the other."""
    data = [make_fleet(n_rounds, seed) for seed in (0, 2)]
    barrier = Barrier(2)

    def fit(rows_and_task):
        return model().fit(rows_and_task[0], task=rows_and_task[1])

    def fit_together(rows_and_task):
        barrier.wait(timeout=60)
        return fit(rows_and_task)

    with warnings.catch_warnings(), threadpool_limits(1), ThreadPoolExecutor(2) as pool:
        warnings.simplefilter("ignore")
        alone = [fit(each) for each in data]
        together = list(pool.map(fit_together, data))
    for after, before in zip(together, alone, strict=True):
        np.testing.assert_array_equal(after.score_tasks(NEW), before.score_tasks(NEW))
        np.testing.assert_array_equal(after.offset_, before.offset_)


@over(list(EVERY_METHOD))
def test_two_fits_in_two_threads(name):
    assert_threads_do_not_disturb(partial(make_model, name), n_rounds=1)


@over(LANDMARKS)
def test_two_landmark_fits_in_two_threads(name):
    assert_threads_do_not_disturb(partial(make_model, name, 12), n_rounds=9)


def test_one_blas_thread_until_the_last_fit_has_ended():
    inside = Event()
    first_has_left = Event()
    seen = []

    def second():
        with one_blas_thread():
            inside.set()
            first_has_left.wait(timeout=60)
            seen.append(blas_threads())

    with threadpool_limits(2), ThreadPoolExecutor(1) as pool:
        assert blas_threads() == 2
        with one_blas_thread():
            running = pool.submit(second)
            inside.wait(timeout=60)
        first_has_left.set()
        running.result(timeout=60)
    assert seen == [1]


# ------------------------------------------------------------------------------ updates


@over(UPDATES)
def test_saved_loaded_and_updated(name, tmp_path):
    """Rows that come and go leave the model of a fit to those that stay."""
    more = make_fleet(seed=3)[0][:5]
    first = quietly(make_model(name).fit, X, task=TASK)
    before = quietly(make_model(name).fit, X, task=TASK)
    manyone.save(first, tmp_path / "first")
    loaded = manyone.load(tmp_path / "first")
    for model in (first, loaded):
        quietly(model.enroll, more, task=["fay"] * 5)
    manyone.save(first, tmp_path / "second")
    np.testing.assert_array_equal(loaded.tasks_, first.tasks_)
    assert_same(loaded, manyone.load(tmp_path / "second"), 0.0)
    for model in (first, loaded):
        quietly(model.forget, "fay")
    assert_same(loaded, first, 0.0)
    assert_same(first, before, 0.0)


def assert_enroll_says_what_it_replaces(model):
    """Either held-out thresholds stay, or a warning says that they are gone."""
    quietly(model.fit, X, task=TASK)
    held_out, task = make_fleet(seed=4)
    quietly(model.calibrate, held_out, task=task)
    assert model.calibration_.source == "held-out"
    messages = messages_of(model.enroll, X[:5] + 3.0, task=["fay"] * 5)
    assert model.calibration_.source == "held-out" or "held-out" in str(messages)


@over(UPDATES)
def test_enroll_replaces_no_held_out_calibration_in_silence(name):
    assert_enroll_says_what_it_replaces(make_model(name))


@over(LANDMARKS)
def test_landmark_models_keep_no_rows_to_change_them_by(name):
    model = quietly(make_model(name, 30).fit, X, task=TASK)
    before = model.score_tasks(X)
    with pytest.raises(ValueError, match=r"enroll\(\) needs the rows .* landmarks"):
        model.enroll(X[:5], task=["fay"] * 5)
    with pytest.raises(ValueError, match=r"forget\(\) needs the rows .* landmarks"):
        model.forget(TASK[0])
    np.testing.assert_array_equal(model.score_tasks(X), before)


def test_every_method_is_asked():
    assert {"OCKSR-L", "C-OCKSR", "OCKSR-N"} <= set(LANDMARKS)
    assert all("landmarks" in parameters(EVERY_METHOD[name]) for name in LANDMARKS)
