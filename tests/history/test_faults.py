"""Faults in single rows are what whole sequences with the fault would show."""

import numpy as np
import pytest

from manyone.history.faults import KINDS, RowsInTime, RowsToSpoil
from manyone.history.past import Past, past_columns

SPAN = 12
ROWS = 900


def in_time(values):
    """The last row of a sequence (n,) of one entity, with its past."""
    n = len(values)
    columns, _ = past_columns(
        values[:, None],
        np.zeros(n, dtype=np.intp),
        np.arange(float(n)),
        Past.none(1, 1),
        SPAN,
    )
    return RowsInTime(values[-1:, None], columns.difference[-1:], columns.swing[-1:])


def sequence(seed):
    return 50.0 + np.random.default_rng(seed).normal(size=ROWS)


def to_spoil(rows, hashes):
    ones = np.ones_like(rows.level)
    return RowsToSpoil(
        rows, np.zeros(len(ones), dtype=np.intp), hashes, ones, ones, SPAN
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["shift", "drift"])
def test_lasting_changes_are_those_of_a_sequence(kind, seed):
    values = sequence(seed)
    hashes = np.array([seed * 0x9E3779B97F4A7C15 % 2**64], dtype=np.uint64)
    made = to_spoil(in_time(values), hashes).with_faults(kind)
    change = made.level[0, 0] - values[-1]
    # The age is the only one that explains what was made: the change of the sequence.
    expected = []
    for age in range(10 * SPAN + 1):
        shape = (
            np.ones(age + 1) if kind == "shift" else np.arange(age + 1) / max(age, 1)
        )
        spoilt = values.copy()
        spoilt[-age - 1 :] += change * shape
        expected.append(in_time(spoilt).difference[0, 0])
    assert np.abs(np.array(expected) - made.difference[0, 0]).min() < 1e-6
    assert abs(change) > 0.0


def test_steps_and_differences_follow_from_the_kind():
    rows = [in_time(sequence(seed)) for seed in range(40)]
    rows = RowsInTime(*(np.vstack(part) for part in zip(*rows, strict=True)))
    hashes = np.random.default_rng(0).integers(2**63, size=40).astype(np.uint64)
    spoil = to_spoil(rows, hashes)
    made = {kind: spoil.with_faults(kind) for kind in KINDS}
    assert np.all(made["stuck"].swing < rows.swing)
    assert np.all(made["quiet"].swing < rows.swing)
    assert np.all(made["noisy"].swing > rows.swing)
    for kind in ("spike", "shift", "drift", "broken"):
        np.testing.assert_allclose(made[kind].swing, rows.swing, atol=1e-12)
    np.testing.assert_allclose(made["noisy"].difference, 2 * rows.difference)
    np.testing.assert_allclose(
        np.abs(made["spike"].difference - rows.difference), 4.0, atol=1e-12
    )
    mean = rows.level - rows.difference
    np.testing.assert_allclose(made["broken"].level - mean, made["broken"].difference)
    # Another row of the task gives its difference, none keeps its own.
    assert np.all(made["broken"].difference != rows.difference)
    assert np.isin(made["broken"].difference, rows.difference).all()


def test_faults_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(1)
    rows = RowsInTime(*rng.normal(size=(3, 30, 4)))
    hashes = rng.integers(2**63, size=30).astype(np.uint64)
    codes = np.repeat([0, 1, 2], 10)
    spread = np.ones((30, 4))
    order = rng.permutation(30)
    for kind in KINDS:
        first = RowsToSpoil(rows, codes, hashes, spread, spread, SPAN).with_faults(kind)
        shuffled = RowsInTime(*(part[order] for part in rows))
        second = RowsToSpoil(
            shuffled, codes[order], hashes[order], spread, spread, SPAN
        ).with_faults(kind)
        np.testing.assert_array_equal(first.level[order], second.level)
        assert ((first.level != rows.level).sum(axis=1) <= 1).all()
