"""What a method can do: its class declares it, and all other code reads it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real

from manyone._sklearn import Constraints, Interval, StrOptions

Grid = Mapping[str, Sequence[object]]

# Metadata of fields about how a method is run; users are not shown these.
_INTERNAL = {"internal": True}
_SHARED: Grid = {
    "kernel": ("rbf", "laplacian", "rbf+laplacian"),
    "width": (0.5, 1.0, 2.0),
    "alpha": (1e-3, 10**-2.5, 1e-2, 10**-1.5, 0.1, 10**-0.5, 1.0),
    "metric": ("plain", "whitened"),
}

#: Constraints of the parameter of a ridge regression.
RIDGE: Constraints = {"alpha": [Interval(Real, 0, None, closed="left")]}
#: Constraints of the parameters of methods with landmarks.
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
#: Constraints of the parameters of methods with a metric for each task.
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
        The model may be expanded over few rows, ``landmarks=``. Rows may then come in
        blocks from anywhere, see :mod:`manyone.engines`.
    sample_rows : int
        Most rows that a fit with landmarks learns from. 0: it learns from sums over all
        rows.
    outliers : bool
        Known outliers shape the model, ``fit(..., outlier=)``.
    sample_weight : bool
        Weights shape the model; else they matter for thresholds only.
    joint : bool
        Rows of other tasks enter the function of a task.
    learns : tuple of str
        Fitted attributes beyond those of every method, such as ``"structure_"``.
    regression : bool
        Fits responses of the rows (1 for their own task), so there is a sum of squared
        errors.
    folds : int
        Folds that thresholds come from; 0 if left-out scores have a closed form.
    merges_copies : bool
        Copies of a row are fitted as one row of more weight. (Rounding in iterations
        would make them differ.)
    left_out_grid : {"joint", "each task"} or None
        The ridge regression whose closed form judges a grid of ridges: that of all
        tasks together, or of each task alone. None: folds judge settings.
    grid : mapping
        Settings that `tune` tries.
    strengths : mapping
        Settings that `tune` tries after those of `grid`, which the joint ridge
        regression then judges.
    task_metric : bool
        Every task may have a metric of its own, ``metric="adaptive"``.
    slow : bool
        A fit takes many times as long as a ridge regression. Studies with many fits do
        without the method.
    quick : bool
        Its settings are chosen fast enough for a first look.
    short_grid : mapping or None
        What experiments choose from if `grid` takes too long; None: `grid`.
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


#: What each method of the package declares, by the name of its class.
DECLARED: dict[str, Capabilities] = {}


def methods_that(ability: str) -> list[str]:
    """Names of the methods that declare an ability, such as ``"landmarks"``."""
    return [name for name, can in DECLARED.items() if getattr(can, ability)]
