"""The page of a run: what it found in sentences, what was run, the table and the figures."""

from __future__ import annotations

from collections.abc import Sequence

from manyone.experiments.charts import Chart
from manyone.experiments.data import DATASETS
from manyone.experiments.findings import ANOMALIES, findings
from manyone.experiments.methods import AS_IN_PAPER
from manyone.experiments.plan import Plan, code_version
from manyone.experiments.results import HINDSIGHT, Results, Row, ties
from manyone.page import html as layout


def page(
    plan: Plan, results: Results, figures: Sequence[tuple[Chart, bytes]], command: str
) -> str:
    """HTML that loads nothing from elsewhere; the same values give the same text.

    Parameters
    ----------
    plan : Plan
    results : Results
    figures : sequence of (Chart, bytes)
        The charts, and their PNG.
    command : str
        What to type to run it again.

    Returns
    -------
    str
    """
    failures = [
        f"{o.cell.method} on {DATASETS[o.cell.dataset].title} ({o.cell.protocol}): {o.error}"
        for o in results.outcomes
        if o.error
    ]
    sizes_by_dataset = []
    for dataset in (DATASETS[name] for name in plan.datasets):
        protocols = dataset.protocols
        sizes = {kind: protocols[kind].smaller(plan.shrink) for kind in plan.protocols}
        sizes_by_dataset.append((dataset, sizes))
    environment = layout.templates("manyone.experiments", "manyone.page")
    text = environment.get_template("reproduction.html").render(
        plan=plan,
        version=code_version(),
        results=results,
        findings=findings(results, [chart for chart, _ in figures]),
        failures=list(dict.fromkeys(failures)),
        published=any(row.method.endswith(AS_IN_PAPER) for row in results.rows),
        sizes_by_dataset=sizes_by_dataset,
        tables=[auc_table(name, results) for name in results.datasets],
        figures=figures,
        command=command,
    )
    return text.lstrip()


def auc_table(name: str, results: Results) -> layout.Table:
    """The table of one data set; errors and tests only if there is more than one repetition."""
    rows = [row for row in results.rows if row.dataset == name]
    kinds = [kind for kind in ANOMALIES if any(row.protocol == kind for row in rows)]
    heads = ["method"]
    for kind in kinds:
        heads.append(ANOMALIES[kind])
        if results.repeated:
            heads.append("p")
        if kind == "seen":
            heads += ["paper", "difference"]
    lines = []
    for method in dict.fromkeys(row.method for row in rows):
        cells: list[layout.Cell] = []
        by_kind = {row.protocol: row for row in rows if row.method == method}
        for kind in kinds:
            row = by_kind.get(kind)
            cells += _auc_cells(row, results.of_kind(name, kind)[0], results)
            if kind == "seen":
                cells.append(_cell(row.paper if row else None, ".2f"))
                cells.append(_cell(row.ahead if row else None, "+.2f"))
        soft = method.endswith((AS_IN_PAPER, HINDSIGHT))
        lines.append(layout.Row(method, tuple(cells), soft=soft))
    spread = ", mean ± standard error" if results.repeated else ", one repetition"
    title = f"{DATASETS[name].title}: AUC in percent{spread}"
    return layout.Table(title, tuple(heads), tuple(lines))


def _auc_cells(row: Row | None, best: Row, results: Results) -> list[layout.Cell]:
    """A mean, and with more than one repetition the paired test against the best method."""
    if row is None:
        return [layout.Cell()] * (2 if results.repeated else 1)
    if not results.repeated:
        return [layout.Cell(str(row), row.mean)]
    mark = "level" if results.level(row, best) else ""
    if ties(row, best):
        mark = "best"
    pair = results.pair(row.dataset, row.protocol, row.method, best.method)
    p = pair.p if pair else None
    test = _cell(p, ".3f", "soft")
    if p is not None and p < 0.001:
        test = layout.Cell("< 0.001", p, "soft")
    return [layout.Cell(str(row), row.mean, mark), test]


def _cell(number: float | None, digits: str, mark: str = "") -> layout.Cell:
    text = "" if number is None else format(number, digits)
    return layout.Cell(text, number, mark)
