"""
Strangers and faults
====================

What do your anomalies look like? *Strangers* are rows of somebody or something else: an
impostor, another machine's readings. *Faults* are rows of the machine itself gone
wrong. The two need opposite things: this compares methods on a fleet of 20 machines
with few normal rows each.

Run ``python examples/plot_two_kinds.py``.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from manyone import CombinedOneClass, IndependentOCKSR, JointOCKSR
from manyone.datasets import make_fleet

KINDS = {"stranger": "strangers", "own": "faults"}
SIZES = (10, 40)
TASKS = 20
REPEATS = 3
FLEET = {
    "n_types": 1,
    "relatedness": 0.95,
    "n_test": 80,
}  # machines of one make, much alike

# %%
# Rivals look at one machine at a time. Each gives a function that scores rows, higher
# for normal.


def nearest_neighbour(rows):
    return lambda X: -cdist(X, rows).min(axis=1)


def mahalanobis(rows):
    model = LedoitWolf().fit(rows)
    return lambda X: -model.mahalanobis(X)


def one_class_svm(rows):
    return OneClassSVM(nu=0.1).fit(rows).score_samples


def isolation_forest(rows):
    return IsolationForest(n_estimators=50, random_state=0).fit(rows).score_samples


RIVALS = {
    "nearest neighbour": nearest_neighbour,
    "Mahalanobis (Ledoit-Wolf)": mahalanobis,
    "OneClassSVM": one_class_svm,
    "IsolationForest": isolation_forest,
}
NO_RATE = {"alarm_rate": None}  # no thresholds: areas under the curve need none
ADAPTIVE = IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0, **NO_RATE)
OURS = {
    "JointOCKSR": JointOCKSR(**NO_RATE),
    "IndependentOCKSR": IndependentOCKSR(**NO_RATE),
    "... whitened": IndependentOCKSR(metric="whitened", kernel="laplacian", **NO_RATE),
    "... adaptive": ADAPTIVE,
    "CombinedOneClass": CombinedOneClass(
        estimators=[("joint", JointOCKSR(**NO_RATE)), ("own", ADAPTIVE)], **NO_RATE
    ),
}

# %%
# Every machine is judged by the area under the ROC curve of its own test rows.


def mean_auc(fleet, scores):
    tasks = [fleet.test_task == t for t in range(TASKS)]
    return np.mean(
        [roc_auc_score(~fleet.test_fault[rows], scores[rows]) for rows in tasks]
    )


def compare(fleet):
    """AUC of each method on one fleet, columns on one scale."""
    scaler = StandardScaler().fit(fleet.data)
    X = scaler.transform(fleet.data)
    Z = scaler.transform(fleet.test_data)
    aucs_by_method = {}
    for name, model in OURS.items():
        model.fit(X, task=fleet.task)
        aucs_by_method[name] = mean_auc(
            fleet, model.score_samples(Z, task=fleet.test_task)
        )
    for name, fit in RIVALS.items():
        scores = np.empty(len(Z))
        for t in range(TASKS):
            rows = fleet.test_task == t
            scores[rows] = fit(X[fleet.task == t])(Z[rows])
        aucs_by_method[name] = mean_auc(fleet, scores)
    return aucs_by_method


aucs = {kind: {} for kind in KINDS}
for kind in KINDS:
    for n_rows in SIZES:
        for repeat in range(REPEATS):
            fleet = make_fleet(TASKS, n_rows, fault=kind, random_state=repeat, **FLEET)
            for name, auc in compare(fleet).items():
                aucs[kind].setdefault(name, {}).setdefault(n_rows, []).append(100 * auc)

print(f"{'AUC (%), normal rows each':28s}", *(f"{n:>6d}" for n in SIZES * 2))
for name in aucs["own"]:
    means = [np.mean(aucs[kind][name][n]) for kind in KINDS for n in SIZES]
    print(f"{name:28s}", *(f"{mean:6.1f}" for mean in means))

# %%
# On strangers the joint method is far ahead of each machine alone: the rows of other
# machines show what a stranger looks like. On faults it is behind them: a fault does
# not look like another machine. What carries over there is the metric: each machine's
# scales and covariance, shrunk to what all have in common (``metric="adaptive"``). The
# combination of both is best on strangers and close to the best on faults.
#
# Rows of this fleet are Gaussian, which is what a Mahalanobis distance assumes. With
# Ledoit and Wolf's covariance and 40 rows per machine it is a little ahead of ours on
# faults, and with 10 rows still ahead of a nearest neighbour and of most kernels.
# Real faults are not so tidy; :doc:`../choosing` has figures of five real sets.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
places = np.arange(len(aucs["own"]))[::-1]
for axis, (kind, title) in zip(axes, KINDS.items(), strict=True):
    for n_rows, shade in zip(SIZES, ("#6baed6", "#08306b"), strict=True):
        values = [aucs[kind][name][n_rows] for name in aucs[kind]]
        means = np.mean(values, axis=1)
        error = np.std(values, axis=1, ddof=1) / np.sqrt(REPEATS)
        axis.errorbar(
            means, places, xerr=error, fmt="o", color=shade, label=f"{n_rows} rows each"
        )
    axis.axhline(len(RIVALS) - 0.5, color="0.8", lw=1)
    axis.set(title=title, xlabel="AUC (%)", yticks=places, yticklabels=list(aucs[kind]))
axes[0].legend(frameon=False)
plt.show()
