"""Images: handwritten digits, objects on a turntable, faces."""

from __future__ import annotations

import gzip
import re
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from manyone.datasets._cache import (
    Arrays,
    PathLike,
    bunch,
    choose,
    fetch,
    loader,
    numbered,
)

SUBSET = Path(__file__).with_name("mnist") / "mnist600.npz"  # see the licence beside it

_PARTS = ("train", "test")
_FEWEST_FACES = 52  # images of a person, which leaves 12 people
_CENTRE = (62, 62, 188, 188)  # where the face is in a 250 x 250 image of LFW


@loader
def load_mnist(
    *,
    subset: bool = True,
    data_home: PathLike = None,
    download_if_missing: bool = True,
) -> Bunch:
    """Load MNIST digits: the embedded subset (no network, no files) or the full set.

    Parameters
    ----------
    subset : bool, default=True
        The 6,000 embedded images, the first 600 of each digit of the training file.
        False: all 70,000 images, from ``mnist.npz`` in the data folder or downloaded
        (``data`` then takes 440 MB).
    data_home : path-like, optional
        Data folder; default ``$MANYONE_DATA``, then the user's cache. Not used by the
        subset.
    download_if_missing : bool, default=True
        Whether to download what is not there.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    Bunch
        ``data`` (n, 784) float64 in [0, 1], ``images`` (n, 28, 28) uint8, ``target``
        (n,) the digit, ``target_names``, ``split`` (n,) ``"train"`` or ``"test"``,
        ``index`` (n,) position in the original file of that split, ``DESCR``.
    """
    if subset:
        with np.load(SUBSET, allow_pickle=False) as archive:
            images = archive["images"]
            digits = archive["digits"]
            index = archive["index"]
        split = np.full(len(index), "train")
    else:
        arrays = fetch("mnist", _convert_mnist, data_home, download_if_missing)
        images = np.concatenate([arrays[f"x_{split_name}"] for split_name in _PARTS])
        digits = np.concatenate([arrays[f"y_{split_name}"] for split_name in _PARTS])
        sizes = [len(arrays[f"y_{split_name}"]) for split_name in _PARTS]
        split = np.repeat(_PARTS, sizes)
        index = np.concatenate([np.arange(n, dtype=np.int32) for n in sizes])
    names = list("0123456789")
    return bunch("mnist", images, digits, names, split=split, index=index)


@loader
def load_coil100(
    *,
    data_home: PathLike = None,
    download_if_missing: bool = True,
) -> Bunch:
    """Load COIL-100: 100 objects, 72 poses each, 32 x 32 grey.

    Parameters
    ----------
    data_home : path-like, optional
        Folder with ``coil100_gray32.npz``; default ``$MANYONE_DATA``, then the user's
        cache.
    download_if_missing : bool, default=True
        Whether to download and convert the original (125 MB; needs pooch and pillow).
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    Bunch
        ``data`` (7200, 1024) float64 in [0, 1], ``images`` (7200, 32, 32) uint8,
        ``target`` (7200,) 0 to 99, ``target_names`` ``"obj1"`` to ``"obj100"``,
        ``angle`` (7200,) degrees, ``DESCR``.
    """
    arrays = fetch("coil100", _convert_coil100, data_home, download_if_missing)
    return bunch(
        "coil100",
        arrays["X"],
        arrays["y"] - 1,
        numbered("obj", 100),
        angle=arrays["angle"],
    )


