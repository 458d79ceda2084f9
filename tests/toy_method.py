"""A method by a stranger: a solver, an estimator, a registry line."""

from dataclasses import dataclass

import numpy as np

from manyone.capabilities import Capabilities
from manyone.estimators import METHODS
from manyone.estimators.base import MultiTaskOneClass
from manyone.models import Expansion, Solution


def solve_kernel_mean(R, weight):
    """Minimise ``sum_i w_i |f_t - phi_i|^2`` over the rows of each task."""
    share = weight[:, None] * R
    return share / share.sum(axis=0)


@dataclass(kw_only=True, eq=False, repr=False)
class KernelMean(MultiTaskOneClass):
    """Score: how far the mean similarity to the task's rows is from usual.

    Parameters
    ----------
    kernel, gamma, width, degree, coef0, kernel_params, metric, alarm_rate
        As in :class:`manyone.JointOCKSR`.
    """

    can = Capabilities(
        outliers=False,
        learns=("dual_coef_", "structure_"),
        folds=10,
        grid={"kernel": ("rbf", "laplacian"), "width": (0.3, 1.0)},
    )

    def _solve(self, gram, rows, *, left_out):
        coef = np.asfortranarray(solve_kernel_mean(rows.responses(), rows.weight))
        K = gram.finite_matrix()
        own = coef.T[np.maximum(rows.codes, 0)]
        mean = rows.mean_by_task(np.einsum("ij,ij->i", K, own))
        return Solution(
            Expansion(gram.points, coef, mean),
            learned={"dual_coef": coef, "structure": coef.T @ K @ coef},
        )


METHODS["TOY"] = KernelMean
