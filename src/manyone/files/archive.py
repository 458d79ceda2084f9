r"""The format of models and states: plain arrays and a tree of plain values.

A file has four parts::

    manyone archive 4\n                          the number of the format
    {"kind": "model", ..., "sha256": "..."}\n    versions, sizes, checksum of the rest
    {"root": ..., "objects": ..., ...}           the tree, in JSON
    (bytes)                                      the arrays, one after the other

Types go by registry name (:mod:`manyone.files.registry`). Nothing is compressed, so
that no more memory is needed than a file is large. Every array and every value is
checked before it is used.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import stat
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from manyone.files import foreign
from manyone.files.errors import ModelFileError
from manyone.files.kinds import AnyArray
from manyone.files.registry import entry_of
from manyone.files.tree import Json, Reader, Writer
from manyone.files.writing import written_beside

#: Number of the format. Whatever changes the bytes of files gets a new one.
FORMAT = 4
_MAGIC = b"manyone archive "
_LONGEST_LINE = 4096
# Beginnings of files of earlier versions.
_EARLIER = (b'{"format": "manyone ', b"manyone monitor state ")
_DTYPE = re.compile(r"\|b1|[|<][iuf][1248]|<U[1-9]\d{0,8}|<[mM]8\[[a-zA-Z]{1,2}\]")
# Packages whose versions are in the header.
_PACKAGES = ("manyone", "scikit-learn", "numpy", "scipy")

#: Dtype, shape and order of an array.
Layout = tuple[np.dtype[np.generic], tuple[int, ...], Literal["C", "F"]]


def dumps(kind: str, value: object) -> bytes:
    """A value as the bytes of a file.

    Parameters
    ----------
    kind : str
        What the file is for, such as ``"model"``.
    value : object
        A registered dataclass or estimator; it may hold others, arrays, sparse arrays,
        numbers, texts, lists, tuples and dicts, and, as estimators, steps of other
        packages.

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        If a file cannot hold it; the message says what is in the way.
    """
    return b"".join(_pieces(kind, value, ()))


def loads(data: bytes, kind: str) -> object:
    """The value in the bytes of a file.

    Parameters
    ----------
    data : bytes
    kind : str
        What the file must be for.

    Raises
    ------
    ModelFileError
        If they are damaged, forged, or of another format.
    """
    return _read(io.BytesIO(data), len(data), f"This {kind}", kind, ())


def save(
    path: str | os.PathLike[str],
    kind: str,
    value: object,
    *,
    trusted: Sequence[str] = (),
) -> None:
    """Write a value to a file, whole or not at all; see `dumps`.

    `trusted` are full names of further types that steps of other packages may hold.
    """
    pieces = _pieces(kind, value, trusted)
    with written_beside(Path(path)) as stream:
        for piece in pieces:
            stream.write(piece)


def load(
    path: str | os.PathLike[str], kind: str, *, trusted: Sequence[str] = ()
) -> object:
    """Read a value from a file; see `loads`."""
    size = _size_of(path)
    with open(path, "rb") as stream:
        return _read(stream, size, str(path), kind, trusted)


def read_header(path: str | os.PathLike[str], kind: str) -> dict[str, Json]:
    """The header of a file: kind, versions, type, sizes, checksum."""
    _size_of(path)
    with open(path, "rb") as stream:
        return _header(stream, str(path), kind)


# ------------------------------------------------------------------------------ writing


def _pieces(
    kind: str, value: object, trusted: Sequence[str]
) -> list[bytes | memoryview]:
    """The parts of a file, in their order."""
    writer = Writer()
    root = writer.tree(value)
    member = None
    if writer.foreign:
        packed = foreign.packed(writer.foreign, trusted)
        writer.arrays.append(np.frombuffer(packed, dtype=np.uint8))
        member = len(writer.arrays) - 1
    arrays = [_plain(array) for array in writer.arrays]
    # Raise now if the file could not be loaded later.
    _built(root, writer.objects, Reader(arrays, writer.foreign))
    # Arrays keep their order in memory: products round differently in the other order.
    layouts = [
        [array.dtype.str, list(array.shape), "C" if array.flags.c_contiguous else "F"]
        for array in arrays
    ]
    tree = {
        "root": root,
        "objects": writer.objects,
        "arrays": layouts,
        "foreign": member,
    }
    text = json.dumps(tree, separators=(",", ":")).encode()
    body: list[bytes | memoryview] = [text, *map(_bytes_of, arrays)]
    digest = hashlib.sha256()
    for piece in body:
        digest.update(piece)
    entry = entry_of(type(value))
    header = {
        "kind": kind,
        "type": type(value).__name__ if entry is None else entry.name,
        **{name: version(name) for name in _PACKAGES},
        "tree": len(text),
        "bytes": sum(len(piece) for piece in body),
        "sha256": digest.hexdigest(),
    }
    lines = b"%s%d\n%s\n" % (_MAGIC, FORMAT, json.dumps(header).encode())
    return [lines, *body]


def _plain(array: AnyArray) -> AnyArray:
    """An array as a file holds it: contiguous and little-endian."""
    dtype = array.dtype.newbyteorder("<")
    if dtype.kind == "U" and dtype.itemsize == 0:
        dtype = np.dtype("<U1")
    if not _DTYPE.fullmatch(dtype.str):
        raise ValueError(f"it holds an array of type {array.dtype}")
    if array.flags.c_contiguous or array.flags.f_contiguous:
        return np.asarray(array, dtype=dtype)
    return np.ascontiguousarray(array, dtype=dtype)


def _bytes_of(array: AnyArray) -> memoryview:
    if not array.size:
        return memoryview(b"")
    content: NDArray[np.uint8] = array.ravel(order="K").view(np.uint8)
    return content.data


# ------------------------------------------------------------------------------ reading


def _size_of(path: str | os.PathLike[str]) -> int:
    """Size of a file; raises for devices and pipes, which have no end."""
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(21, "is a folder", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise ModelFileError(f"{path} is no regular file. Copy it to a file first.")
    return status.st_size


def _read(
    stream: io.BufferedIOBase, size: int, name: str, kind: str, trusted: Sequence[str]
) -> object:
    header = _header(stream, name, kind)
    begin = stream.tell()
    digest = hashlib.sha256()
    while chunk := stream.read(2**20):
        digest.update(chunk)
    is_whole = size - begin == header["bytes"] >= header["tree"] > 0
    if not is_whole or digest.hexdigest() != header["sha256"]:
        raise ModelFileError(
            f"{name} is damaged: its bytes do not match its checksum. Copy it again."
        )
    stream.seek(begin)
    try:
        tree = json.loads(stream.read(header["tree"]))
        layouts = _layouts(tree["arrays"], header["bytes"] - header["tree"])
        arrays = [_read_array(stream, layout) for layout in layouts]
        steps = []
        if tree["foreign"] is not None:
            member = arrays[tree["foreign"]]
            if member.dtype != np.uint8:
                raise ModelFileError("its steps are no bytes")
            steps = foreign.unpacked(member.tobytes(), trusted)
        return _built(tree["root"], tree["objects"], Reader(arrays, steps))
    except ImportError:
        raise
    except Exception as error:
        why = " ".join(str(error).split()).rstrip(".")
        if not isinstance(error, ModelFileError):
            why = f"{type(error).__name__}: {why}"
        raise ModelFileError(
            f"{name} cannot be read: {why}. Make it again with this version of manyone."
        ) from error


def _header(stream: io.BufferedIOBase, name: str, kind: str) -> dict[str, Json]:
    """The header of a file; raises if it is of another kind or format."""
    line = stream.readline(_LONGEST_LINE)
    again = f"This manyone ({version('manyone')}) reads format {FORMAT}."
    if line.startswith(_EARLIER):
        raise ModelFileError(
            f"{name} has a format of an earlier manyone. {again} Fit the model again "
            "and save it."
        )
    number = line.removeprefix(_MAGIC).strip()
    strange = ModelFileError(
        f"{name} is not a manyone {kind}, or is damaged. Give a file that manyone "
        "wrote."
    )
    if not line.startswith(_MAGIC) or not re.fullmatch(rb"[1-9]\d{0,5}", number):
        raise strange
    if int(number) != FORMAT:
        remedy = "Upgrade manyone." if int(number) > FORMAT else "Fit the model again."
        raise ModelFileError(f"{name} has format {int(number)}. {again} {remedy}")
    line = stream.readline(_LONGEST_LINE)
    fields = {"kind": str, "type": str, "tree": int, "bytes": int, "sha256": str}
    try:
        header = json.loads(line)
        is_known = all(type(header[key]) is cls for key, cls in fields.items())
    except (ValueError, KeyError, TypeError, RecursionError):
        raise strange from None
    if not is_known or not line.endswith(b"\n"):
        raise strange
    if header["kind"] != kind:
        raise ModelFileError(f"{name} is a {header['kind']} of manyone, not a {kind}.")
    return dict(header)


def _layouts(described: Json, size: int) -> list[Layout]:
    """Layouts of all arrays; raises unless they fill the rest of the file exactly."""
    layouts = []
    total = 0
    for name, shape, order in described:
        if not isinstance(name, str) or not _DTYPE.fullmatch(name):
            raise ModelFileError(f"it has an array of the type {name!r}")
        axes = len(shape)
        if axes > 4 or any(type(length) is not int for length in shape):
            raise ModelFileError(f"it has an array of the shape {shape}")
        # An empty array may have a long axis, but no longer than the file.
        longest = max(size, 1)
        if any(not 0 <= length <= longest for length in shape):
            raise ModelFileError(f"it has an array of the shape {shape}")
        # NumPy cannot count more values, even of an array that is empty.
        if math.prod(filter(None, shape)) > 2**60 or order not in ("C", "F"):
            raise ModelFileError(f"it has an array of the shape {shape}")
        dtype = np.dtype(name)
        if dtype.itemsize > max(size, np.dtype("<U1").itemsize):
            raise ModelFileError(f"it has an array of the type {name!r}")
        total += math.prod(shape) * dtype.itemsize
        layouts.append((dtype, tuple(shape), order))
    if total != size:
        raise ModelFileError(f"its arrays take {total} bytes where {size} are left")
    return layouts


def _read_array(stream: io.BufferedIOBase, layout: Layout) -> AnyArray:
    """The next array; raises for bytes that stand for no value of its type."""
    dtype, shape, order = layout
    array = np.empty(math.prod(shape), dtype=dtype)
    if array.size:
        content = array.view(np.uint8)
        if stream.readinto(content.data) < content.nbytes:
            raise ModelFileError("it became shorter while it was read")
        if dtype.kind == "b" and content.max() > 1:
            raise ModelFileError("an array has values that are neither true nor false")
        if dtype.kind == "U" and array.view("<u4").max() > sys.maxunicode:
            raise ModelFileError("an array has texts with characters that do not exist")
    return array.reshape(shape, order=order)


def _built(root: Json, objects: list[Json], reader: Reader) -> Json:
    """The value at the root of a tree."""
    for node in objects:
        reader.add(node)
    return reader.value(root)