@loader
def load_faces(
    *,
    features: str = "dlib",
    data_home: PathLike = None,
    download_if_missing: bool = True,
) -> Bunch:
    """Load the 12 people of Labeled Faces in the Wild with at least 52 images.

    Parameters
    ----------
    features : {"dlib", "pixels"}, default="dlib"
        dlib's 128-dimensional face descriptors, or the grey values.
    data_home : path-like, optional
        Folder with ``lfw12_faces.npz``; default ``$MANYONE_DATA``, then the user's
        cache.
    download_if_missing : bool, default=True
        Whether to download and convert the original (230 MB; needs pooch and pillow),
        which gives pixels only: a few more images than the prepared file, in which
        sixteen are missing, and other crops.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    Bunch
        ``data`` (n, 128) descriptors or (n, 4096) grey values in [0, 1], both float64;
        ``images`` (n, 64, 64) uint8, ``target`` (n,) 0 to 11, ``target_names`` the
        people, ``filename`` (n,), ``DESCR``; and for ``"dlib"`` ``face_detected`` (n,)
        bool, False where no face was found and the descriptor is of the centre of the
        image.
    """
    choose("features", features, ("dlib", "pixels"))
    if features == "pixels":
        arrays = fetch("faces", _convert_faces, data_home, download_if_missing)
        fields = {"filename": arrays["filename"]}
        return bunch("faces", arrays["gray64"], arrays["y"], arrays["names"], **fields)
    arrays = fetch("descriptors", None, data_home, download=False)
    return bunch(
        "descriptors",
        arrays["embedding"],
        arrays["y"],
        arrays["names"],
        filename=arrays["filename"],
        images=arrays["gray64"],
        face_detected=arrays["face_detected"],
    )


def _convert_mnist(*files: Path) -> Arrays:
    """Arrays of the four gzipped idx files."""
    arrays = []
    for file in files:
        with gzip.open(file) as stream:
            content = stream.read()
        # idx: two zero bytes, type 8 (uint8), number of axes, then big-endian axis
        # lengths.
        if content[:3] != b"\0\0\x08":
            raise ValueError(f"{file.name} is not an idx file of bytes")
        n_axes = content[3]
        shape = np.frombuffer(content, ">u4", n_axes, offset=4)
        arrays.append(
            np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape)
        )
    return dict(zip(("x_train", "y_train", "x_test", "y_test"), arrays, strict=True))


def _convert_coil100(archive: Path) -> Arrays:
    """Arrays of the zip of 128 x 128 colour images ``objN__A.png``."""
    from PIL import Image

    images = {}
    with zipfile.ZipFile(archive) as members:
        for name in members.namelist():
            if match := re.search(r"obj(\d+)__(\d+)\.png$", name):
                with members.open(name) as stream, Image.open(stream) as image:
                    grey = _reduce(np.asarray(image.convert("RGB")))
                images[int(match[1]), int(match[2])] = grey
    order = sorted(images)
    return {
        "X": np.stack([images[place] for place in order]),
        "y": np.array([number for number, _ in order], dtype=np.int16),
        "angle": np.array([angle for _, angle in order], dtype=np.int16),
    }


def _reduce(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Colour (4h, 4w, 3) to grey (h, w), bit for bit as OpenCV's bilinear resize.

    A quarter of the size puts each sample amid four pixels, whose rounded mean it is.
    The weights of red, green and blue are 0.299, 0.587 and 0.114 in units of 2 ** -15.
    """
    wide = image.astype(np.uint32)
    corners = (wide[i::4, j::4] for i in (1, 2) for j in (1, 2))
    mean = (sum(corners, np.uint32(2))) >> 2
    weights = np.array([9798, 19235, 3735], dtype=np.uint32)
    return ((mean @ weights + (1 << 14)) >> 15).astype(np.uint8)


def _convert_faces(archive: Path) -> Arrays:
    """Arrays of people with enough images, from a tar of ``.../Name/Name_0001.jpg``."""
    from PIL import Image

    with tarfile.open(archive) as members:
        pictures = [Path(name) for name in members.getnames() if name.endswith(".jpg")]
    count = Counter(picture.parent.name for picture in pictures)
    names = sorted(name for name, n in count.items() if n >= _FEWEST_FACES)
    faces = {}
    # Open it again, as a gzipped tar can only be read forwards.
    with tarfile.open(archive) as members:
        for member in members:
            picture = Path(member.name)
            if picture.suffix != ".jpg" or picture.parent.name not in names:
                continue
            stream = members.extractfile(member)
            if stream is None:
                raise ValueError(f"{member.name} is a link, not an image")
            with Image.open(stream) as image:
                small = image.convert("L").resize(
                    (64, 64), Image.Resampling.LANCZOS, _CENTRE
                )
            faces[picture.name] = (np.asarray(small), names.index(picture.parent.name))
    order = sorted(faces)
    return {
        "gray64": np.stack([faces[name][0] for name in order]),
        "y": np.array([faces[name][1] for name in order], dtype=np.int16),
        "names": np.array(names),
        "filename": np.array(order),
    }
