"""C-OCKSR: one kernel machine for all tasks, the rows of the others are negatives."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from manyone.calibration import full_conformal
from manyone.estimators.base import MultiTaskOneClass
from manyone.estimators.responses import ResponseScoring
from manyone.estimators.updates import UpdatableMixin, join_rows
from manyone.features import landmark_features
from manyone.kernels import Array, Rows
from manyone.solvers.path import Spectrum, decompose, interpolate_gaps, path_coef
from manyone.solvers.ridge import (
    append_rows,
    effective_alpha,
    factorise,
    inverse_diagonal,
    leave_one_out_scores,
    primal_ridge,
    remove_rows,
    ridge,
    slack,
)
from manyone.solvers.running import blas_for
from manyone.tasks import Codes, responses
from manyone.validation import TrainingRows


class JointOCKSR(ResponseScoring, UpdatableMixin, MultiTaskOneClass):
    r"""One-class kernel spectral regression of all tasks together (the paper's C-OCKSR).

    Each task has a function that should be 1 on its own normal rows and 0 on those of all other
    tasks and on known outliers,

    .. math:: \min_{f} \sum_i w_i \lVert f(x_i) - r_i \rVert^2 + \alpha \sum_t \lVert f_t \rVert^2,

    with one-hot responses :math:`r_i`. One Cholesky factor serves all tasks.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        Any name known to :func:`sklearn.metrics.pairwise.pairwise_kernels`, ``"rbf+laplacian"``
        (the mean of both), ``"precomputed"``, or a callable of two rows.
    gamma : {"mean", "median", "scale"} or float, default="mean"
        Kernel coefficient. ``"mean"``: one over the mean distance between training rows in the
        kernel's own metric; ``"median"`` likewise; ``"scale"``: one over (number of features x
        variance).
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
    landmarks : int or None, default=None
        Number of landmark rows for large n: O(n m^2) instead of O(n^3). None is exact.
    random_state : int, RandomState or None, default=None
        Of the choice of landmarks.

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
    dual_coef_ : ndarray of shape (n, T)
        Expansion coefficients: ``f = K(x, X_fit) dual_coef_``.
    mean_response_ : ndarray of shape (T,)
        Mean response of the normal rows of each task.
    structure_ : ndarray of shape (T, T)
        Entry (s, t): mean left-out response of task t's function to rows of task s. Off the
        diagonal, which tasks look alike.
    alpha_, gamma_ : float
        The numbers that were used.
    X_fit_ : array or CSR matrix of shape (n, d)
        Training rows, or the landmarks.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    IndependentOCKSR : Each task alone.

    Notes
    -----
    Thresholds and p-values compare a row with the exact leave-one-out scores of its task, in closed
    form. A fit costs 2/3 n^3 + 2 n^2 T flops.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import JointOCKSR
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["ann", "bob"], 30)
    >>> X = rng.normal(size=(60, 2)) + 3.0 * (task == "bob")[:, None]
    >>> model = JointOCKSR(alarm_rate=0.1).fit(X, task=task)
    >>> model.predict([[0.0, 0.0], [0.0, 0.0]], task=["ann", "bob"])
    array([ 1, -1])
    >>> model.predict_task([[0.0, 0.0], [3.0, 3.0], [20.0, -20.0]])
    array(['ann', 'bob', None], dtype=object)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MultiTaskOneClass._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left")],
        "landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
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
        landmarks: int | None = None,
        random_state: Any = None,
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
        self.landmarks = landmarks
        self.random_state = random_state

    def _solve(self, rows: TrainingRows) -> None:
        _, self.codes_, self.outlier_, self.weight_ = rows
        R = responses(rows.codes, rows.outlier, len(self.tasks_))
        # Left by `tune`, which has judged this very kernel matrix.
        spectrum: Spectrum | None = self.__dict__.pop("_spectrum", None)
        if self.landmarks is None:
            residuals = self._solve_exactly(rows, R, spectrum)
        else:
            residuals = self._solve_landmarks(rows, R, self.landmarks)
        self._summarise(residuals)

    def _solve_exactly(self, rows: TrainingRows, R: Array, spectrum: Spectrum | None) -> Array:
        self.X_fit_ = rows.X
        if spectrum is not None:
            self.alpha_ = float(effective_alpha(self.alpha, spectrum.values.sum()))
            self.dual_coef_, self.slack_ = path_coef(spectrum, R, self.alpha_)
        else:
            K = self._gram(rows.X)
            self.alpha_ = float(effective_alpha(self.alpha, np.diagonal(K) @ rows.weight))
            self.dual_coef_, self.slack_, self._factor = ridge(
                K, R, self.alpha_, rows.weight, overwrite=True
            )
        return self.dual_coef_ * (self.alpha_ / rows.weight)[:, None]

    def _solve_landmarks(self, rows: TrainingRows, R: Array, n_landmarks: int) -> Array:
        self._refuse_precomputed("landmarks")
        trace = float(self.kernel_.diagonal(rows.X) @ rows.weight)
        self.alpha_ = float(effective_alpha(self.alpha, trace))
        rng = check_random_state(self.random_state)
        Phi, features = landmark_features(self.kernel_, rows.X, n_landmarks, rng)
        W, self.slack_ = primal_ridge(Phi, R, self.alpha_, rows.weight)
        self.X_fit_ = rows.X[features.pivots]
        self.dual_coef_ = features.expand(W)
        return R - Phi @ W

    def _summarise(self, residuals: Array) -> None:
        """What thresholds and the task matrix need of the (n, T) residuals."""
        normal = np.flatnonzero(~self.outlier_)
        codes, weight, T = self.codes_[normal], self.weight_[normal], len(self.tasks_)
        self.residual_ = np.zeros(len(self.codes_))
        self.residual_[normal] = residuals[normal, codes]
        total = np.bincount(codes, weight, T)
        self.mean_response_ = 1.0 - np.bincount(codes, weight * self.residual_[normal], T) / total
        left_out = residuals[normal] * (weight / self.slack_[normal])[:, None]
        sums = np.zeros((T, T))
        np.add.at(sums, codes, left_out)
        self.structure_ = np.eye(T) - sums / total[:, None]

    def _left_out_scores(self) -> tuple[Array, Codes, Array]:
        normal = ~self.outlier_
        codes, weight = self.codes_[normal], self.weight_[normal]
        scores = leave_one_out_scores(
            self.residual_[normal], self.slack_[normal], weight, codes, len(self.tasks_)
        )
        return scores, codes, weight

    def _honest_scores(self, rows: TrainingRows, alphas: Array, criterion: str) -> Array:
        """Scores (k, n, T) of rows by models without them (or without their task), k ridges."""
        n_tasks = len(self.tasks_)
        R = responses(rows.codes, rows.outlier, n_tasks)
        K = self._gram(rows.X)
        trace = float(np.diagonal(K) @ rows.weight)
        groups = None
        if criterion == "unseen":
            groups = [np.flatnonzero(rows.codes == t) for t in range(n_tasks)]
        ridges = effective_alpha(alphas, trace)
        # Should this setting win, its solution is at hand: `_solve` will not factorise again.
        with blas_for(len(K)):
            self._spectrum = decompose(K, rows.weight)
            gaps = interpolate_gaps(self._spectrum, R, ridges, groups)
        return -np.abs(gaps, out=gaps)

    def _exact_pvalues(self, X: Rows, codes: Codes) -> Array:
        self._refuse_precomputed("exact=True")
        if self.landmarks is not None:
            raise ValueError("exact p-values need all training rows: fit with landmarks=None.")
        p = np.empty(X.shape[0])
        factor, root = self._cholesky(), np.sqrt(self.weight_)
        members = [np.flatnonzero((self.codes_ == t) & ~self.outlier_) for t in np.unique(codes)]
        members_of = dict(zip(np.unique(codes), members, strict=True))
        for rows, K in self._kernel_blocks(X):
            pull = root * cho_solve((factor, True), (K * root).T).T
            own = self.kernel_.diagonal(X[rows]) - np.einsum("ij,ij->i", K, pull)
            errors = 1.0 - np.einsum("ij,ij->i", K, self.dual_coef_.T[codes[rows]])
            for task in np.unique(codes[rows]):
                mine, fit_rows = codes[rows] == task, members_of[task]
                p[np.flatnonzero(mine) + rows.start] = full_conformal(
                    self.residual_[fit_rows],
                    self.slack_[fit_rows],
                    self.weight_[fit_rows],
                    errors[mine],
                    pull[np.ix_(mine, fit_rows)] / self.weight_[fit_rows],
                    own[mine] / self.alpha_,
                )
        return p

    # ----------------------------------------------------------------------------- factor, updates

    def _cholesky(self) -> Array:
        """Factor of S K S + alpha I; made again where a saved model came without it."""
        if not hasattr(self, "_factor"):
            K = self._gram(self.X_fit_)
            self._factor = factorise(K, self.alpha_, np.sqrt(self.weight_), overwrite=True)
        return self._factor

    def __getstate__(self) -> Any:
        """Without the factor: it is as large as the kernel matrix and follows from the rows."""
        state = super().__getstate__()
        state.pop("_factor", None)
        return state

    def _check_updatable(self, method: str) -> None:
        super()._check_updatable(method)
        if self.landmarks is not None:
            raise ValueError(
                f"{method}() needs all training rows, but landmarks={self.landmarks} keeps few. "
                "Fit again, or use landmarks=None."
            )

    def _complement(self) -> Array:
        # alpha diag(M^-1), back from the slack of one count.
        count = np.minimum(self.weight_, 1.0)
        return 1.0 - self.weight_ * (1.0 - self.slack_) / count

    def _append(self, rows: TrainingRows) -> None:
        old, new = np.sqrt(self.weight_), np.sqrt(rows.weight)
        L, n = self._cholesky(), len(self.codes_)
        K = self.kernel_(rows.X, self.X_fit_)
        cross = new[:, None] * K * old
        corner = new[:, None] * self.kernel_.gram(rows.X) * new
        corner[np.diag_indices_from(corner)] += self.alpha_
        self._factor = append_rows(L, cross, corner)
        corner_factor = self._factor[n:, n:]
        # Old rows give way to the new ones in proportion to M^-1 cross'.
        share = cho_solve((L, True), cross.T)
        R = responses(rows.codes, rows.outlier, len(self.tasks_))
        fresh = cho_solve((corner_factor, True), new[:, None] * (R - K @ self.dual_coef_))
        coef = np.vstack([self.dual_coef_ - old[:, None] * (share @ fresh), new[:, None] * fresh])
        gain = solve_triangular(corner_factor, share.T, lower=True)
        complement = np.concatenate(
            [
                self._complement() + self.alpha_ * np.einsum("ij,ij->j", gain, gain),
                self.alpha_ * inverse_diagonal(corner_factor),
            ]
        )
        self.X_fit_, self.codes_, self.outlier_, self.weight_ = join_rows(self._rows(), rows)
        self._refresh(coef, complement)

    def _insert_task(self, code: int) -> None:
        self.dual_coef_ = np.insert(self.dual_coef_, code, 0.0, axis=1)

    def _remove(self, code: int) -> None:
        gone, kept = np.flatnonzero(self.codes_ == code), np.flatnonzero(self.codes_ != code)
        L, root = self._cholesky(), np.sqrt(self.weight_)
        unit = np.zeros((len(root), len(gone)), order="F")
        unit[gone, np.arange(len(gone))] = 1.0
        columns = cho_solve((L, True), unit)
        corner_factor = np.linalg.cholesky(columns[gone])
        gain = solve_triangular(corner_factor, columns[kept].T, lower=True)
        lost = solve_triangular(corner_factor, self.dual_coef_[gone] / root[gone, None], lower=True)
        coef = self.dual_coef_[kept] - root[kept, None] * (gain.T @ lost)
        complement = self._complement()[kept] - self.alpha_ * np.einsum("ij,ij->j", gain, gain)
        self._factor = remove_rows(L, gone)
        self.X_fit_, self.codes_, self.outlier_, self.weight_ = self._rows_without(code)
        self._refresh(np.delete(coef, code, axis=1), complement)

    def _refresh(self, coef: Array, complement: Array) -> None:
        self.dual_coef_ = np.asfortranarray(coef)
        self.slack_ = slack(complement, self.weight_)
        self._summarise(self.dual_coef_ * (self.alpha_ / self.weight_)[:, None])
