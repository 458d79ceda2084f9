"""Sparse group lasso with one design and many outputs, solved for all outputs at once.

A round has three parts. A block coordinate sweep over the sources, vectorised over the outputs,
finds which blocks and entries are non-zero and their signs. Newton steps on the entries that are
non-zero then do what first-order steps cannot on a kernel matrix, whose condition number is huge.
The duality gap of every output, free from the gradient, says which outputs are finished and leave.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_NEWTON_STEPS = 6
_HALVINGS = 12


class SparseGroupResult(NamedTuple):
    """What `sparse_group_lasso` returns; ``structure`` holds the norms of the blocks of B."""

    B: Array
    structure: Array
    objective_path: Array
    n_iter: int
    converged: bool
    duality_gap: float


class _Penalty(NamedTuple):
    """``l1 |B|_1 + sum strength |block|_2`` with the rows of B sorted by source."""

    l1: float
    strength: Array  # (sources, outputs), or (rows, 1) for groups that are rows of B
    sizes: Index
    rows: bool

    @property
    def starts(self) -> Index:
        return np.cumsum(self.sizes) - self.sizes

    def blocks(self, squares: Array) -> Array:
        """Sums over the blocks."""
        if self.rows:
            return squares.sum(axis=1, keepdims=True)
        return np.add.reduceat(squares, self.starts, axis=0)

    def spread(self, per_block: Array) -> Array:
        """Block values repeated over the rows of each block."""
        return per_block if self.rows else np.repeat(per_block, self.sizes, axis=0)

    def norms(self, B: Array) -> Array:
        return np.sqrt(self.blocks(B**2))

    def values(self, B: Array) -> Array:
        """Penalty of every output (one number for all outputs when groups are rows)."""
        return self.outputs(self.l1 * np.abs(B)) + (self.strength * self.norms(B)).sum(axis=0)

    def outputs(self, terms: Array) -> Array:
        sums = terms.sum(axis=0)
        return sums.sum(keepdims=True) if self.rows else sums

    def select(self, outputs: NDArray[np.bool_]) -> "_Penalty":
        return self if self.rows else self._replace(strength=self.strength[:, outputs])


def soft(V: Array, threshold: float) -> Array:
    """Shrink every entry towards zero by ``threshold``."""
    return V - np.clip(V, -threshold, threshold)


def l1_max(J: Array, R: Array) -> float:
    """Smallest ``l1`` for which B = 0 is optimal whatever ``group`` is."""
    return float(np.abs(2.0 * J.T @ R).max(initial=0.0))


def group_max(
    J: Array, R: Array, groups: Index, l1: float = 0.0, weights: Array | None = None
) -> float:
    """Smallest ``group`` for which B = 0 is optimal, given ``l1``."""
    order, sizes = _sorted(groups)
    weight = np.ones((len(sizes), 1)) if weights is None else np.reshape(weights, (len(sizes), -1))
    penalty = _Penalty(l1, weight, sizes, False)
    return float((penalty.norms(soft(2.0 * J.T @ R, l1)[order]) / weight).max(initial=0.0))


def _sorted(groups: Index) -> tuple[Index, Index]:
    return np.argsort(groups, kind="stable"), np.bincount(groups)


def sparse_group_lasso(
    J: Array,
    R: Array,
    groups: Index,
    l1: float,
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
    l1, group : float
        Strengths; at least one is positive.
    weights : array of shape (S,) or (S, T), optional
        ``w_s``; ones by default. Zero leaves a block to the l1 penalty alone.
    exempt_diagonal : bool
        No group penalty on a task's own block (source s = output t); needs ``l1 > 0``.
    rows : bool
        Groups are the rows of B instead: ``group sum_i |B_i|_2``, which drops training rows for
        all outputs together. ``groups`` only orders the returned ``structure`` then, and
        ``weights`` and ``exempt_diagonal`` do not apply.
    B : array of shape (p, T), optional
        Warm start.
    tol : float
        Relative duality gap to reach for every output (for the whole where ``rows``).
    max_iter : int
        Most rounds.

    Returns
    -------
    SparseGroupResult
        ``structure[s, t] = |B_{G_s,t}|_2``, exact zeros; ``duality_gap`` is relative.
    """
    order, sizes = _sorted(groups)
    n_outputs = R.shape[1]
    sorted_J = J[:, order]
    gram, H = sorted_J.T @ sorted_J, sorted_J.T @ R
    energy = np.einsum("it,it->t", R, R)
    if rows:
        strength = np.full((len(groups), 1), float(group))
        penalty = _Penalty(l1, strength, np.ones(len(groups), dtype=np.intp), True)
    else:
        weight = np.ones(1) if weights is None else np.asarray(weights, dtype=float)
        weight = weight[:, None] if weight.ndim == 1 else weight
        strength = group * np.broadcast_to(weight, (len(sizes), n_outputs))
        if exempt_diagonal:
            strength = np.where(np.eye(len(sizes), n_outputs, dtype=bool), 0.0, strength)
        penalty = _Penalty(l1, strength, sizes, False)

    solution = np.zeros((len(groups), n_outputs)) if B is None else B[order].astype(float)
    primal = np.zeros(1 if rows else n_outputs)
    gap = np.zeros_like(primal)
    unfinished = np.ones(n_outputs, dtype=bool)
    lipschitz = _block_lipschitz(gram, penalty)
    path: list[float] = []
    # Copies of the outputs still being worked on.
    b, h, e, pen = solution, H, energy, penalty
    product = gram @ b
    n_iter = 0
    while True:
        where = slice(None) if rows else unfinished
        primal[where], gap[where] = _certificate(b, product, h, e, pen)
        path.append(float(primal.sum()))
        finished = gap[where] <= tol * primal[where]
        solution[:, unfinished] = b
        if finished.all() or n_iter == max_iter:
            break
        if not rows and finished.any():
            unfinished[unfinished] = ~finished
            b, h, e = solution[:, unfinished], H[:, unfinished], energy[unfinished]
            product, pen = product[:, ~finished], penalty.select(unfinished)
        _sweep(gram, h, b, product, pen, lipschitz)
        if not rows:
            b, product = _newton(gram, h, e, b, product, pen, tol)
        n_iter += 1
    blocks = penalty if not rows else _Penalty(0.0, strength, sizes, False)
    structure = blocks.norms(solution)
    result = np.empty_like(solution)
    result[order] = solution
    relative = float(gap.sum()) / max(float(primal.sum()), 1e-300)
    return SparseGroupResult(
        result, structure, np.array(path), n_iter, bool(finished.all()), relative
    )


