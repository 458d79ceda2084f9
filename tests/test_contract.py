"""What users rely on, called as readers of the documentation would."""

import inspect

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

import manyone
import manyone.datasets
import manyone.engines
from every_method import EVERY_METHOD
from fleets import gaussian_tasks, machine_tables
from manyone.cli import main
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


ROLES = {"task": None, "outlier": None, "sample_weight": None, "groups": None}
CHOICE = {
    "anomalies": "any",
    "alarm_rate": 0.05,
    "landmarks": None,
    "random_state": None,
    "task_rate_limit": None,
}
DEFAULTS = {
    manyone.auto: {"y": None, **ROLES, **CHOICE},
    manyone.AutoOneClass: CHOICE,
    manyone.AutoOneClass.fit: {"y": None, **ROLES},
    manyone.CombinedOneClass: {
        "weights": None,
        "alarm_rate": 0.05,
        "task_rate_limit": None,
    },
    manyone.tune: {
        **ROLES,
        "criterion": "unseen",
        "grid": None,
        "max_rows": "auto",
        "calibrate": True,
        "random_state": None,
    },
    manyone.TableModel: {
        "anomalies": "any",
        "method": "auto",
        "alarm_rate": 0.05,
        "task_rate_limit": None,
        "ignore": (),
        "time": None,
        "history": "auto",
        "groups": None,
        "outlier": None,
        "random_state": None,
    },
    manyone.TableModel.score: {
        "y": None,
        "explain": 0,
        "fdr": None,
        "unknown": "pooled",
        "keep": (),
    },
    manyone.TableModel.explain: {"top": 3},
    manyone.TableModel.report: {"table": None},
    manyone.Monitor: {"state": None},
    manyone.Monitor.update: {"task": None, "time": None, "id": None},
    manyone.TaskWhitener: {"adaptive": False},
    manyone.TaskHistory: {"span": 12},
    manyone.datasets.load_faces: {"features": "dlib", "data_home": None},
}


@pytest.mark.parametrize(
    ("function", "promised"),
    DEFAULTS.items(),
    ids=[function.__qualname__ for function in DEFAULTS],
)
def test_parameters_have_their_names_and_defaults(function, promised):
    parameters = inspect.signature(function).parameters
    assert {name: parameters[name].default for name in promised} == promised


@pytest.mark.parametrize("name", ["fit", "Block", "local_sweep"])
def test_engines_keep_their_names(name):
    assert name in manyone.engines.__all__
    assert callable(getattr(manyone.engines, name))


TABLE = "--sql --db"
OPTIONS = {
    "reproduce": "--data --protocol --repeats --seed --out --quick",
    "fit": f"{TABLE} --task --out --anomalies --method --alarm-rate --time "
    "--time-format --history --bad-values --groups --outlier --ignore --no-tune "
    "--no-rows --task-rate-limit --engine --scheduler",
    "score": f"{TABLE} --out --explain --incidents --fdr --keep --unknown --at-least "
    "--direction --json --exit-code",
    "evaluate": f"{TABLE} --outlier",
    "watch": f"{TABLE} --state --out --id --feedback --keep --keep-days --explain "
    "--drift-level --silence-level --mute --at-least --direction --notify --metrics "
    "--json --exit-code",
    "report": f"{TABLE} --out --state",
    "run": "",
    "serve": "--state --host --port",
    "enroll": TABLE,
    "forget": "",
    "recalibrate": "--alarm-rate",
    "info": "",
    "demo": "--out",
}


@pytest.mark.parametrize(("command", "options"), OPTIONS.items(), ids=OPTIONS.keys())
def test_commands_have_their_options_and_examples(command, options, capsys):
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert set(options.split()) <= set(text.split())
    assert "Examples:" in text


COMMON = {"alarm_rate": 0.05, "task_rate_limit": None, "gamma": "mean"}
RIDGE = {**COMMON, "alpha": 0.1}
SAMPLED = {**RIDGE, "landmarks": None, "random_state": None}
LAYERS = {**SAMPLED, "theta": "mean", "learn_theta": False}
PARAMETERS = {
    "IndependentOCKSR": RIDGE,
    "JointOCKSR": SAMPLED,
    "LinearOCKSR": {**SAMPLED, "frobenius": ..., "nuclear": ..., "solver": ...},
    "NonlinearOCKSR": {**LAYERS, "beta": ..., "solver": "lbfgs"},
    "SparseOCKSR": {**LAYERS, "l1": ..., "group": ..., "solver": "fista"},
    "SVDD": {**COMMON, "nu": ...},
    "MORVR": COMMON,
    "KNFST": COMMON,
    "MultiTaskOneClassSVM": {**COMMON, "nu": ..., "mu": ...},
    "OutputKernelOCKSR": {**RIDGE, "tol": ..., "max_iter": ...},
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_methods_keep_the_words_of_their_parameters(name):
    """Where the contract names no default, `...` stands for any."""
    parameters = getattr(manyone, name)().get_params()
    for parameter, default in PARAMETERS[name].items():
        assert parameter in parameters
        assert default is ... or parameters[parameter] == default
