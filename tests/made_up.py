"""Values of a page that no model has made: tasks with odd names, and planted faults."""

import numpy as np

from manyone.alerts.evidence import Runs
from manyone.alerts.incidents import Findings
from manyone.alerts.values import Rows, Tasks
from manyone.page.fleet import Drift, FleetReport, Relations
from manyone.page.html import Cell, Row, Table

ODD = (
    'pump "<script>alert(1)</script>"',
    "line\nbreak, comma",
    "лампа 🔧 é",
    "</script><b>x",
)
COLUMNS = ("load", "coolant temp", "vibration x", "vibration y", "feed rate", "current")
RATE = 0.05
# Task, leading column, first and last row of what is planted.
PLANTED = ((2, 1, 12, 32), (7, 2, 5, 29), (11, 0, 18, 40), (0, 4, 10, 13))


def made_up_findings(
    T=24, n=30, m=40, *, seed=0, timed=True, planted=PLANTED, named=False
):
    """Tasks of up to n training rows, m scored rows each, in random order."""
    rng = np.random.default_rng(seed)
    names = (*ODD, *(f"press {k:02d}" for k in range(T)))[:T]
    trained = rng.integers(max(2, n // 2), n + 1, T)
    starts = np.concatenate([[0], np.cumsum(trained)])
    left_out = [np.sort(-rng.gamma(6, 0.12, size)) for size in trained]
    pool = np.sort(np.concatenate(left_out))
    is_own = 1 / (trained + 1) <= RATE
    references = [
        scores if alone else pool
        for scores, alone in zip(left_out, is_own, strict=True)
    ]
    threshold = np.array([r[max(0, int(RATE * (len(r) + 1)) - 1)] for r in references])
    # Nobody's threshold lies above the lowest of its own rows if it is borrowed.
    lowest = np.array([scores[0] for scores in left_out])
    threshold = np.where(is_own, threshold, np.minimum(threshold, lowest))
    medians = np.array([np.median(scores) for scores in left_out])
    # Left-out rows are independent: any order is one in time.
    order = np.random.default_rng(seed)
    in_time = [order.permutation(size) for size in trained]
    tasks = Tasks(
        names=names,
        trained=trained,
        basis=tuple("own" if alone else "pooled" for alone in is_own),
        counted=trained.astype(float),
        threshold=threshold,
        unit=np.maximum(medians - threshold, 0.05),
        left_out=np.concatenate(left_out),
        starts=starts,
        runs=Runs((place + 1) / (len(place) + 1) for place in in_time),
    )
    task = np.repeat(np.arange(T), m)
    score = -rng.gamma(6, 0.12, T * m)
    leading = rng.integers(len(COLUMNS), size=T * m)
    for code, column, first, last in planted:
        rows = slice(code * m + first * m // 40, code * m + last * m // 40)
        score[rows] -= 0.5 + rng.gamma(4, 0.35, rows.stop - rows.start)
        leading[rows] = column
    p_value = np.concatenate(
        [
            (1 + np.searchsorted(r, score[t * m : (t + 1) * m], side="right"))
            / (len(r) + 1)
            for t, r in enumerate(references)
        ]
    )
    alarm = score < threshold[task]
    when = np.tile(1.79e9 + 21600.0 * np.arange(m), T) + rng.uniform(0, 3600, T * m)
    order = rng.permutation(T * m)
    ranks = (1 + np.searchsorted(pool, score, side="right")) / (len(pool) + 1)
    reasons = [
        f"{COLUMNS[k]} = {value:.1f}, expected about 40"
        for k, value in zip(leading, score, strict=True)
    ]
    markup = "current = <b>9</b>, expected about 4"
    rows = Rows(
        number=np.arange(T * m),
        task=task[order],
        score=score[order],
        p_value=p_value[order],
        rank_p=ranks[order],
        depth_p=np.ones(T * m),
        alarm=alarm[order],
        leading=tuple(COLUMNS[leading[k]] if alarm[k] else "" for k in order),
        reasons=tuple((reasons[k], markup) if alarm[k] else () for k in order),
        notes=tuple("unlike its own rows" if alarm[k] else "" for k in order),
        time=when[order] if timed else None,
        dated=timed,
        ids=tuple(f'reading "{k}", shift 2' for k in range(T * m)) if named else None,
    )
    return Findings(tasks, rows, RATE)


def made_up(T=24, n=30, m=40, *, seed=0, timed=True, planted=PLANTED):
    """The values of a page about such findings."""
    findings = made_up_findings(T, n, m, seed=seed, timed=timed, planted=planted)
    rng = np.random.default_rng(seed)
    first, second = np.triu_indices(min(T, 40), 1)
    weight = rng.normal(0, 0.05, len(first)) + 0.4 * (first % 3 == second % 3)
    strongest = np.argsort(-np.abs(weight))[: 4 * T]
    lines = tuple(
        Row(name, (Cell("number", mark="text"), Cell("", mark="text")))
        for name in COLUMNS
    )
    columns = Table("What the encoder did", ("column", "kind", "note"), lines)
    meaning = "Red pairs look alike."
    return FleetReport(
        model="fleet.manyone",
        table="today.csv",
        method="JointOCKSR + IndependentOCKSR",
        rate=RATE,
        tasks=findings.tasks,
        columns=columns,
        findings=findings,
        relations=Relations(
            first[strongest], second[strongest], weight[strongest], meaning
        ),
        facts=(
            ("Looks for", "faults"),
            ("Promise", "at most 0.05 of normal rows raise an alarm"),
        ),
        drift=(Drift(1.79e9 + 21600 * 22, "drift in coolant temp"),) if timed else (),
    )
