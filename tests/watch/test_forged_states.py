"""States with a right checksum and wrong content are refused by one clean line."""

from dataclasses import replace

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


def forge(state, path):
    """Write a state that `archive` itself would refuse to write."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "_built", lambda *args: None)
        path.write_bytes(archive.dumps("state", state))


def refused(state, path, model):
    forge(state, path)
    with pytest.raises(ValueError, match=str(path)) as error:
        Monitor.load_state(path, model)
    assert "\n" not in str(error.value)


FIELDS = [name for name in MonitorState.__dataclass_fields__ if name != "memory"]


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_checked(saved, model, name):
    state, path = saved
    refused({**vars(state)}, path, model)  # the fields, and no state
    for wrong in (None, [1, 2], {}, np.zeros((2, 2)), np.array(["a"]), -5, "text"):
        if type(wrong) is not type(getattr(state, name)) or name == "rate":
            refused(replace(state, **{name: wrong}), path, model)


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "fingerprint"])
def test_arrays_of_other_shapes_and_types_are_refused(saved, model, name):
    state, path = saved
    value = getattr(state, name)
    if not isinstance(value, np.ndarray):
        refused(replace(state, **{name: 7.0}), path, model)
        return
    wrong = [value[:-1], value[None], np.concatenate([value, value])]
    if value.dtype.kind != "U":
        wrong += [np.zeros(value.shape, dtype) for dtype in (np.int16, np.float16)]
    for array in wrong:
        refused(replace(state, **{name: array}), path, model)


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
        ("rows", -1),
        ("flagged", -2),
        ("fleet_flagged", -2),
        ("answers", np.inf),
    ],
)
def test_numbers_out_of_range_are_refused(saved, model, name, wrong):
    state, path = saved
    forged = getattr(state, name).copy()
    forged.flat[-1] = wrong
    refused(replace(state, **{name: forged}), path, model)


@pytest.mark.parametrize(
    "change",
    [
        {"count": 7},
        {"count": "many"},
        {"ids": [0] * 40},
        {"ids": [0.5, *range(39)]},
        {"task": np.full(40, 9, dtype=np.int32)},
        {"answer": np.full(40, 3, dtype=np.int8)},
        {"weight": np.full(40, 2, dtype=np.float32)},
        {"p_value": np.full(40, np.nan)},
        {"score": np.zeros(39)},
        {"alarm": None},
    ],
)
def test_forged_rows_are_refused(saved, model, change):
    state, path = saved
    refused(replace(state, memory=replace(state.memory, **change)), path, model)
    refused(replace(state, memory=None), path, model)


def test_states_of_other_numbers_of_tasks_and_other_formats_are_refused(
    saved, model, tmp_path
):
    state, path = saved
    other = IndependentOCKSR(alarm_rate=0.1).fit(
        np.random.default_rng(2).random((40, 3))
    )
    Monitor(other).save_state(path)
    one_task = archive.load(path, "state")
    forged = replace(one_task, fingerprint=state.fingerprint)
    forge(forged, path)
    with pytest.raises(ValueError, match="another model"):
        Monitor.load_state(path, model)
    path.write_bytes(b"manyone monitor state 2\n and what follows")
    with pytest.raises(ValueError, match="earlier manyone"):
        Monitor.load_state(path, model)
    path.write_bytes(b"SQLite format 3\0 and what follows")
    with pytest.raises(ValueError, match="store of manyone watch"):
        Monitor.load_state(path, model)
