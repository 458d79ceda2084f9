"""Pictures of fitted models, in the manner of scikit-learn's Displays. They need matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from manyone.tasks import Codes, as_labels, encode, lookup, split_column

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, PathCollection
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.lines import Line2D

__all__ = ["ObjectiveDisplay", "ScoreDisplay", "StructureDisplay"]

Array = NDArray[np.float64]
Labels = NDArray[Any]

# Of the palette of Okabe and Ito, which stays distinct for colour-blind eyes.
_BLUE, _VERMILION, _GREY = "#0072B2", "#D55E00", "#8C8C8C"
_MOST_TASKS = 10  # shown unless the caller chooses
_MOST_VALUES = 12  # largest T whose cells still have room for a number
_DOT_COLUMNS = 80  # columns of dots side by side across the axes
_LABEL_HEIGHT = 0.16  # inches that a line of text takes
_HALF_ROW = 0.4  # of the distance between two tasks


class ScoreDisplay:
    """Scores of rows, task by task, with each task's threshold and the alarms it raises.

    Make one with `from_estimator` or `from_predictions`; the constructor only stores.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Higher is more normal.
    codes : ndarray of shape (n,)
        Position of each row's task in `labels`.
    offset : ndarray of shape (k,)
        Threshold of each task: a score below it is an alarm.
    labels : ndarray of shape (k,)
        Tasks, from top to bottom.
    calibration : list of k ndarrays or None
        Scores that the thresholds come from, drawn faintly.
    source : str
        What the calibration scores are, for the legend.

    Attributes
    ----------
    normal_, alarm_ : PathCollection
        Markers of the rows that are accepted, and of those that raise an alarm.
    calibration_ : PathCollection or None
    threshold_ : LineCollection
        One vertical stroke per task.
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> from manyone.plots import ScoreDisplay
    >>> display = ScoreDisplay.from_predictions(
    ...     [-0.1, -0.3, -0.9, -0.2], offset=[-0.5, -0.4], task=["ann", "ann", "ann", "bob"]
    ... )
    >>> display.alarm
    array([False, False,  True, False])
    >>> display.ax_.get_xlabel()
    'score (higher is more normal)'
    """

    normal_: PathCollection
    alarm_: PathCollection
    calibration_: PathCollection | None
    threshold_: LineCollection
    ax_: Axes
    figure_: Figure

    def __init__(
        self,
        scores: Array,
        codes: Codes,
        *,
        offset: Array,
        labels: Labels,
        calibration: Sequence[Array] | None = None,
        source: str = "calibration",
    ):
        self.scores = scores
        self.codes = codes
        self.offset = offset
        self.labels = labels
        self.calibration = calibration
        self.source = source

    @property
    def alarm(self) -> NDArray[np.bool_]:
        """Which rows raise an alarm, shape (n,)."""
        return self.scores < self.offset[self.codes]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        task: Any = None,
        which: Any = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Score rows with a fitted model and draw them.

        Parameters
        ----------
        estimator : estimator of this package, or a pipeline that ends in one
        X : array-like, sparse matrix or data frame of shape (n, d)
        task : array-like of shape (n,) or str or None
            Task of each row, or the name of the column of `X` that holds it.
        which : label or list of labels or None
            Tasks to show. None: the first 10 of those that occur.
        ax : Axes or None
            Where to draw; None makes a figure.
        **kwargs
            Passed to `plot`.

        Returns
        -------
        ScoreDisplay

        Examples
        --------
        >>> import numpy as np
        >>> from manyone import JointOCKSR
        >>> from manyone.plots import ScoreDisplay
        >>> rng = np.random.default_rng(0)
        >>> task = np.repeat(["ann", "bob"], 30)
        >>> X = rng.normal(size=(60, 2)) + 3.0 * (task == "bob")[:, None]
        >>> model = JointOCKSR(alarm_rate=0.1).fit(X, task=task)
        >>> display = ScoreDisplay.from_estimator(model, [[0.0, 0.0], [9.0, 9.0]], task=["ann"] * 2)
        >>> display.alarm
        array([False,  True])
        """
        _require_matplotlib(f"{cls.__name__}.from_estimator")
        model = _last_step(estimator)
        X, task, _ = split_column(X, task)
        if model is not estimator and len(estimator) > 1:
            X = estimator[:-1].transform(X)
        scores = model.score_samples(X, task=task)
        if task is None:
            codes = np.zeros(len(scores), dtype=np.intp)
        else:
            codes = lookup(as_labels(task), model.tasks_)
        left_out = model.calibration_
        display = cls(
            scores,
            codes,
            offset=model.offset_,
            labels=model.tasks_,
            calibration=np.split(left_out.scores, left_out.starts[1:-1]),
            source=left_out.source,
        )
        return display._select(which).plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        scores: ArrayLike,
        *,
        offset: ArrayLike,
        task: Any = None,
        labels: Any = None,
        which: Any = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw scores that are at hand.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Higher is more normal.
        offset : float or array-like of shape (k,)
            Threshold of all tasks, or of each one in the order of `labels`.
        task : array-like of shape (n,) or None
            Task of each row; None if there is only one.
        labels : array-like of shape (k,) or None
            Known tasks (``model.tasks_`` for ``model.offset_``). None: those that occur, sorted.
        which : label or list of labels or None
            Tasks to show. None: the first 10 of those that occur.
        ax : Axes or None
            Where to draw; None makes a figure.
        **kwargs
            Passed to `plot`.

        Returns
        -------
        ScoreDisplay
        """
        _require_matplotlib(f"{cls.__name__}.from_predictions")
        values = np.asarray(scores, dtype=np.float64)
        if values.ndim != 1:
            raise ValueError(f"scores must be one number per row; got shape {values.shape}.")
        names = np.zeros(len(values), dtype=np.intp) if task is None else as_labels(task)
        if len(names) != len(values):
            raise ValueError(f"{len(values)} scores but {len(names)} tasks: give one per row.")
        known = encode(names)[0] if labels is None else as_labels(labels)
        codes = np.zeros_like(names) if task is None else lookup(names, known)
        if np.any(codes < 0):
            raise ValueError(f"The task of row {np.argmin(codes)} is missing: drop such rows.")
        thresholds = np.asarray(offset, dtype=np.float64)
        if thresholds.shape not in {(), known.shape}:
            raise ValueError(
                f"offset must be one number, or one for each of the {len(known)} tasks; "
                f"got shape {thresholds.shape}."
            )
        thresholds = np.broadcast_to(thresholds, known.shape)
        display = cls(values, codes, offset=thresholds, labels=known)
        return display._select(which).plot(ax, **kwargs)

    def _select(self, which: Any) -> Self:
        """The display of some of the tasks."""
        if which is None:
            shown = np.unique(self.codes)[:_MOST_TASKS]
        else:
            one = isinstance(which, str) or not np.iterable(which)
            one = one or (isinstance(which, tuple) and which in self.labels.tolist())
            asked = lookup(as_labels([which] if one else which), self.labels)
            shown = np.array(list(dict.fromkeys(asked.tolist())), dtype=np.intp)
        if len(shown) == 0 or shown.min() < 0:
            raise ValueError("which= names no task to show. Give a label, or leave it out.")
        place = np.full(len(self.labels), -1)
        place[shown] = np.arange(len(shown))
        kept = place[self.codes] >= 0
        return type(self)(
            self.scores[kept],
            place[self.codes[kept]],
            offset=self.offset[shown],
            labels=self.labels[shown],
            calibration=self.calibration and [self.calibration[t] for t in shown],
            source=self.source,
        )

    def plot(
        self,
        ax: Axes | None = None,
        *,
        legend: bool = True,
        scatter_kwargs: dict[str, Any] | None = None,
        line_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw one line of dots per task.

        Parameters
        ----------
        ax : Axes or None
            Where to draw; None makes a figure.
        legend : bool, default=True
        scatter_kwargs : dict or None
            Keywords of :meth:`matplotlib.axes.Axes.scatter`, for all dots.
        line_kwargs : dict or None
            Keywords of :meth:`matplotlib.axes.Axes.vlines`, for the thresholds.

        Returns
        -------
        self
        """
        k = len(self.labels)
        ax = _axes(f"{type(self).__name__}.plot", ax, (7.0, 1.5 + 0.62 * k), "constrained")
        faint = np.concatenate(self.calibration) if self.calibration else np.empty(0)
        drawn = np.concatenate([self.scores, faint, self.offset])
        width = float(np.ptp(drawn)) / _DOT_COLUMNS or 1.0
        style: dict[str, Any] = {"s": 26, "linewidths": 0.5, "edgecolors": "white"} | (
            scatter_kwargs or {}
        )

        self.calibration_ = None
        if self.calibration:
            tasks = np.repeat(np.arange(k), [len(part) for part in self.calibration])
            y = tasks + _stack(faint, tasks, width)
            look: dict[str, Any] = {
                "c": _GREY,
                "alpha": 0.4,
                "zorder": 1,
                "label": f"{self.source} scores",
            }
            self.calibration_ = ax.scatter(faint, y, **{**style, **look})

        # Rows stand on the middle line of their task, calibration scores hang below it.
        alarm, y = self.alarm, self.codes - _stack(self.scores, self.codes, width)
        count = f"({np.count_nonzero(alarm)} of {len(alarm)})"
        accepted: dict[str, Any] = {"c": _BLUE, "marker": "o", "zorder": 2, "label": "accepted"}
        raised: dict[str, Any] = {
            "c": _VERMILION,
            "marker": "D",
            "zorder": 3,
            "label": f"alarm {count}",
        }
        self.normal_ = ax.scatter(self.scores[~alarm], y[~alarm], **{**style, **accepted})
        self.alarm_ = ax.scatter(self.scores[alarm], y[alarm], **{**style, **raised})

        line: dict[str, Any] = {
            "colors": "black",
            "linewidths": 1.5,
            "label": "threshold",
            "zorder": 4,
        }
        middle = np.arange(k)
        self.threshold_ = ax.vlines(
            self.offset, middle - _HALF_ROW, middle + _HALF_ROW, **(line | (line_kwargs or {}))
        )
        self._dress(ax, alarm, legend)
        self.ax_, self.figure_ = ax, _figure(ax)
        return self

    def _dress(self, ax: Axes, alarm: NDArray[np.bool_], legend: bool) -> None:
        """Labels, limits and legend."""
        k = len(self.labels)
        ax.set(xlabel="score (higher is more normal)", ylim=(k - 0.45, -0.55))
        ax.set_yticks(np.arange(k), [str(label) for label in self.labels.tolist()])
        ax.tick_params(axis="y", length=0)
        ax.hlines(
            np.arange(k), 0, 1, transform=ax.get_yaxis_transform(), color="0.9", lw=1, zorder=0
        )
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.set_ylabel("task")
        rows, raised = (np.bincount(part, minlength=k) for part in (self.codes, self.codes[alarm]))
        for t in range(k) if k > 1 else ():
            ax.annotate(
                f"{raised[t]} of {rows[t]}",
                (1.0, t),
                xycoords=ax.get_yaxis_transform(),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                color=_VERMILION if raised[t] else "0.4",
                fontsize="small",
            )
        if legend:
            ax.legend(
                loc="lower center",
                bbox_to_anchor=(0.5, 1.0),
                ncols=4,
                frameon=False,
                handletextpad=0.3,
                columnspacing=1.2,
            )


