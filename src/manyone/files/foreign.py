"""Steps of pipelines from other packages, stored by skops and checked here."""

from __future__ import annotations

import io
import types
import zipfile
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from manyone.files.errors import ModelFileError

# What estimators may hold, beside other estimators, arrays and containers. (skops lets
# only trusted functions and types pass.)
_PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, slice, type),
    *(types.FunctionType, np.ufunc, np.generic, np.dtype),
    *(np.random.RandomState, np.random.Generator),
)

# Types that skops does not trust, but that are checked here or hold nothing.
_HARMLESS = tuple(
    f"{cls.__module__}.{cls.__qualname__}"
    for cls in (np.dtype, sparse.csr_array, sparse.csc_array, sparse.csr_matrix)
)


def packed(estimators: list[object], trusted: Sequence[str]) -> bytes:
    """Estimators as the bytes of a skops archive.

    Parameters
    ----------
    estimators : list
    trusted : sequence of str
        Full names of types that the caller trusts beside those that skops does.

    Raises
    ------
    ValueError
        If they cannot be stored, or hold a type that is not trusted.
    """
    skops_io = _skops()
    names = ", ".join(sorted({type(estimator).__name__ for estimator in estimators}))
    try:
        content: bytes = skops_io.dumps(estimators)
    except RecursionError:
        raise ValueError(
            f"one of its steps ({names}) refers to itself, as a foreign step with "
            "metadata requests does (set_fit_request and the like). Save it without "
            "them"
        ) from None
    untrusted = _untrusted(content, trusted)
    if untrusted:
        raise ValueError(
            f"one of its steps ({names}) holds {untrusted}, which load() would refuse. "
            "Remove it, or, if you know it, pass trusted=[...] here and there"
        )
    _check_parts(estimators, frozenset(trusted))
    return content


def unpacked(content: bytes, trusted: Sequence[str]) -> list[object]:
    """Estimators from the bytes of a skops archive, each checked.

    Raises
    ------
    ModelFileError
        If the archive is compressed, or holds a type that is not trusted.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as members:
        for member in members.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ModelFileError("one of its steps is compressed")
            if member.file_size != member.compress_size:
                raise ModelFileError("one of its steps unpacks to more than it is")
    untrusted = _untrusted(content, trusted)
    if untrusted:
        raise ModelFileError(
            f"one of its steps holds types that are not trusted: {untrusted}. Load it "
            "only if you know where it comes from, with load(path, trusted=[...])"
        )
    estimators = _skops().loads(content, trusted=[*_HARMLESS, *trusted])
    if type(estimators) is not list:
        raise ModelFileError("its steps are no list")
    _check_parts(estimators, frozenset(trusted))
    return estimators


def _check_parts(estimators: list[object], trusted: frozenset[str]) -> None:
    """Raise if a part of an estimator, at any depth, may do harm."""
    waiting = list(estimators)
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        waiting.extend(_parts(part, trusted))


def _parts(part: Any, trusted: frozenset[str]) -> Iterable[object]:
    """The parts of a part of an estimator; raises if it may do harm."""
    kind = type(part)
    if isinstance(part, _PLAIN):
        return ()
    if sparse.issparse(part):
        part.check_format(full_check=True)
        return ()
    if isinstance(part, np.ndarray):
        return part.ravel().tolist() if part.dtype == object else ()
    if isinstance(part, dict):
        return [*part.keys(), *part.values()]
    if isinstance(part, list | tuple | set | frozenset):
        return part
    if isinstance(part, Pipeline) and part.memory is not None:
        raise ModelFileError(
            "a Pipeline in it has memory=..., from which code would run"
        )
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(part, BaseEstimator) or name in trusted:
        return list(vars(part).values()) if hasattr(part, "__dict__") else ()
    raise ModelFileError(f"one of its steps holds a {name}, which cannot be checked")


def _untrusted(content: bytes, trusted: Sequence[str]) -> str:
    """Names of the types in an archive that neither skops nor the caller trusts."""
    names = set(_skops().get_untrusted_types(data=content)) - {*_HARMLESS, *trusted}
    return ", ".join(sorted(names))


def _skops() -> types.ModuleType:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            "Saving and loading steps of other packages needs skops: pip install "
            "'.[io]' in the checkout of manyone."
        ) from error
    return skops.io
