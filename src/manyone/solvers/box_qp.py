"""Quadratic programs over boxes with unit sums: the core of the support vector methods."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dposv

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class KernelRows(Protocol):
    """What the solver asks of a kernel matrix: its diagonal and some of its rows."""

    def __getitem__(self, rows: int | Indices, /) -> Floats:
        """Return one row (n,) or several (m, n)."""

    def diagonal(self) -> Floats:
        """Return the n self-similarities."""


class CachedRows:
    """Kernel matrix whose rows are computed when first asked for.

    A support vector problem touches few rows, so for cheap rows this beats filling the matrix.

    Parameters
    ----------
    compute : callable
        Maps m row indices to an array of shape (m, n).
    diagonal : array of shape (n,)
    """

    def __init__(self, compute: Callable[[Indices], Floats], diagonal: Floats) -> None:
        self._compute = compute
        self._diagonal = diagonal
        # Untouched pages of an empty array cost nothing.
        self._rows = np.empty((len(diagonal), len(diagonal)))
        self._known = np.zeros(len(diagonal), dtype=bool)

    def __getitem__(self, rows: int | Indices, /) -> Floats:
        """Return one row (n,) or several (m, n)."""
        known = self._known[rows]
        if not known.all():
            missing = np.atleast_1d(rows)[~np.atleast_1d(known)]
            self._rows[missing] = self._compute(missing)
            self._known[missing] = True
        return self._rows[rows]

    def diagonal(self) -> Floats:
        """Return the n self-similarities."""
        return self._diagonal


class Infeasible(ValueError):
    """Upper bounds are too small for unit sums."""


class BoxQP(NamedTuple):
    """Solution of :func:`box_qp`."""

    coef: Floats
    gradient: Floats
    objective: float
    gap: Floats
    n_iter: int
    converged: bool


def box_qp(
    K: KernelRows,
    linear: Floats,
    lower: Floats,
    upper: Floats,
    starts: ArrayLike = (0,),
    tol: float = 1e-8,
    max_iter: int = 100_000,
) -> BoxQP:
    """Minimise b'Kb/2 - linear'b subject to lower <= b <= upper and unit sum in every group.

    Two-coordinate steps find roughly which bounds are active; a primal active-set method then
    finishes exactly: it solves for the free coefficients, stops at the first bound in the way,
    and frees the bounds that the gradient wants to leave. Every step lowers the objective.

    Parameters
    ----------
    K : array of shape (n, n), or CachedRows
        Positive semi-definite.
    linear, lower, upper : array of shape (n,)
        With lower <= 0 <= upper.
    starts : array of shape (n_groups,), default=(0,)
        First row of every group; a group's rows are contiguous.
    tol : float, default=1e-8
        Largest violation of the optimality conditions, relative to the largest entry of K's
        diagonal.
    max_iter : int, default=100_000
        Bound on the number of steps.

    Returns
    -------
    BoxQP
        ``gradient`` (n,): Kb - linear. ``gap`` (n_groups,): how far the largest gradient among
        coefficients that can shrink exceeds the smallest among those that can grow.

    Raises
    ------
    Infeasible
        If the upper bounds of a group sum to less than 1.
    """
    first = np.asarray(starts)
    group = np.repeat(np.arange(len(first)), np.diff(first, append=len(linear)))
    scale = max(float(np.abs(K.diagonal()).max()), np.finfo(float).tiny)
    coef = _start(K, linear, upper, first, group)
    n_iter = 0
    reach = np.add.reduceat(coef, first)
    if reach.min() < 1 - 1e-10:
        raise Infeasible(
            f"The upper bounds of group {int(reach.argmin())} sum to {reach.min():.6g}, but its "
            f"coefficients must sum to 1: raise the bounds (C) at least {1 / reach.min():.6g} "
            "times, or use nu <= 1."
        )
    gradient = _gradient(K, coef, linear)
    rough, few = max(1e-3, tol) * scale, min(len(coef) // 4, max_iter)
    n_iter = _pair_steps(K, coef, gradient, lower, upper, first, rough, few)
    while True:
        gradient = _gradient(K, coef, linear)
        shrink, grow = _kkt_bounds(coef, gradient, lower, upper, first)
        gap = np.maximum(shrink - grow, 0.0)
        converged = bool(gap.max() <= tol * scale)
        if converged or n_iter >= max_iter:
            break
        free = (lower < coef) & (coef < upper)
        level = _levels(gradient, free, shrink, grow, first)[group]
        wish = np.where(coef < upper, level - gradient, 0.0).clip(0.0)
        wish = np.maximum(wish, np.where(coef > lower, gradient - level, 0.0))
        # Freeing only the strongest wishes keeps the linear systems small.
        free |= wish > max(0.25 * wish.max(), 0.25 * tol * scale)
        before = coef.copy()
        n_iter += _free_steps(K, coef, gradient, lower, upper, group, free, level, scale)
        if np.array_equal(before, coef):  # Wishes at a vertex can block each other; a pair moves.
            n_iter += _pair_steps(K, coef, gradient, lower, upper, first, 0.0, 1)
    # Round-off next to a bound must not pass for a free coefficient.
    margin = 1e-12 * np.minimum(upper - lower, 1.0)
    coef = np.where(coef - lower <= margin, lower, np.where(upper - coef <= margin, upper, coef))
    objective = float(coef @ (gradient - linear) / 2)
    return BoxQP(coef, gradient, objective, gap, n_iter, converged)


def multipliers(qp: BoxQP, lower: Floats, upper: Floats, starts: ArrayLike = (0,)) -> Floats:
    """Return every group's gradient threshold: the mean over free rows, or the KKT midpoint."""
    first = np.asarray(starts)
    free = (lower < qp.coef) & (qp.coef < upper)
    bounds = _kkt_bounds(qp.coef, qp.gradient, lower, upper, first)
    return _levels(qp.gradient, free, *bounds, first)


