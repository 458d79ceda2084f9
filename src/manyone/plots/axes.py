"""What the Displays share: axes to draw on, and the end of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from manyone.estimators.base import OneClassEstimator
from manyone.pipelines import TaskPipeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# From the palette of Okabe and Ito, which colour-blind people can tell apart.
BLUE = "#0072B2"
VERMILION = "#D55E00"
GREY = "#8C8C8C"
GREEN = "#009E73"
PURPLE = "#CC79A7"
ORANGE = "#E69F00"
SKY = "#56B4E9"


#: Keywords of a function of matplotlib.
Look: TypeAlias = dict[str, Any]
#: What a Display is made from: a fitted model, or a pipeline that ends in one.
Fitted: TypeAlias = OneClassEstimator | TaskPipeline | Pipeline


class Display:
    """Where a Display draws.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    """

    def _open(
        self,
        ax: Axes | None,
        figsize: tuple[float, float],
        layout: Literal["constrained", "compressed"] = "constrained",
    ) -> Axes:
        """Axes to draw on, given or new; kept as attributes, with their figure."""
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(
                f"{type(self).__name__}.plot needs matplotlib: pip install '.[plot]' "
                "in the checkout of manyone."
            ) from error
        if ax is None:
            _, ax = plt.subplots(figsize=figsize, layout=layout)
        self.ax_ = ax
        self.figure_ = cast("Figure", ax.get_figure(root=True))
        return ax


def last_step(
    estimator: Fitted,
) -> OneClassEstimator:
    """The fitted estimator at the end of a pipeline."""
    check_is_fitted(estimator)
    if isinstance(estimator, TaskPipeline):
        return estimator.model_
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def rows_of_last_step(estimator: Fitted, X: Any, task: object) -> Any:
    """Rows as the estimator at the end of a pipeline gets them."""
    if isinstance(estimator, TaskPipeline):
        return estimator.rows_for_model(X, task=task)
    if isinstance(estimator, Pipeline) and len(estimator) > 1:
        return estimator[:-1].transform(X)
    return X
