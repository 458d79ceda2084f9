"""What the Displays share: axes to draw on, and what estimators have learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# From the palette of Okabe and Ito, which colour-blind people can tell apart.
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#8C8C8C"
GREEN, PURPLE, ORANGE, SKY = "#009E73", "#CC79A7", "#E69F00", "#56B4E9"


class Display:
    """Where a Display draws.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    """

    def _open(self, ax: Axes | None, figsize: tuple[float, float], layout: Any) -> Axes:
        """Axes to draw on, given or new; they are kept as attributes, with their figure."""
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(
                f"{type(self).__name__}.plot needs matplotlib: pip install '.[plot]' in the "
                "checkout of manyone."
            ) from error
        self.ax_: Axes = (
            plt.subplots(figsize=figsize, layout=layout)[1] if ax is None else ax
        )
        self.figure_ = cast("Figure", self.ax_.get_figure(root=True))
        return self.ax_


def last_step(estimator: Any, X: Any = None, task: Any = None) -> tuple[Any, Any]:
    """The fitted estimator at the end of a pipeline, and rows (n, d) as it gets them."""
    from sklearn.pipeline import Pipeline  # slow to import

    from manyone.pipelines import TaskPipeline

    check_is_fitted(estimator)
    if isinstance(estimator, TaskPipeline):
        return estimator.model_, None if X is None else estimator.transform(
            X, task=task
        )
    if not isinstance(estimator, Pipeline):
        return estimator, X
    front = X is not None and len(estimator) > 1
    return estimator[-1], estimator[:-1].transform(X) if front else X


def learned(model: Any, attribute: str, what: str) -> Any:
    """An attribute that only some estimators have."""
    if hasattr(model, attribute):
        return getattr(model, attribute)
    from manyone.estimators import METHODS

    able = [
        method.__name__ for method in METHODS.values() if attribute in method.can.learns
    ]
    raise TypeError(
        f"{type(model).__name__} learns no {what} (`{attribute}`), but {', '.join(able)} do. "
        "An array can be drawn with from_predictions."
    )
