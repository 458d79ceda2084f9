"""
Twenty digits per task
======================

The picture of the README: every digit of MNIST is a task with 20 normal images. How
many held-out images of the same digit raise an alarm, against the rate that was asked
for? A loop of scikit-learn detectors over the tasks is compared with one
:class:`~manyone.JointOCKSR`.

``python examples/plot_readme.py FILE`` writes the picture.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.svm import OneClassSVM

from manyone import JointOCKSR
from manyone.datasets import load_mnist
from manyone.plots import StructureDisplay

ROWS = 20
TEST = 200
REPEATS = 10
RATES = np.array([0.05, 0.1, 0.15, 0.2, 0.3])
images, digit = load_mnist(return_X_y=True)


def draw(rng):
    """Random training and test images of every digit."""
    parts = [rng.permutation(np.flatnonzero(digit == d)) for d in range(10)]
    train = np.concatenate([rows[:ROWS] for rows in parts])
    return train, np.concatenate([rows[ROWS : ROWS + TEST] for rows in parts])


def svm_alarms(train, test, rate):
    """One OneClassSVM per digit."""
    alarms = [
        OneClassSVM(nu=rate)
        .fit(images[train[digit[train] == d]])
        .predict(images[test[digit[test] == d]])
        for d in range(10)
    ]
    return np.mean(np.concatenate(alarms) < 0)


def forest_scores(train, test, seed):
    """One IsolationForest per digit: scores of its training and of its test images."""
    for d in range(10):
        rows = images[train[digit[train] == d]]
        forest = IsolationForest(random_state=seed).fit(rows)
        yield (
            forest.score_samples(rows),
            forest.score_samples(images[test[digit[test] == d]]),
        )


# %%
# ``contamination=rate`` of a forest is the quantile of its training scores, so one fit
# serves all rates; so does one fit of the joint model.

measured = {name: np.empty((REPEATS, len(RATES))) for name in ("svm", "forest", "ours")}
for repeat in range(REPEATS):
    train, test = draw(np.random.default_rng(repeat))
    forests = list(forest_scores(train, test, repeat))
    model = JointOCKSR(alarm_rate=RATES[-1]).fit(images[train], task=digit[train])
    for k, rate in enumerate(RATES):
        measured["svm"][repeat, k] = svm_alarms(train, test, rate)
        below = [new < np.quantile(seen, rate) for seen, new in forests]
        measured["forest"][repeat, k] = np.mean(below)
        alarm = model.recalibrate(rate).predict(images[test], task=digit[test]) < 0
        measured["ours"][repeat, k] = np.mean(alarm)

for name, rates in measured.items():
    error = rates.std(axis=0, ddof=1) / np.sqrt(REPEATS)
    cells = (
        f"{m:.1%} ± {e:.1%}" for m, e in zip(rates.mean(axis=0), error, strict=True)
    )
    print(f"{name:>7}:", " | ".join(cells))

# %%
# Left: mean over ten draws of the training images; bars, mostly hidden by the markers,
# are standard errors. Right: which digits answer to one another, from 100 images of
# each.

shown = np.concatenate([np.flatnonzero(digit == d)[:100] for d in range(10)])
joint = JointOCKSR(alarm_rate=0.1).fit(images[shown], task=digit[shown])

figure, (left, right) = plt.subplots(
    1, 2, figsize=(12, 5), layout="constrained", width_ratios=[1.15, 1]
)
left.plot([0, 0.35], [0, 0.35], color="0.6", ls="--", lw=1)
left.annotate(
    "as promised",
    (0.352, 0.352),
    (0, 6),
    textcoords="offset points",
    ha="right",
    color="0.4",
)
for name, title, colour, marker in [
    ("svm", "OneClassSVM per task", "#D55E00", "s"),
    ("forest", "IsolationForest per task", "#E69F00", "^"),
    ("ours", "manyone.JointOCKSR", "#0072B2", "o"),
]:
    rates = measured[name]
    error = rates.std(axis=0, ddof=1) / np.sqrt(REPEATS)
    left.errorbar(
        RATES,
        rates.mean(axis=0),
        error,
        color=colour,
        marker=marker,
        capsize=3,
        label=title,
    )
left.set(
    title=f"False alarms on held-out digits ({ROWS} training images each)",
    xlabel="promised false-alarm rate",
    ylabel="measured false-alarm rate",
    xlim=(0, 0.36),
    ylim=(0, 1),
)
left.xaxis.set_major_formatter("{x:.0%}")
left.yaxis.set_major_formatter("{x:.0%}")
left.grid(color="0.92")
left.spines[["top", "right"]].set_visible(False)
left.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, 0.62))
StructureDisplay.from_estimator(joint, ax=right)
right.set_title("Who looks like whom (100 images each)")
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=100)
plt.show()
