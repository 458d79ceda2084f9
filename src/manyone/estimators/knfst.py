"""KNFST: directions of feature space in which each task is a single point."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from manyone._sklearn import Constraints, Interval, StrOptions
from manyone._types import Codes
from manyone.capabilities import Capabilities
from manyone.data.rows import MISSING, TrainingRows
from manyone.estimators.base import MultiTaskOneClass
from manyone.kernels.gram import Gram
from manyone.models.scorers import Projection
from manyone.models.solution import FitReport, Solution
from manyone.solvers.nullspace import distinct_rows, solve_null_space


@dataclass(kw_only=True, eq=False, repr=False)
class KNFST(MultiTaskOneClass):
    r"""Kernel null Foley-Sammon transform (Bodesheim et al. 2013).

    Rows are projected on the directions w of feature space with no scatter inside the
    tasks,

    .. math:: w^\top S_w w = 0, \qquad w^\top S_t w > 0,

    which map all rows of a task to one point, its target. T tasks have T - 1 such
    directions. A single task has one, away from the origin of feature space, where rows
    unlike all others are. The score of a row is minus its distance to the target.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        Any name known to :func:`sklearn.metrics.pairwise.pairwise_kernels`,
        ``"rbf+laplacian"`` (the mean of both), ``"precomputed"``, or a callable of two
        rows.
    gamma : {"mean", "median", "scale"} or float, default="mean"
        Kernel coefficient, see :class:`JointOCKSR`.
    width : float, default=1
        Stretches the kernel: gamma is divided by it.
    degree : int, default=3
        Of the polynomial kernel.
    coef0 : float, default=1
        Of the polynomial and sigmoid kernels.
    kernel_params : dict or None
        Keyword arguments of a callable kernel.
    origin : bool or "auto", default="auto"
        Whether the origin of feature space is a class beside the tasks, which adds a
        direction. ``"auto"``: for a single task only, as published; rows unlike all
        others then land somewhere between the targets (a warning says so where that is
        too near to one). With True they are kept away from every target.
    ridge : float, default=1e-3
        Share of the mean self-similarity that is added to that of each distinct row, as
        if each carried a little noise of its own. There is a null space then, whatever
        the rows, and training rows stay near their targets, unusual ones less so. With
        0 the transform is the published one: training rows meet exactly and are all
        equally normal.
    metric : {"plain", "whitened"}, default="plain"
        ``"whitened"`` applies :class:`TaskWhitener` first.
    alarm_rate : float or None, default=0.05
        Share of normal rows that may raise an alarm, on average over tasks. None: no
        thresholds are set.
    task_rate_limit : float or None
        Largest share of normal rows of a single task that may raise an alarm, on
        average; never below 1/(n + 1) for n rows. None: three times `alarm_rate`. 1.0:
        no limit.

    Attributes
    ----------
    tasks_ : ndarray of shape (T,)
        Labels, sorted.
    offset_ : ndarray of shape (T,)
        Threshold on the score of each task.
    alarm_rate_ : ndarray of shape (T,)
        Rate promised for each task (larger than `alarm_rate` only if a warning said
        so).
    calibration_ : Calibration
        The scores of folds behind thresholds and p-values.
    projection_ : ndarray of shape (n, m)
        A row x is projected to ``K(x, X_fit) projection_``.
    targets_ : ndarray of shape (T, m)
        Where the normal rows of each task meet.
    gamma_ : float
        The kernel coefficient that was used.
    X_fit_ : array or CSR matrix of shape (n, d)
        Training rows, each distinct row of a task once.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    IndependentOCKSR : For one task the same as `alpha` goes to 0.

    Notes
    -----
    Known outliers are further classes: one for each task that has outliers, and one
    for outliers of all tasks. With a single task they are mapped to the origin. A null
    space does not depend on how often a row occurs, so `sample_weight` matters for
    thresholds only. Thresholds come from ten folds inside each task, with everything
    fitted again.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import KNFST
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["ann", "bob"], 30)
    >>> X = rng.normal(size=(60, 2)) + 3.0 * (task == "bob")[:, None]
    >>> model = KNFST(alarm_rate=0.1).fit(X, task=task)
    >>> model.predict([[0.0, 0.0], [0.0, 0.0]], task=["ann", "bob"])
    array([ 1, -1])
    """

    can = Capabilities(
        sample_weight=False,
        learns=("projection_", "targets_"),
        folds=10,
        grid={
            "kernel": ("rbf", "laplacian", "rbf+laplacian"),
            "width": (0.1, 0.3, 1.0, 3.0),
            "origin": ("auto", True),
            "ridge": (1e-6, 1e-3, 0.1),
        },
        quick=False,
    )
    _parameter_constraints: ClassVar[Constraints] = {
        **MultiTaskOneClass._parameter_constraints,
        "origin": [StrOptions({"auto"}), "boolean"],
        "ridge": [Interval(Real, 0, None, closed="left")],
    }

    origin: bool | str = "auto"
    ridge: float = 1e-3

    def _solve(self, gram: Gram, rows: TrainingRows, *, left_out: bool) -> Solution:
        K = gram.finite_matrix()
        T = rows.n_tasks
        labels = _classes(rows)
        # Copies of a row would only make the matrix singular.
        distinct = distinct_rows(K, labels)
        M = K[np.ix_(distinct, distinct)]
        # The unit of the kernel, or 1 if it is zero everywhere.
        size = float(np.abs(np.diagonal(M)).mean()) or float(np.abs(M).max()) or 1.0
        M.flat[:: len(M) + 1] += self.ridge * size
        classes = labels[distinct]
        if T == 1 or self.origin is True:
            # The origin has no similarity to anything, itself included.
            M = np.pad(M, (0, 1))
            classes = np.append(classes, 1 if T == 1 else classes.max() + 1)
        null_space = solve_null_space(M / size, classes, rtol=1e-14)
        projection = np.zeros((len(K), null_space.projection.shape[1]))
        projection[distinct] = null_space.projection[: len(distinct)]
        # The mean projection of the distinct normal rows of each task.
        normal = distinct[~rows.outlier[distinct]]
        targets = np.zeros((T, projection.shape[1]))
        np.add.at(targets, rows.codes[normal], K[normal] @ projection)
        targets /= np.bincount(rows.codes[normal], minlength=T)[:, None]
        return Solution(
            Projection(gram.points, projection, targets),
            report=FitReport(converged=null_space.converged, message=_NO_NULL_SPACE),
            learned={"projection": projection, "targets": targets},
        )


_NO_NULL_SPACE = (
    "No direction of feature space maps every task to a point; the one with the least "
    "scatter stands in. Use a larger ridge or a richer kernel."
)


def _classes(rows: TrainingRows) -> Codes:
    """Class of each row: its task, or that of the outliers of one or all tasks."""
    if rows.n_tasks == 1:
        return rows.outlier.astype(np.intp)
    of_task = np.where(rows.codes == MISSING, rows.n_tasks, rows.codes)
    key = np.where(rows.outlier, rows.n_tasks + of_task, rows.codes)
    return np.unique(key, return_inverse=True)[1].astype(np.intp)
