"""Metrics learned from how rows differ inside their tasks: pooled, or one for each task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.rows import group_rows, row_blocks
from manyone.scales import scales_like, switches, task_means, task_scales

# Rows whose distance overflows are as far away as can be told.
_FAR_AWAY = 1e150


@dataclass(frozen=True, eq=False)
class Whitening:
    """Multiplication with ``floor I + basis' diag(stretch) basis``, a symmetric matrix.

    Parameters
    ----------
    basis : ndarray of shape (r, d)
        Orthonormal directions.
    stretch : ndarray of shape (r,)
        Factor for each direction, beyond `floor`.
    floor : float
        Factor for every direction orthogonal to the basis.
    shrinkage : float
        How far the covariance was shrunk to a multiple of the identity.
    """

    shared: ClassVar[bool] = True

    basis: Array
    stretch: Array
    floor: float
    shrinkage: float

    def apply(self, X: Array, codes: Codes | None = None) -> Array:
        """Rows (n, d) in the metric, shape (n, d); their tasks do not matter."""
        with np.errstate(over="ignore", invalid="ignore"):
            Z = self.floor * X + ((X @ self.basis.T) * self.stretch) @ self.basis
            if not np.isfinite(Z).all():
                Z = np.nan_to_num(Z, nan=_FAR_AWAY, posinf=_FAR_AWAY, neginf=-_FAR_AWAY)
            return Z

    def undo(self, Z: Array, codes: Codes | None = None) -> Array:
        """Rows (n, d) that `apply` makes into `Z` (n, d)."""
        stretch = 1.0 / (self.floor + self.stretch) - 1.0 / self.floor
        return Z / self.floor + ((Z @ self.basis.T) * stretch) @ self.basis


@dataclass(frozen=True, eq=False)
class TaskWhitenings:
    """Each task's rows about its mean, in its own scales, in its own metric.

    Parameters
    ----------
    mean, scale : ndarray of shape (T, d)
        Of the columns in each task.
    pooled : Whitening
        What the tasks have in common, in those scales.
    starts : ndarray of shape (T + 1,)
        Where the directions of each task start.
    basis : ndarray of shape (r, d)
        Directions, after the pooled whitening, in which a task differs from the others.
    stretch : ndarray of shape (r,)
    floor : ndarray of shape (T,)
        As in :class:`Whitening`, for each task.
    common : ndarray of shape (d,) or None
        Scale of each column in all tasks, or the range of a switch; None: not known.
    switch : ndarray of bool of shape (d,) or None
        See :func:`~manyone.scales.switches`.
    """

    shared: ClassVar[bool] = False

    mean: Array
    scale: Array
    pooled: Whitening
    starts: Codes
    basis: Array
    stretch: Array
    floor: Array
    common: Array | None = None
    switch: Mask | None = None

    def apply(self, X: Array, codes: Codes | None = None) -> Array:
        """Rows (n, d) in the metric of the task (n,) that each claims, or of the first."""
        codes = np.zeros(len(X), dtype=np.intp) if codes is None else codes
        with np.errstate(over="ignore", invalid="ignore"):
            Z = self.pooled.apply((X - self.mean[codes]) / self.scale[codes])
            for task, rows in _by_task(codes, len(self.floor)):
                Z[rows] = self._of(task).apply(Z[rows])
            return Z

    def undo(self, Z: Array, codes: Codes) -> Array:
        """Rows (n, d) that `apply` makes into `Z` (n, d)."""
        X = np.array(Z, dtype=np.float64)
        for task, rows in _by_task(codes, len(self.floor)):
            X[rows] = self._of(task).undo(X[rows])
        return self.pooled.undo(X) * self.scale[codes] + self.mean[codes]

    def take(self, tasks: Codes) -> TaskWhitenings:
        """The metric of some tasks, in this order."""
        sizes = np.diff(self.starts)[tasks]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        own = np.repeat(self.starts[tasks] - starts[:-1], sizes) + np.arange(starts[-1])
        mean, scale, floor = self.mean[tasks], self.scale[tasks], self.floor[tasks]
        some = replace(self, mean=mean, scale=scale, floor=floor, starts=starts)
        return replace(some, basis=self.basis[own], stretch=self.stretch[own])

    def joined(self, more: TaskWhitenings) -> TaskWhitenings:
        """The metric of these tasks followed by others that have the same in common."""
        names = ("mean", "scale", "basis", "stretch", "floor")
        parts: dict[str, Any] = {
            one: np.concatenate([getattr(self, one), getattr(more, one)])
            for one in names
        }
        starts = np.concatenate([self.starts, self.starts[-1] + more.starts[1:]])
        return replace(self, starts=starts, **parts)

    def _of(self, task: int) -> Whitening:
        own = slice(self.starts[task], self.starts[task + 1])
        return Whitening(
            self.basis[own], self.stretch[own], float(self.floor[task]), 0.0
        )


def pooled_whitening(
    X: Array, codes: Codes, weight: Array, shrinkage: float | str = "auto"
) -> Whitening:
    r"""``((1 - rho) S + rho mu I)^(-1/2)``, S the covariance of rows about their task means.

    mu = tr S / d; rho = `shrinkage`, or the estimate of Ledoit and Wolf. Costs O(n d min(n, d)):
    the smaller of the d x d covariance and the n x n matrix of inner products is decomposed.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    codes, weight : ndarray of shape (n,)
        Task and count of each row.
    shrinkage : float or "auto"

    Returns
    -------
    Whitening
    """
    centred = X - task_means(X, codes, weight)[codes]
    scale = np.abs(centred).max(initial=0.0) or 1.0
    centred /= scale
    total = weight.sum()
    norms = np.einsum("ij,ij->i", centred, centred)
    fourth = float(weight @ norms**2) / total
    centred *= np.sqrt(weight / total)[:, None]
    return _shrunk_root(*_principal(centred), fourth, total, scale, shrinkage)


def whitening_of_sums(
    scatter: Array, fourth: float, total: float, n_rows: int, unit: float
) -> Whitening:
    """:func:`pooled_whitening` from sums over rows about their task means.

    Parameters
    ----------
    scatter : ndarray of shape (d, d)
        Sum of ``w_i c_i c_i'``, the rows c_i being in units of `unit`.
    fourth : float
        Sum of ``w_i |c_i|^4``.
    total : float
        Sum of the weights.
    n_rows : int
    unit : float

    Returns
    -------
    Whitening
    """
    values, vectors = np.linalg.eigh(scatter / total)
    values = np.where(values > _rounding(values, max(n_rows, len(values))), values, 0.0)
    return _shrunk_root(values, vectors.T, fourth / total, total, unit, "auto")


def _shrunk_root(
    values: Array,
    basis: Array,
    fourth: float,
    total: float,
    scale: float,
    shrinkage: float | str,
) -> Whitening:
    """Inverse root of the shrunk covariance that has these eigenvalues, in units of `scale`."""
    d, kept = basis.shape[1], values > 0.0
    values, basis = values[kept], basis[kept]
    if not len(values):
        # No task varies: there is no metric to learn, every direction counts the same.
        return Whitening(basis, values, 1.0, 1.0)
    mu = values.sum() / d
    if isinstance(shrinkage, str):
        # Ledoit and Wolf: from the eigenvalues and the mean fourth power of the norms.
        square = float(values @ values)
        distance = square - values.sum() ** 2 / d
        noise = (fourth - square) / total
        shrinkage = float(np.clip(noise / distance, 0.0, 1.0)) if distance > 0 else 1.0
    # Without any shrinkage, directions that no task varies in have no finite factor.
    ridge = max(shrinkage * mu, np.finfo(float).eps * values[-1])
    # With a complete basis no other direction needs a factor: take one that cancels nothing.
    floor = float(1.0 / (scale * np.sqrt(values[-1] if len(values) == d else ridge)))
    deviation = scale * np.sqrt((1 - shrinkage) * values + ridge)
    return Whitening(basis, 1.0 / deviation - floor, floor, float(shrinkage))


def task_whitenings(
    X: Array,
    codes: Codes,
    weight: Array,
    n_tasks: int,
    scale_prior: float,
    covariance_prior: float,
    like: TaskWhitenings | None = None,
) -> TaskWhitenings:
    r"""``C_t^(-1/2) D_t^(-1) (x - m_t)``, scales and covariance of each task shrunk to the pooled.

    With :math:`\nu_t` one less than the rows of task t and k the prior strengths, in rows, column
    scales are :math:`D_t^2 = (\nu_t V_t + k_D \bar V) / (\nu_t + k_D)` and, in those scales,
    :math:`C_t = (\nu_t S_t + k_C W) / (\nu_t + k_C)`: few rows lean on the other tasks, many speak
    for themselves, and a single row gives a task its place while all else is pooled.

    The root taken is :math:`M_t^{-1/2} W^{-1/2}`, :math:`M_t` being :math:`C_t` after whitening
    with W: a few directions per task, :math:`O(n_t d \min(n_t, d))`.

    Columns of two values that vary inside tasks, see :func:`~manyone.scales.switches`, stay out of
    it: rows that differ there differ by :math:`2^{-1/2}`. A value that few rows of a task have had,
    or none by chance, would else be further away than any fault.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    codes, weight : ndarray of shape (n,)
        Task and count of each row; every task has one.
    n_tasks : int
    scale_prior, covariance_prior : float
    like : TaskWhitenings or None
        Of other tasks: what these have in common is what the tasks are shrunk to.

    Returns
    -------
    TaskWhitenings
    """
    switch, span = switches(X, codes, weight, n_tasks), np.ptp(X, axis=0)
    if like is not None:
        assert like.common is not None
        assert like.switch is not None
        switch, span = like.switch, like.common
    mean = task_means(X, codes, weight, n_tasks)
    if switch.any():
        if like is not None:
            pooled = replace(like.pooled, basis=like.pooled.basis[:, ~switch])
            like = replace(like, scale=like.scale[:, ~switch], pooled=pooled)
            like = replace(like, common=span[~switch], switch=switch[~switch])
        priors = scale_prior, covariance_prior
        others = task_whitenings(X[:, ~switch], codes, weight, n_tasks, *priors, like)
        return _beside(others, mean, switch, span)
    counts = np.bincount(codes, weight, n_tasks)
    freedom = np.maximum(counts - 1.0, 0.0)
    centred = X - mean[codes]
    given = weight, freedom
    if like is not None:
        common, pooled = span, like.pooled
        scale = scales_like(centred, codes, *given, scale_prior, common, like.scale)
        centred /= scale[codes]
    else:
        whole = weight, freedom.sum(keepdims=True)
        common = task_scales(centred, X, np.zeros_like(codes), *whole, 0.0)[0]
        scale = task_scales(centred, X, codes, *given, scale_prior)
        centred /= scale[codes]
        pooled = pooled_whitening(centred, codes, weight)
        # Divided by the degrees of freedom, as the covariances of the tasks are.
        unit = np.sqrt(max(freedom.sum(), 1.0) / weight.sum()) if freedom.any() else 1.0
        stretch, floor = unit * pooled.stretch, unit * pooled.floor
        pooled = Whitening(pooled.basis, stretch, floor, pooled.shrinkage)
    white = pooled.apply(centred) * np.sqrt(weight)[:, None]
    order, begins = group_rows(codes, n_tasks)
    sizes, d = np.diff(begins), X.shape[1]
    starts = np.concatenate([[0], np.cumsum(np.minimum(sizes, d))])
    basis, stretch = np.zeros((starts[-1], d)), np.zeros(starts[-1])
    floor = np.sqrt((freedom + covariance_prior) / covariance_prior)
    for size in np.unique(sizes):
        same = np.flatnonzero(sizes == size)
        for part in row_blocks(len(same), 3 * int(size) * d):
            tasks = same[part]
            rows = white[order[begins[tasks, None] + np.arange(size)]]
            values, directions = _principal(rows)
            shrunk = (values + covariance_prior) / (freedom[tasks] + covariance_prior)[
                :, None
            ]
            own = starts[tasks, None] + np.arange(min(size, d))
            basis[own], stretch[own] = (
                directions,
                1.0 / np.sqrt(shrunk) - floor[tasks, None],
            )
    return TaskWhitenings(
        mean, scale, pooled, starts, basis, stretch, floor, common, switch
    )


def _beside(
    others: TaskWhitenings, mean: Array, switch: Mask, span: Array
) -> TaskWhitenings:
    """A metric of all columns, of means (T, d) and ranges (d,), from that of all but switches."""
    places = np.flatnonzero(switch) - np.arange(switch.sum())
    narrow = others.scale, others.basis, others.pooled.basis
    scale, basis, common = (np.insert(one, places, 0.0, axis=1) for one in narrow)
    # No direction has a part in a switch, so the floors are all that it is multiplied with.
    floors = others.pooled.floor * others.floor[:, None]
    scale[:, switch] = np.sqrt(2.0) * span[switch] * floors
    pooled, known = replace(others.pooled, basis=common), span.copy()
    known[~switch] = others.common
    both = replace(others, mean=mean, scale=scale, pooled=pooled, basis=basis)
    return replace(both, common=known, switch=switch)


def _principal(rows: Array) -> tuple[Array, Array]:
    """Eigenvalues (..., m) and directions (..., m, d) of the scatter of (stacks of) rows (n, d).

    Both are 0 where rounding alone is left.
    """
    wide = rows.shape[-1] > rows.shape[-2]
    across = np.swapaxes(rows, -1, -2)
    values, vectors = np.linalg.eigh(rows @ across if wide else across @ rows)
    directions = np.swapaxes(vectors, -1, -2)
    kept = values > _rounding(values, max(rows.shape[-2:]))
    values = np.where(kept, values, 0.0)
    if wide:
        directions = directions @ rows / np.sqrt(np.where(kept, values, 1.0))[..., None]
    return values, np.where(kept[..., None], directions, 0.0)


def _rounding(values: Array, size: int) -> Array:
    """What eigenvalues (..., m), ascending, are to exceed, of a matrix of products of `size`."""
    return np.maximum(
        size * np.finfo(float).eps * values[..., -1:], np.finfo(float).tiny
    )


def _by_task(codes: Codes, n_tasks: int) -> list[tuple[int, Codes]]:
    if len(codes) == 1:
        return [(int(codes[0]), np.zeros(1, dtype=np.intp))]
    order, starts = group_rows(codes, n_tasks)
    return [
        (int(t), order[starts[t] : starts[t + 1]])
        for t in np.flatnonzero(np.diff(starts))
    ]
