"""Number of scikit-learn's estimator checks that detectors fail, ours and others.

Run ``python benchmarks/bench_checks.py``.
"""

from __future__ import annotations

import os
import warnings

os.environ["SCIPY_ARRAY_API"] = (
    "1"  # before scipy is imported: the array-API checks need it
)

from sklearn.ensemble import IsolationForest
from sklearn.exceptions import SkipTestWarning
from sklearn.linear_model import SGDOneClassSVM
from sklearn.svm import OneClassSVM
from sklearn.utils.estimator_checks import check_estimator

from manyone.estimators import METHODS

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    warnings.simplefilter("ignore", SkipTestWarning)
    theirs = [OneClassSVM(), SGDOneClassSVM(), IsolationForest(n_estimators=10)]
    for estimator in [*theirs, *(cls() for cls in METHODS.values())]:
        results = check_estimator(estimator, on_fail=None, on_skip=None)
        failed = [r["check_name"] for r in results if r["status"] == "failed"]
        name = type(estimator).__name__
        print(
            f"{name:<22} {len(failed)} of {len(results)} checks failed  "
            f"{', '.join(failed)}"
        )
