"""The page of a run: what was run, the table, the figures, and where the paper differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manyone.experiments.data import DATASETS
from manyone.experiments.findings import findings
from manyone.experiments.methods import AS_IN_PAPER
from manyone.experiments.plan import Plan, code_version
from manyone.experiments.tables import HINDSIGHT, Results, Row, ties
from manyone.report import page as layout
from manyone.report.page import Cell, Page, Picture, Section, Table, Topics, templates

_HEADS = {"seen": "seen anomalies", "unseen": "unseen anomalies", "faults": "faults"}


def page(plan: Plan, results: Results, pictures: Sequence[Picture], command: str) -> Page:
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
    failed = [f"{c.method} on {DATASETS[c.dataset].title} ({c.protocol}): {e}" for c, e in errors]
    topics = Topics(findings(results, [picture.chart for picture in pictures]))
    short = [say.findings(results.repeated), topics, *([say.failures(failed)] if failed else [])]
    published = any(row.method.endswith(AS_IN_PAPER) for row in results.rows)
    setup = [say.setup(plan.protocols, published, plan.missing)]
    for dataset in (DATASETS[name] for name in plan.datasets):
        sizes = {kind: dataset.protocols[kind].smaller(plan.shrink) for kind in plan.protocols}
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
    title = "Entities gone wrong" if faults else "Multi-task one-class classification, reproduced"
    intro = say.intro(code_version(), plan.repeats, plan.seed, faults)
    return Page(title, intro, tuple(sections))


def auc_table(name: str, results: Results) -> Table:
    """The table of one data set: errors and tests only where there are repetitions."""
    mine = {(row.method, row.protocol): row for row in results.rows if row.dataset == name}
    found = {p: results.of_kind(name, p) for p in _HEADS}
    best = {p: rows[0] for p, rows in found.items() if rows}
    heads = ["method"]
    for p in best:
        heads += [_HEADS[p], *(["p"] if results.repeated else [])]
        heads += ["paper", "difference"] if p == "seen" else []
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
    """A mean, and the paired test against the best one where there are repetitions."""
    if row is None:
        return [Cell()] * (1 + results.repeated)
    if not results.repeated:
        return [Cell(str(row), row.mean)]
    mark = "best" if ties(row, best) else "level" if results.level(row, best) else ""
    pair = results.pair(row.dataset, row.protocol, row.method, best.method)
    p = pair.p if pair else None
    test = Cell("< 0.001", p, "soft") if p is not None and p < 0.001 else _cell(p, ".3f", "soft")
    return [Cell(str(row), row.mean, mark), test]


def _cell(number: float | None, digits: str, mark: str = "") -> Cell:
    return Cell("" if number is None else format(number, digits), number, mark)
