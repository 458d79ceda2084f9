"""A metric shared by all tasks: whitening with the pooled within-task covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from manyone._types import Array, Codes
from manyone.routing import RoutingState
from manyone.rows import check_weight, encode, one_per_row, split_columns


@dataclass(kw_only=True, eq=False, repr=False)
class TaskWhitener(RoutingState, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Whiten rows with the shrunk pooled within-task covariance.

    Directions in which rows of one task differ among themselves are shrunk, the others kept: with
    :math:`S` the covariance of the rows about their task means, rows are multiplied by
    :math:`((1-\rho) S + \rho \mu I)^{-1/2}`, :math:`\mu = \operatorname{tr} S / d`.

    Parameters
    ----------
    shrinkage : float or "auto", default="auto"
        rho in [0, 1]. ``"auto"`` is the Ledoit-Wolf estimate.

    Attributes
    ----------
    shrinkage_ : float
        The rho used.
    basis_ : ndarray of shape (r, d)
        Orthonormal directions of the within-task scatter.
    stretch_ : ndarray of shape (r,)
        Factor for each direction, relative to `floor_`.
    floor_ : float
        Factor for every direction orthogonal to the basis.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    A whitener has seen the rows it was fitted on: leave-one-out scores of a model on top of it are
    far too good. Refit it inside each fold, as ``metric="whitened"`` of the estimators does.

    Costs O(n d min(n, d)): the smaller of the d x d covariance and the n x n Gram matrix of the
    centred rows is decomposed, so either may be large.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import TaskWhitener
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["a", "b"], 50)
    >>> X = rng.normal(size=(100, 2)) * [1.0, 10.0]
    >>> Z = TaskWhitener(shrinkage=0.0).fit_transform(X, task=task)
    >>> np.allclose(np.cov(Z[:50].T) + np.cov(Z[50:].T), 2 * np.eye(2), atol=0.7)
    True
    """

    shrinkage: float | str = "auto"

    def fit(self, X: Any, y: Any = None, *, task: Any = None, sample_weight: Any = None) -> Self:
        """Estimate the within-task covariance.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        y : ignored
        task : array-like of shape (n,), or the name of a column of `X`, or None for a single task
        sample_weight : array-like of shape (n,) or None
            Counts.

        Returns
        -------
        self
        """
        X, task = split_columns(X, task=task)
        X = validate_data(self, X, dtype=np.float64)
        rho = self.shrinkage
        if rho != "auto" and not (isinstance(rho, int | float) and 0 <= rho <= 1):
            raise ValueError(f'shrinkage must be "auto" or a number in [0, 1]; got {rho!r}.')
        labels = np.zeros(len(X)) if task is None else one_per_row("task", task, len(X))
        codes = encode(labels)[1]
        weight = np.ones(len(X)) if sample_weight is None else check_weight(sample_weight, X)
        kept = (codes >= 0) & (weight > 0)
        with np.errstate(under="ignore"):
            return self.fit_codes(X[kept], codes[kept], weight[kept])

    def fit_codes(self, X: Array, codes: Codes, weight: Array) -> Self:
        """Estimate the covariance of rows (n, d) that were checked, tasks given by number (n,)."""
        self.n_features_in_ = X.shape[1]
        counts = np.bincount(codes, weight)
        sums = np.zeros((len(counts), X.shape[1]))
        np.add.at(sums, codes, weight[:, None] * X)
        centred = X - (sums / np.where(counts > 0, counts, 1.0)[:, None])[codes]
        scale = np.abs(centred).max(initial=0.0)
        if scale == 0.0:
            # No task varies: there is no metric to learn, every direction counts the same.
            self.shrinkage_, self.floor_ = 1.0, 1.0
            self.basis_, self.stretch_ = np.zeros((0, X.shape[1])), np.zeros(0)
            return self
        centred /= scale
        total = weight.sum()
        norms = np.einsum("ij,ij->i", centred, centred)
        fourth = float(weight @ norms**2) / total
        centred *= np.sqrt(weight)[:, None]
        wide = centred.shape[1] > len(centred)
        values, vectors = eigh((centred @ centred.T if wide else centred.T @ centred) / total)
        kept = values > max(centred.shape) * np.finfo(float).eps * values[-1]
        values, vectors = values[kept], vectors[:, kept]
        self.basis_ = vectors.T
        if wide:
            self.basis_ = (vectors.T @ centred) / np.sqrt(values * total)[:, None]
        d = X.shape[1]
        mu = values.sum() / d
        if self.shrinkage == "auto":
            # Ledoit and Wolf: from the eigenvalues and the mean fourth power of the norms.
            square = float(values @ values)
            distance = square - values.sum() ** 2 / d
            noise = (fourth - square) / total
            self.shrinkage_ = float(np.clip(noise / distance, 0.0, 1.0)) if distance > 0 else 1.0
        else:
            self.shrinkage_ = float(self.shrinkage)
        # Without any shrinkage, directions that no task varies in have no finite factor.
        ridge = max(self.shrinkage_ * mu, np.finfo(float).eps * values[-1])
        # With a complete basis no other direction needs a factor: take one that cancels nothing.
        elsewhere = values[-1] if len(values) == d else ridge
        self.floor_ = float(1.0 / (scale * np.sqrt(elsewhere)))
        deviation = scale * np.sqrt((1 - self.shrinkage_) * values + ridge)
        self.stretch_ = 1.0 / deviation - self.floor_
        return self

    def transform(self, X: Any) -> Array:
        """Whiten rows.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, d)
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        with np.errstate(under="ignore"):
            return self.floor_ * X + ((X @ self.basis_.T) * self.stretch_) @ self.basis_

    def inverse_transform(self, X: Any) -> Array:
        """Undo `transform`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Whitened rows.

        Returns
        -------
        ndarray of shape (n, d)
        """
        check_is_fitted(self)
        X = check_array(X, dtype=np.float64)
        stretch = 1.0 / (self.floor_ + self.stretch_) - 1.0 / self.floor_
        return X / self.floor_ + ((X @ self.basis_.T) * stretch) @ self.basis_

    def fit_transform(
        self, X: Any, y: Any = None, *, task: Any = None, sample_weight: Any = None
    ) -> Array:
        """Fit, then whiten the same rows (see `fit` and `transform`)."""
        self.fit(X, y, task=task, sample_weight=sample_weight)
        return self.transform(split_columns(X, task=task)[0])
