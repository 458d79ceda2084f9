"""Means, scales and covariances of tasks, shrunk towards what the tasks share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.data.rows import group_rows, row_blocks, rows_by_task
from manyone.metric.strength import covariance_strength, scale_strengths

# Coordinates that overflow are replaced by this number.
_FAR_AWAY = 1e150
_EPS = np.finfo(float).eps
_TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class Whitening:
    """Multiplication with the matrix ``floor I + basis' diag(stretch) basis``.

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
            along = (X @ self.basis.T) * self.stretch
            Z = self.floor * X + along @ self.basis
            if not np.isfinite(Z).all():
                Z = np.nan_to_num(Z, nan=_FAR_AWAY, posinf=_FAR_AWAY, neginf=-_FAR_AWAY)
            return Z


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
    scale_prior : ndarray of shape (d,)
        Rows that the pooled scale of each column counted for; 0 for binary columns.
    covariance_prior : float
        Likewise the pooled covariance.
    """

    shared: ClassVar[bool] = False

    mean: Array
    scale: Array
    pooled: Whitening
    starts: Codes
    basis: Array
    stretch: Array
    floor: Array
    scale_prior: Array
    covariance_prior: float

    def apply(self, X: Array, codes: Codes | None = None) -> Array:
        """Rows (n, d) in the metric of the task (n,) that each claims, or of task 0."""
        codes = np.zeros(len(X), dtype=np.intp) if codes is None else codes
        with np.errstate(over="ignore", invalid="ignore"):
            deviation = (X - self.mean[codes]) / self.scale[codes]
            Z = self.pooled.apply(deviation)
            for task, rows in rows_by_task(codes):
                Z[rows] = self._of_task(task).apply(Z[rows])
            return Z

    def _of_task(self, task: int) -> Whitening:
        directions = slice(self.starts[task], self.starts[task + 1])
        floor = float(self.floor[task])
        return Whitening(self.basis[directions], self.stretch[directions], floor, 0.0)


def shrunk(
    total: Array, freedom: Array, pooled: Array | float, prior: Array | float
) -> Array:
    """``(total + prior pooled) / (freedom + prior)``: variances shrunk to pooled ones.

    Parameters
    ----------
    total : ndarray of shape (T, d)
        Sums of squares in each task.
    freedom : ndarray of shape (T,)
        Degrees of freedom of each task.
    pooled : ndarray of shape (d,) or float
        Variances of all tasks together.
    prior : ndarray of shape (d,) or float
        Rows that the pooled variances count for.

    Returns
    -------
    ndarray of shape (T, d)
        The pooled variance where a task has no freedom and there is no prior.
    """
    count = freedom[:, None] + prior
    value = (total + prior * pooled) / np.maximum(count, _TINY)
    return np.where(count > 0, value, pooled)


def task_means(X: Array, codes: Codes, weight: Array, n_tasks: int = 0) -> Array:
    """Weighted mean of the rows (n, d) of each task, shape (T, d).

    The mean of equal values is exactly their value.
    """
    counts = np.bincount(codes, weight, n_tasks)
    share = (weight / np.where(counts > 0, counts, 1.0)[codes])[:, None]
    # About one row of each task, so that a large constant leaves no rounding.
    mean = np.zeros((len(counts), X.shape[1]))
    mean[codes] = X
    np.add.at(mean, codes, share * X - share * mean[codes])
    return mean


def degrees_of_freedom(codes: Codes, weight: Array, n_tasks: int) -> Array:
    """One less than the weight of each task, shape (T,), but at least 0."""
    return np.maximum(np.bincount(codes, weight, n_tasks) - 1.0, 0.0)


def task_scales(
    centred: Array,
    X: Array,
    codes: Codes,
    weight: Array,
    freedom: Array,
    prior: float | str,
) -> tuple[Array, Array]:
    """Standard deviations of columns in each task (T, d), shrunk to the pooled ones.

    The second array (d,) has the rows that pooled ones count for: `prior`, or what
    :func:`~manyone.metric.strength.scale_strengths` estimates.
    """
    largest = np.abs(X).max(axis=0)
    # In units of the largest deviation, so that squares neither overflow nor vanish.
    unit = np.abs(centred).max(axis=0)
    # What differs by rounding only does not vary.
    varies = unit > 1e-12 * largest
    unit = np.where(varies, unit, 1.0)
    squares = np.zeros((len(freedom), X.shape[1]))
    np.add.at(squares, codes, weight[:, None] * (centred / unit) ** 2)
    pooled = squares.sum(axis=0) / max(freedom.sum(), _TINY)
    if isinstance(prior, str):
        priors = scale_strengths(squares, freedom)
    else:
        priors = np.full(X.shape[1], float(prior))
    scale = unit * np.sqrt(shrunk(squares, freedom, pooled, priors))
    # A column that varies only between tasks has that deviation, a constant one 1.
    between = (X / np.where(largest > 0, largest, 1.0)).std(axis=0)
    fallback = np.where(between > 1e-12, between * largest, 1.0)
    return np.where(varies & (scale > 0), scale, fallback), priors


def two_valued_columns(X: Array) -> Mask:
    """Columns (d,) of rows (n, d) that hold no value but their smallest and largest."""
    return np.all((X.min(axis=0) == X) | (X.max(axis=0) == X), axis=0)


def binary_columns(X: Array, codes: Codes, weight: Array, n_tasks: int) -> Mask:
    """Columns of two values that vary at least half as much inside tasks as overall.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    codes, weight : ndarray of shape (n,)
        Task and count of each row.
    n_tasks : int

    Returns
    -------
    ndarray of bool of shape (d,)
    """
    high = X.max(axis=0)
    varies = high > X.min(axis=0)
    columns = np.flatnonzero(two_valued_columns(X) & varies)
    upper = (X[:, columns] == high[columns]).astype(np.float64)
    share = weight @ upper / weight.sum()
    mean = task_means(upper, codes, weight, n_tasks)
    squares_inside = weight @ (upper - mean[codes]) ** 2
    freedom = degrees_of_freedom(codes, weight, n_tasks).sum()
    binary = np.zeros(X.shape[1], dtype=bool)
    binary[columns] = squares_inside > freedom * share * (1.0 - share) / 2.0
    return binary


def pooled_whitening(
    X: Array, codes: Codes, weight: Array, shrinkage: float | str = "auto"
) -> Whitening:
    r"""``((1 - rho) S + rho mu I)^(-1/2)``, S the covariance about the task means.

    mu = tr S / d; rho = `shrinkage`, or the estimate of Ledoit and Wolf. The cost is
    O(n d min(n, d)): the smaller of the d x d covariance and the n x n matrix of inner
    products is decomposed.

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
    values, basis = _principal_directions(centred)
    return _inverse_root(values, basis, fourth, total, scale, shrinkage)


