"""The loaders on the real files, and the embedded digits."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from manyone import datasets
from manyone.datasets._images import SUBSET

Real = Callable[[str], Path]
PER_DIGIT = 600


def embed(full, subset):
    """Make the embedded subset from the full set: the first images of each digit."""
    with np.load(full, allow_pickle=False) as archive:
        images = archive["x_train"]
        digits = archive["y_train"]
    first = [np.flatnonzero(digits == digit)[:PER_DIGIT] for digit in range(10)]
    index = np.sort(np.concatenate(first)).astype(np.int32)
    np.savez_compressed(subset, images=images[index], digits=digits[index], index=index)


def check(bunch, shape, n_tasks):
    """What holds for every loader."""
    assert bunch.data.shape == shape
    assert bunch.data.dtype == np.float64
    assert np.isfinite(bunch.data).all()
    assert bunch.target.shape == (shape[0],)
    assert bunch.target.dtype.kind == "i"
    np.testing.assert_array_equal(np.unique(bunch.target), np.arange(n_tasks))
    assert len(set(bunch.target_names)) == n_tasks
    assert len(bunch.DESCR) > 100
    aligned = (
        "images",
        "angle",
        "cycle",
        "rul",
        "label",
        "anomalous",
        "start",
        "time",
        "split",
    )
    for key in (*aligned, "index", "filename"):
        if key in bunch:
            assert len(bunch[key]) == shape[0], key
    if "feature_names" in bunch:
        assert len(set(bunch.feature_names)) == shape[1]


def check_images(bunch):
    assert bunch.images.dtype == np.uint8
    np.testing.assert_array_equal(
        np.rint(bunch.data * 255), bunch.images.reshape(len(bunch.images), -1)
    )
    assert bunch.data.min() >= 0
    assert 0.5 < bunch.data.max() <= 1


def test_embedded_mnist():
    digits = datasets.load_mnist()
    check(digits, (6000, 784), 10)
    check_images(digits)
    assert (np.bincount(digits.target) == PER_DIGIT).all()
    assert (digits.target_names[digits.target] == digits.target.astype(str)).all()
    assert len(np.unique(digits.images, axis=0)) == 6000
    X, task = datasets.load_mnist(return_X_y=True)
    np.testing.assert_array_equal(X, digits.data)
    np.testing.assert_array_equal(task, digits.target)


def test_embedded_mnist_needs_no_data_folder(tmp_path):
    assert datasets.load_mnist(data_home=tmp_path / "none", download_if_missing=False)
    assert list(tmp_path.iterdir()) == []


def test_embedded_mnist_is_small_and_licensed():
    assert SUBSET.stat().st_size < 2_000_000
    licence = (SUBSET.parent / "LICENSE").read_text(encoding="utf-8")
    for word in ("CC BY-SA 3.0", "LeCun", "Cortes", "Burges", "changed", SUBSET.name):
        assert word in licence


def test_embedded_mnist_is_the_documented_part_of_the_full_set(real: Real, tmp_path):
    home = real("mnist.npz")
    digits = datasets.load_mnist()
    with np.load(home / "mnist.npz") as full:
        x_train = full["x_train"]
        y_train = full["y_train"]
    np.testing.assert_array_equal(digits.images, x_train[digits.index])
    np.testing.assert_array_equal(digits.target, y_train[digits.index])
    for digit in range(10):
        np.testing.assert_array_equal(
            digits.index[digits.target == digit],
            np.flatnonzero(y_train == digit)[:PER_DIGIT],
        )
    embed(home / "mnist.npz", tmp_path / "again.npz")
    with np.load(tmp_path / "again.npz") as again, np.load(SUBSET) as embedded:
        for key in embedded.files:
            np.testing.assert_array_equal(again[key], embedded[key])


def test_full_mnist(real: Real):
    digits = datasets.load_mnist(subset=False, data_home=real("mnist.npz"))
    assert digits.data.shape == (70000, 784)
    assert digits.data.max() == 1
    assert np.bincount(digits.target[digits.split == "train"])[[0, 9]].tolist() == [
        5923,
        5949,
    ]
    assert np.bincount(digits.target[digits.split == "test"])[[0, 9]].tolist() == [
        980,
        1009,
    ]
    assert digits.index[60000] == 0


def test_coil100(real: Real):
    coil = datasets.load_coil100(data_home=real("coil100_gray32.npz"))
    check(coil, (7200, 1024), 100)
    check_images(coil)
    assert (np.bincount(coil.target) == 72).all()
    for angle in (0, 355):
        assert (coil.angle == angle).sum() == 100
    assert coil.target_names[coil.target[-1]] == "obj100"


def test_faces(real: Real):
    home = real("lfw12_faces.npz")
    faces = datasets.load_faces(data_home=home)
    check(faces, (1544, 128), 12)
    pixels = datasets.load_faces(features="pixels", data_home=home)
    check(pixels, (1544, 4096), 12)
    check_images(pixels)
    np.testing.assert_array_equal(faces.images, pixels.images)
    assert np.bincount(faces.target).min() == 52
    named = faces.target_names[faces.target]
    assert all(
        file.startswith(name) for file, name in zip(faces.filename, named, strict=True)
    )
    assert (~faces.face_detected).sum() == 21
    # The descriptors tell the people apart: a nearest neighbour is nearly always the
    # same person.
    some = np.flatnonzero(
        faces.target != faces.target_names.tolist().index("George_W_Bush")
    )[::2]
    X = faces.data[some]
    y = faces.target[some]
    distance = (X**2).sum(1)[:, None] - 2 * X @ X.T + (X**2).sum(1)
    np.fill_diagonal(distance, np.inf)
    assert (y[distance.argmin(axis=1)] == y).mean() > 0.98


def test_keystrokes(real: Real):
    typed = datasets.load_keystrokes(data_home=real("meu_mobile_keystroke.npz"))
    check(typed, (2856, 71), 56)
    assert (np.bincount(typed.target) == 51).all()
    assert typed.feature_names[0] == "Hold ."
    # AvH is the mean of the hold times; that ties the columns to their names.
    hold = [i for i, name in enumerate(typed.feature_names) if name.startswith("Hold")]
    average = typed.data[:, typed.feature_names.tolist().index("AvH")]
    assert np.corrcoef(typed.data[:, hold].mean(axis=1), average)[0, 1] > 0.9


def telemetry_series(home):
    """Arrays of the prepared file, and the names of each spacecraft's channels."""
    with np.load(home / "nasa_smap_msl.npz") as file:
        arrays = dict(file)
    crafts = arrays["spacecraft"]
    names = {craft: arrays["channels"][crafts == craft] for craft in ("SMAP", "MSL")}
    return arrays, {**names, None: arrays["channels"]}


