"""Rows far from everything: what no function of kernel values can tell from rows of another task.

Kernel values of a row unlike anything are all 0, and so are the responses of a joint model to it:
the same as for any row of another task. So presence is asked of the rows themselves, in the
distance behind the kernel, whatever its width: how far is the nearest training row, beside what is
usual among the training rows?
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from manyone._types import Array, Codes, Rows
from manyone.groups import cannot_vouch
from manyone.kernels.gram import Points
from manyone.kernels.kernel import DISTANCES, MIXTURE, Kernel, resolve_kernel, row_blocks
from manyone.rows import TrainingRows, group_rows

# Rows of a set that stand for all, and the share of rows whose distance is usual.
_MOST_POINTS, _USUAL = 256, 0.99
# In usual distances: beyond the first a training row is taken for a mistake, which new rows may not
# hide behind, and beyond the second all rows are equally far away.
_MISTAKE, _FARTHEST = 1.5, 4.0
# Beyond so many numbers a product of matrices is faster than differences one by one.
_MANY = 2**13


@dataclass(frozen=True, eq=False)
class Presence:
    """Scores are lowered by ``unit * max(0, u / limit - 1)``, u the distance to the nearest point.

    Tasks that are learned together share their points, others have their own: there are G sets of
    points, one or T.

    Parameters
    ----------
    points : Points
        Training rows, set by set.
    starts : ndarray of shape (G + 1,)
        Where the points of each set start.
    limit : ndarray of shape (G,)
        Distance that nearly all training rows keep to their neighbours; infinite where there is
        nothing to tell it from.
    unit : ndarray of shape (G,)
        Of the scores.
    """

    points: Points
    starts: Codes
    limit: Array
    unit: Array

    def own(self, X: Rows, codes: Codes) -> Array:
        """What the scores of rows (n, d) against their own task are lowered by, shape (n,)."""
        if len(self.limit) == 1:
            return self.all(X)[:, 0]
        ratio = np.empty(X.shape[0])
        order, begins = group_rows(codes, len(self.limit))
        for task in np.flatnonzero(np.diff(begins)):
            rows = order[begins[task] : begins[task + 1]]
            own = slice(self.starts[task], self.starts[task + 1])
            for part in row_blocks(len(rows), 2 * (own.stop - own.start + X.shape[1])):
                nearest = distances(self.points, X[rows[part]], own).min(axis=1)
                ratio[rows[part]] = ratio_to(nearest, self.limit[task])
        return self.unit[codes] * np.clip(ratio - 1.0, 0.0, _FARTHEST - 1.0)

    def all(self, X: Rows) -> Array:
        """What scores against every task are lowered by, shape (n, G)."""
        ratio = np.empty((X.shape[0], len(self.limit)))
        for part in row_blocks(X.shape[0], 3 * (len(self.points) + X.shape[1])):
            apart = distances(self.points, X[part], slice(None))
            ratio[part] = ratio_to(np.minimum.reduceat(apart, self.starts[:-1], axis=1), self.limit)
        return self.unit * np.clip(ratio - 1.0, 0.0, _FARTHEST - 1.0)


def presence_of(
    kernel: Kernel, rows: TrainingRows, far: Array, together: bool
) -> tuple[Presence, Array]:
    """Learn what distances are usual.

    Parameters
    ----------
    kernel : Kernel
        One of a distance.
    rows : TrainingRows
    far : ndarray of shape (T,)
        Scores of rows far away, before they are lowered.
    together : bool
        Whether the tasks are learned together: a row near those of any task is then near.

    Returns
    -------
    Presence, ndarray of shape (n,)
        And what the score of each training row is lowered by when it is left out; 0 for known
        outliers.
    """
    normal = np.flatnonzero(~rows.outlier)
    codes, weight = rows.codes[normal], rows.weight[normal]
    set_of = np.zeros_like(codes) if together else codes
    points, few, starts = points_of(kernel, rows, set_of, 1 if together else rows.n_tasks)
    nearest = _nearest_others(points, rows, normal, set_of, few, starts)
    usual = Usual.of(nearest, weight, set_of, len(starts) - 1)
    ratio = ratio_to(nearest, usual.without(nearest, weight, set_of))
    typical = typical_ratios(ratio, weight, codes, rows.n_tasks)
    size = 2.0 * np.abs(far)
    unit = np.array([size.max()]) if together else size
    lowered = np.zeros(len(rows.codes))
    lowered[normal] = unit[set_of] * left_out_excess(ratio, typical[codes])
    return Presence(points, starts, usual.limit, unit), lowered


def left_out_excess(ratio: Array, typical: Array) -> Array:
    """By how much training rows that are left out are beyond what is usual (and for their task)."""
    most = np.minimum(_MISTAKE * np.maximum(1.0, typical), _FARTHEST)
    return np.clip(ratio - 1.0, 0.0, most - 1.0)


def typical_ratios(ratio: Array, weight: Array, codes: Codes, n_tasks: int) -> Array:
    """Median of each task's distances in usual ones (n,), shape (T,)."""
    return _quantiles(ratio, weight, codes, n_tasks, 0.5)


