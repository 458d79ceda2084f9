"""Linear structure learning (OCKSR-L): fit ``K A B`` to responses, B for all tasks.

Everything happens in the eigenbasis of K. Let ``K = U diag(lam) U'`` and ``M = U'R``.
The best A for a given B is ``A = U X B'``, where ``X`` solves ``lam X B'B + alpha X =
M``. That takes one symmetric eigendecomposition of the T x T matrix ``B'B`` and one
division. So the optimisation runs over B alone, and an iteration costs two (n x T)(T x
T) products.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from manyone._types import Array
from manyone.threads import one_blas_thread

#: B (T, T), objective path, number of iterations, whether they converged.
_Minimum = tuple[Array, list[float], int, bool]


class LinearSolution(NamedTuple):
    """What `solve_linear` returns; ``coef = A B`` is the model folded to one layer.

    B is symmetric positive semi-definite. ``duality_gap`` is relative, and nan where
    ``nuclear > 0``; ``collapsed`` says that some output responds with (numerically)
    zero to all.
    """

    A: Array
    B: Array
    coef: Array
    objective_path: Array
    n_iter: int
    converged: bool
    duality_gap: float
    collapsed: bool


class _Eliminated(NamedTuple):
    """Q_L at the best A for B, ``B'B = Q diag(s^2) Q'``; Q rotates X and S."""

    value: float
    fit: float
    slope: Array
    singular: Array
    Q: Array
    X: Array
    S: Array


class _Problem(NamedTuple):
    lam: Array
    M: Array
    alpha: float
    frobenius: float
    nuclear: float
    outside: float  # squared norm of the part of R that no kernel expansion reaches

    def at(
        self, B: Array, singular: Array | None = None, Q: Array | None = None
    ) -> _Eliminated:
        """Objective with A eliminated, and the gradient of its fit part."""
        if singular is None or Q is None:
            singular, Q = _right_singular(B)
        squares = singular**2
        rotated = self.M @ Q
        X = rotated / (self.lam[:, None] * squares + self.alpha)
        half = np.sqrt(self.lam)[:, None] * X
        S = half.T @ half
        fit = self.alpha * float(np.vdot(rotated, X)) + self.outside
        value = fit + self.frobenius * squares.sum() + self.nuclear * singular.sum()
        slope = (-2.0 * self.alpha) * ((B @ Q) @ S) @ Q.T
        return _Eliminated(float(value), fit, slope, singular, Q, X, S)

    def gap(self, point: _Eliminated) -> float:
        """Q_L minus a dual value of the convex problem, relative; for nuclear = 0 only.

        min_C |KC-R|^2 + 2 mu |K^(1/2) C|_*  =  max_E 2<E,R> - |E|^2  s.t.  |K^(1/2)
        E|_op <= mu, with mu = sqrt(alpha frobenius). The residual R - KC, scaled until
        it is feasible, is E.
        """
        largest = max(np.linalg.eigvalsh(point.S)[-1], 0.0)
        norm = self.alpha * np.sqrt(largest)
        mu = np.sqrt(self.alpha * self.frobenius)
        scale = mu / norm if norm > mu else 1.0
        squares = self.alpha**2 * float(np.vdot(point.X, point.X))
        product = point.fit - self.outside
        dual = scale * (2.0 * product - scale * squares)
        excess = point.value - self.outside - dual
        return float(excess / max(point.value, 1e-300))

    def scaled_identity(self) -> Array:
        """Best multiple of the identity: tasks independent, the two layers balanced."""
        n_tasks = self.M.shape[1]
        # At the unit half of the strongest direction is fitted, four orders below it
        # nothing.
        unit = np.sqrt(self.alpha / (self.lam.max(initial=0.0) or 1.0))
        scales = unit * np.logspace(-4, 8, 121)
        energy = np.einsum("it,it->i", self.M, self.M)
        shares = energy / (np.outer(scales**2, self.lam) + self.alpha)
        fits = self.alpha * shares.sum(axis=1)
        with np.errstate(over="ignore"):  # infinite is never the best
            penalties = self.frobenius * scales**2 + self.nuclear * scales
            values = fits + n_tasks * penalties
        best = int(values.argmin())
        # An optimum at the lower end is the trap at zero: start where nine tenths are
        # fitted (and the penalty does not overflow).
        fallback = min(3.0 * unit, np.sqrt(1e300 / max(self.frobenius, 1.0)))
        return np.eye(n_tasks) * (scales[best] if best > 0 else fallback)


def _right_singular(B: Array) -> tuple[Array, Array]:
    """Singular values and right singular vectors (columns), by an eigenproblem."""
    squares, Q = np.linalg.eigh(B.T @ B)
    return np.sqrt(np.maximum(squares, 0.0)), Q


def smallest_frobenius(eigenvalues: Array, M: Array, alpha: float) -> float:
    """Smallest `frobenius` that still holds B, for ``M = U'R`` of shape (m, T)."""
    energy = float(eigenvalues @ np.einsum("it,it->i", M, M))
    return 1e-10 * energy / alpha if energy > 0.0 else 1.0


