"""
Promised and measured false alarms
==================================

A detector that is asked for 10 % false alarms should raise 10 %. Here 20 related
machines with 15 normal rows each are watched, by one ``OneClassSVM`` per machine and by
:class:`~manyone.JointOCKSR`. All test rows are normal too, so every alarm is a false
one.

Run ``python examples/plot_alarm_rate.py``.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import beta
from sklearn.svm import OneClassSVM

from manyone import JointOCKSR
from manyone.datasets import make_fleet

ROWS = 15
TASKS = 20
REPEATS = 10
RATES = np.array([0.07, 0.13, 0.2, 0.3, 0.4])


def svm_rates(fleet, rate):
    """False-alarm rate of each task under its own OneClassSVM."""
    alarms = np.empty(TASKS)
    for t in range(TASKS):
        svm = OneClassSVM(nu=rate).fit(fleet.data[fleet.task == t])
        alarms[t] = np.mean(svm.predict(fleet.test_data[fleet.test_task == t]) < 0)
    return alarms


def our_rates(model, fleet):
    """False-alarm rate of each task under one joint model."""
    alarm = model.predict(fleet.test_data, task=fleet.test_task) < 0
    return np.array([alarm[fleet.test_task == t].mean() for t in range(TASKS)])


# %%
# The thresholds of the joint model come from leave-one-out scores, which it has in
# closed form: :meth:`~manyone.JointOCKSR.recalibrate` moves them to another rate
# without a new fit.

svm, ours = np.empty((2, REPEATS, len(RATES), TASKS))
for repeat in range(REPEATS):
    fleet = make_fleet(TASKS, ROWS, n_test=100, fault_rate=0.0, random_state=repeat)
    model = JointOCKSR(alarm_rate=RATES[-1]).fit(fleet.data, task=fleet.task)
    for k, rate in enumerate(RATES):
        svm[repeat, k] = svm_rates(fleet, rate)
        ours[repeat, k] = our_rates(model.recalibrate(rate), fleet)

for k, rate in enumerate(RATES):
    print(
        f"promised {rate:.0%}: OneClassSVM {svm[:, k].mean():.1%}, ours "
        f"{ours[:, k].mean():.1%}"
    )

# %%
# The left picture shows the mean over repetitions with its standard error. From its
# own 15 rows a machine could only have rates that are multiples of 1/16. Small
# machines are judged together with others of like size, so other rates are used, too.
#
# What is promised is an average over training sets. The right picture shows the rates
# that single machines got, measured on 100 rows each. With the second smallest score
# of 15 held-out rows as its threshold, a machine would have a rate that follows a
# Beta(2, 14) distribution. Ours scatter about as much. Only more rows make that less.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.plot([0, 0.5], [0, 0.5], color="0.6", lw=1, label="as promised")
for name, rates, colour, marker in [
    ("OneClassSVM per task", svm, "#D55E00", "s"),
    ("JointOCKSR", ours, "#0072B2", "o"),
]:
    means = rates.mean(axis=2)
    error = means.std(axis=0, ddof=1) / np.sqrt(REPEATS)
    left.errorbar(
        RATES, means.mean(axis=0), error, color=colour, marker=marker, label=name
    )
left.set(
    xlabel="promised false-alarm rate", ylabel="measured", xlim=(0, 0.45), ylim=(0, 0.7)
)
left.legend(loc="upper left", frameon=False)

k = 1  # the second of RATES
count = int(np.floor(RATES[k] * (ROWS + 1)))
bins = np.arange(-0.005, 1, 0.03)  # three of the possible values 0, 0.01, 0.02 ... each
right.hist(
    svm[:, k].ravel(),
    bins,
    density=True,
    color="#D55E00",
    alpha=0.6,
    label="OneClassSVM",
)
right.hist(
    ours[:, k].ravel(),
    bins,
    density=True,
    color="#0072B2",
    alpha=0.6,
    label="JointOCKSR",
)
x = np.linspace(0, 1, 500)
law = beta(count, ROWS + 1 - count)
right.plot(x, law.pdf(x), color="black", label=f"Beta({count}, {ROWS + 1 - count})")
right.axvline(RATES[k], color="0.4", ls="--", label="promised")
right.set(xlabel="false-alarm rate of one task", ylabel="density", xlim=(0, 0.7))
right.legend(frameon=False)
plt.show()
