"""AUC per task against scikit-learn's."""

import numpy as np
import pytest
import sklearn
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manyone import JointOCKSR, TaskAUC
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


def test_scorer_sees_through_pipelines_and_unknown_tasks():
    rng = np.random.default_rng(0)
    task = np.repeat([0, 1, 2], [20, 20, 1])
    X = rng.normal(size=(41, 2)) + 3.0 * task[:, None]
    kept = task < 2
    with sklearn.config_context(enable_metadata_routing=True):
        model = JointOCKSR(alarm_rate=0.1).set_fit_request(task=True)
        pipe = make_pipeline(StandardScaler(), model)
        pipe.fit(X[kept], task=task[kept])
    scores = pipe[-1].score_tasks(pipe[:-1].transform(X))
    expected = np.mean([roc_auc_score(task == t, scores[:, t]) for t in range(2)])
    assert TaskAUC()(pipe, X, task=task) == pytest.approx(expected)
    with pytest.raises(ValueError, match="StratifiedKFold"):
        TaskAUC()(pipe, X[-1:], task=task[-1:])
