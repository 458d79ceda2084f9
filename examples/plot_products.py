"""
Defective products
==================

A model learns fifteen products from thirty images of intact pieces each. An image is
512 numbers from an ordinary image network. Which of the other images show a defect?

Run ``python examples/plot_products.py``; it needs the data of
:func:`~manyone.datasets.load_products`.
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from manyone import TableModel
from manyone.datasets import load_products

products = load_products()
table = pl.DataFrame(products.data, schema=[f"f{k}" for k in range(512)])
table = table.with_columns(
    product=pl.Series(products.target_names[products.target]),
    defect=pl.Series(products.label),
)
rng = np.random.default_rng(0)
intact = ~products.label
train = np.concatenate(
    [
        rng.choice(np.flatnonzero(intact & (products.target == t)), 30, False)
        for t in range(15)
    ]
)
test = np.setdiff1d(np.arange(len(table)), train)

# %%
# A defect does not look like another product, so we say ``anomalies="faults"``. Nothing
# is tuned here.

model = TableModel("product", anomalies="faults", method="default", ignore=["defect"])
results = model.fit(table[train]).evaluate(table[test], outlier="defect")
print(results)

# %%
# Defects caught and false alarms, product by product.

shown = results[1:].sort("caught")
figure, ax = plt.subplots(figsize=(8, 5), layout="constrained")
ax.barh(shown["task"], shown["caught"], color="#0072B2", label="defects caught")
ax.barh(
    shown["task"],
    shown["false_alarms"],
    height=0.4,
    color="#D55E00",
    label="false alarms",
)
ax.axvline(0.05, color="0.3", ls="--", lw=1, label="promised")
ax.xaxis.set_major_formatter("{x:.0%}")
ax.set_xlabel("share of its defective, and of its intact, images that raise an alarm")
ax.legend(frameon=False, loc="lower right")
plt.show()
