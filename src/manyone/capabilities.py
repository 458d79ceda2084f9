"""What a method can do, declared once by its class and read by everybody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real

from manyone._sklearn import Constraints, Interval, StrOptions

Grid = Mapping[str, Sequence[object]]

# Of fields that say how a method is run, not what it can do for a user.
_INTERNAL = {"internal": True}
_SHARED: Grid = {
    "kernel": ("rbf", "laplacian", "rbf+laplacian"),
    "width": (0.5, 1.0, 2.0),
    "alpha": (1e-3, 10**-2.5, 1e-2, 10**-1.5, 0.1, 10**-0.5, 1.0),
    "metric": ("plain", "whitened"),
}

#: Constraints of the parameter of a ridge regression.
RIDGE: Constraints = {"alpha": [Interval(Real, 0, None, closed="left")]}
#: Constraints of the parameters of a method that few rows may stand for all in.
LANDMARKS: Constraints = {
    "landmarks": [Interval(Integral, 1, None, closed="left"), None],
    "random_state": ["random_state"],
}
#: Constraints of the parameters of methods that are solved by iterations.
ITERATIONS: Constraints = {
    "tol": [Interval(Real, 0, None, closed="neither")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
}
#: Fitted attributes of methods with iterations.
ITERATED = ("objective_path_", "n_iter_")
#: What methods that look at one task at a time can choose of a metric.
TASK_METRIC: Constraints = {
    "metric": [StrOptions({"plain", "whitened", "adaptive"})],
    "scale_prior": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    "covariance_prior": [
        Interval(Real, 0, None, closed="neither"),
        StrOptions({"auto"}),
    ],
    "robust": ["boolean"],
}


@dataclass(frozen=True)
class Capabilities:
    """Declared by every estimator as its class attribute ``can``.

    Attributes
    ----------
    exact_pvalues : bool
        Full conformal p-values, ``pvalues(..., exact=True)``.
    landmarks : bool
        Few rows may stand for all, ``landmarks=``. Rows may then come in blocks from
        anywhere, see :mod:`manyone.engines`.
    sample_rows : int
        Rows that a fit by passes learns from one by one, where there are more; 0: sums
        of all rows say everything.
    outliers : bool
        Known outliers shape the model, ``fit(..., outlier=)``.
    sample_weight : bool
        Weights shape the model; otherwise they count for thresholds only.
    joint : bool
        Rows of other tasks enter the function of a task.
    learns : tuple of str
        Fitted attributes beyond those of every method, such as ``"structure_"``.
    regression : bool
        Fits responses of the rows (1 for their own task), so it has a sum of squared
        errors.
    folds : int
        Refits that thresholds come from; 0 where left-out scores have a closed form.
    merges_copies : bool
        Copies of a row are fitted as one row of more weight: iterations would tell them
        apart.
    left_out_grid : {"joint", "each task"} or None
        Whose closed form judges a whole grid of ridges at once: that of the joint ridge
        regression, or of one for each task. None: settings are judged by folds.
    grid : mapping
        What `tune` tries.
    strengths : mapping
        What `tune` tries after `grid`, which is then judged as for the joint ridge
        regression.
    task_metric : bool
        Every task may have a metric of its own, ``metric="adaptive"``.
    slow : bool
        One fit costs many times that of a ridge: studies with many fits leave the
        method out.
    quick : bool
        Choosing its settings is fast enough for a first look.
    short_grid : mapping or None
        What experiments choose from where the whole grid would take too long; None is
        the whole.
    """

    exact_pvalues: bool = False
    landmarks: bool = False
    sample_rows: int = field(default=0, metadata=_INTERNAL)
    outliers: bool = True
    sample_weight: bool = True
    joint: bool = True
    learns: tuple[str, ...] = ()
    regression: bool = field(default=False, metadata=_INTERNAL)
    folds: int = 0
    merges_copies: bool = field(default=False, metadata=_INTERNAL)
    left_out_grid: str | None = field(default=None, metadata=_INTERNAL)
    grid: Grid = field(default_factory=lambda: _SHARED)
    strengths: Grid = field(default_factory=dict)
    task_metric: bool = False
    slow: bool = field(default=False, metadata=_INTERNAL)
    quick: bool = field(default=True, metadata=_INTERNAL)
    short_grid: Grid | None = field(default=None, metadata=_INTERNAL)


#: What every method of the package has declared, by the name of its class.
DECLARED: dict[str, Capabilities] = {}


def methods_that(ability: str) -> list[str]:
    """Names of the methods that have declared an ability, such as ``"landmarks"``."""
    return [name for name, can in DECLARED.items() if getattr(can, ability)]
