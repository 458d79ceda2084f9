"""Blocks as they come: empty ones, ones that change, models that passes cannot fit."""

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from manyone import (
    SVDD,
    CombinedOneClass,
    IndependentOCKSR,
    JointOCKSR,
    TableModel,
    make_pipeline,
)
from manyone.engines import Block, fit, local_sweep

RNG = np.random.default_rng(4)
SHOP = np.array(["a", "b", "c"])[RNG.integers(0, 3, 240)]
X = RNG.normal(size=(240, 3)) + 2.0 * (SHOP == "b")[:, None]
FRAME = pd.DataFrame(X, columns=list("uvw")).assign(shop=SHOP)
BLOCKS = [Block(FRAME.iloc[i : i + 60], "shop") for i in range(0, 240, 60)]


def joint():
    return JointOCKSR(landmarks=30, random_state=0)


def pair():
    views = [("joint", joint()), ("alone", IndependentOCKSR())]
    return CombinedOneClass(estimators=views)


# ------------------------------------------------------------------------- which models


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (make_pipeline(StandardScaler(), joint()), "TaskPipeline.*where blocks are"),
        (TableModel("shop"), "TableModel.fit takes files"),
        (StandardScaler(), "StandardScaler"),
        (SVDD(), "SVDD needs all rows in memory"),
        (JointOCKSR(), "Without landmarks"),
        (CombinedOneClass(), "CombinedOneClass needs all rows in memory"),
    ],
)
def test_others_are_refused_in_words(model, words):
    with pytest.raises(ValueError, match=words):
        fit(model, local_sweep(BLOCKS))


# ------------------------------------------------------------------------- which blocks


def test_empty_blocks_are_passed_over():
    empty = Block(FRAME.iloc[:0], "shop")
    expected = fit(joint(), local_sweep(BLOCKS))
    for blocks in (
        [empty, *BLOCKS],
        [*BLOCKS, empty],
        [*BLOCKS[:2], empty, *BLOCKS[2:]],
    ):
        found = fit(joint(), local_sweep(blocks))
        np.testing.assert_array_equal(found.offset_, expected.offset_)
    with pytest.raises(ValueError, match="No block has a row"):
        fit(joint(), local_sweep([empty, empty]))


def test_engines_of_users_may_have_empty_blocks_too():
    def sweep(step):
        parts = [
            step.partial(block) for block in [Block(X[:0], SHOP[:0]), *BLOCKS_BARE]
        ]
        while len(parts) > 1:
            parts.append(step.merge(parts.pop(0), parts.pop(0)))
        return parts[0]

    found = fit(joint(), sweep)
    np.testing.assert_allclose(found.offset_, joint().fit(X, task=SHOP).offset_)


BLOCKS_BARE = [Block(X[i::4], SHOP[i::4]) for i in range(4)]


def test_rows_that_get_fewer_between_passes_are_noticed():
    calls = []

    def blocks():
        calls.append(1)
        return iter(BLOCKS if len(calls) == 1 else BLOCKS[:2])

    with pytest.raises(
        ValueError, match="the first pass saw 240 rows, a later one 120"
    ):
        joint().fit(blocks)


def test_rows_that_change_between_passes_are_noticed():
    rng = np.random.default_rng(0)

    def noisy():
        for block in BLOCKS_BARE:
            yield block.X + rng.normal(size=block.X.shape), block.task

    with pytest.raises(ValueError, match="240 rows of different values"):
        joint().fit(noisy)


def test_random_rows_of_dask_are_noticed():
    da = pytest.importorskip("dask.array")
    rng = np.random.default_rng(0)
    rows = da.from_array(X, chunks=(80, 3)).map_blocks(
        lambda block: block + rng.normal(size=block.shape), dtype=float
    )
    with pytest.raises(ValueError, match="different values"):
        joint().fit(rows, task=SHOP)


def test_rows_in_another_order_are_the_same_rows():
    calls = []

    def blocks():
        calls.append(1)
        return iter(BLOCKS_BARE[:: 1 if len(calls) % 2 else -1])

    found = joint().fit(blocks)
    np.testing.assert_allclose(found.offset_, joint().fit(X, task=SHOP).offset_)


def test_a_bad_block_is_told_without_the_name_of_a_class():
    for model in (joint(), pair()):
        with pytest.raises(ValueError, match="required") as error:
            model.fit(X[:0], task=[])
        assert "BaseEstimator" not in str(error.value)


# --------------------------------------------------------------- questions about blocks


@pytest.fixture(scope="module")
def fitted():
    return pair().fit(X, task=SHOP)


def sources(tmp_path):
    """The same rows in a function, a file and Dask, with how their tasks are told."""
    FRAME.to_parquet(tmp_path / "rows.parquet")
    yield lambda: ((X[i : i + 60], SHOP[i : i + 60]) for i in range(0, 240, 60)), {}
    yield str(tmp_path / "rows.parquet"), {"task": "shop"}
    da = pytest.importorskip("dask.array")
    yield da.from_array(X, chunks=(100, 3)), {"task": SHOP}


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_every_question_takes_blocks(tmp_path):
    model = pair().fit(FRAME, task="shop")
    bare = pair().fit(X, task=SHOP)
    views = model.view_scores(FRAME)
    selected = model.select(FRAME)
    held_out = pair().fit(FRAME, task="shop").calibrate(FRAME).offset_
    for rows, claims in sources(tmp_path):
        asked = model if isinstance(rows, str) else bare
        np.testing.assert_allclose(asked.view_scores(rows, **claims), views)
        np.testing.assert_array_equal(asked.select(rows, **claims), selected)
    for rows, claims in sources(tmp_path):
        asked = model if isinstance(rows, str) else bare
        np.testing.assert_allclose(asked.calibrate(rows, **claims).offset_, held_out)


def test_counts_of_blocks_reach_the_thresholds(fitted):
    weight = np.where(np.arange(240) % 2 == 0, 3.0, 0.0)
    model = joint().fit(X, task=SHOP)
    expected = model.calibrate(X, task=SHOP, sample_weight=weight).offset_
    model.calibrate(
        lambda: ((X[i::4], SHOP[i::4], None, weight[i::4]) for i in range(4))
    )
    np.testing.assert_allclose(model.offset_, expected)
    with pytest.raises(ValueError, match="normal rows only"):
        model.calibrate(lambda: iter([(X, SHOP, np.zeros(240, dtype=bool))]))


def test_no_blocks_get_an_empty_answer(fitted):
    assert fitted.predict(lambda: iter([])).shape == (0,)
    assert fitted.view_scores(lambda: iter([])).shape == (0, 2)