@pytest.mark.parametrize(("craft", "n"), [("SMAP", 54), ("MSL", 27), (None, 81)])
def test_telemetry_channels(real: Real, craft, n):
    home = real("nasa_smap_msl.npz")
    flight = datasets.load_telemetry(spacecraft=craft, data_home=home)
    check(flight, flight.data.shape, n)
    arrays, names = telemetry_series(home)
    np.testing.assert_array_equal(flight.target_names, names[craft])
    assert not flight.label.any()
    windows = [len(arrays[f"{name}/train_value"]) // 50 for name in names[craft]]
    np.testing.assert_array_equal(np.bincount(flight.target), windows)


def test_telemetry_totals(real: Real):
    arrays, names = telemetry_series(real("nasa_smap_msl.npz"))
    for craft, train, test, rate in (
        ("SMAP", 138_004, 435_826, 0.128),
        ("MSL", 58_317, 73_729, 0.105),
    ):
        series = [
            np.concatenate([arrays[f"{name}/{part}"] for name in names[craft]])
            for part in ("train_value", "test_value", "label")
        ]
        assert [len(values) for values in series] == [train, test, test]
        assert series[2].mean() == pytest.approx(rate, abs=5e-4)


def test_telemetry_windows(real: Real):
    home = real("nasa_smap_msl.npz")
    flight = datasets.load_telemetry(
        split="test", spacecraft="MSL", window=40, step=15, data_home=home
    )
    row = np.flatnonzero(flight.label)[3]
    arrays, names = telemetry_series(home)
    name = names["MSL"][flight.target[row]]
    here = slice(flight.start[row], flight.start[row] + 40)
    values = arrays[f"{name}/test_value"][here].astype(float)
    commands = np.unpackbits(arrays[f"{name}/test_cmd"], axis=1)[here]
    for target, start, label in zip(
        flight.target, flight.start, flight.label, strict=True
    ):
        series = arrays[f"{names['MSL'][target]}/label"]
        assert label == series[start : start + 40].any()
    expected = {
        "mean": values.mean(),
        "std": values.std(),
        "min": values.min(),
        "max": values.max(),
        "roughness": np.abs(np.diff(values)).mean(),
        "trend": values[-1] - values[0],
        "commands": commands.sum() / 40,
        "command_kinds": commands.any(axis=0).sum(),
    }
    np.testing.assert_allclose(flight.data[row], list(expected.values()), atol=1e-12)
    assert flight.feature_names.tolist() == list(expected)
    X, task = datasets.load_telemetry(
        split="test",
        spacecraft="MSL",
        window=40,
        step=15,
        data_home=home,
        return_X_y=True,
    )
    np.testing.assert_array_equal(X, flight.data)
    np.testing.assert_array_equal(task, flight.target)


def test_telemetry_of_values_alone(real: Real):
    home = real("nasa_smap_msl.npz")
    flight = datasets.load_telemetry(
        split="test", step=25, features="values", data_home=home
    )
    check(flight, (flight.data.shape[0], 9), 81)
    row = np.flatnonzero((flight.anomalous > 0) & (flight.anomalous < 1))[5]
    arrays, names = telemetry_series(home)
    name = names[None][flight.target[row]]
    here = slice(flight.start[row], flight.start[row] + 50)
    values = arrays[f"{name}/test_value"][here].astype(float)
    label = arrays[f"{name}/label"][here]
    change = np.abs(np.diff(values))
    expected = [values.mean(), values.std(), values.min(), values.max(), change.mean()]
    expected += [
        values[-1] - values[0],
        np.median(values),
        change.max(),
        (change == 0).mean(),
    ]
    np.testing.assert_allclose(flight.data[row], expected, atol=1e-12)
    assert flight.anomalous[row] == label.mean()
    np.testing.assert_array_equal(flight.label, flight.anomalous > 0)


def test_telemetry_refuses_a_window_longer_than_a_series(real: Real):
    with pytest.raises(
        ValueError, match="window=400 is longer than the train series of channel"
    ):
        datasets.load_telemetry(window=400, data_home=real("nasa_smap_msl.npz"))


@pytest.mark.parametrize(("split", "n"), [("train", 20631), ("test", 13096)])
def test_turbofan(real: Real, split, n):
    home = real("cmapss_fd001.npz")
    engines = datasets.load_turbofan(split=split, data_home=home)
    check(engines, (n, 21), 100)
    assert engines.settings.shape == (n, 3)
    with np.load(home / "cmapss_fd001.npz") as file:
        left = file["test_rul"] if split == "test" else np.zeros(100)
    for engine in (0, 57, 99):
        mine = engines.target == engine
        np.testing.assert_array_equal(engines.cycle[mine], np.arange(1, mine.sum() + 1))
        np.testing.assert_array_equal(
            engines.rul[mine], left[engine] + np.arange(mine.sum() - 1, -1, -1)
        )


def test_servers(real: Real):
    home = real("smd8_servers.npz")
    early, late = (
        datasets.load_servers(split=s, data_home=home) for s in ("train", "test")
    )
    for servers in (early, late):
        check(servers, (len(servers.target), 38), 8)
    assert early.target_names.tolist() == late.target_names.tolist()
    assert not early.label.any()
    shares = [late.label[late.target == t].mean() for t in range(8)]
    assert min(shares) > 0.005
    assert max(shares) < 0.2
    with np.load(home / "smd8_servers.npz") as file:
        last = late.data[late.target == 7]
        np.testing.assert_array_equal(last, file[f"{late.target_names[7]}/test"])


def test_products(real: Real):
    products = datasets.load_products(data_home=real("mvtec_resnet18.npz"))
    check(products, (5354, 512), 15)
    assert products.label.sum() == 1258
    assert {"bottle", "screw", "zipper"} < set(products.target_names)


def test_valves(real: Real):
    valves = datasets.load_valves(data_home=real("skab_valves.npz"))
    check(valves, (37401, 8), 34)
    assert "Pressure" in valves.feature_names
    for run in range(34):
        mine = valves.target == run
        assert (np.diff(valves.time[mine]) > 0).all()
        assert 0.2 < valves.label[mine].mean() < 0.55
    X, task = datasets.load_valves(data_home=real("skab_valves.npz"), return_X_y=True)
    np.testing.assert_array_equal(X, valves.data)
    np.testing.assert_array_equal(task, valves.target)


@pytest.mark.parametrize(
    "load", [datasets.load_servers, datasets.load_products, datasets.load_valves]
)
def test_a_data_set_that_is_not_there_says_which_file_to_put_where(load, tmp_path):
    with pytest.raises(
        datasets.DatasetNotFoundError, match=r"Put '.*\.npz' into"
    ) as error:
        load(data_home=tmp_path)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: datasets.load_faces(features="hog"),
            "features must be one of 'dlib', 'pixels'",
        ),
        (
            lambda: datasets.load_turbofan(split="both"),
            "split must be one of 'train', 'test'",
        ),
        (lambda: datasets.load_telemetry(split="both"), "split must be one of"),
        (
            lambda: datasets.load_servers(split="both"),
            "split must be one of 'train', 'test'",
        ),
        (
            lambda: datasets.load_telemetry(features="all"),
            "features must be one of 'commands'",
        ),
        (
            lambda: datasets.load_telemetry(spacecraft="Mir"),
            "None, 'SMAP', 'MSL', got 'Mir'",
        ),
        (
            lambda: datasets.load_telemetry(window=1),
            "window must be an integer of at least 2",
        ),
        (
            lambda: datasets.load_telemetry(window=9.5),
            "window must be an integer of at least 2",
        ),
        (
            lambda: datasets.load_telemetry(step=0),
            "step must be an integer of at least 1",
        ),
    ],
)
def test_bad_options_name_the_choices(call, message):
    with pytest.raises(ValueError, match=message):
        call()
