"""Times with a time zone and times without one: never compared with each other."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from starlette import testclient

from manyone import IndependentOCKSR, Monitor, TableModel, TaskHistory
from manyone.cli import main
from manyone.serve import make_app

METHOD = IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0)
CLOCKS = {
    "numbers": "numbers",
    "local": "dates without a time zone",
    "zoned": "dates with a time zone",
}


def pumps(seed, start, hours):
    rng = np.random.default_rng(seed)
    when = pd.date_range(start, periods=hours, freq="h")
    return pd.DataFrame(
        {
            "pump": np.repeat(["a", "b", "c"], hours),
            "when": np.tile(when, 3),
            "flow": rng.normal(310, 8, 3 * hours),
        }
    )


def told_by(table, clock):
    """The same rows, with times that are written otherwise."""
    when = table["when"]
    written = {
        "numbers": (when - pd.Timestamp("2026-01-01")).dt.total_seconds(),
        "local": when,
        "zoned": when.dt.tz_localize("Europe/Berlin"),
    }
    return table.assign(when=written[clock])


def as_texts(table):
    when = [moment.isoformat() for moment in table["when"]]
    return table.assign(when=when)


def unfitted():
    return TableModel("pump", time="when", history=12, method=METHOD)


@pytest.fixture(scope="module")
def models():
    train = pumps(0, "2026-01-05", 150)
    return {clock: unfitted().fit(told_by(train, clock)) for clock in CLOCKS}


@pytest.fixture(scope="module")
def later():
    return pumps(1, "2026-01-12", 6)


@pytest.mark.parametrize("known", CLOCKS)
@pytest.mark.parametrize("given", CLOCKS)
def test_a_model_takes_times_as_those_of_its_fit(models, later, known, given):
    model = models[known]
    rows = told_by(later, given)
    frames = [rows, pl.from_pandas(rows)]
    if given != "numbers":
        frames.append(as_texts(rows))
    calls = [model.score, model.enroll, lambda frame: Monitor(model).update(frame)]
    for frame in frames:
        if known == given:
            assert np.isfinite(model.score(frame)["score"].to_numpy()).all()
            continue
        for call in calls:
            with pytest.raises(ValueError) as refusal:
                call(frame)
            text = str(refusal.value)
            assert f"'when' holds {CLOCKS[given]}, and" in text
            assert CLOCKS[known] in text and "or fit again to rows with" in text


def test_all_times_of_a_table_are_written_in_one_way(models, later):
    train = as_texts(pumps(0, "2026-01-05", 150))
    train.loc[7, "when"] += "+01:00"
    with pytest.raises(ValueError, match="dates without a time zone and dates with"):
        unfitted().fit(train)
    rows = as_texts(later)
    rows.loc[1, "when"] += "Z"
    for known in ("local", "zoned"):
        with pytest.raises(ValueError, match="or fit again"):
            models[known].score(rows)


def test_parts_of_a_table_are_written_in_one_way():
    parts = [pumps(0, "2026-01-05", 100), pumps(1, "2026-01-10", 100)]
    parts[1] = told_by(parts[1], "zoned")
    with pytest.raises(ValueError, match="'when' holds dates with a time zone, and"):
        unfitted().fit(lambda: parts)


def test_a_refit_takes_the_times_of_its_rows(models, later):
    model = unfitted()
    model.fit(pumps(0, "2026-01-05", 150))
    zoned = told_by(pumps(2, "2026-01-05", 150), "zoned")
    with pytest.raises(ValueError, match="holds dates with a time zone, and"):
        model.refit(zoned[zoned["pump"] != "a"], keep=["a"])
    model.refit(zoned)
    assert np.isfinite(model.score(told_by(later, "zoned"))["score"]).all()


def test_missing_times_are_of_no_clock(models, later):
    for model in models.values():
        rows = later.assign(when=[None] * len(later))
        assert np.isfinite(model.score(rows)["score"]).all()


def test_the_service_refuses_and_says_what_to_do(models, later):
    client = testclient.TestClient(make_app(models["local"], "pumps.manyone"))
    rows = as_texts(told_by(later, "zoned")).to_dict("records")
    answer = client.post("/score", json=rows)
    assert answer.status_code == 422
    assert "Give local times without a zone" in answer.json()["error"]


@pytest.mark.parametrize("has_zone", [False, True])
def test_files_and_commands(tmp_path, monkeypatch, capsys, has_zone):
    monkeypatch.chdir(tmp_path)
    zone = "+01:00" if has_zone else ""
    other = "" if has_zone else "Z"
    train = as_texts(pumps(0, "2026-01-05", 150))
    later = as_texts(pumps(1, "2026-01-12", 6).sort_values("when", kind="stable"))
    train.assign(when=train["when"] + zone).to_csv("train.csv", index=False)
    later.assign(when=later["when"] + zone).to_csv("later.csv", index=False)
    later.assign(when=later["when"] + other).to_csv("other.csv", index=False)
    fit = ["fit", "train.csv", "--task", "pump", "--time", "when", "--history", "12"]
    assert main([*fit, "--no-tune", "--out", "m.manyone"]) == 0
    watch = ["watch", "m.manyone", "--state", "state.db"]
    score = ["score", "m.manyone", "--out", "scores.csv"]
    for command in (score, watch):
        assert main([*command, "later.csv"]) == 0
        capsys.readouterr()
        assert main([*command, "other.csv"]) == 2
        assert "or fit again to rows with such times" in capsys.readouterr().err
    mixed = train["when"].copy()
    mixed[3] += "+01:00"
    train.assign(when=mixed).to_csv("train.csv", index=False)
    assert main([*fit, "--no-tune", "--out", "n.manyone"]) == 2
    assert "has a time zone and" in capsys.readouterr().err


def test_arrays_with_a_past(later):
    X = later[["flow", "when"]]
    zoned = told_by(later, "zoned")[["flow", "when"]]
    history = TaskHistory().fit(X, time="when")
    with pytest.raises(ValueError, match="time holds dates with a time zone, and in"):
        history.transform(zoned)
    with pytest.raises(ValueError, match="time holds numbers, and in the fit"):
        history.transform(X[["flow"]], time=np.arange(len(X)))
    history.fit(zoned, time="when")
    assert history.transform(pl.from_pandas(zoned)).shape == (len(X), 3)
    with pytest.raises(ValueError, match="Give a zone with each time"):
        history.transform(X)