def solve_linear(
    eigenvalues: Array,
    eigenvectors: Array,
    R: Array,
    alpha: float,
    frobenius: float,
    nuclear: float = 0.0,
    *,
    solver: str = "fista",
    step: float = 1e-3,
    tol: float = 1e-6,
    max_iter: int = 1000,
    outside: float = 0.0,
) -> LinearSolution:
    """Minimise ``|KAB - R|_F^2 + alpha tr(A'KA) + frobenius |B|_F^2 + nuclear |B|_*``.

    For ``nuclear=0`` this is the convex problem ``min_C |KC-R|^2 + 2 sqrt(alpha
    frobenius) |K^(1/2) C|_*``: it is solved to its global optimum by L-BFGS over B,
    with a duality gap as certificate. For ``nuclear>0`` the problem is only bi-convex
    and the zero model is always a local minimum: proximal gradient steps (accelerated,
    monotone) go down from the best multiple of the identity. (From the solution of
    ``nuclear=0``, whose B grows as `frobenius` falls, they end in zero, or in a worse
    minimum, more often.)

    Parameters
    ----------
    eigenvalues, eigenvectors : arrays of shape (m,) and (n, m)
        Of K, eigenvalues not negative (only the non-zero ones are needed).
    R : array of shape (n, T)
        Responses.
    alpha, frobenius, nuclear : float
        Strengths; ``alpha > 0`` and ``frobenius + nuclear > 0``.
    solver : {"fista", "paper"}
        "paper": Algorithm 1, exact A-steps and gradient steps on B of size `step`,
        until ``|dQ| < tol``.
    tol, max_iter : float and int
        Relative duality gap (``nuclear=0``) or squared relative stationarity
        (``nuclear>0``).
    outside : float
        Squared norm of the part of the responses that is not in `R`.
    """
    lam = np.maximum(eigenvalues, 0.0)
    M = eigenvectors.T @ R
    outside += max(float(np.vdot(R, R) - np.vdot(M, M)), 0.0)
    problem = _Problem(lam, M, alpha, frobenius, nuclear, outside)
    with one_blas_thread(M.shape[1]):
        if solver == "paper":
            start = np.eye(M.shape[1])
            A, minimum = _paper(problem, start, step, tol, max_iter)
            return _solution(problem, eigenvectors, minimum, A)
        descend = _proximal if nuclear else _lbfgs
        minimum = descend(problem, problem.scaled_identity(), tol, max_iter)
        return _solution(problem, eigenvectors, minimum)


def _solution(
    problem: _Problem, eigenvectors: Array, minimum: _Minimum, A: Array | None = None
) -> LinearSolution:
    """Fold and certify a minimum; without A, take the best one for B."""
    B, path, n_iter, converged = minimum
    point = problem.at(B)
    symmetric = (point.Q * point.singular) @ point.Q.T
    if A is None:
        A = (point.X * point.singular) @ point.Q.T
    else:
        P, _, Qt = np.linalg.svd(B)
        A = A @ (P @ Qt)  # B = (P Q') H: the rotation moves into A
    coef = A @ symmetric
    gap = np.nan if problem.nuclear else max(problem.gap(point), 0.0)
    response = problem.lam.max(initial=0.0) * point.singular.max() ** 2
    fitted = np.einsum("it,it->t", problem.M, problem.lam[:, None] * coef)
    no_response = response <= 1e-10 * problem.alpha
    return LinearSolution(
        A=eigenvectors @ A,
        B=symmetric,
        coef=eigenvectors @ coef,
        objective_path=np.array(path),
        n_iter=n_iter,
        converged=converged,
        duality_gap=gap,
        collapsed=bool(no_response or np.any(fitted <= 1e-10 * fitted.max())),
    )


