"""What the Displays share: axes to draw on, and what estimators have learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Labels = NDArray[Any]

# Of the palette of Okabe and Ito, which stays distinct for colour-blind eyes.
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#8C8C8C"
LABEL_HEIGHT = 0.16  # inches that a line of text takes


def require_matplotlib(caller: str) -> None:
    """Say what to install where it is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"{caller} needs matplotlib: pip install '.[plot]' in the checkout of manyone."
        ) from error


def axes(caller: str, ax: Axes | None, figsize: tuple[float, float], layout: Any) -> Axes:
    """Axes to draw on: those given, or new ones."""
    require_matplotlib(caller)
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=figsize, layout=layout)[1]


def root_figure(ax: Axes) -> Figure:
    """Figure that axes belong to, through all subfigures."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def last_step(estimator: Any) -> Any:
    """The fitted estimator itself, out of its pipeline."""
    from sklearn.pipeline import Pipeline  # slow to import

    check_is_fitted(estimator)
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def learned(model: Any, attribute: str, what: str) -> Any:
    """An attribute that only some estimators have."""
    if hasattr(model, attribute):
        return getattr(model, attribute)
    from manyone.estimators import METHODS

    able = [method.__name__ for method in METHODS.values() if attribute in method.can.learns]
    hint = f"Estimators with `{attribute}`: {', '.join(able)}. " if able else ""
    raise TypeError(
        f"{type(model).__name__} learns no {what} (`{attribute}`). {hint}"
        "An array can be drawn with from_predictions."
    )
