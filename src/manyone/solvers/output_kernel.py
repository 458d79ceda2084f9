"""Output kernel learning: a similarity between tasks learnt together with their functions."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Floats = NDArray[np.float64]
Eigen = tuple[Floats, Floats]


class OutputKernel(NamedTuple):
    """Solution of :func:`output_kernel`.

    Attributes
    ----------
    structure : array of shape (T, T)
        L, symmetric positive semi-definite.
    coef : array of shape (n, T)
        C; a new row's responses are k_x'C L.
    objective_path : array of shape (n_iter + 1,)
        Never increases, up to round-off.
    """

    structure: Floats
    coef: Floats
    objective_path: Floats
    n_iter: int
    converged: bool


class _Point(NamedTuple):
    """A structure by its eigenpairs, with the best coefficients for it in both eigenbases."""

    levels: Floats  # (T,) eigenvalues of L
    axes: Floats  # (T, T) eigenvectors of L
    coef: Floats  # (n, T) U_K'C U_L
    objective: float


def output_kernel(
    K: Floats,
    Y: Floats,
    ridge: float,
    start: Floats | None = None,
    eigen: Eigen | None = None,
    tol: float = 1e-8,
    max_iter: int = 100,
) -> OutputKernel:
    r"""Minimise |Y - KCL|^2 / (2 ridge) + tr(C'KCL) / 2 + |L|_F^2 / 2 over C and L.

    The best C for a given L solves K C L + ridge C = Y, a division in the eigenbases of K and L.
    What remains, tr(Y'C(L)) / 2 + |L|^2 / 2, is strictly convex in L with gradient L - C'KC / 2,
    and zero is no stationary point of it. Newton steps minimise it. Their linear systems are solved
    by conjugate gradients, preconditioned with the block-coordinate step for L (a symmetric
    Lyapunov equation), which alone would need thousands of iterations at a small ridge.

    Parameters
    ----------
    K : array of shape (n, n)
        Positive semi-definite.
    Y : array of shape (n, T)
    ridge : float
        Positive.
    start : array of shape (T, T), default=None
        Positive semi-definite structure to start from, such as the solution at another ridge.
        None: the identity.
    eigen : tuple of arrays of shape (n,) and (n, n), default=None
        Eigenvalues and eigenvectors of K. None: computed here.
    tol : float, default=1e-8
        On |L - C'KC / 2|_F, relative to the larger of the two terms' norms.
    max_iter : int, default=100
        Newton steps.

    Returns
    -------
    OutputKernel
    """
    values, vectors = eigh(K) if eigen is None else eigen
    spectrum = np.maximum(values, 0.0)[:, None]
    rotated = vectors.T @ Y
    point = _point(np.eye(Y.shape[1]) if start is None else start, spectrum, rotated, ridge)
    path = [point.objective]
    while True:
        fitted = spectrum * point.coef
        energy = point.coef.T @ fitted / 2
        gradient = np.diag(point.levels) - energy
        size = max(np.linalg.norm(point.levels), np.linalg.norm(energy))
        converged = bool(np.linalg.norm(gradient) <= tol * size)
        if converged or len(path) > max_iter:
            break
        step = _newton_step(gradient, fitted, spectrum * point.levels + ridge, ridge)
        point = _descend(point, gradient, step, spectrum, rotated, ridge)
        path.append(point.objective)
    return OutputKernel(
        structure=(point.axes * point.levels) @ point.axes.T,
        coef=vectors @ point.coef @ point.axes.T,
        objective_path=np.array(path),
        n_iter=len(path) - 1,
        converged=converged,
    )


def leave_one_out_residuals(
    K: Floats, Y: Floats, structure: Floats, ridge: float, eigen: Eigen | None = None
) -> Floats:
    """Return Y_i - f_{-i}(x_i) for every row i, each f_{-i} refitted with L fixed.

    Along an eigenvector of L with eigenvalue l the fit is a kernel ridge regression with Gram
    matrix l K, whose left-out residual is c_i / (l K + ridge I)^-1_ii.

    Parameters
    ----------
    K : array of shape (n, n)
    Y : array of shape (n, T)
    structure : array of shape (T, T)
    ridge : float
    eigen : tuple of arrays of shape (n,) and (n, n), default=None
        As in :func:`output_kernel`.

    Returns
    -------
    array of shape (n, T)
    """
    values, vectors = eigh(K) if eigen is None else eigen
    spectrum = np.maximum(values, 0.0)[:, None]
    point = _point(structure, spectrum, vectors.T @ Y, ridge)
    leverage = np.square(vectors) @ (1.0 / (spectrum * point.levels + ridge))
    return (vectors @ point.coef / leverage) @ point.axes.T


def _point(structure: Floats, spectrum: Floats, rotated: Floats, ridge: float) -> _Point:
    """Project ``structure`` onto the semi-definite cone and solve for the coefficients."""
    levels, axes = eigh(structure)
    levels = np.maximum(levels, 0.0)
    targets = rotated @ axes
    coef = targets / (spectrum * levels + ridge)
    return _Point(levels, axes, coef, float((targets * coef).sum() + levels @ levels) / 2)


def _newton_step(gradient: Floats, fitted: Floats, denominator: Floats, ridge: float) -> Floats:
    """Solve Hessian(D) = -gradient roughly, in the eigenbasis of L.

    The Hessian sends D to D + sym(E'(E D / denominator)), with E = KC. Replacing the denominator
    by ridge, its lower bound, gives the block-coordinate step.
    """
    moments, basis = eigh(fitted.T @ fitted)
    lyapunov = 2 * ridge / (moments[:, None] + moments + 2 * ridge)

    def block_step(residual: Floats) -> Floats:
        return basis @ (lyapunov * (basis.T @ residual @ basis)) @ basis.T

    step = np.zeros_like(gradient)
    residual = -gradient
    direction = block_step(residual)
    descent = (residual * direction).sum()
    # A residual this small makes the Newton steps converge superlinearly.
    size = np.linalg.norm(gradient)
    enough = size * min(0.1, np.sqrt(size / (1.0 + size)))
    while np.linalg.norm(residual) > enough:
        curved = fitted.T @ (fitted @ direction / denominator)
        curved = direction + (curved + curved.T) / 2
        length = descent / (direction * curved).sum()
        step += length * direction
        residual = residual - length * curved
        preconditioned = block_step(residual)
        previous, descent = descent, (residual * preconditioned).sum()
        direction = preconditioned + (descent / previous) * direction
    return step


def _descend(
    point: _Point,
    gradient: Floats,
    step: Floats,
    spectrum: Floats,
    rotated: Floats,
    ridge: float,
) -> _Point:
    """Halve the step until the objective, on the semi-definite cone, decreases enough."""
    slope = (gradient * step).sum()
    # Close to the optimum the decrease drowns in the last digits of the objective.
    noise = 1e-14 * abs(point.objective)
    length = 1.0
    while True:
        moved = point.axes @ (np.diag(point.levels) + length * step) @ point.axes.T
        trial = _point(moved, spectrum, rotated, ridge)
        if trial.objective <= point.objective + 1e-4 * length * slope + noise:
            return trial
        length /= 2