def _lbfgs(problem: _Problem, B: Array, tol: float, max_iter: int) -> _Minimum:
    """Smooth case: quasi-Newton over B until the relative gap is below `tol`."""
    latest = problem.at(B)
    gap = problem.gap(latest)
    path: list[float] = []
    path.append(latest.value)

    def objective(x: Array) -> tuple[float, Array]:
        nonlocal latest
        candidate = x.reshape(B.shape)
        latest = problem.at(candidate)
        slope = latest.slope + 2.0 * problem.frobenius * candidate
        return latest.value, slope.ravel()

    def accept(xk: Array) -> None:
        nonlocal gap
        # The last point evaluated is the one accepted.
        path.append(latest.value)
        gap = problem.gap(latest)
        if gap <= tol:
            raise StopIteration

    if gap > tol and max_iter > 0:
        minimum = minimize(
            objective,
            B.ravel(),
            jac=True,
            method="L-BFGS-B",
            callback=accept,
            options={
                "maxiter": max_iter,
                "maxfun": 10 * max_iter,
                "ftol": 0.0,
                "gtol": 0.0,
            },
        )
        B = minimum.x.reshape(B.shape)
        if len(path) - 1 < max_iter:
            B = _polish(problem, B)
            gap = problem.gap(problem.at(B))
    # Where rounding ends the descent first, a gap of 1e-5 will do.
    ended = len(path) - 1 < max_iter and gap <= 1e-5
    return B, path, len(path) - 1, bool(gap <= tol or ended)


def _polish(problem: _Problem, B: Array) -> Array:
    """Alternate exact A- and B-steps: they go on where objectives no longer differ.

    For a given ``C = A B`` the best ``L = B'B`` is ``sqrt(alpha / frobenius)
    (C'KC)^(1/2)``.
    """
    ratio = np.sqrt(problem.alpha / problem.frobenius)
    for _ in range(20):
        point = problem.at(B)
        folded = point.singular[:, None] ** 2 * point.S * point.singular**2
        squares, Q = np.linalg.eigh(folded)
        Q = point.Q @ Q
        previous = B
        B = (Q * np.sqrt(ratio * np.sqrt(np.maximum(squares, 0.0)))) @ Q.T
        if np.linalg.norm(B - previous) <= 1e-14 * np.linalg.norm(B):
            break
    return B


def _proximal(problem: _Problem, B: Array, tol: float, max_iter: int) -> _Minimum:
    """Matrix elastic net over B: accelerated proximal gradient with restarts."""
    here = problem.at(B)
    path: list[float] = []
    path.append(here.value)
    # The extrapolated point.
    ahead = B
    there = here
    momentum = 1.0
    # For fixed A the fit has curvature 2 |KA|_op^2, and eliminating A only flattens it.
    first_layer = problem.lam[:, None] * (here.X * here.singular)
    curvature = 2.0 * float(np.linalg.norm(first_layer)) ** 2 + 1e-300
    for n_iter in range(1, max_iter + 1):
        curvature *= 0.7
        while True:
            target = ahead - there.slope / curvature
            s, Q = _right_singular(target)
            shrunk = np.maximum(s - problem.nuclear / curvature, 0.0)
            shrunk /= 1.0 + 2.0 * problem.frobenius / curvature
            candidate = (target @ Q) * (shrunk / np.maximum(s, 1e-300)) @ Q.T
            new = problem.at(candidate, shrunk, Q)
            move = candidate - ahead
            model = np.vdot(there.slope, move) + 0.5 * curvature * np.vdot(move, move)
            if new.fit <= there.fit + model + 1e-13 * abs(there.fit):
                break
            curvature *= 2.0
        if new.value > here.value:
            if momentum == 1.0:  # a plain step no longer descends: rounding level
                return B, path, n_iter, True
            ahead = B
            there = here
            momentum = 1.0
            continue
        stationarity = curvature * float(np.linalg.norm(move))
        grown = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = candidate + (momentum - 1.0) / grown * (candidate - B)
        B = candidate
        here = new
        momentum = grown
        path.append(here.value)
        # The objective is off by about the square of the relative stationarity.
        if stationarity <= np.sqrt(tol) * float(np.linalg.norm(there.slope)):
            return B, path, n_iter, True
        there = problem.at(ahead)
    return B, path, max(max_iter, 0), False


def _paper(
    problem: _Problem,
    B: Array,
    step: float,
    tol: float,
    max_iter: int,
) -> tuple[Array, _Minimum]:
    """Algorithm 1 with corrected gradients of Q_L: exact A, one gradient step on B."""
    path: list[float] = []
    converged = False
    while len(path) < max_iter and not converged:
        point = problem.at(B)
        A = point.X @ (B @ point.Q).T
        Y = problem.lam[:, None] * A
        P, _, Qt = np.linalg.svd(B)
        slope = 2.0 * Y.T @ (Y @ B - problem.M) + 2.0 * problem.frobenius * B
        B = B - step * (slope + problem.nuclear * P @ Qt)
        residual = Y @ B - problem.M
        value = float(np.vdot(residual, residual) + problem.alpha * np.vdot(A, Y))
        value += problem.outside + problem.frobenius * float(np.vdot(B, B))
        value += problem.nuclear * float(np.linalg.svd(B, compute_uv=False).sum())
        path.append(value)
        if not np.isfinite(value):
            break
        converged = len(path) > 1 and abs(path[-2] - path[-1]) < tol
    return A, (B, path, len(path), converged)