def whitening_of_sums(
    scatter: Array, fourth: float, total: float, n_rows: int, unit: float
) -> Whitening:
    """:func:`pooled_whitening` from sums over rows about their task means.

    Parameters
    ----------
    scatter : ndarray of shape (d, d)
        Sum of ``w_i c_i c_i'``, with rows c_i in units of `unit`.
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
    rounding = _rounding(values, max(n_rows, len(values)))
    values = np.where(values > rounding, values, 0.0)
    return _inverse_root(values, vectors.T, fourth / total, total, unit, "auto")


def _inverse_root(
    values: Array,
    basis: Array,
    fourth: float,
    total: float,
    scale: float,
    shrinkage: float | str,
) -> Whitening:
    """Inverse root of the shrunk covariance, eigenvalues in units of `scale`."""
    d = basis.shape[1]
    positive = values > 0.0
    values = values[positive]
    basis = basis[positive]
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
    # Without shrinkage, directions in which no task varies would have no finite factor.
    ridge = max(shrinkage * mu, _EPS * values[-1])
    # A complete basis leaves no other direction. The floor is then one that does not
    # cancel digits.
    smallest = values[-1] if len(values) == d else ridge
    floor = float(1.0 / (scale * np.sqrt(smallest)))
    deviation = scale * np.sqrt((1 - shrinkage) * values + ridge)
    return Whitening(basis, 1.0 / deviation - floor, floor, float(shrinkage))


def task_whitenings(
    X: Array,
    codes: Codes,
    weight: Array,
    n_tasks: int,
    scale_prior: float | str,
    covariance_prior: float | str,
) -> TaskWhitenings:
    r"""``C_t^(-1/2) D_t^(-1) (x - m_t)``, scales and covariances shrunk to the pooled.

    With :math:`\nu_t` one less than the rows of task t and k the prior strengths, in
    rows, column scales are :math:`D_t^2 = (\nu_t V_t + k_D \bar V) / (\nu_t + k_D)`
    and, in those scales, :math:`C_t = (\nu_t S_t + k_C W) / (\nu_t + k_C)`. A task of
    few rows is close to the pooled metric, one of many rows close to its own; a single
    row sets only the mean.

    The root taken is :math:`M_t^{-1/2} W^{-1/2}`, where :math:`M_t` is :math:`C_t`
    after whitening with W: a few directions per task, :math:`O(n_t d \min(n_t, d))`.

    Binary columns (:func:`binary_columns`) have no covariance. Two rows that differ
    there are :math:`2^{-1/2}` apart. Otherwise a value that is rare in a task would be
    farther away than any fault.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    codes, weight : ndarray of shape (n,)
        Task and count of each row; every task has one.
    n_tasks : int
    scale_prior, covariance_prior : float or "auto"
        The strengths; ``"auto"``: as :mod:`manyone.metric.strength` estimates them.

    Returns
    -------
    TaskWhitenings
    """
    mean = task_means(X, codes, weight, n_tasks)
    freedom = degrees_of_freedom(codes, weight, n_tasks)
    binary = binary_columns(X, codes, weight, n_tasks)
    measured = np.ascontiguousarray(X[:, ~binary])
    centred = measured - mean[:, ~binary][codes]
    scale, priors = task_scales(centred, measured, codes, weight, freedom, scale_prior)
    centred /= scale[codes]
    pooled = pooled_whitening(centred, codes, weight)
    if freedom.any():
        # Divide by degrees of freedom, as the covariances of the tasks do.
        unit = np.sqrt(max(freedom.sum(), 1.0) / weight.sum())
        stretch = unit * pooled.stretch
        pooled = replace(pooled, stretch=stretch, floor=unit * pooled.floor)
    white = pooled.apply(centred)
    weighted = white * np.sqrt(weight)[:, None]
    starts, basis, values = _task_directions(weighted, codes, n_tasks)
    if isinstance(covariance_prior, str):
        directions = starts, basis, values
        covariance_prior = covariance_strength(white, codes, weight, *directions)
    sizes = np.diff(starts)
    freedom_of_value = np.repeat(freedom, sizes)
    deviation = np.sqrt(
        shrunk(values[:, None], freedom_of_value, 1.0, covariance_prior)
    )
    floor = np.sqrt((freedom + covariance_prior) / covariance_prior)
    stretch = 1.0 / deviation[:, 0] - np.repeat(floor, sizes)
    metric = TaskWhitenings(
        mean, scale, pooled, starts, basis, stretch, floor, priors, covariance_prior
    )
    if not binary.any():
        return metric
    return insert_binary_columns(metric, binary, np.ptp(X[:, binary], axis=0))


def _task_directions(
    white: Array, codes: Codes, n_tasks: int
) -> tuple[Codes, Array, Array]:
    """Where tasks start (T + 1,), their principal directions (r, d), scatter (r,)."""
    order, first_row = group_rows(codes, n_tasks)
    sizes = np.diff(first_row)
    d = white.shape[1]
    starts = np.concatenate([[0], np.cumsum(np.minimum(sizes, d))])
    basis = np.zeros((starts[-1], d))
    scatter = np.zeros(starts[-1])
    for size in np.unique(sizes):
        same_size = np.flatnonzero(sizes == size)
        for block in row_blocks(len(same_size), 3 * int(size) * d):
            tasks = same_size[block]
            rows = white[order[first_row[tasks, None] + np.arange(size)]]
            values, directions = _principal_directions(rows)
            places = starts[tasks, None] + np.arange(min(size, d))
            basis[places] = directions
            scatter[places] = values
    return starts, basis, scatter


def insert_binary_columns(
    metric: TaskWhitenings, binary: Mask, ranges: Array
) -> TaskWhitenings:
    """Add the binary columns back to a metric that was learned without them.

    `metric.mean` has all columns already; `ranges` are those of the binary ones.
    """
    places = np.flatnonzero(binary) - np.arange(binary.sum())
    scale = np.insert(metric.scale, places, 0.0, axis=1)
    # Directions are 0 in binary columns: only the floors multiply these.
    floors = metric.pooled.floor * metric.floor[:, None]
    scale[:, binary] = np.sqrt(2.0) * ranges * floors
    pooled_basis = np.insert(metric.pooled.basis, places, 0.0, axis=1)
    return replace(
        metric,
        scale=scale,
        pooled=replace(metric.pooled, basis=pooled_basis),
        basis=np.insert(metric.basis, places, 0.0, axis=1),
        scale_prior=np.insert(metric.scale_prior, places, 0.0),
    )


def _principal_directions(rows: Array) -> tuple[Array, Array]:
    """Eigenvalues (..., m), directions (..., m, d) of the scatter of rows (..., n, d).

    Both are 0 where only rounding is left.
    """
    wide = rows.shape[-1] > rows.shape[-2]
    transposed = np.swapaxes(rows, -1, -2)
    products = rows @ transposed if wide else transposed @ rows
    values, vectors = np.linalg.eigh(products)
    directions = np.swapaxes(vectors, -1, -2)
    resolved = values > _rounding(values, max(rows.shape[-2:]))
    values = np.where(resolved, values, 0.0)
    if wide:
        lengths = np.sqrt(np.where(resolved, values, 1.0))
        directions = directions @ rows / lengths[..., None]
    return values, np.where(resolved[..., None], directions, 0.0)


def _rounding(values: Array, size: int) -> Array:
    """Rounding of ascending eigenvalues (..., m) of sums of `size` terms, (..., 1)."""
    return np.maximum(size * _EPS * values[..., -1:], _TINY)