class StructureDisplay:
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
    The diagonal, usually far larger than the rest, does not take part in the colour range: what
    lies beyond it is dark grey, like the arrow at the end of the colour bar.

    Examples
    --------
    >>> from manyone.plots import StructureDisplay
    >>> structure = [[1.0, 0.0, 0.3], [0.0, 1.0, 0.0], [0.3, 0.0, 1.0]]
    >>> display = StructureDisplay.from_predictions(structure, labels=["ann", "bob", "cy"])
    >>> abs(int(display.order.tolist().index(0)) - int(display.order.tolist().index(2)))
    1
    """

    im_: AxesImage
    text_: NDArray[Any] | None
    colorbar_: Colorbar | None
    ax_: Axes
    figure_: Figure

    def __init__(self, structure: Array, *, labels: Labels, order: Codes):
        self.structure = structure
        self.labels = labels
        self.order = order

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        order: str | None = "cluster",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the `structure_` of a fitted model.

        Parameters
        ----------
        estimator : estimator of this package, or a pipeline that ends in one
        order : {"cluster", None}, default="cluster"
            ``"cluster"`` puts tasks that belong together side by side, None keeps the order of
            `tasks_`.
        ax : Axes or None
            Where to draw; None makes a figure.
        **kwargs
            Passed to `plot`.

        Returns
        -------
        StructureDisplay
        """
        model = _last_step(estimator)
        structure = _learned(model, "structure_", "relation between its tasks")
        return cls.from_predictions(structure, labels=model.tasks_, order=order, ax=ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        structure: ArrayLike,
        *,
        labels: Any = None,
        order: str | None = "cluster",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a task matrix that is at hand.

        Parameters
        ----------
        structure : array-like of shape (T, T)
        labels : array-like of shape (T,) or None
            None: 0, 1, ...
        order : {"cluster", None}, default="cluster"
            ``"cluster"`` puts tasks that belong together side by side, None keeps the order given.
        ax : Axes or None
            Where to draw; None makes a figure.
        **kwargs
            Passed to `plot`.

        Returns
        -------
        StructureDisplay
        """
        _require_matplotlib(f"{cls.__name__}.from_predictions")
        matrix = np.asarray(structure, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise ValueError(f"structure must be square, one row per task; got {matrix.shape}.")
        if not np.all(np.isfinite(matrix)):
            raise ValueError("structure holds NaN or infinity: there is no colour for them.")
        names = np.arange(len(matrix)) if labels is None else as_labels(labels)
        if len(names) != len(matrix):
            raise ValueError(f"{len(matrix)} tasks but {len(names)} labels: give one per task.")
        if order not in {"cluster", None}:
            raise ValueError(f'order must be "cluster" or None; got {order!r}.')
        placed = np.arange(len(matrix)) if order is None else _clustered(matrix)
        return cls(matrix, labels=names, order=placed).plot(ax, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        include_values: bool | None = None,
        values_format: str = ".2f",
        cmap: Any = "RdBu_r",
        colorbar: bool = True,
        im_kwargs: dict[str, Any] | None = None,
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
        ax = _axes(f"{type(self).__name__}.plot", ax, (6.4, 5.4), "compressed")
        matrix = self.structure[np.ix_(self.order, self.order)]
        T = len(matrix)
        rest = matrix[~np.eye(T, dtype=bool)]
        top = float(np.abs(rest).max(initial=0.0)) or float(np.abs(matrix).max()) or 1.0
        from matplotlib import colormaps

        shades = colormaps.get_cmap(cmap).with_extremes(over="0.3", under="0.3")
        look: dict[str, Any] = {"cmap": shades, "vmin": -top, "vmax": top} | (im_kwargs or {})
        self.im_ = ax.imshow(matrix, **look)
        self.ax_, self.figure_ = ax, _figure(ax)

        self.text_ = None
        if include_values or (include_values is None and T <= _MOST_VALUES):
            self.text_ = np.empty((T, T), dtype=object)
            colours = self.im_.to_rgba(matrix)
            for (s, t), value in np.ndenumerate(matrix):
                red, green, blue, _ = colours[s, t]
                dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.5
                number = format(value, values_format)
                number = number.removeprefix("-") if float(number) == 0 else number
                self.text_[s, t] = ax.text(
                    t,
                    s,
                    number,
                    ha="center",
                    va="center",
                    color="white" if dark else "black",
                    fontsize="small",
                )

        self.colorbar_ = None
        if colorbar:
            low, high = self.im_.get_clim()
            over, under = matrix.max() > high, matrix.min() < low
            extend = ("both" if under else "max") if over else ("min" if under else "neither")
            self.colorbar_ = self.figure_.colorbar(
                self.im_, ax=ax, extend=extend, label="structure", fraction=0.046, pad=0.03
            )
        self._label_ticks(ax)
        return self

    def _label_ticks(self, ax: Axes) -> None:
        """As many labels as have room."""
        T = len(self.order)
        box = ax.get_window_extent().transformed(self.figure_.dpi_scale_trans.inverted())
        step = max(1, int(np.ceil(T * _LABEL_HEIGHT / min(box.width, box.height))))
        ticks = np.arange(0, T, step)
        names = [str(self.labels.tolist()[t]) for t in self.order[ticks]]
        small = "small" if T > _MOST_VALUES else "medium"
        wide = max(map(len, names)) * len(names) * 0.09 > box.width
        ax.set_xticks(ticks, names, rotation=90 if wide else 0, fontsize=small)
        ax.set_yticks(ticks, names, fontsize=small)
        ax.set(xlabel="to task", ylabel="from task")


class ObjectiveDisplay:
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

    line_: Line2D
    ax_: Axes
    figure_: Figure

    def __init__(self, path: Array, *, name: str | None = None):
        self.path = path
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, name: str | None = None, ax: Axes | None = None, **kwargs: Any
    ) -> Self:
        """Draw the `objective_path_` of a fitted model.

        Parameters
        ----------
        estimator : estimator of this package, or a pipeline that ends in one
        name : str or None
            For the legend; None is the name of the class.
        ax : Axes or None
            Where to draw; None makes a figure.
        **kwargs
            Passed to `plot`.

        Returns
        -------
        ObjectiveDisplay
        """
        model = _last_step(estimator)
        path = _learned(model, "objective_path_", "path of iterations")
        return cls.from_predictions(path, name=name or type(model).__name__, ax=ax, **kwargs)

    @classmethod
    def from_predictions(
        cls, path: ArrayLike, *, name: str | None = None, ax: Axes | None = None, **kwargs: Any
    ) -> Self:
        """Draw a path that is at hand.

        Parameters
        ----------
        path : array-like of shape (n_iter + 1,)
        name : str or None
            For the legend; None draws none.
        ax : Axes or None
            Where to draw; None makes a figure.
        **kwargs
            Passed to `plot`.

        Returns
        -------
        ObjectiveDisplay
        """
        _require_matplotlib(f"{cls.__name__}.from_predictions")
        values = np.asarray(path, dtype=np.float64)
        if values.ndim != 1 or len(values) == 0:
            raise ValueError(f"path must be one number per iteration; got shape {values.shape}.")
        return cls(values, name=name).plot(ax, **kwargs)

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
        ax = _axes(f"{type(self).__name__}.plot", ax, (6.0, 4.0), "constrained")
        cost, label = self.path, "objective"
        if log:
            gap = cost - np.min(cost)
            cost, label = np.where(gap > 0, gap, np.nan), "objective minus its best value"
            ax.set_yscale("log")
        few = {"marker": "o", "markersize": 4} if len(cost) <= 50 else {}
        look: dict[str, Any] = {"linewidth": 1.5, "label": self.name, **few} | kwargs
        (self.line_,) = ax.plot(np.arange(len(cost)), cost, **look)
        ax.set(xlabel="iteration", ylabel=label)
        ax.locator_params(axis="x", integer=True)
        ax.grid(color="0.9")
        ax.spines[["top", "right"]].set_visible(False)
        if look["label"] is not None:
            ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, _figure(ax)
        return self


def _require_matplotlib(caller: str) -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"{caller} needs matplotlib. Install it with: pip install 'manyone[plot]'"
        ) from error


def _axes(caller: str, ax: Axes | None, figsize: tuple[float, float], layout: Any) -> Axes:
    _require_matplotlib(caller)
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=figsize, layout=layout)[1]


def _figure(ax: Axes) -> Figure:
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def _last_step(estimator: Any) -> Any:
    check_is_fitted(estimator)
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def _learned(model: Any, attribute: str, what: str) -> Any:
    """An attribute that only some estimators have."""
    if hasattr(model, attribute):
        return getattr(model, attribute)
    from manyone.estimators import METHODS

    # Docstrings list what each estimator learns, also those that are yet to come.
    able = [c.__name__ for c in METHODS.values() if f"{attribute} :" in (c.__doc__ or "")]
    hint = f"Estimators with `{attribute}`: {', '.join(able)}. " if able else ""
    raise TypeError(
        f"{type(model).__name__} learns no {what} (`{attribute}`). {hint}"
        "An array can be drawn with from_predictions."
    )


def _stack(x: Array, tasks: Codes, width: float) -> Array:
    """Heights in (0, 0.4] that keep dots of one task apart, as in a histogram made of dots."""
    column = np.floor((x - np.min(x, initial=np.inf)) / width).astype(np.intp)
    order = np.lexsort((column, tasks))
    key = np.stack([tasks[order], column[order]])
    first = np.flatnonzero(np.r_[True, np.any(key[:, 1:] != key[:, :-1], axis=0)][: len(x)])
    height = np.empty(len(x))
    height[order] = 1 + np.arange(len(x)) - np.repeat(first, np.diff([*first, len(x)]))
    pitch = min(0.11, _HALF_ROW / max(height.max(initial=1.0), 1.0))
    return height * pitch


def _clustered(matrix: Array) -> Codes:
    """Order of tasks in which like ones are neighbours (average linkage, optimal leaves)."""
    T = len(matrix)
    if T < 3:
        return np.arange(T)
    likeness = (matrix + matrix.T) / 2
    np.fill_diagonal(likeness, -np.inf)
    distance = likeness.max() - likeness
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
    return leaves_list(tree).astype(np.intp)
