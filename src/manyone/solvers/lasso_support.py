"""The penalty of the sparse group lasso, and its exact minimiser on a support.

A duality gap of g leaves fitted values wrong by sqrt(g): a gap of 1e-10 is five digits.
On the right support with the right signs the objective is smooth, and Newton steps find
its minimiser to rounding.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv

from manyone._types import Array, Codes, Mask

TINY = 1e-300


def soft(V: Array, threshold: Array | float) -> Array:
    """Shrink every entry towards zero by ``threshold``."""
    return V - np.clip(V, -threshold, threshold)


class Penalty(NamedTuple):
    """``l1 |B|_1 + group sum |block|_2`` with the rows of B sorted by source.

    Attributes
    ----------
    l1 : array of shape (p, 1)
    group : float
    sizes : array of shape (S,)
        Number of rows of each source.
    """

    l1: Array
    group: float
    sizes: Codes

    @property
    def label(self) -> Codes:
        """Source of each row, (p,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def blocks(self, terms: Array) -> Array:
        """Sums over the rows of each source, (S, T)."""
        return np.add.reduceat(terms, np.cumsum(self.sizes) - self.sizes, axis=0)

    def spread(self, per_block: Array) -> Array:
        """The value of its block for every row, (p, T)."""
        return np.repeat(per_block, self.sizes, axis=0)

    def values(self, B: Array) -> Array:
        """Penalty of each output, (T,)."""
        entries = (self.l1 * np.abs(B)).sum(axis=0)
        return entries + self.group * np.sqrt(self.blocks(B**2)).sum(axis=0)

    def prox(self, V: Array, step: float = 1.0) -> tuple[Array, Array, Array]:
        """Proximal point of V, unit vectors of its blocks, their remaining lengths."""
        shrunk = soft(V, step * self.l1)
        lengths = np.sqrt(self.blocks(shrunk**2))
        lengths = np.maximum(lengths, TINY)
        remaining = np.maximum(1.0 - step * self.group / lengths, 0.0)
        unit_vectors = shrunk / self.spread(lengths)
        return shrunk * self.spread(remaining), unit_vectors, remaining


def finish(
    gram: Array,
    moments: Array,
    penalty: Penalty,
    B: Array,
    outputs: Codes,
    rounds: int = 6,
) -> Mask:
    """Solve outputs exactly, in place, from where they are; True where that worked.

    Rounds of one proximal gradient step, which corrects the support, and Newton steps
    on it; an output is done when a proximal step moves it by no more than rounding.

    Parameters
    ----------
    gram : array of shape (p, p)
        J'J.
    moments : array of shape (p, T)
        2 J'R.
    penalty : Penalty
    B : array of shape (p, T)
    outputs : array of shape (k,)
        Columns of B to solve.
    rounds : int

    Returns
    -------
    array of shape (k,)
    """
    done = np.zeros(len(outputs), dtype=bool)
    step = 0.5 / max(float(np.abs(gram).sum(axis=0).max()), TINY)
    # Rounding of a slope, beside its largest value at zero.
    enough = 1e-12 * step * np.maximum(np.abs(moments).max(axis=0), TINY)
    X = B[:, outputs]
    for _ in range(rounds):
        todo = np.flatnonzero(~done)
        here = outputs[todo]
        slope = 2.0 * gram @ X[:, todo] - moments[:, here]
        moved = penalty.prox(X[:, todo] - step * slope, step)[0]
        still = np.abs(moved - X[:, todo]).max(axis=0, initial=0.0) <= enough[here]
        done[todo[still]] = True
        for t in np.flatnonzero(~still):
            X[:, todo[t]] = _newton(gram, moments[:, here[t]], penalty, moved[:, t])
        if done.all():
            break
    B[:, outputs[done]] = X[:, done]
    return done


def _newton(
    gram: Array, moments: Array, penalty: Penalty, x: Array, steps: int = 8
) -> Array:
    """Newton steps for one output on the support of x (p,), less what changes sign."""
    x = x.copy()
    label = penalty.label
    for _ in range(steps):
        entries = np.flatnonzero(x)
        if not len(entries):
            break
        source = label[entries]
        here = x[entries]
        signs = np.sign(here)
        same = source[:, None] == source
        norm = np.sqrt(same @ here**2)
        pull = penalty.group / norm
        block = 2.0 * gram[entries[:, None], entries]
        slope = block @ here - moments[entries]
        slope = slope + penalty.l1[entries, 0] * signs + pull * here
        block -= np.where(same, (pull / norm**2 * here)[:, None] * here, 0.0)
        diagonal = np.einsum("ii->i", block)
        diagonal += pull
        diagonal += 1e-14 * diagonal.max()  # copies of a row leave a flat direction
        _, move, info = dposv(block.T, slope, overwrite_a=1)
        if info:
            break
        new = here - move
        x[entries] = np.where(np.sign(new) == signs, new, 0.0)
        if np.abs(move).max() <= 1e-9 * np.abs(here).max():
            break  # the next step would be rounding
    return x
