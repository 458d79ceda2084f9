"""Files of every format since the fourth load ever after, with the scores they had.

Written by ``python tests/golden/make.py``.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import manyone

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*/*.manyone"))


@pytest.fixture
def make(monkeypatch):
    """The script that wrote them."""
    monkeypatch.setattr(sys, "path", [str(GOLDEN), *sys.path])
    import make

    return make


def test_there_are_four_of_the_present_format():
    names = {path.stem for path in FILES if path.parent.name == "4"}
    assert names == {"combined", "joint", "pipeline", "table"}


@pytest.mark.parametrize(
    "path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_a_golden_file_scores_as_it_did(path, make):
    expected = json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))
    model = manyone.load(path)
    scores = make.scores(model, np.array(expected["X"]), np.array(expected["task"]))
    np.testing.assert_allclose(scores, expected[path.stem], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_a_golden_file_that_is_cut_short_is_refused(path, tmp_path):
    content = path.read_bytes()
    for length in [0, 10, 100, len(content) // 2, len(content) - 1]:
        (tmp_path / "short").write_bytes(content[:length])
        with pytest.raises(manyone.ModelFileError, match="short"):
            manyone.load(tmp_path / "short")