def points_of(
    kernel: Kernel, rows: TrainingRows, set_of: Codes, n_sets: int
) -> tuple[Points, Codes, Codes]:
    """Normal rows that stand for all of their set.

    Parameters
    ----------
    kernel : Kernel
    rows : TrainingRows
    set_of : ndarray of shape (m,)
        Number of the set of each of the m normal rows.
    n_sets : int

    Returns
    -------
    points : Points
        Distinct rows, set by set, evenly over the order of their content.
    few : ndarray of shape (p,)
        Their numbers among the normal rows.
    starts : ndarray of shape (n_sets + 1,)
        Where each set starts.
    """
    normal = np.flatnonzero(~rows.outlier)
    content = rows.content[normal]
    order = np.lexsort((content, set_of))
    first = np.ones(len(order), dtype=bool)
    first[1:] = (np.diff(content[order]) != 0) | (np.diff(set_of[order]) != 0)
    few = order[first]
    counts = np.bincount(set_of[few], minlength=n_sets)
    place = np.arange(len(few)) - (np.cumsum(counts) - counts)[set_of[few]]
    count = counts[set_of[few]]
    wanted = np.minimum(count, _MOST_POINTS)
    few = few[(place * wanted // count) != ((place - 1) * wanted // count)]
    starts = group_rows(set_of[few], n_sets)[1]
    if rows.columns is not None:
        return Points(kernel, np.empty((len(few), 0)), rows.columns[normal[few]]), few, starts
    name = "laplacian" if kernel.name == MIXTURE else str(kernel.name)
    scaled = resolve_kernel(name, rows.X[normal], gamma=1.0)
    return Points(scaled, rows.X[normal[few]]), few, starts


@dataclass(frozen=True, eq=False)
class Usual:
    """Distances that are usual in each of G sets of rows.

    Parameters
    ----------
    ascending, mass : ndarray of shape (n,)
        Distances, ascending in each set, and their weights, summed up over all sets.
    starts : ndarray of shape (G + 1,)
        Where each set starts.
    limit : ndarray of shape (G,)
        What nearly all of its distances do not exceed.
    """

    ascending: Array
    mass: Array
    starts: Codes
    limit: Array

    @classmethod
    def of(cls, nearest: Array, weight: Array, set_of: Codes, n_sets: int) -> Usual:
        """Of distances, weights and sets of rows (n,)."""
        order = np.lexsort((nearest, set_of))
        limit = _quantiles(nearest, weight, set_of, n_sets, _USUAL)
        starts = group_rows(set_of, n_sets)[1]
        return cls(nearest[order], np.cumsum(weight[order]), starts, limit)

    def without(self, nearest: Array, weight: Array, set_of: Codes) -> Array:
        """What is usual among the other rows of its set, for each row (n,).

        That their distances may grow without the row is neglected, to the safe side.
        """
        one = np.minimum(weight, 1.0)
        sums = np.concatenate([[0.0], self.mass])[self.starts]
        before, total = sums[:-1][set_of], np.diff(sums)[set_of]
        wanted = before + _USUAL * (1.0 - 1e-12) * (total - one)
        found = np.searchsorted(self.mass, wanted)
        # Reached below the row, or else it has to be reached without it.
        last = np.minimum(found, len(self.mass) - 1)
        beyond = np.searchsorted(self.mass, wanted + one)
        found = np.where(self.ascending[last] < nearest, found, beyond)
        others = self.ascending[np.minimum(found, len(self.mass) - 1)]
        return np.where(total > one, others, np.inf)


def distances(points: Points, X: Rows, part: slice) -> Array:
    """Distances (m, p) of rows (m, d) to some of the points; squared where the kernel's are."""
    with np.errstate(all="ignore"):
        if points.columns is not None:
            apart = -np.log(np.maximum(points.values(X, part), 0.0))
        else:
            apart = _distances(points.kernel, X, points.side.rows[part])
    return np.where(np.isnan(apart), np.inf, apart)  # differences that overflow


def _distances(kernel: Kernel, X: Rows, Y: Rows) -> Array:
    metric = DISTANCES[str(kernel.name)]
    if sparse.issparse(Y) or metric == "chi2":
        from sklearn.metrics import pairwise as far_apart  # slow to import, and rarely needed

        X = X if sparse.issparse(X) == sparse.issparse(Y) else _held_as(Y, X)
        if metric == "sqeuclidean":
            return np.asarray(far_apart.euclidean_distances(X, Y, squared=True))
        if metric == "cityblock":
            return np.asarray(far_apart.manhattan_distances(X, Y))
        return -np.asarray(far_apart.additive_chi2_kernel(X, Y))
    X = kernel.scaled(X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=np.float64))
    if metric == "sqeuclidean" and Y.size > _MANY:
        apart = X @ (-2.0 * Y.T)
        apart += np.einsum("ij,ij->i", X, X)[:, None]
        apart += np.einsum("ij,ij->i", Y, Y)
        return np.maximum(apart, 0.0)
    return cdist(X, Y, "sqeuclidean" if metric == "sqeuclidean" else "cityblock")


def _held_as(Y: Rows, X: Rows) -> Rows:
    return sparse.csr_array(X) if sparse.issparse(Y) else X.toarray()


def _nearest_others(
    points: Points, rows: TrainingRows, normal: Codes, set_of: Codes, few: Codes, starts: Codes
) -> Array:
    """Distance of each normal row to the nearest other point of its set, shape (n,)."""
    nearest, content = np.empty(len(normal)), rows.content[normal]
    if points.columns is not None:  # training rows bring their values in the order of the rows
        points = replace(points, columns=normal[few])
    order, begins = group_rows(set_of, len(starts) - 1)
    for g in range(len(starts) - 1):
        members, own = order[begins[g] : begins[g + 1]], slice(starts[g], starts[g + 1])
        for part in row_blocks(len(members), 4 * (own.stop - own.start) + 2 * rows.X.shape[1]):
            these = members[part]
            apart = distances(points, rows.X[normal[these]], own)
            # A row and its copies cannot vouch for themselves, nor can rows that leave with it.
            apart[content[these][:, None] == content[few[own]]] = np.inf
            if rows.group is not None:
                apart[cannot_vouch(rows, normal[these], normal[few[own]])] = np.inf
            nearest[these] = apart.min(axis=1)
    return nearest


def _quantiles(values: Array, weight: Array, set_of: Codes, n_sets: int, share: float) -> Array:
    """Value of each set that a share of its weight does not exceed, shape (G,)."""
    order = np.lexsort((values, set_of))
    totals = np.bincount(set_of, weight, n_sets)
    wanted = np.cumsum(totals) - totals + share * (1.0 - 1e-12) * totals
    found = np.searchsorted(np.cumsum(weight[order]), wanted)
    return values[order][np.minimum(found, len(order) - 1)]


def ratio_to(nearest: Array, limit: Array | float) -> Array:
    """Distances in usual ones; 0 where there is none, or none but 0, to tell them from."""
    known = np.isfinite(limit) & (np.asarray(limit) > 0)
    return np.where(known, nearest / np.where(known, limit, 1.0), 0.0)
