"""Cost against iterations."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from manyone._types import Array
from manyone.plots.axes import Display, Fitted, Look, last_step, learned

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class ObjectiveDisplay(Display):
    """Cost of an iterative fit against its iterations.

    Make one with `from_estimator` or `from_predictions`; the constructor only stores.

    Parameters
    ----------
    path : ndarray of shape (n_iter + 1,)
        Objective at the start and after each iteration.
    name : str or None
        For the legend.

    Attributes
    ----------
    line_ : Line2D
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> from manyone.plots import ObjectiveDisplay
    >>> display = ObjectiveDisplay.from_predictions([8.0, 3.0, 2.0, 2.0], log=True)
    >>> display.line_.get_ydata()
    array([ 6.,  1., nan, nan])
    """

    path: Array
    _: KW_ONLY
    name: str | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Fitted, *, name: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw the `objective_path_` of a fitted model.

        Parameters
        ----------
        estimator : estimator of this package, or a pipeline that ends in one
        name : str or None
            For the legend; None is the name of the class.
        **kwargs
            Passed to `plot`: where to draw (`ax`) and how.

        Returns
        -------
        ObjectiveDisplay
        """
        model = last_step(estimator)
        path = learned(model, "objective_path_", "path of iterations")
        return cls.from_predictions(path, name=name or type(model).__name__, **kwargs)

    @classmethod
    def from_predictions(
        cls, path: ArrayLike, *, name: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw a given path.

        Parameters
        ----------
        path : array-like of shape (n_iter + 1,)
        name : str or None
            For the legend; None draws none.
        **kwargs
            Passed to `plot`: where to draw (`ax`) and how.

        Returns
        -------
        ObjectiveDisplay
        """
        values = np.asarray(path, dtype=np.float64)
        if values.ndim != 1 or len(values) == 0:
            raise ValueError(
                f"path must be one number per iteration; got shape {values.shape}."
            )
        return cls(values, name=name).plot(**kwargs)

    def plot(self, ax: Axes | None = None, *, log: bool = False, **kwargs: Any) -> Self:
        """Draw the path.

        Parameters
        ----------
        ax : Axes or None
            Where to draw; None makes a figure.
        log : bool, default=False
            Draw the distance to the best value reached, on a logarithmic axis.
        **kwargs
            Keywords of :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        self
        """
        ax = self._open(ax, (6.0, 4.0))
        cost = self.path
        label = "objective"
        if log:
            gap = cost - np.min(cost)
            cost = np.where(gap > 0, gap, np.nan)
            label = "objective minus its best value"
            ax.set_yscale("log")
        look: Look = {"linewidth": 1.5, "label": self.name}
        if len(cost) <= 50:
            look |= {"marker": "o", "markersize": 4}
        look |= kwargs
        (self.line_,) = ax.plot(np.arange(len(cost)), cost, **look)
        ax.set(xlabel="iteration", ylabel=label)
        ax.locator_params(axis="x", integer=True)
        ax.grid(color="0.9")
        ax.spines[["top", "right"]].set_visible(False)
        if look["label"] is not None:
            ax.legend(frameon=False)
        return self
