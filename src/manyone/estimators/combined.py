"""Several detectors, one alarm."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from manyone._sklearn import BaseComposition, Constraints, VisualBlock
from manyone._types import Array, Labels
from manyone.calibration.copies import seen_scores
from manyone.calibration.tails import Tails
from manyone.capabilities import Capabilities
from manyone.data.rows import Remake, TrainingRows
from manyone.estimators.base import MultiTaskOneClass, OneClassEstimator
from manyone.estimators.independent import IndependentOCKSR
from manyone.estimators.landmarks import LandmarkOneClass
from manyone.estimators.nonlinear import NonlinearOCKSR
from manyone.fitting.sources import by_blocks
from manyone.messages import CalibrationWarning
from manyone.models.combined import (
    CombinedScorer,
    Tail,
    combined_scorer,
    weight_of,
)
from manyone.models.solution import Solution

#: Fitted views by name.
Views = dict[str, MultiTaskOneClass]


@dataclass(eq=False, repr=False)
class CombinedOneClass(OneClassEstimator, BaseComposition):
    r"""Combine several detectors, the views, to one alarm at the rate asked for.

    Every view is fitted to all rows. Its tail value of a row is
    :math:`z = -\log P(\text{a normal row scores lower})`. It comes from the left-out
    scores of all training rows, on one scale for all tasks. The score of a row is minus
    the weighted sum of its tail values. Thresholds come from the combined left-out
    scores.

    Use it where strangers *and* faults may come. The sum loses little against the
    better view. If a view cannot see a kind of anomaly, its values of such rows are
    about the same. If it cannot tell new rows apart at all, its weight is small.

    Parameters
    ----------
    estimators : list of (str, estimator) or None
        Views of this package, by name. None: ``"strangers"``, a
        :class:`NonlinearOCKSR`, and ``"faults"``, an :class:`IndependentOCKSR` with
        ``metric="adaptive"`` and a wide Laplacian kernel.
    weights : list of float or None
        One for each view. None: 1, or ``10 (1 - m)`` where that is less. Here m is the
        median score of left-out rows, in units of the score of a row far away. If it is
        near 1, all new rows look far away to the view, which tells them apart by chance
        only. The largest weight is made 1.
    alarm_rate : float or None, default=0.05
        Share of normal rows that may raise an alarm, on average over tasks. None: no
        thresholds are set.
    task_rate_limit : float or None
        Largest share of normal rows of a single task that may raise an alarm, on
        average; never below 1/(n + 1) for n rows. None: three times `alarm_rate`. 1.0:
        no limit.

    Attributes
    ----------
    views_ : dict of str to estimator
        The fitted views.
    weights_ : ndarray of shape (V,)
        What each view counts for.
    tasks_ : ndarray of shape (T,)
        Labels, sorted.
    offset_ : ndarray of shape (T,)
        Threshold on the score of each task.
    alarm_rate_ : ndarray of shape (T,)
        Rate promised for each task (larger than `alarm_rate` only if a warning said
        so).
    calibration_ : Calibration
        The combined left-out scores behind thresholds and p-values.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    manyone.auto : Chooses and tunes the views.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import CombinedOneClass
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["pump", "fan"], 30)
    >>> X = rng.normal(size=(60, 2)) + 3.0 * (task == "fan")[:, None]
    >>> model = CombinedOneClass(alarm_rate=0.1).fit(X, task=task)
    >>> model.predict([[0.0, 0.0], [0.0, 0.0], [9.0, 9.0]], task=["pump", "fan", "fan"])
    array([ 1, -1, -1])
    >>> model.view_scores([[0.0, 0.0]], task=["fan"]).shape
    (1, 2)
    """

    can: ClassVar[Capabilities] = Capabilities()
    _parameter_constraints: ClassVar[Constraints] = {
        **OneClassEstimator._parameter_constraints,
        "estimators": [list, tuple, None],
        "weights": ["array-like", None],
    }

    estimators: list[tuple[str, MultiTaskOneClass]] | None = None
    _: KW_ONLY
    weights: object = None

    # -------------------------------------------------------------------------- fitting

    def _fit_rows(
        self,
        rows: TrainingRows,
        tasks: Labels,
        *,
        calibrate: bool,
        remake: Remake | None = None,
    ) -> Self:
        views: Views = {}
        scores = []
        for name, pattern in self._views():
            view = clone(pattern).set_params(
                alarm_rate=self.alarm_rate, task_rate_limit=self.task_rate_limit
            )
            views[name] = view
            # Users are warned of the combined thresholds only.
            with warnings.catch_warnings(action="ignore", category=CalibrationWarning):
                scores.append(self._fit_view(view, rows, tasks, remake))
        training = rows if self.landmarks is None else TrainingRows.none(len(tasks))
        scorer = self._combination(views)
        combined = _combined_left_out(scorer, views, scores, rows)
        seen = seen_scores(combined, rows, scorer.own)
        sources = {view.calibration_.source for view in views.values()}
        source = " and ".join(sorted(sources))
        left_out = Tails.known(combined, rows, len(tasks), seen)
        calibration = left_out.calibration(len(tasks), source)
        self.views_ = views
        self.weights_ = scorer.weights
        solution = Solution(scorer)
        rate = self.alarm_rate if calibrate else None
        return self._become(solution, tasks, training, calibration, rate)

    def _fit_view(
        self,
        view: MultiTaskOneClass,
        rows: TrainingRows,
        tasks: Labels,
        remake: Remake | None,
    ) -> Array:
        """Fit a view to checked rows, and return their left-out scores (n,)."""
        if isinstance(view, LandmarkOneClass) and view.landmarks is not None:
            sweep = self._sweep_of_rows(rows, tasks)
            judge = view._fit_sweep(sweep, calibrate=True)
            assert judge is not None
            return judge.judged(rows)
        names = getattr(self, "feature_names_in_", None)
        view._remember_columns(self.n_features_in_, names, {})
        view._fit_rows(rows, tasks, calibrate=True, remake=remake)
        return _left_out(view, rows)

    def _combination(self, views: Views) -> CombinedScorer:
        """The scorer of fitted views: their tails and weights."""
        tails = []
        weights = []
        for view in views.values():
            far = view.solution_.scorer.far()
            of_view = view.calibration_
            tails.append(Tail.of(*of_view.pooled(), of_view.scale, far))
            weights.append(
                weight_of(of_view.scores, of_view.codes, of_view.weight, far)
            )
        relative = np.maximum(weights, 1e-6)  # equal where no view is informative
        relative /= relative.max()
        if self.weights is not None:
            relative = np.asarray(self.weights, dtype=np.float64)
        solutions = tuple(view.solution_ for view in views.values())
        return CombinedScorer(solutions, tuple(tails), relative)

    @property
    def landmarks(self) -> int | None:
        """The smallest number of landmarks of a view; None if a view has none."""
        return min(view.landmarks or 0 for _, view in self._views()) or None

    def _views(self) -> list[tuple[str, MultiTaskOneClass]]:
        """The views by name; refuses parameters that are wrong."""
        if self.estimators is None:
            faults = IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0)
            views: list[tuple[str, MultiTaskOneClass]] = [
                ("strangers", NonlinearOCKSR()),
                ("faults", faults),
            ]
        else:
            views = list(self.estimators)
        if not views:
            raise ValueError(
                "estimators is empty: give at least one (name, estimator)."
            )
        for pair in views:
            if not (
                isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
            ):
                raise ValueError(
                    f"estimators must be pairs (name, estimator); got {pair!r}."
                )
            if not isinstance(pair[1], MultiTaskOneClass):
                raise ValueError(
                    f"The view {pair[0]!r} must be an estimator of manyone; got a "
                    f"{type(pair[1]).__name__}."
                )
            pair[1]._validate_params()
        if len({get_tags(view).input_tags.pairwise for _, view in views}) > 1:
            raise ValueError(
                'Either all views take a kernel matrix (kernel="precomputed") or none '
                "does: they see the same X."
            )
        self._validate_names([name for name, _ in views])
        if self.weights is not None:
            weights = np.asarray(self.weights, dtype=np.float64)
            if (
                weights.shape != (len(views),)
                or not np.all(weights >= 0)
                or not weights.any()
            ):
                raise ValueError(
                    f"weights must be {len(views)} numbers, one for each view, none "
                    f"below 0 and not all 0; got {self.weights!r}."
                )
        return views

    def left_out_scores(self, rows: TrainingRows) -> Array | None:
        """Combined left-out scores (n,) of the rows that the views were fitted to.

        NaN for known outliers. None if a view holds no left-out scores.
        """
        views = self.views_
        if any(view.solution_.left_out is None for view in views.values()):
            return None
        scores = [_left_out(view, rows) for view in views.values()]
        return _combined_left_out(combined_scorer(self.solution_), views, scores, rows)

    # -------------------------------------------------------------------------- scoring

    @by_blocks
    def view_scores(self, X: object, *, task: object = None) -> Array:
        """How abnormal each row looks in each view.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        task : array-like of shape (n,) or str or None

        Returns
        -------
        ndarray of shape (n, V)
            Tail values, ``-log P(a normal row scores lower)``, in the order of
            `views_`. Times `weights_` they say what each view has added to the score.
        """
        rows, codes = self._scoring_rows(X, task)
        if not len(codes):
            return np.empty((0, len(self.views_)))
        scorer = combined_scorer(self.solution_)
        with np.errstate(under="ignore"):
            return np.asarray(scorer.values(rows, codes))

    # ----------------------------------------------------------------------- parameters

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Parameters; with `deep`, also ``<name>__<parameter>`` of the views."""
        return dict(self._get_params("estimators", deep=deep))

    def set_params(self, **params: object) -> Self:
        """Set parameters, those of a view as ``<name>__<parameter>``."""
        self._set_params("estimators", **params)
        return self

    def _sk_visual_block_(self) -> Any:
        views = self._views() if self.estimators is None else self.estimators
        return VisualBlock(
            "parallel",
            [view for _, view in views],
            names=[name for name, _ in views],
            name_details=[str(view) for _, view in views],
        )

    def __sklearn_tags__(self) -> Any:
        """Tags: sparse rows and kernel matrices where every view takes them."""
        tags = super().__sklearn_tags__()
        pairs = [pair for pair in self.estimators or () if isinstance(pair, tuple)]
        views = [pair[-1] for pair in pairs if isinstance(pair[-1], MultiTaskOneClass)]
        inner = [get_tags(view).input_tags for view in views]
        tags.input_tags.sparse = bool(inner) and all(tag.sparse for tag in inner)
        tags.input_tags.pairwise = bool(inner) and all(tag.pairwise for tag in inner)
        return tags


