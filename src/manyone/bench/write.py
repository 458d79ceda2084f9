"""Write what was measured: a CSV file, a Markdown page and plots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from manyone.bench.contenders import CONTENDERS, OURS
from manyone.bench.run import Measured
from manyone.files import csv_text, write_atomically
from manyone.report.charts import COLOURS, SYMBOLS, Axis, Chart, Curve, Panel
from manyone.threads import blas_threads

COLUMNS = (
    *("study", "rows", "tasks", "features", "landmarks", "workers", "contender"),
    *(
        "seconds",
        "seconds_min",
        "seconds_max",
        "ratio_to_ours",
        "ratio_min",
        "ratio_max",
    ),
    *("auc", "peak_mb", "note"),
)
#: What grows in a study: a heading, and the name of its axis.
STUDIES = {
    "rows": ("More rows", "rows"),
    "tasks": ("More tasks in as many rows", "tasks"),
    "landmarks": ("More landmarks", "landmarks"),
    "strong": ("More workers for the same rows", "workers, the same rows for all"),
    "weak": ("More workers, as many rows for each", "workers, as many rows for each"),
}
_HEAD = "| rows | tasks | landmarks | workers | who | seconds | beside JointOCKSR | AUC % | MB |"
_SECONDS, _AUC = "seconds for fit and scores", "AUC, faults and strangers"


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
    spread = [
        np.median(times),
        min(times),
        max(times),
        np.median(ratios),
        min(ratios),
        max(ratios),
    ]
    values = [f"{value:.4g}" for value in (*spread, one.auc, one.peak_mb)]
    return [
        *numbers,
        one.contender,
        *("" if value == "nan" else value for value in values),
        "",
    ]


def as_markdown(found: Sequence[Measured]) -> str:
    """All cases for a reader, what grows under one heading."""
    about = Path(__file__).with_name("about.md").read_text(encoding="utf-8")
    parts = [about.format(threads=blas_threads())]
    for study, (heading, _) in STUDIES.items():
        lines = [_as_row(one) for one in found if one.case.study == study]
        if lines:
            parts.append(
                "\n".join([f"## {heading}\n", _HEAD, "|---" * 9 + "|", *lines, ""])
            )
    return "\n".join(parts)


def _as_row(one: Measured) -> str:
    case = one.case
    head = f"| {case.n_rows:,} | {case.n_tasks:,} | {case.landmarks:,} | {case.workers or ''} |"
    if one.note:
        return f"{head} {one.contender} | {one.note} | | | |"
    ratio = (
        f"{np.median(one.ratios):.2f} ({min(one.ratios):.2f} to {max(one.ratios):.2f})"
    )
    ratio = "1" if one.contender == OURS else ratio
    auc = "" if np.isnan(one.auc) else f"{100 * one.auc:.1f}"
    peak = "" if np.isnan(one.peak_mb) else f"{one.peak_mb:.0f}"
    return f"{head} {one.contender} | {np.median(one.seconds):.3f} | {ratio} | {auc} | {peak} |"


def charts(found: Sequence[Measured]) -> list[Chart]:
    """Time and accuracy against what grows, one chart for each study."""
    drawn = []
    for study, (heading, grows) in STUDIES.items():
        some = [one for one in found if one.case.study == study and not one.note]
        if not some:
            continue
        sizes = sorted({one.case.size for one in some})
        across = Axis(grows, names=tuple(f"{size:,}" for size in sizes))
        times = [float(np.median(one.seconds)) for one in some]
        down = Axis(_SECONDS, log=max(times) > 10.0 * min(times))
        panels = [Panel("", across, down, _curves(some, sizes, "seconds"))]
        if not some[0].case.workers:
            panels.append(
                Panel("", across, Axis(_AUC, percent=True), _curves(some, sizes, "auc"))
            )
        drawn.append(
            Chart(f"bench_{study}", heading, f"{heading}, medians", tuple(panels))
        )
    return drawn


def _curves(
    found: Sequence[Measured], sizes: list[int], value: str
) -> tuple[Curve, ...]:
    curves = []
    for number, name in enumerate(CONTENDERS):
        mine = [one for one in found if one.contender == name]
        x = tuple(float(sizes.index(one.case.size)) for one in mine)
        y = tuple(float(np.median(getattr(one, value))) for one in mine)
        if mine and not np.isnan(y[0]):
            colour = COLOURS[number % len(COLOURS)]
            curves.append(Curve(x, y, name, "", colour, SYMBOLS[number % len(SYMBOLS)]))
    return tuple(curves)
