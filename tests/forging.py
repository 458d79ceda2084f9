"""Forge model files: mutate them, make the checksum right again, load and score them.

    python -X faulthandler tests/forging.py FIRST COUNT

prints what became of forged files FIRST to FIRST + COUNT - 1, and each that did harm. A
crash of the process is one, too.
"""

from __future__ import annotations

import copy
import faulthandler
import hashlib
import io
import json
import signal
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manyone
from manyone import SVDD, CombinedOneClass, JointOCKSR, ModelFileError, TableModel

SECONDS = 20
NUMBERS = [-1, 0, 1, 2, 51, 2000, 2**31, 2**40, -(2**63), 2**63 - 1]
REALS = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0]
VALUES = [
    None,
    True,
    -1,
    0,
    7,
    2**62,
    10**400,
    0.5,
    "x",
    "",
    [],
    {},
    [1, "a"],
    {"a": 1},
]
DTYPES = [
    "<f8",
    "<i8",
    "<i4",
    "|b1",
    "<U1",
    "<U7",
    "|u1",
    "<M8[s]",
    "|O",
    "<f2",
    "<c16",
]


def rows():
    """Rows of five tasks, and the task of each."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(5), [6, 4, 9, 5, 6])
    X = rng.normal(size=(len(codes), 3)) + rng.normal(size=(5, 3))[codes]
    return X, np.array(["ada", "bea", "cleo", "dora", "eve"])[codes]


def table():
    """A table with numbers, gaps, levels and dates."""
    X, task = rows()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(machine=task)
    frame["level"] = np.array(["x", "y", "z"])[np.arange(len(frame)) % 3]
    frame["when"] = pd.date_range("2024-01-01", periods=len(frame), freq="7h")
    frame.loc[[3, 7], "a"] = np.nan
    return frame


def score_rows(X):
    """What is asked of an estimator: all that a user asks of new rows."""

    def ask(model):
        _, task = rows()
        model.score_samples(X, task=task)
        model.score_tasks(X)
        model.predict(X, task=task)
        model.pvalues(X, task=task)
        model.select(X, task=task)

    return ask


def score_pipeline(model):
    """What is asked of a pipeline of scikit-learn, which knows no tasks."""
    X, _ = rows()
    model.score_samples(X)
    model.predict(X)


def score_table(model):
    """What is asked of a model of tables."""
    frame = table()
    model.score(frame)
    model.explain(frame.head(3))
    model.score(frame.assign(machine="nobody"), unknown="pooled")


def bases():
    """Small models of all forms, each with what is asked of it."""
    X, task = rows()
    thin = sparse.csr_array(np.where(np.abs(X) > 0.7, X, 0.0))
    yield JointOCKSR().fit(thin, task=task), score_rows(thin)
    yield SVDD().fit(thin, task=task), score_rows(thin)
    K = X @ X.T
    yield SVDD(kernel="precomputed").fit(K, task=task), score_rows(K)
    yield JointOCKSR(landmarks=8, random_state=0).fit(X, task=task), score_rows(X)
    yield CombinedOneClass().fit(X, task=task), score_rows(X)
    yield TableModel("machine", method="default").fit(table()), score_table
    own = manyone.make_pipeline(StandardScaler(), JointOCKSR(metric="whitened"))
    yield own.fit(X, task=task), score_rows(X)
    yield make_pipeline(StandardScaler(), JointOCKSR()).fit(X), score_pipeline


class Forged:
    """A model file, taken apart.

    Parameters
    ----------
    content : bytes
    """

    def __init__(self, content: bytes) -> None:
        first, second, rest = content.split(b"\n", 2)
        self.first = first
        self.header = json.loads(second)
        self.tree = json.loads(rest[: self.header["tree"]])
        self.body = bytearray(rest[self.header["tree"] :])

    def span(self, number: int) -> slice:
        """Where an array lies."""
        sizes = [
            int(np.prod(shape)) * np.dtype(dtype).itemsize
            for dtype, shape, _ in self.tree["arrays"]
        ]
        start = sum(sizes[:number])
        return slice(start, start + sizes[number])

    def array(self, number: int) -> np.ndarray:
        """The values of an array, to be changed in place."""
        dtype, shape, _ = self.tree["arrays"][number]
        span = self.span(number)
        count = int(np.prod(shape))
        return np.frombuffer(self.body, dtype=dtype, count=count, offset=span.start)

    def content(self, text: bytes | None = None) -> bytes:
        """The file, with sizes and checksum as they have to be."""
        text = json.dumps(self.tree).encode() if text is None else text
        rest = text + bytes(self.body)
        self.header["tree"] = len(text)
        self.header["bytes"] = len(rest)
        self.header["sha256"] = hashlib.sha256(rest).hexdigest()
        return self.first + b"\n" + json.dumps(self.header).encode() + b"\n" + rest


def sparse_places(forged: Forged) -> list[tuple[int, int]]:
    """Array and place of every index of every sparse array."""
    places = set()
    for node in nodes(forged.tree["objects"]):
        if isinstance(node, dict) and "sparse" in node:
            for number in node["sparse"][3:]:
                length = forged.tree["arrays"][number][1][0]
                places |= {(number, place) for place in range(length)}
    return sorted(places)


def nodes(tree):
    """All parts of a tree that hold others."""
    if isinstance(tree, dict | list):
        yield tree
        for item in tree.values() if isinstance(tree, dict) else tree:
            yield from nodes(item)


def change_value(forged: Forged, rng: np.random.Generator) -> bytes:
    """Another number somewhere in an array."""
    filled = [
        number
        for number, (dtype, shape, _) in enumerate(forged.tree["arrays"])
        if np.prod(shape) and dtype != "|u1"
    ]
    array = forged.array(int(rng.choice(filled)))
    place = rng.integers(len(array))
    if array.dtype.kind == "i":
        limits = np.iinfo(array.dtype)
        array[place] = np.clip(int(rng.choice(NUMBERS)), limits.min, limits.max)
    elif array.dtype.kind == "f":
        array[place] = rng.choice(REALS)
    else:
        raw = array.view(np.uint8)
        raw[rng.integers(len(raw))] = rng.integers(256)
    return forged.content()


def change_shape(forged: Forged, rng: np.random.Generator) -> bytes:
    """Another dtype, shape or order of an array; often of as many bytes."""
    layouts = forged.tree["arrays"]
    layout = layouts[int(rng.integers(len(layouts)))]
    kind = rng.integers(6)
    if kind == 0:
        layout[0] = str(rng.choice(DTYPES))
    elif kind == 1 and layout[1]:
        layout[1][int(rng.integers(len(layout[1])))] = int(rng.choice(NUMBERS))
    elif kind == 2:
        layout[1] = layout[1][::-1]
    elif kind == 3:
        layout[1] = [int(np.prod(layout[1]))]
    elif kind == 4:
        layout[1] = [1, *layout[1]]
    else:
        layout[2] = "F" if layout[2] == "C" else "C"
    return forged.content()


def change_length(forged: Forged, rng: np.random.Generator) -> bytes:
    """An array that is cut, emptied or longer along its first axis, with its bytes."""
    layouts = forged.tree["arrays"]
    axes = [number for number, (_, shape, _) in enumerate(layouts) if shape]
    number = int(rng.choice(axes))
    span = forged.span(number)
    values = bytes(forged.body[span])
    shape = layouts[number][1]
    length = int(rng.choice([0, 1, max(shape[0] - 1, 0), shape[0] + 1]))
    line = len(values) // shape[0] if shape[0] else 0
    forged.body[span] = (values + values[:line])[: line * length]
    shape[0] = length
    return forged.content()


def change_tree(forged: Forged, rng: np.random.Generator) -> bytes:
    """Another value, field, type or reference somewhere in the tree."""
    places = list(nodes(forged.tree["objects"]))
    node = places[int(rng.integers(len(places)))]
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    if not keys:
        node.update(x=1) if isinstance(node, dict) else node.append(1)
        return forged.content()
    key = keys[int(rng.integers(len(keys)))]
    kind = rng.integers(6)
    if kind == 0:
        del node[key]
    elif kind == 1:
        other = places[int(rng.integers(len(places)))]
        node[key] = copy.deepcopy(other)
    elif kind == 2 and isinstance(node[key], int):
        node[key] = int(node[key]) + int(rng.choice([-1, 1, 3]))
    elif kind == 3 and isinstance(node, dict):
        node[str(rng.choice(["x", "array", "object", "dict", "tuple"]))] = node.pop(key)
    elif kind == 4:
        types = [one["type"] for one in forged.tree["objects"]]
        objects = forged.tree["objects"]
        objects[int(rng.integers(len(objects)))]["type"] = str(rng.choice(types))
    else:
        node[key] = VALUES[int(rng.integers(len(VALUES)))]
    return forged.content()


def change_bytes(forged: Forged, rng: np.random.Generator) -> bytes:
    """Flipped bits in the tree or in the arrays."""
    text = bytearray(json.dumps(forged.tree).encode())
    part = text if rng.integers(2) else forged.body
    for place in rng.integers(0, len(part), size=rng.integers(1, 4)):
        part[place] ^= 1 << rng.integers(8)
    return forged.content(bytes(text))


def change_member(forged: Forged, rng: np.random.Generator) -> bytes:
    """Another byte in a file of the archive of foreign steps, packed again."""
    number = forged.tree["foreign"]
    if number is None:
        return change_tree(forged, rng)
    span = forged.span(number)
    packed = zipfile.ZipFile(io.BytesIO(bytes(forged.body[span])))
    chosen = packed.namelist()[int(rng.integers(len(packed.namelist())))]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target:
        for name in packed.namelist():
            data = bytearray(packed.read(name))
            if name == chosen and data:
                data[rng.integers(len(data))] = rng.integers(256)
            target.writestr(name, bytes(data))
    forged.body[span] = buffer.getvalue()
    forged.tree["arrays"][number][1] = [len(buffer.getvalue())]
    return forged.content()


CHANGES = [
    change_value,
    change_shape,
    change_length,
    change_tree,
    change_tree,
    change_bytes,
    change_member,
]


def forge(content: bytes, number: int) -> bytes:
    """The forged file of a number; the first each change a sparse index."""
    forged = Forged(content)
    rng = np.random.default_rng(number)
    places = sparse_places(forged)
    if number < 2 * len(places):
        array, place = places[number // 2]
        values = forged.array(array)
        values[place] = [-1, 2**31 - 1, 60, values[place] + 7][(number + place) % 4]
        return forged.content()
    return CHANGES[number % len(CHANGES)](forged, rng)


def outcome(path: Path, ask) -> str:
    """What became of a forged file: refused, harmless, or how it did harm."""
    try:
        model = manyone.load(path)
    except ModelFileError as error:
        return "refused" if str(path) in str(error) else f"harm: {error!r}"
    except BaseException as error:
        return f"harm at load: {error!r}"
    try:
        ask(model)
    except ValueError:
        return "refused when asked"
    except BaseException as error:
        return f"harm when asked: {error!r}"
    return "harmless"


def give_up(*_):
    """Stop what takes too long."""
    raise TimeoutError(f"longer than {SECONDS} seconds")


def main(first: int, count: int) -> int:
    """Forge, load and score files; the number of those that did harm."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, give_up)
    np.seterr(all="ignore")
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        models = []
        for model, ask in bases():
            manyone.save(model, path)
            ask(manyone.load(path))
            models.append((path.read_bytes(), ask))
        for number in range(first, first + count):
            content, ask = models[number % len(models)]
            path.write_bytes(forge(content, number // len(models)))
            signal.alarm(SECONDS)
            result = outcome(path, ask)
            signal.alarm(0)
            counts[result.partition(":")[0]] += 1
            if result.startswith("harm:") or result.startswith("harm "):
                print(f"{number}: {result}")
    print(json.dumps(counts))
    return sum(n for name, n in counts.items() if name.startswith("harm "))


if __name__ == "__main__":
    sys.exit(min(main(int(sys.argv[1]), int(sys.argv[2])), 1))
