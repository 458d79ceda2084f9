"""Every method of the package and every rival fits and scores; new methods appear by themselves."""

import numpy as np
import pytest

from manyone import JointOCKSR
from manyone.estimators import METHODS
from manyone.experiments import methods
from manyone.experiments.methods import AS_IN_PAPER, own
from manyone.metrics import task_aucs


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    centres = 4 * rng.normal(size=(4, 5))
    task = np.repeat(["a", "b", "c", "d"], 9)
    codes = np.repeat(np.arange(4), 9)
    X, Z = (rng.normal(size=(36, 5)) + centres[codes] for _ in range(2))
    return X, task, Z, codes


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(methods()))
def test_every_method_tells_far_tasks_apart(name, blobs):
    X, task, Z, codes = blobs
    model = methods()[name].fit(X, task, "seen")
    scores = model.score_tasks(Z)
    assert scores.shape == (36, 4)
    assert np.all(task_aucs(scores, codes) > 0.9)
    if hasattr(model, "recalibrate"):
        assert model.recalibrate(0.2).offset_.shape == (4,)


@pytest.mark.filterwarnings("ignore")
def test_paper_setting_fixes_kernel_and_ridge(blobs):
    X, task, *_ = blobs
    model = methods()["C-OCKSR" + AS_IN_PAPER].fit(X, task)
    assert (model.kernel, model.alpha) == ("rbf", 1.0)
    assert own("C-OCKSR", "alpha=1e-3").fit(X, task).alpha == 1e-3


@pytest.mark.filterwarnings("ignore")
def test_a_method_without_closed_form_is_chosen_by_folds(blobs, monkeypatch):
    class Newcomer(JointOCKSR):
        @property
        def _honest_scores(self):
            raise AttributeError("no closed form")

    monkeypatch.setitem(METHODS, "OCKSR-X", Newcomer)
    X, task, Z, codes = blobs
    table = methods()
    assert "OCKSR-X" in table
    assert "OCKSR-X" + AS_IN_PAPER not in table  # the paper does not have it
    model = table["OCKSR-X"].fit(X, task)
    assert isinstance(model, Newcomer)
    assert "folds" in model.tuning_["stage"]
    assert np.mean(task_aucs(model.score_tasks(Z), codes)) > 0.9
