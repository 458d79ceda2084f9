"""Find the file of a data set, or make it from its original, and read it.

Every data set that is not embedded is one *prepared* ``.npz`` file. `fetch` looks for
it in the data folders. If it is missing, `fetch` takes the *original* archive from the
same folders or downloads it, converts and checks it. The prepared file is written whole
or not at all.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import io
import os
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import (
    Any,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeAlias,
    cast,
    overload,
)

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from manyone._types import Array, Codes
from manyone.files import toml_beside, write_atomically

Values: TypeAlias = NDArray[Any]
Arrays: TypeAlias = dict[str, Values]
Convert = Callable[..., Arrays]  # takes the paths of the originals
PathLike: TypeAlias = str | os.PathLike[str] | None
Options = ParamSpec("Options")


# What numpy, zipfile, tarfile and the parsers raise on a damaged file.
_DAMAGED: tuple[type[Exception], ...] = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    SyntaxError,
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
)


class DatasetNotFoundError(FileNotFoundError):
    """A data set is not in the data folder and cannot be made from its original."""


class Original(NamedTuple):
    """A file as its authors publish it; ``sha256`` None: no checksum is known."""

    file: str
    url: str
    sha256: str | None = None


@dataclass(frozen=True)
class Source:
    """Where a data set comes from.

    Attributes
    ----------
    file : str
        Name of the prepared ``.npz`` file.
    page : str
        Where a person finds the original.
    about : str
        Description for users.
    shapes : mapping of str to sequence of int
        Arrays the prepared file must hold, with their shapes (0: any length).
    originals : tuple of Original
        Empty where no dependable address is known.
    needs : sequence of str
        Modules the conversion imports; looked for before anything is downloaded.
    """

    file: str
    page: str
    about: str
    shapes: Mapping[str, Sequence[int]]
    originals: tuple[Original, ...] = ()
    needs: Sequence[str] = ()


def _sources() -> dict[str, Source]:
    sources = {}
    for name, entry in toml_beside(__file__, "sources.toml").items():
        originals = [Original(**original) for original in entry.pop("originals", ())]
        sources[name] = Source(originals=tuple(originals), **entry)
    return sources


SOURCES = _sources()


def user_cache() -> Path:
    """The folder that ``pooch.os_cache("manyone")`` gives, without pooch."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(local) / "manyone" / "manyone" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "manyone"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "manyone"


def data_folders(data_home: PathLike = None) -> list[Path]:
    """Folders that are searched, in order; a new file is written to the first one.

    Parameters
    ----------
    data_home : path-like, optional
        Searched alone where it is given; otherwise ``$MANYONE_DATA``, then the user's
        cache.

    Returns
    -------
    list of Path
    """
    if data_home is not None:
        return [Path(data_home).expanduser()]
    environment = os.environ.get("MANYONE_DATA")
    return [*([Path(environment).expanduser()] if environment else []), user_cache()]


def fetch(
    name: str, convert: Convert | None, data_home: PathLike, download: bool
) -> Arrays:
    """Arrays of the prepared file of a data set, made from the original if missing.

    Parameters
    ----------
    name : str
        Key of `SOURCES`.
    convert : callable or None
        Takes the paths of the originals, in the order of `SOURCES`, and returns the
        arrays.
    data_home : path-like or None
        See `data_folders`.
    download : bool
        Whether the network may be used.

    Returns
    -------
    dict of str to ndarray

    Raises
    ------
    DatasetNotFoundError
        If the data set is neither there nor obtainable.
    OSError
        If the prepared file is there but damaged.
    """
    source = SOURCES[name]
    folders = data_folders(data_home)
    path = _find(source.file, folders)
    if path is not None:
        return _read(path, source)
    try:
        if convert is None:
            why = (
                f"The original (described at {source.page}) has no dependable address."
            )
            raise DatasetNotFoundError(why)
        for module in source.needs:
            _require(module, "Converting")
        return _make(source, convert, folders, download)
    except _DAMAGED as error:
        why = f"Making it from the original failed ({type(error).__name__}: {error})."
        cause: BaseException | None = error
        if isinstance(error, DatasetNotFoundError):
            why = str(error)
            cause = error.__cause__
        raise DatasetNotFoundError(_missing(source, folders, why)) from cause


