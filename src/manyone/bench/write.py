"""Write what was measured: a CSV file, a Markdown page and plots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from manyone.bench.contenders import CONTENDERS
from manyone.bench.run import Measured
from manyone.files import csv_text, write_atomically
from manyone.report.charts import COLOURS, SYMBOLS, Axis, Chart, Curve, Panel
from manyone.threads import blas_threads

COLUMNS = (
    *("study", "rows", "tasks", "features", "landmarks", "workers", "contender"),
    *("seconds", "seconds_min", "seconds_max", "ratio_to_ours", "ratio_min", "ratio_max"),
    *("auc", "peak_mb", "note"),
)


def write_all(found: Sequence[Measured], out: Path) -> None:
    """Write ``bench.csv``, ``bench.md`` and a plot for every study into a folder."""
    from manyone.report.png import draw_png

    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "bench.csv", csv_text(COLUMNS, map(line, found)).encode())
    write_atomically(out / "bench.md", as_markdown(found).encode())
    for chart in charts(found):
        write_atomically(out / f"{chart.name}.png", draw_png(chart))


def line(one: Measured) -> list[object]:
    """A line of the table."""
    case = one.case
    numbers = [case.study, case.n_rows, case.n_tasks, case.n_features, case.landmarks]
    numbers.append(case.workers or "")
    if one.note:
        return [*numbers, one.contender, *[""] * 8, one.note]
    times, ratios = one.seconds, one.ratios
    spread = [np.median(times), min(times), max(times), np.median(ratios), min(ratios), max(ratios)]
    values = [f"{value:.4g}" for value in (*spread, one.auc, one.peak_mb)]
    return [*numbers, one.contender, *("" if value == "nan" else value for value in values), ""]


def as_markdown(found: Sequence[Measured]) -> str:
    """All cases as a Markdown page."""
    lines = [
        "# manyone bench",
        "",
        f"Medians over rounds in one process, everybody in turns, {blas_threads()} BLAS thread(s). "
        "A ratio above 1 means slower than JointOCKSR (which sets thresholds, too); in brackets "
        "the lowest and highest of the rounds. AUC: mean over tasks, faults and strangers. Workers "
        "have one thread each: JointOCKSR runs on Dask, the floor in bare processes.",
        "",
        "| rows | tasks | landmarks | | seconds | ratio | AUC | peak MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        case = one.case
        where = f" on {case.workers} worker(s)" if case.workers else ""
        size = f"| {case.n_rows:,} | {case.n_tasks:,} | {case.landmarks:,} |"
        head = f"{size} {one.contender}{where} |"
        if one.note:
            lines.append(f"{head} {one.note} | | | |")
            continue
        ratio = f"{np.median(one.ratios):.2f} ({min(one.ratios):.2f}-{max(one.ratios):.2f})"
        auc = "" if np.isnan(one.auc) else f"{100 * one.auc:.1f}"
        peak = "" if np.isnan(one.peak_mb) else f"{one.peak_mb:.0f}"
        lines.append(f"{head} {np.median(one.seconds):.3f} | {ratio} | {auc} | {peak} |")
    return "\n".join(lines) + "\n"


def charts(found: Sequence[Measured]) -> list[Chart]:
    """Time and accuracy against what grows, one chart for each study."""
    drawn = []
    for study in dict.fromkeys(one.case.study for one in found):
        some = [one for one in found if one.case.study == study and not one.note]
        if not some:
            continue
        scaling = some[0].case.workers > 0
        across = Axis(f"workers, {study} scaling") if scaling else Axis(study, log=True)
        panels = [Panel("", across, Axis("seconds", log=True), _curves(some, "seconds"))]
        if not scaling:
            panels.append(Panel("", across, Axis("AUC", percent=True), _curves(some, "auc")))
        caption = f"Measured against {across.label}; medians in one run."
        drawn.append(Chart(f"bench_{study}", f"Against {across.label}", caption, tuple(panels)))
    return drawn


def _curves(found: Sequence[Measured], value: str) -> tuple[Curve, ...]:
    curves = []
    for number, name in enumerate(CONTENDERS):
        some = [one for one in found if one.contender == name]
        mine = sorted((one.case.size, float(np.median(getattr(one, value)))) for one in some)
        if mine and not np.isnan(mine[0][1]):
            x, y = zip(*mine, strict=True)
            colour = COLOURS[number % len(COLOURS)]
            curves.append(Curve(x, y, name, "", colour, SYMBOLS[number % len(SYMBOLS)]))
    return tuple(curves)