def _start(K: KernelRows, linear: Floats, upper: Floats, first: Indices, group: Indices) -> Floats:
    """Fill every group up to its unit sum, least typical rows first."""
    sample = np.unique(np.linspace(0, len(linear) - 1, 64).astype(np.intp))
    order = np.lexsort((K[sample].mean(axis=0) - linear, group))
    most = np.minimum(upper[order], 1.0)
    before = np.cumsum(most) - most
    coef = np.empty_like(linear)
    coef[order] = np.clip(1.0 - (before - before[first][group]), 0.0, most)
    return coef


def _gradient(K: KernelRows, coef: Floats, linear: Floats) -> Floats:
    support = np.flatnonzero(coef)
    return coef[support] @ K[support] - linear


def _kkt_bounds(
    coef: Floats, gradient: Floats, lower: Floats, upper: Floats, first: Indices
) -> tuple[Floats, Floats]:
    """Largest gradient that can shrink and smallest that can grow, per group."""
    shrink = np.maximum.reduceat(np.where(coef > lower, gradient, -np.inf), first)
    grow = np.minimum.reduceat(np.where(coef < upper, gradient, np.inf), first)
    return shrink, grow


def _levels(
    gradient: Floats, free: NDArray[np.bool_], shrink: Floats, grow: Floats, first: Indices
) -> Floats:
    """Mean gradient of a group's free rows; without any, the middle of its finite bounds."""
    count = np.add.reduceat(free, first, dtype=float)
    mean = np.add.reduceat(gradient * free, first) / np.maximum(count, 1.0)
    low = np.where(np.isfinite(shrink), shrink, grow)
    high = np.where(np.isfinite(grow), grow, shrink)
    return np.where(count > 0, mean, (low + high) / 2)


