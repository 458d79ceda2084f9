"""Quadratic programs over boxes with unit sums, for the support vector methods."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dposv

from manyone._types import Array, Codes


class KernelRows(Protocol):
    """What the solver needs of a kernel matrix: its diagonal and single rows."""

    def __getitem__(self, rows: int | Codes, /) -> Array:
        """Return one row (n,) or several (m, n)."""

    def diagonal(self) -> Array:
        """Return the n self-similarities."""


class CachedRows:
    """Kernel matrix whose rows are computed when they are first needed.

    A support vector problem touches few rows, so for cheap rows this beats filling the
    matrix.

    Parameters
    ----------
    compute : callable
        Maps m row indices to an array of shape (m, n).
    diagonal : array of shape (n,)
    """

    def __init__(self, compute: Callable[[Codes], Array], diagonal: Array) -> None:
        self._compute = compute
        self._diagonal = diagonal
        # Untouched pages of an empty array cost nothing.
        self._rows = np.empty((len(diagonal), len(diagonal)))
        self._computed = np.zeros(len(diagonal), dtype=bool)

    def __getitem__(self, rows: int | Codes, /) -> Array:
        """Return one row (n,) or several (m, n)."""
        computed = self._computed[rows]
        if not computed.all():
            missing = np.atleast_1d(rows)[~np.atleast_1d(computed)]
            self._rows[missing] = self._compute(missing)
            self._computed[missing] = True
        return self._rows[rows]

    def diagonal(self) -> Array:
        """Return the n self-similarities."""
        return self._diagonal


class Infeasible(ValueError):
    """Upper bounds are too small for unit sums.

    Attributes
    ----------
    factor : float
        How many times larger they must be at least.
    """

    def __init__(self, group: int, total: float) -> None:
        bounds = f"The upper bounds of group {group} sum to {total:.6g}"
        super().__init__(f"{bounds}, but its coefficients must sum to 1.")
        self.factor = 1.0 / total if total > 0 else np.inf


class _BoxQP(NamedTuple):
    """The problem: `first` is the first row of each group, `group` that of each row."""

    K: KernelRows
    linear: Array
    lower: Array
    upper: Array
    first: Codes
    group: Codes
    scale: float  # largest entry of the diagonal of K


class BoxQPSolution(NamedTuple):
    """Solution of :func:`solve_box_qp`.

    Attributes
    ----------
    coef : array of shape (n,)
        b.
    gradient : array of shape (n,)
        Kb - linear.
    gap : array of shape (n_groups,)
        How far the largest gradient among coefficients that can shrink exceeds the
        smallest among those that can grow.
    multiplier : array of shape (n_groups,)
        Threshold on the gradient: its mean over the free rows, or the middle of what
        optimality allows.
    """

    coef: Array
    gradient: Array
    objective: float
    gap: Array
    multiplier: Array
    n_iter: int
    converged: bool


def solve_box_qp(
    K: KernelRows,
    linear: Array,
    lower: Array,
    upper: Array,
    starts: ArrayLike = (0,),
    tol: float = 1e-8,
    max_iter: int = 100_000,
) -> BoxQPSolution:
    """Minimise b'Kb/2 - linear'b; lower <= b <= upper, unit sum in every group.

    Two-coordinate steps find roughly which bounds are active. A primal active-set
    method then finishes exactly. It solves for the free coefficients, stops at the
    first bound in the way, and frees bounds that the gradient points away from. Every
    step lowers the objective.

    Parameters
    ----------
    K : array of shape (n, n), or CachedRows
        Positive semi-definite.
    linear, lower, upper : array of shape (n,)
        With lower <= 0 <= upper.
    starts : array of shape (n_groups,), default=(0,)
        First row of every group; a group's rows are contiguous.
    tol : float, default=1e-8
        Largest violation of the optimality conditions, relative to the largest entry of
        K's diagonal.
    max_iter : int, default=100_000
        Bound on the number of steps.

    Returns
    -------
    BoxQPSolution

    Raises
    ------
    Infeasible
        If the upper bounds of a group sum to less than 1.
    """
    first = np.asarray(starts)
    group = np.repeat(np.arange(len(first)), np.diff(first, append=len(linear)))
    scale = max(float(np.abs(K.diagonal()).max()), np.finfo(float).tiny)
    qp = _BoxQP(K, linear, lower, upper, first, group, scale)
    coef = _start(qp)
    gradient = _gradient(qp, coef)
    rough_gap = max(1e-3, tol) * scale
    n_iter = _pair_steps(qp, coef, gradient, rough_gap, min(len(coef) // 4, max_iter))
    while True:
        gradient = _gradient(qp, coef)
        gap, multiplier = _optimality(qp, coef, gradient)
        converged = bool(gap.max() <= tol * scale)
        if converged or n_iter >= max_iter:
            break
        slope = gradient - multiplier[group]
        n_iter += _active_set_round(qp, coef, gradient, slope, tol * scale)
    # Round-off next to a bound must not pass for a free coefficient.
    margin = 1e-12 * np.minimum(upper - lower, 1.0)
    coef = np.where(upper - coef <= margin, upper, coef)
    coef = np.where(coef - lower <= margin, lower, coef)
    multiplier = _optimality(qp, coef, gradient)[1]
    objective = float(coef @ (gradient - linear) / 2)
    return BoxQPSolution(coef, gradient, objective, gap, multiplier, n_iter, converged)


def _start(qp: _BoxQP) -> Array:
    """Fill every group up to its unit sum, least typical rows first."""
    evenly = np.linspace(0, len(qp.linear) - 1, 64)
    sample = np.unique(evenly.astype(np.intp))
    slope = qp.K[sample].mean(axis=0) - qp.linear
    order = np.lexsort((slope, qp.group))
    most = np.minimum(qp.upper[order], 1.0)
    before = np.cumsum(most) - most
    before_in_group = before - before[qp.first][qp.group]
    coef = np.empty_like(qp.linear)
    coef[order] = np.clip(1.0 - before_in_group, 0.0, most)
    total = np.add.reduceat(coef, qp.first)
    if total.min() < 1 - 1e-10:
        raise Infeasible(int(total.argmin()), float(total.min()))
    return coef


def _gradient(qp: _BoxQP, coef: Array) -> Array:
    support = np.flatnonzero(coef)
    return coef[support] @ qp.K[support] - qp.linear


def _optimality(qp: _BoxQP, coef: Array, gradient: Array) -> tuple[Array, Array]:
    """Optimality gap and multiplier of every group.

    The gap is the largest gradient of coefficients that can shrink minus the smallest
    of those that can grow. The multiplier is the mean gradient of the free rows.
    Without any it is the middle of these two, where they are finite.
    """
    first = qp.first
    can_shrink = coef > qp.lower
    can_grow = coef < qp.upper
    shrink = np.maximum.reduceat(np.where(can_shrink, gradient, -np.inf), first)
    grow = np.minimum.reduceat(np.where(can_grow, gradient, np.inf), first)
    free = can_shrink & can_grow
    count = np.add.reduceat(free, first, dtype=float)
    mean = np.add.reduceat(gradient * free, first) / np.maximum(count, 1.0)
    low = np.where(np.isfinite(shrink), shrink, grow)
    high = np.where(np.isfinite(grow), grow, shrink)
    multiplier = np.where(count > 0, mean, (low + high) / 2)
    return np.maximum(shrink - grow, 0.0), multiplier


def _active_set_round(
    qp: _BoxQP, coef: Array, gradient: Array, slope: Array, gap: float
) -> int:
    """Free the bounds that violate optimality most and solve, in place; count steps."""
    can_shrink = coef > qp.lower
    can_grow = coef < qp.upper
    violation = np.where(can_grow, -slope, 0.0).clip(0.0)
    violation = np.maximum(violation, np.where(can_shrink, slope, 0.0))
    # Freeing only the largest violations keeps the linear systems small.
    limit = 0.25 * max(violation.max(), gap)
    free = (can_shrink & can_grow) | (violation > limit)
    before = coef.copy()
    n_iter = _free_steps(qp, coef, slope, np.flatnonzero(free))
    if np.array_equal(before, coef):
        # Rows freed at a vertex can block each other; a pair moves.
        n_iter += _pair_steps(qp, coef, gradient, 0.0, 1)
    return n_iter


def _pair_steps(
    qp: _BoxQP, coef: Array, gradient: Array, gap: float, max_iter: int
) -> int:
    """Move mass inside the pair that gains most, in place, until gaps are small."""
    lower = qp.lower
    upper = qp.upper
    first = qp.first
    diagonal = qp.K.diagonal()
    ends = np.append(first[1:], len(coef))
    # Added to the gradient, these exclude coefficients at a bound.
    full = np.where(coef < upper, 0.0, np.inf)
    empty = np.where(coef > lower, 0.0, -np.inf)
    for n_iter in range(max_iter):
        worst = 0
        if len(first) > 1:
            gaps = np.maximum.reduceat(gradient + empty, first)
            worst = int((gaps - np.minimum.reduceat(gradient + full, first)).argmax())
        rows = slice(first[worst], ends[worst])
        up = rows.start + int((gradient[rows] + full[rows]).argmin())
        excess = gradient[rows] - (gradient[up] + full[up]) + empty[rows]
        if not excess.max() > gap:
            return n_iter
        row_up = qp.K[up]
        curvature = diagonal[rows] - 2 * row_up[rows] + diagonal[up]
        # Between copies it is zero, and the bounds end the step.
        curvature = np.maximum(curvature, np.finfo(float).eps * qp.scale)
        excess = np.maximum(excess, 0.0)
        step_to = excess / curvature
        best = int((excess * step_to).argmax())
        down = rows.start + best
        room = min(upper[up] - coef[up], coef[down] - lower[down])
        step = min(float(step_to[best]), room)
        coef[up] = upper[up] if step == upper[up] - coef[up] else coef[up] + step
        coef[down] = (
            lower[down] if step == coef[down] - lower[down] else coef[down] - step
        )
        for row in (up, down):
            full[row] = 0.0 if coef[row] < upper[row] else np.inf
            empty[row] = 0.0 if coef[row] > lower[row] else -np.inf
        gradient += step * (row_up - qp.K[down])
    return max_iter


def _free_steps(qp: _BoxQP, coef: Array, slope: Array, rows: Codes) -> int:
    """Minimise over coefficients of `rows`, in place, fixing those that reach a bound.

    `slope` is the gradient less the multiplier of the group: on fixed sums neither this
    change nor the ones added to blocks of K matters, and both spare the solve from
    cancellation.
    """
    value = coef[rows]
    low = qp.lower[rows]
    high = qp.upper[rows]
    labels = qp.group[rows]
    slope = slope[rows]
    block = qp.K[rows][:, rows] + qp.scale * (labels[:, None] == labels)
    # A proximal term, vanishing at the solution, keeps singular kernels solvable.
    block.flat[:: len(rows) + 1] += 1e-10 * qp.scale
    keep = np.arange(len(rows))
    n_iter = 0
    while True:
        n_iter += 1
        present, member = np.unique(labels[keep], return_inverse=True)
        indicator = np.eye(len(present))[member]
        right = np.column_stack([slope[keep], indicator])
        _, solved, _ = dposv(block[np.ix_(keep, keep)], right)
        per_group = indicator.T @ solved
        shift = np.linalg.solve(per_group[:, 1:], per_group[:, 0])
        move = solved[:, 1:] @ shift - solved[:, 0]
        # Round-off of an ill-conditioned solve must not leak out of the sum
        # constraints.
        move -= indicator @ (indicator.T @ move / indicator.sum(axis=0))
        target = np.where(move > 0, high[keep], low[keep])
        max_step = np.full(len(keep), np.inf)
        np.divide(target - value[keep], move, out=max_step, where=move != 0)
        length = np.full(len(keep), min(1.0, float(max_step.min())))
        if len(present) > 1 and length[0] < 1.0:
            length = _group_lengths(
                block[np.ix_(keep, keep)], slope[keep], move, max_step, member
            )
        value[keep] = np.where(max_step <= length, target, value[keep] + length * move)
        slope += block[:, keep] @ (length * move)
        keep = keep[max_step > length]
        if length.min() == 1.0 or not keep.size:
            break
    coef[rows] = value
    return n_iter


def _group_lengths(
    block: Array, slope: Array, move: Array, max_step: Array, member: Codes
) -> Array:
    """Let every group go as far as it can, if better than stopping all at one bound."""
    furthest = np.ones(member.max() + 1)
    np.minimum.at(furthest, member, max_step)
    together = np.full(len(move), max_step.min())
    lengths = [together, furthest[member]]
    steps = np.stack([length * move for length in lengths])
    curvature = np.einsum("ij,ij->i", steps, steps @ block)
    change = steps @ slope + curvature / 2
    return lengths[int(change.argmin())]
