"""The archive: what it holds comes back, what is forged is refused."""

import io
import json
import subprocess
import sys
import tracemalloc
import zipfile
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import manyone
from forging import Forged, nodes
from manyone import JointOCKSR, ModelFileError, model_files
from manyone._types import Array, Codes, Mask
from manyone.files import archive
from manyone.files.foreign import _check_parts, packed
from manyone.files.registry import _BY_NAME, register

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


@dataclass(frozen=True, eq=False)
class Leaf:
    values: Array
    codes: Codes


@dataclass(eq=False)
class State:
    name: str
    rate: float
    count: int
    marks: Mask
    texts: NDArray[np.str_]
    labels: NDArray[np.object_]
    leaves: tuple[Leaf, ...]
    by_name: dict[str, float | None]
    matrix: sparse.csr_array | None = None
    extra: list[int] = field(default_factory=list)


register(Leaf, {"values": "n", "codes": "n in n"}, name="Test leaf")
register(State, {"marks": "m", "texts": "m"}, name="Test state")


@pytest.fixture
def state():
    leaf = Leaf(np.array([1.0, np.nan]), np.array([0, 1]))
    labels = np.empty(3, dtype=object)
    labels[:] = [("a", 1), None, 10**30]
    return State(
        name="läthe \udc80",
        rate=float("inf"),
        count=3,
        marks=np.array([True, False]),
        texts=np.array(["a", "日本"]),
        labels=labels,
        leaves=(leaf, leaf),
        by_name={"x": None, "y": 0.1},
        matrix=sparse.csr_array(np.eye(3)),
    )


def test_values_come_back_as_they_were(state, tmp_path):
    archive.save(tmp_path / "s", "state", state)
    for twin in (
        archive.load(tmp_path / "s", "state"),
        archive.loads(archive.dumps("state", state), "state"),
    ):
        assert type(twin) is State
        assert (twin.name, twin.rate, twin.count) == (state.name, state.rate, 3)
        assert twin.labels.tolist() == state.labels.tolist()
        assert twin.texts.tolist() == state.texts.tolist()
        assert twin.by_name == state.by_name
        assert twin.leaves[0] is twin.leaves[1]
        assert np.array_equal(twin.leaves[0].values, [1.0, np.nan], equal_nan=True)
        assert np.array_equal(twin.matrix.toarray(), np.eye(3))
        twin.marks[0] = False  # what is loaded may change


def test_a_state_is_no_model(state, tmp_path):
    archive.save(tmp_path / "s", "state", state)
    with pytest.raises(ModelFileError, match="s is a state of manyone, not a model"):
        manyone.load(tmp_path / "s")
    with pytest.raises(ModelFileError, match="This state is not a manyone state"):
        archive.loads(b"nothing", "state")


def test_the_order_of_arrays_is_kept():
    leaves = [np.ones((2, 3), order="F"), np.ones((4, 4))[::2, ::2], np.ones((0, 3))]
    twins = archive.loads(archive.dumps("list", leaves), "list")
    for array, twin in zip(leaves, twins, strict=True):
        assert twin.shape == array.shape
    assert twins[0].flags.f_contiguous


@pytest.mark.parametrize(
    "value",
    [
        lambda: None,
        np.array([1 + 2j]),
        np.zeros(2, dtype=[("a", "f8")]),
        {1, 2},
        JointOCKSR,
        b"bytes",
    ],
    ids=["function", "complex", "records", "set", "class", "bytes"],
)
def test_what_a_file_cannot_hold_is_named(value):
    with pytest.raises(ValueError, match="it holds a"):
        archive.dumps("list", [value])


def forge(content, change):
    forged = Forged(content)
    change(forged)
    return forged.content()


def fields_of(forged, name):
    (node,) = [one for one in forged.tree["objects"] if one["type"] == name]
    return node["fields"]


FORGERIES = {
    "a field of another kind": lambda one: fields_of(one, "Test state").update(
        count="3"
    ),
    "true for a number": lambda one: fields_of(one, "Test state").update(count=True),
    "no such field": lambda one: fields_of(one, "Test state").update(more=1),
    "a field is missing": lambda one: fields_of(one, "Test state").pop("rate"),
    "an array for a text": lambda one: fields_of(one, "Test state").update(
        name={"array": 0}
    ),
    "a place from the end": lambda one: fields_of(one, "Test state").update(
        marks={"array": -1}
    ),
    "itself": lambda one: fields_of(one, "Test state").update(leaves={"object": 1}),
    "a type by its path": lambda one: one.tree["objects"][0].update(type="os.system"),
    "a number out of range": lambda one: one.array(0).__setitem__(0, 2),
    "objects by dtype": lambda one: one.tree["arrays"][0].__setitem__(0, "|O"),
    "a negative length": lambda one: one.tree["arrays"][0].__setitem__(1, [-2]),
    "a huge length": lambda one: one.tree["arrays"][0].__setitem__(1, [2**60]),
    "huge texts": lambda one: one.tree["arrays"].append(["<U999999999", [0], "C"]),
    "no such order": lambda one: one.tree["arrays"].append(["<f8", [0], "A"]),
    "huge and empty": lambda one: one.tree["arrays"][0].__setitem__(1, [0, 2**60]),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES.keys())
