"""What the loaders have in common."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from manyone._types import Array, Codes

from ._cache import SOURCES

Loaded: TypeAlias = Bunch | tuple[Array, Codes]


def bunch(
    name: str, data: NDArray[Any], target: NDArray[Any], tasks: Any, only_X_y: bool, **fields: Any
) -> Loaded:
    """``(data, target)`` or a Bunch of everything; ``target_names[target]`` names the tasks.

    Grey images (n, h, w) become rows in [0, 1], and are kept as ``images``; ``DESCR`` is what
    `SOURCES` says about the data set `name`.
    """
    if data.ndim == 3:
        fields["images"] = data
        data = data.reshape(len(data), -1) / 255.0
    data, target = data.astype(np.float64, copy=False), target.astype(np.intp)
    if only_X_y:
        return data, target
    fields |= {"target_names": np.array(tasks), "DESCR": SOURCES[name].about}
    return Bunch(data=data, target=target, **fields)


def numbered(word: str, last: int) -> list[str]:
    """``word1`` to ``word<last>``."""
    return [f"{word}{number}" for number in range(1, last + 1)]


def choose(name: str, value: Any, options: tuple[Any, ...]) -> None:
    """Raise ValueError unless `value` is one of `options`."""
    if value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}.")
