"""
Engines that wear out
=====================

A hundred turbofans run until they fail. The first thirty flights of each are normal;
the model never sees a failure. When do the alarms begin?

Run ``python examples/plot_turbofans.py``; it needs the data of
:func:`~manyone.datasets.load_turbofan`.
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from manyone import TableModel
from manyone.datasets import load_turbofan

engines = load_turbofan()
table = pl.DataFrame(engines.data, schema=list(engines.feature_names)).with_columns(
    engine=pl.Series(np.asarray(engines.target_names)[engines.target]),
    cycle=pl.Series(engines.cycle),
    left=pl.Series(engines.rul),
)
model = TableModel(
    "engine", anomalies="faults", time="cycle", ignore=["left"], alarm_rate=0.05
)
model.fit(table.filter(pl.col("cycle") <= 30))
print(pl.DataFrame(model.columns_).filter(~pl.col("used")).select("name", "note"))

# %%
# Share of engines with an alarm, by the flights that are left.

later = table.filter(pl.col("cycle") > 30)
scores = model.score(later, keep=["left"])
share = (
    scores.group_by("left").agg(pl.col("alarm").mean(), engines=pl.len()).sort("left")
)
share = share.filter(pl.col("engines") >= 20)

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.plot(share["left"], share["alarm"], color="#0072B2")
ax.axhline(0.05, color="0.3", ls="--", lw=1, label="promised for normal rows")
ax.set(
    xlabel="flights left before failure", ylabel="engines with an alarm", ylim=(0, 1.02)
)
ax.invert_xaxis()
ax.yaxis.set_major_formatter("{x:.0%}")
ax.legend(frameon=False)
plt.show()
