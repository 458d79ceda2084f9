"""What a model has learned about the relations between tasks."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import squareform

from manyone._types import Array, Codes, Labels
from manyone.data.labels import as_labels
from manyone.estimators import METHODS
from manyone.plots.axes import Display, Fitted, Look, last_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

_MOST_VALUES = 12  # largest T whose cells still have room for a number
_LABEL_HEIGHT = 0.16  # inches that a line of text takes
_LETTER_WIDTH = 0.09  # inches, with the space between two labels


@dataclass(eq=False, repr=False)
class StructureDisplay(Display):
    """Heat map of a T x T task matrix: who helps whom.

    Make one with `from_estimator` or `from_predictions`; the constructor only stores.

    Parameters
    ----------
    structure : ndarray of shape (T, T)
        Entry (s, t): what task s contributes to task t.
    labels : ndarray of shape (T,)
    order : ndarray of shape (T,)
        Permutation in which tasks are drawn.

    Attributes
    ----------
    im_ : AxesImage
        Its array is ``structure[order][:, order]``.
    text_ : ndarray of Text of shape (T, T) or None
        Numbers in the cells.
    colorbar_ : Colorbar or None
    ax_ : Axes
    figure_ : Figure

    Notes
    -----
    The diagonal, usually far larger than the rest, is not in the colour range: what
    lies beyond it is dark grey, like the arrow at the end of the colour bar.

    Examples
    --------
    >>> from manyone.plots import StructureDisplay
    >>> structure = [[1.0, 0.0, 0.3], [0.0, 1.0, 0.0], [0.3, 0.0, 1.0]]
    >>> names = ["ann", "bob", "cy"]
    >>> display = StructureDisplay.from_predictions(structure, labels=names)
    >>> abs(int(display.order.tolist().index(0)) - int(display.order.tolist().index(2)))
    1
    """

    structure: Array
    _: KW_ONLY
    labels: Labels
    order: Codes

    @classmethod
    def from_estimator(
        cls, estimator: Fitted, *, order: str | None = "cluster", **kwargs: Any
    ) -> Self:
        """Draw the `structure_` of a fitted model.

        Parameters
        ----------
        estimator : estimator of this package, or a pipeline that ends in one
        order : {"cluster", None}, default="cluster"
            ``"cluster"`` puts tasks that belong together side by side, None keeps the
            order of `tasks_`.
        **kwargs
            Passed to `plot`: where to draw (`ax`) and how.

        Returns
        -------
        StructureDisplay
        """
        model = last_step(estimator)
        if not hasattr(model, "structure_"):
            methods = METHODS.values()
            able = [m.__name__ for m in methods if "structure_" in m.can.learns]
            raise TypeError(
                f"{type(model).__name__} learns no relation between its tasks "
                f"(`structure_`), but {', '.join(able)} do. An array can be drawn with "
                "from_predictions."
            )
        return cls.from_predictions(
            model.structure_, labels=model.tasks_, order=order, **kwargs
        )

    @classmethod
    def from_predictions(
        cls,
        structure: ArrayLike,
        *,
        labels: object = None,
        order: str | None = "cluster",
        **kwargs: Any,
    ) -> Self:
        """Draw a given task matrix.

        Parameters
        ----------
        structure : array-like of shape (T, T)
        labels : array-like of shape (T,) or None
            None: 0, 1, ...
        order : {"cluster", None}, default="cluster"
            ``"cluster"`` puts tasks that belong together side by side, None keeps the
            order given.
        **kwargs
            Passed to `plot`: where to draw (`ax`) and how.

        Returns
        -------
        StructureDisplay
        """
        matrix = np.asarray(structure, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise ValueError(
                f"structure must be square, one row per task; got {matrix.shape}."
            )
        if not np.all(np.isfinite(matrix)):
            raise ValueError(
                "structure holds NaN or infinity: there is no colour for them."
            )
        names = np.arange(len(matrix)) if labels is None else as_labels(labels)
        if len(names) != len(matrix):
            raise ValueError(
                f"{len(matrix)} tasks but {len(names)} labels: give one per task."
            )
        if order not in {"cluster", None}:
            raise ValueError(f'order must be "cluster" or None; got {order!r}.')
        placed = np.arange(len(matrix)) if order is None else clustered(matrix)
        return cls(matrix, labels=names, order=placed).plot(**kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        include_values: bool | None = None,
        values_format: str = ".2f",
        cmap: str | Colormap = "RdBu_r",
        colorbar: bool = True,
        im_kwargs: Look | None = None,
    ) -> Self:
        """Draw the matrix.

        Parameters
        ----------
        ax : Axes or None
            Where to draw; None makes a figure.
        include_values : bool or None
            Whether to write the numbers into the cells; None: up to 12 tasks.
        values_format : str
        cmap : str or Colormap
            Should be diverging: its middle is 0.
        colorbar : bool, default=True
        im_kwargs : dict or None
            Keywords of :meth:`matplotlib.axes.Axes.imshow`.

        Returns
        -------
        self
        """
        ax = self._open(ax, (6.4, 5.4), "compressed")
        from matplotlib import colormaps

        matrix = self.structure[np.ix_(self.order, self.order)]
        T = len(matrix)
        rest = matrix[~np.eye(T, dtype=bool)]
        top = float(np.abs(rest).max(initial=0.0)) or float(np.abs(matrix).max()) or 1.0
        shades = colormaps.get_cmap(cmap).with_extremes(over="0.3", under="0.3")
        look: Look = {"cmap": shades, "vmin": -top, "vmax": top, **(im_kwargs or {})}
        self.im_ = ax.imshow(matrix, **look)

        self.text_: Labels | None = None
        if include_values or (include_values is None and T <= _MOST_VALUES):
            self.text_ = self._write_values(ax, matrix, values_format)
        self.colorbar_: Colorbar | None = None
        if colorbar:
            low, high = self.im_.get_clim()
            beyond = bool(matrix.min() < low) + 2 * bool(matrix.max() > high)
            extend = ("neither", "min", "max", "both")[beyond]
            self.colorbar_ = self.figure_.colorbar(
                self.im_,
                ax=ax,
                extend=extend,
                label="structure",
                fraction=0.046,
                pad=0.03,
            )
        label_tasks(ax, self.labels[self.order])
        ax.set(xlabel="to task", ylabel="from task")
        return self

    def _write_values(self, ax: Axes, matrix: Array, values_format: str) -> Labels:
        """Write the numbers of a matrix (T, T) into its cells; the texts (T, T)."""
        texts = np.empty(matrix.shape, dtype=object)
        dark = self.im_.to_rgba(matrix)[..., :3] @ [0.3, 0.59, 0.11] < 0.5
        for (s, t), value in np.ndenumerate(matrix):
            number = format(value, values_format)
            if float(number) == 0:
                number = number.removeprefix("-")
            text = ax.text(t, s, number, ha="center", va="center", fontsize="small")
            text.set_color("white" if dark[s, t] else "black")
            texts[s, t] = text
        return texts


def label_tasks(ax: Axes, labels: Labels) -> None:
    """Name as many of the tasks at 0, 1, ... on both axes as there is room for."""
    figure = cast("Figure", ax.get_figure(root=True))
    inches = figure.dpi_scale_trans.inverted()
    box = ax.get_window_extent().transformed(inches)
    room = min(box.width, box.height)
    step = max(1, int(np.ceil(len(labels) * _LABEL_HEIGHT / room)))
    ticks = np.arange(0, len(labels), step)
    names = [str(label) for label in labels[ticks].tolist()]
    small = "small" if len(labels) > _MOST_VALUES else "medium"
    wide = max(map(len, names)) * len(names) * _LETTER_WIDTH > box.width
    ax.set_xticks(ticks, names, rotation=90 if wide else 0, fontsize=small)
    ax.set_yticks(ticks, names, fontsize=small)


def clustered(matrix: Array) -> Codes:
    """Order of tasks, similar ones side by side (average linkage, optimal leaves)."""
    T = len(matrix)
    if T < 3:
        return np.arange(T)
    likeness = (matrix + matrix.T) / 2
    np.fill_diagonal(likeness, -np.inf)
    distance = likeness.max() - likeness
    np.fill_diagonal(distance, 0.0)
    from scipy.cluster.hierarchy import leaves_list, linkage  # slow to import

    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
    return leaves_list(tree).astype(np.intp)
