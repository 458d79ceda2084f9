"""The page of a run: the table, what was run, and the figures."""

from __future__ import annotations

from collections.abc import Sequence

from manyone.experiments.data import DATASETS
from manyone.experiments.figures import Drawing
from manyone.experiments.methods import AS_IN_PAPER
from manyone.experiments.plan import Plan, code_version
from manyone.experiments.results import (
    ANOMALIES,
    HINDSIGHT,
    LEVEL,
    Results,
    Row,
    paired_p,
)
from manyone.page import html as layout


def page(
    plan: Plan, results: Results, figures: Sequence[tuple[Drawing, bytes]], command: str
) -> str:
    """HTML that loads nothing from elsewhere; the same values give the same text.

    Parameters
    ----------
    plan : Plan
    results : Results
    figures : sequence of (Drawing, bytes)
        The figures, and their PNG.
    command : str
        What to type to run it again.

    Returns
    -------
    str
    """
    failures = [
        f"{o.cell.method} on {DATASETS[o.cell.dataset].title} ({o.cell.protocol}): "
        f"{o.error}"
        for o in results.failed
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
        failures=list(dict.fromkeys(failures)),
        published=any(row.method.endswith(AS_IN_PAPER) for row in results.rows),
        sizes_by_dataset=sizes_by_dataset,
        tables=[auc_table(name, results) for name in results.datasets],
        figures=figures,
        command=command,
    )
    return text.lstrip()


def auc_table(name: str, results: Results) -> layout.Table:
    """The table of a data set; errors and tests only with several repetitions."""
    heads = ["method"]
    cells: dict[str, list[layout.Cell]] = {m: [] for m in results.methods(name)}
    for kind in results.kinds:
        rows = results.of_kind(name, kind)
        by_method = {row.method: row for row in rows}
        heads.append(ANOMALIES[kind])
        heads += ["p"] if results.repeated else []
        heads += ["paper"] if kind == "seen" else []
        for method in cells:
            row = by_method.get(method)
            cells[method] += _auc_cells(row, rows[0], results.repeated)
            if kind == "seen":
                cells[method].append(_cell(row.paper if row else None, ".2f"))
    soft = (AS_IN_PAPER, HINDSIGHT)
    lines = [layout.Row(m, tuple(c), soft=m.endswith(soft)) for m, c in cells.items()]
    spread = ", mean ± standard error" if results.repeated else ", one repetition"
    title = f"{DATASETS[name].title}: AUC in percent{spread}"
    return layout.Table(title, tuple(heads), tuple(lines))


def _auc_cells(row: Row | None, best: Row, repeated: bool) -> list[layout.Cell]:
    """A mean, and with several repetitions the paired test against the best."""
    if row is None:
        return [layout.Cell()] * (2 if repeated else 1)
    if not repeated:
        return [layout.Cell(str(row), row.mean)]
    p = None if row is best else paired_p(best, row)
    mark = "level" if p is not None and p >= LEVEL else ""
    if round(row.mean, 2) == round(best.mean, 2):  # the digits that are shown
        mark = "best"
    test = _cell(p, ".3f", "soft")
    if p is not None and p < 0.001:
        test = layout.Cell("< 0.001", p, "soft")
    return [layout.Cell(str(row), row.mean, mark), test]


def _cell(number: float | None, digits: str, mark: str = "") -> layout.Cell:
    text = "" if number is None else format(number, digits)
    return layout.Cell(text, number, mark)
