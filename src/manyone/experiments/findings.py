"""What the results say, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from manyone.estimators import METHODS
from manyone.experiments.cells import ALARM_RATES
from manyone.experiments.data import DATASETS
from manyone.experiments.methods import PAPER_AUC, in_paper, ours
from manyone.experiments.results import ANOMALIES, Results, Row, paired_test, ties

_RATE = 0.1  # alarm rate that the sentences are about


def findings(results: Results) -> dict[str, list[str]]:
    """Topics, each with a sentence for each data set that it applies to.

    Parameters
    ----------
    results : Results

    Returns
    -------
    dict of str to list of str
    """
    best = "Best method" if results.repeated else "Highest AUC"
    topics: dict[str, Callable[[Results, str], Iterator[str]]] = {
        best: _best,
        "Against the paper's figures": _paper,
        "Learning the tasks together": _together,
        "Everyday rivals": _rivals,
        "False alarms": _alarms,
    }
    sentences: dict[str, list[str]] = {}
    for topic, parts in topics.items():
        for name in results.datasets:
            text = "; ".join(parts(results, name))
            if text:
                title = DATASETS[name].title
                sentences.setdefault(topic, []).append(f"{title}: {text}.")
    return sentences


def _best(results: Results, name: str) -> Iterator[str]:
    """For each kind of anomaly the best methods, and those that are level with them."""
    for kind in results.kinds:
        rows = results.of_kind(name, kind)
        best = [row.method for row in rows if ties(row, rows[0])]
        level = [r.method for r in rows[len(best) :] if _is_level(r, rows[0])]
        text = f"{_listed(best)} with {rows[0]} on {ANOMALIES[kind]}"
        yield f"{text}, level with {_listed(level)}" if level else text


def _is_level(row: Row, best: Row) -> bool:
    pair = paired_test(row, best)
    return pair is not None and pair.unclear


def _paper(results: Results, name: str) -> Iterator[str]:
    """How far each method is ahead of the paper's figure, and the methods that were not run."""
    # Tuned, or as in the paper where the tuned method was not run.
    rows = sorted(
        results.of_kind(name, "seen"), key=lambda row: row.method == row.family
    )
    shown = {row.family: row for row in rows}
    printed = PAPER_AUC.get(name, {})
    gaps = {f: shown[f].mean - auc for f, auc in printed.items() if f in shown}
    if gaps:
        ahead = sum(gap >= 0 for gap in gaps.values())
        each = ", ".join(f"{shown[f].method} {gap:+z.2f}" for f, gap in gaps.items())
        yield f"{ahead} of {len(gaps)} methods at or above them ({each})"
        missing = [family for family in printed if family not in gaps]
        if missing:
            yield f"not run: {', '.join(missing)}"


def _together(results: Results, name: str) -> Iterator[str]:
    """The paper's regressions of all tasks together against that of each task alone."""
    regressions = [f for f in METHODS if in_paper(f) and METHODS[f].can.regression]
    joint = [family for family in regressions if METHODS[family].can.joint]
    (alone,) = set(regressions) - set(joint)
    for kind in results.kinds:
        rows = {row.method: row for row in results.of_kind(name, kind)}
        if alone in rows:
            gains = [_gain(rows[f], rows[alone]) for f in joint if f in rows]
            if gains:
                yield f"against {alone}, {', '.join(gains)} on {ANOMALIES[kind]}"


def _gain(row: Row, base: Row) -> str:
    """By how much a method is ahead of another."""
    pair = paired_test(row, base)
    assert pair is not None
    gain = pair.difference if pair.better == row.method else -pair.difference
    error = "" if pair.error is None else f" ± {pair.error:.2f}"
    doubt = " (not significant)" if pair.unclear else ""
    return f"{row.method} {gain:+z.2f}{error}{doubt}"


def _rivals(results: Results, name: str) -> Iterator[str]:
    """For each kind of anomaly the best rival, and the best of our methods beside it."""
    for kind in results.kinds:
        rows = results.of_kind(name, kind)
        rivals = [row for row in rows if not ours(row.method)]
        methods = [row for row in rows if ours(row.method)]
        if rivals and methods:
            rival = f"{rivals[0].method} with {rivals[0]}"
            gain = _gain(methods[0], rivals[0])
            yield f"the best is {rival} on {ANOMALIES[kind]}; against it, {gain}"


def _alarms(results: Results, name: str) -> Iterator[str]:
    """How many of our methods keep the rate asked for, and between what the rates lie."""
    place = ALARM_RATES.index(_RATE)
    rates = {method: r[place] for method, r in results.alarms(name).items()}
    our_rates = {method: rate for method, rate in rates.items() if ours(method)}
    rival_rates = {method: rate for method, rate in rates.items() if not ours(method)}
    if our_rates:
        # As many digits as are shown.
        good = sum(round(rate, 3) <= _RATE for rate in our_rates.values())
        number = f"{good} of {len(our_rates)} methods of the package raise no more"
        yield f"asked for {_RATE:.0%}, {number}; they lie {_between(our_rates)}"
        if rival_rates:
            yield f"rivals {_between(rival_rates)}"


def _between(rates: dict[str, float]) -> str:
    lowest = min(rates, key=rates.__getitem__)
    highest = max(rates, key=rates.__getitem__)
    return (
        f"between {rates[lowest]:.1%} ({lowest}) and {rates[highest]:.1%} ({highest})"
    )


def _listed(words: Sequence[str]) -> str:
    """Words in a row; those beyond three are counted."""
    shown = list(words)
    if len(words) > 4:
        shown = [*words[:3], f"{len(words) - 3} others"]
    *first, last = shown
    return f"{', '.join(first)} and {last}" if first else last