def _block_lipschitz(gram: Array, penalty: _Penalty) -> Array:
    starts, sizes = penalty.starts, penalty.sizes
    tops = [
        np.linalg.eigvalsh(gram[a : a + k, a : a + k])[-1]
        for a, k in zip(starts, sizes, strict=True)
    ]
    return 2.0 * np.maximum(tops, 1e-300)


def _certificate(
    B: Array, product: Array, H: Array, energy: Array, penalty: _Penalty
) -> tuple[Array, Array]:
    """Primal value and duality gap of every output.

    The dual is ``max_E 2<E,R> - |E|^2`` subject to ``|soft(2J'E, l1)| <= strength`` on every
    block; the residual, scaled by the largest feasible c <= 1, is E.
    """
    linear = penalty.outputs(B * H)
    total = energy.sum(keepdims=True) if penalty.rows else energy
    residual = np.maximum(total - 2.0 * linear + penalty.outputs(B * product), 0.0)
    primal = residual + penalty.values(B)
    scale = _feasible_scale(2.0 * (H - product), penalty)
    dual = scale * (2.0 * (total - linear) - scale * residual)
    return primal, np.maximum(primal - dual, 0.0)


def _feasible_scale(V: Array, penalty: _Penalty) -> Array:
    """Largest c <= 1 with ``|soft(c V, l1)| <= strength`` on all blocks, to a hair below."""

    def excess(c: Array) -> tuple[Array, Array]:
        shrunk = soft(penalty.spread(c) * V, penalty.l1)
        norms = penalty.norms(shrunk)
        slope = penalty.blocks(shrunk * V) / np.maximum(norms, 1e-300)
        return norms - penalty.strength, slope

    high = np.ones_like(penalty.blocks(V))
    above, slope = excess(high)
    violated = above > 0.0
    if not violated.any():
        return np.ones(high.shape[1])
    # The excess is convex in c: Newton from the right stays infeasible, chords stay feasible.
    largest = np.sqrt(penalty.blocks(V**2))
    low = np.where(violated, penalty.strength / np.maximum(largest, 1e-300), 1.0)
    if penalty.l1 > 0.0:
        peak = np.abs(V).max(axis=1, keepdims=True) if penalty.rows else np.maximum.reduceat(
            np.abs(V), penalty.starts, axis=0
        )
        low = np.maximum(low, np.where(violated, penalty.l1 / np.maximum(peak, 1e-300), 1.0))
    for _ in range(4):
        below, _ = excess(low)
        chord = low - below * (high - low) / np.maximum(above - below, 1e-300)
        high = np.where(violated, np.maximum(high - above / np.maximum(slope, 1e-300), low), 1.0)
        low = np.where(violated & (below < 0.0), np.minimum(chord, high), low)
        above, slope = excess(high)
    return low.min(axis=0)


