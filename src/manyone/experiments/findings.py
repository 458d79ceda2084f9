"""What the results say, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from manyone.estimators import METHODS
from manyone.experiments.cells import ALARM_RATES
from manyone.experiments.charts import Chart
from manyone.experiments.data import DATASETS
from manyone.experiments.methods import PAPER_AUC, WITHOUT_PAST, in_paper, ours
from manyone.experiments.results import Pair, Results, ties

#: What the anomalies of a protocol are called.
ANOMALIES = {
    "seen": "seen anomalies",
    "unseen": "unseen anomalies",
    "faults": "faults",
    "time": "faults in time",
}
_RATE = 0.1  # alarm rate that the sentences are about


def findings(results: Results, charts: Sequence[Chart]) -> dict[str, list[str]]:
    """Topics, each with a sentence for each data set that it applies to.

    Parameters
    ----------
    results : Results
    charts : sequence of Chart
        As drawn from the same results.

    Returns
    -------
    dict of str to list of str
    """
    regressions = [
        name for name, kind in METHODS.items() if in_paper(name) and kind.can.regression
    ]
    # Regressions that the paper compares: each task alone, all together, structured.
    alone, joint, *structured = sorted(
        regressions, key=lambda name: METHODS[name].can.joint
    )
    joined = (joint, *structured)
    topics: dict[str, Callable[[str], str]] = {
        "Best method" if results.repeated else "Highest AUC": lambda name: _best(
            results, name
        ),
        "Against the paper's figures": lambda name: _paper(results, name),
        "Learning the tasks together": lambda name: _step(
            results, name, alone, [joint]
        ),
        "Learning how tasks relate": lambda name: _step(
            results, name, joint, structured
        ),
        "Columns of the past": lambda name: _past(results, name),
        "Everyday rivals": lambda name: _rivals(results, name),
        "False alarms": lambda name: _alarms(results, name),
        "AUC lost to corrupted training rows": lambda name: _losses(
            charts, name, joined
        ),
    }
    sentences: dict[str, list[str]] = {}
    for topic, sentence_about in topics.items():
        for name in results.datasets:
            text = sentence_about(name)
            if text:
                title = DATASETS[name].title
                sentences.setdefault(topic, []).append(f"{title}: {text}.")
    return sentences


def _best(results: Results, name: str) -> str:
    """For each protocol the best methods, and those that are level with them."""
    parts = []
    for kind, called in ANOMALIES.items():
        rows = results.of_kind(name, kind)
        if rows:
            best = [row.method for row in rows if ties(row, rows[0])]
            level = [r.method for r in rows[len(best) :] if results.level(r, rows[0])]
            text = f"{_listed(best)} with {rows[0]} on {called}"
            parts.append(f"{text}, level with {_listed(level)}" if level else text)
    return "; ".join(parts)


def _paper(results: Results, name: str) -> str:
    """How far each method is ahead of the paper's figure, and the methods that were not run."""
    rows = [row for row in results.rows if row.dataset == name]
    # Tuned, or as in the paper where the tuned method was not run.
    rows.sort(key=lambda row: row.method == row.family)
    shown = {row.family: row for row in rows if row.ahead is not None}
    ahead = {row.method: row.ahead or 0.0 for row in shown.values()}
    if not ahead:
        return ""
    good = sum(gap >= 0 for gap in ahead.values())
    gaps = ", ".join(f"{method} {gap:+z.2f}" for method, gap in ahead.items())
    text = f"{good} of {len(ahead)} methods at or above them ({gaps})"
    missing = [family for family in PAPER_AUC.get(name, ()) if family not in shown]
    return f"{text}. Not run: {_listed(missing, 7)}" if missing else text


def _step(results: Results, name: str, base: str, methods: Iterable[str]) -> str:
    """For each protocol the paired tests of methods against another one."""
    parts = []
    for kind, called in ANOMALIES.items():
        pairs = {method: results.pair(name, kind, method, base) for method in methods}
        gains = [
            f"{method} {_gain(pair, method)}" for method, pair in pairs.items() if pair
        ]
        if gains:
            parts.append(f"{', '.join(gains)} on {called}")
    return f"against {base}, {'; '.join(parts)}" if parts else ""