def test_forged_states_are_refused_by_one_line(state, change):
    content = forge(archive.dumps("state", state), change)
    with pytest.raises(ModelFileError, match=r"^This state cannot be read: [^\n]*\.$"):
        archive.loads(content, "state")


def test_trees_that_are_too_deep_are_refused(state):
    text = b'{"arrays":[],"root":' + b"[" * 10**5 + b"]" * 10**5 + b"}"
    with pytest.raises(ModelFileError, match="cannot be read: RecursionError"):
        archive.loads(Forged(archive.dumps("state", state)).content(text), "state")


def test_booleans_and_texts_have_values_that_exist(state):
    content = archive.dumps("state", state)
    for dtype, raw in (("|b1", b"\x07"), ("<U2", b"\xff\xff\xff\xff")):
        forged = Forged(content)
        number = [layout[0] for layout in forged.tree["arrays"]].index(dtype)
        start = forged.span(number).start
        forged.body[start : start + len(raw)] = raw
        with pytest.raises(ModelFileError, match="an array has"):
            archive.loads(forged.content(), "state")


def test_a_file_that_became_shorter_is_refused():
    layout = np.dtype("<f8"), (2,), "C"
    whole = np.arange(2.0).tobytes()
    np.testing.assert_array_equal(
        archive._read_array(io.BytesIO(whole), layout), [0.0, 1.0]
    )
    with pytest.raises(ModelFileError, match="shorter"):
        archive._read_array(io.BytesIO(whole[:-1]), layout)


def test_values_inside_values_do_not_multiply():
    forged = Forged(archive.dumps("list", [Leaf(np.zeros(1), np.zeros(1, dtype=int))]))
    for number in range(40):
        pair = {"tuple": [{"object": number}, {"object": number}]}
        forged.tree["objects"].append({"type": "Test pair", "fields": {"pair": pair}})
    with pytest.raises(ModelFileError, match="more than 4194304 values"):
        archive.loads(forged.content(), "list")


@dataclass(frozen=True, eq=False)
class Pair:
    pair: tuple[object, ...]


register(Pair, name="Test pair")


def test_loading_takes_the_memory_of_the_file(tmp_path):
    big = np.random.default_rng(0).normal(size=(1000, 500))
    archive.save(tmp_path / "big", "list", [big])
    tracemalloc.start()
    archive.load(tmp_path / "big", "list")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * big.nbytes


def test_endless_files_are_refused():
    with pytest.raises(ModelFileError, match="/dev/zero is no regular file"):
        manyone.load("/dev/zero")


# ------------------------------------------------------------------------------- models


@pytest.fixture
def pipeline(fleet):
    X, _ = fleet
    return make_pipeline(StandardScaler(), JointOCKSR()).fit(X)


def test_a_pipeline_with_memory_is_neither_saved_nor_loaded(pipeline, tmp_path):
    manyone.save(pipeline, tmp_path / "p")
    remembering = Forged((tmp_path / "p").read_bytes())
    fields_of(remembering, "sklearn.Pipeline")["memory"] = str(tmp_path)
    (tmp_path / "p").write_bytes(remembering.content())
    with pytest.raises(ModelFileError, match="memory"):
        manyone.load(tmp_path / "p")
    pipeline.set_params(memory=str(tmp_path / "cache"))
    with pytest.raises(ValueError, match=r"cannot be saved: .*memory"):
        manyone.save(pipeline, tmp_path / "p")


def test_a_step_is_refused_that_unpacks_to_more_than_it_is(pipeline, tmp_path):
    manyone.save(pipeline, tmp_path / "p")
    forged = Forged((tmp_path / "p").read_bytes())
    number = forged.tree["foreign"]
    span = forged.span(number)
    source = zipfile.ZipFile(io.BytesIO(bytes(forged.body[span])))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as bomb:
        for name in source.namelist():
            bomb.writestr(name, source.read(name))
        bomb.writestr("zeros.npy", bytes(10**7))
    forged.body[span] = buffer.getvalue()
    forged.tree["arrays"][number][1] = [len(buffer.getvalue())]
    (tmp_path / "p").write_bytes(forged.content())
    with pytest.raises(ModelFileError, match="compressed"):
        manyone.load(tmp_path / "p")