def _read(path: Path, source: Source) -> Arrays:
    """Arrays of a prepared file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = dict(archive)
        check_shapes(arrays, source)
    except _DAMAGED as error:
        why = f"{path} is damaged ({error}). Delete it or replace it with a good copy."
        raise OSError(why) from error
    return arrays


def _make(
    source: Source, convert: Convert, folders: list[Path], download: bool
) -> Arrays:
    """Arrays made from the originals, and written to ``folders[0]``."""
    home = folders[0]
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".manyone-", dir=home) as scratch:
        arrays = convert(
            *(_original(o, folders, scratch, download) for o in source.originals)
        )
    check_shapes(arrays, source)
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    write_atomically(home / source.file, content.getvalue())
    return arrays


def check_shapes(arrays: Arrays, source: Source) -> None:
    """Raise ValueError unless `arrays` holds what `source` promises."""
    for key, shape in source.shapes.items():
        if key not in arrays:
            raise ValueError(f"array {key!r} is missing")
        actual = arrays[key].shape
        expected = tuple(shape)
        wanted = tuple(n or m for n, m in zip(expected, actual, strict=False))
        if len(actual) != len(expected) or actual != wanted:
            raise ValueError(
                f"array {key!r} has the shape {actual}, expected {expected}"
            )


def _find(file: str, folders: list[Path]) -> Path | None:
    """Path of the file of that name in the first folder that has one."""
    return next(
        (folder / file for folder in folders if (folder / file).is_file()), None
    )


def _original(
    original: Original, folders: list[Path], scratch: str, download: bool
) -> Path:
    """Path of an original: in the data folders, else downloaded to `scratch`."""
    if path := _find(original.file, folders):
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if original.sha256 not in (None, digest):
            why = (
                f"{path} is damaged: its sha256 is {digest}, "
                f"expected {original.sha256}."
            )
            raise DatasetNotFoundError(why)
        return path
    if not download:
        raise DatasetNotFoundError(
            "Downloading was switched off (download_if_missing=False)."
        )
    _require("pooch", "Downloading")
    import pooch

    bar = importlib.util.find_spec("tqdm") is not None
    checksum = original.sha256 and f"sha256:{original.sha256}"
    try:
        path = pooch.retrieve(
            original.url, checksum, original.file, scratch, progressbar=bar
        )
    except (OSError, ValueError) as error:  # of requests; a checksum that differs
        why = f"Downloading {original.url} failed ({type(error).__name__}: {error})."
        raise DatasetNotFoundError(why) from error
    return Path(path)


def _require(module: str, doing: str) -> None:
    """Raise an error that says what to install if a module is missing."""
    if importlib.util.find_spec(module) is None:
        packages = {
            "PIL": ("pillow", "data"),
            "pooch": ("pooch", "data"),
            "polars": ("polars", "cli"),
            "fastexcel": ("fastexcel", "excel"),
        }
        package, extra = packages[module]
        raise DatasetNotFoundError(
            f"{doing} the original needs the package {package!r}, not installed here: "
            f"pip install '.[{extra}]' in the checkout of manyone."
        )


def _missing(source: Source, folders: list[Path], why: str) -> str:
    """The message about a missing data set: file, folders, reason and remedy."""
    originals = ", ".join(repr(original.file) for original in source.originals)
    instead = (
        f", or the original ({originals}, from {source.page})," if originals else ""
    )
    return (
        f"The data file {source.file!r} was not found in "
        f"{' or '.join(map(str, folders))}. {why} Put {source.file!r}{instead} into "
        f"{folders[0]}, or name the folder that holds it with data_home=... or the "
        "environment variable MANYONE_DATA."
    )


class Loader(Protocol[Options]):
    """Type of a function that returns a data set, or only its rows and tasks."""

    @overload
    def __call__(self, *args: Options.args, **options: Options.kwargs) -> Bunch: ...

    @overload
    def __call__(
        self, *args: Any, return_X_y: Literal[True], **options: Any
    ) -> tuple[Array, Codes]: ...


def loader(load: Callable[Options, Bunch]) -> Loader[Options]:
    """Let a function take ``return_X_y=True``, and return ``(data, target)`` then."""

    @wraps(load)
    def loaded(
        *args: Any, return_X_y: bool = False, **options: Any
    ) -> Bunch | tuple[Array, Codes]:
        everything = load(*args, **options)
        return (everything.data, everything.target) if return_X_y else everything

    signature = inspect.signature(load)
    return_X_y = inspect.Parameter(
        "return_X_y", inspect.Parameter.KEYWORD_ONLY, default=False, annotation="bool"
    )
    parameters = [*signature.parameters.values(), return_X_y]
    vars(loaded)["__signature__"] = signature.replace(parameters=parameters)
    return cast("Loader[Options]", loaded)


def bunch(
    name: str,
    data: Values,
    target: Values,
    tasks: Sequence[str] | Values,
    **fields: object,
) -> Bunch:
    """A Bunch; ``target_names[target]`` names the tasks.

    Grey images (n, h, w) become rows in [0, 1], and are kept as ``images``; ``DESCR``
    is what `SOURCES` says about the data set `name`.
    """
    if data.ndim == 3:
        fields["images"] = data
        data = data.reshape(len(data), -1) / 255.0
    return Bunch(
        data=data.astype(np.float64, copy=False),
        target=target.astype(np.intp),
        target_names=np.array(tasks),
        DESCR=SOURCES[name].about,
        **fields,
    )


def numbered(word: str, last: int) -> list[str]:
    """``word1`` to ``word<last>``."""
    return [f"{word}{number}" for number in range(1, last + 1)]


def choose(name: str, value: str | None, options: Sequence[str | None]) -> None:
    """Raise ValueError unless `value` is one of `options`."""
    if value not in options:
        raise ValueError(
            f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}."
        )
