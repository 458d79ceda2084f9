"""Evidence that tasks drift, for rows in the order of time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from manyone._types import Array, Labels
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

# Of the tasks with the most evidence, which the legend names.
_COLOURS = (VERMILION, BLUE, GREEN, PURPLE, ORANGE, SKY)


class Watched(Protocol):
    """What is drawn of a result of ``Monitor.update``."""

    @property
    def evidence(self) -> Array:
        """Natural logarithm of the evidence that the task of each row drifts."""


@dataclass(eq=False, repr=False)
class DriftDisplay(Display):
    """Evidence that tasks drift, row by row: conformal test martingales.

    Make one with `from_watched`; the constructor only stores.

    Parameters
    ----------
    paths : list of k ndarrays
        Logarithm (base 10) of the evidence after each row of a task.
    labels : list of k labels
    drift_level : float
        Probability of a false flag: it is raised where the evidence reaches one over
        it.

    Attributes
    ----------
    lines_ : list of Line2D
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> from manyone import DriftDisplay
    >>> display = DriftDisplay([[0.0, 0.4, 2.3], [0.0, -0.1]], labels=["a", "b"])
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
            Task of each row, of all results one after the other; None if there is only
            one.
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

    def plot(self, ax: Axes | None = None, *, legend: bool = True) -> Self:
        """Draw one line per task; flagged ones are thick, the clearest in colour.

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
        # In the colour of the labels, which suits light and dark backgrounds.
        ax.axhline(
            level,
            color=ax.xaxis.label.get_color(),
            lw=1,
            ls="--",
            label=f"flag (false with probability {self.drift_level:g})",
        )
        ax.set(xlabel="row of the task", ylabel="evidence for drift (powers of 10)")
        ax.spines[["top", "right"]].set_visible(False)
        if legend:
            ax.legend(frameon=False, loc="best", fontsize="small")
        return self
