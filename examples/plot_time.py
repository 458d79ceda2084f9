"""
Rows in time: held rates, drift, answers
========================================

A threshold promises its alarm rate for rows like those it was set on. Rows of machines
drift: here ten machines wear for 600 rows, slowly, and from row 400 on one of them is
really broken. Three ways side by side: fixed thresholds, a :class:`~manyone.Monitor`
that gets answers about its alarms, and one that gets none.

Run ``python examples/plot_time.py``.
"""

import matplotlib.pyplot as plt
import numpy as np

from manyone import DriftDisplay, IndependentOCKSR, Monitor

RATE = 0.1
WINDOW = 300
TASKS = 10
ROWS = 600
COLUMNS = 6
rng = np.random.default_rng(0)
centres = rng.normal(size=(TASKS, COLUMNS))
task = np.repeat(np.arange(TASKS), 60)
X = centres[task] + rng.normal(size=(len(task), COLUMNS))
model = IndependentOCKSR(alarm_rate=RATE).fit(X, task=task)

# %%
# Half of the machines wear; machine 0 breaks.

wear = np.linspace(0, 1.5, ROWS)[:, None, None] * (np.arange(TASKS) % 2)[:, None]
Z = centres + wear + rng.normal(size=(ROWS, TASKS, COLUMNS))
broken = np.zeros((ROWS, TASKS), dtype=bool)
broken[400:, 0] = True
Z[broken] += 3.0
now = np.arange(TASKS)


def watch(answers):
    """Alarms (ROWS, TASKS) of a monitor with or without answers; and its results."""
    monitor = Monitor(model)
    alarm = np.empty((ROWS, TASKS), dtype=bool)
    watched = []
    for i in range(ROWS):
        result = monitor.update(Z[i], now)
        alarm[i] = result.alarm
        watched.append(result)
        if answers:
            monitor.feedback(result.id[result.alarm], normal=~broken[i][result.alarm])
    return alarm, watched


static = (
    model.predict(Z.reshape(-1, COLUMNS), task=np.tile(now, ROWS)).reshape(ROWS, TASKS)
    < 0
)
followed, watched = watch(answers=True)
alone, _ = watch(answers=False)
for name, alarm in (("fixed", static), ("told", followed), ("not told", alone)):
    print(
        f"{name:9s} false alarms {alarm[~broken].mean():.1%}, caught "
        f"{alarm[broken].mean():.0%}"
    )

# %%
# With answers about alarms the rate is held while machines wear, and the broken one is
# still caught. Without answers the thresholds hardly move, because nobody can know from
# the rows alone whether lasting alarms are wear or faults. But the monitor says that
# the rows have changed.

figure, axes = plt.subplot_mosaic("ab;cc", figsize=(10, 6.4), layout="constrained")
worn = np.arange(TASKS) % 2 == 1
for place, name, alarm in (
    ("a", "fixed thresholds", static),
    ("b", "monitor with answers", followed),
):
    raised = alarm[:, worn].ravel()
    measured = np.convolve(raised, np.full(WINDOW, 1 / WINDOW), mode="valid")
    axes[place].plot(
        np.arange(WINDOW, len(raised) + 1), measured, label=f"over {WINDOW} rows"
    )
    axes[place].axhline(RATE, color="black", ls="--", label="promised")
    axes[place].set(title=f"worn machines, {name}", ylim=(0, 1))
    axes[place].set(xlabel="row", ylabel="alarm rate")
    axes[place].legend(frameon=False)
DriftDisplay.from_watched(watched, task=np.tile(now, ROWS), ax=axes["c"])
axes["c"].set_title("evidence: machine 0 breaks, odd ones wear")
plt.show()
