"""Compare values with the kinds that annotations declare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from manyone._types import Array

#: An array of whatever type.
AnyArray = NDArray[Any]
#: What an annotation is, once it has been evaluated.
Hint = Any
_LARGEST = 2**63


def fits(value: object, hint: Hint) -> bool:
    """Whether a value is of the kind that an annotation declares.

    Parameters
    ----------
    value : object
    hint : type, union or generic alias
        An annotation after evaluation. Of a protocol only the members are compared.

    Returns
    -------
    bool

    Raises
    ------
    TypeError
        If an annotation has a form that this function does not know.
    """
    if hint is Any or hint is object:
        return True
    if hint is None or hint is NoneType:
        return value is None
    if isinstance(hint, type) and get_origin(hint) is None:
        return _is_a(value, hint)
    arguments = get_args(hint)
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(fits(value, option) for option in arguments)
    if origin is Literal:
        return value in arguments
    if origin is np.ndarray:
        (scalar,) = get_args(arguments[1])
        return isinstance(value, np.ndarray) and (
            scalar is Any or np.issubdtype(value.dtype, scalar)
        )
    if origin is Callable:
        return False  # no file holds a function
    if origin is tuple and arguments[-1] is not Ellipsis:
        return (
            isinstance(value, tuple)
            and len(value) == len(arguments)
            and all(map(fits, value, arguments))
        )
    if origin in (list, tuple, Sequence):
        if not isinstance(value, list | tuple):
            return False
        is_kind = origin in (Sequence, type(value))
        return is_kind and all(fits(item, arguments[0]) for item in value)
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(
            fits(key, arguments[0]) and fits(item, arguments[1])
            for key, item in value.items()
        )
    raise TypeError(f"{hint!r} is no annotation that a file can be compared with.")


def _is_a(value: object, kind: type) -> bool:
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind is float and isinstance(value, float | np.floating):
        return True
    if kind in (int, float):
        if not isinstance(value, int) or isinstance(value, bool):
            return isinstance(value, np.integer)
        return -_LARGEST <= value < _LARGEST
    if getattr(kind, "_is_protocol", False):
        return _has_members(type(value), kind)
    return isinstance(value, kind)


def _has_members(cls: type, protocol: type) -> bool:
    """Whether a class, or a field of its dataclass, has every member of a protocol."""
    parts = [part for part in protocol.__mro__ if getattr(part, "_is_protocol", False)]
    members = {name for part in parts for name in vars(part) if name[0] != "_"}
    fields = getattr(cls, "__dataclass_fields__", {})
    return all(hasattr(cls, name) or name in fields for name in members)


#: Rows are dense or sparse; the packages that take them say ``Any``.
ROWS: Hint = Array | sparse.csr_array | sparse.csr_matrix
