"""
One of ninety groups collapses
==============================

One of ninety shops loses 80 % of its sales. One model for all shops does not notice,
because other shops sell as little every day. Ninety single models are a burden, and
their thresholds are wrong. One :class:`~manyone.TableModel` knows what is normal for
each shop. (The case is issue 1484 of databrickslabs/dqx.)

Run ``python examples/plot_groups.py``.
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from scipy.stats import betabinom

from manyone import TableModel

SHOPS = 90
DAYS = 30
TEST = 40
RATE = 0.05
rng = np.random.default_rng(0)
size = np.exp(
    rng.normal(5.0, 1.0, SHOPS)
)  # some shops are a hundred times as large as others


def days(number):
    """Orders, revenue and returns of every shop on so many days."""
    shop = np.repeat(np.arange(SHOPS), number)
    orders = size[shop] * np.exp(0.15 * rng.normal(size=len(shop)))
    revenue = orders * 40.0 * np.exp(0.1 * rng.normal(size=len(shop)))
    returned = orders * 0.08 * np.exp(0.2 * rng.normal(size=len(shop)))
    names = np.array([f"shop {k:02}" for k in range(SHOPS)])[shop]
    return pl.DataFrame(
        {"shop": names, "orders": orders, "revenue": revenue, "returns": returned}
    )


model = TableModel("shop", anomalies="faults", alarm_rate=RATE).fit(days(DAYS))

# %%
# The orders and the revenue of shop 42 fall by 80 %.

collapsed = pl.col("shop") == "shop 42"
today = days(TEST).with_columns(
    pl.when(collapsed).then(pl.col(name) * 0.2).otherwise(pl.col(name)).alias(name)
    for name in ("orders", "revenue")
)
scores = model.score(today, explain=1)
alarms = (
    scores.group_by("task")
    .agg(pl.col("alarm").sum(), reason=pl.col("reason_1").first())
    .sort("task")
)
print(alarms.sort("alarm", descending=True).head(3))

# %%
# The band holds the numbers of false alarms of all shops at once with probability 95 %.
# Every other shop is inside. A threshold from 30 days is itself a matter of chance, so
# the number of alarms is beta-binomial, not binomial.

below = int(RATE * (DAYS + 1))
most = betabinom.isf(0.05 / SHOPS, TEST, below, DAYS + 1 - below)
figure, ax = plt.subplots(figsize=(9, 3.5), layout="constrained")
worst = alarms["alarm"].to_numpy() > most
ax.bar(np.arange(SHOPS), alarms["alarm"], color=np.where(worst, "#D55E00", "#0072B2"))
ax.axhspan(0, most, color="0.9", zorder=0, label="chance, for all shops at once")
ax.set(xlabel="shop", ylabel=f"alarms on {TEST} days")
ax.legend(frameon=False)
plt.show()
