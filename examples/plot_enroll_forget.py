"""
Enrol a task, forget a task
===========================

A new machine arrives, an old one is sold. :meth:`~manyone.JointOCKSR.enroll` adds its
rows to the fitted model, :meth:`~manyone.JointOCKSR.forget` removes them. The model
keeps its training rows, and each change is a new fit to them.

Run ``python examples/plot_enroll_forget.py``.
"""

import matplotlib.pyplot as plt
import numpy as np

from manyone import JointOCKSR
from manyone.datasets import make_fleet
from manyone.plots import ScoreDisplay, StructureDisplay

fleet = make_fleet(n_tasks=8, n_samples=25, relatedness=0.9, random_state=1)
names = np.array([f"m{t}" for t in range(8)])
task = names[fleet.task]
test_task = names[fleet.test_task]

old = task != "m7"
model = JointOCKSR(alarm_rate=0.1).fit(fleet.data[old], task=task[old])
print("fitted:", *model.tasks_)

# %%
# The machine ``m7`` arrives with its 25 rows. Every task gets a new threshold, because
# the rows of the new one are negatives to all others.

before = model.structure_.copy()
model.enroll(fleet.data[~old], task=task[~old])
print("enrolled:", *model.tasks_)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
StructureDisplay.from_predictions(before, labels=names[:7], order=None, ax=left)
StructureDisplay.from_estimator(model, order=None, ax=right)
left.set_title("before")
right.set_title("with m7")
plt.show()

# %%
# It is guarded like the others at once.

ScoreDisplay.from_estimator(
    model, fleet.test_data, task=test_task, which=["m0", "m3", "m7"]
)
plt.show()

# %%
# The machine ``m2`` is sold. No row of it stays behind.

model.forget("m2")
print("left:", *model.tasks_, f"({len(model.X_fit_)} rows)")

# %%
# The same numbers come out of a new fit to the rows that are left.

staying = task != "m2"
fresh = JointOCKSR(alarm_rate=0.1).fit(fleet.data[staying], task=task[staying])
others = test_task != "m2"
X = fleet.test_data[others]
who = test_task[others]
gap = np.abs(
    model.decision_function(X, task=who) - fresh.decision_function(X, task=who)
).max()
print(f"largest difference from a new fit: {gap:.1e}")
