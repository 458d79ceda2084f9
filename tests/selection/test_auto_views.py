"""Which views `auto` takes, and by what it chooses between them."""

import numpy as np
import pytest

from manyone import CombinedOneClass, IndependentOCKSR, JointOCKSR, NonlinearOCKSR, auto
from manyone.datasets import make_fleet


@pytest.fixture(scope="module")
def fleet():
    return make_fleet(6, 20, 4, n_types=1, relatedness=0.9, random_state=0)


@pytest.fixture(scope="module")
def tried(fleet):
    """What was tried, by what anomalies are said to be: one dict per line."""

    def lines(kind):
        table = auto(fleet.data, task=fleet.task, anomalies=kind).choice_
        return [
            dict(zip(table, line, strict=True))
            for line in zip(*table.values(), strict=True)
        ]

    return {kind: lines(kind) for kind in ("strangers", "faults", "any")}


def test_one_layer_is_taken_only_where_two_rank_no_better(tried):
    for kind in ("strangers", "any"):
        scores = {
            one["method"]: one["score"]
            for one in tried[kind]
            if one["stage"] == "method"
        }
        (chosen,) = (
            one["method"]
            for one in tried[kind]
            if one["chosen"] and one["view"] == "strangers"
        )
        two = scores["NonlinearOCKSR"] > scores["JointOCKSR"]
        if (
            two or kind == "any"
        ):  # alone, one layer has to be better by a standard error
            assert chosen == ("NonlinearOCKSR" if two else "JointOCKSR")


def test_only_who_looks_for_faults_alone_judges_methods_by_them(tried):
    beside = [one for one in tried["any"] if one["view"] == "faults"]
    alone = tried["faults"]
    assert [one["method"] for one in beside] == ["IndependentOCKSR"]
    assert [one["method"] for one in alone] == ["IndependentOCKSR", "SVDD"]
    assert all("metric=adaptive" in one["setting"] for one in beside + alone)
    assert np.isfinite([one["score"] for one in alone]).all()


def test_views_follow_from_what_anomalies_look_like(fleet):
    X = fleet.data
    task = fleet.task
    assert isinstance(auto(X, task=task, anomalies="faults"), IndependentOCKSR)
    assert isinstance(
        auto(X, task=task, anomalies="strangers"), NonlinearOCKSR | JointOCKSR
    )
    hedged = auto(X, task=task)
    assert isinstance(hedged, CombinedOneClass)
    assert list(hedged.views_) == ["strangers", "faults"]
    one = auto(X[task == 0], anomalies="any")
    assert isinstance(one, IndependentOCKSR)
    assert "one task" in str(one.choice_["reason"])


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_a_view_that_knows_nothing_counts_for_little_and_the_choice_says_so():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(4), 6)
    X = rng.normal(size=(4, 300))[task] + rng.normal(size=(24, 300))
    model = auto(X, task=task)
    reason = model.choice_["reason"][
        model.choice_["chosen"] & (model.choice_["view"] == "faults")
    ]
    assert model.weights_[0] == 1.0 and model.weights_[1] < 0.6
    assert f"weight {model.weights_[1]:.2g}" in reason[0]


@pytest.mark.slow
def test_the_hedge_is_close_to_the_better_view_on_both_kinds():
    for fault in ("own", "stranger"):
        fleet = make_fleet(
            10,
            15,
            8,
            n_test=60,
            fault=fault,
            n_types=1,
            relatedness=0.95,
            random_state=1,
        )
        found = {}
        for kind in ("strangers", "faults", "any"):
            model = auto(fleet.data, task=fleet.task, anomalies=kind, alarm_rate=0.1)
            scores = model.score_samples(fleet.test_data, task=fleet.test_task)
            wins = []
            for t in range(10):
                mine = scores[fleet.test_task == t]
                bad = fleet.test_fault[fleet.test_task == t]
                wins.append(np.mean(mine[~bad][:, None] > mine[bad]))
            found[kind] = np.mean(wins)
        assert found["any"] > max(found["strangers"], found["faults"]) - 0.02
