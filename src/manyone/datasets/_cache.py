"""Find a prepared data file, or make it from its original.

Every data set that is not embedded lives in one *prepared* ``.npz`` file. `fetch` looks for it
in the data folders; where it is missing, the *original* archive is taken from the same folders
or downloaded, converted, checked and written beside its final place before it is renamed, so
that a broken download never leaves half a file behind.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["SOURCES", "Arrays", "DatasetNotFoundError", "Original", "Source", "data_folders"]

Arrays = dict[str, NDArray[Any]]

# What numpy, zipfile, tarfile and the parsers raise on a file that is not what it should be.
_DAMAGED: tuple[type[Exception], ...] = (
    *(OSError, ValueError, KeyError, EOFError, SyntaxError),
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error),
)


class DatasetNotFoundError(FileNotFoundError):
    """A data set is neither in the data folder nor could it be obtained from its original."""


class Original(NamedTuple):
    """One file as its authors publish it; ``sha256`` is None where no checksum is known."""

    file: str
    url: str
    sha256: str | None


@dataclass(frozen=True)
class Source:
    """Where a data set comes from.

    Attributes
    ----------
    file : str
        Name of the prepared ``.npz`` file.
    shapes : mapping of str to tuple
        Arrays the prepared file must hold, with their shapes (None: any length).
    page : str
        Where a person finds the original.
    originals : tuple of Original
        Empty where no dependable address is known.
    needs : tuple of str
        Modules the conversion imports; looked for before anything is downloaded.
    """

    file: str
    shapes: Mapping[str, tuple[int | None, ...]]
    page: str
    originals: tuple[Original, ...] = ()
    needs: tuple[str, ...] = ()


_MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist/"

SOURCES: dict[str, Source] = {
    "mnist": Source(
        file="mnist.npz",
        shapes={
            "x_train": (60000, 28, 28),
            "y_train": (60000,),
            "x_test": (10000, 28, 28),
            "y_test": (10000,),
        },
        page="http://yann.lecun.com/exdb/mnist/",
        originals=tuple(
            Original(name, _MNIST + name, sha256)
            for name, sha256 in (
                (
                    "train-images-idx3-ubyte.gz",
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                ),
                (
                    "train-labels-idx1-ubyte.gz",
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                ),
                (
                    "t10k-images-idx3-ubyte.gz",
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                ),
                (
                    "t10k-labels-idx1-ubyte.gz",
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                ),
            )
        ),
    ),
    "coil100": Source(
        file="coil100_gray32.npz",
        shapes={"X": (7200, 32, 32), "y": (7200,), "angle": (7200,)},
        page="https://www.cs.columbia.edu/CAVE/software/softlib/coil-100.php",
        originals=(
            Original(
                "coil-100.zip",
                "http://www.cs.columbia.edu/CAVE/databases/SLAM_coil-20_coil-100/coil-100/"
                "coil-100.zip",
                "fcb4b8b01c0778f416d8d7a09f45082c4f7075cc74743dcddd5c44307bd4afe7",
            ),
        ),
        needs=("PIL",),
    ),
    "faces": Source(
        file="lfw12_faces.npz",
        shapes={
            "gray64": (None, 64, 64),
            "y": (None,),
            "names": (12,),
            "filename": (None,),
        },
        page="https://vis-www.cs.umass.edu/lfw/",
        # The archive and checksum that sklearn.datasets.fetch_lfw_people uses as well.
        originals=(
            Original(
                "lfw-funneled.tgz",
                "https://ndownloader.figshare.com/files/5976015",
                "b47c8422c8cded889dc5a13418c4bc2abbda121092b3533a83306f90d900100a",
            ),
        ),
        needs=("PIL",),
    ),
    "keystrokes": Source(
        file="meu_mobile_keystroke.npz",
        shapes={"X": (2856, 71), "y": (2856,), "columns": (71,)},
        page="https://archive.ics.uci.edu/ml/datasets/MEU-Mobile+KSD",
        originals=(
            Original(
                "MEU-Mobile KSD 2016.xlsx",
                "https://archive.ics.uci.edu/ml/machine-learning-databases/00399/"
                "MEU-Mobile%20KSD%202016.xlsx",
                None,  # no published checksum; the shapes and counts are verified instead
            ),
        ),
    ),
    "telemetry": Source(
        file="nasa_smap_msl.npz",
        shapes={"channels": (81,), "spacecraft": (81,), "n_cmd": (81,)},
        # The authors' archive answers 403 since 2024 and they name no other direct address.
        page="https://github.com/khundman/telemanom",
    ),
    "turbofan": Source(
        file="cmapss_fd001.npz",
        shapes={
            "train_unit": (20631,),
            "train_cycle": (20631,),
            "train_settings": (20631, 3),
            "train_sensors": (20631, 21),
            "test_unit": (13096,),
            "test_cycle": (13096,),
            "test_settings": (13096, 3),
            "test_sensors": (13096, 21),
            "test_rul": (100,),
        },
        page="https://data.phmsociety.org/nasa/",
        originals=(
            Original(
                "6. Turbofan Engine Degradation Simulation Data Set.zip",
                "https://phm-datasets.s3.amazonaws.com/NASA/"
                "6.+Turbofan+Engine+Degradation+Simulation+Data+Set.zip",
                "c9c5dec12a945a82e8bb4446589d7fb3cc057b5e5d81fa1a12e25ee9912ad3b2",
            ),
        ),
    ),
}


def user_cache() -> Path:
    """Folder ``pooch.os_cache("manyone")`` names, found without pooch."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(local) / "manyone" / "manyone" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "manyone"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "manyone"


