"""Fast multi-output relevance vector regression: sparse bases shared by all outputs."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.linalg.blas import dger

from manyone._types import Array, Codes
from manyone.solvers.eigenbasis import resolved_weight

#: A basis enters only if the active ones leave this share of it unexplained. Moments
#: have sixteen digits: below, rounding and the order of the rows would choose.
_REDUNDANT = 1e-6


class MORVRSolution(NamedTuple):
    """Solution of :func:`solve_morvr`, with M relevant bases.

    Attributes
    ----------
    active : array of shape (M,)
        Columns of the design that are in the model.
    alpha : array of shape (M,)
        Their precisions.
    mean : array of shape (M, V)
        Posterior mean of the weights; a new row's responses are phi_active'mean.
    covariance : array of shape (M, M)
        Posterior covariance of the weights over bases (times ``noise`` over outputs).
    noise : array of shape (V, V)
        Omega, covariance of the outputs.
    objective_path : array of shape (n_iter + 1,)
        Minus the penalised log evidence; never increases.
    """

    active: Codes
    alpha: Array
    mean: Array
    covariance: Array
    noise: Array
    objective_path: Array
    n_iter: int
    converged: bool


def published_start(responses: Array, weight: Array | None = None) -> Array:
    """Return a tenth of the responses' covariance, singular for one-hot responses."""
    return 0.1 * np.atleast_2d(
        np.cov(responses, rowvar=False, bias=True, aweights=weight)
    )


def solve_morvr(
    design: Array,
    responses: Array,
    shrinkage: float = 1e-2,
    noise: Array | None = None,
    weight: Array | None = None,
    tol: float = 1e-5,
    max_iter: int = 10_000,
) -> MORVRSolution:
    r"""Minimise -log p(Y | alpha, Omega) - log p(Omega) over precisions and noise.

    The model is Y = Phi W + E with E ~ MN(0, I, Omega) and W ~ MN(0, diag(alpha)^-1,
    Omega), so Y ~ MN(0, C, Omega) with C = I + Phi diag(alpha)^-1 Phi'. Every iteration
    makes the one change (add, re-estimate or delete a basis) that raises the evidence
    most, then sets Omega = (Y'C^-1 Y + Psi) / (N + 2 V), the exact maximiser. The prior
    is log p(Omega) = -V log|Omega| - tr(Psi Omega^-1) / 2 with Psi = ``shrinkage`` *
    diag(Y'Y): inverse Wishart, though improper. It keeps Omega away from the singular
    matrix that one-hot responses lead to. And it breaks the tie between "all signal"
    and "all noise" in which the evidence of one row per output ends.

    Parameters
    ----------
    design : array of shape (N, B)
        Phi, for example a column of ones beside the kernel matrix.
    responses : array of shape (N, V)
    shrinkage : float, default=1e-2
        Strength of the guard: the share of noise that is assumed beforehand. 0: no
        prior, with a pseudo-inverse of a singular Omega, for which the evidence is no
        longer sure to rise.
    noise : array of shape (V, V), default=None
        Omega to start from. None: :func:`published_start` plus the guard.
    weight : array of shape (N,), default=None
        Integer weights act as repeated rows. None: ones. Positive weights below a
        millionth of the largest count as that.
    tol : float, default=1e-5
        Stop when the best change gains less log evidence than this per entry of
        ``responses``.
    max_iter : int, default=10_000

    Returns
    -------
    MORVRSolution
    """
    weight = np.ones(len(responses)) if weight is None else resolved_weight(weight)
    root = np.sqrt(weight)[:, None]
    n_rows = float(weight.sum())
    start = published_start(responses, weight) if noise is None else noise
    guard = shrinkage * np.diag(np.square(root * responses).sum(axis=0))
    state = _Evidence(root * design, root * responses, guard, n_rows)
    state.set_noise(start + guard / n_rows if noise is None else start)
    path = [state.objective()]
    converged = False
    while not converged and len(path) <= max_iter:
        path.append(state.improve(tol))
        converged = bool(path[-2] - path[-1] <= state.enough(tol))
    state.refresh()
    return MORVRSolution(
        active=state.active,
        alpha=state.alpha[state.active],
        mean=state.mean,
        covariance=state.covariance,
        noise=state.noise,
        objective_path=np.array(path),
        n_iter=len(path) - 1,
        converged=converged,
    )


