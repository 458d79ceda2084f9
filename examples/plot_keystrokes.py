"""
Who is typing?
==============

Thirty people have typed a password ten times each; that is all we know. Then they type
again, and so do 26 strangers who claim to be them. :class:`~manyone.TableModel` takes
the table as it is.

Run ``python examples/plot_keystrokes.py``; it needs the data of
:func:`~manyone.datasets.load_keystrokes`.
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from manyone import TableModel
from manyone.datasets import load_keystrokes

typing = load_keystrokes()
table = pl.DataFrame(typing.data, schema=typing.feature_names.tolist())
table = table.with_columns(user=pl.Series(typing.target_names[typing.target]))

rng = np.random.default_rng(0)
enrolled_users = typing.target < 30
ten = [
    rng.choice(np.flatnonzero(typing.target == user), 10, False) for user in range(30)
]
enrolled = np.isin(np.arange(len(table)), ten)
model = TableModel("user", anomalies="strangers", alarm_rate=0.1).fit(
    table.filter(enrolled)
)

# %%
# Held-out rows of the thirty, and rows of the others under a name drawn at random.

genuine = model.score(table.filter(enrolled_users & ~enrolled))
claims = rng.choice(model.tasks_, int((~enrolled_users).sum()))
impostors = model.score(
    table.filter(~enrolled_users).with_columns(user=pl.Series(claims))
)
print(
    f"false alarms {genuine['alarm'].mean():.1%}, impostors caught "
    f"{impostors['alarm'].mean():.1%}"
)

# %%
# An alarm is a p-value of at most 0.1; genuine rows spread evenly, as p-values should.

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for scores, name, colour in (
    (genuine, "genuine", "#0072B2"),
    (impostors, "impostors", "#D55E00"),
):
    share = np.full(len(scores), 1 / len(scores))
    ax.hist(
        scores["p_value"],
        np.linspace(0, 1, 21),
        weights=share,
        alpha=0.7,
        label=name,
        color=colour,
    )
ax.axvline(0.1, color="0.3", ls="--", lw=1)
ax.set(xlabel="p-value of the row for the user it claims to be", ylabel="share of rows")
ax.legend(frameon=False)
plt.show()