def _sweep(
    gram: Array, H: Array, B: Array, product: Array, penalty: _Penalty, lipschitz: Array
) -> None:
    """One pass of proximal block steps, in place; blocks at zero that stay there are skipped."""
    norms = penalty.norms(soft(2.0 * (product - H), penalty.l1))
    busy = (norms > penalty.strength) | (penalty.norms(B) > 0.0)
    axis = 1 if penalty.rows else 0
    for source in np.flatnonzero(busy.any(axis=1)):
        start = penalty.starts[source]
        here = slice(start, start + penalty.sizes[source])
        outputs = slice(None) if penalty.rows else np.flatnonzero(busy[source])
        step = 1.0 / lipschitz[source]
        old = B[here, outputs]
        target = old - (2.0 * step) * (product[here, outputs] - H[here, outputs])
        target = soft(target, step * penalty.l1)
        norm = np.sqrt((target**2).sum(axis=axis, keepdims=True))
        threshold = step * penalty.strength[source, outputs if not penalty.rows else slice(None)]
        target *= np.maximum(1.0 - threshold / np.maximum(norm, 1e-300), 0.0)
        change = target - old
        B[here, outputs] = target
        product[:, outputs] += gram[:, here] @ change


def _newton(
    gram: Array,
    H: Array,
    energy: Array,
    B: Array,
    product: Array,
    penalty: _Penalty,
    tol: float,
) -> tuple[Array, Array]:
    """Newton steps on the non-zero entries, signs kept: an entry that would cross zero stops there."""
    label = np.repeat(np.arange(len(penalty.sizes)), penalty.sizes)

    def values(B: Array, product: Array, H: Array, energy: Array, pen: _Penalty) -> Array:
        return energy - 2.0 * (B * H).sum(axis=0) + (B * product).sum(axis=0) + pen.values(B)

    current = values(B, product, H, energy, penalty)
    moving = np.ones(B.shape[1], dtype=bool)
    for _ in range(_NEWTON_STEPS):
        outputs = np.flatnonzero(moving)
        direction, decrement = _directions(gram, H, B, product, penalty, label, outputs)
        moving[outputs] = decrement > 1e-2 * tol * np.abs(current[outputs])
        trial = np.flatnonzero(moving)
        direction = direction[:, moving[outputs]]
        length = 1.0
        for _ in range(_HALVINGS):
            if not len(trial):
                break
            candidate = B[:, trial] + length * direction
            if penalty.l1 > 0.0:
                candidate[candidate * B[:, trial] < 0.0] = 0.0
            moved = gram @ candidate
            chosen = np.zeros(B.shape[1], dtype=bool)
            chosen[trial] = True
            new = values(candidate, moved, H[:, trial], energy[trial], penalty.select(chosen))
            better = new < current[trial]
            accepted = trial[better]
            B[:, accepted], product[:, accepted] = candidate[:, better], moved[:, better]
            current[accepted] = new[better]
            trial, direction = trial[~better], direction[:, ~better]
            length *= 0.5
        moving[trial] = False
        if not moving.any():
            break
    return B, product


def _directions(
    gram: Array,
    H: Array,
    B: Array,
    product: Array,
    penalty: _Penalty,
    label: Index,
    outputs: Index,
) -> tuple[Array, Array]:
    """Newton directions and decrements on the supports of the given outputs, in batches."""
    support = B[:, outputs] != 0.0
    sizes = support.sum(axis=0)
    direction = np.zeros((len(B), len(outputs)))
    decrement = np.zeros(len(outputs))
    by_size = np.argsort(-sizes, kind="stable")
    ridge = 1e-14 * np.trace(gram) / len(gram)
    position = 0
    while position < len(by_size) and (size := int(sizes[by_size[position]])) > 0:
        batch = by_size[position : position + max(1, 2 * gram.size // size**2)]
        position += len(batch)
        # Supports are padded to the longest of the batch; padded entries get a unit equation.
        entries = np.argsort(~support[:, batch], axis=0, kind="stable")[:size].T
        column = outputs[batch][:, None]
        valid = np.take_along_axis(support[:, batch].T, entries, axis=1)
        b = np.where(valid, B[entries, column], 0.0)
        source = label[entries]
        strength = penalty.strength[source, column]
        norm = np.sqrt(penalty.blocks(B[:, outputs[batch]] ** 2)).T
        norm = np.take_along_axis(norm, source, axis=1)
        bend = np.where(valid, strength / np.maximum(norm, 1e-300), 0.0)
        unit = np.where(valid, b / np.maximum(norm, 1e-300), 0.0)
        slope = 2.0 * (product[entries, column] - H[entries, column])
        slope = np.where(valid, slope + penalty.l1 * np.sign(b) + strength * unit, 0.0)
        hessian = 2.0 * gram[entries[:, :, None], entries[:, None, :]]
        hessian -= np.where(
            source[:, :, None] == source[:, None, :],
            (bend * unit)[:, :, None] * unit[:, None, :],
            0.0,
        )
        hessian *= valid[:, :, None] & valid[:, None, :]
        diagonal = np.arange(size)
        hessian[:, diagonal, diagonal] += np.where(valid, bend + ridge, 1.0)
        move = -np.linalg.solve(hessian, slope[:, :, None])[:, :, 0]
        direction[entries, batch[:, None]] = np.where(valid, move, 0.0)
        decrement[batch] = -np.einsum("bi,bi->b", move, slope)
    return direction, decrement
