"""Finding, downloading and converting, against a server on this machine."""

import dataclasses
import gzip
import hashlib
import importlib.util
import io
import os
import socket
import sys
import tarfile
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import xlsxwriter

from manyone import datasets
from manyone.datasets import DatasetNotFoundError, _cache, _images
from manyone.datasets._cache import SOURCES, Original

pooch = pytest.importorskip("pooch")
Image = pytest.importorskip("PIL.Image")


def offer(monkeypatch, web, name, contents, shapes, checksum=True):
    """Let `SOURCES` point to the server, with small originals of the same layout."""
    originals = []
    for original, content in zip(SOURCES[name].originals, contents, strict=True):
        web.files[original.file] = content
        sha256 = hashlib.sha256(content).hexdigest() if checksum else None
        originals.append(Original(original.file, web.url(original.file), sha256))
    source = dataclasses.replace(
        SOURCES[name], originals=tuple(originals), shapes=shapes
    )
    monkeypatch.setitem(SOURCES, name, source)
    return source


def png(rng):
    image = rng.integers(0, 256, (128, 128, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG")
    return image, stream.getvalue()


def zipped(files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


@pytest.fixture
def coil(monkeypatch, web):
    """Three small COIL-100 images on the server, out of order as in a real archive."""
    rng = np.random.default_rng(0)
    pictures = {(10, 5): png(rng), (2, 0): png(rng), (2, 5): png(rng)}
    files = {
        f"coil-100/obj{o}__{a}.png": data for (o, a), (_, data) in pictures.items()
    }
    files["coil-100/readme.txt"] = b"not an image"
    shapes = {"X": (3, 32, 32), "y": (3,), "angle": (3,)}
    source = offer(monkeypatch, web, "coil100", [zipped(files)], shapes)
    return source, {key: image for key, (image, _) in sorted(pictures.items())}


def assert_remedy(error, source, home):
    """The message names file, folder and ways out, and no file is left behind."""
    message = str(error.value)
    assert isinstance(error.value, FileNotFoundError)
    for word in (source.file, str(home), "data_home", "MANYONE_DATA", "Put"):
        assert word in message
    for original in source.originals:
        assert original.file in message
    assert not home.exists() or list(home.iterdir()) == []


def test_good_archive_is_converted_once(coil, web, tmp_path):
    home = tmp_path / "new" / "folder"
    bunch = datasets.load_coil100(data_home=home)
    assert bunch.target.tolist() == [1, 1, 9]
    assert bunch.angle.tolist() == [0, 5, 5]
    for grey, colour in zip(bunch.images, coil[1].values(), strict=True):
        # Bilinear at a quarter of the size: the mean of the middle four of each 4 x 4
        # pixels.
        middle = colour.reshape(32, 4, 32, 4, 3)[:, 1:3, :, 1:3].mean(axis=(1, 3))
        assert np.abs(middle @ [0.299, 0.587, 0.114] - grey).max() <= 1.01
    assert [path.name for path in home.iterdir()] == ["coil100_gray32.npz"]
    again = datasets.load_coil100(data_home=home)
    np.testing.assert_array_equal(again.data, bunch.data)
    assert web.asked == ["coil-100.zip"]


def test_corrupted_archive(coil, web, tmp_path):
    content = bytearray(web.files["coil-100.zip"])
    content[len(content) // 2] ^= 1
    web.files["coil-100.zip"] = bytes(content)
    with pytest.raises(DatasetNotFoundError, match="hash") as error:
        datasets.load_coil100(data_home=tmp_path)
    assert_remedy(error, coil[0], tmp_path)


def test_interrupted_download(coil, web, tmp_path):
    web.cut.add("coil-100.zip")
    with pytest.raises(
        DatasetNotFoundError, match=r"Downloading http.* failed"
    ) as error:
        datasets.load_coil100(data_home=tmp_path)
    assert_remedy(error, coil[0], tmp_path)
    web.cut.clear()
    assert len(datasets.load_coil100(data_home=tmp_path).data) == 3


def test_interrupted_download_without_a_checksum(monkeypatch, web, tmp_path):
    source = offer(monkeypatch, web, "keystrokes", [b"x" * 200_000], {}, checksum=False)
    web.cut.add(source.originals[0].file)
    with pytest.raises(
        DatasetNotFoundError, match=r"Downloading http.* failed"
    ) as error:
        datasets.load_keystrokes(data_home=tmp_path)
    assert_remedy(error, source, tmp_path)


def test_no_network(coil, monkeypatch, tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    original = (
        coil[0].originals[0]._replace(url=f"http://127.0.0.1:{port}/coil-100.zip")
    )
    source = dataclasses.replace(coil[0], originals=(original,))
    monkeypatch.setitem(SOURCES, "coil100", source)
    with pytest.raises(DatasetNotFoundError, match="ConnectionError") as error:
        datasets.load_coil100(data_home=tmp_path)
    assert_remedy(error, source, tmp_path)


def test_file_gone_from_the_server(coil, web, tmp_path):
    web.files.clear()
    with pytest.raises(DatasetNotFoundError, match="404") as error:
        datasets.load_coil100(data_home=tmp_path)
    assert_remedy(error, coil[0], tmp_path)


def test_download_switched_off(coil, web, tmp_path):
    with pytest.raises(
        DatasetNotFoundError, match="download_if_missing=False"
    ) as error:
        datasets.load_coil100(data_home=tmp_path, download_if_missing=False)
    assert_remedy(error, coil[0], tmp_path)
    assert web.asked == []


def test_without_pooch(coil, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(
        DatasetNotFoundError, match=r"pip install '\.\[data\]'"
    ) as error:
        datasets.load_coil100(data_home=tmp_path)
    assert_remedy(error, coil[0], tmp_path)


def hide(monkeypatch, module):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == module else find(name)
    )


def test_without_pillow_nothing_is_downloaded(coil, web, monkeypatch, tmp_path):
    hide(monkeypatch, "PIL")
    with pytest.raises(
        DatasetNotFoundError, match=r"'pillow', .*'\.\[data\]'"
    ) as error:
        datasets.load_coil100(data_home=tmp_path)
    assert_remedy(error, coil[0], tmp_path)
    assert web.asked == []


def test_archive_with_the_wrong_number_of_images(coil, monkeypatch, tmp_path):
    source = dataclasses.replace(coil[0], shapes={"X": (7200, 32, 32)})
    monkeypatch.setitem(SOURCES, "coil100", source)
    with pytest.raises(
        DatasetNotFoundError, match=r"shape \(3, 32, 32\), expected"
    ) as error:
        datasets.load_coil100(data_home=tmp_path)
    assert_remedy(error, source, tmp_path)


def test_full_disk_leaves_nothing(coil, monkeypatch, tmp_path):
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DatasetNotFoundError, match="No space left") as error:
        datasets.load_coil100(data_home=tmp_path)
    assert_remedy(error, coil[0], tmp_path)


def test_original_in_the_folder_is_used_and_kept(coil, web, tmp_path):
    (tmp_path / "coil-100.zip").write_bytes(web.files["coil-100.zip"])
    bunch = datasets.load_coil100(data_home=tmp_path, download_if_missing=False)
    assert len(bunch.data) == 3
    assert web.asked == []
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "coil-100.zip",
        "coil100_gray32.npz",
    ]


def test_damaged_original_in_the_folder(coil, web, tmp_path):
    path = tmp_path / "coil-100.zip"
    path.write_bytes(web.files["coil-100.zip"] + b"!")
    with pytest.raises(
        DatasetNotFoundError, match=r"coil-100.zip is damaged: its sha256"
    ):
        datasets.load_coil100(data_home=tmp_path)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("damage", ["half", "text", "shape", "key"])
def test_damaged_prepared_file(tmp_path, damage):
    path = tmp_path / "coil100_gray32.npz"
    np.savez_compressed(
        path, **{"Y" if damage == "key" else "X": np.zeros((7200, 8), np.uint8)}
    )
    if damage == "half":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif damage == "text":
        path.write_text("<html>moved</html>")
    with pytest.raises(OSError, match="Delete it or replace it") as error:
        datasets.load_coil100(data_home=tmp_path)
    assert str(path) in str(error.value)
    assert path.exists()


def test_prepared_file_is_never_unpickled(tmp_path):
    np.savez(tmp_path / "coil100_gray32.npz", X=np.array([print], dtype=object))
    with pytest.raises(OSError, match="pickle"):
        datasets.load_coil100(data_home=tmp_path)


def test_telemetry_says_which_file_to_put_where(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="no dependable address") as error:
        datasets.load_telemetry(data_home=tmp_path)
    assert_remedy(error, SOURCES["telemetry"], tmp_path)
    assert "telemanom" in str(error.value)


def test_folders_in_order(monkeypatch, tmp_path):
    monkeypatch.setenv("MANYONE_DATA", str(tmp_path / "shared"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache = Path(pooch.os_cache("manyone"))
    assert _cache.data_folders() == [tmp_path / "shared", cache]
    assert _cache.data_folders(tmp_path) == [tmp_path]
    monkeypatch.delenv("MANYONE_DATA")
    assert _cache.data_folders("~") == [Path.home()]
    assert _cache.data_folders() == [cache]


def test_cache_folder_on_other_systems(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert _cache.user_cache() == Path.home() / "Library" / "Caches" / "manyone"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert _cache.user_cache() == tmp_path / "manyone" / "manyone" / "Cache"


def test_unusable_folder(coil, web, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        DatasetNotFoundError, match=r"FileExistsError|NotADirectoryError"
    ) as error:
        datasets.load_coil100(data_home=tmp_path / "file")
    assert str(tmp_path / "file") in str(error.value)
    assert web.asked == []


def test_environment_before_cache_and_both_are_searched(monkeypatch, tmp_path, coil):
    shared = tmp_path / "shared"
    cache = tmp_path / "cache" / "manyone"
    monkeypatch.setenv("MANYONE_DATA", str(shared))
    monkeypatch.setattr(_cache, "user_cache", lambda: cache)
    for folder, value in ((cache, 51), (shared, 255)):
        folder.mkdir(parents=True)
        arrays = {
            "X": np.full((3, 32, 32), value, np.uint8),
            "y": np.ones(3),
            "angle": np.ones(3),
        }
        np.savez(folder / "coil100_gray32.npz", **arrays)
        assert datasets.load_coil100().data.max() == value / 255


def test_mnist_from_idx_files(monkeypatch, web, tmp_path):
    rng = np.random.default_rng(1)
    parts = {
        "x_train": rng.integers(0, 256, (5, 28, 28), dtype=np.uint8),
        "y_train": np.array([5, 0, 4, 1, 9], dtype=np.uint8),
        "x_test": rng.integers(0, 256, (2, 28, 28), dtype=np.uint8),
        "y_test": np.array([7, 2], dtype=np.uint8),
    }
    contents = [
        gzip.compress(
            bytes([0, 0, 8, part.ndim])
            + np.array(part.shape, ">u4").tobytes()
            + part.tobytes()
        )
        for part in parts.values()
    ]
    shapes = {key: part.shape for key, part in parts.items()}
    offer(monkeypatch, web, "mnist", contents, shapes)
    digits = datasets.load_mnist(subset=False, data_home=tmp_path)
    np.testing.assert_array_equal(digits.images, np.concatenate([*parts.values()][::2]))
    assert digits.target.tolist() == [5, 0, 4, 1, 9, 7, 2]
    assert digits.split.tolist() == ["train"] * 5 + ["test"] * 2
    assert digits.index.tolist() == [0, 1, 2, 3, 4, 0, 1]
    assert len(web.asked) == 4

    contents[0] = gzip.compress(b"\x89PNG no idx file")
    source = offer(monkeypatch, web, "mnist", contents, shapes)
    (tmp_path / "mnist.npz").unlink()
    with pytest.raises(DatasetNotFoundError, match="not an idx file") as error:
        datasets.load_mnist(subset=False, data_home=tmp_path)
    assert_remedy(error, source, tmp_path)


def workbook(header, rows):
    """A workbook as spreadsheets write it; cells are left out where blank."""
    content = io.BytesIO()
    book = xlsxwriter.Workbook(content)
    sheet = book.add_worksheet()
    for number, row in enumerate([header, *rows]):
        for column, value in enumerate(row):
            if value is not None:
                sheet.write(number, column, value)
    book.close()
    return content.getvalue()


def keystroke_rows(n_each):
    """Two subjects, the second one first, a blank row between them."""
    rows = [
        [s, *(s * 1000 + i + c / 4 for c in range(29))]
        for s in (2, 1)
        for i in range(n_each)
    ]
    return [*rows[:n_each], [None, None], [], *rows[n_each:]]


def test_keystrokes_from_a_workbook(monkeypatch, web, tmp_path):
    header = ["Subject", "Hold Shift", "Hold Shift", *(f"c{i}" for i in range(27))]
    shapes = {"X": (102, 29), "y": (102,), "columns": (29,)}
    content = workbook(header, keystroke_rows(51))
    offer(monkeypatch, web, "keystrokes", [content], shapes, checksum=False)
    typed = datasets.load_keystrokes(data_home=tmp_path)
    assert typed.target.tolist() == [0] * 51 + [1] * 51
    assert typed.feature_names.tolist()[:3] == ["Hold Shift", "Hold Shift.1", "c0"]
    assert typed.data[1].tolist() == [1001 + c / 4 for c in range(29)]
    assert typed.data[51].tolist() == [2000 + c / 4 for c in range(29)]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"<html>This page has moved</html>", "no rows"),
        (workbook(["Subject", "a"], [[1, 2.0]] * 50), "51 rows of every subject"),
        (workbook(["Subject", "a"], [[1, "much"]] * 51), "not numbers"),
        (workbook(["Subject", "a"], [[1, "nan"]] * 51), "not numbers"),
        (workbook(["Subject", "a"], [[1, None]] * 51), "not numbers"),
        (workbook(["Subject", "a", "b"], [[1, None, 2.0]] * 51), "not numbers"),
        (zipped({"readme.txt": b""}), "no workbook"),
        (zipped({"xl/workbook.xml": b"<unclosed>"}), "cannot be read as xlsx"),
    ],
)
def test_workbook_that_is_none(monkeypatch, web, tmp_path, content, why):
    shapes = {"X": (51, 1)}
    source = offer(monkeypatch, web, "keystrokes", [content], shapes, checksum=False)
    with pytest.raises(DatasetNotFoundError, match=why) as error:
        datasets.load_keystrokes(data_home=tmp_path)
    assert_remedy(error, source, tmp_path)


@pytest.mark.parametrize("nested", [True, False])
def test_turbofan_from_text_files(monkeypatch, web, tmp_path, nested):
    def lines(rows):
        return "".join(" ".join(map(str, row)) + "  \n" for row in rows)

    train = [
        [u, c, 0.5, -0.25, 100, *range(u, u + 21)]
        for u, n in ((1, 3), (2, 2))
        for c in n_(n)
    ]
    test = [
        [u, c, 0.5, -0.25, 100, *range(c, c + 21)]
        for u, n in ((1, 1), (2, 2))
        for c in n_(n)
    ]
    content = zipped(
        {
            "train_FD002.txt": lines([[1] * 26]),
            "train_FD001.txt": lines(train),
            "test_FD001.txt": lines(test),
            "RUL_FD001.txt": "112 \n98 \n",
        }
    )
    if nested:
        content = zipped(
            {"6. Turbofan/CMAPSSData.zip": content, "6. Turbofan/x.pdf": b""}
        )
    shapes = {"train_sensors": (5, 21), "test_sensors": (3, 21), "test_rul": (2,)}
    offer(monkeypatch, web, "turbofan", [content], shapes)
    engines = datasets.load_turbofan(data_home=tmp_path)
    assert engines.target.tolist() == [0, 0, 0, 1, 1]
    assert engines.rul.tolist() == [2, 1, 0, 1, 0]
    assert engines.settings[0].tolist() == [0.5, -0.25, 100]
    assert engines.data[4].tolist() == list(range(2, 23))
    tested = datasets.load_turbofan(data_home=tmp_path, split="test")
    assert tested.rul.tolist() == [112, 99, 98]
    assert tested.cycle.tolist() == [1, 1, 2]


def n_(n):
    return range(1, n + 1)


@pytest.fixture
def lfw(monkeypatch, web):
    """A small LFW: 12 people with three pictures and one with two, who is left out."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for person in (*range(11, -1, -1), 12):
            for number in (2, 1, 3)[: 2 if person == 12 else 3]:
                colour = Image.new(
                    "RGB", (250, 250), (20 * person, 20 * person, 20 * person)
                )
                colour.paste((0, 0, 0), (0, 0, 250, 40))  # outside of the face
                picture = io.BytesIO()
                colour.save(picture, "JPEG", quality=95)
                name = f"P_{person:02d}"
                info = tarfile.TarInfo(f"lfw_funneled/{name}/{name}_000{number}.jpg")
                info.size = picture.tell()
                picture.seek(0)
                archive.addfile(info, picture)
    monkeypatch.setattr(_images, "_FEWEST_FACES", 3)
    return offer(
        monkeypatch, web, "faces", [stream.getvalue()], SOURCES["faces"].shapes
    )


def test_faces_from_lfw(lfw, tmp_path):
    faces = datasets.load_faces(features="pixels", data_home=tmp_path)
    assert faces.target.tolist() == np.repeat(range(12), 3).tolist()
    assert faces.target_names.tolist() == [f"P_{person:02d}" for person in range(12)]
    assert faces.filename[:2].tolist() == ["P_00_0001.jpg", "P_00_0002.jpg"]
    np.testing.assert_allclose(
        faces.data, 20 * faces.target[:, None] / 255 * np.ones(4096), atol=0.01
    )


def test_descriptors_are_not_made_from_pixels(lfw, web, tmp_path):
    with pytest.raises(DatasetNotFoundError) as error:
        datasets.load_faces(data_home=tmp_path)
    assert_remedy(error, SOURCES["descriptors"], tmp_path)
    assert web.asked == []
    datasets.load_faces(features="pixels", data_home=tmp_path)
    with pytest.raises(OSError, match=r"'embedding' is missing.*replace it"):
        datasets.load_faces(data_home=tmp_path)


@pytest.mark.parametrize("trouble", ["corrupted", "interrupted", "no network"])
@pytest.mark.parametrize("name", ["faces", "keystrokes"])
def test_troubles_with_faces_and_keystrokes(
    lfw, monkeypatch, web, tmp_path, name, trouble
):
    load = partial(datasets.load_faces, features="pixels", data_home=tmp_path)
    if name == "keystrokes":
        load = partial(datasets.load_keystrokes, data_home=tmp_path)
        content = workbook(
            ["Subject", *(f"c{i}" for i in range(29))], keystroke_rows(51)
        )
        offer(monkeypatch, web, name, [content], {}, checksum=False)
    load()
    (tmp_path / SOURCES[name].file).unlink()
    (original,) = SOURCES[name].originals
    if trouble == "corrupted":
        content = bytearray(web.files[original.file])
        content[len(content) // 2] ^= 255
        web.files[original.file] = bytes(content)
    elif trouble == "interrupted":
        web.cut.add(original.file)
    else:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            original = original._replace(
                url=f"http://127.0.0.1:{unused.getsockname()[1]}/gone"
            )
        source = dataclasses.replace(SOURCES[name], originals=(original,))
        monkeypatch.setitem(SOURCES, name, source)
    with pytest.raises(DatasetNotFoundError) as error:
        load()
    assert_remedy(error, SOURCES[name], tmp_path)


def test_sources_are_complete():
    for source in SOURCES.values():
        assert source.file.endswith(".npz")
        assert source.page.startswith("http")
        for original in source.originals:
            assert original.url.startswith("http")
            if original.sha256 is not None:
                assert len(bytes.fromhex(original.sha256)) == 32
