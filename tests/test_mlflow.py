"""Models in MLflow are files of ours, and answer as they do here."""

import numpy as np
import pandas as pd
import pytest

import manyone
from manyone.mlflow import _load_pyfunc, log_model


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    machines = np.repeat(["lathe", "press", "pump"], 30)
    return pd.DataFrame({"machine": machines, "x": rng.normal(size=90)})


@pytest.fixture(scope="module")
def model(rows):
    return manyone.TableModel("machine", method="default").fit(rows)


def test_what_mlflow_loads_scores_tables(model, rows, tmp_path):
    manyone.save(model, tmp_path / "model.manyone")
    for place in (tmp_path, tmp_path / "model.manyone"):
        scored = _load_pyfunc(str(place)).predict(rows, {"explain": 1})
        pd.testing.assert_frame_equal(scored, model.score(rows, explain=1))


def test_a_logged_model_answers_as_before(model, rows, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    with mlflow.start_run():
        logged = log_model(model, name="alarms", input_example=rows.head())
    loaded = mlflow.pyfunc.load_model(logged.model_uri)
    pd.testing.assert_frame_equal(loaded.predict(rows), model.score(rows))
