"""The synthetic fleet: what its docstring promises, measured."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from manyone.datasets import make_fleet
from manyone.datasets._fleet import KINDS, OWN, _other_machine


def standardised(fleet):
    """Test rows in units of each sensor's own level and deviation on its machine."""
    deviation = np.sqrt(np.diagonal(fleet.covariance, axis1=1, axis2=2))
    return (fleet.test_data - fleet.mean[fleet.test_task]) / deviation[fleet.test_task]


def mahalanobis(fleet, rows, task):
    """Squared distance of rows to the normal state of machine `task`."""
    gap = rows - fleet.mean[task]
    return np.einsum("ni,nij,nj->n", gap, np.linalg.inv(fleet.covariance)[task], gap)


def test_shapes_and_labels():
    fleet = make_fleet(7, 5, 4, n_test=12, fault_rate=0.5, random_state=0)
    assert fleet.data.shape == (35, 4)
    assert fleet.test_data.shape == (84, 4)
    assert (np.bincount(fleet.task) == 5).all()
    assert (np.bincount(fleet.test_task) == 12).all()
    assert fleet.target is fleet.task
    assert fleet.target_names[fleet.task[-1]] == "machine6"
    assert fleet.mean.shape == (7, 4)
    assert fleet.covariance.shape == (7, 4, 4)
    assert fleet.test_fault.dtype == bool
    np.testing.assert_array_equal(fleet.test_fault, fleet.fault_kind != "none")
    assert sorted(np.bincount(fleet.machine_type)) == [2, 2, 3]
    X, task = make_fleet(7, 5, 4, n_test=12, random_state=0, return_X_y=True)
    np.testing.assert_array_equal(X, fleet.data)
    np.testing.assert_array_equal(task, fleet.task)


def test_same_seed_same_fleet():
    one, two = (make_fleet(random_state=3) for _ in range(2))
    other = make_fleet(random_state=4)
    for key in ("data", "test_data", "fault_kind", "mean", "covariance"):
        np.testing.assert_array_equal(one[key], two[key])
    assert not np.isclose(one.data, other.data).any()


def test_normal_rows_do_not_depend_on_the_faults():
    one = make_fleet(random_state=3, n_test=10, fault_rate=0.1, fault_size=9)
    np.testing.assert_array_equal(one.data, make_fleet(random_state=3).data)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(2, 5),
    st.integers(0, 9),
    st.floats(0, 1),
    st.integers(1, 4),
)
def test_every_machine_has_the_promised_number_of_faults(
    n_tasks, d, n_test, rate, n_types
):
    fleet = make_fleet(
        n_tasks, 2, d, n_test=n_test, fault_rate=rate, n_types=n_types, random_state=0
    )
    assert np.isfinite(fleet.data).all()
    assert np.isfinite(fleet.test_data).all()
    faults = fleet.test_fault.reshape(n_tasks, n_test).sum(axis=1)
    assert (faults == round(rate * n_test)).all()
    kinds = KINDS["both"] if n_tasks > 1 else OWN
    counts = [(fleet.fault_kind == kind).sum() for kind in kinds]
    assert sum(counts) == fleet.test_fault.sum()
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("fault", ["own", "stranger", "both"])
def test_anomalies_are_of_the_kind_that_was_asked_for(fault):
    fleet = make_fleet(5, 3, 4, n_test=24, fault=fault, random_state=0)
    np.testing.assert_array_equal(fleet.data, make_fleet(5, 3, 4, random_state=0).data)
    assert set(fleet.fault_kind[fleet.test_fault]) == set(KINDS[fault])
    assert fleet.test_fault.sum() == 5 * 6


def test_one_machine_has_no_stranger():
    assert set(make_fleet(1, fault="both").fault_kind) == {"none", *OWN}
    with pytest.raises(ValueError, match="n_tasks of at least 2"):
        make_fleet(1, fault="stranger")


def test_normal_rows_follow_the_stated_distribution():
    fleet = make_fleet(3, 20_000, 5, random_state=0)
    for t in range(3):
        rows = fleet.data[fleet.task == t]
        covariance = fleet.covariance[t]
        deviation = np.sqrt(np.diag(covariance))
        error = (rows.mean(axis=0) - fleet.mean[t]) / deviation
        assert np.abs(error).max() < 5 / np.sqrt(20_000)
        error = (np.cov(rows.T) - covariance) / np.outer(deviation, deviation)
        assert np.abs(error).max() < 5 * np.sqrt(2 / 20_000)


def test_normal_test_rows_are_as_normal_as_the_training_rows():
    fleet = make_fleet(10, 20, 6, n_test=400, random_state=1)
    normal = ~fleet.test_fault
    distance = mahalanobis(fleet, fleet.test_data[normal], fleet.test_task[normal])
    assert stats.kstest(distance, stats.chi2(6).cdf).pvalue > 0.01


def test_few_factors_drive_all_sensors():
    fleet = make_fleet(4, 2, 8, n_factors=2, random_state=0)
    for covariance in fleet.covariance:
        deviation = np.sqrt(np.diag(covariance))
        values = np.linalg.eigvalsh(covariance / np.outer(deviation, deviation))
        np.testing.assert_allclose(values[:6], 0.16)
        assert values[6] > 0.3


def test_relatedness_one_makes_machines_of_a_type_equal():
    fleet = make_fleet(9, 2, 6, relatedness=1, random_state=0)
    for kind in range(3):
        mine = np.flatnonzero(fleet.machine_type == kind)
        assert len(mine) == 3
        for other in mine[1:]:
            np.testing.assert_allclose(fleet.mean[other], fleet.mean[mine[0]])
            np.testing.assert_allclose(
                fleet.covariance[other], fleet.covariance[mine[0]]
            )
    assert len(np.unique(fleet.mean.round(9), axis=0)) == 3


