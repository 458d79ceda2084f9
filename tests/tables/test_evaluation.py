"""The AUC of labelled rows."""

import numpy as np
from sklearn.metrics import roc_auc_score

from manyone.tables.evaluation import auc


def test_auc_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    for digits in (0, 1, 8):  # many ties, of zeros with either sign too
        for _ in range(50):
            scores = np.round(rng.normal(size=30), digits)
            truth = rng.permutation(np.arange(30) < rng.integers(1, 30))
            np.testing.assert_allclose(
                auc(scores, truth), roc_auc_score(~truth, scores)
            )
    assert np.isnan(auc(scores, np.zeros(30, dtype=bool)))
