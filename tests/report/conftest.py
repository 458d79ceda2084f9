"""Values of a page that no model has made: tasks with odd names, and faults in four places."""

import numpy as np
import pytest

from manyone.report.chance import tail_pvalues
from manyone.report.fleet import FleetReport, Relations, Rows, Tasks
from manyone.report.page import Cell, Row, Table

ODD = (
    'pump "<script>alert(1)</script>"',
    "line\nbreak, comma",
    "лампа 🔧 é",
    "</script><b>x",
)
COLUMNS = ("load", "coolant temp", "vibration x", "vibration y", "feed rate", "current")
RATE = 0.05
# Task, leading column, first and last row of what is planted.
PLANTED = ((2, 1, 20, 32), (7, 2, 5, 9), (11, 0, 30, 40), (0, 4, 10, 13))


@pytest.fixture(scope="session")
def fleet_report():
    """Function that makes such values; `planted` and `columns` say what is in them."""
    made_up.planted, made_up.columns, made_up.rate = PLANTED, COLUMNS, RATE
    return made_up


def made_up(T=24, n=30, m=40, *, seed=0, timed=True, planted=PLANTED):
    """Tasks of up to n training rows, m scored rows each, in random order."""
    rng = np.random.default_rng(seed)
    names = (*ODD, *(f"press {k:02d}" for k in range(T)))[:T]
    trained = rng.integers(max(2, n // 2), n + 1, T)
    starts = np.concatenate([[0], np.cumsum(trained)])
    left = [np.sort(-rng.gamma(6, 0.12, k)) for k in trained]
    pool = np.sort(np.concatenate(left))
    own = 1 / (trained + 1) <= RATE
    reference = [mine if alone else pool for mine, alone in zip(left, own, strict=True)]
    threshold = np.array([r[max(0, int(RATE * (len(r) + 1)) - 1)] for r in reference])
    tasks = Tasks(
        names,
        trained,
        tuple("own" if alone else "pooled" for alone in own),
        np.array([len(r) for r in reference], dtype=float),
        trained.astype(float),
        threshold,
        np.maximum([np.median(mine) for mine in left] - threshold, 0.05),
        np.concatenate(left),
        starts,
    )
    task = np.repeat(np.arange(T), m)
    score, lead = -rng.gamma(6, 0.12, T * m), rng.integers(len(COLUMNS), size=T * m)
    for t, column, first, last in planted:
        rows = slice(t * m + first * m // 40, t * m + last * m // 40)
        score[rows] -= 0.5 + rng.gamma(4, 0.35, rows.stop - rows.start)
        lead[rows] = column
    p = np.concatenate(
        [
            (1 + np.searchsorted(r, score[t * m : (t + 1) * m], side="right"))
            / (len(r) + 1)
            for t, r in enumerate(reference)
        ]
    )
    alarm = p <= RATE
    when = np.tile(1.79e9 + 21600.0 * np.arange(m), T) + rng.uniform(0, 3600, T * m)
    order = rng.permutation(T * m)
    why = [
        f"{COLUMNS[k]} = {v:.1f}, expected about 40"
        for k, v in zip(lead, score, strict=True)
    ]
    rows = Rows(
        *(np.arange(T * m), task[order], score[order], p[order]),
        tail_pvalues(score, pool)[order],
        alarm[order],
        tuple(COLUMNS[lead[k]] if alarm[k] else "" for k in order),
        tuple(
            (why[k], "current = <b>9</b>, expected about 4") if alarm[k] else ()
            for k in order
        ),
        tuple("unlike its own rows" if alarm[k] else "" for k in order),
        *((when[order], True) if timed else ()),
    )
    first, second = np.triu_indices(min(T, 40), 1)
    weight = rng.normal(0, 0.05, len(first)) + 0.4 * (first % 3 == second % 3)
    kept = np.argsort(-np.abs(weight))[: 4 * T]
    columns = Table(
        "What the encoder did",
        ("column", "kind", "note"),
        tuple(
            Row(c, (Cell("number", mark="text"), Cell("", mark="text")))
            for c in COLUMNS
        ),
    )
    return FleetReport(
        *(
            "fleet.manyone",
            "today.csv",
            "JointOCKSR + IndependentOCKSR",
            RATE,
            tasks,
            rows,
        ),
        Relations(first[kept], second[kept], weight[kept], "Red pairs look alike."),
        (
            ("Looks for", "faults"),
            ("Promise", "at most 0.05 of normal rows raise an alarm"),
        ),
        (("Columns", "What became of them.", columns),),
        ((1.79e9 + 21600 * 22, "drift in coolant temp"),) if timed else (),
    )
