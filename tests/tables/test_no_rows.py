"""A model without the rows of its table scores and explains as before."""

import numpy as np
import pandas as pd
import pytest

import manyone
from manyone.cli import main


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    n = 120
    return pd.DataFrame(
        {
            "shop": np.repeat(["north", "south", "west"], n // 3),
            "when": pd.date_range("2026-01-01", periods=n, freq="h"),
            "sales": rng.normal(1234.5, 10, n),
            "clerk": rng.choice(["Ada Secretname", "Bo Hiddenperson"], n),
            "visits": rng.poisson(40, n).astype(float),
        }
    )


@pytest.fixture(scope="module")
def today(rows):
    return rows.iloc[::5].assign(sales=lambda table: table.sales + 500.0)


@pytest.fixture(scope="module")
def model(rows):
    return manyone.TableModel("shop", time="when", method="default").fit(rows)


@pytest.fixture(scope="module")
def dropped(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "shops.manyone"
    manyone.save(model, path)
    manyone.save(manyone.load(path).drop_rows(), path)
    return manyone.load(path)


def test_scores_reasons_and_incidents_stay(model, dropped, today):
    pd.testing.assert_frame_equal(
        dropped.score(today, explain=2), model.score(today, explain=2)
    )
    pd.testing.assert_frame_equal(dropped.incidents(today), model.incidents(today))
    before = model.explain(today)
    after = dropped.explain(today)
    assert (before.nearest != "").all() and (after.nearest == "").all()
    pd.testing.assert_frame_equal(
        after.drop(columns="nearest"), before.drop(columns="nearest")
    )


def test_what_stood_in_the_rows_is_gone(dropped, today, tmp_path):
    assert dropped.training_.columns == {}
    assert dropped.training_.times is None
    assert not dropped.training_.hashes.any()
    dropped.report(tmp_path / "page.html", today)
    assert "closest training rows" not in (tmp_path / "page.html").read_text("utf-8")


def test_what_needs_rows_is_refused(dropped, rows):
    with pytest.raises(
        ValueError, match=r"enroll needs the training rows.*Fit it again"
    ):
        dropped.enroll(rows)
    with pytest.raises(ValueError, match="forget needs the training rows"):
        dropped.forget("north")
    other_rate = dropped.recalibrate(0.2)
    assert "blocks of time" in other_rate.calibrated_["on"]


def test_the_command_drops_rows(rows, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows.to_csv("rows.csv", index=False)
    options = ["--task", "shop", "--time", "when", "--no-tune", "--out"]
    assert main(["fit", "rows.csv", *options, "shops.manyone", "--no-rows"]) == 0
    assert main(["info", "shops.manyone"]) == 0
    assert main(["score", "shops.manyone", "rows.csv", "--out", "scores.csv"]) == 0
    assert main(["enroll", "shops.manyone", "rows.csv"]) == 2
    assert "Fit it again" in capsys.readouterr().err
