"""Two layers: what the ridge and the lasso of the second layer have in common.

The first layer is held as feature weights W with ``K = Phi Phi'``, ``A = K^-1 Phi W``
never formed: responses are ``Y = Phi W`` and ``tr(A'KA) = |W|_F^2``. The second layer
is ``J_ij = exp(-theta |y_i - y_j|^2)`` with coefficients ``B``, which are eliminated:
what is left is a function of W, and a descent minimises it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from manyone._types import Array, Codes
from manyone.solvers.ridge import (
    BLOCK,
    SMALLEST_RIDGE,
    effective_alpha,
    primal_weights,
)

#: What the origin weighs, as a share of a typical task.
ANCHOR = 0.1

#: Of a first layer (m, T) and theta: the objective, its gradient, its derivative in log
#: theta.
Evaluation = Callable[[Array, float], tuple[float, Array, float]]


class TwoLayerProblem(NamedTuple):
    """Both layers as arrays, in units of the mean weight.

    Attributes
    ----------
    Phi : array of shape (n, m)
        Feature rows; the last one is the origin where there is an anchor.
    R : array of shape (n, T)
        Target responses.
    weight : array of shape (n,)
    groups : array of shape (n,)
        Task of each row; known outliers of every task and the origin come after the
        last task.
    alpha : float
    W : array of shape (m, T)
        Where to start: the solution of the first layer alone.
    theta : float
        Coefficient of the second kernel, or where to start if it is learned.
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


class Descent(NamedTuple):
    """How the first layer is sought.

    Attributes
    ----------
    tol, max_iter : float and int
        Decrease to stop at, in units of what can be gained at the start ("paper": its
        own).
    learn_theta : bool
        Optimise ``log theta`` together with W, or step along ``theta`` ("paper").
    solver : str
        "paper": Algorithms 2 and 3, gradient steps on A and theta. Else L-BFGS.
    steps : tuple of float
        Step sizes of A and theta of "paper".
    """

    tol: float = 1e-6
    max_iter: int = 200
    learn_theta: bool = False
    solver: str = "lbfgs"
    steps: tuple[float, float] = (1e-3, 1e-3)


@dataclass(frozen=True, eq=False)
class FirstLayerMinimum:
    """What a descent ends with: first layer W (m, T), theta, and how it went."""

    W: Array
    theta: float
    objective_path: Array
    n_iter: int
    converged: bool


def two_layer_problem(
    Phi: Array,
    diagonal: Array,
    R: Array,
    weight: Array,
    codes: Codes,
    alpha: float,
    theta: str | float = "mean",
    anchor: bool = True,
) -> TwoLayerProblem:
    """The problem of `solve_nonlinear` and `solve_sparse`, started at the ridge.

    Parameters
    ----------
    Phi : array of shape (n, m)
        Feature rows.
    diagonal : array of shape (n,)
        Self-similarities of the rows.
    R : array of shape (n, T)
        Columns are the indicators of the normal rows of each task.
    weight : array of shape (n,)
        Weights beside which double precision would lose the ridge of light rows are
        capped: heavier rows are interpolated to rounding anyway.
    codes : array of shape (n,)
        Task of each row; negative for outliers of every task.
    alpha : float
    theta : "mean" or float
        "mean": ten over the mean squared length of the responses ``Phi W``. (Of fixed
        multiples ten was the best on keystrokes.)
    anchor : bool
        Whether the origin joins as a row that belongs to no task: a row unlike all
        others has features near zero.
    """
    resolved = SMALLEST_RIDGE * max(float(np.abs(diagonal).sum()), 1e-200)
    weight = np.minimum(weight, max(1e8, min(alpha, 1e50) / resolved))
    alpha = float(effective_alpha(alpha, diagonal @ weight))
    W = primal_weights(Phi, R, alpha, weight)
    T = R.shape[1]
    unit = float(np.mean(weight))
    groups = np.where(codes < 0, T, codes)
    if isinstance(theta, str):
        squares = np.square(Phi @ W).sum(axis=1)
        theta = 10.0 / max(float(np.average(squares, weights=weight / unit)), 1e-250)
    if anchor:
        origin = ANCHOR * float(np.mean(weight @ R))
        Phi = np.vstack([Phi, np.zeros(Phi.shape[1])])
        R = np.vstack([R, np.zeros(T)])
        weight = np.append(weight, origin)
        groups = np.append(groups, T)
    return TwoLayerProblem(
        Phi=Phi,
        R=R,
        weight=weight / unit,
        groups=groups,
        alpha=alpha / unit,
        W=W,
        theta=float(theta),
        unit=unit,
    )


def in_units(
    problem: TwoLayerProblem, beta: float
) -> tuple[TwoLayerProblem, float, float]:
    """The problem with weights that beta resolves, beta in its units, the least value.

    As ``J_ij <= 1``, no first layer goes below ``sum_t beta n_t / (beta + n_t)``, n_t
    task weights.
    """
    heaviest = float(np.mean(problem.weight @ problem.R))
    ridge = min(beta / problem.unit, heaviest)
    beta = float(effective_alpha(ridge, float(len(problem.R))))
    weight = np.minimum(problem.weight, 1e10 * beta)
    total = weight @ problem.R
    least = float(np.sum(beta * total / (beta + total)))
    return problem._replace(weight=weight), beta, least


