"""A long fit is announced: how many rows, how many settings, how long."""

import re

import numpy as np
import pandas as pd
import pytest

from manyone import IndependentOCKSR, TableModel
from manyone.progress import listening
from manyone.tables import forecast, sampling
from manyone.tables.summary import summary_of


@pytest.fixture
def lines(monkeypatch):
    """What is announced of the fit of a table, of which 30 rows a task are kept."""
    monkeypatch.setattr(sampling, "MOST_TASK_ROWS", 30)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"machine": [*"ab"] * 50, "x": rng.normal(size=100)})

    def fitted(**options):
        texts = []
        with listening(lambda done, total: None, texts.append):
            TableModel("machine", **options).fit(table)
        return texts

    return fitted


def test_short_fits_are_not_announced(lines):
    assert lines(method="default") == []


def test_rows_settings_and_seconds_are_announced(lines, monkeypatch):
    monkeypatch.setattr(forecast, "_ROW_SECONDS", 1.0)
    (text,) = lines(method=IndependentOCKSR())
    assert "a sample of 60 of 100 rows of 2 tasks" in text
    assert "settings" not in text
    assert "only say what came before" not in text
    (text,) = lines(method="auto", anomalies="faults")
    assert "settings" in text


def test_rows_that_only_say_what_came_before_are_no_sample(monkeypatch):
    monkeypatch.setattr(forecast, "_ROW_SECONDS", 1.0)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"machine": [*"ab"] * 60, "x": rng.normal(size=120)})
    texts = []
    with listening(lambda done, total: None, texts.append):
        model = TableModel("machine", method="default", time="when", history=12)
        model.fit(table.assign(when=np.arange(120) // 2))
    text = next(text for text in texts if text.startswith("fitting "))
    assert "fitting 120 rows of 2 tasks" in text
    assert "(the first 24 only say what came before)" in text


def test_what_is_announced_and_what_was_learned_are_as_many_numbers(monkeypatch):
    monkeypatch.setattr(forecast, "_ROW_SECONDS", 1.0)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(100, 3)), columns=[*"xyz"])
    table.loc[rng.choice(100, 20), "x"] = np.nan
    texts = []
    with listening(lambda done, total: None, texts.append):
        model = TableModel("machine", method=IndependentOCKSR())
        model.fit(table.assign(machine=[*"ab"] * 50))
    # Three numbers, one for gaps of x, one for gaps that no row had.
    assert "each as 5 numbers" in texts[0]
    assert (
        "3 of 3, as 5 numbers, 2 of them for missing values"
        in (dict(summary_of(model))["columns used"])
    )


def test_more_work_takes_longer():
    seconds = [
        forecast.seconds_to_fit(rows, 9, is_tuned=is_tuned)
        for rows, is_tuned in ((1_000, False), (2_000, False), (2_000, True))
    ]
    assert seconds == sorted(seconds)
    assert seconds[1] == pytest.approx(2 * seconds[0])


def test_tasks_that_borrow_say_how_many_independent_rows_they_have():
    """100 rows of which ten each are nearly the same count as some ten."""
    rng = np.random.default_rng(0)
    values = np.repeat(rng.normal(size=(40, 2)), 10, axis=0)
    values = values + 0.01 * rng.normal(size=(400, 2))
    table = pd.DataFrame(values, columns=[*"xy"])
    table = table.assign(machine=np.repeat([*"abcd"], 100), when=[*range(100)] * 4)
    model = TableModel("machine", method="default", anomalies="faults")
    promised = dict(summary_of(model.fit(table)))["promised"]
    assert "independent" not in promised
    model = TableModel(
        "machine", method="default", anomalies="faults", time="when", history=None
    )
    promised = dict(summary_of(model.fit(table)))["promised"]
    words = r"4 of 4 tasks borrow .*, as the rows of a usual task count as about (\d+) "
    counted = re.search(words + "independent ones", promised)
    assert counted and 4 <= int(counted[1]) <= 30, promised
