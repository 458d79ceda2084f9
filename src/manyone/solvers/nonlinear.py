"""Non-linear structure learning (OCKSR-N): a Gaussian kernel over the first layer's responses.

The first layer is held as feature weights W with ``K = Phi Phi'``, ``A = K^-1 Phi W`` never formed:
responses are ``Y = Phi W`` and ``tr(A'KA) = |W|_F^2``. The second layer is
``J_ij = exp(-theta |y_i - y_j|^2)`` with coefficients ``B``, which have a closed form and are
eliminated. One evaluation is one Cholesky factorisation, one solve and four n x n x T products;
symmetric matrices are formed one block triangle at a time, in two n x n buffers.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import minimize

from manyone._types import Array, Codes, Mask
from manyone.solvers.gradient_steps import Evaluation, gradient_steps
from manyone.solvers.ridge import SMALLEST_RIDGE, effective_alpha
from manyone.solvers.running import Report, Trace, blas_for

_BLOCK = 512  # rows per block: long enough to keep BLAS busy, short enough for one triangle to pay
# theta="mean": squared distance, in units of the mean squared response, at which rows are unlike
_REACH = 10.0
_ANCHOR = 0.1  # what the origin weighs, in rows of a typical task


class TwoLayerProblem(NamedTuple):
    """Both layers as arrays, in units of the mean weight: the same minimiser, moderate numbers.

    Attributes
    ----------
    Phi : array of shape (n, m)
        Feature rows; the last one is the origin where there is an anchor.
    R : array of shape (n, T)
        Responses asked for.
    weight : array of shape (n,)
    groups : array of shape (n,)
        Task of each row; known outliers of every task and the origin come after the last task.
    alpha : float
    W : array of shape (m, T)
        The solution of the first layer alone, to start from.
    theta : float
        Coefficient of the second kernel for it.
    unit : float
        Mean weight.
    """

    Phi: Array
    R: Array
    weight: Array
    groups: Codes
    alpha: float
    W: Array
    theta: float
    unit: float


class NonlinearSolution(NamedTuple):
    """What `solve_nonlinear` returns; ``B`` is the best second layer for ``W`` and ``theta``."""

    W: Array
    B: Array
    theta: float
    objective_path: Array
    n_iter: int
    converged: bool


def capped_weight(weight: Array, diagonal: Array, alpha: float) -> Array:
    """Weights (n,) beside which double precision resolves the ridge of light rows.

    Heavier rows are interpolated to rounding anyway. ``diagonal`` (n,): self-similarities.
    """
    resolved = SMALLEST_RIDGE * max(float(np.abs(diagonal).sum()), 1e-200)
    return np.minimum(weight, max(1e8, min(alpha, 1e50) / resolved))


def two_layer_problem(
    Phi: Array,
    W: Array,
    R: Array,
    weight: Array,
    outlier: Mask,
    codes: Codes,
    alpha: float,
    *,
    theta: str | float = "mean",
    anchor: bool = True,
) -> TwoLayerProblem:
    """The problem that `solve_nonlinear` and `solve_sparse` are asked to solve.

    Parameters
    ----------
    Phi : array of shape (n, m)
        Feature rows.
    W : array of shape (m, T)
        Ridge solution of the first layer.
    R : array of shape (n, T)
    weight : array of shape (n,)
    outlier : array of shape (n,)
    codes : array of shape (n,)
        Task of each row; negative for outliers of every task.
    alpha : float
    theta : "mean" or float
        "mean": ten over the mean squared length of the responses ``Phi W``.
    anchor : bool
        Whether the origin joins as a row that belongs to no task: a row unlike all others has
        features near zero.
    """
    T, unit = R.shape[1], float(np.mean(weight))
    groups = np.where(codes < 0, T, codes)
    if isinstance(theta, str):
        share = weight / unit
        squares = np.square(Phi @ W).sum(axis=1)
        theta = _REACH / max(float(share @ squares) / float(share.sum()), 1e-250)
    if anchor:
        origin = _ANCHOR * float(weight[~outlier].sum()) / T
        Phi, R = np.vstack([Phi, np.zeros(Phi.shape[1])]), np.vstack([R, np.zeros(T)])
        weight, groups = np.append(weight, origin), np.append(groups, T)
    return TwoLayerProblem(Phi, R, weight / unit, groups, alpha / unit, W, float(theta), unit)


def second_ridge(problem: TwoLayerProblem, beta: float) -> float:
    """The ridge of the second layer in units of the problem.

    A ridge beyond what a task weighs would leave nothing for the first layer to learn from.
    """
    heaviest = float(np.mean(problem.weight @ problem.R))
    return float(effective_alpha(min(beta / problem.unit, heaviest), float(len(problem.R))))


def _blocks(n_rows: int) -> Iterator[tuple[int, int]]:
    for start in range(0, n_rows, _BLOCK):
        yield start, min(start + _BLOCK, n_rows)


def _exponents(Y_new: Array, Y: Array, theta: float) -> tuple[Array, Array]:
    """Factors with ``left @ right.T = -theta |y_new_i - y_j|^2``."""
    ones_new, ones = np.ones((len(Y_new), 1)), np.ones((len(Y), 1))
    norms_new = -theta * np.einsum("it,it->i", Y_new, Y_new)[:, None]
    norms = -theta * np.einsum("it,it->i", Y, Y)[:, None]
    return np.hstack([2.0 * theta * Y_new, norms_new, ones_new]), np.hstack([Y, ones, norms])


def gram(Y_new: Array, Y: Array, theta: float) -> Array:
    """Second-layer kernel ``exp(-theta |y_new_i - y_j|^2)``, shape (n_new, n)."""
    left, right = _exponents(Y_new, Y, theta)
    exponent = left @ right.T
    np.minimum(exponent, 0.0, out=exponent)
    return np.exp(exponent, out=exponent)


def fill_gram(Y: Array, theta: float, J: Array) -> None:
    """Write the upper block triangle of ``gram(Y, Y, theta)`` into the (n, n) buffer J."""
    left, right = _exponents(Y, Y, theta)
    for start, stop in _blocks(len(Y)):
        block = J[start:stop, start:]
        np.matmul(left[start:stop], right[start:].T, out=block)
        np.minimum(block, 0.0, out=block)
        np.exp(block, out=block)
    np.fill_diagonal(J, 1.0)


def pull_back(J: Array, left: Array, right: Array, Y: Array, theta: float) -> Array:
    """Gradient in Y of a function of J with symmetrised slope ``left right'`` (symmetric).

    With ``H = -theta J * (left right')`` it is twice the graph Laplacian of H applied to Y. Only
    the upper block triangle of J is read. Shapes: J (n, n), left and right (n, k), Y (n, T).
    """
    n_rows, n_tasks = Y.shape
    points = np.hstack([Y, np.ones((n_rows, 1))])  # the last column collects the row sums of H
    product = np.zeros_like(points)
    work = np.empty(min(_BLOCK, n_rows) * n_rows)
    for start, stop in _blocks(n_rows):
        H = work[: (stop - start) * (n_rows - start)].reshape(stop - start, n_rows - start)
        np.matmul(left[start:stop], right[start:].T, out=H)
        H *= J[start:stop, start:]
        product[start:stop] += H @ points[start:]
        product[stop:] += H[:, stop - start :].T @ points[start:stop]
    product *= -2.0 * theta
    return product[:, n_tasks:] * Y - product[:, :n_tasks]


def _factorise(J: Array, ridge: Array | float, out: Array) -> Array:
    """Cholesky factor of ``J + diag(ridge)`` from J's upper block triangle, in place of ``out``."""
    if out is not J:
        for start, stop in _blocks(len(J)):
            out[start:stop, start:] = J[start:stop, start:]
    np.fill_diagonal(out, 1.0 + ridge)
    factor, info = dpotrf(out.T, lower=1, clean=0, overwrite_a=1)
    if info:
        raise np.linalg.LinAlgError("the second-layer kernel plus ridge is not positive definite")
    return factor


class _Reduced:
    """Objective and gradient with B eliminated; owns the two n x n buffers.

    Weighted rows: ``(J + beta diag(1/w)) B = R``, so a row of weight k acts as k copies.
    """

    def __init__(self, Phi: Array, R: Array, alpha: float, beta: float, weight: Array) -> None:
        self.Phi, self.R, self.alpha, self.beta = Phi, np.asfortranarray(R), alpha, beta
        self.ridge = beta / weight
        self.J, self.factor = np.empty((2, len(Phi), len(Phi)))

    def __call__(self, W: Array, theta: float) -> tuple[float, Array, float]:
        """Objective, its gradient in W, and its derivative in log theta."""
        Y = self.Phi @ W
        fill_gram(Y, theta, self.J)
        B = dpotrs(_factorise(self.J, self.ridge, self.factor), self.R, lower=1)[0]
        fit = self.beta * float(np.einsum("it,it->", B, self.R))
        slope = pull_back(self.J, (-2.0 * self.beta) * B, B, Y, theta)
        gradient = self.Phi.T @ slope
        # The fit depends on theta and Y through sqrt(theta) Y only.
        by_log_theta = 0.5 * float(np.einsum("mt,mt->", W, gradient))
        value = fit + self.alpha * float(np.einsum("mt,mt->", W, W))
        return value, gradient + (2.0 * self.alpha) * W, by_log_theta

    def first_slope(self, W: Array, theta: float, weight: Array) -> tuple[float, Array, float]:
        """What the paper's first step goes by: B for tasks that do not interact, at this J."""
        Y = self.Phi @ W
        J = gram(Y, Y, theta)
        B = weight[:, None] * self.R / (weight @ self.R + self.beta)
        outer = 2.0 * weight[:, None] * (J @ B - self.R) + self.beta * B
        slope = pull_back(J, np.hstack([outer, B]), np.hstack([B, outer]), Y, theta)
        gradient = self.Phi.T @ slope
        return 0.0, gradient + 2.0 * self.alpha * W, 0.5 * float(np.vdot(W, gradient))


def solve_nonlinear(
    Phi: Array,
    R: Array,
    alpha: float,
    beta: float,
    theta: float,
    *,
    W: Array,
    weight: Array | None = None,
    learn_theta: bool = False,
    solver: str = "lbfgs",
    steps: tuple[float, float] = (1e-3, 1e-3),
    tol: float = 1e-6,
    max_iter: int = 200,
    report: Report | None = None,
) -> NonlinearSolution:
    """Minimise ``sum_i w_i |(J B - R)_i|^2 + alpha |W|_F^2 + beta tr(B'JB)`` over W and B.

    ``J_ij = exp(-theta |y_i - y_j|^2)`` with ``Y = Phi W``. B is eliminated, which leaves
    ``beta tr(R'(J + beta diag(1/w))^-1 R) + alpha |W|_F^2``. Only ``alpha / theta`` matters:
    ``(cW, theta / c^2)`` gives the same J, so with ``learn_theta`` the penalty can be made
    arbitrarily small, no minimiser exists, and ``max_iter`` decides the model.

    Parameters
    ----------
    Phi, R : arrays of shape (n, m) and (n, T)
        Feature rows, ``K = Phi Phi'``, and responses; those of known outliers are zero.
    alpha, beta, theta : float
        Strengths of the two layers and the second-layer kernel coefficient, all positive.
    W : array of shape (m, T)
        Where to start: the solution of the joint ridge problem.
    weight : array of shape (n,), optional
        Positive; integers act as repetitions, and 1e10 beta is the largest that is resolved.
    learn_theta : bool
        Optimise ``log theta`` together with W ("lbfgs") or step along ``theta`` ("paper").
    solver : {"lbfgs", "paper"}
        "paper": Algorithm 2, gradient steps on A and theta of sizes `steps`, until ``|dQ| < tol``.
    tol, max_iter : float and int
        "lbfgs": decrease of the objective to stop at, in units of its first value.
    report : callable, optional
        Called with the number of every accepted iterate and its objective.
    """
    weight = np.ones(len(R)) if weight is None else np.minimum(weight, 1e10 * beta)
    with blas_for(len(Phi)):
        reduced = _Reduced(Phi, R, alpha, beta, weight)
        if solver == "paper":
            first, metric = reduced.first_slope(W, theta, weight), Phi.T @ (weight[:, None] * Phi)
            steps = steps[0], steps[1] * learn_theta
            found = gradient_steps(reduced, first, W, theta, metric, steps, tol, max_iter, report)
        else:
            found = descend(reduced, W, theta, learn_theta, tol, max_iter, report)
        W, theta, path, converged = found
        B = second_layer(Phi @ W, R, beta, theta, weight)
    n_iter = len(path) - (solver != "paper")  # L-BFGS also records where it starts
    return NonlinearSolution(W, B, theta, path, n_iter, converged)


def descend(
    evaluate: Evaluation,
    W: Array,
    theta: float,
    learn_theta: bool,
    tol: float,
    max_iter: int,
    report: Report | None = None,
) -> tuple[Array, float, Array, bool]:
    """L-BFGS over W, and over log theta if asked; the objective at every accepted point.

    The objective is measured by its first value and W by a fifth of its length, which is that of
    the first step: neither this nor the end depends on units.
    """
    latest, unit = 0.0, 0.0
    size = max(0.2 * float(np.linalg.norm(W)), np.finfo(float).tiny)
    path = Trace(report)

    def objective(x: Array) -> tuple[float, Array]:
        nonlocal latest, unit
        coefficient = float(np.exp(x[-1])) if learn_theta else theta
        latest, gradient, by_log_theta = evaluate(size * x[: W.size].reshape(W.shape), coefficient)
        if not path:
            path.append(latest)
            unit = max(latest, np.finfo(float).tiny)
        slope = np.append(size * gradient.ravel(), [by_log_theta] if learn_theta else [])
        return latest / unit, slope / unit

    x = np.append(W.ravel() / size, [np.log(theta)] if learn_theta else [])
    if max_iter == 0:
        objective(x)
        return W, theta, np.array(path), False
    found = minimize(
        objective,
        x,
        jac=True,
        method="L-BFGS-B",
        callback=lambda xk: path.append(latest),  # the accepted point was evaluated last
        options={"maxiter": max_iter, "maxfun": 10 * max_iter, "ftol": tol, "gtol": 0.0},
    )
    final = float(np.exp(found.x[-1])) if learn_theta else theta
    return size * found.x[: W.size].reshape(W.shape), final, np.array(path), found.status == 0


def second_layer(
    Y: Array, R: Array, beta: float, theta: float, weight: Array | None = None
) -> Array:
    """Minimise ``sum_i w_i |(J B - R)_i|^2 + beta tr(B'JB)`` over B of shape (n, T), Y fixed."""
    J = np.empty((len(Y), len(Y)))
    fill_gram(Y, theta, J)
    factor = _factorise(J, beta if weight is None else beta / weight, J)
    return np.ascontiguousarray(dpotrs(factor, R, lower=1)[0])


def respond(Y_new: Array, Y: Array, B: Array, theta: float) -> Array:
    """Second-layer responses ``gram(Y_new, Y) B`` of shape (n_new, T), in row blocks."""
    out = np.empty((len(Y_new), B.shape[1]))
    for start, stop in _blocks(len(Y_new)):
        out[start:stop] = gram(Y_new[start:stop], Y, theta) @ B
    return out
