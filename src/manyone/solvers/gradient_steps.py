"""The paper's Algorithms 2 and 3: fixed gradient steps on the first layer and on theta."""

from collections.abc import Callable

import numpy as np

from manyone._types import Array
from manyone.solvers.running import Report, Trace

#: Of a first layer (m, T) and theta: the objective, its gradient, its derivative in log theta.
Evaluation = Callable[[Array, float], tuple[float, Array, float]]


def gradient_steps(
    evaluate: Evaluation,
    first: tuple[float, Array, float],
    W: Array,
    theta: float,
    metric: Array,
    steps: tuple[float, float],
    tol: float,
    max_iter: int,
    report: Report | None = None,
) -> tuple[Array, float, Array, bool]:
    """Fixed steps on A and theta until ``|dQ| < tol``; the objective after every one.

    Parameters
    ----------
    evaluate : callable
        The objective with the second layer eliminated.
    first : tuple
        What the first step goes by instead of an evaluation.
    W : array of shape (m, T)
    theta : float
    metric : array of shape (m, m)
        ``Phi'Phi`` turns a step on A into one on ``W = Phi'A``.
    steps : tuple of float
        Step sizes of A and theta.
    tol : float
    max_iter : int
    report : callable, optional

    Returns
    -------
    W : array of shape (m, T)
    theta : float
    objective_path : array of shape (n_iter,)
    converged : bool
    """
    _, gradient, by_log_theta = first
    path = Trace(report)
    while len(path) < max_iter:
        W = W - steps[0] * (metric @ gradient)
        theta = max(theta - steps[1] * by_log_theta / theta, 1e-300)
        value, gradient, by_log_theta = evaluate(W, theta)
        path.append(value)
        if len(path) > 1 and abs(path[-2] - path[-1]) < tol:
            return W, theta, np.array(path), True
    return W, theta, np.array(path), False
