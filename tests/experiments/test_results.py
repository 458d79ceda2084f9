"""Numbers of the table and of the paired tests."""

import numpy as np
import pytest
from scipy.stats import t

from manyone.experiments.plan import Cell
from manyone.experiments.results import Results, paired_p, table_csv
from manyone.experiments.runner import Outcome


def outcome(method, repetition, auc):
    cell = Cell("mnist", "seen", method, method, "tuned", 0, repetition)
    return Outcome(cell, {"auc": [auc]})


def test_paired_tests_agree_with_the_formula():
    a = [0.90, 0.92, 0.95, 0.91]
    b = [0.91, 0.95, 0.96, 0.93]
    outcomes = [outcome("A", r, v) for r, v in enumerate(a)]
    outcomes += [outcome("B", r, v) for r, v in enumerate(b)]
    better, worse = Results(outcomes).of_kind("mnist", "seen")
    gain = 100 * (np.array(b) - a)
    error = gain.std(ddof=1) / 2
    assert (better.method, worse.method) == ("B", "A")
    assert paired_p(better, worse) == pytest.approx(2 * t.sf(gain.mean() / error, 3))
    assert paired_p(better, better) == 1.0


def test_one_repetition_has_no_spread():
    results = Results([outcome("A", 0, 0.9), outcome("B", 0, 0.9)])
    assert table_csv(results).splitlines()[1] == "mnist,seen,A,90.0000,,1,"
    assert paired_p(*results.rows) is None
    assert not results.repeated
