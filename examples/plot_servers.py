"""
Servers that go wrong
=====================

A model learns eight servers from thirty rows of normal work each, with 38 metrics. The
anomalies are the servers' own faults, not rows of somebody else, so it is fitted with
``anomalies="faults"``.

Run ``python examples/plot_servers.py``; it needs the data of
:func:`~manyone.datasets.load_servers`.
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from manyone import TableModel
from manyone.datasets import load_servers


def table(servers, rows):
    frame = pl.DataFrame(servers.data[rows], schema=servers.feature_names.tolist())
    return frame.with_columns(
        server=pl.Series(servers.target_names[servers.target[rows]])
    )


train = load_servers(split="train")
test = load_servers(split="test")
rng = np.random.default_rng(0)
thirty_each = np.concatenate(
    [rng.choice(np.flatnonzero(train.target == s), 30, False) for s in range(8)]
)
model = TableModel("server", anomalies="faults", alarm_rate=0.05).fit(
    table(train, thirty_each)
)

# %%
# The second half of the time is labelled. Some servers do other work by then. Only a
# model that follows them (``manyone watch``) can learn that this is normal.

labelled = table(test, np.arange(len(test.target))).with_columns(
    fault=pl.Series(test.label)
)
print(model.evaluate(labelled, outlier="fault"))

# %%
# One server over time: its score, and what the operators marked. Each alarm has a
# reason.

name = model.tasks_[0]
server_rows = labelled.filter(pl.col("server") == name)
scores = model.score(server_rows, explain=1)
print(scores.filter("alarm")["reason_1"].head(3).to_list())

figure, ax = plt.subplots(figsize=(10, 3.5), layout="constrained")
ax.plot(scores["row"], scores["score"], lw=0.7, color="#0072B2")
alarms = scores.filter("alarm")
ax.plot(alarms["row"], alarms["score"], ".", color="#D55E00", ms=4, label="alarm")
low, high = ax.get_ylim()
ax.fill_between(
    scores["row"],
    low,
    high,
    where=server_rows["fault"],
    color="0.8",
    label="marked as a fault",
)
ax.set_title(f"server {name}", loc="left")
ax.set(xlabel="five-minute steps", ylabel="score, higher is more normal")
ax.legend(
    frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncol=2, borderaxespad=0
)
plt.show()
