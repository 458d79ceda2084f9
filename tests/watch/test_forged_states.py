"""States with a right checksum and wrong content are refused by one clean line."""

import numpy as np
import pytest

from manyone import IndependentOCKSR, Monitor
from manyone.files import archive
from manyone.watch import MonitorState

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
TASKS = 4


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(TASKS), 30)
    return IndependentOCKSR(alarm_rate=0.1).fit(rng.normal(size=(120, 3)), task=task)


@pytest.fixture
def saved(model, tmp_path):
    """What a file of a state holds, and where it is."""
    rng = np.random.default_rng(1)
    monitor = Monitor(model)
    monitor.update(rng.normal(size=(40, 3)), np.arange(40) % TASKS)
    path = tmp_path / "state"
    monitor.save_state(path)
    return archive.load(path, "state"), path


def refused(content, path, model):
    path.write_bytes(archive.dumps("state", content))
    with pytest.raises(ValueError, match=str(path)) as error:
        Monitor.load_state(path, model)
    assert "\n" not in str(error.value)


FIELDS = [name for name in MonitorState.__dataclass_fields__ if name != "memory"]


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_checked(saved, model, name):
    content, path = saved
    refused({key: content[key] for key in content if key != name}, path, model)
    for wrong in (None, [1, 2], {}, np.zeros((2, 2)), np.array(["a"]), -5, "text"):
        if type(wrong) is not type(content[name]) or name == "rate":
            refused(content | {name: wrong}, path, model)


@pytest.mark.parametrize(
    "name", [name for name in FIELDS if name not in ("fingerprint", "seed")]
)
def test_arrays_of_other_shapes_and_types_are_refused(saved, model, name):
    content, path = saved
    value = content[name]
    if not isinstance(value, np.ndarray):
        refused(content | {name: 7.0}, path, model)
        return
    wrong = [value[:-1], value[None], np.concatenate([value, value])]
    if value.dtype.kind != "U":
        wrong += [np.zeros(value.shape, dtype) for dtype in (np.int16, np.float16)]
    for array in wrong:
        refused(content | {name: array}, path, model)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("head", 100),
        ("head", -1),
        ("counts", 1001),
        ("counts", 17),  # more than the history is wide
        ("level", 1.5),
        ("level", np.nan),
        ("run", -0.1),
        ("shares", 0.9),
        ("neighbours", 0.0),
        ("log_wealth", np.nan),
        ("log_wealth", np.inf),
        ("low", np.nan),
        ("rows", -1),
        ("flagged", -2),
        ("fleet_flagged", -2),
        ("trained", np.inf),
    ],
)
def test_numbers_out_of_range_are_refused(saved, model, name, wrong):
    content, path = saved
    forged = content[name].copy()
    forged.flat[-1] = wrong
    refused(content | {name: forged}, path, model)


@pytest.mark.parametrize(
    "change",
    [
        lambda memory: memory.pop("count"),
        lambda memory: memory.update(count=7),
        lambda memory: memory.update(count="many"),
        lambda memory: memory.update(ids=[0] * 40),
        lambda memory: memory.update(ids=[0.5, *range(39)]),
        lambda memory: memory["rows"].update(task=np.full(40, 9, dtype=np.int32)),
        lambda memory: memory["rows"].update(answer=np.full(40, 3, dtype=np.int8)),
        lambda memory: memory["rows"].update(weight=np.full(40, 2, dtype=np.float32)),
        lambda memory: memory["rows"].update(p_value=np.full(40, np.nan)),
        lambda memory: memory["rows"].update(score=np.zeros(39)),
        lambda memory: memory["rows"].pop("alarm"),
    ],
)
def test_forged_rows_are_refused(saved, model, change):
    content, path = saved
    change(content["memory"])
    refused(content, path, model)


def test_states_of_other_numbers_of_tasks_and_other_formats_are_refused(
    saved, model, tmp_path
):
    content, path = saved
    other = IndependentOCKSR(alarm_rate=0.1).fit(
        np.random.default_rng(2).random((40, 3))
    )
    Monitor(other).save_state(path)
    one_task = archive.load(path, "state")
    path.write_bytes(
        archive.dumps("state", one_task | {"fingerprint": content["fingerprint"]})
    )
    with pytest.raises(ValueError, match="another model"):
        Monitor.load_state(path, model)
    path.write_bytes(b"manyone monitor state 2\n and what follows")
    with pytest.raises(ValueError, match="older manyone"):
        Monitor.load_state(path, model)
    path.write_bytes(b"SQLite format 3\0 and what follows")
    with pytest.raises(ValueError, match="store of manyone watch"):
        Monitor.load_state(path, model)