def _pair_steps(
    K: KernelRows,
    coef: Floats,
    gradient: Floats,
    lower: Floats,
    upper: Floats,
    first: Indices,
    gap: float,
    max_iter: int,
) -> int:
    """Move mass inside the pair that gains most, in place, until no pair violates by ``gap``."""
    diagonal = K.diagonal()
    ends = np.append(first[1:], len(coef))
    # Added to the gradient, these take coefficients at a bound out of the race.
    full, empty = np.where(coef < upper, 0.0, np.inf), np.where(coef > lower, 0.0, -np.inf)
    for n_iter in range(max_iter):
        worst = 0
        if len(first) > 1:
            gaps = np.maximum.reduceat(gradient + empty, first)
            worst = int((gaps - np.minimum.reduceat(gradient + full, first)).argmax())
        rows = slice(first[worst], ends[worst])
        up = rows.start + int((gradient[rows] + full[rows]).argmin())
        excess = gradient[rows] - (gradient[up] + full[up])
        excess += empty[rows]
        if not excess.max() > gap:
            return n_iter
        row_up = K[up]
        curvature = diagonal[rows] - 2 * row_up[rows]
        curvature += diagonal[up]
        np.maximum(curvature, 1e-300, out=curvature)
        np.maximum(excess, 0.0, out=excess)
        step_to = excess / curvature
        best = int((excess * step_to).argmax())
        down = rows.start + best
        room = min(upper[up] - coef[up], coef[down] - lower[down])
        step = min(float(step_to[best]), room)
        coef[up] = upper[up] if step == upper[up] - coef[up] else coef[up] + step
        coef[down] = lower[down] if step == coef[down] - lower[down] else coef[down] - step
        for row in (up, down):
            full[row] = 0.0 if coef[row] < upper[row] else np.inf
            empty[row] = 0.0 if coef[row] > lower[row] else -np.inf
        gradient += step * (row_up - K[down])
    return max_iter


def _free_steps(
    K: KernelRows,
    coef: Floats,
    gradient: Floats,
    lower: Floats,
    upper: Floats,
    group: Indices,
    free: NDArray[np.bool_],
    level: Floats,
    scale: float,
) -> int:
    """Minimise over the ``free`` coefficients, in place, fixing those that reach a bound."""
    rows = np.flatnonzero(free)
    value, low, high, labels = coef[rows], lower[rows], upper[rows], group[rows]
    # On fixed sums neither change matters, and both spare the solve from cancellation.
    slope = gradient[rows] - level[rows]
    block = K[rows][:, rows] + scale * (labels[:, None] == labels)
    # A proximal term, vanishing at the solution, keeps singular kernels solvable.
    block.flat[:: len(rows) + 1] += 1e-10 * scale
    keep = np.arange(len(rows))
    n_iter = 0
    while True:
        n_iter += 1
        present, member = np.unique(labels[keep], return_inverse=True)
        indicator = np.eye(len(present))[member]
        solved = dposv(block[np.ix_(keep, keep)], np.column_stack([slope[keep], indicator]))[1]
        per_group = indicator.T @ solved
        shift = np.linalg.solve(per_group[:, 1:], per_group[:, 0])
        move = solved[:, 1:] @ shift - solved[:, 0]
        # Round-off of an ill-conditioned solve must not leak out of the sum constraints.
        move -= indicator @ (indicator.T @ move / indicator.sum(axis=0))
        target = np.where(move > 0, high[keep], low[keep])
        reach = np.full(len(keep), np.inf)
        np.divide(target - value[keep], move, out=reach, where=move != 0)
        length = np.full(len(keep), min(1.0, float(reach.min())))
        if len(present) > 1 and length[0] < 1.0:
            length = _group_lengths(block[np.ix_(keep, keep)], slope[keep], move, reach, member)
        value[keep] = np.where(reach <= length, target, value[keep] + length * move)
        slope += block[:, keep] @ (length * move)
        keep = keep[reach > length]
        if length.min() == 1.0 or not keep.size:
            break
    coef[rows] = value
    return n_iter


def _group_lengths(
    block: Floats, slope: Floats, move: Floats, reach: Floats, member: Indices
) -> Floats:
    """Let every group go as far as it can, if that is better than stopping all at one bound."""
    furthest = np.ones(member.max() + 1)
    np.minimum.at(furthest, member, reach)
    lengths = np.full(len(move), reach.min()), furthest[member]
    steps = np.stack([length * move for length in lengths])
    change = steps @ slope + np.einsum("ij,ij->i", steps, steps @ block) / 2
    return lengths[int(change.argmin())]
