"""
Spacecraft windows
==================

Telemetry of the rover Curiosity: every channel is a task, every window of 50 steps a
row. Thirty normal windows of each channel are enough to start with.

Run ``python examples/plot_spacecraft.py``; it needs the data of
:func:`~manyone.datasets.load_telemetry`.
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from manyone import TableModel
from manyone.datasets import load_telemetry


def table(windows):
    frame = pl.DataFrame(windows.data, schema=list(windows.feature_names))
    return frame.with_columns(
        channel=pl.Series(np.asarray(windows.target_names)[windows.target]),
        start=pl.Series(windows.start),
        anomaly=pl.Series(windows.label),
    )


train = table(load_telemetry(spacecraft="MSL", split="train"))
test = table(load_telemetry(spacecraft="MSL", split="test"))
train = train.filter(pl.int_range(pl.len()).over("channel") < 30)
model = TableModel(
    "channel", anomalies="faults", alarm_rate=0.1, ignore=["start", "anomaly"]
)
model.fit(train)

# %%
# All channels together. What was normal at first does not stay so, and false alarms
# are well above the promised tenth. A :class:`manyone.Monitor` is made for this.

results = model.evaluate(test, outlier="anomaly")
print(results.head(1))

# %%
# Every line is a channel: dots are alarms, windows that touch an anomaly are grey.

scores = model.score(test, keep=["start", "anomaly"])
names = results["task"].to_list()[1:]
figure, ax = plt.subplots(figsize=(10, 6), layout="constrained")
for line, name in enumerate(names):
    channel = scores.filter(pl.col("task") == name)
    wrong = channel.filter("anomaly")
    alarm = channel.filter("alarm")
    ax.hlines(
        line,
        channel["start"].min(),
        channel["start"].max(),
        color="0.9",
        lw=0.8,
        zorder=0,
    )
    ax.plot(wrong["start"], np.full(len(wrong), line), "s", ms=5, color="0.75")
    ax.plot(alarm["start"], np.full(len(alarm), line), "o", ms=2.5, color="#D55E00")
ax.set_yticks(range(len(names)), names, fontsize=7)
ax.set(xlabel="step", ylabel="channel", ylim=(len(names) - 0.5, -0.5))
handles = [
    plt.Line2D([], [], ls="", marker="s", ms=5, color="0.75", label="anomaly"),
    plt.Line2D([], [], ls="", marker="o", ms=2.5, color="#D55E00", label="alarm"),
]
ax.legend(
    handles=handles,
    frameon=False,
    ncols=2,
    loc="lower right",
    bbox_to_anchor=(1.0, 1.0),
)
plt.show()
