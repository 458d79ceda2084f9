"""Displays: what is drawn is what was given."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manyone import IndependentOCKSR, JointOCKSR, Monitor, tune
from manyone.plots import (
    DriftDisplay,
    ScoreDisplay,
    StructureDisplay,
)

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.colors import to_rgb  # noqa: E402

TASKS = np.array(["ann", "bob", "cy"])


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    task = np.repeat(TASKS, 25)
    return rng.normal(size=(75, 2)) + 2.0 * np.repeat(np.arange(3), 25)[:, None], task


@pytest.fixture(scope="module")
def model(data: Any) -> JointOCKSR:
    return JointOCKSR(alarm_rate=0.1).fit(data[0], task=data[1])


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return 3.0 * rng.normal(size=(90, 2)), rng.permutation(np.repeat(TASKS, 30))


def png(display: Any) -> bytes:
    stream = BytesIO()
    display.figure_.savefig(stream, format="png")
    return stream.getvalue()


def drawn(points: Any) -> np.ndarray:
    return np.sort(np.asarray(points.get_offsets())[:, 0])


def assert_same_scores(one: ScoreDisplay, two: ScoreDisplay) -> None:
    np.testing.assert_array_equal(one.scores, two.scores)
    np.testing.assert_array_equal(one.codes, two.codes)
    np.testing.assert_array_equal(one.offset, two.offset)
    assert one.labels.tolist() == two.labels.tolist()
    np.testing.assert_array_equal(drawn(one.alarm_), drawn(two.alarm_))


# ------------------------------------------------------------------------------- scores


def test_scores_artists_carry_the_data(model: Any, rows: Any) -> None:
    X, task = rows
    display = ScoreDisplay.from_estimator(model, X, task=task)
    scores = model.score_samples(X, task=task)
    predicted = model.predict(X, task=task)
    assert 0 < np.count_nonzero(predicted < 0) < len(X)
    far = drawn(display.far_)
    alarms = np.maximum(
        np.sort(scores[predicted < 0]), far[0]
    )  # what is lower is at the edge
    np.testing.assert_array_equal(np.sort([*far, *drawn(display.alarm_)]), alarms)
    np.testing.assert_array_equal(
        drawn(display.normal_), np.sort(scores[predicted > 0])
    )
    np.testing.assert_array_equal(
        drawn(display.calibration_), np.sort(model.calibration_.scores)
    )
    strokes = display.threshold_.get_segments()
    assert [stroke[:, 0].tolist() for stroke in strokes] == [
        [c, c] for c in model.offset_
    ]


def test_scores_stay_in_the_band_of_their_task(model: Any, rows: Any) -> None:
    X, task = rows
    display = ScoreDisplay.from_estimator(model, X, task=task)
    scores = model.score_samples(X, task=task)
    task_of = dict(zip(scores.tolist(), task, strict=True))
    for points in (display.normal_, display.alarm_):
        for x, y in np.asarray(points.get_offsets()):
            assert TASKS[round(y)] == task_of[x]
    faint = np.asarray(display.calibration_.get_offsets())
    for t in range(3):
        own = model.calibration_.scores[model.calibration_.starts[t] :][:25]
        np.testing.assert_array_equal(
            np.sort(faint[np.round(faint[:, 1]) == t, 0]), own
        )


def test_scores_dots_do_not_coincide(model: Any, rows: Any) -> None:
    X = np.repeat(rows[0][:1], 6, axis=0)
    task = np.repeat("ann", 6)
    display = ScoreDisplay.from_estimator(model, X, task=task)
    points = np.vstack([display.normal_.get_offsets(), display.alarm_.get_offsets()])
    assert len(np.unique(points, axis=0)) == 6


def test_scores_legend_counts_alarms() -> None:
    display = ScoreDisplay.from_predictions(
        [-1.0, -0.5, -0.4, -0.3], offset=[-0.6, -0.35], task=["a", "a", "b", "b"]
    )
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["accepted", "alarm (2 of 4)", "threshold"]
    assert [text.get_text() for text in display.ax_.texts] == ["1 of 2", "1 of 2"]
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["a", "b"]


def test_tasks_that_cannot_raise_an_alarm_have_no_stroke() -> None:
    """Their threshold, -1e300, once was on the axis."""
    X = np.random.default_rng(0).normal(size=(41, 2))
    task = ["a"] * 40 + ["b"]
    with pytest.warns(UserWarning, match="alarm_rate"):
        model = JointOCKSR(alarm_rate=0.001).fit(X, task=task)
    display = ScoreDisplay.from_estimator(model, X, task=task)
    strokes = display.threshold_.get_segments()
    assert [stroke[0].tolist() for stroke in strokes] == [[model.offset_[0], -0.4]]
    assert display.ax_.get_xlim()[0] > -10.0


def test_scores_far_below_all_others_stand_at_the_edge() -> None:
    display = ScoreDisplay.from_predictions(
        [-0.1, -0.3, -0.5, -400.0, -9.0], offset=[-0.4]
    )
    assert display.far_ is not None
    at = np.asarray(display.far_.get_offsets())[:, 0]
    np.testing.assert_allclose(at, [-0.4 - 2 * 0.3] * 2)
    assert len(display.alarm_.get_offsets()) == 1 and display.alarm.sum() == 3
    assert "lower still" in display.ax_.get_xlabel()


def test_score_on_the_threshold_is_no_alarm() -> None:
    display = ScoreDisplay.from_predictions([-0.5, np.nextafter(-0.5, -1)], offset=-0.5)
    assert display.alarm.tolist() == [False, True]


def test_scores_constructors_agree(model: Any, rows: Any) -> None:
    X, task = rows
    one = ScoreDisplay.from_estimator(model, X, task=task, which=["cy", "ann"])
    two = ScoreDisplay.from_predictions(
        model.score_samples(X, task=task),
        offset=model.offset_,
        task=task,
        labels=model.tasks_,
        which=["cy", "ann"],
    )
    assert one.labels.tolist() == ["cy", "ann"]
    # How far the axis goes depends on left-out rows, which predictions do not hold.
    np.testing.assert_array_equal(one.alarm, two.alarm)


def test_scores_task_may_be_a_column(model: Any, data: Any, rows: Any) -> None:
    def frame(X: Any, task: Any) -> pd.DataFrame:
        return pd.DataFrame(X, columns=["u", "v"]).assign(who=task)

    fitted = JointOCKSR(alarm_rate=0.1).fit(frame(*data), task="who")
    one = ScoreDisplay.from_estimator(fitted, frame(*rows), task="who")
    assert_same_scores(one, ScoreDisplay.from_estimator(model, rows[0], task=rows[1]))


def test_scores_of_a_pipeline(data: Any, rows: Any) -> None:
    scaler = StandardScaler().fit(data[0])
    last = JointOCKSR(alarm_rate=0.1).fit(scaler.transform(data[0]), task=data[1])
    one = ScoreDisplay.from_estimator(
        make_pipeline(scaler, last), rows[0], task=rows[1]
    )
    two = ScoreDisplay.from_estimator(last, scaler.transform(rows[0]), task=rows[1])
    assert_same_scores(one, two)


def test_scores_of_a_single_task() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = IndependentOCKSR(alarm_rate=0.1).fit(X)
    display = ScoreDisplay.from_estimator(model, X)
    assert len(display.threshold_.get_segments()) == 1
    assert len(drawn(display.calibration_)) == 40


@pytest.mark.parametrize("which", ["bob", ["bob"], np.array(["bob"]), ["bob", "bob"]])
def test_scores_which(model: Any, rows: Any, which: Any) -> None:
    display = ScoreDisplay.from_estimator(model, rows[0], task=rows[1], which=which)
    assert display.labels.tolist() == ["bob"]
    assert len(display.scores) == 30


def test_scores_which_may_be_a_tuple_label() -> None:
    display = ScoreDisplay.from_predictions(
        [0.1, 0.2], offset=0.0, task=[("a", 1), ("a", 2)], which=("a", 2)
    )
    assert display.scores.tolist() == [0.2]


def test_scores_shows_the_first_tasks_that_occur() -> None:
    task = np.arange(5, 45)
    display = ScoreDisplay.from_predictions(
        np.linspace(-1, 0, 40),
        offset=np.arange(45) / -100,
        task=task,
        labels=np.arange(45),
    )
    assert display.labels.tolist() == list(range(5, 15))
    np.testing.assert_array_equal(display.offset, np.arange(5, 15) / -100)


def test_scores_task_without_rows_shows_its_calibration(model: Any, rows: Any) -> None:
    X, task = rows
    ann = task == "ann"
    display = ScoreDisplay.from_estimator(model, X[ann], task=task[ann], which="bob")
    assert len(display.scores) == 0
    assert len(drawn(display.calibration_)) == 25
    assert len(png(display)) > 1000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"which": "zoe"}, "Unknown task 'zoe'"),
        ({"which": []}, "names no task"),
        ({"which": [None]}, "names no task"),
        ({"task": ["a"]}, "2 scores but 1 tasks"),
        ({"task": ["a", None]}, "row 1 is missing"),
        ({"offset": [0.0, 1.0]}, "one for each of the 1 tasks"),
        ({"scores": [[0.0, 1.0]]}, "one number per row"),
        ({"scores": [], "task": []}, "no task"),
    ],
)
def test_scores_bad_input(change: dict[str, Any], message: str) -> None:
    arguments = {"scores": [0.0, 1.0], "offset": 0.5, "task": ["a", "a"], **change}
    with pytest.raises(ValueError, match=message):
        ScoreDisplay.from_predictions(**arguments)


def test_scores_unknown_task_of_the_model(model: Any) -> None:
    with pytest.raises(ValueError, match="Unknown task 'zoe'"):
        ScoreDisplay.from_estimator(model, [[0.0, 0.0]], task=["zoe"])


@pytest.mark.parametrize(
    "scores", [[0.5], [0.5, 0.5], [-1e9, 0.0, 1e-9], [5e-324, 0.0]]
)
def test_scores_extreme_values_render(scores: list[float]) -> None:
    assert len(png(ScoreDisplay.from_predictions(scores, offset=scores[0]))) > 1000


def test_scores_keywords_reach_matplotlib(model: Any, rows: Any) -> None:
    display = ScoreDisplay.from_estimator(
        model,
        rows[0],
        task=rows[1],
        legend=False,
        scatter_kwargs={"s": 3},
        line_kwargs={"linewidths": 7},
    )
    assert display.ax_.get_legend() is None
    assert display.alarm_.get_sizes().tolist() == [3]
    assert display.threshold_.get_linewidths()[0] == 7


# ---------------------------------------------------------------------------- structure


def test_structure_is_the_permuted_matrix() -> None:
    matrix = np.random.default_rng(0).normal(size=(17, 17))
    labels = np.array([f"task {t}" for t in range(17)])
    display = StructureDisplay.from_predictions(matrix, labels=labels)
    assert sorted(display.order) == list(range(17))
    np.testing.assert_array_equal(
        display.im_.get_array(), matrix[display.order][:, display.order]
    )
    shown = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert shown == labels[display.order].tolist()
    assert shown == [text.get_text() for text in display.ax_.get_xticklabels()]


@pytest.mark.parametrize("seed", range(5))
def test_structure_blocks_become_contiguous(seed: int) -> None:
    rng = np.random.default_rng(seed)
    block = rng.permutation(np.repeat(np.arange(4), [3, 5, 2, 7]))
    matrix = (
        0.5 * (block[:, None] == block) + 0.05 * rng.normal(size=(17, 17)) + np.eye(17)
    )
    display = StructureDisplay.from_predictions(matrix)
    assert np.count_nonzero(np.diff(block[display.order])) == 3


def test_structure_neighbours_of_a_chain() -> None:
    # Each task resembles the next one only: the one good order is the chain itself.
    place = np.random.default_rng(0).permutation(9)
    matrix = np.exp(-np.abs(place[:, None] - place))
    display = StructureDisplay.from_predictions(matrix)
    assert set(np.abs(np.diff(place[display.order]))) == {1}


def test_structure_order_none_keeps_the_order() -> None:
    matrix = np.random.default_rng(0).normal(size=(5, 5))
    display = StructureDisplay.from_predictions(matrix, order=None)
    np.testing.assert_array_equal(display.im_.get_array(), matrix)


def test_structure_constructors_agree(model: Any) -> None:
    one = StructureDisplay.from_estimator(model)
    two = StructureDisplay.from_predictions(model.structure_, labels=model.tasks_)
    np.testing.assert_array_equal(one.im_.get_array(), two.im_.get_array())
    np.testing.assert_array_equal(one.order, two.order)
    assert one.labels.tolist() == two.labels.tolist() == TASKS.tolist()


def test_structure_colours_follow_the_rest_not_the_diagonal() -> None:
    display = StructureDisplay.from_predictions([[9.0, 0.2], [-0.1, 8.0]])
    assert display.im_.get_clim() == (-0.2, 0.2)
    assert display.colorbar_.extend == "max"
    assert (
        StructureDisplay.from_predictions(np.eye(3) * 0).colorbar_.extend == "neither"
    )


def test_structure_numbers_in_small_matrices_only() -> None:
    display = StructureDisplay.from_predictions(
        [[1.0, -0.001], [0.25, 1.0]], order=None
    )
    texts = [[text.get_text() for text in line] for line in display.text_]
    assert texts == [["1.00", "0.00"], ["0.25", "1.00"]]
    assert StructureDisplay.from_predictions(np.eye(30)).text_ is None
    assert (
        StructureDisplay.from_predictions(np.eye(3), include_values=False).text_ is None
    )


@pytest.mark.parametrize("T", [1, 2, 60, 200])
def test_structure_labels_are_thinned(T: int) -> None:
    labels = [f"machine {t}" for t in range(T)]
    display = StructureDisplay.from_predictions(
        np.eye(T), labels=labels, colorbar=False
    )
    assert len(png(display)) > 1000
    ticks = display.ax_.get_yticks().astype(int)
    assert len(ticks) == T if T < 20 else 10 < len(ticks) < 40
    names = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert names == [labels[display.order[tick]] for tick in ticks]
    boxes = [text.get_window_extent() for text in display.ax_.get_yticklabels()]
    assert all(upper.y0 >= lower.y1 - 1 for upper, lower in pairwise(boxes))


def test_structure_of_an_estimator_without_one(data: Any) -> None:
    alone = IndependentOCKSR(alarm_rate=0.1).fit(data[0], task=data[1])
    with pytest.raises(
        TypeError, match=r"IndependentOCKSR learns no.*structure_.*JointOCKSR"
    ):
        StructureDisplay.from_estimator(alone)
    with pytest.raises(NotFittedError):
        StructureDisplay.from_estimator(JointOCKSR())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"structure": np.ones((2, 3))}, "square"),
        ({"structure": np.ones((0, 0))}, "square"),
        ({"structure": [[1.0, np.nan], [0.0, 1.0]]}, "NaN"),
        ({"labels": ["a"]}, "2 tasks but 1 labels"),
        ({"order": "size"}, "'size'"),
    ],
)
def test_structure_bad_input(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StructureDisplay.from_predictions(**{"structure": np.eye(2), **change})


# -------------------------------------------------------------------------- all of them


def _make(model: Any, rows: Any, kind: str, **kwargs: Any) -> Any:
    if kind == "score":
        return ScoreDisplay.from_estimator(model, rows[0], task=rows[1], **kwargs)
    if kind == "structure":
        return StructureDisplay.from_estimator(model, **kwargs)
    return DriftDisplay([np.arange(3.0)], labels=["ann"]).plot(**kwargs)


@pytest.mark.parametrize("kind", ["score", "structure", "drift"])
def test_display_draws_where_it_is_told(model: Any, rows: Any, kind: str) -> None:
    figure, (left, right) = plt.subplots(1, 2)
    display = _make(model, rows, kind, ax=right)
    assert display.ax_ is right
    assert display.figure_ is figure
    assert not left.has_data()
    again = display.plot()
    assert again is display
    assert display.ax_ is not right


@pytest.mark.parametrize("kind", ["score", "structure", "drift"])
def test_display_renders_to_png(model: Any, rows: Any, kind: str) -> None:
    image = png(_make(model, rows, kind))
    assert image.startswith(b"\x89PNG")
    pixels = plt.imread(BytesIO(image))
    assert pixels[..., :3].std() > 0.02


@pytest.mark.parametrize("kind", ["score", "structure", "drift"])
def test_without_matplotlib_the_error_names_the_extra(
    model: Any, rows: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"Display\..*pip install '\.\[plot\]'"):
        _make(model, rows, kind)


def test_models_without_thresholds_say_so() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    task = np.repeat(["a", "b"], 20)
    model = tune(JointOCKSR(), X, task=task, grid={"alpha": [0.1]}, calibrate=False)
    with pytest.raises(NotFittedError, match="held-out normal rows"):
        ScoreDisplay.from_estimator(model, X, task=task)


def test_scores_that_are_not_numbers_are_named() -> None:
    with pytest.raises(ValueError, match="row 1 is NaN"):
        ScoreDisplay.from_predictions([0.0, np.nan], offset=0.5)


# ------------------------------------------------------------------------------ in time


def test_evidence_of_a_monitor_is_drawn_by_task(
    data: tuple[np.ndarray, np.ndarray],
) -> None:
    X, task = data
    monitor = Monitor(JointOCKSR(alarm_rate=0.1).fit(X, task=task))
    rng = np.random.default_rng(1)
    order = np.tile(np.arange(75), 4)
    noise = 0.3 * rng.normal(size=(len(order), 2))
    shift = 8.0 * ((np.arange(len(order)) > 150) & (task[order] == "bob"))
    half = len(order) // 2
    Z = X[order] + noise + shift[:, None]
    results = [
        monitor.update(Z[part], task[order][part])
        for part in (slice(half), slice(half, None))
    ]
    display = DriftDisplay.from_watched(results, task=task[order])
    assert "bob" in display.flagged
    assert [len(path) for path in display.paths] == [100, 100, 100]
    rows = np.flatnonzero(task[order] == "bob")
    drift = np.concatenate([part.drift for part in results])[rows]
    reached = display.paths[1] >= 2.0
    assert np.argmax(drift) == np.argmax(reached)
    assert len(display.lines_) == 3


def test_evidence_and_tasks_are_of_the_same_rows() -> None:
    watched = SimpleNamespace(evidence=np.zeros(3))
    with pytest.raises(ValueError, match="3 rows but 2 tasks"):
        DriftDisplay.from_watched(watched, task=["a", "b"])


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_the_level_of_flags_stands_out_from_the_ground(style):
    with plt.style.context(style):
        display = DriftDisplay([np.array([0.0, 1.0, 3.0])], labels=["a"]).plot()
    ground = np.array(to_rgb(display.ax_.get_facecolor()))
    (level,) = (line for line in display.ax_.lines if line.get_linestyle() == "--")
    assert np.abs(to_rgb(level.get_color()) - ground).max() == 1.0
