"""Scores of rows against the thresholds of their tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from manyone._types import Array, Codes, Labels, Mask
from manyone.calibration.thresholds import NEVER
from manyone.data.labels import as_labels, encode, lookup, split_columns
from manyone.plots.axes import (
    BLUE,
    GREY,
    VERMILION,
    Display,
    Fitted,
    Look,
    last_step,
    rows_of_last_step,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection

_MOST_TASKS = 10  # shown unless the caller chooses
_DOT_COLUMNS = 80  # columns of dots side by side across the axes
_HALF_ROW = 0.4  # of the distance between two tasks
# For alarms, in widths of all other dots; lower scores are drawn at the edge.
_ROOM = 2.0


@dataclass(eq=False, repr=False)
class ScoreDisplay(Display):
    """Scores of rows, task by task, with each task's threshold and alarms.

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
    far_ : PathCollection or None
        Markers at the left edge, of alarms whose scores are too low to draw to scale.
    calibration_ : PathCollection or None
    threshold_ : LineCollection
        One vertical stroke per task that has a threshold.
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> from manyone.plots import ScoreDisplay
    >>> display = ScoreDisplay.from_predictions(
    ...     [-0.1, -0.3, -0.9, -0.2],
    ...     offset=[-0.5, -0.4],
    ...     task=["ann", "ann", "ann", "bob"],
    ... )
    >>> display.alarm
    array([False, False,  True, False])
    >>> display.ax_.get_xlabel()
    'score (higher is more normal)'
    """

    scores: Array
    codes: Codes
    _: KW_ONLY
    offset: Array
    labels: Labels
    calibration: Sequence[Array] | None = None
    source: str = "calibration"

    @property
    def alarm(self) -> Mask:
        """Which rows raise an alarm, shape (n,)."""
        return self.scores < self.offset[self.codes]

    @classmethod
    def from_estimator(
        cls,
        estimator: Fitted,
        X: object,
        *,
        task: object = None,
        which: object = None,
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
        **kwargs
            Passed to `plot`: where to draw (`ax`) and how.

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
        >>> rows = [[0.0, 0.0], [9.0, 9.0]]
        >>> display = ScoreDisplay.from_estimator(model, rows, task=["ann"] * 2)
        >>> display.alarm
        array([False,  True])
        """
        model = last_step(estimator)
        model._check_calibrated()
        _, X, task = split_columns(X, task=task)
        rows = rows_of_last_step(estimator, X, task)
        scores = model.score_samples(rows, task=task)
        codes = np.zeros(len(scores), dtype=np.intp)
        if task is not None:
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
        return display._select(which).plot(**kwargs)

    @classmethod
    def from_predictions(
        cls,
        scores: ArrayLike,
        *,
        offset: ArrayLike,
        task: object = None,
        labels: object = None,
        which: object = None,
        **kwargs: Any,
    ) -> Self:
        """Draw given scores.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Higher is more normal.
        offset : float or array-like of shape (k,)
            Threshold of all tasks, or of each one in the order of `labels`.
        task : array-like of shape (n,) or None
            Task of each row; None if there is only one.
        labels : array-like of shape (k,) or None
            Known tasks (``model.tasks_`` for ``model.offset_``). None: those that
            occur, sorted.
        which : label or list of labels or None
            Tasks to show. None: the first 10 of those that occur.
        **kwargs
            Passed to `plot`: where to draw (`ax`) and how.

        Returns
        -------
        ScoreDisplay
        """
        values = np.asarray(scores, dtype=np.float64)
        if values.ndim != 1:
            raise ValueError(
                f"scores must be one number per row; got shape {values.shape}."
            )
        if np.isnan(values).any():
            row = int(np.argmax(np.isnan(values)))
            raise ValueError(f"The score of row {row} is NaN: drop such rows.")
        names: Labels = np.zeros(len(values), dtype=np.intp)
        if task is not None:
            names = as_labels(task)
        if len(names) != len(values):
            raise ValueError(
                f"{len(values)} scores but {len(names)} tasks: give one per row."
            )
        tasks = encode(names)[0] if labels is None else as_labels(labels)
        codes = np.zeros_like(names) if task is None else lookup(names, tasks)
        if np.any(codes < 0):
            raise ValueError(
                f"The task of row {np.argmin(codes)} is missing: drop such rows."
            )
        thresholds = np.asarray(offset, dtype=np.float64)
        if thresholds.shape not in {(), tasks.shape}:
            raise ValueError(
                f"offset must be one number, or one for each of the {len(tasks)} "
                f"tasks; got shape {thresholds.shape}."
            )
        thresholds = np.broadcast_to(thresholds, tasks.shape)
        display = cls(values, codes, offset=thresholds, labels=tasks)
        return display._select(which).plot(**kwargs)

    def _select(self, which: object) -> Self:
        """The display of the tasks that are named, or of the first ones."""
        if which is None:
            shown = np.unique(self.codes)[:_MOST_TASKS]
        else:
            single = isinstance(which, str) or not np.iterable(which)
            if isinstance(which, tuple):
                single = which in self.labels.tolist()
            wanted = lookup(as_labels([which] if single else which), self.labels)
            shown = np.array(list(dict.fromkeys(wanted.tolist())), dtype=np.intp)
        if len(shown) == 0 or shown.min() < 0:
            raise ValueError(
                "which= names no task to show. Give a label, or leave it out."
            )
        place = np.full(len(self.labels), -1)
        place[shown] = np.arange(len(shown))
        rows = place[self.codes] >= 0
        return replace(
            self,
            scores=self.scores[rows],
            codes=place[self.codes[rows]],
            offset=self.offset[shown],
            labels=self.labels[shown],
            calibration=self.calibration and [self.calibration[t] for t in shown],
        )

    def plot(
        self,
        ax: Axes | None = None,
        *,
        legend: bool = True,
        scatter_kwargs: Look | None = None,
        line_kwargs: Look | None = None,
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
        ax = self._open(ax, (7.0, 1.5 + 0.62 * k))
        faint = np.concatenate(self.calibration) if self.calibration else np.empty(0)
        alarm = self.alarm
        drawn = np.flatnonzero(self.offset > NEVER)  # other tasks have no threshold
        usual = np.concatenate([self.scores[~alarm], faint, self.offset[drawn]])
        edge = usual.min() - _ROOM * np.ptp(usual) if np.ptp(usual) > 0 else -np.inf
        far = self.scores < edge
        x = np.maximum(self.scores, edge)
        width = float(np.ptp(np.concatenate([x, usual]))) / _DOT_COLUMNS or 1.0
        style: Look = {"s": 26, "linewidths": 0.5, "edgecolors": "white"}
        style |= scatter_kwargs or {}
        dots: Callable[..., PathCollection] = partial(ax.scatter, **style)

        self.calibration_: PathCollection | None = None
        if self.calibration:
            sizes = [len(left_out) for left_out in self.calibration]
            tasks = np.repeat(np.arange(k), sizes)
            y = tasks + _stack(faint, tasks, width)
            label = f"{self.source} scores"
            self.calibration_ = dots(faint, y, c=GREY, alpha=0.4, zorder=1, label=label)

        # Rows stand on the middle line of their task, calibration scores hang below it.
        y = self.codes - _stack(x, self.codes, width)
        label = f"alarm ({np.count_nonzero(alarm)} of {len(alarm)})"
        near = alarm & ~far
        self.normal_ = dots(
            x[~alarm], y[~alarm], c=BLUE, marker="o", zorder=2, label="accepted"
        )
        self.alarm_ = dots(
            x[near], y[near], c=VERMILION, marker="D", zorder=3, label=label
        )
        self.far_: PathCollection | None = None
        if far.any():
            self.far_ = dots(x[far], y[far], c=VERMILION, marker="<", zorder=3)

        ink = ax.xaxis.label.get_color()  # readable on a dark background, too
        line: Look = {
            "colors": ink,
            "linewidths": 1.5,
            "label": "threshold",
            "zorder": 4,
        }
        line |= line_kwargs or {}
        self.threshold_ = ax.vlines(
            self.offset[drawn], drawn - _HALF_ROW, drawn + _HALF_ROW, **line
        )
        self._label(ax, alarm)
        if legend:
            ax.legend(
                ncols=4,
                frameon=False,
                handletextpad=0.3,
                columnspacing=1.2,
                loc="lower center",
                bbox_to_anchor=(0.5, 1.0),
            )
        return self

    def _label(self, ax: Axes, alarm: Mask) -> None:
        """Labels, limits, and how many rows of each task raise an alarm."""
        k = len(self.labels)
        more = "" if self.far_ is None else "; triangles: lower still"
        xlabel = f"score (higher is more normal{more})"
        ax.set(xlabel=xlabel, ylabel="task", ylim=(k - 0.45, -0.55))
        ax.set_yticks(np.arange(k), [str(label) for label in self.labels.tolist()])
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", color="0.9", linewidth=1)
        ax.set_axisbelow(True)
        ax.spines[["top", "right", "left"]].set_visible(False)
        if k == 1:
            return
        rows = np.bincount(self.codes, minlength=k)
        raised = np.bincount(self.codes[alarm], minlength=k)
        for t in range(k):
            ax.text(
                1.01,
                t,
                f"{raised[t]} of {rows[t]}",
                color=VERMILION if raised[t] else "0.4",
                transform=ax.get_yaxis_transform(),
                va="center",
                fontsize="small",
            )


def _stack(x: Array, tasks: Codes, width: float) -> Array:
    """Heights in (0, 0.4] that keep dots of one task apart, as in a dot plot."""
    column = np.floor((x - np.min(x, initial=np.inf)) / width).astype(np.intp)
    seen: Counter[tuple[int, int]] = Counter()
    height = np.empty(len(x))
    for i, place in enumerate(zip(tasks.tolist(), column.tolist(), strict=True)):
        seen[place] += 1
        height[i] = seen[place]
    return height * min(0.11, _HALF_ROW / height.max(initial=1.0))