@pytest.mark.parametrize("relatedness", [0.0, 0.5, 0.8])
def test_relatedness_is_the_correlation_of_machines_of_a_type(relatedness):
    fleet = make_fleet(300, 1, 60, n_test=0, relatedness=relatedness, random_state=0)
    within = np.mean(
        [
            fleet.mean[fleet.machine_type == kind].var(axis=0, ddof=1).mean()
            for kind in range(3)
        ]
    )
    # A mean has the variance 9, of which 9 (1 - relatedness) is within a type.
    assert within / 9 == pytest.approx(1 - relatedness, abs=0.03)


def test_related_machines_share_their_correlations():
    def spread(relatedness):
        fleet = make_fleet(40, 1, 6, n_test=0, relatedness=relatedness, random_state=0)
        deviation = np.sqrt(np.diagonal(fleet.covariance, axis1=1, axis2=2))
        correlation = fleet.covariance / deviation[:, :, None] / deviation[:, None, :]
        return correlation.std(axis=0).mean()

    assert spread(1.0) < 1e-12 < spread(0.9) < spread(0.5) < spread(0.0)


def test_a_shift_moves_one_sensor():
    fleet = make_fleet(fault_size=50, random_state=0)
    moved = np.abs(standardised(fleet)[fleet.fault_kind == "shift"])
    assert ((moved > 25).sum(axis=1) == 1).all()
    np.testing.assert_allclose(moved.max(axis=1), 50, atol=5)
    assert (standardised(fleet)[fleet.fault_kind == "shift"].min(axis=1) < -25).any()


def test_a_decoupling_shows_in_no_single_sensor():
    fleet = make_fleet(10, 1, 6, n_test=4000, fault_rate=0.4, random_state=0)
    broken = fleet.fault_kind == "decoupling"
    values = standardised(fleet)[broken]
    for sensor in values.T:
        assert stats.kstest(sensor, "norm").pvalue > 0.001
        assert abs(sensor.var() - 1) < 5 * np.sqrt(2 / len(sensor))
    distance = mahalanobis(fleet, fleet.test_data[broken], fleet.test_task[broken])
    assert distance.mean() > 2 * 6  # a normal row has 6 on average


def test_a_drift_grows_to_its_full_size():
    fleet = make_fleet(
        5, 2, 6, n_test=80, fault_rate=0.5, fault_size=1000, random_state=0
    )
    values = standardised(fleet)
    for t in range(5):
        drift = values[(fleet.test_task == t) & (fleet.fault_kind == "drift")]
        moving = drift[-1] > 500
        assert moving.sum() == 3
        np.testing.assert_allclose(drift[-1, moving], 1000, atol=6)
        assert (np.diff(drift[:, moving], axis=0) > 0).all()
        assert np.abs(drift[:, ~moving]).max() < 6
        np.testing.assert_allclose(drift[0, moving], 1000 / len(drift), atol=6)


def test_a_swap_is_a_normal_row_of_a_machine_of_another_type():
    fleet = make_fleet(12, 1, 6, n_test=200, fault_rate=0.4, random_state=0)
    swap = np.flatnonzero(fleet.fault_kind == "swap")
    distance = np.column_stack(
        [
            mahalanobis(fleet, fleet.test_data[swap], np.full(len(swap), t))
            for t in range(12)
        ]
    )
    own = fleet.test_task[swap]
    foreign = fleet.machine_type[own][:, None] != fleet.machine_type
    limit = stats.chi2(6).ppf(0.999)
    assert (np.where(foreign, distance, np.inf).min(axis=1) < limit).mean() > 0.99
    assert (distance[np.arange(len(swap)), own] > limit).mean() > 0.9


@pytest.mark.parametrize("machine_type", [[0, 1, 0, 2, 1, 0], [0, 0, 0, 0]])
def test_another_machine_is_drawn_evenly(machine_type):
    kinds = np.array(machine_type)
    task = np.repeat(np.arange(len(kinds)), 4000)
    drawn = _other_machine(task, kinds, np.random.RandomState(0))
    for t, kind in enumerate(kinds):
        allowed = (
            np.flatnonzero(kinds != kind) if kinds.any() else np.delete(np.arange(4), t)
        )
        counts = np.bincount(drawn[task == t], minlength=len(kinds))
        assert counts.sum() == counts[allowed].sum() == 4000
        assert stats.chisquare(counts[allowed]).pvalue > 1e-4


def test_faults_can_be_found_by_one_who_knows_the_truth():
    fleet = make_fleet(random_state=0, n_test=200)
    distance = mahalanobis(fleet, fleet.test_data, fleet.test_task)
    normal = ~fleet.test_fault
    for kind, least in (
        ("shift", 0.95),
        ("decoupling", 0.8),
        ("drift", 0.8),
        ("swap", 0.99),
    ):
        some = normal | (fleet.fault_kind == kind)
        assert roc_auc_score(fleet.test_fault[some], distance[some]) > least


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("n_tasks", 0),
        ("n_tasks", 2.5),
        ("n_samples", "3"),
        ("n_samples", 0),
        ("n_features", 1),
        ("n_test", -1),
        ("n_types", 0),
        ("n_factors", 0),
        ("fault_rate", 1.1),
        ("relatedness", -0.1),
        ("relatedness", float("nan")),
        ("fault", "other"),
    ],
)
def test_bad_parameters_are_named(parameter, value):
    with pytest.raises(ValueError, match=f"{parameter} must"):
        make_fleet(**{parameter: value})
