"""The paper's experiments: protocols, methods, a runner that resumes, a page.

``manyone reproduce`` runs them all. The same protocols and methods on arrays of your
own, here a synthetic fleet of machines; four of them are enrolled, and four others are
the anomalies:

>>> from manyone.datasets import make_fleet
>>> from manyone.experiments import Protocol, methods
>>> X, machine = make_fleet(n_tasks=12, random_state=0, return_X_y=True)
>>> protocol = Protocol(
...     "unseen", n_tasks=4, n_train=10, n_positive=8, n_negative=20, n_unseen=4
... )
>>> split = protocol.split(X, machine, seed=0)  # another repetition: another seed
>>> aucs = {}
>>> for name in ("C-OCKSR", "SVC (one-vs-rest)"):
...     model = methods()[name].fit(X[split.train], split.task, protocol.kind)
...     aucs[name] = float(split.aucs(split.scores(model, X)).mean())
>>> aucs["C-OCKSR"] > 0.9
True
"""

from manyone.experiments.methods import Method, methods
from manyone.experiments.plan import Cell, Plan
from manyone.experiments.protocols import Protocol, Split
from manyone.experiments.runner import run

__all__ = ["Cell", "Method", "Plan", "Protocol", "Split", "methods", "run"]
