"""
Who is it, or is it nobody?
===========================

:meth:`~manyone.JointOCKSR.predict_task` names the task that accepts a row best, or none
where every task raises the alarm. The model needs no rows of strangers to refuse them.

Run ``python examples/plot_open_set.py``.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from manyone import JointOCKSR

rng = np.random.default_rng(0)
n = 40
angle = rng.uniform(0, np.pi, size=(2, n))
shapes = {
    "arch": np.c_[np.cos(angle[0]), np.sin(angle[0])],
    "bowl": np.c_[1 - np.cos(angle[1]), 0.35 - np.sin(angle[1])],
    "line": np.c_[rng.uniform(-1, 2, n), np.full(n, 1.75)],
    "spot": np.tile([-1.0, -0.7], (n, 1)),
}
task = np.repeat(list(shapes), n)
X = np.vstack(list(shapes.values())) + 0.09 * rng.normal(size=(4 * n, 2))

# %%
# A narrow kernel follows the shapes: ``width=0.1`` divides the default, the mean
# squared distance of two rows, by ten.

model = JointOCKSR(width=0.1, alarm_rate=0.05).fit(X, task=task)
strangers = np.array([[0.0, -0.6], [0.9, 2.4], [2.4, 1.2]])
print(model.predict_task(np.vstack([X[::n], strangers])))

# %%
# Left: where each task is the answer; white is nobody. Right: how far the best task is
# from raising the alarm.

side = 200
box = -1.7, 2.7, -1.4, 2.8
u, v = np.meshgrid(np.linspace(box[0], box[1], side), np.linspace(box[2], box[3], side))
grid = np.c_[u.ravel(), v.ravel()]
answer = model.predict_task(grid)
region = np.full(side * side, -1)
for t, label in enumerate(model.tasks_):
    region[answer == label] = t
margin = (model.score_tasks(grid) - model.offset_).max(axis=1)

colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4.6), layout="constrained", sharey=True
)
shown = np.ma.masked_less(region.reshape(side, side), 0)
left.imshow(
    shown,
    ListedColormap(colours),
    vmin=0,
    vmax=3,
    extent=box,
    origin="lower",
    alpha=0.3,
)
for label, colour in zip(model.tasks_, colours, strict=True):
    left.scatter(*X[task == label].T, s=12, color=colour, label=label)
left.scatter(*strangers.T, marker="x", color="black", label="stranger")
left.legend(
    loc="upper center", ncols=5, columnspacing=1, handletextpad=0.2, frameon=False
)
left.set(title="predict_task")

levels = np.linspace(-0.6, 0.6, 13)
filled = right.contourf(
    u, v, margin.reshape(side, side), levels, cmap="RdBu", extend="both"
)
right.contour(u, v, margin.reshape(side, side), [0.0], colors="black", linewidths=1)
right.scatter(*X.T, s=4, color="black")
right.set(title="score minus threshold, best task", aspect="equal")
figure.colorbar(filled, ax=right)
plt.show()
