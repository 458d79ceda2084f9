"""What the results say, in sentences made from their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from manyone.estimators import METHODS
from manyone.experiments.cells import ALARM_RATES
from manyone.experiments.charts import Chart, Matrix
from manyone.experiments.data import DATASETS
from manyone.experiments.methods import PAPER_AUC
from manyone.experiments.runner import Outcome
from manyone.experiments.tables import Pair, Row

#: Level of the paired tests.
LEVEL = 0.05
_ASKED = 0.1  # alarm rate that the summary speaks of
_PROTOCOLS = ("seen", "unseen")
_VARIANTS = ("C-OCKSR", "OCKSR-L", "OCKSR-N", "OCKSR-NS")  # that the paper sets side by side


def findings(
    outcomes: Sequence[Outcome],
    rows: Sequence[Row],
    pairs: Sequence[Pair],
    charts: Sequence[Chart],
) -> list[tuple[str, list[str]]]:
    """Topics, each with one sentence for each data set that has something to say about it.

    Parameters
    ----------
    outcomes : sequence of Outcome
    rows : sequence of Row
    pairs : sequence of Pair
    charts : sequence of Chart
        As drawn from the same outcomes.

    Returns
    -------
    list of (str, list of str)
    """
    names = list(dict.fromkeys(row.dataset for row in rows))
    drawn = {chart.name: chart for chart in charts}
    topics: list[tuple[str, Callable[[str], str]]] = [
        ("Best method", lambda name: _best(name, rows, pairs)),
        ("Against the paper's figures", lambda name: _paper(name, rows)),
        ("Learning the tasks together", lambda name: _step(name, pairs, ("C-OCKSR",), "OCKSR")),
        (
            "Learning how tasks relate",
            lambda name: _step(name, pairs, _VARIANTS[1:], _VARIANTS[0]),
        ),
        ("Everyday rivals", lambda name: _rivals(name, rows, pairs)),
        ("False alarms", lambda name: _alarms(name, outcomes)),
        ("AUC lost to spoilt training rows", lambda name: _robustness(name, drawn.values())),
    ]
    found = []
    for topic, say in topics:
        lines = [f"{DATASETS[name].title}: {text}" for name in names if (text := say(name))]
        if lines:
            found.append((topic, lines))
    return found


def value(row: Row) -> str:
    """Mean and standard error."""
    return f"{row.mean:.2f}" + ("" if row.error is None else f" ± {row.error:.2f}")


def gap(pairs: Sequence[Pair], dataset: str, protocol: str, a: str, b: str) -> Pair | None:
    """The paired test of two methods, whichever is ahead."""
    for pair in pairs:
        if (pair.dataset, pair.protocol) == (dataset, protocol) and {a, b} == {
            pair.better,
            pair.worse,
        }:
            return pair
    return None


def ties(row: Row, best: Row) -> bool:
    """Whether a method has the best mean, as far as digits are shown."""
    return round(row.mean, 2) == round(best.mean, 2)


def level(row: Row, best: Row, pairs: Sequence[Pair]) -> bool:
    """Whether the paired test does not tell a method from the best one."""
    pair = gap(pairs, row.dataset, row.protocol, row.method, best.method)
    return pair is not None and pair.p is not None and pair.p >= LEVEL


def _best(name: str, rows: Sequence[Row], pairs: Sequence[Pair]) -> str:
    parts = []
    for protocol in _PROTOCOLS:
        mine = sorted(_of(rows, name, protocol), key=lambda row: -row.mean)
        if mine:
            first = [row for row in mine if ties(row, mine[0])]
            also = [row.method for row in mine if row not in first and level(row, mine[0], pairs)]
            tied = f", level with {_list(also)}" if also else ""
            who = _list([row.method for row in first])
            parts.append(f"{who} with {value(mine[0])} on {protocol} anomalies{tied}")
    return f"{'; '.join(parts)}." if parts else ""


def _paper(name: str, rows: Sequence[Row]) -> str:
    printed = [row for row in _of(rows, name, "seen") if row.paper is not None]
    # Tuned, or where that was not run as in the paper.
    shown = {row.family: row for row in sorted(printed, key=lambda row: row.method == row.family)}
    gaps = {row.method: row.mean - row.paper for row in shown.values() if row.paper is not None}
    if not gaps:
        return ""
    above = sum(difference >= 0 for difference in gaps.values())
    each = ", ".join(f"{method} {difference:+z.2f}" for method, difference in gaps.items())
    missing = [family for family in PAPER_AUC[name] if family not in shown]
    absent = f" Not run: {_list(missing, 7)}." if missing else ""
    return f"{above} of {len(gaps)} methods at or above them ({each}).{absent}"


def _step(name: str, pairs: Sequence[Pair], methods: Iterable[str], base: str) -> str:
    parts = []
    for protocol in _PROTOCOLS:
        each = [
            f"{method} {_signed(pair, method)}"
            for method in methods
            if (pair := gap(pairs, name, protocol, method, base)) is not None
        ]
        if each:
            parts.append(f"{', '.join(each)} on {protocol} anomalies")
    return f"against {base}, {'; '.join(parts)}." if parts else ""


def _rivals(name: str, rows: Sequence[Row], pairs: Sequence[Pair]) -> str:
    parts = []
    for protocol in _PROTOCOLS:
        mine = _of(rows, name, protocol)
        ours = [row for row in mine if row.family in METHODS]
        others = [row for row in mine if row.family not in METHODS]
        if ours and others:
            a = max(ours, key=lambda row: row.mean)
            b = max(others, key=lambda row: row.mean)
            pair = gap(pairs, name, protocol, a.method, b.method)
            if pair:
                parts.append(
                    f"{b.method} does best of them with {value(b)} on {protocol} anomalies, and "
                    f"{a.method} is {_apart(pair, a.method)}"
                )
    return f"{'; '.join(parts)}." if parts else ""


def _alarms(name: str, outcomes: Sequence[Outcome]) -> str:
    place = ALARM_RATES.index(_ASKED)
    found: dict[str, list[float]] = {}
    for o in outcomes:
        if o.result and o.cell.dataset == name and not o.cell.corruption and "alarms" in o.result:
            found.setdefault(o.cell.method, []).append(o.result["alarms"][place])
    rates = {method: float(np.mean(values)) for method, values in found.items()}
    ours = {method: rate for method, rate in rates.items() if method in METHODS}
    others = {method: rate for method, rate in rates.items() if method not in METHODS}
    if not ours:
        return ""
    kept = sum(round(rate, 3) <= _ASKED for rate in ours.values())  # as many digits as are shown
    text = (
        f"asked for {_ASKED:.0%}, {kept} of {len(ours)} methods of the package raise no more; they "
        f"lie {_range(ours)}"
    )
    return f"{text}; rivals {_range(others)}." if others else f"{text}."


def _range(rates: dict[str, float]) -> str:
    low, high = min(rates, key=lambda m: rates[m]), max(rates, key=lambda m: rates[m])
    return f"between {rates[low]:.1%} ({low}) and {rates[high]:.1%} ({high})"


def _robustness(name: str, charts: Iterable[Chart]) -> str:
    """What the variants of OCKSR lose from clean rows to the most spoilt ones."""
    parts = []
    for chart in charts:
        if not chart.name.startswith("robustness_"):
            continue
        for panel in chart.panels:
            if panel.title != DATASETS[name].title or isinstance(panel.content, Matrix):
                continue
            losses = {c.name: c.y[0] - c.y[-1] for c in panel.content if c.name in _VARIANTS}
            order = sorted(losses, key=lambda method: losses[method])
            if order:
                each = ", ".join(f"{method} {losses[method]:z.1f}" for method in order)
                parts.append(f"{chart.title.partition(':')[0].lower()} cost {each} points")
    return f"{'; '.join(parts)}." if parts else ""


def _of(rows: Sequence[Row], name: str, protocol: str) -> list[Row]:
    return [row for row in rows if (row.dataset, row.protocol) == (name, protocol)]


def _signed(pair: Pair, method: str) -> str:
    if pair.difference == 0 == pair.error:
        return "no different"
    sign = 1 if pair.better == method else -1
    error = "" if pair.error is None else f" ± {pair.error:.2f}"
    unclear = " (not significant)" if pair.p is not None and pair.p >= LEVEL else ""
    return f"{sign * pair.difference:+z.2f}{error}{unclear}"


def _apart(pair: Pair, method: str) -> str:
    if pair.p is not None and pair.p >= LEVEL:
        return f"level with it, p = {pair.p:.2f}"
    return f"{pair.difference:.2f} {'ahead of' if pair.better == method else 'behind'} it"


def _list(words: Sequence[str], most: int = 3) -> str:
    """Words in a row; those beyond a few are counted."""
    if len(words) > most + 1:
        words = [*words[:most], f"{len(words) - most} others"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
