"""AUC per task against scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from manyone.metrics import task_aucs


@pytest.mark.parametrize("digits", [1, 8])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_scikit_learn(digits, weighted):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 60)
    scores = rng.normal(size=(60, 4)).round(digits)  # one digit: many ties
    weight = rng.integers(1, 4, 60).astype(float) if weighted else None
    outlier = rng.uniform(size=60) < 0.1
    aucs = task_aucs(scores, codes, outlier, weight)
    for t in range(4):
        truth = (codes == t) & ~outlier
        expected = roc_auc_score(truth, scores[:, t], sample_weight=weight)
        assert aucs[t] == pytest.approx(expected)


def test_nothing_to_compare_is_nan():
    aucs = task_aucs(np.zeros((3, 2)), np.zeros(3, dtype=int))
    assert np.isnan(aucs).all()
