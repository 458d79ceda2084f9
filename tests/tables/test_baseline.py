"""What one OneClassSVM per task does is measured on a part of large tables."""

import numpy as np
from sklearn.svm import OneClassSVM

from manyone.tables.baseline import svm_false_alarms


def test_a_share_is_measured_on_a_part_of_large_tasks():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], [12_000, 40, 1])
    Z = rng.normal(size=(len(codes), 2))
    share, rows = svm_false_alarms(Z, codes, 0.1)
    assert (
        rows == 540
    )  # 500 of the first task, all of the second, none of a task of one row
    few = Z[12_000:12_040]
    fold = np.arange(40) % 5
    alarms = [
        OneClassSVM(nu=0.1).fit(few[fold != k]).predict(few[fold == k]) < 0
        for k in range(5)
    ]
    assert svm_false_alarms(few, np.zeros(40, dtype=int), 0.1) == (np.mean(alarms), 40)
    assert 0.0 < share < 0.5