def _rivals(results: Results, name: str) -> str:
    """For each protocol the best rival, and the best of our methods beside it."""
    parts = []
    for kind, called in ANOMALIES.items():
        rows = results.of_kind(name, kind)
        rival = next((row for row in rows if not ours(row.method)), None)
        best = next((row for row in rows if ours(row.method)), None)
        if rival is None or best is None:
            continue
        pair = results.pair(name, kind, best.method, rival.method)
        if pair is None:
            continue
        place = "ahead of" if pair.better == best.method else "behind"
        verdict = f"{pair.difference:.2f} {place} it"
        if pair.unclear:
            verdict = f"level with it, p = {pair.p:.2f}"
        parts.append(
            f"{rival.method} does best of them with {rival} on {called}, and {best.method} "
            f"is {verdict}"
        )
    return "; ".join(parts)


def _past(results: Results, name: str) -> str:
    """What methods of the package gain by columns of the past."""
    gains = []
    for row in results.of_kind(name, "time"):
        pair = results.pair(name, "time", row.method, row.method + WITHOUT_PAST)
        if pair is not None and ours(row.method):
            gains.append(f"{row.method} {_gain(pair, row.method)}")
    return (
        f"against the same rows without their past, {', '.join(gains)}" if gains else ""
    )


def _alarms(results: Results, name: str) -> str:
    """How many of our methods keep the rate asked for, and between what the rates lie."""
    place = ALARM_RATES.index(_RATE)
    rates = {method: r[place] for method, r in results.alarms(name).items()}
    our_rates = {method: rate for method, rate in rates.items() if ours(method)}
    rival_rates = {method: rate for method, rate in rates.items() if not ours(method)}
    if not our_rates:
        return ""
    # As many digits as are shown.
    good = sum(round(rate, 3) <= _RATE for rate in our_rates.values())
    text = (
        f"asked for {_RATE:.0%}, {good} of {len(our_rates)} methods of the package raise no "
        f"more; they lie {_between(our_rates)}"
    )
    return f"{text}; rivals {_between(rival_rates)}" if rival_rates else text


def _losses(charts: Sequence[Chart], name: str, methods: Sequence[str]) -> str:
    """What methods lose between clean rows and the most corrupted ones."""
    parts = []
    for chart in charts:
        if not chart.name.startswith("robustness_"):
            continue
        for panel in chart.panels:
            curves = [c for c in panel.curves if c.name in methods]
            losses = sorted((c.y[0] - c.y[-1], c.name) for c in curves)
            if losses and panel.title == DATASETS[name].title:
                cause = chart.title.partition(":")[0].lower()
                costs = ", ".join(f"{method} {loss:z.1f}" for loss, method in losses)
                parts.append(f"{cause} cost {costs} points")
    return "; ".join(parts)


def _gain(pair: Pair, method: str) -> str:
    """By how much a method is ahead, of a paired test."""
    if pair.difference == 0 and pair.error == 0:
        return "no different"
    gain = pair.difference if pair.better == method else -pair.difference
    error = "" if pair.error is None else f" ± {pair.error:.2f}"
    return f"{gain:+z.2f}{error}{' (not significant)' if pair.unclear else ''}"


def _between(rates: dict[str, float]) -> str:
    lowest = min(rates, key=rates.__getitem__)
    highest = max(rates, key=rates.__getitem__)
    return (
        f"between {rates[lowest]:.1%} ({lowest}) and {rates[highest]:.1%} ({highest})"
    )


def _listed(words: Sequence[str], most: int = 3) -> str:
    """Words in a row; those beyond a few are counted."""
    shown = list(words)
    if len(words) > most + 1:
        shown = [*words[:most], f"{len(words) - most} others"]
    *first, last = shown
    return f"{', '.join(first)} and {last}" if first else last
