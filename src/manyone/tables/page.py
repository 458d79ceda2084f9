"""From a model of tables, and a table that it scores, to the values of a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from manyone._types import Array, Codes
from manyone.alerts.incidents import Findings
from manyone.alerts.missing import ColumnGaps, gap_sentences
from manyone.data.labels import find
from manyone.files import write_atomically
from manyone.page.fleet import FleetReport, Relations
from manyone.page.fleet_page import fleet_page
from manyone.page.html import Cell, Row, Table
from manyone.tables.incidents import (
    MOST_EXPLAINED,
    findings_of,
    scored_rows,
    tasks_of,
    times_in,
)
from manyone.tables.rows import TableRows
from manyone.tables.summary import facts_of
from manyone.tables.wording import plain_text

if TYPE_CHECKING:
    from manyone.tables.model import TableModel


def write_page(path: str | Path, report: FleetReport) -> None:
    """Write the page of some values, whole or not at all."""
    write_atomically(Path(path), fleet_page(report).encode("utf-8", "replace"))


def report_of(
    model: TableModel, table: object, model_name: str, table_name: str
) -> FleetReport:
    """The values of the page of a model, and of a table that it scores.

    Parameters
    ----------
    model : TableModel
        Fitted.
    table : data frame or None
    model_name, table_name : str
        What the page and the commands that it suggests call them.
    """
    if table is None:
        return fleet_report(model, None, model_name, "")
    rows, _ = model.read(table)
    findings = findings_of(model, [scored_rows(model, rows, model._answer(rows))])
    remarks = (times_in(model, rows)[2], _unexplained(findings))
    return replace(
        fleet_report(model, findings, model_name, table_name),
        gaps=_gaps(model, rows, findings),
        remarks=tuple(filter(None, remarks)),
    )


def fleet_report(
    model: TableModel, findings: Findings | None, model_name: str, table_name: str
) -> FleetReport:
    """The values of a page of a model, and of what was found."""
    return FleetReport(
        model=model_name,
        table=table_name,
        method=_method(model),
        rate=model.promised_rate_,
        tasks=tasks_of(model) if findings is None else findings.tasks,
        findings=findings,
        relations=_relations(model),
        facts=tuple(facts_of(model)),
        columns=columns_table(model),
    )


def _unexplained(findings: Findings) -> str:
    """A remark if there are more alarms than the page explains."""
    alarms = int(findings.rows.alarm.sum())
    if alarms <= MOST_EXPLAINED:
        return ""
    return (
        f"Of {alarms:,} alarms the {MOST_EXPLAINED:,} with the lowest p-values have "
        "reasons here. manyone score --explain 3 gives them for all."
    )


def _gaps(model: TableModel, rows: TableRows, findings: Findings) -> tuple[str, ...]:
    """Sentences about columns that are missing more often than in training."""
    if not model.training_.has_values:
        return ()
    names = findings.tasks.names
    trained_codes = find(model.training_.labels, model.tasks_)[0]
    trained = np.bincount(trained_codes[trained_codes >= 0], minlength=len(names))
    columns = _column_gaps(model, rows, findings.rows.task, trained_codes, len(names))
    return gap_sentences(columns, names, findings.counts[0], trained)


def _column_gaps(
    model: TableModel,
    rows: TableRows,
    codes: Codes,
    trained_codes: Codes,
    n_tasks: int,
) -> Iterator[ColumnGaps]:
    """Missing values of each column in use, task by task, now and in training."""
    for name in model.encoder_.layout.used:
        is_missing = np.isnan(rows.columns[name].values)
        was_missing = np.isnan(model.training_.columns[name].values)
        was_missing &= trained_codes >= 0
        yield ColumnGaps(
            name,
            np.bincount(codes[is_missing], minlength=n_tasks),
            np.bincount(trained_codes[was_missing], minlength=n_tasks),
        )


def _relations(model: TableModel, most_tasks: int = 2000) -> Relations | None:
    """The strongest relations of each task, where a view of the model learned any.

    More tasks are shown without them.
    """
    views = getattr(model.model_, "views_", {"": model.model_})
    learned = [view for view in views.values() if "structure_" in view.can.learns]
    n_tasks = len(model.tasks_)
    if not learned or not 2 <= n_tasks <= most_tasks:
        return None
    structure = learned[0].structure_
    first, second = _strongest(structure)
    there = structure[first, second]
    back = structure[second, first]
    weight = np.where(np.abs(there) >= np.abs(back), there, back)
    is_strong = np.abs(weight) > 1e-6 * np.abs(weight).max(initial=0.0)
    meaning = (
        f"What {type(learned[0]).__name__} has learned about pairs of tasks: red pairs "
        "look alike to it, blue ones are set apart."
    )
    return Relations(first[is_strong], second[is_strong], weight[is_strong], meaning)


def _strongest(structure: Array, most: int = 5) -> Codes:
    """Pairs (2, p) of tasks, the strongest relations of each, every pair once."""
    n_tasks = len(structure)
    strength = np.abs(structure)
    np.fill_diagonal(strength, -1.0)
    number = min(most, n_tasks - 1)
    nearest = np.argpartition(-strength, number - 1, axis=1)[:, :number]
    pairs = np.stack([np.repeat(np.arange(n_tasks), number), nearest.ravel()])
    return np.unique(np.sort(pairs, axis=0), axis=1)


def _method(model: TableModel) -> str:
    views = getattr(model.model_, "views_", {"": model.model_})
    return " + ".join(type(view).__name__ for view in views.values())


def columns_table(model: TableModel) -> Table:
    """What the encoder did with each column."""
    lines = []
    for each in model.encoder_.decisions:
        seen = Cell()
        if each.kind in ("number", "boolean") and np.isfinite(each.low):
            ends = f"{plain_text(each.low, 4)} … {plain_text(each.high, 4)}"
            seen = Cell(ends, each.low)
        cells = (
            Cell(each.kind, mark="text"),
            Cell(str(each.features) if each.used else "–", each.features),
            Cell(f"{each.missing:.1%}" if each.missing else "", each.missing),
            seen,
            Cell(each.note, mark="text"),
        )
        lines.append(Row(each.name, cells, soft=not each.used))
    heads = ("column", "kind", "features", "missing", "range seen", "note")
    title = f"{len(model.encoder_.layout.used)} of {len(lines)} columns are features"
    return Table(title, heads, tuple(lines))
