"""What decides which rows are left out together."""

import numpy as np

from manyone import IndependentOCKSR
from manyone.estimators.fitting import _similarity
from manyone.kernels.kernel import Kernel
from manyone.rows import training_rows


def test_copies_that_rounding_tells_apart_count_as_their_weight():
    """A metric gives copies of a row other last digits, depending on the processor."""
    rng = np.random.default_rng(0)
    X, task, weight = rng.normal(size=(40, 3)), np.tile([0, 1], 20), rng.integers(1, 4, 40)
    again = np.repeat(np.arange(40), weight)
    weighted, _, first = training_rows(IndependentOCKSR(), X, task, sample_weight=weight)
    repeated, _, source = training_rows(IndependentOCKSR(), X[again], task[again])
    kernel = Kernel("rbf", gamma=(0.3,))
    expected = np.empty(40)
    expected[first] = _similarity(weighted.X, weighted, kernel)
    rounded = repeated.X * (1.0 + 1e-14 * rng.normal(size=repeated.X.shape))
    found = _similarity(rounded, repeated, kernel)
    np.testing.assert_allclose(found, expected[again[source]], rtol=1e-11)
