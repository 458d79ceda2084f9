"""
Spacecraft windows
==================

Telemetry of the rover Curiosity: every channel is a task, every window of 50 steps a row. Thirty
normal windows of each channel are enough to start with.
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
model = TableModel("channel", anomalies="faults", time="start", ignore=["anomaly"]).fit(train)

# %%
# The channels together, then the one with most anomalous windows.

results = model.evaluate(test, outlier="anomaly")
print(results.head(1))
name = test.filter("anomaly")["channel"].mode()[0]
mine = test.filter(pl.col("channel") == name).sort("start")
scores = model.score(mine)

# %%
# Windows that touch an anomaly are grey.

figure, ax = plt.subplots(figsize=(10, 3.5), layout="constrained")
ax.semilogy(mine["start"], scores["p_value"], "-", lw=0.7, color="#0072B2")
alarm = scores["alarm"]
ax.semilogy(
    mine["start"].filter(alarm),
    scores["p_value"].filter(alarm),
    "o",
    ms=4,
    color="#D55E00",
    label="alarm",
)
low, high = ax.get_ylim()
ax.fill_between(mine["start"], low, high, where=mine["anomaly"], color="0.85", label="anomaly")
ax.set(title=f"channel {name}", xlabel="step", ylabel="p-value")
ax.legend(frameon=False)
plt.show()
