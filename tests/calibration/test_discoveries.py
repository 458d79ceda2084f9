"""False-discovery control of a batch: p-values by hand, rates by simulation."""

import numpy as np
import pytest

from manyone import IndependentOCKSR
from manyone.calibration.discoveries import (
    ReferenceScores,
    batch_pvalues,
    benjamini_hochberg,
    smallest_fdr,
)
from manyone.models.scale import Scale

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


def by_hand(reference, scores, codes):
    """The formula of the module, row by row."""
    m = len(scores)
    p = []
    for score, task in zip(scores, codes, strict=True):
        total = 0.0
        for other in range(reference.n_tasks):
            own = reference.codes == other
            lower = reference.values[own] <= score / reference.scale.unit[task]
            below = reference.weight[own][lower].sum()
            count = reference.weight[own].sum()
            rows = np.sum(codes == other)
            if other == task:
                below = reference.weight[own][reference.scores[own] <= score].sum()
                total += rows * (1 + below) / (1 + count)
            elif count > 0:
                total += rows * below / count
        p.append(total / m)
    return np.array(p)


def test_pvalues_are_the_share_of_the_batch_that_scores_as_low():
    rng = np.random.default_rng(0)
    sizes = [5, 1, 0, 12]
    codes = np.repeat(np.arange(4), sizes)
    reference = ReferenceScores(
        np.round(rng.normal(size=18), 1),
        np.round(rng.normal(size=18), 1),
        rng.integers(1, 4, 18).astype(float),
        codes,
        Scale(np.ones(4), np.zeros(4), np.array([1.0, 2.0, 1.0, 0.5])),
    )
    claims = rng.choice([0, 1, 2, 3, 3], 30)
    scores = np.round(rng.normal(size=30), 1) * reference.scale.unit[claims]
    p = batch_pvalues(reference, scores, claims)
    np.testing.assert_allclose(p, by_hand(reference, scores, claims), atol=1e-12)


def test_a_batch_of_one_task_has_its_own_ranks():
    rng = np.random.default_rng(0)
    task = np.repeat([0, 1, 2], [20, 7, 300])
    model = IndependentOCKSR().fit(rng.normal(size=(327, 3)), task=task)
    scores = model.score_samples(rng.normal(size=(9, 3)), task=[1] * 9)
    reference = ReferenceScores.of(model.calibration_)
    p = batch_pvalues(reference, scores, np.ones(9, dtype=int))
    own = model.calibration_.scores[model.calibration_.codes == 1]
    ranks = (1 + (own[:, None] <= scores).sum(axis=0)) / 8
    np.testing.assert_allclose(p, ranks)


def test_benjamini_hochberg_takes_the_longest_list():
    p = np.array([0.001, 0.9, 0.021, 0.06, 0.9])
    assert benjamini_hochberg(p, 0.1).tolist() == [True, False, True, True, False]
    assert not benjamini_hochberg(np.full(5, 0.2), 0.1).any()


def test_the_smallest_fdr_is_where_selection_begins():
    p = np.random.default_rng(0).uniform(size=50) ** 2
    least = smallest_fdr(p)
    assert benjamini_hochberg(p, least).any()
    assert not benjamini_hochberg(p, 0.999 * least).any()


@pytest.mark.parametrize("batch", ["heavy task alone", "all tasks"])
def test_normal_batches_are_rarely_selected_from(batch):
    """One task in five has heavy tails; a selection is false, whatever it selects."""
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(5), 20)
    claims = np.repeat(np.arange(5), 20) if batch == "all tasks" else np.zeros(100, int)
    found = 0
    for _ in range(100):
        centre = 2.0 * rng.normal(size=(5, 3))

        def draw(codes, centre=centre):
            length = np.sqrt(rng.chisquare(2, len(codes)) / 2)
            length[codes > 0] = 1.0
            rows = rng.normal(size=(len(codes), 3)) / length[:, None]
            return centre[codes] + rows

        model = IndependentOCKSR().fit(draw(task), task=task)
        found += bool(model.select(draw(claims), task=claims, fdr=0.1).any())
    # Two standard errors of 10 % are 6 %.
    assert found <= 16