def _combined_left_out(
    scorer: CombinedScorer,
    views: Views,
    scores: list[Array],
    rows: TrainingRows,
) -> Array:
    """Combined left-out scores (n,) of training rows; NaN for known outliers.

    The unit of a task is made from its rows, and is large if one of them is far out.
    New rows have no part in it. So each row is measured in a unit made without it.

    Parameters
    ----------
    scorer : CombinedScorer
    views : dict
        Fitted views by name.
    scores : list of ndarray of shape (n,)
        Left-out scores of each view; NaN for rows that shaped its landmarks.
    rows : TrainingRows
    """
    values = []
    for view, left_out, tail in zip(views.values(), scores, scorer.tails, strict=True):
        one_row = np.minimum(rows.weight, 1.0)
        scaled = view.calibration_.scaled(left_out, one_row, rows.codes)
        values.append(tail.pooled_value(scaled))
    combined = scorer.combine(np.column_stack(values))
    return np.where(rows.outlier, np.nan, combined)


def _left_out(view: MultiTaskOneClass, rows: TrainingRows) -> Array:
    """Left-out scores (n,) of `rows`, of which the view may have merged copies."""
    scores = view.solution_.left_out
    assert scores is not None
    keys = view.training_.keys(rows)
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys[order], rows.keys(rows))
    return np.asarray(scores[order[place]])
