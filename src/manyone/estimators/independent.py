"""OCKSR: each task on its own, from its positive rows (and its known outliers)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_solve
from sklearn.base import clone
from sklearn.utils._param_validation import Interval

from manyone.calibration import full_conformal
from manyone.estimators.base import MultiTaskOneClass
from manyone.estimators.capabilities import Capabilities
from manyone.estimators.updates import UpdatableMixin, join_rows
from manyone.kernels import Array, Rows, is_sparse, row_blocks
from manyone.solvers.ridge import (
    batched_ridge,
    effective_alpha,
    factorise,
    leave_one_out_scores,
)
from manyone.tasks import MISSING, Codes, group_rows
from manyone.validation import TrainingRows


class IndependentOCKSR(UpdatableMixin, MultiTaskOneClass):
    r"""One-class kernel spectral regression, each task alone (the paper's OCKSR).

    Task t is described by the function that is as close to 1 as possible on its rows,

    .. math:: \min_{f_t} \sum_{i \in t} w_i (f_t(x_i) - r_i)^2 + \alpha \lVert f_t \rVert^2,

    :math:`r_i = 1` for normal rows and 0 for known outliers. A row is abnormal as far as its
    response is from the mean response of the task. As `alpha` goes to 0 all normal rows are mapped
    to one point: the null-space projection.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        Any name known to :func:`sklearn.metrics.pairwise.pairwise_kernels`, ``"rbf+laplacian"``
        (the mean of both), ``"precomputed"``, or a callable of two rows.
    gamma : {"mean", "median", "scale"} or float, default="mean"
        Kernel coefficient. ``"mean"``: one over the mean distance between training rows (of all
        tasks) in the kernel's own metric; ``"median"`` likewise; ``"scale"``: one over (number of
        features x variance).
    width : float, default=1
        Stretches the kernel: gamma is divided by it.
    degree : int, default=3
        Of the polynomial kernel.
    coef0 : float, default=1
        Of the polynomial and sigmoid kernels.
    kernel_params : dict or None
        Keyword arguments of a callable kernel.
    alpha : float, default=0.1
        Ridge. 0 means the smallest one that double precision resolves.
    metric : {"plain", "whitened"}, default="plain"
        ``"whitened"`` applies :class:`TaskWhitener` first; thresholds then come from folds.
    alarm_rate : float, default=0.05
        Share of normal rows that may raise an alarm.

    Attributes
    ----------
    tasks_ : ndarray of shape (T,)
        Labels, sorted.
    offset_ : ndarray of shape (T,)
        Threshold on the score of each task.
    alarm_rate_ : ndarray of shape (T,)
        Rate promised for each task (larger than `alarm_rate` only if a warning said so).
    calibration_ : Calibration
        The left-out scores behind thresholds and p-values.
    dual_coef_ : sparse array of shape (n, T)
        Expansion coefficients: ``f = K(x, X_fit) dual_coef_``.
    mean_response_ : ndarray of shape (T,)
        Mean response of the normal rows of each task.
    alpha_ : ndarray of shape (T,)
        The ridge of each task: `alpha`, but for extremes that double precision cannot resolve.
    gamma_ : float
        The kernel coefficient that was used.
    X_fit_ : array or CSR matrix of shape (n, d)
        Training rows.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    JointOCKSR : Rows of other tasks serve as negatives.

    Notes
    -----
    Thresholds and p-values compare a row with the exact leave-one-out scores of its task, in closed
    form. The tasks are factorised in stacks of equal size: O(sum n_t^3) flops in a few array calls.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import IndependentOCKSR
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["pump", "fan"], 30)
    >>> X = rng.normal(size=(60, 2)) + 3.0 * (task == "fan")[:, None]
    >>> model = IndependentOCKSR(alarm_rate=0.1).fit(X, task=task)
    >>> model.predict([[0.0, 0.0], [0.0, 0.0]], task=["pump", "fan"])
    array([ 1, -1])
    """

    can: ClassVar[Capabilities] = Capabilities(regression=True, joint=False)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MultiTaskOneClass._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        kernel: str | Callable[..., float] = "rbf",
        gamma: str | float = "mean",
        width: float = 1.0,
        degree: int = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        alpha: float = 0.1,
        metric: str = "plain",
        alarm_rate: float = 0.05,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.width = width
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.alpha = alpha
        self.metric = metric
        self.alarm_rate = alarm_rate

    def _solve(self, rows: TrainingRows) -> None:
        self._store(rows)
        self.alpha_ = np.empty(len(self.tasks_))
        self.coef_, self.slack_ = np.zeros(len(rows.codes)), np.ones(len(rows.codes))
        self.shared_coef_ = np.zeros((len(rows.codes) - self.starts_[-1], len(self.tasks_)))
        self._solve_tasks(np.arange(len(self.tasks_)))

    def _store(self, rows: TrainingRows) -> None:
        self.X_fit_, self.codes_, self.outlier_, self.weight_ = rows
        known = rows.codes[rows.codes != MISSING]
        self.starts_ = group_rows(known, len(self.tasks_))[1]

    def _solve_tasks(self, changed: Codes) -> None:
        """Solve these tasks, stacked by their number of rows."""
        shared = np.arange(self.starts_[-1], len(self.codes_))
        response = np.where(self.outlier_, 0.0, 1.0)
        mass = self._gram_diagonal(self.X_fit_) * self.weight_
        known = self.codes_ != MISSING
        traces = np.bincount(self.codes_[known], mass[known], len(self.tasks_))
        self.alpha_[changed] = effective_alpha(self.alpha, traces + mass[~known].sum())[changed]
        sizes = np.diff(self.starts_)[changed]
        for size in np.unique(sizes):
            tasks = changed[sizes == size]
            n = size + len(shared)
            for part in row_blocks(len(tasks), n * (3 * n + self.X_fit_.shape[1])):
                own = self.starts_[tasks[part], None] + np.arange(size)
                block = np.hstack([own, np.broadcast_to(shared, (len(own), len(shared)))])
                ridges, weight = self.alpha_[tasks[part]], self.weight_[block]
                K = self._stacked_gram(block)
                coef, slack = batched_ridge(K, response[block], ridges, weight)
                self.coef_[own], self.slack_[own] = coef[:, :size], slack[:, :size]
                self.shared_coef_[:, tasks[part]] = coef[:, size:].T
        normal, T = ~self.outlier_, len(self.tasks_)
        codes, weight = self.codes_[normal], self.weight_[normal]
        lack = np.bincount(codes, weight * self._residuals()[normal], T)
        self.mean_response_ = 1.0 - lack / np.bincount(codes, weight, T)

    def _stacked_gram(self, block: NDArray[np.intp]) -> Array:
        """Kernel matrices of the rows listed in each line of `block`, shape (g, n, n)."""
        if self.kernel == "precomputed":
            return np.stack([self._gram(self.X_fit_[rows][:, rows]) for rows in block])
        if is_sparse(self.X_fit_):
            return np.stack([self.kernel_.gram(self.X_fit_[rows]) for rows in block])
        return self.kernel_.batch(self.X_fit_[block])

    def _residuals(self) -> Array:
        return self.alpha_[np.maximum(self.codes_, 0)] * self.coef_ / self.weight_

    @property
    def dual_coef_(self) -> sparse.csc_array:
        """Expansion coefficients, shape (n, T): ``f(x) = K(x, X_fit) dual_coef_``."""
        n, own = len(self.codes_), self.starts_[-1]
        columns = sparse.csc_array(
            (self.coef_[:own], np.arange(own), self.starts_), shape=(own, len(self.tasks_))
        )
        if own == n:
            return columns
        return sparse.vstack([columns, sparse.csc_array(self.shared_coef_)], format="csc")

    def _left_out_scores(self) -> tuple[Array, Codes, Array]:
        normal = ~self.outlier_
        codes, weight = self.codes_[normal], self.weight_[normal]
        scores = leave_one_out_scores(
            self._residuals()[normal], self.slack_[normal], weight, codes, len(self.tasks_)
        )
        return scores, codes, weight

    def _honest_scores(self, rows: TrainingRows, alphas: Array, criterion: str) -> Array:
        """Scores (k, n, T) for k ridges; no task has seen other tasks' rows, or the left-out."""
        table = []
        for alpha in alphas:
            model = clone(self).set_params(alpha=alpha)
            model.tasks_, model.kernel_ = self.tasks_, self.kernel_
            model._solve(rows)
            scores = model._all_scores(rows.X)
            own, codes, _ = model._left_out_scores()
            scores[np.flatnonzero(~rows.outlier), codes] = own
            table.append(scores)
        return np.stack(table)

    def _own_scores(self, X: Rows, codes: Codes) -> Array:
        if self.kernel != "precomputed" and not is_sparse(X) and not is_sparse(self.X_fit_):
            return self._stacked_scores(np.asarray(X, dtype=np.float64), codes)
        scores = np.empty(X.shape[0])
        for task, rows in self._by_task(codes):
            fit_rows, coef = self._expansion(task)
            for part in row_blocks(len(rows), 2 * (len(coef) + X.shape[1])):
                response = self._values(X[rows[part]], fit_rows) @ coef
                scores[rows[part]] = -np.abs(response - self.mean_response_[task])
        return scores

    def _stacked_scores(self, X: Array, codes: Codes) -> Array:
        """Scores of dense rows, many small tasks per array call."""
        scores = np.empty(len(X))
        order, starts = group_rows(codes, len(self.tasks_))
        shared = np.arange(self.starts_[-1], len(self.codes_))
        for tasks, first, most in self._stacks(np.diff(starts), X.shape[1]):
            # Short tasks repeat their last row up to the longest of the stack.
            place = starts[tasks, None] + first + np.arange(most)
            rows = order[np.minimum(place, starts[tasks + 1, None] - 1)]
            size = self.starts_[tasks[0] + 1] - self.starts_[tasks[0]]
            own = self.starts_[tasks, None] + np.arange(size)
            fit_rows = np.hstack([own, np.broadcast_to(shared, (len(own), len(shared)))])
            coef = np.hstack([self.coef_[own], self.shared_coef_[:, tasks].T])
            K = self.kernel_.pairs(X[rows], self.X_fit_[fit_rows])
            response = np.matmul(K, coef[:, :, None])[:, :, 0]
            scores[rows] = -np.abs(response - self.mean_response_[tasks, None])
        return scores

    def _stacks(self, counts: Codes, d: int) -> Iterator[tuple[Codes, int, int]]:
        """Tasks of one size and about as many rows to score: (tasks, first row, number of rows)."""
        sizes = np.diff(self.starts_)
        tasks = np.flatnonzero(counts)
        tasks = tasks[np.lexsort((counts[tasks], sizes[tasks]))]
        # A stack ends where padding would add more than a half, or where the size changes.
        level = np.floor(np.log(counts[tasks]) / np.log(1.5))
        cuts = np.flatnonzero((np.diff(level) != 0) | (np.diff(sizes[tasks]) != 0)) + 1
        for stack in np.split(tasks, cuts) if len(tasks) else []:
            n_fit = sizes[stack[0]] + len(self.codes_) - self.starts_[-1]
            longest = int(counts[stack].max())
            for rows in row_blocks(longest, 3 * n_fit + 2 * d):
                most = rows.stop - rows.start
                for part in row_blocks(len(stack), most * (3 * n_fit + 2 * d)):
                    yield stack[part], rows.start, most

    def _all_scores(self, X: Rows) -> Array:
        scores = np.empty((X.shape[0], len(self.tasks_)))
        dual = self.dual_coef_
        for rows, K in self._kernel_blocks(X):
            scores[rows] = -np.abs(K @ dual - self.mean_response_)
        return scores

    def _far_scores(self) -> Array | None:
        # Kernels of a distance vanish far away, and the response with them.
        return -np.abs(self.mean_response_) if self.kernel_.unit_diagonal else None

    def _exact_pvalues(self, X: Rows, codes: Codes) -> Array:
        self._refuse_precomputed("exact=True")
        p = np.empty(X.shape[0])
        for task, rows in self._by_task(codes):
            fit_rows, coef = self._expansion(task)
            weight = self.weight_[fit_rows]
            root = np.sqrt(weight)
            alpha = float(self.alpha_[task])
            factor = factorise(self.kernel_.gram(self.X_fit_[fit_rows]), alpha, root)
            normal = ~self.outlier_[fit_rows]
            residual = (alpha * coef / weight)[normal]
            slack = self.slack_[fit_rows][normal]
            for part in row_blocks(len(rows), 8 * len(coef) + X.shape[1]):
                K = self._values(X[rows[part]], fit_rows)
                pull = root * cho_solve((factor, True), (K * root).T).T
                own = self.kernel_.diagonal(X[rows[part]]) - np.einsum("ij,ij->i", K, pull)
                p[rows[part]] = full_conformal(
                    residual,
                    slack,
                    weight[normal],
                    1.0 - K @ coef,
                    (pull / weight)[:, normal],
                    own / alpha,
                )
        return p

    def _by_task(self, codes: Codes) -> Iterator[tuple[int, Codes]]:
        order, starts = group_rows(codes, len(self.tasks_))
        for task in np.flatnonzero(np.diff(starts)):
            yield int(task), order[starts[task] : starts[task + 1]]

    def _expansion(self, task: int) -> tuple[Any, Array]:
        """Training rows of one task's function and their coefficients."""
        own = slice(self.starts_[task], self.starts_[task + 1])
        if self.starts_[-1] == len(self.codes_):
            return own, self.coef_[own]
        shared = np.arange(self.starts_[-1], len(self.codes_))
        rows = np.r_[own, shared]
        return rows, np.concatenate([self.coef_[own], self.shared_coef_[:, task]])

    def _values(self, X: Rows, fit_rows: Any) -> Array:
        if self.kernel == "precomputed":
            return self._kernel_values(X[:, fit_rows])
        return self.kernel_(X, self.X_fit_[fit_rows])

    def _append(self, rows: TrainingRows) -> None:
        joined, order = join_rows(self._rows(), rows).by_task()
        coef = np.concatenate([self.coef_, np.zeros(len(rows.codes))])
        slack = np.concatenate([self.slack_, np.ones(len(rows.codes))])
        everyone = np.any(rows.codes == MISSING)
        changed = np.arange(len(self.tasks_)) if everyone else np.unique(rows.codes)
        self._store(joined)
        self.coef_, self.slack_ = coef[order], slack[order]
        shared = np.zeros((len(order) - self.starts_[-1], len(self.tasks_)))
        shared[: len(self.shared_coef_)] = self.shared_coef_
        self.shared_coef_ = shared
        self._solve_tasks(changed)

    def _insert_task(self, code: int) -> None:
        self.shared_coef_ = np.insert(self.shared_coef_, code, 0.0, axis=1)
        self.alpha_ = np.insert(self.alpha_, code, self.alpha)

    def _remove(self, code: int) -> None:
        kept = self.codes_ != code
        self.coef_, self.slack_ = self.coef_[kept], self.slack_[kept]
        self.shared_coef_ = np.delete(self.shared_coef_, code, axis=1)
        self.mean_response_ = np.delete(self.mean_response_, code)
        self.alpha_ = np.delete(self.alpha_, code)
        self._store(self._rows_without(code))
