"""What the results say, in sentences made from their numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from manyone.estimators import METHODS
from manyone.experiments.cells import ALARM_RATES
from manyone.experiments.data import DATASETS
from manyone.experiments.methods import PAPER_AUC, in_paper
from manyone.experiments.tables import Pair, Results, ties
from manyone.report.charts import Chart

_ASKED = 0.1  # alarm rate that the summary is about


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
    alone, joint, *structured = _variants()
    topics: dict[str, Callable[[str], str]] = {
        "Best method" if results.repeated else "Highest AUC": lambda name: _best(name, results),
        "Against the paper's figures": lambda name: _paper(name, results),
        "Learning the tasks together": lambda name: _step(name, results, [joint], alone),
        "Learning how tasks relate": lambda name: _step(name, results, structured, joint),
        "Everyday rivals": lambda name: _rivals(name, results),
        "False alarms": lambda name: _alarms(name, results),
        "AUC lost to corrupted training rows": lambda name: _losses(name, charts),
    }
    found = []
    for topic, say in topics.items():
        said = [(DATASETS[name].title, say(name)) for name in results.datasets]
        lines = tuple(f"{title}: {text}." for title, text in said if text)
        found += [(topic, lines)] if lines else []
    return tuple(found)


def _variants() -> list[str]:
    """Regressions that the paper sets side by side: each task alone, all together, structured."""
    found = [name for name, kind in METHODS.items() if in_paper(name) and kind.can.regression]
    return sorted(found, key=lambda name: METHODS[name].can.joint)


def _by_protocol(say: Callable[[str], str]) -> str:
    return "; ".join(text for protocol in ("seen", "unseen") if (text := say(protocol)))


def _best(name: str, results: Results) -> str:
    def say(protocol: str) -> str:
        mine = results.of_kind(name, protocol)
        if not mine:
            return ""
        first = [row.method for row in mine if ties(row, mine[0])]
        also = [row.method for row in mine[len(first) :] if results.level(row, mine[0])]
        tied = f", level with {_list(also)}" if also else ""
        return f"{_list(first)} with {mine[0]} on {protocol} anomalies{tied}"

    return _by_protocol(say)


def _paper(name: str, results: Results) -> str:
    rows = [row for row in results.rows if row.dataset == name and row.paper is not None]
    # Tuned, or where that was not run as in the paper.
    shown = {row.family: row for row in sorted(rows, key=lambda row: row.method == row.family)}
    gaps = {row.method: row.mean - row.paper for row in shown.values() if row.paper is not None}
    if not gaps:
        return ""
    above = sum(difference >= 0 for difference in gaps.values())
    each = ", ".join(f"{method} {difference:+z.2f}" for method, difference in gaps.items())
    missing = [family for family in PAPER_AUC[name] if family not in shown]
    absent = f". Not run: {_list(missing, 7)}" if missing else ""
    return f"{above} of {len(gaps)} methods at or above them ({each}){absent}"


def _step(name: str, results: Results, methods: Sequence[str], base: str) -> str:
    def say(protocol: str) -> str:
        pairs = {method: results.pair(name, protocol, method, base) for method in methods}
        each = [f"{method} {_signed(pair, method)}" for method, pair in pairs.items() if pair]
        return f"{', '.join(each)} on {protocol} anomalies" if each else ""

    return f"against {base}, {text}" if (text := _by_protocol(say)) else ""


def _rivals(name: str, results: Results) -> str:
    def say(protocol: str) -> str:
        mine = results.of_kind(name, protocol)
        ours = next((row for row in mine if row.family in METHODS), None)
        other = next((row for row in mine if row.family not in METHODS), None)
        pair = ours and other and results.pair(name, protocol, ours.method, other.method)
        if not (ours and other and pair):
            return ""
        return (
            f"{other.method} does best of them with {other} on {protocol} anomalies, and "
            f"{ours.method} is {_apart(pair, ours.method)}"
        )

    return _by_protocol(say)


def _alarms(name: str, results: Results) -> str:
    place = ALARM_RATES.index(_ASKED)
    rates = {method: float(found[place]) for method, found in results.alarms(name).items()}
    ours = {method: rate for method, rate in rates.items() if method in METHODS}
    others = {method: rate for method, rate in rates.items() if method not in METHODS}
    if not ours:
        return ""
    kept = sum(round(rate, 3) <= _ASKED for rate in ours.values())  # as many digits as are shown
    rivals = f"; rivals {_range(others)}" if others else ""
    return (
        f"asked for {_ASKED:.0%}, {kept} of {len(ours)} methods of the package raise no more; they "
        f"lie {_range(ours)}{rivals}"
    )


def _range(rates: dict[str, float]) -> str:
    low, *_, high = sorted(rates, key=lambda method: rates[method]) * 2
    return f"between {rates[low]:.1%} ({low}) and {rates[high]:.1%} ({high})"


def _losses(name: str, charts: Sequence[Chart]) -> str:
    """What the joint variants of OCKSR lose from clean rows to the most corrupted ones."""
    parts = []
    for chart in (chart for chart in charts if chart.name.startswith("robustness_")):
        for panel in (panel for panel in chart.panels if panel.title == DATASETS[name].title):
            mine = [curve for curve in panel.curves if curve.name in _variants()[1:]]
            losses = sorted((curve.y[0] - curve.y[-1], curve.name) for curve in mine)
            each = ", ".join(f"{method} {loss:z.1f}" for loss, method in losses)
            parts += [f"{chart.title.partition(':')[0].lower()} cost {each} points"] if each else []
    return "; ".join(parts)


def _signed(pair: Pair, method: str) -> str:
    if pair.difference == 0 == pair.error:
        return "no different"
    sign = 1 if pair.better == method else -1
    error = "" if pair.error is None else f" ± {pair.error:.2f}"
    unclear = " (not significant)" if pair.unclear else ""
    return f"{sign * pair.difference:+z.2f}{error}{unclear}"


def _apart(pair: Pair, method: str) -> str:
    if pair.unclear:
        return f"level with it, p = {pair.p:.2f}"
    return f"{pair.difference:.2f} {'ahead of' if pair.better == method else 'behind'} it"


def _list(words: Sequence[str], most: int = 3) -> str:
    """Words in a row; those beyond a few are counted."""
    if len(words) > most + 1:
        words = [*words[:most], f"{len(words) - most} others"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
