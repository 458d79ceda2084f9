"""The page of a run: what it found in sentences, what was run, the table and the figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from manyone.estimators import METHODS
from manyone.experiments.cells import ALARM_RATES
from manyone.experiments.data import DATASETS
from manyone.experiments.methods import AS_IN_PAPER, PAPER_AUC, in_paper, ours
from manyone.experiments.plan import Plan, code_version
from manyone.experiments.tables import HINDSIGHT, Results, Row, ties
from manyone.report import page as layout
from manyone.report.charts import Chart
from manyone.report.page import (
    Cell,
    Page,
    Picture,
    Section,
    Table,
    Topics,
    sentence,
    templates,
)

_HEADS = {"seen": "seen anomalies", "unseen": "unseen anomalies", "faults": "faults"}
_ASKED = 0.1  # alarm rate that the summary is about


def page(
    plan: Plan, results: Results, pictures: Sequence[Picture], command: str
) -> Page:
    """The page, as values for :func:`manyone.report.page.render`.

    Parameters
    ----------
    plan : Plan
    results : Results
    pictures : sequence of Picture
    command : str
        What to type to run it again.

    Returns
    -------
    Page
    """
    say: Any = templates("manyone.experiments").get_template("prose.html").module
    errors = [(o.cell, o.error) for o in results.outcomes if o.error]
    failed = [
        f"{c.method} on {DATASETS[c.dataset].title} ({c.protocol}): {e}"
        for c, e in errors
    ]
    topics = Topics(findings(results, [picture.chart for picture in pictures]))
    short = [
        say.findings(results.repeated),
        topics,
        *([say.failures(failed)] if failed else []),
    ]
    published = any(row.method.endswith(AS_IN_PAPER) for row in results.rows)
    setup = [say.setup(plan.protocols, published, plan.missing)]
    for dataset in (DATASETS[name] for name in plan.datasets):
        sizes = {
            kind: dataset.protocols[kind].smaller(plan.shrink)
            for kind in plan.protocols
        }
        setup.append(say.dataset(dataset.title, dataset.note, sizes))
    tables = [auc_table(name, results) for name in results.datasets]
    sections = [
        Section("findings", "In short", tuple(short)),
        Section("setup", "What was run", tuple(setup)),
        Section("table", "The table", (say.table(results.repeated), *tables), "Table"),
        Section("figures", "Figures", (say.figures(), *pictures)),
    ]
    faults = "faults" in plan.protocols
    if not faults:
        differ = "Where we differ from the paper, and why"
        differences = say.differences(plan.datasets, plan.protocols)
        sections.append(Section("differences", differ, (differences,), "Differences"))
    sections.append(Section("again", "Run it again", (say.again(command),)))
    title = (
        "Entities gone wrong"
        if faults
        else "Multi-task one-class classification, reproduced"
    )
    intro = say.intro(code_version(), plan.repeats, plan.seed, faults)
    return Page(title, intro, tuple(sections))


def auc_table(name: str, results: Results) -> Table:
    """The table of one data set; errors and tests only if there is more than one repetition."""
    mine = {
        (row.method, row.protocol): row for row in results.rows if row.dataset == name
    }
    found = {p: results.of_kind(name, p) for p in _HEADS}
    best = {p: rows[0] for p, rows in found.items() if rows}
    heads = ["method"]
    for p in best:
        heads.append(_HEADS[p])
        if results.repeated:
            heads.append("p")
        if p == "seen":
            heads += ["paper", "difference"]
    lines = []
    for method in dict.fromkeys(method for method, _ in mine):
        cells: list[Cell] = []
        for p in best:
            row = mine.get((method, p))
            cells += _auc_cells(row, best[p], results)
            if p == "seen":
                printed = row.paper if row else None
                ahead = row.mean - printed if row and printed is not None else None
                cells += [_cell(printed, ".2f"), _cell(ahead, "+.2f")]
        soft = method.endswith((AS_IN_PAPER, HINDSIGHT))
        lines.append(layout.Row(method, tuple(cells), soft=soft))
    spread = ", mean ± standard error" if results.repeated else ", one repetition"
    title = f"{DATASETS[name].title}: AUC in percent{spread}"
    return Table(title, tuple(heads), tuple(lines))


def _auc_cells(row: Row | None, best: Row, results: Results) -> list[Cell]:
    """A mean, and with more than one repetition the paired test against the best method."""
    if row is None:
        return [Cell()] * (1 + results.repeated)
    if not results.repeated:
        return [Cell(str(row), row.mean)]
    mark = "level" if results.level(row, best) else ""
    if ties(row, best):
        mark = "best"
    pair = results.pair(row.dataset, row.protocol, row.method, best.method)
    p = pair.p if pair else None
    test = (
        Cell("< 0.001", p, "soft")
        if p is not None and p < 0.001
        else _cell(p, ".3f", "soft")
    )
    return [Cell(str(row), row.mean, mark), test]


def _cell(number: float | None, digits: str, mark: str = "") -> Cell:
    return Cell("" if number is None else format(number, digits), number, mark)


def findings(
    results: Results, charts: Sequence[Chart]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Topics, each with a sentence for each data set that it applies to.

    Parameters
    ----------
    results : Results
    charts : sequence of Chart
        As drawn from the same results.

    Returns
    -------
    tuple of (str, tuple of str)
    """
    found = [
        name for name, kind in METHODS.items() if in_paper(name) and kind.can.regression
    ]
    # Regressions that the paper compares: each task alone, all together, structured.
    alone, joint, *structured = variants = sorted(
        found, key=lambda name: METHODS[name].can.joint
    )
    # By topic: a macro in ``findings.html``, and the function that finds its values.
    topics: dict[str, tuple[str, Callable[[str], tuple[Any, ...]]]] = {
        "Best method" if results.repeated else "Highest AUC": (
            "best",
            partial(_best, results),
        ),
        "Against the paper's figures": ("paper", partial(_paper, results)),
        "Learning the tasks together": (
            "step",
            partial(_step, results, alone, [joint]),
        ),
        "Learning how tasks relate": (
            "step",
            partial(_step, results, joint, structured),
        ),
        "Everyday rivals": ("rivals", partial(_rivals, results)),
        "False alarms": ("alarms", partial(_alarms, results)),
        "AUC lost to corrupted training rows": (
            "losses",
            partial(_losses, charts, variants[1:]),
        ),
    }
    said: dict[str, list[str]] = {}
    for topic, (words, find) in topics.items():
        for name in results.datasets:
            if facts := find(name):
                text = sentence("manyone.experiments", "findings.html", words, *facts)
                said.setdefault(topic, []).append(f"{DATASETS[name].title}: {text}.")
    return tuple((topic, tuple(lines)) for topic, lines in said.items())


