"""What users rely on, called as a stranger would who has read the documentation only."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

import manyone
from every_method import EVERY_METHOD
from fleets import gaussian_tasks, machine_tables
from manyone.estimators import METHODS

TASKS = np.array(["a", "b", "c"])


@pytest.fixture(scope="module")
def rows():
    X, codes = gaussian_tasks([12, 12, 12], 3, apart=3.0)
    return X, TASKS[codes]


pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")

SHOWN = {
    **{name: lambda made=made: made() for name, made in EVERY_METHOD.items()},
    **{
        f"{name} with landmarks": lambda made=made: made(landmarks=6)
        for name, made in METHODS.items()
        if "landmarks" in made().get_params()
    },
    "choice": manyone.AutoOneClass,
    "pipeline": lambda: manyone.make_pipeline(StandardScaler(), manyone.JointOCKSR()),
    "whitener": manyone.TaskWhitener,
    "history": manyone.TaskHistory,
}


@pytest.mark.parametrize("made", SHOWN.values(), ids=SHOWN.keys())
def test_notebooks_show_and_complete_every_estimator(made, rows):
    """A notebook asks for the page of an estimator and for all of its attributes."""
    X, task = rows
    for estimator in (made(), made().fit(X, task=task)):
        assert type(estimator).__name__ in estimator._repr_html_()
        assert "fit" in dir(estimator)


def test_notebooks_show_a_table_model():
    train, _ = machine_tables(3, 12)
    model = manyone.TableModel("machine", method="JointOCKSR")
    for shown in (model, model.fit(train)):
        assert "TableModel" in shown._repr_html_()
        assert "score" in dir(shown)


@pytest.mark.parametrize("time", ["when", None])
@pytest.mark.parametrize("role", ["task", "time", "groups", "outlier", "ignore"])
def test_a_role_without_its_column_is_named(role, time):
    train, _ = machine_tables(3, 12)
    train["when"] = np.arange(len(train))
    roles = {"task": "machine", "time": time, role: "elsewhere"}
    with pytest.raises(ValueError, match=f"{role}: there is no column 'elsewhere'"):
        manyone.TableModel(**roles).fit(train)


def test_a_monitor_takes_rows_tasks_times_and_ids_in_this_order(rows):
    X, task = rows
    model = manyone.JointOCKSR().fit(X, task=task)
    numbers = np.arange(len(X))
    named = manyone.Monitor(model).update(X, task=task, time=numbers, id=numbers + 7)
    placed = manyone.Monitor(model).update(X, task, numbers, numbers + 7)
    for name in ("id", "p_value", "alarm", "drift"):
        np.testing.assert_array_equal(getattr(placed, name), getattr(named, name))
        assert len(getattr(named, name)) == len(X)
    np.testing.assert_array_equal(named.id, numbers + 7)