def test_a_step_with_a_hostile_type_is_refused(pipeline, tmp_path):
    manyone.save(pipeline, tmp_path / "p")
    forged = Forged((tmp_path / "p").read_bytes())
    number = forged.tree["foreign"]
    span = forged.span(number)
    source = zipfile.ZipFile(io.BytesIO(bytes(forged.body[span])))
    trap = tmp_path / "trap"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name == "schema.json":
                schema = json.loads(data)
                kind = {"__class__": "partial", "__module__": "functools"}
                schema.update(**kind, __loader__="PartialNode")
                call = {"__class__": "system", "__module__": "os"}
                schema["content"] = {
                    "func": {**call, "__loader__": "FunctionNode"},
                    "args": f"touch {trap}",
                }
                data = json.dumps(schema).encode()
            target.writestr(name, data)
    forged.body[span] = buffer.getvalue()
    forged.tree["arrays"][number][1] = [len(buffer.getvalue())]
    (tmp_path / "p").write_bytes(forged.content())
    with pytest.raises(ModelFileError):
        manyone.load(tmp_path / "p")
    assert not trap.exists()


def double(X):
    return 2 * X


def test_steps_with_functions_need_trust(fleet, tmp_path):
    X, _ = fleet
    model = make_pipeline(FunctionTransformer(double), JointOCKSR()).fit(X)
    name = f"{double.__module__}.double"
    with pytest.raises(ValueError, match=f"holds {name}"):
        manyone.save(model, tmp_path / "p")
    manyone.save(model, tmp_path / "p", trusted=[name])
    with pytest.raises(ModelFileError, match=f"not trusted: {name}"):
        manyone.load(tmp_path / "p")
    twin = manyone.load(tmp_path / "p", trusted=[name])
    assert np.array_equal(twin.score_samples(X), model.score_samples(X))


def test_steps_that_cannot_be_checked_are_refused_before_they_are_saved():
    step = StandardScaler()
    step.lock_ = {"deep": [np.random.SeedSequence(1)]}
    with pytest.raises(ModelFileError, match=r"SeedSequence, which cannot be checked"):
        _check_parts([step], frozenset())


def test_sparse_parts_of_steps_are_checked():
    step = StandardScaler()
    step.table_ = sparse.csr_array(np.eye(3))
    _check_parts([step], frozenset())
    step.table_.indices[1] = 7
    with pytest.raises(ValueError, match="indices"):
        _check_parts([step], frozenset())
    assert isinstance(packed([StandardScaler()], ()), bytes)


def test_skops_is_imported_for_foreign_steps_only(fleet, tmp_path):
    X, task = fleet
    manyone.save(JointOCKSR().fit(X, task=task), tmp_path / "m")
    program = (
        "import sys, manyone; manyone.load(sys.argv[1]); print('skops' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "m")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_random_states_are_kept(fleet, tmp_path):
    X, task = fleet
    model = JointOCKSR(landmarks=9, random_state=np.random.RandomState(3))
    manyone.save(model.fit(X, task=task), tmp_path / "m")
    twin = manyone.load(tmp_path / "m")
    assert np.array_equal(twin.random_state.rand(5), model.random_state.rand(5))
    forged = Forged((tmp_path / "m").read_bytes())
    for node in nodes(forged.tree["objects"]):
        if isinstance(node, dict) and isinstance(node.get("random_state"), list):
            node["random_state"][2] = 10**6
    (tmp_path / "m").write_bytes(forged.content())
    with pytest.raises(ModelFileError, match="Mersenne"):
        manyone.load(tmp_path / "m")


def test_an_attribute_of_ones_own_is_named(fleet, tmp_path):
    X, task = fleet
    model = JointOCKSR().fit(X, task=task)
    model.note_ = "mine"
    with pytest.raises(
        ValueError, match="cannot be saved: it has the attribute 'note_'"
    ):
        manyone.save(model, tmp_path / "m")


def test_every_rule_is_about_a_field():
    model_files._register_methods()
    for entry in _BY_NAME.values():
        assert set(entry.rules) <= set(entry.kinds), entry.name
        assert entry.fitted <= set(entry.kinds), entry.name