def _best(results: Results, name: str) -> tuple[Any, ...]:
    """For each protocol the best rows, and the methods that are level with them."""
    found = []
    for kind in _HEADS:
        if rows := results.of_kind(name, kind):
            first = [row for row in rows if ties(row, rows[0])]
            level = [
                row.method for row in rows[len(first) :] if results.level(row, rows[0])
            ]
            found.append((kind, first, level))
    return (found,) if found else ()


def _paper(results: Results, name: str) -> tuple[Any, ...]:
    """How far each method is ahead of the paper's figure, and the methods that were not run."""
    rows = [
        row for row in results.rows if row.dataset == name and row.paper is not None
    ]
    # Tuned, or as in the paper where the tuned method was not run.
    shown = {
        row.family: row
        for row in sorted(rows, key=lambda row: row.method == row.family)
    }
    gaps = {
        row.method: row.mean - row.paper
        for row in shown.values()
        if row.paper is not None
    }
    missing = [family for family in PAPER_AUC.get(name, ()) if family not in shown]
    return (gaps, missing) if gaps else ()


def _step(
    results: Results, base: str, methods: Sequence[str], name: str
) -> tuple[Any, ...]:
    """For each protocol the paired tests of some methods against another one."""
    found = []
    for kind in _HEADS:
        if pairs := {
            m: pair for m in methods if (pair := results.pair(name, kind, m, base))
        }:
            found.append((kind, pairs))
    return (base, found) if found else ()


def _rivals(results: Results, name: str) -> tuple[Any, ...]:
    """For each protocol the best of our methods, the best rival, and their paired test."""
    found = []
    for kind in _HEADS:
        rows = results.of_kind(name, kind)
        mine = next((row for row in rows if ours(row.method)), None)
        other = next((row for row in rows if not ours(row.method)), None)
        if (
            mine
            and other
            and (pair := results.pair(name, kind, mine.method, other.method))
        ):
            found.append((kind, mine, other, pair))
    return (found,) if found else ()


def _alarms(results: Results, name: str) -> tuple[Any, ...]:
    """The rate asked for, how many of our methods keep it, and all rates in ascending order."""
    place = ALARM_RATES.index(_ASKED)
    rates = {
        method: float(found[place]) for method, found in results.alarms(name).items()
    }
    order = sorted(rates.items(), key=lambda item: item[1])
    mine = [(method, rate) for method, rate in order if ours(method)]
    others = [(method, rate) for method, rate in order if not ours(method)]
    kept = sum(
        round(rate, 3) <= _ASKED for _, rate in mine
    )  # as many digits as are shown
    return (_ASKED, kept, mine, others) if mine else ()


def _losses(
    charts: Sequence[Chart], methods: Sequence[str], name: str
) -> tuple[Any, ...]:
    """What methods lose between clean rows and the most corrupted ones, by kind of corruption."""
    found: dict[str, list[tuple[float, str]]] = {}
    for chart in (chart for chart in charts if chart.name.startswith("robustness_")):
        for panel in (
            panel for panel in chart.panels if panel.title == DATASETS[name].title
        ):
            losses = sorted(
                (c.y[0] - c.y[-1], c.name) for c in panel.curves if c.name in methods
            )
            if losses:
                found[chart.title.partition(":")[0]] = losses
    return (found,) if found else ()
