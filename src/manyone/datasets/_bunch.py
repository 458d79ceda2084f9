"""What the loaders have in common."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

Loaded: TypeAlias = Bunch | tuple[NDArray[np.float64], NDArray[np.intp]]
PathLike: TypeAlias = str | os.PathLike[str] | None


def bunch(
    data: NDArray[Any], target: NDArray[Any], names: Any, return_X_y: bool, **fields: Any
) -> Loaded:
    """``(data, target)`` or a Bunch of everything; ``target_names[target]`` names the tasks.

    Grey images (n, h, w) become rows in [0, 1], and are kept as ``images``.
    """
    if data.ndim == 3:
        fields["images"] = data
        data = data.reshape(len(data), -1) / 255.0
    data, target = data.astype(np.float64, copy=False), target.astype(np.intp)
    if return_X_y:
        return data, target
    return Bunch(data=data, target=target, target_names=np.array(names), **fields)


def numbered(word: str, last: int) -> list[str]:
    """``word1`` to ``word<last>``."""
    return [f"{word}{number}" for number in range(1, last + 1)]


def choose(name: str, value: Any, options: tuple[Any, ...]) -> None:
    """Raise ValueError unless `value` is one of `options`."""
    if value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}.")
