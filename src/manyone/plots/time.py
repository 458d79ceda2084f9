"""Rows in the order of time: the alarm rate against the promise, and the evidence for drift."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from manyone._types import Array, Labels, Mask
from manyone.data.labels import as_labels
from manyone.plots.axes import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Display,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAND = 0.95
# Of the tasks with the most evidence, which the legend names.
_COLOURS = (VERMILION, BLUE, GREEN, PURPLE, ORANGE, SKY)


class Watched(Protocol):
    """What is drawn of a result of ``Monitor.update``."""

    @property
    def evidence(self) -> Array:
        """Natural logarithm of the evidence that the task of each row drifts."""


@dataclass(eq=False, repr=False)
class RateDisplay(Display):
    """Measured alarm rate over time, against the promised one.

    Make one with `from_predictions`; the constructor only stores.

    Parameters
    ----------
    alarm : ndarray of bool of shape (n,)
        Of rows in the order of time, best of those known to be normal.
    rate : float
        Promised.
    window : int
        Rows that each measured rate is a mean over.

    Attributes
    ----------
    line_ : Line2D
        Measured rates.
    band_ : PolyCollection
        Where 95 % of measured rates lie if the promise is kept and rows are independent.
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import RateDisplay
    >>> alarm = np.random.default_rng(0).random(1000) < 0.1
    >>> display = RateDisplay.from_predictions(alarm, rate=0.1)
    >>> len(display.measured)
    901
    """

    alarm: Mask
    _: KW_ONLY
    rate: float
    window: int

    @property
    def measured(self) -> Array:
        """Mean over each window of rows, shape (n - window + 1,)."""
        total = np.concatenate([[0.0], np.cumsum(self.alarm)])
        return (total[self.window :] - total[: -self.window]) / self.window

    @property
    def band(self) -> tuple[float, float]:
        """Range in which a measured rate is to be expected."""
        low, high = binom(self.window, self.rate).interval(_BAND)
        return float(low) / self.window, float(high) / self.window

    @classmethod
    def from_predictions(
        cls, alarm: ArrayLike, *, rate: float, window: int | None = None, **kwargs: Any
    ) -> Self:
        """Draw given alarms, such as those of a `Monitor`.

        Parameters
        ----------
        alarm : array-like of bool of shape (n,)
            In the order of time.
        rate : float
            Promised.
        window : int or None
            Rows to take the mean over. None: a tenth of them, 20 to 1,000.
        **kwargs
            Passed to `plot`.

        Returns
        -------
        RateDisplay
        """
        raised = np.asarray(alarm, dtype=bool)
        if raised.ndim != 1 or not len(raised):
            raise ValueError(
                f"alarm must be one value per row; got shape {raised.shape}."
            )
        if not 0 < rate < 1:
            raise ValueError(f"rate must lie between 0 and 1; got {rate!r}.")
        size = int(np.clip(len(raised) // 10, 20, 1000)) if window is None else window
        window = min(max(size, 1), len(raised))
        return cls(raised, rate=rate, window=window).plot(**kwargs)

    def plot(self, ax: Axes | None = None, *, legend: bool = True) -> Self:
        """Draw the measured rate, the promise and its band.

        Parameters
        ----------
        ax : Axes or None
        legend : bool, default=True

        Returns
        -------
        self
        """
        ax = self._open(ax, (7.0, 3.2))
        x = np.arange(self.window, len(self.alarm) + 1)
        low, high = self.band
        self.band_ = ax.fill_between(
            [1, len(self.alarm)],
            low,
            high,
            color=GREY,
            alpha=0.25,
            lw=0,
            label="expected (95 %)",
        )
        _dashed(ax, self.rate, f"promised, {100 * self.rate:g} %")
        label = f"measured over {self.window} rows"
        (self.line_,) = ax.plot(x, self.measured, color=BLUE, lw=1.6, label=label)
        ax.set(
            xlabel="row", ylabel="alarm rate", ylim=(0, None), xlim=(1, len(self.alarm))
        )
        ax.yaxis.set_major_formatter(lambda rate, _: f"{100 * rate:g} %")
        _open_spines(ax, legend)
        return self


@dataclass(eq=False, repr=False)
class DriftDisplay(Display):
    """Evidence that tasks drift, row by row: conformal test martingales.

    Make one with `from_watched` or `from_predictions`; the constructor only stores.

    Parameters
    ----------
    paths : list of k ndarrays
        Logarithm (base 10) of the evidence after each row of a task.
    labels : list of k labels
    drift_level : float
        Probability of a false flag: it is raised where the evidence reaches one over it.

    Attributes
    ----------
    lines_ : list of Line2D
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> from manyone import DriftDisplay
    >>> display = DriftDisplay.from_predictions([[0.0, 0.4, 2.3], [0.0, -0.1]], labels=["a", "b"])
    >>> display.flagged
    ['a']
    """

    paths: Sequence[Array]
    _: KW_ONLY
    labels: Sequence[Hashable]
    drift_level: float = 0.01

    @property
    def flagged(self) -> list[Hashable]:
        """Tasks whose evidence has reached the level."""
        most = -np.log10(self.drift_level)
        pairs = zip(self.labels, self.paths, strict=True)
        return [label for label, path in pairs if np.max(path, initial=-np.inf) >= most]

    @classmethod
    def from_watched(
        cls,
        watched: Watched | list[Watched] | tuple[Watched, ...],
        *,
        task: object = None,
        drift_level: float = 0.01,
        **kwargs: Any,
    ) -> Self:
        """Draw the results of a `Monitor`.

        Parameters
        ----------
        watched : result of ``Monitor.update``, or a list of them
        task : array-like of shape (n,) or None
            Task of each row, of all results one after the other; None if there is only one.
        drift_level : float, default=0.01
            That of the monitor.
        **kwargs
            Passed to `plot`.

        Returns
        -------
        DriftDisplay
        """
        results = watched if isinstance(watched, list | tuple) else [watched]
        evidence = np.concatenate([result.evidence for result in results])
        evidence /= np.log(10.0)
        names: Labels = np.zeros(len(evidence), dtype=int)
        if task is not None:
            names = as_labels(task)
        if len(names) != len(evidence):
            raise ValueError(
                f"{len(evidence)} rows but {len(names)} tasks: give one per row."
            )
        counted = ~np.isnan(evidence)
        labels = sorted(set(names[counted].tolist()), key=str)
        paths = [evidence[counted & (names == label)] for label in labels]
        return cls(paths, labels=labels, drift_level=drift_level).plot(**kwargs)

    @classmethod
    def from_predictions(
        cls,
        paths: Sequence[ArrayLike],
        *,
        labels: Sequence[Hashable] | None = None,
        drift_level: float = 0.01,
        **kwargs: Any,
    ) -> Self:
        """Draw given evidence.

        Parameters
        ----------
        paths : list of k array-likes
            Logarithm (base 10) of the evidence after each row of a task.
        labels : list of k labels or None
        drift_level : float, default=0.01
        **kwargs
            Passed to `plot`.

        Returns
        -------
        DriftDisplay
        """
        values = [np.asarray(path, dtype=np.float64) for path in paths]
        names = list(range(len(values))) if labels is None else list(labels)
        if len(names) != len(values):
            raise ValueError(
                f"{len(values)} paths but {len(names)} labels: give one for each."
            )
        return cls(values, labels=names, drift_level=drift_level).plot(**kwargs)

    def plot(self, ax: Axes | None = None, *, legend: bool = True) -> Self:
        """Draw one line per task; flagged ones are thick, the clearest of these in colour.

        Parameters
        ----------
        ax : Axes or None
        legend : bool, default=True

        Returns
        -------
        self
        """
        ax = self._open(ax, (7.0, 3.2))
        level = -np.log10(self.drift_level)
        most = np.array([np.max(path, initial=-np.inf) for path in self.paths])
        rank = np.argsort(np.argsort(-most, kind="stable"))
        self.lines_ = []
        for label, path, place, drifts in zip(
            self.labels, self.paths, rank, most >= level, strict=True
        ):
            named = drifts and place < len(_COLOURS)
            name = f"{label} drifts, flagged at row {np.argmax(path >= level) + 1}"
            self.lines_ += ax.plot(
                np.arange(1, len(path) + 1),
                path,
                color=_COLOURS[place] if named else GREY,
                lw=1.6 if drifts else 0.8,
                label=name if named else None,
                zorder=2 + drifts + named,
            )
        _dashed(ax, level, f"flag (false with probability {self.drift_level:g})")
        ax.set(xlabel="row of the task", ylabel="evidence for drift (powers of 10)")
        _open_spines(ax, legend)
        return self


def _dashed(ax: Axes, height: float, label: str) -> None:
    """A line in the colour of the labels, which suits light and dark backgrounds."""
    ax.axhline(height, color=ax.xaxis.label.get_color(), lw=1, ls="--", label=label)


def _open_spines(ax: Axes, legend: bool) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    if legend:
        ax.legend(frameon=False, loc="best", fontsize="small")