def gram(Y_new: Array, Y: Array, theta: float, out: Array | None = None) -> Array:
    """Second-layer kernel ``exp(-theta |y_new_i - y_j|^2)``, shape (n_new, n).

    In `out` (n, n), for ``Y_new = Y``, only the upper block triangle is written.
    """
    lengths_new = -theta * np.einsum("it,it->i", Y_new, Y_new)
    lengths = -theta * np.einsum("it,it->i", Y, Y)
    left = np.column_stack([2.0 * theta * Y_new, lengths_new, np.ones(len(Y_new))])
    right = np.column_stack([Y, np.ones(len(Y)), lengths])
    J = np.empty((len(Y_new), len(Y))) if out is None else out
    for start in range(0, len(Y_new), BLOCK):
        rows = slice(start, start + BLOCK)
        first = 0 if out is None else start
        block = J[rows, first:]
        np.matmul(left[rows], right[first:].T, out=block)
        np.minimum(block, 0.0, out=block)
        np.exp(block, out=block)
    if out is not None:
        np.fill_diagonal(J, 1.0)
    return J


def respond(Y_new: Array, Y: Array, B: Array, theta: float) -> Array:
    """Second-layer responses ``gram(Y_new, Y) B`` (n_new, T), in blocks of rows."""
    responses = np.empty((len(Y_new), B.shape[1]))
    for start in range(0, len(Y_new), BLOCK):
        rows = slice(start, start + BLOCK)
        responses[rows] = gram(Y_new[rows], Y, theta) @ B
    return responses


def descend(
    evaluate: Evaluation,
    problem: TwoLayerProblem,
    how: Descent,
    least: float = 0.0,
) -> FirstLayerMinimum:
    """L-BFGS over W, and over log theta if it is learned.

    The unit of the objective is its value at the start above the `least`. That of W is
    a sixth of its length, the length of the first step. So neither steps nor the end
    depend on units. The paper's solver takes steps of its own.
    """
    if how.solver == "paper":
        first = evaluate(problem.W, problem.theta)
        return gradient_steps(evaluate, first, problem, how)
    W = problem.W
    theta = problem.theta
    latest = 0.0
    # A line search may take five first steps. They must not end at 0, where all rows
    # are alike.
    size = max(0.17 * float(np.linalg.norm(W)), 1e-300)
    path: list[float] = []

    def objective(x: Array) -> tuple[float, Array]:
        nonlocal latest
        layer = size * x[:-1].reshape(W.shape)
        coefficient = theta * float(np.exp(x[-1]))
        latest, gradient, by_log_theta = evaluate(layer, coefficient)
        if not path:
            path.append(latest)
        unit = max(path[0] - least, 1e-300)
        # Without a slope the last coordinate, log theta less its start, stays zero.
        slope = np.append(size * gradient.ravel(), by_log_theta * how.learn_theta)
        return (latest - least) / unit, slope / unit

    if how.max_iter == 0:
        value = evaluate(W, theta)[0]
        return FirstLayerMinimum(W, theta, np.array([value]), 0, False)
    result = minimize(
        objective,
        np.append(W.ravel() / size, 0.0),
        jac=True,
        method="L-BFGS-B",
        callback=lambda accepted: path.append(latest),  # it was evaluated last
        options={
            "maxiter": how.max_iter,
            "maxfun": 10 * how.max_iter,
            "ftol": how.tol,
            "gtol": 0.0,
        },
    )
    return FirstLayerMinimum(
        W=size * result.x[:-1].reshape(W.shape),
        theta=theta * float(np.exp(result.x[-1])),
        objective_path=np.array(path),
        n_iter=len(path) - 1,
        converged=result.status == 0,
    )


def gradient_steps(
    evaluate: Evaluation,
    first: tuple[float, Array, float],
    problem: TwoLayerProblem,
    how: Descent,
) -> FirstLayerMinimum:
    """The paper's Algorithms 2 and 3: fixed steps on A and theta until ``|dQ| < tol``.

    `first` is the evaluation at the start.
    """
    W = problem.W
    theta = problem.theta
    _, gradient, by_log_theta = first
    # From steps on A to steps on W = Phi'A.
    metric = problem.Phi.T @ (problem.weight[:, None] * problem.Phi)
    path: list[float] = []
    converged = False
    while len(path) < how.max_iter and not converged:
        W = W - how.steps[0] * (metric @ gradient)
        if how.learn_theta:
            theta = max(theta - how.steps[1] * by_log_theta / theta, 1e-300)
        value, gradient, by_log_theta = evaluate(W, theta)
        path.append(value)
        converged = len(path) > 1 and abs(path[-2] - path[-1]) < how.tol
    return FirstLayerMinimum(W, theta, np.array(path), len(path), converged)
