r"""Evidence that rows have changed: conformal test martingales, one for each task.

Let :math:`p_n` be the smoothed rank of the n-th score among those before it. As long as
rows are exchangeable the ranks are independent and uniform on (0, 1). So the wealth of
a player who bets on them at fair odds,

.. math:: M_n = M_{n-1} \sum_k \pi_{n,k} f_k(p_n), \qquad \int_0^1 f_k = 1,

is a martingale, and by Ville's inequality it *ever* exceeds :math:`1/\delta` with
probability at most :math:`\delta`. Two bets :math:`f_k` pay for low ranks (rows less
normal than before), one for high ranks, and one keeps the money. Their shares
:math:`\pi` grow with what they have paid. At every step a little is moved back to all
bets, so that the player also notices a change after a long quiet time.

Where rows resemble the row before, low ranks come in runs although nothing changes, and
the wealth would grow. So a row counts for :math:`c_n = (1 - r)/(1 + r)` of a row:
:math:`f_k` is replaced by :math:`f_k^{c_n}`. Here r is about the correlation of
neighbouring ranks so far, and at first that of left-out scores in time. As
:math:`c_n \le 1` is fixed before the rank comes, no bet is better than fair (Jensen),
and Ville's inequality holds. Where rows are independent, r soon is about 0.
"""

from __future__ import annotations

import numpy as np

from manyone._types import Array, Codes, Labels
from manyone.data.hashing import STEP, mixed

# First shares of the bets: none, on low ranks mildly and strongly, on high ranks.
_PRIOR = np.array([0.4, 0.2, 0.3, 0.1])
# Share of the wealth that is spread over all bets by `_PRIOR` at every step.
_MOVED = 0.005
# Ranks below this are low.
_LOW = 1.0 / 3.0
# A row counts for at least this. After a change all ranks are low, which must not be
# taken for mere likeness of neighbours.
_LEAST = 0.1
# Pairs of neighbours that the correlation of training rows counts for.
_FIRST_PAIRS = 20.0
#: Most scores that ranks are taken among. A new history begins then, and the wealth
#: stays.
LONGEST = 1000
BETS = len(_PRIOR)


def bets(p: Array) -> Array:
    """What each bet (..., B) pays at ranks p (...): densities on (0, 1)."""
    paid = np.empty((*p.shape, BETS))
    paid[..., 0] = 1.0
    paid[..., 1] = 2.0 - 2.0 * p
    paid[..., 2] = 0.5 / np.sqrt(p)
    paid[..., 3] = 2.0 * p
    return paid


def fresh_shares() -> Array:
    """Shares of the wealth before the first bet, shape (B,)."""
    return _PRIOR.copy()


def uniforms(codes: Codes, counts: Codes) -> Array:
    """Uniform numbers in (0, 1), shape (k,), which depend on task and count only.

    They are hashes (splitmix64), not draws of a generator. So it does not matter how
    rows are batched, in which order tasks come, or where a run was resumed.
    """
    x = mixed(codes.astype(np.uint64) + np.uint64(STEP))
    x = mixed((x ^ counts.astype(np.uint64)) + np.uint64(STEP))
    return ((x >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52


def smoothed_ranks(history: Labels, scores: Labels, u: Array) -> Array:
    """Rank of each score among those before it and itself, ties broken at random.

    Parameters
    ----------
    history : ndarray of shape (k, h)
        Scores of the same task before, NaN where there are fewer.
    scores : ndarray of shape (k,)
    u : ndarray of shape (k,)
        Uniform in (0, 1).

    Returns
    -------
    ndarray of shape (k,)
        Independent and uniform on (0, 1) as long as scores of a task are exchangeable.
    """
    below = np.count_nonzero(history < scores[:, None], axis=1)
    equal = np.count_nonzero(history == scores[:, None], axis=1)
    counts = np.count_nonzero(~np.isnan(history), axis=1)
    return (below + u * (equal + 1.0)) / (counts + 1.0)


def marks(p: Array) -> Array:
    """Marks (k,) of low ranks, with mean 0 and variance 1 if ranks are uniform."""
    return ((p < _LOW) - _LOW) / np.sqrt(_LOW * (1.0 - _LOW))


def first_neighbours(counted: Array) -> Array:
    """First sums of products of neighbouring marks, and numbers of pairs, (T, 2).

    With them the first row of a task counts for `counted` (T,), as its training rows
    do.
    """
    count = np.clip(counted, _LEAST, 1.0)
    product = np.arcsin((1.0 - count) / (1.0 + count)) / (0.5 * np.pi)
    pairs = np.full(len(count), _FIRST_PAIRS)
    return np.column_stack([pairs * product, pairs])


def weights_of_rows(neighbours: Array) -> Array:
    """What the next row of each task counts for (k,), from sums and numbers (k, 2)."""
    r = np.sin(0.5 * np.pi * np.clip(neighbours[:, 0] / neighbours[:, 1], 0.0, 1.0))
    weight: Array = np.maximum((1.0 - r) / (1.0 + r), _LEAST)
    return weight


def bet(
    log_wealth: Array, shares: Array, p: Array, count: Array
) -> tuple[Array, Array]:
    """Return the wealth and its shares after one more rank.

    Parameters
    ----------
    log_wealth, p : ndarray of shape (...)
    shares : ndarray of shape (..., B)
        They sum to 1.
    count : ndarray that broadcasts with p
        What the row counts for, from 0 to 1.

    Returns
    -------
    log_wealth : ndarray of shape (...)
    shares : ndarray of shape (..., B)
    """
    grown = ((1.0 - _MOVED) * shares + _MOVED * _PRIOR) * bets(p) ** count[..., None]
    gain = grown.sum(axis=-1)
    return log_wealth + np.log(gain), grown / gain[..., None]


def log_mean_wealth(log_wealth: Array) -> float:
    """Log of the mean wealth over tasks, which is a martingale of the fleet."""
    most = float(log_wealth.max())
    if most == -np.inf:
        return most
    return most + float(np.log(np.mean(np.exp(log_wealth - most))))
