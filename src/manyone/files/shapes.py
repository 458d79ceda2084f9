"""Checks that sizes in a loaded value agree, and that numbers are in range.

A rule is a short text beside the name of a field:

==================  ==============================================================
``"n T"``           an array of n rows and T columns; equal names are equal sizes
``"T+1"``           one more than T
``"n!"``            at least one
``"2"``             two
``"n in T"``        numbers from 0 to T - 1
``"n in T or -1"``  the same, or -1
``"T+1 starts n"``  from 0 upwards, to n at most
``"= T"``           an integer that is T itself
==================  ==============================================================

The rule of a field that holds other values names the sizes that both share, ``"n d=D"``
where the size d here is called D there. Without a rule they share T (tasks) and d
(columns).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from manyone.files.errors import ModelFileError
from manyone.files.kinds import AnyArray

#: Sizes by name.
Sizes = dict[str, int]
#: Sizes that a value shares with the values it holds, unless a rule says otherwise.
SHARED = "T d"
# The one size of which the larger counts: values that a new row has to bring.
NEEDED = "needed"


def check_array(name: str, shape: Sequence[int], rule: str, sizes: Sizes) -> None:
    """Refuse an array of another shape; sizes that are new become known.

    Parameters
    ----------
    name : str
        Of the field, for the message.
    shape : sequence of int
    rule : str
    sizes : dict
        Changed in place.
    """
    axes = re.split(" in | starts ", rule)[0].split()
    if len(shape) != len(axes):
        raise ModelFileError(f"{name} has {len(shape)} axes, not {len(axes)}")
    for axis, length in zip(axes, shape, strict=True):
        label, _, more = axis.partition("+")
        size = length - int(more or 0)
        if label.endswith("!") and size < 1:
            raise ModelFileError(f"{name} is empty")
        label = label.rstrip("!")
        wanted = int(label) if label.isdigit() else sizes.setdefault(label, size)
        if size < 0 or size != wanted:
            raise ModelFileError(f"{name} has {length} values where {axis}={wanted}")


def check_numbers(name: str, array: AnyArray, rule: str, sizes: Sizes) -> None:
    """Refuse numbers of an array that are out of range, once all sizes are known."""
    words = rule.split()
    if "in" in words:
        lowest = -1 if words[-1] == "-1" else 0
        label = words[words.index("in") + 1]
        if array.size and not lowest <= array.min() <= array.max() < sizes[label]:
            raise ModelFileError(f"{name} has numbers beyond {label}={sizes[label]}")
    if "starts" in words:
        end = sizes[words[-1]]
        if array[0] != 0 or np.any(np.diff(array) < 0) or array[-1] > end:
            raise ModelFileError(f"{name} does not go from 0 upwards to {end} at most")


def check_integer(name: str, value: int, rule: str, sizes: Sizes) -> None:
    """Refuse an integer that is not the size it stands for."""
    label = rule.removeprefix("= ")
    if value < 0 or value != sizes.setdefault(label, value):
        raise ModelFileError(f"{name} is {value} where {label}={sizes[label]}")


def share(name: str, inner: Mapping[str, int], rule: str, sizes: Sizes) -> None:
    """Refuse a value inside another whose sizes differ from those that they share."""
    for word in rule.split():
        here, _, there = word.partition("=")
        size = inner.get(there or here)
        if size is not None and size != sizes.setdefault(here, size):
            raise ModelFileError(f"{name} has {here}={size}, not {sizes[here]}")
    sizes[NEEDED] = max(sizes.get(NEEDED, 0), inner.get(NEEDED, 0))
