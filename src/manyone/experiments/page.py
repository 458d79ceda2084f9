"""One self-contained page: what was run, the table, the figures, and where the paper differs."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from html import escape
from importlib.resources import files
from itertools import groupby
from string import Template

from plotly.offline import get_plotlyjs

from manyone.experiments import interactive
from manyone.experiments.charts import THEMES, Chart, Curve
from manyone.experiments.data import DATASETS
from manyone.experiments.figures import Picture
from manyone.experiments.findings import findings, gap, level, ties, value
from manyone.experiments.methods import AS_IN_PAPER
from manyone.experiments.plan import Plan, code_version
from manyone.experiments.runner import Outcome
from manyone.experiments.tables import Pair, Row

# Outlines of markers in a box of 28 x 12.
_SHAPES = {
    "circle": "M10.5 6a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    "square": "M11 3h6v6h-6z",
    "diamond": "M14 2l4 4l-4 4l-4-4z",
    "triangle-up": "M14 2.5l4 7h-8z",
    "triangle-down": "M14 9.5l4-7h-8z",
    "bar": "M13 0h2v12h-2z",
}


def render(
    plan: Plan,
    outcomes: Sequence[Outcome],
    rows: Sequence[Row],
    pairs: Sequence[Pair],
    pictures: Sequence[Picture],
    command: str,
    left_out: Sequence[str] = (),
) -> str:
    """The page.

    Parameters
    ----------
    plan : Plan
    outcomes : sequence of Outcome
    rows : sequence of Row
    pairs : sequence of Pair
    pictures : sequence of Picture
    command : str
        What to type to run it again.
    left_out : sequence of str
        Rivals whose package is not installed.

    Returns
    -------
    str
        HTML that loads nothing from elsewhere.
    """
    drawn = [picture.chart for picture in pictures]
    return Template(_part("page.html")).substitute(
        themes=_themes(),
        style=_part("page.css"),
        script=_part("page.js"),
        library=_library(),
        charts=_packed(
            json.dumps(
                {chart.name: interactive.panels(chart) for chart in drawn}, separators=(",", ":")
            )
        ),
        repeats=f"{plan.repeats} repetition" + ("s" if plan.repeats > 1 else ""),
        seed=plan.seed,
        version=escape(code_version()),
        command=escape(command),
        findings="".join(
            f"<dt>{escape(topic)}</dt>" + "".join(f"<dd>{escape(line)}</dd>" for line in lines)
            for topic, lines in findings(outcomes, rows, pairs, drawn)
        ),
        setup="".join(_setup(plan, left_out)),
        failures=_failures(outcomes),
        tables="".join(_table(name, rows, pairs) for name in plan.datasets),
        figures="".join(map(_figure, pictures)),
    )


def _part(name: str) -> str:
    return files("manyone.experiments").joinpath(name).read_text(encoding="utf-8")


@lru_cache
def _library() -> str:
    return _packed(get_plotlyjs())


def _packed(text: str) -> str:
    """Text as the page unpacks it; without a date, so the same text gives the same page."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _themes() -> str:
    """Colours as variables: by the system's wish, by the switch, and light on paper."""
    light, dark = (
        f"color-scheme:{name};" + "".join(f"--{key}:{colour};" for key, colour in theme.items())
        for name, theme in THEMES.items()
    )
    return (
        f":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        f":root[data-theme=light]{{{light}}}\n:root[data-theme=dark]{{{dark}}}\n"
        f"@media print{{:root:root:root{{{light}}}}}"
    )


def _setup(plan: Plan, left_out: Sequence[str]) -> Iterable[str]:
    if left_out:
        yield (
            f"<p>Not run, because their packages are not installed: {escape(', '.join(left_out))}. "
            "<code>pip install 'manyone[experiments]'</code> brings them.</p>"
        )
    for name in plan.datasets:
        dataset = DATASETS[name]
        yield f"<h3>{dataset.title}</h3><p>{escape(dataset.note)}</p><ul>"
        for kind in plan.protocols:
            p = dataset.protocols[kind].smaller(plan.shrink)
            source = (
                "rows of the other tasks" if kind == "seen" else f"{p.n_unseen} classes never met"
            )
            yield (
                f"<li><b>{kind}</b>: {p.n_tasks} tasks, {p.n_train} training rows each; tested on "
                f"{p.n_positive} normal rows and {p.n_negative} anomalies per task, drawn from "
                f"{source}.</li>"
            )
        yield "</ul>"


