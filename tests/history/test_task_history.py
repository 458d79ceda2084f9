"""TaskHistory: a transformer like others."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import manyone
from manyone import IndependentOCKSR, TaskHistory, make_pipeline

# Each row is compared with those before it, so the other rows and their order matter.
_OF_OTHER_ROWS = {
    "check_methods_subset_invariance": "rows are compared with rows before them",
    "check_methods_sample_order_invariance": "rows are compared with rows before them",
}


@parametrize_with_checks(
    [TaskHistory()], expected_failed_checks=lambda _: _OF_OTHER_ROWS
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def frame_in_time(n=120, start=0):
    rng = np.random.default_rng(start)
    return pd.DataFrame(
        {
            "pump": np.tile(["a", "b"], n // 2),
            "when": pd.date_range("2026-01-01", periods=n, freq="h")
            + pd.Timedelta(hours=start),
            "flow": rng.normal(size=n),
        }
    )


def test_columns_of_a_frame_are_named_and_later_rows_go_on():
    whole = frame_in_time(200)
    first = whole[:150]
    history = TaskHistory().fit(first, task="pump", time="when")
    assert history.get_feature_names_out().tolist() == [
        "flow",
        "flow_difference",
        "flow_swing",
    ]
    together = TaskHistory().fit_transform(whole, task="pump", time="when")
    np.testing.assert_allclose(history.transform(first), together[:150])
    np.testing.assert_allclose(history.transform(whole[150:]), together[150:])
    shuffled = whole[150:].sample(frac=1, random_state=0)
    np.testing.assert_allclose(
        history.transform(shuffled), together[shuffled.index.to_numpy()]
    )


def test_new_tasks_start_without_a_past_and_others_do_not_see_them():
    history = TaskHistory().fit(frame_in_time(), task="pump", time="when")
    later = frame_in_time(10, start=200).assign(pump="c")
    assert history.transform(later)[0, 1:].tolist() == [0.0, 0.0]


def test_it_can_be_cloned_pickled_and_saved(tmp_path):
    rows = frame_in_time()
    history = TaskHistory(span=5).fit(rows, task="pump", time="when")
    assert clone(history).span == 5
    later = frame_in_time(start=200)
    expected = history.transform(later)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(history)).transform(later), expected
    )
    model = make_pipeline(TaskHistory(), IndependentOCKSR())
    model.fit(rows, task="pump", time="when")
    manyone.save(model, tmp_path / "model")
    loaded = manyone.load(tmp_path / "model")
    np.testing.assert_array_equal(
        loaded.score_samples(later), model.score_samples(later)
    )


def test_a_pipeline_hands_the_time_on_by_the_name_of_its_column():
    rows = frame_in_time()
    model = make_pipeline(TaskHistory(), IndependentOCKSR())
    model.fit(rows, task="pump", time="when")
    later = frame_in_time(start=200)
    Z = TaskHistory().fit(rows, task="pump", time="when").transform(later)
    expected = model.model_.score_samples(Z, task=later["pump"])
    np.testing.assert_allclose(model.score_samples(later), expected)


def test_a_pipeline_takes_the_times_of_arrays():
    rows = frame_in_time()
    later = frame_in_time(start=200)
    named = make_pipeline(TaskHistory(), IndependentOCKSR(alarm_rate=0.2))
    named.fit(rows, task="pump", time="when")
    model = make_pipeline(TaskHistory(), IndependentOCKSR(alarm_rate=0.2))
    X, given = as_arrays(rows)
    model.fit(X, **given)
    Z, in_time = as_arrays(later)
    for method in ("score_samples", "decision_function", "predict", "pvalues"):
        expected = getattr(named, method)(later)
        found = getattr(model, method)(Z, **in_time)
        np.testing.assert_allclose(found, expected)
    tasks, p = model.pvalues_together(Z, **in_time)
    np.testing.assert_array_equal(tasks, named.pvalues_together(later)[0])
    np.testing.assert_allclose(p, named.pvalues_together(later)[1])
    # Without times nobody knows what came before.
    alone = model.score_samples(Z, task=in_time["task"])
    assert np.abs(alone - named.score_samples(later)).max() > 1e-6
    again = make_pipeline(TaskHistory(), IndependentOCKSR(alarm_rate=0.2))
    np.testing.assert_array_equal(again.fit_predict(X, **given), named.predict(rows))


def as_arrays(frame):
    values = frame.drop(columns=["pump", "when"]).to_numpy()
    given = {"task": frame["pump"].to_numpy(), "time": frame["when"].to_numpy()}
    return values, given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"time": np.array(["x"] * 4)}, "time must be numbers"),
        ({"task": ["a", None, "a", "a"]}, "task is missing"),
    ],
)
def test_what_is_wrong_is_named(given, message):
    with pytest.raises(ValueError, match=message):
        TaskHistory().fit(np.ones((4, 1)), **given)


def test_a_season_is_taken_off_and_named():
    rng = np.random.default_rng(0)
    when = pd.date_range("2026-01-05", periods=2000, freq="h")
    usual = 10.0 * (when.hour.to_numpy() >= 12)
    rows = pd.DataFrame({"when": when, "flow": usual + rng.normal(size=2000)})
    history = TaskHistory(season="hour of day").fit(rows[:1500], time="when")
    assert history.get_feature_names_out().tolist()[0] == "flow_deviation"
    later = history.transform(rows[1500:])
    together = TaskHistory(season="hour of day").fit_transform(rows, time="when")
    np.testing.assert_allclose(later, together[1500:])
    assert later[:, 0].std() < 1.2
    assert np.abs(later[:, 0].mean()) < 0.2
    assert not together[:48, 0].any()


def test_a_season_needs_dates():
    rows = frame_in_time()
    with pytest.raises(ValueError, match=r"'weekday' needs dates.*got no time"):
        TaskHistory(season="weekday").fit(rows[["flow"]])
    with pytest.raises(ValueError, match="got times of type int64"):
        TaskHistory(season="weekday").fit(rows[["flow"]], time=np.arange(len(rows)))
