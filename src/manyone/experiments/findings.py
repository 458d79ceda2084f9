"""What the results say, in sentences made from their numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from manyone.estimators import METHODS
from manyone.experiments.cells import ALARM_RATES
from manyone.experiments.data import DATASETS
from manyone.experiments.methods import PAPER_AUC, in_paper, ours
from manyone.experiments.tables import Results, ties
from manyone.report.charts import Chart
from manyone.report.page import sentence

_ASKED = 0.1  # alarm rate that the summary is about
_KINDS = ("seen", "unseen", "faults")


def findings(results: Results, charts: Sequence[Chart]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Topics, each with one sentence for each data set that has something to say about it.

    Parameters
    ----------
    results : Results
    charts : sequence of Chart
        As drawn from the same results.

    Returns
    -------
    tuple of (str, tuple of str)
    """
    found = [name for name, kind in METHODS.items() if in_paper(name) and kind.can.regression]
    # Regressions that the paper sets side by side: each task alone, all together, structured.
    alone, joint, *structured = variants = sorted(found, key=lambda name: METHODS[name].can.joint)
    # Words in ``findings.html`` and the function that finds what they name, by topic.
    topics: dict[str, tuple[str, Callable[[str], tuple[Any, ...]]]] = {
        "Best method" if results.repeated else "Highest AUC": ("best", partial(_best, results)),
        "Against the paper's figures": ("paper", partial(_paper, results)),
        "Learning the tasks together": ("step", partial(_step, results, alone, [joint])),
        "Learning how tasks relate": ("step", partial(_step, results, joint, structured)),
        "Everyday rivals": ("rivals", partial(_rivals, results)),
        "False alarms": ("alarms", partial(_alarms, results)),
        "AUC lost to corrupted training rows": ("losses", partial(_losses, charts, variants[1:])),
    }
    said: dict[str, list[str]] = {}
    for topic, (words, find) in topics.items():
        for name in results.datasets:
            if facts := find(name):
                text = sentence("manyone.experiments", "findings.html", words, *facts)
                said.setdefault(topic, []).append(f"{DATASETS[name].title}: {text}.")
    return tuple((topic, tuple(lines)) for topic, lines in said.items())


def _best(results: Results, name: str) -> tuple[Any, ...]:
    """Of each protocol the best rows, and the methods that are level with them."""
    found = []
    for kind, rows in ((kind, results.of_kind(name, kind)) for kind in _KINDS):
        first = [row for row in rows if ties(row, rows[0])]
        level = [row.method for row in rows[len(first) :] if results.level(row, rows[0])]
        found += [(kind, first, level)] if rows else []
    return (found,) if found else ()


def _paper(results: Results, name: str) -> tuple[Any, ...]:
    """How far each method is ahead of the paper's figure, and the methods that were not run."""
    rows = [row for row in results.rows if row.dataset == name and row.paper is not None]
    # Tuned, or where that was not run as in the paper.
    shown = {row.family: row for row in sorted(rows, key=lambda row: row.method == row.family)}
    gaps = {row.method: row.mean - row.paper for row in shown.values() if row.paper is not None}
    missing = [family for family in PAPER_AUC.get(name, ()) if family not in shown]
    return (gaps, missing) if gaps else ()


def _step(results: Results, base: str, methods: Sequence[str], name: str) -> tuple[Any, ...]:
    """Of each protocol the paired tests of methods against another one."""
    found = []
    for kind in _KINDS:
        pairs = {m: pair for m in methods if (pair := results.pair(name, kind, m, base))}
        found += [(kind, pairs)] if pairs else []
    return (base, found) if found else ()


def _rivals(results: Results, name: str) -> tuple[Any, ...]:
    """Of each protocol the best of our rows and of the rivals, and their paired test."""
    found = []
    for kind, rows in ((kind, results.of_kind(name, kind)) for kind in _KINDS):
        mine = next((row for row in rows if ours(row.method)), None)
        other = next((row for row in rows if not ours(row.method)), None)
        if mine and other and (pair := results.pair(name, kind, mine.method, other.method)):
            found.append((kind, mine, other, pair))
    return (found,) if found else ()


def _alarms(results: Results, name: str) -> tuple[Any, ...]:
    """The rate asked for, how many of our methods keep it, and all rates in ascending order."""
    place = ALARM_RATES.index(_ASKED)
    rates = {method: float(found[place]) for method, found in results.alarms(name).items()}
    order = sorted(rates.items(), key=lambda item: item[1])
    mine = [(method, rate) for method, rate in order if ours(method)]
    others = [(method, rate) for method, rate in order if not ours(method)]
    kept = sum(round(rate, 3) <= _ASKED for _, rate in mine)  # as many digits as are shown
    return (_ASKED, kept, mine, others) if mine else ()


def _losses(charts: Sequence[Chart], methods: Sequence[str], name: str) -> tuple[Any, ...]:
    """What methods lose from clean rows to the most corrupted ones, by the kind of corruption."""
    found: dict[str, list[tuple[float, str]]] = {}
    for chart in (chart for chart in charts if chart.name.startswith("robustness_")):
        for panel in (panel for panel in chart.panels if panel.title == DATASETS[name].title):
            losses = sorted((c.y[0] - c.y[-1], c.name) for c in panel.curves if c.name in methods)
            found |= {chart.title.partition(":")[0]: losses} if losses else {}
    return (found,) if found else ()
