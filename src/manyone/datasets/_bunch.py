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
    data: NDArray[Any],
    target: NDArray[Any],
    target_names: NDArray[Any],
    return_X_y: bool,
    **fields: Any,
) -> Loaded:
    """``(data, target)`` or a Bunch of everything; ``target_names[target]`` names the tasks."""
    data, target = data.astype(np.float64, copy=False), target.astype(np.intp)
    if return_X_y:
        return data, target
    return Bunch(data=data, target=target, target_names=target_names, **fields)


def image_bunch(
    images: NDArray[np.uint8],
    target: NDArray[Any],
    target_names: NDArray[Any],
    return_X_y: bool,
    **fields: Any,
) -> Loaded:
    """Bunch of grey images (n, h, w): ``data`` is flattened and scaled to [0, 1]."""
    data = images.reshape(len(images), -1) / 255.0
    return bunch(data, target, target_names, return_X_y, images=images, **fields)


def choose(name: str, value: Any, options: tuple[Any, ...]) -> None:
    """Raise ValueError unless `value` is one of `options`."""
    if value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}.")