def data_folders(data_home: str | os.PathLike[str] | None = None) -> list[Path]:
    """Folders that are searched, in order; a new file is written to the first one.

    Parameters
    ----------
    data_home : path-like, optional
        Searched alone where it is given; otherwise ``$MANYONE_DATA``, then the user's cache.

    Returns
    -------
    list of Path
    """
    if data_home is not None:
        return [Path(data_home).expanduser()]
    environment = os.environ.get("MANYONE_DATA")
    return [*([Path(environment).expanduser()] if environment else []), user_cache()]


def fetch(
    name: str,
    convert: Callable[..., Arrays] | None,
    data_home: str | os.PathLike[str] | None,
    download_if_missing: bool,
    needs: tuple[str, ...] = (),
) -> Arrays:
    """Arrays of the prepared file of data set `name`, made from the original where missing.

    Parameters
    ----------
    name : str
        Key of `SOURCES`.
    convert : callable or None
        Takes the paths of the originals, in the order of `SOURCES`, and returns the arrays.
    data_home : path-like or None
        See `data_folders`.
    download_if_missing : bool
        Whether the network may be used.
    needs : tuple of str
        Modules this conversion imports beside ``SOURCES[name].needs``.

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
    source, folders = SOURCES[name], data_folders(data_home)
    for folder in folders:
        if (path := folder / source.file).is_file():
            try:
                with np.load(path, allow_pickle=False) as archive:
                    arrays = {key: archive[key] for key in archive.files}
                check_shapes(arrays, source)
            except _DAMAGED as error:
                raise OSError(
                    f"{path} is not the prepared data file it should be ({error}). Delete it or "
                    "replace it with a good copy."
                ) from error
            return arrays
    return build(name, convert, folders, download_if_missing, needs)


def build(
    name: str,
    convert: Callable[..., Arrays] | None,
    folders: list[Path],
    download: bool,
    needs: tuple[str, ...] = (),
) -> Arrays:
    """Make the prepared file of data set `name` in ``folders[0]`` from its originals."""
    source, home = SOURCES[name], folders[0]
    if convert is None or not source.originals:
        raise _missing(source, folders, "The original has no dependable address.")
    for module in (*source.needs, *needs):
        if importlib.util.find_spec(module) is None:
            package, extra = ("pillow", "data") if module == "PIL" else (module, "faces")
            why = (
                f"Converting the original needs the package {package!r}, not installed here: "
                f"pip install 'manyone[{extra}]'."
            )
            raise _missing(source, folders, why)
    try:
        home.mkdir(parents=True, exist_ok=True)
        # Beside the final place: os.replace is atomic only within one file system.
        with tempfile.TemporaryDirectory(prefix=".manyone-", dir=home) as scratch:
            originals = [_original(o, source, folders, scratch, download) for o in source.originals]
            arrays = convert(*originals)
            check_shapes(arrays, source)
            partial = Path(scratch) / source.file
            np.savez_compressed(partial, allow_pickle=False, **arrays)
            os.replace(partial, home / source.file)
    except DatasetNotFoundError:
        raise
    except _DAMAGED as error:
        why = f"Making it from the original failed ({type(error).__name__}: {error})."
        raise _missing(source, folders, why) from error
    return arrays


def check_shapes(arrays: Mapping[str, NDArray[Any]], source: Source) -> None:
    """Raise ValueError unless `arrays` holds what `source` promises."""
    for key, shape in source.shapes.items():
        if key not in arrays:
            raise ValueError(f"array {key!r} is missing")
        found = arrays[key].shape
        if len(found) != len(shape) or any(
            s not in (None, f) for s, f in zip(shape, found, strict=True)
        ):
            raise ValueError(f"array {key!r} has the shape {found}, expected {shape}")


def _original(
    original: Original, source: Source, folders: list[Path], scratch: str, download: bool
) -> Path:
    """Path of one original: a copy in the data folders, else a download into `scratch`."""
    for folder in folders:
        if (path := folder / original.file).is_file():
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            if original.sha256 not in (None, digest):
                why = f"{path} is damaged: its sha256 is {digest}, expected {original.sha256}."
                raise _missing(source, folders, why)
            return path
    if not download:
        raise _missing(source, folders, "Downloading was switched off (download_if_missing=False).")
    try:
        import pooch
    except ImportError as error:
        why = "Downloading the original needs pooch: pip install 'manyone[data]'."
        raise _missing(source, folders, why) from error
    bar = importlib.util.find_spec("tqdm") is not None
    try:
        return Path(
            pooch.retrieve(
                original.url,
                known_hash=original.sha256 and f"sha256:{original.sha256}",
                fname=original.file,
                path=scratch,
                downloader=pooch.HTTPDownloader(progressbar=bar),
            )
        )
    except (OSError, ValueError) as error:  # requests' errors are OSErrors, a bad hash ValueError
        raise _missing(
            source, folders, f"Downloading {original.url} failed ({type(error).__name__}: {error})."
        ) from error


def _missing(source: Source, folders: list[Path], why: str) -> DatasetNotFoundError:
    """Error that names the file, the folders and the remedy."""
    originals = ", ".join(repr(original.file) for original in source.originals)
    instead = f", or the original ({originals}, from {source.page})," if originals else ""
    about = "" if originals else f" The original is described at {source.page}."
    return DatasetNotFoundError(
        f"The data file {source.file!r} was not found in {' or '.join(map(str, folders))}. {why} "
        f"Put {source.file!r}{instead} into {folders[0]}, or name the folder that holds it with "
        f"data_home=... or the environment variable MANYONE_DATA.{about}"
    )