def best_precisions(
    sparsity: Array, quality: Array, alpha: Array, n_outputs: int
) -> tuple[Array, Array]:
    """Best precision of every basis, the others fixed, and the log evidence it gains.

    Parameters
    ----------
    sparsity : array of shape (B,)
        s_i = phi_i'C_{-i}^-1 phi_i, with basis i itself taken out of C.
    quality : array of shape (B,)
        q_i Omega^-1 q_i', q_i = phi_i'C_{-i}^-1 Y.
    alpha : array of shape (B,)
        Current precisions; infinite outside the model.
    n_outputs : int

    Returns
    -------
    alpha, gain : arrays of shape (B,)
    """
    surplus = quality / n_outputs - sparsity
    # A basis that would enter with less than this may as well stay out.
    relevant = surplus > 1e-10 * sparsity
    best = np.full_like(alpha, np.inf)
    # Below the floor float64 cannot tell precisions apart.
    ratio = sparsity[relevant] / surplus[relevant]
    best[relevant] = sparsity[relevant] * np.maximum(ratio, 1e-12)

    def log_evidence(precision: Array) -> Array:
        """As a function of one precision; zero when the basis is out."""
        share = 1.0 / (precision + sparsity)
        return (quality * share - n_outputs * np.log1p(sparsity / precision)) / 2

    return best, log_evidence(best) - log_evidence(alpha)


