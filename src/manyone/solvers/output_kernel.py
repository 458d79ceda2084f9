r"""Output kernel learning: a similarity of tasks, learnt with their functions.

The problem in C and L is solved through its dual, which is a polynomial of C alone,

.. math:: D(C) = \frac{\rho}{2} \lVert C \rVert^2 + \frac18 \lVert C'KC \rVert_F^2
          - \operatorname{tr}(Y'C),

strongly convex and without constraints. At its minimiser :math:`L = C'KC / 2`. A
gradient of norm g leaves the fitted responses wrong by at most 2 g, however small the
ridge rho. Along a line D is a quartic, and its minimiser the root of a cubic. So no
objective values are compared, which would cost half of the digits.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import eigh, svd  # empty matrices are welcome

from manyone._types import Array


class OutputKernelSolution(NamedTuple):
    """Solution of :func:`solve_output_kernel`.

    Attributes
    ----------
    structure : array of shape (T, T)
        L, symmetric positive semi-definite.
    coef : array of shape (n, T)
        C; a new row's responses are k_x'C L.
    objective_path : array of shape (n_iter + 1,)
        The best value so far, step by step.
    """

    structure: Array
    coef: Array
    objective_path: Array
    n_iter: int
    converged: bool


def solve_output_kernel(
    eigenvalues: Array,
    eigenvectors: Array,
    Y: Array,
    ridge: float,
    *,
    tol: float = 1e-11,
    max_iter: int = 100,
) -> OutputKernelSolution:
    r"""Minimise ``|Y - KCL|^2 / (2 ridge) + tr(C'KCL) / 2 + |L|_F^2 / 2`` over C and L.

    Newton steps on the dual, in the eigenbases of K and of the current L.

    Parameters
    ----------
    eigenvalues, eigenvectors : arrays of shape (m,) and (n, m)
        Of K, positive eigenvalues.
    Y : array of shape (n, T)
    ridge : float
        Positive.
    tol, max_iter : float and int
        On the norm of KCL + ridge C - Y, relative to that of Y; Newton steps.
    """
    spectrum = eigenvalues[:, None]
    targets = eigenvectors.T @ Y
    # Fitted by nothing. Projected twice, because it is divided by the ridge.
    outside = Y - eigenvectors @ targets
    outside -= eigenvectors @ (eigenvectors.T @ outside)
    constant = float(np.vdot(outside, outside)) / (2 * ridge)
    # Directions of the outputs that are a billionth of the longest are rounding.
    shaping = np.sqrt(spectrum) * targets / (spectrum + ridge)
    _, sizes, right = svd(shaping, full_matrices=False)
    axes = right[sizes > 1e-9 * sizes.max(initial=0.0)].T
    targets = targets @ axes
    size = float(np.linalg.norm(targets))
    C = targets / (spectrum + ridge)  # the best for L = I, at the best multiple
    C = C * _line_minimum(-targets, C, np.zeros_like(C), 0.0, spectrum, ridge)
    path: list[float] = []
    while True:
        values, rotation = eigh(C.T @ (spectrum * C) / 2)
        values = np.maximum(values, 0.0)
        axes = axes @ rotation
        C = C @ rotation
        targets = targets @ rotation
        denominator = spectrum * values + ridge
        best = targets / denominator  # the best C for this L
        value = constant + (float(np.vdot(targets, best)) + float(values @ values)) / 2
        path.append(min(value, path[-1]) if path else value)
        gradient = denominator * C - targets
        error = float(np.linalg.norm(gradient))
        converged = bool(error <= tol * size)
        if converged or len(path) > max_iter:
            break
        step = _newton_step(gradient, spectrum * C, denominator, error / size)
        C = C + _line_minimum(gradient, step, C, values, spectrum, ridge) * step
    structure = (axes * values) @ axes.T
    coef = eigenvectors @ (best @ axes.T) + outside / ridge
    n_iter = len(path) - 1
    return OutputKernelSolution(structure, coef, np.array(path), n_iter, converged)


def _newton_step(
    gradient: Array, fitted: Array, denominator: Array, error: float
) -> Array:
    """Solve ``denominator * D + E sym(E'D) = -gradient`` for D (m, T), E = KC, roughly.

    For ``Z = sym(E'D)`` that is ``Z + sym(E'(E Z / denominator)) = -sym(E'(gradient /
    denominator))``, T x T and solved by conjugate gradients. Their preconditioner is
    the diagonal of this map.
    """
    inverse = 1.0 / denominator
    diagonal = 1.0 + _symmetric((fitted**2).T @ inverse)
    residual = -_symmetric(fitted.T @ (gradient * inverse))
    Z = np.zeros_like(residual)
    direction = residual / diagonal
    descent = float(np.vdot(residual, direction))
    # What is left of the gradient is E times the residual of Z. (That residual alone
    # says little, as the right side was divided by the ridge.) A share that shrinks
    # with the error makes the Newton steps converge superlinearly.
    enough = min(1e-3, np.sqrt(error)) * np.linalg.norm(gradient)
    for _ in range(200):
        if np.linalg.norm(fitted @ residual) <= enough:
            break
        curved = direction + _symmetric(fitted.T @ ((fitted @ direction) * inverse))
        length = descent / float(np.vdot(direction, curved))
        Z += length * direction
        residual = residual - length * curved
        preconditioned = residual / diagonal
        previous = descent
        descent = float(np.vdot(residual, preconditioned))
        direction = preconditioned + (descent / previous) * direction
    return -(gradient + fitted @ Z) * inverse


def _line_minimum(
    gradient: Array,
    step: Array,
    C: Array,
    values: Array | float,
    spectrum: Array,
    ridge: float,
) -> float:
    """Length t >= 0 of the `step` with the smallest dual, the root of a cubic."""
    curved = spectrum * step
    # L(t) = L + t first + t^2 second.
    first = _symmetric(C.T @ curved)
    second = step.T @ curved / 2
    slope = float(np.vdot(gradient, step))
    linear = ridge * float(np.vdot(step, step))
    linear += 2 * float(np.sum(values * np.diag(second)))
    linear += float(np.vdot(first, first))
    square = 3 * float(np.vdot(first, second))
    cube = 2 * float(np.vdot(second, second))
    low = 0.0
    high = np.inf
    length = 1.0
    for _ in range(100):
        height = slope + length * (linear + length * (square + length * cube))
        if height > 0:
            high = length
        else:
            low = length
        rise = linear + length * (2 * square + 3 * length * cube)
        new = length - height / rise if rise > 0 else np.inf
        if not low < new < high:
            new = 2 * length if np.isinf(high) else (low + high) / 2
        if abs(new - length) <= 1e-14 * length:
            break
        length = new
    return length


def _symmetric(A: Array) -> Array:
    return (A + A.T) / 2