def _table(name: str, rows: Sequence[Row], pairs: Sequence[Pair]) -> str:
    mine = {(row.method, row.protocol): row for row in rows if row.dataset == name}
    methods = list(dict.fromkeys(method for method, _ in mine))
    protocols = [p for p in ("seen", "unseen") if any(key[1] == p for key in mine)]
    best = {
        p: max((row for row in mine.values() if row.protocol == p), key=lambda row: row.mean)
        for p in protocols
    }
    heads = ["method"]
    for p in protocols:
        heads += [f"{p} anomalies", "p"] + (["paper", "difference"] if p == "seen" else [])
    lines = []
    for method in methods:
        cells = [f"<th scope='row'>{escape(method)}</th>"]
        for p in protocols:
            row = mine.get((method, p))
            cells += _auc_cells(row, best[p], pairs)
            if p == "seen":
                paper = row.paper if row else None
                ahead = row.mean - paper if row and paper is not None else None
                cells.append(_cell(paper, "" if paper is None else f"{paper:.2f}"))
                cells.append(_cell(ahead, "" if ahead is None else f"{ahead:+.2f}"))
        kind = " class='second'" if method.endswith(AS_IN_PAPER) else ""
        lines.append(f"<tr{kind}>{''.join(cells)}</tr>")
    buttons = "".join(
        f"<th scope='col'><button type='button'>{escape(head)}</button></th>" for head in heads
    )
    title = f"{DATASETS[name].title}: AUC in percent, mean ± standard error"
    return (
        f"<h3>{title}</h3>"
        f"<div class='wide' tabindex='0' role='region' aria-label='{title}'>"
        f"<table class='sortable'><thead><tr>{buttons}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _auc_cells(row: Row | None, best: Row, pairs: Sequence[Pair]) -> list[str]:
    """A mean, and the paired test against the best one."""
    if row is None:
        return [_cell(None, ""), _cell(None, "", "p")]
    mark = "best" if ties(row, best) else "level" if level(row, best, pairs) else ""
    pair = gap(pairs, row.dataset, row.protocol, row.method, best.method)
    p = pair.p if pair else None
    return [_cell(row.mean, value(row), mark), _cell(p, "" if p is None else _p(p), "p")]


def _cell(number: float | None, text: str, kind: str = "") -> str:
    data = "" if number is None else f" data-value='{number:.6g}'"
    kinds = f" class='{kind}'" if kind else ""
    return f"<td{data}{kinds}>{text}</td>"


def _p(p: float) -> str:
    return "&lt; 0.001" if p < 0.001 else f"{p:.3f}"


def _failures(outcomes: Sequence[Outcome]) -> str:
    lines = dict.fromkeys(
        f"<li>{escape(o.cell.method)} on {DATASETS[o.cell.dataset].title} ({o.cell.protocol}): "
        f"{escape(o.error)}</li>"
        for o in outcomes
        if o.error
    )
    return f"<h3>What failed</h3><ul class='bad'>{''.join(lines)}</ul>" if lines else ""


def _figure(picture: Picture) -> str:
    chart = picture.chart
    least = "20rem" if chart.size[0] < 6 else "26rem"
    panels = "".join(
        f"<div class='panel'><h4>{escape(panel.title)}</h4>"
        f"<div class='plot' role='img' data-chart='{chart.name}' data-panel='{k}' "
        f"aria-label='{escape(chart.title)}, {escape(panel.title)}' "
        f"style='{interactive.shape(chart)}'></div></div>"
        for k, panel in enumerate(chart.panels)
    )
    png = base64.b64encode(picture.png).decode()
    return (
        f"<figure id='{chart.name}'><h3>{escape(chart.title)}</h3>{_legend(chart)}"
        f"<div class='panels' style='--least:{least}'>{panels}</div>"
        f"<img class='still' src='data:image/png;base64,{png}' alt='{escape(chart.title)}'>"
        f"<figcaption>{escape(chart.caption)}</figcaption></figure>"
    )


def _legend(chart: Chart) -> str:
    groups = []
    for heading, curves in groupby(chart.legend, key=lambda curve: curve.group):
        head = f"<button type='button' class='group' aria-pressed='true'>{heading}:</button>"
        groups.append(f"<div>{head if heading else ''}{''.join(map(_entry, curves))}</div>")
    return f"<div class='legend' role='group' aria-label='Legend'>{''.join(groups)}</div>"


def _entry(curve: Curve) -> str:
    colour = interactive.colour(curve.colour)
    paint = f"var({colour})" if colour.startswith("--") else colour
    dash = " stroke-dasharray='2 3'" if curve.line == "dotted" else ""
    line = f"<path d='M0 6h28' stroke='{paint}' stroke-width='2'{dash}/>" if curve.line else ""
    marker = f"<path d='{_SHAPES[curve.symbol]}' fill='{paint}'/>" if curve.symbol else ""
    name = escape(curve.name)
    return (
        f"<button type='button' aria-pressed='true' data-name='{name}'>"
        f"<svg viewBox='0 0 28 12' aria-hidden='true'>{line}{marker}</svg>{name}</button>"
    )