class _Evidence:
    """Quantities that the evidence depends on, updated under rank-one changes of C.

    A change of one precision is a rank-one change of C, and phi_i'C^-1 phi_i,
    phi_i'C^-1 Y and Y'C^-1 Y follow it: O(B (M + V^2)) per iteration for B bases once
    Phi'Phi is known.
    """

    def __init__(
        self, design: Array, responses: Array, guard: Array, n_rows: float
    ) -> None:
        self.gram = design.T @ design
        self.moments = design.T @ responses
        self.total = responses.T @ responses
        self.n_rows = n_rows
        # The prior counts as two more rows per output.
        self.n_noise_rows = n_rows + (2 * len(guard) if guard.any() else 0)
        self.guard = guard
        self.alpha = np.full(design.shape[1], np.inf)
        self.buffer = np.empty_like(self.gram)  # Rows of the active bases lead.
        self.refresh()

    def refresh(self) -> None:
        """Recompute everything from the precisions, shedding accumulated round-off."""
        self.changes = 0
        active = np.flatnonzero(np.isfinite(self.alpha))
        self.active = active
        alpha = self.alpha[active]
        moments = self.moments[active]
        rows = self.buffer[: len(active)]
        rows[:] = self.gram[active]
        precision = rows[:, active] + np.diag(alpha)
        factor = precision
        self.covariance = precision
        if len(active):
            factor = cho_factor(precision, lower=True)[0]
            self.covariance = cho_solve((factor, True), np.eye(len(active)))
        half = self.covariance @ rows
        explained = np.einsum("ij,ij->j", rows, half)
        self.mean = self.covariance @ moments
        self.inner = self.gram.diagonal() - explained
        self.outer = self.moments - rows.T @ self.mean
        self.scatter = self.total - moments.T @ self.mean
        log_det_precision = 2 * np.log(np.diag(factor)).sum()
        self.log_det = log_det_precision - np.log(alpha).sum()

    def set_noise(self, noise: Array) -> None:
        """Set Omega and whiten outputs with it, without directions it does not span."""
        values, vectors = eigh((noise + noise.T) / 2)
        span = values > 1e-12 * values[-1]
        self.noise = noise
        self.whitener = vectors[:, span] / np.sqrt(values[span])
        self.log_det_noise = float(np.log(values[span]).sum())

    def enough(self, tol: float) -> float:
        """Gain of log evidence at which to stop."""
        return tol * self.n_noise_rows * len(self.guard)

    def improve(self, tol: float) -> float:
        """Make the best change of a precision, then of the noise; the new objective."""
        sparsity, quality = self.statistics()
        n_outputs = len(self.guard)
        alpha, gain = best_precisions(sparsity, quality, self.alpha, n_outputs)
        # Between twins, re-estimating the one that is in gains as much as adding the
        # other.
        is_new = np.isinf(self.alpha)
        best = int(np.where(is_new, (1 - 1e-6) * gain, gain).argmax())
        if gain[best] > self.enough(tol):
            self.set_precision(best, float(alpha[best]))
        self.set_noise((self.scatter + self.guard) / self.n_noise_rows)
        return self.objective()

    def objective(self) -> float:
        """Minus the penalised log evidence."""
        n_outputs = len(self.noise)
        scatter = self.scatter + self.guard
        misfit = np.vdot(self.whitener, scatter @ self.whitener)
        log_dets = n_outputs * self.log_det + self.n_noise_rows * self.log_det_noise
        constant = self.n_rows * n_outputs * np.log(2 * np.pi)
        return float(log_dets + misfit + constant) / 2

    def statistics(self) -> tuple[Array, Array]:
        """Sparsity and quality of every basis, taken out of C."""
        sparsity = np.maximum(self.inner, _REDUNDANT * self.gram.diagonal())
        quality = np.square(self.outer @ self.whitener).sum(axis=1)
        # A basis that the active ones nearly span has nothing of its own to offer.
        quality[self.inner < sparsity] = 0.0
        # For active bases, without the cancellation of alpha - inner.
        variance = self.covariance.diagonal()
        alpha = self.alpha[self.active]
        sparsity[self.active] = np.maximum(1.0 / variance - alpha, 0.0)
        quality[self.active] /= np.square(alpha * variance)
        return sparsity, quality

    def set_precision(self, basis: int, precision: float) -> None:
        """Change one precision: finite to add or re-estimate, infinite to delete."""
        previous = self.alpha[basis]
        self.alpha[basis] = precision
        self.changes += 1
        if self.changes == 250:
            self.refresh()
            return
        rows = self.buffer[: len(self.active)]
        if np.isinf(previous):
            half = self.covariance @ rows[:, basis]
            cross = self.gram[basis] - half @ rows
            factor = 1.0 / (precision + self.inner[basis])
            growth = 1.0 + self.inner[basis] / precision
            column = np.append(-half, 1.0)
            padded = np.pad(self.covariance, (0, 1))
            self.covariance = _add_outer(padded, factor, column)
            self.buffer[len(self.active)] = self.gram[basis]
            self.active = np.append(self.active, basis)
        else:
            at = int(np.flatnonzero(self.active == basis)[0])
            column = self.covariance[at].copy()
            cross = previous * (column @ rows)
            # |C_new| / |C| for C_new = C + (1 / precision - 1 / previous) phi phi'.
            growth = previous * column[at] + self.inner[basis] / precision
            factor = (1.0 / precision - 1.0 / previous) / growth
            self.covariance = _add_outer(self.covariance, factor * previous**2, column)
            if np.isinf(precision):
                keep = np.arange(len(self.active)) != at
                self.covariance = self.covariance[np.ix_(keep, keep)]
                self.active = self.active[keep]
                size = len(self.active)
                self.buffer[at:size] = self.buffer[at + 1 : size + 1]
        projection = self.outer[basis].copy()
        self.inner -= factor * cross**2
        self.outer -= factor * np.outer(cross, projection)
        self.scatter = self.scatter - factor * np.outer(projection, projection)
        self.log_det += np.log(growth)


def _add_outer(matrix: Array, factor: float, vector: Array) -> Array:
    """Matrix + factor * vector vector', in the memory of a C-ordered matrix."""
    return dger(factor, vector, vector, a=matrix.T, overwrite_a=True).T
