"""What a figure shows, as plain data. `png` draws it for files, `interactive` for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manyone.files import toml_beside

#: Colours and constants of both drawings.
LOOK = toml_beside(__file__, "look.toml")
#: Colours of the page by name, for light and for dark surroundings.
THEMES: dict[str, dict[str, str]] = LOOK["themes"]
#: Colours of curves.
COLOURS: tuple[str, ...] = tuple(LOOK["curves"])
#: Shapes of markers, for people who cannot tell all colours apart.
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down")

_MOST_TICKS = 12
_LONGEST_TICK = 10


@dataclass(frozen=True)
class Axis:
    """A coordinate axis.

    Attributes
    ----------
    label : str
    log, reverse, percent, whole : bool
        Logarithmic; from large to small; shares to be written in percent; whole numbers.
    limits : sequence of two floats or None
    names : tuple of str
        Names of the values 0, 1, ...; empty where values are numbers.
    """

    label: str
    log: bool = False
    reverse: bool = False
    percent: bool = False
    whole: bool = False
    limits: Sequence[float] | None = None
    names: tuple[str, ...] = ()

    def write(self, value: float) -> str:
        """A value as a reader wants to see it."""
        if self.names:
            return self.names[round(value)]
        if self.percent:
            return f"{100 * value:.1f} %"
        return f"{value:g}" if self.log or value == round(value) else f"{value:.4g}"


@dataclass(frozen=True)
class Curve:
    """Points, joined or not.

    Attributes
    ----------
    x, y : tuple of float
        NaN leaves a gap.
    name : str
        Entry of the legend; empty for what needs none.
    group : str
        Heading in the legend.
    colour : str
        ``#rrggbb``, or a name in `THEMES`.
    symbol : str
        One of `SYMBOLS`, ``"bar"`` (an upright stroke), or empty.
    line : {"", "solid", "dotted"}
    width : float
        Of the line.
    error : tuple of float
        Half the length of a bar along x at each point; empty for none.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    name: str = ""
    group: str = ""
    colour: str = "soft"
    symbol: str = ""
    line: str = "solid"
    width: float = 1.6
    error: tuple[float, ...] = ()


@dataclass(frozen=True)
class Matrix:
    """A square matrix shown as colours.

    Attributes
    ----------
    values : ndarray of shape (m, m)
    names : tuple of str
        What row and column k stand for, shown when one points at them.
    ticks : tuple of (float, str)
        Position and label of ticks on both axes.
    low, high : float
        Range of the colours; values beyond it take the last one.
    """

    values: NDArray[np.float64]
    names: tuple[str, ...]
    ticks: tuple[tuple[float, str], ...]
    low: float
    high: float

    @property
    def shades(self) -> tuple[str, ...]:
        """Names in `THEMES` of the colours from `low` to `high`."""
        return ("low", "middle", "high") if self.low < 0 else ("middle", "high")


@dataclass(frozen=True)
class Panel:
    """One pair of axes with curves or a matrix."""

    title: str
    x: Axis
    y: Axis
    content: tuple[Curve, ...] | Matrix

    @property
    def curves(self) -> tuple[Curve, ...]:
        """The curves; none if it shows a matrix."""
        return () if isinstance(self.content, Matrix) else self.content


@dataclass(frozen=True)
class Chart:
    """A figure.

    Attributes
    ----------
    name : str
        Of its file and its place on the page.
    title, caption : str
    panels : tuple of Panel
    size : tuple of float
        Width and height of a panel in inches.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    size: tuple[float, float] = (5.2, 4.0)

    @property
    def legend(self) -> dict[str, list[Curve]]:
        """One curve for each entry of the legend, by heading; none if the titles are enough."""
        groups: dict[str, dict[str, Curve]] = {}
        for panel in (panel for panel in self.panels if len(panel.curves) > 1):
            for curve in (curve for curve in panel.curves if curve.name):
                groups.setdefault(curve.group, {}).setdefault(curve.name, curve)
        return {group: [*curves.values()] for group, curves in groups.items()}


def task_matrix(
    values: NDArray[np.float64], names: list[str], rows: int = 1, *, signed: bool
) -> Matrix:
    """A matrix over tasks, or over their rows.

    Parameters
    ----------
    values : ndarray of shape (T * rows, T * rows)
    names : list of str
        The T tasks.
    rows : int
        Consecutive rows that belong to each task.
    signed : bool
        Whether colours tell more from less than 0, with a range that leaves out the diagonal;
        else they go from 0 to the largest value.

    Returns
    -------
    Matrix
    """
    step = -(-len(names) // _MOST_TICKS)
    short = [
        n if len(n) <= _LONGEST_TICK else f"{n[: _LONGEST_TICK - 1]}…" for n in names
    ]
    ticks = tuple(
        (rows * t + (rows - 1) / 2, short[t]) for t in range(0, len(names), step)
    )
    full = (
        names
        if rows == 1
        else [f"{name}, row {k + 1}" for name in names for k in range(rows)]
    )
    rest = values[~np.eye(len(values), dtype=bool)] if signed else values
    top = float(np.abs(rest).max(initial=0.0)) or float(np.abs(values).max()) or 1.0
    return Matrix(values, tuple(full), ticks, -top if signed else 0.0, top)
