"""Sparse group lasso with one design and many outputs, solved for all outputs at once.

First-order methods crawl on a kernel matrix, whose condition number is huge. This is the proximal
point method instead: ``b <- argmin_x objective(x) + |x - b|^2 / (2 sigma)``, each step solved in
its dual, which is smooth, by semismooth Newton. A Newton system involves only the entries that are
non-zero at the moment, so blocks and entries that are screened out cost nothing. Products with the
design serve all outputs together; an output whose duality gap is small enough leaves.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from manyone.solvers.running import blas_for

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

_TINY = 1e-300
_POLISHED = 1e-9  # whoever asks for such a gap wants the last digits


class SparseGroupResult(NamedTuple):
    """What `sparse_group_lasso` returns; ``structure`` holds the norms of the blocks of B."""

    B: Array
    structure: Array
    objective_path: Array
    n_iter: int
    converged: bool
    duality_gap: float


class _Penalty(NamedTuple):
    """``l1 |B|_1 + sum strength |block|_2`` with the rows of B sorted by source.

    Reductions give one number per output, or a single one where the groups are rows of B, which
    tie the outputs together.
    """

    l1: Array  # (rows of B, 1)
    strength: Array  # (sources, outputs), or (rows of B, 1)
    sizes: Index
    rows: bool

    def blocks(self, terms: Array) -> Array:
        if self.rows:
            return terms.sum(axis=1, keepdims=True)
        return np.add.reduceat(terms, np.cumsum(self.sizes) - self.sizes, axis=0)

    def spread(self, per_block: Array) -> Array:
        return per_block if self.rows else np.repeat(per_block, self.sizes, axis=0)

    def outputs(self, terms: Array) -> Array:
        sums = terms.sum(axis=0)
        return sums.sum(keepdims=True) if self.rows else sums

    def values(self, B: Array) -> Array:
        norms = self.strength * np.sqrt(self.blocks(B**2))
        return self.outputs(self.l1 * np.abs(B)) + norms.sum(axis=0)

    def prox(self, V: Array) -> tuple[Array, Array, Array]:
        """Proximal point of V, the unit vectors of its blocks and their remaining lengths."""
        unit = soft(V, self.l1)
        norm = np.maximum(np.sqrt(self.blocks(unit**2)), _TINY)
        kept = np.maximum(1.0 - self.strength / norm, 0.0)
        return unit * self.spread(kept), unit / self.spread(norm), kept

    def select(self, outputs: Mask | Index) -> "_Penalty":
        return self if self.rows else self._replace(strength=self.strength[:, outputs])


def soft(V: Array, threshold: Array | float) -> Array:
    """Shrink every entry towards zero by ``threshold``."""
    return V - np.clip(V, -threshold, threshold)


def l1_max(J: Array, R: Array) -> float:
    """Smallest ``l1`` (to rounding) for which B = 0 is optimal whatever ``group`` is."""
    return (1.0 + 1e-14) * float(np.abs(2.0 * J.T @ R).max(initial=0.0))


def group_max(
    J: Array, R: Array, groups: Index, l1: float = 0.0, weights: Array | None = None
) -> float:
    """Smallest ``group`` (to rounding) for which B = 0 is optimal, given ``l1``."""
    order, sizes = np.argsort(groups, kind="stable"), np.bincount(groups)
    weight = np.ones((len(sizes), 1)) if weights is None else np.reshape(weights, (len(sizes), -1))
    squares = soft(2.0 * J.T @ R, l1)[order] ** 2
    blocks = _Penalty(np.zeros((1, 1)), weight, sizes, False).blocks(squares)
    return (1.0 + 1e-14) * float((np.sqrt(blocks) / weight).max(initial=0.0))


def sparse_group_lasso(
    J: Array,
    R: Array,
    groups: Index,
    l1: float | Array,
    group: float,
    *,
    weights: Array | None = None,
    exempt_diagonal: bool = False,
    rows: bool = False,
    B: Array | None = None,
    tol: float = 1e-6,
    max_iter: int = 200,
) -> SparseGroupResult:
    """Minimise ``|JB - R|_F^2 + l1 |B|_1 + group sum_{s,t} w_s |B_{G_s,t}|_2`` over B.

    Parameters
    ----------
    J : array of shape (n, p)
        Design; the second-layer kernel, where p = n.
    R : array of shape (n, T)
        Responses.
    groups : int array of shape (p,)
        Source 0, ..., S - 1 of every row of B; every source has a row.
    l1 : float or array of shape (p,)
        Strength of the entrywise penalty, possibly one per row of B.
    group : float
        Strength of the group penalty; every block needs a positive penalty of either kind.
    weights : array of shape (S,) or (S, T), optional
        ``w_s``; ones by default.
    exempt_diagonal : bool
        No group penalty on a task's own block (source s = output t); needs ``l1 > 0``.
    rows : bool
        Groups are the rows of B instead: ``group sum_i |B_i|_2``, which drops training rows for
        all outputs together. ``weights`` and ``exempt_diagonal`` do not apply then.
    B : array of shape (p, T), optional
        Warm start.
    tol : float
        Relative duality gap to reach for every output (for the whole where ``rows``).
    max_iter : int
        Most Newton rounds.

    Returns
    -------
    SparseGroupResult
        ``structure[s, t] = |B_{G_s,t}|_2``, with exact zeros; ``duality_gap`` is relative, and
        ``objective_path`` is the best value so far, round by round.
    """
    order, sizes = np.argsort(groups, kind="stable"), np.bincount(groups)
    J = np.ascontiguousarray(J[:, order])
    if rows:
        strength = np.full((len(order), 1), float(group))
    else:
        weight = np.ones(1) if weights is None else np.asarray(weights, dtype=float)
        weight = weight[:, None] if weight.ndim == 1 else weight
        strength = group * np.broadcast_to(weight, (len(sizes), R.shape[1]))
        if exempt_diagonal:
            strength = np.where(np.eye(*strength.shape, dtype=bool), 0.0, strength)
    entrywise = np.broadcast_to(np.asarray(l1, dtype=float), len(order))[order][:, None]
    whole = _Penalty(entrywise, strength, sizes, rows)

    with blas_for(len(order)):
        return _solve(J, R, order, whole, None if B is None else B[order], tol, max_iter)


def _solve(
    J: Array,
    R: Array,
    order: Index,
    whole: _Penalty,
    start: Array | None,
    tol: float,
    max_iter: int,
) -> SparseGroupResult:
    """Proximal point rounds on the sorted problem."""
    rows, sizes, gram = whole.rows, whole.sizes, J.T @ J
    best = np.zeros((len(order), R.shape[1])) if start is None else start.astype(float)
    centre, penalty, target = best.copy(), whole, R
    dual = R - J @ centre
    slope = 2.0 * J.T @ dual
    primal = whole.outputs(dual**2) + whole.values(centre)
    bound = np.zeros_like(primal)
    open_ = np.arange(R.shape[1])  # outputs still worked on: columns of centre, dual, slope
    at = np.arange(len(primal))  # the same for per-output numbers
    # Start cautiously from zero and boldly from a warm start; a failed line search corrects it.
    sigma = np.full(
        len(primal), (5.0 if start is None else 500.0) / max(np.diag(gram).mean(), _TINY)
    )
    steps = np.zeros(len(primal))
    label = np.repeat(np.arange(len(sizes)), sizes)
    path: list[float] = []
    n_iter = 0
    while True:
        x, unit, kept = penalty.prox(centre / sigma + slope)
        x *= sigma
        residual = target - J @ x
        value = penalty.outputs(residual**2) + penalty.values(x)
        scale = _feasible_scale(slope, penalty)
        lower = scale * (2.0 * penalty.outputs(dual * target) - scale * penalty.outputs(dual**2))
        bound[at] = np.maximum(bound[at], lower)
        improved = value < primal[at]
        primal[at] = np.minimum(primal[at], value)
        if rows:
            best = x.copy() if improved[0] else best
        else:
            best[:, open_[improved]] = x[:, improved]
        path.append(float(primal.sum()))
        active = primal[at] - bound[at] > tol * primal[at]
        if not active.any() or n_iter == max_iter:
            break
        n_iter += 1
        if not active.all():
            open_, at, sigma, steps = open_[active], at[active], sigma[active], steps[active]
            centre, dual, slope, target = (a[:, active] for a in (centre, dual, slope, target))
            x, unit, kept, residual = (a[:, active] for a in (x, unit, kept, residual))
            penalty = penalty.select(active)
        rho = dual - residual  # half the gradient of the dual of the proximal step
        moved = penalty.outputs((x - centre) ** 2)
        solved = penalty.outputs(rho**2) <= 0.05 * moved / sigma
        if solved.any():
            centre = np.where(solved, x, centre)
            sigma = np.where(solved, sigma * np.where(steps <= 4, 10.0, 3.0), sigma)
            steps[solved] = 0
            if solved.all():
                continue
        if rows:
            step = _row_direction(J, rho, x != 0.0, unit, kept, float(sigma[0]))
        else:
            step = np.zeros_like(rho)
            todo = ~solved
            step[:, todo] = _directions(
                J, gram, rho[:, todo], x[:, todo], unit[:, todo], kept[:, todo], sigma[todo], label
            )
        failed = _line_search(J, target, centre, dual, slope, rho, step, sigma, penalty, ~solved)
        steps += 1
        sigma[failed] *= 0.03
    if not rows and tol <= _POLISHED:
        _polish(J, gram, R, best, whole, label)
    blocks = whole._replace(rows=False)
    result = np.empty_like(best)
    result[order] = best
    gap = float((primal - bound).sum()) / max(float(primal.sum()), _TINY)
    structure = np.sqrt(blocks.blocks(best**2))
    converged = not bool(active.any())
    return SparseGroupResult(result, structure, np.array(path), n_iter, converged, max(gap, 0.0))


def _polish(
    J: Array, gram: Array, R: Array, B: Array, penalty: _Penalty, label: Index, steps: int = 3
) -> None:
    """Newton steps on the support of every output, where the objective is smooth, in place."""
    for t in range(B.shape[1]):
        entries = np.flatnonzero(B[:, t])
        if not len(entries):
            continue
        source, x = label[entries], B[entries, t].copy()
        signs = np.sign(x)
        strength = penalty.strength[source, t]
        linear = 2.0 * J[:, entries].T @ R[:, t] - penalty.l1[entries, 0] * signs
        same = source[:, None] == source
        for _ in range(steps):
            norm = np.sqrt(same @ x**2)
            bend = np.where(same, -(strength / norm**3 * x)[:, None] * x, 0.0)
            bend += 2.0 * gram[entries[:, None], entries]
            bend.flat[:: len(entries) + 1] += strength / norm
            slope = 2.0 * gram[entries[:, None], entries] @ x + strength / norm * x - linear
            _, move, info = dposv(bend.T, slope, overwrite_a=1)
            new = x - move
            if info or np.any(np.sign(new) != signs):
                break
            x = new
        else:
            B[entries, t] = x


def _feasible_scale(V: Array, penalty: _Penalty) -> Array:
    """Largest c <= 1 with ``|soft(c V, l1)| <= strength`` on all blocks, or a hair less.

    The dual is ``max_E 2<E,R> - |E|^2`` subject to ``|soft(2J'E, l1)| <= strength``: scaling makes
    any E feasible and its value a lower bound of the optimum.
    """

    def excess(c: Array) -> tuple[Array, Array]:
        shrunk = soft(penalty.spread(c) * V, penalty.l1)
        norm = np.sqrt(penalty.blocks(shrunk**2))
        return norm - penalty.strength, penalty.blocks(shrunk * V) / np.maximum(norm, _TINY)

    high = np.ones_like(penalty.blocks(V))
    above, slope = excess(high)
    violated = above > 0.0
    if not violated.any():
        return np.ones(high.shape[1])
    # The excess is convex in c: Newton steps from the right stay above the root, chords below.
    for _ in range(5):
        high = np.where(violated, high - above / np.maximum(slope, _TINY), 1.0)
        above, slope = excess(high)
    near = (1.0 - 1e-13) * high
    # The l1 norm of a block bounds its largest entry and its length: a feasible point for a chord.
    low = (penalty.l1.min() + penalty.strength) / np.maximum(penalty.blocks(np.abs(V)), _TINY)
    low = np.minimum(low, high)
    below = np.minimum(excess(low)[0], 0.0)
    chord = low - below * (high - low) / np.maximum(above - below, _TINY)
    feasible = np.where(excess(near)[0] <= 0.0, near, np.minimum(chord, near))
    return np.where(violated, feasible, 1.0).min(axis=0)


def _directions(
    J: Array,
    gram: Array,
    rho: Array,
    x: Array,
    unit: Array,
    kept: Array,
    sigma: Array,
    label: Index,
) -> Array:
    """Solve ``(I + 2 sigma J M J') d = -rho`` for every output, M the slope of its prox.

    On a block M is ``kept I + (1 - kept) u u'``; by the Woodbury identity the system shrinks to
    the support: ``d = J_S (J_S'J_S + M^-1 / (2 sigma))^-1 J_S' rho - rho``.
    """
    right = J.T @ rho
    solution = np.zeros_like(right)
    support = x != 0.0
    for t in range(x.shape[1]):
        entries = np.flatnonzero(support[:, t])
        if not len(entries):
            continue
        source = label[entries]
        ridge = 0.5 / (sigma[t] * np.maximum(kept[source, t], 1e-10))
        u = unit[entries, t]
        bend = (ridge * (kept[source, t] - 1.0) * u)[:, None] * u
        bend *= source[:, None] == source
        bend += gram[entries[:, None], entries]
        bend.flat[:: len(entries) + 1] += ridge
        _, y, info = dposv(bend.T, right[entries, t], overwrite_a=1)
        solution[entries, t] = y if info == 0 else right[entries, t] / bend.diagonal()
    return J @ solution - rho


def _row_direction(
    J: Array, rho: Array, support: Mask, unit: Array, kept: Array, sigma: float
) -> Array:
    """The same system where rows of B are the groups: outputs are tied, so conjugate gradients."""

    def apply(d: Array) -> Array:
        v = (J.T @ d) * support
        along = (unit * v).sum(axis=1, keepdims=True)
        return d + (2.0 * sigma) * (J @ (kept * v + ((1.0 - kept) * along * unit) * (kept > 0.0)))

    step, r = np.zeros_like(rho), -rho
    p, size = r, float(np.vdot(r, r))
    goal = 1e-6 * size
    for _ in range(300):
        image = apply(p)
        length = size / max(float(np.vdot(p, image)), _TINY)
        step, r = step + length * p, r - length * image
        previous, size = size, float(np.vdot(r, r))
        if size <= goal:
            break
        p = r + (size / previous) * p
    return step


def _line_search(
    J: Array,
    target: Array,
    centre: Array,
    dual: Array,
    slope: Array,
    rho: Array,
    step: Array,
    sigma: Array,
    penalty: _Penalty,
    trying: Mask,
) -> Mask:
    """Backtrack on ``|e|^2 - 2<e,r> + |x(e)|^2 / (2 sigma)`` in place; True where it failed."""
    change = 2.0 * J.T @ step
    decrease = 2.0 * penalty.outputs(rho * step)
    trying = trying.copy()
    everything = np.arange(dual.shape[1])

    def merit(e: Array, v: Array, columns: Index, numbers: Index) -> Array:
        reduced = penalty.select(columns)
        x = reduced.prox(centre[:, columns] / sigma[numbers] + v)[0]
        squares = 0.5 * sigma[numbers] * reduced.outputs(x**2)
        return reduced.outputs(e * (e - 2.0 * target[:, columns])) + squares

    length = 1.0
    base = merit(dual, slope, everything, np.arange(len(sigma)))
    for _ in range(12):
        numbers = np.flatnonzero(trying)
        columns = everything if penalty.rows else numbers
        e = dual[:, columns] + length * step[:, columns]
        v = slope[:, columns] + length * change[:, columns]
        allowed = base[numbers] + 1e-4 * length * decrease[numbers] + 1e-13 * np.abs(base[numbers])
        good = merit(e, v, columns, numbers) <= allowed
        take = np.broadcast_to(good, len(columns))
        dual[:, columns[take]], slope[:, columns[take]] = e[:, take], v[:, take]
        trying[numbers[good]] = False
        if not trying.any():
            break
        length *= 0.5
    return trying
