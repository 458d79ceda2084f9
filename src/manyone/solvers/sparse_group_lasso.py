"""Sparse group lasso with one design and many outputs, solved for all outputs at once.

First-order methods crawl on a kernel matrix, whose condition number is huge. This is
the proximal point method instead: ``b <- argmin_x objective(x) + |x - b|^2 / (2
sigma)``, each step solved in its dual, which is smooth, by semismooth Newton. A Newton
system involves only the entries that are non-zero at the moment, so blocks and entries
that are screened out cost nothing. Products with the design serve all outputs together.
An output whose duality gap is small enough is finished exactly, on its support
(:mod:`manyone.solvers.lasso_support`), and leaves.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv

from manyone._types import Array, Codes, Mask
from manyone.solvers.lasso_support import TINY, Penalty, finish, soft
from manyone.threads import one_blas_thread

_SMALLEST_GAP = 1e-13  # relative, of outputs whose support is hard to tell


class SparseGroupLassoSolution(NamedTuple):
    """What `solve_sparse_group_lasso` returns; ``structure``: norms of blocks of B."""

    B: Array
    structure: Array
    objective_path: Array
    n_iter: int
    converged: bool
    duality_gap: float


def solve_sparse_group_lasso(
    J: Array,
    R: Array,
    groups: Codes,
    l1: float | Array,
    group: float,
    *,
    B: Array | None = None,
    tol: float = 1e-6,
    max_iter: int = 200,
) -> SparseGroupLassoSolution:
    """Minimise ``|JB - R|_F^2 + l1 |B|_1 + group sum_{s,t} |B_{G_s,t}|_2`` over B.

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
        Strength of the group penalty; not both are zero.
    B : array of shape (p, T), optional
        Warm start.
    tol : float
        Relative duality gap to reach for every output before its support is taken for
        granted and the rest solved to rounding.
    max_iter : int
        Most rounds of Newton steps.

    Returns
    -------
    SparseGroupLassoSolution
        ``structure[s, t] = |B_{G_s,t}|_2``, with exact zeros; ``duality_gap`` is
        relative, and ``objective_path`` is the best value so far, round by round.
    """
    order = np.argsort(groups, kind="stable")
    entrywise = np.broadcast_to(np.asarray(l1, dtype=float), len(order))[order]
    penalty = Penalty(entrywise[:, None], float(group), np.bincount(groups))
    with one_blas_thread(len(order)):
        start = None if B is None else B[order]
        rounds = _Rounds(np.ascontiguousarray(J[:, order]), R, penalty, tol, start)
        while rounds.evaluate() and rounds.n_iter < max_iter:
            rounds.advance()
        gap = rounds.certify()
    result = np.empty_like(rounds.best)
    result[order] = rounds.best
    relative_gap = float(gap.sum()) / max(float(rounds.primal.sum()), TINY)
    return SparseGroupLassoSolution(
        B=result,
        structure=np.sqrt(penalty.blocks(rounds.best**2)),
        objective_path=np.array(rounds.path),
        n_iter=rounds.n_iter,
        converged=bool(np.all(gap <= tol * rounds.primal)),
        duality_gap=max(relative_gap, 0.0),
    )


class _Rounds:
    """Proximal point rounds on the outputs that are still open.

    `best`, `primal`, `bound` and `goal` are kept for all outputs: the best B so far,
    its objective, the largest dual value, and the relative gap at which to try the
    exact finish.
    """

    def __init__(
        self, J: Array, R: Array, penalty: Penalty, tol: float, start: Array | None
    ) -> None:
        n_outputs = R.shape[1]
        self.J = J
        self.R = R
        self.penalty = penalty
        self.gram = J.T @ J
        self.moments = 2.0 * J.T @ R
        self.best = np.zeros((J.shape[1], n_outputs))
        if start is not None:
            self.best = start.astype(float)
        self.bound = np.zeros(n_outputs)
        self.goal = np.full(n_outputs, tol)
        self.path: list[float] = []
        self.n_iter = 0
        outputs = np.arange(n_outputs)
        if start is not None:  # where its support is right, there is nothing to do
            done = finish(self.gram, self.moments, penalty, self.best, outputs)
            outputs = np.flatnonzero(~done)
        residual, self.primal = self._primal(self.best, R)
        self.open = outputs
        self.steps = np.zeros(len(outputs))
        # Start cautiously from zero and boldly from a warm start; a failed line search
        # corrects it.
        sigma = 5.0 if start is None else 500.0
        sigma /= max(np.diag(self.gram).mean(), TINY)
        self.sigma = np.full(len(outputs), sigma)
        self.target = R[:, outputs]
        self.dual = residual[:, outputs]
        self.centre = self.best[:, outputs]
        self.slope = 2.0 * J.T @ self.dual

    def _primal(self, B: Array, R: Array) -> tuple[Array, Array]:
        """Residual (n, k) and objective (k,) of k outputs."""
        residual = R - self.J @ B
        return residual, _dots(residual, residual) + self.penalty.values(B)

    def evaluate(self) -> bool:
        """Primal and dual values here; finish outputs that are near.

        True while an output is left.
        """
        point = self.centre / self.sigma + self.slope
        x, self.unit_vectors, self.remaining = self.penalty.prox(point)
        self.x = x * self.sigma
        self.residual, value = self._primal(self.x, self.target)
        here = self.open
        lower = _dual_values(self.dual, self.slope, self.target, self.penalty)
        self.bound[here] = np.maximum(self.bound[here], lower)
        improved = value < self.primal[here]
        self.primal[here] = np.minimum(self.primal[here], value)
        self.best[:, here[improved]] = self.x[:, improved]
        gap = self.primal[here] - self.bound[here]
        near = np.flatnonzero(gap <= self.goal[here] * self.primal[here])
        if len(near):
            outputs = here[near]
            done = finish(self.gram, self.moments, self.penalty, self.best, outputs)
            # An unclear support becomes clearer with a smaller gap.
            done |= self.goal[outputs] <= _SMALLEST_GAP
            self.goal[outputs] = np.maximum(1e-2 * self.goal[outputs], _SMALLEST_GAP)
            still_open = np.ones(len(here), dtype=bool)
            still_open[near[done]] = False
            self._keep(still_open)
        self.path.append(float(self.primal.sum()))
        return len(self.open) > 0

    def _keep(self, columns: Mask) -> None:
        """Close the other outputs."""
        for name in ("open", "sigma", "steps"):
            setattr(self, name, getattr(self, name)[columns])
        for name in (
            "x",
            "unit_vectors",
            "remaining",
            "residual",
            "target",
            "dual",
            "slope",
            "centre",
        ):
            setattr(self, name, getattr(self, name)[:, columns])

    def advance(self) -> None:
        """Move the centres that are solved for; take a Newton step on other outputs."""
        self.n_iter += 1
        # Half the gradient of the dual of the proximal step.
        rho = self.dual - self.residual
        move = self.x - self.centre
        solved = _dots(rho, rho) <= 0.05 * _dots(move, move) / self.sigma
        self.centre = np.where(solved, self.x, self.centre)
        growth = np.where(self.steps <= 4, 10.0, 3.0)
        self.sigma = np.where(solved, self.sigma * growth, self.sigma)
        self.steps[solved] = 0
        if solved.all():
            return
        step = np.zeros_like(rho)
        step[:, ~solved] = self._directions(rho, ~solved)
        failed = self._line_search(rho, step, ~solved)
        self.steps += 1
        self.sigma[failed] *= 0.03

    def _directions(self, rho: Array, columns: Mask) -> Array:
        """Solve ``(I + 2 sigma J M J') d = -rho``, M the slope of the prox.

        On a block M is ``c I + (1 - c) u u'``, c what remains of its length; by the
        Woodbury identity the system shrinks to the support: ``d = J_S (J_S'J_S + M^-1 /
        (2 sigma))^-1 J_S' rho - rho``.
        """
        right = self.J.T @ rho[:, columns]
        solution = np.zeros_like(right)
        for column, t in enumerate(np.flatnonzero(columns)):
            entries = np.flatnonzero(self.x[:, t])
            if not len(entries):
                continue
            source = self.penalty.label[entries]
            remaining = self.remaining[source, t]
            ridge = 0.5 / (self.sigma[t] * np.maximum(remaining, 1e-10))
            u = self.unit_vectors[entries, t]
            bend = (ridge * (remaining - 1.0) * u)[:, None] * u
            bend *= source[:, None] == source
            bend += self.gram[entries[:, None], entries]
            bend.flat[:: len(entries) + 1] += ridge
            _, y, info = dposv(bend.T, right[entries, column], overwrite_a=1)
            if not info:  # else the step is that of the gradient
                solution[entries, column] = y
        return self.J @ solution - rho[:, columns]

    def _line_search(self, rho: Array, step: Array, trying: Mask) -> Mask:
        """Backtrack on ``|e|^2 - 2<e,r> + |x(e)|^2 / (2 sigma)``; True if it failed."""
        change = 2.0 * self.J.T @ step
        decrease = 2.0 * _dots(rho, step)

        def merit(e: Array, v: Array, at: Codes | slice) -> Array:
            sigma = self.sigma[at]
            point = self.centre[:, at] / sigma + v
            x = self.penalty.prox(point)[0]
            squares = 0.5 * sigma * _dots(x, x)
            return _dots(e, e - 2.0 * self.target[:, at]) + squares

        trying = trying.copy()
        length = 1.0
        base = merit(self.dual, self.slope, slice(None))
        for _ in range(12):
            at = np.flatnonzero(trying)
            e = self.dual[:, at] + length * step[:, at]
            v = self.slope[:, at] + length * change[:, at]
            rounding = 1e-13 * np.abs(base[at])
            allowed = base[at] + 1e-4 * length * decrease[at] + rounding
            good = merit(e, v, at) <= allowed
            accepted = at[good]
            self.dual[:, accepted] = e[:, good]
            self.slope[:, accepted] = v[:, good]
            trying[accepted] = False
            if not trying.any():
                break
            length *= 0.5
        return trying

    def certify(self) -> Array:
        """Duality gaps (T,) of the best B; its objective goes to `primal`, `path`."""
        residual, self.primal = self._primal(self.best, self.R)
        slope = 2.0 * self.J.T @ residual
        lower = _dual_values(residual, slope, self.R, self.penalty)
        objective = float(self.primal.sum())
        self.path[-1] = min(self.path[-1], objective)
        return self.primal - np.maximum(self.bound, lower)


def _dual_values(E: Array, slope: Array, R: Array, penalty: Penalty) -> Array:
    """Dual value of each column of E, scaled until it is feasible; ``slope = 2J'E``."""
    scale = feasible_scale(slope, penalty)
    return scale * (2.0 * _dots(E, R) - scale * _dots(E, E))


def _dots(left: Array, right: Array) -> Array:
    """Inner products (t,) of the columns of two matrices (n, t)."""
    return np.asarray(np.einsum("it,it->t", left, right))


def feasible_scale(V: Array, penalty: Penalty) -> Array:
    """Largest c <= 1 (T,), or nearly, with ``|soft(c V, l1)| <= group`` on all blocks.

    The dual is ``max_E 2<E,R> - |E|^2`` subject to ``|soft(2J'E, l1)| <= group``:
    scaling makes any E feasible and its value a lower bound of the optimum.
    """

    def excess(c: Array) -> tuple[Array, Array]:
        shrunk = soft(penalty.spread(c) * V, penalty.l1)
        norm = np.sqrt(penalty.blocks(shrunk**2))
        slope = penalty.blocks(shrunk * V) / np.maximum(norm, TINY)
        return norm - penalty.group, slope

    high = np.ones_like(penalty.blocks(V))
    above, slope = excess(high)
    violated = above > 0.0
    if not violated.any():
        return np.ones(high.shape[1])
    # The excess is convex in c: Newton steps from the right stay above the root, chords
    # below.
    for _ in range(5):
        step = np.divide(above, slope, out=np.zeros_like(high), where=above > 0.0)
        high = high - step
        above, slope = excess(high)
    near = (1.0 - 1e-13) * high
    # The l1 norm of a block bounds its largest entry and its length: a feasible point
    # for a chord.
    lengths = np.maximum(penalty.blocks(np.abs(V)), TINY)
    low = np.minimum((penalty.l1.min() + penalty.group) / lengths, high)
    below = np.minimum(excess(low)[0], 0.0)
    chord = low - below * (high - low) / np.maximum(above - below, TINY)
    feasible = np.where(excess(near)[0] <= 0.0, near, np.minimum(chord, near))
    return np.where(violated, feasible, 1.0).min(axis=0)
