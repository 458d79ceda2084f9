"""Numbers of the table and of the paired tests."""

import numpy as np
import pytest

from manyone.experiments.plan import Cell
from manyone.experiments.results import Results, pairs_csv, table_csv
from manyone.experiments.runner import Outcome


def outcome(method, repetition, auc):
    cell = Cell("mnist", "seen", method, method, "tuned", 0, repetition)
    return Outcome(cell, {"auc": [auc]})


def test_paired_tests_agree_with_the_formula():
    a = [0.90, 0.92, 0.95, 0.91]
    b = [0.91, 0.95, 0.96, 0.93]
    outcomes = [outcome("A", r, v) for r, v in enumerate(a)]
    outcomes += [outcome("B", r, v) for r, v in enumerate(b)]
    results = Results(outcomes)
    (pair,) = results.pairs
    gain = 100 * (np.array(b) - a)
    assert (pair.better, pair.worse, pair.repeats) == ("B", "A", 4)
    assert pair.difference == pytest.approx(gain.mean())
    assert pair.error == pytest.approx(gain.std(ddof=1) / 2)
    from scipy.stats import t

    assert pair.p == pytest.approx(2 * t.sf(gain.mean() / pair.error, 3))
    assert pairs_csv(results).count("\n") == 2


def test_one_repetition_has_no_spread():
    results = Results([outcome("A", 0, 0.9), outcome("B", 0, 0.9)])
    assert table_csv(results).splitlines()[1] == "mnist,seen,A,90.0000,,1,"
    (pair,) = results.pairs
    assert pair.p is None and pair.error is None and not pair.unclear
    assert not results.repeated
