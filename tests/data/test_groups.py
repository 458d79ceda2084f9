"""Rows of a group leave together: closed forms equal refits, rates hold on clumps."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn import config_context
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from every_method import methods as every_method
from fleets import gaussian_tasks
from manyone import (
    SVDD,
    CombinedOneClass,
    IndependentOCKSR,
    JointOCKSR,
    LinearOCKSR,
    NonlinearOCKSR,
    TimeBlocks,
    auto,
    tune,
)
from manyone.calibration.folds import assign_folds, halved_splits
from manyone.data.groups import leaving_together
from manyone.data.rows import training_rows
from manyone.estimators import METHODS
from manyone.models.guards import unguarded
from manyone.models.scorers import Projection
from manyone.solvers.leave_blocks import solve_primal_without_blocks
from manyone.solvers.path import left_out_gaps

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
methods = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
closed = pytest.mark.parametrize("method", [IndependentOCKSR, JointOCKSR])


@pytest.fixture
def grouped(fleet):
    """The fleet with groups of one to four rows; labels come again in other tasks."""
    X, task = fleet
    return X, task, np.random.default_rng(1).integers(5, size=len(X))


def left_out_of(model, X, **roles):
    """Left-out scores in the order of the rows, before guards lower them."""
    rows, tasks, source = training_rows(model, X, **roles)
    found = np.full(len(X), np.nan)
    solution = model._learn(rows, left_out=True)
    found[source] = solution.left_out
    return found, solution.left_out_source


@methods
def test_a_kernel_matrix_gives_the_scores_of_its_rows(method, grouped):
    X, task, groups = grouped
    rows, _ = left_out_of(method(gamma=0.3), X, task=task, groups=groups)
    K = rbf_kernel(X, gamma=0.3)
    matrix, _ = left_out_of(method(kernel="precomputed"), K, task=task, groups=groups)
    np.testing.assert_allclose(matrix, rows, atol=1e-4)


@closed
@pytest.mark.parametrize("forward", [None, False, True])
def test_closed_forms_equal_refits(method, forward, grouped):
    X, task, groups = grouped
    rng = np.random.default_rng(2)
    weight = rng.integers(1, 4, size=len(X)).astype(float)
    outlier = rng.random(len(X)) < 0.1
    given = groups
    position = groups
    if forward is not None:
        given = TimeBlocks(np.arange(len(X)), forward=forward)
        position = np.empty(len(X), dtype=int)
        for label in np.unique(task):
            mine = np.flatnonzero(task == label)
            position[mine] = np.arange(len(mine)) * 5 // len(mine)
    model = method(gamma=0.3)
    roles = {"task": task, "outlier": outlier, "sample_weight": weight}
    found, source = left_out_of(model, X, **roles, groups=given)
    assert source == "leave-group-out"
    far = unguarded(method(gamma=0.3).fit(X, **roles).solution_.scorer).far()
    for label in np.unique(task):
        normal = (task == label) & ~outlier
        blocks = np.unique(position[normal])
        ahead = forward and len(blocks) >= 5
        for block in blocks:
            judged = normal & (position == block)
            gone = normal & (position >= block) if ahead else judged
            if ahead and block in blocks[:2]:
                assert np.isnan(found[judged]).all()
                continue
            refit = method(gamma=0.3).fit(
                X[~gone],
                task=task[~gone],
                outlier=outlier[~gone],
                sample_weight=weight[~gone],
            )
            scorer = unguarded(refit.solution_.scorer)
            codes = np.searchsorted(refit.tasks_, task[judged])
            # In units of what a row far away is scored by each model.
            scores = scorer.own(X[judged], codes) * (far / scorer.far())[codes]
            np.testing.assert_allclose(found[judged], scores, atol=1e-8)


def test_closed_form_of_landmarks_equals_refits():
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(40, 5))
    r = np.ones(40)
    weight = rng.uniform(1, 3, 40)
    alpha = 0.3

    def solve(rows):
        A = (weight[rows, None] * Phi[rows]).T @ Phi[rows] + alpha * np.eye(5)
        return np.linalg.solve(A, Phi[rows].T @ (weight[rows] * r[rows]))

    everything = np.arange(40)
    scaled = np.sqrt(weight) * (r - Phi @ solve(everything))
    blocks = [
        np.array([3, 7]),
        np.arange(10, 25),
    ]  # smaller and larger than the features
    moments = (weight[:, None] * Phi).T @ Phi + alpha * np.eye(5)
    Z = np.linalg.solve(np.linalg.cholesky(moments), Phi.T).T
    solved = solve_primal_without_blocks(Z.__getitem__, weight, scaled, blocks)
    for block, found in zip(blocks, solved, strict=True):
        kept = np.setdiff1d(everything, block)
        wanted = np.sqrt(weight[block]) * (r - Phi @ solve(kept))[block]
        np.testing.assert_allclose(found, wanted, atol=1e-10)


def test_all_rows_as_landmarks_leave_groups_out_as_none_do(grouped):
    X, task, groups = grouped
    exact = JointOCKSR(alarm_rate=0.2).fit(X, task=task, groups=groups)
    found = JointOCKSR(alarm_rate=0.2, landmarks=len(X)).fit(
        X, task=task, groups=groups
    )
    assert found.calibration_.source == exact.calibration_.source == "leave-group-out"
    left_out = found.calibration_.scores
    np.testing.assert_allclose(left_out, exact.calibration_.scores, atol=1e-6)
    np.testing.assert_allclose(found.offset_, exact.offset_, atol=1e-6)


@closed
def test_groups_of_single_rows_change_nothing(method, fleet):
    X, task = fleet
    alone = method(alarm_rate=0.2).fit(X, task=task)
    single = method(alarm_rate=0.2).fit(X, task=task, groups=np.arange(len(X)))
    np.testing.assert_allclose(
        single.solution_.left_out, alone.solution_.left_out, atol=1e-12
    )
    np.testing.assert_allclose(single.offset_, alone.offset_, atol=1e-12)


@methods
def test_order_and_names_do_not_matter(method, grouped):
    X, task, groups = grouped
    model = method(alarm_rate=0.2).fit(X, task=task, groups=groups)
    order = np.random.default_rng(3).permutation(len(X))
    names = np.array(["e", "d", "c", "b", "a"])[groups]
    other = method(alarm_rate=0.2).fit(
        X[order], task=task[order], groups=names[order].tolist()
    )
    np.testing.assert_array_equal(model.offset_, other.offset_)


@pytest.mark.slow
@methods
def test_folds_and_closed_forms_have_not_seen_the_group(method, fleet):
    """Each row twice, a hair apart, in one group, scores as if it were alone."""
    X, task = fleet
    twice = np.concatenate([X, X + 1e-7])
    twice_task = np.concatenate([task, task])
    together = method(alarm_rate=0.2).fit(
        twice, task=twice_task, groups=np.tile(np.arange(len(X)), 2)
    )
    apart = method(alarm_rate=0.2).fit(twice, task=twice_task)
    assert (
        np.nanmean(together.solution_.left_out)
        < np.nanmean(apart.solution_.left_out) - 1e-4
    )


def test_folds_keep_groups_together_and_blocks_in_order(grouped):
    X, task, groups = grouped
    rows = training_rows(JointOCKSR(), X, task, groups=groups)[0]
    fold = assign_folds(rows, np.random.default_rng(0).random(len(X)), 3)
    pairs = np.unique(np.column_stack([rows.group, fold]), axis=0)
    assert len(pairs) == len(np.unique(rows.group))
    for split in halved_splits(rows, "seen"):
        assert not np.isin(rows.group[split.train], rows.group[split.test]).any()
    time = np.random.default_rng(1).permutation(len(X))
    rows, _, source = training_rows(JointOCKSR(), X, task, groups=TimeBlocks(time))
    fold = assign_folds(rows, np.zeros(len(X)), 10)
    for code in range(rows.n_tasks):
        mine = rows.codes == code
        assert np.all(np.diff(fold[mine][np.argsort(time[source][mine])]) >= 0)
    rows, _, source = training_rows(
        JointOCKSR(), X, task, groups=TimeBlocks(time, number=9)
    )
    fold = assign_folds(rows, np.zeros(len(X)), 3)  # fewer folds than blocks
    assert fold.max() == 2
    for code in range(rows.n_tasks):
        mine = rows.codes == code
        assert np.all(np.diff(fold[mine][np.argsort(time[source][mine])]) >= 0)


def test_folds_look_ahead_where_asked(fleet):
    """Blocks of time are judged by earlier ones of their task: two whole fits agree."""
    X, task = fleet
    time = np.arange(len(X))
    model = SVDD(gamma=0.3, alarm_rate=0.2)
    found, source = left_out_of(model, X, task=task, groups=TimeBlocks(time))
    assert source == "folds"
    mine = np.flatnonzero(task == "cleo")
    block = np.arange(len(mine)) * 5 // len(mine)
    assert np.isnan(found[mine[block < 2]]).all()
    refit = SVDD(gamma=0.3).fit(X[mine[block < 3]])
    scores = unguarded(refit.solution_.scorer).own(
        X[mine[block == 3]], np.zeros(4, dtype=int)
    )
    # All are then moved alike, to the terms of new rows: fewer rows, and time ahead.
    moved = found[mine[block == 3]] / scores
    np.testing.assert_allclose(moved, moved.mean(), rtol=0.05)
    assert 0.5 < moved.mean() < 2.0


def size_of_scores(solution):
    """Scores of rows far away; in a null space how far the two targets are apart."""
    scorer = unguarded(solution.scorer)
    if isinstance(scorer, Projection):
        return np.full(2, np.linalg.norm(np.subtract(*scorer.targets)))
    return scorer.far()


def refit_scores(method, X, task, kept, held, whole):
    """Scores by a model of other rows, in the size of the whole model's scores."""
    refit = method(gamma=0.3).fit(X[kept], task=task[kept])
    codes = np.searchsorted(refit.tasks_, task[held])
    unit = size_of_scores(whole) / size_of_scores(refit.solution_)
    if whole.left_out_source == "folds":
        unit = np.clip(unit, 0.5, 2.0)
    return unguarded(refit.solution_.scorer).own(X[held], codes) * unit[codes]


@methods
@pytest.mark.parametrize("in_time", [False, True])
def test_every_method_scores_what_left_as_a_refit_without_it(method, in_time):
    rng = np.random.default_rng(4)
    task = np.tile(["a", "b"], 25)
    X = rng.normal(size=(50, 3)) + 2.0 * (task == "b")[:, None]
    block = np.arange(50) // 2 * 5 // 25
    # Groups of one task only, as folds of several tasks share refits; blocks are dealt
    # in order.
    groups = TimeBlocks(np.arange(50)) if in_time else np.where(task == "a", block, 9)
    model = method(gamma=0.3)
    rows, _, source = training_rows(model, X, task=task, groups=groups)
    whole = model._learn(rows, left_out=True)
    found = np.full(50, np.nan)
    found[source] = whole.left_out
    closed_form = whole.left_out_source == "leave-group-out"
    assert np.isnan(found[(block < 2) if in_time else (task == "b")]).all()
    for k in range(2 if in_time else 0, 5):
        for label in ("a", "b") if in_time and closed_form else ("a",):
            mine = np.full(50, True) if in_time and not closed_form else task == label
            gone = mine & ((block >= k) if in_time else (block == k))
            held = mine & (block == k)
            scores = refit_scores(method, X, task, ~gone, held, whole)
            if not in_time or closed_form:
                np.testing.assert_allclose(found[held], scores, atol=1e-8)
                continue
            # Folds in time are brought to the terms of rows to come, which keeps their
            # order.
            for label in ("a", "b"):
                one = task[held] == label
                same = np.argsort(scores[one]), np.argsort(found[held][one])
                np.testing.assert_array_equal(*same)
                assert 0.5 - 1e-6 <= np.median(found[held][one] / scores[one]) <= 2.5


@pytest.mark.parametrize("in_time", [False, True])
def test_views_of_a_combination_leave_groups_out_as_they_do_alone(in_time, grouped):
    X, task, groups = grouped
    given = TimeBlocks(np.arange(len(X))) if in_time else groups
    views = [("a", JointOCKSR(alarm_rate=0.2)), ("b", SVDD(alarm_rate=0.2))]
    model = CombinedOneClass(estimators=views, alarm_rate=0.2).fit(
        X, task=task, groups=given
    )
    for name, view in views:
        alone = view.fit(X, task=task, groups=given)
        left_out = model.views_[name].solution_.left_out
        np.testing.assert_allclose(left_out, alone.solution_.left_out, atol=1e-8)
    # What is left out of all views is left out of the combination.
    combined = model.left_out_scores(model.training_)
    codes = model.training_.codes[~np.isnan(combined)]
    expected = combined[~np.isnan(combined)]
    expected = expected[np.lexsort((expected, codes))]
    np.testing.assert_allclose(model.calibration_.scores, expected, atol=1e-8)


@methods
def test_a_task_of_one_group_is_pooled(method, fleet):
    X, task = fleet
    groups = np.where(task == "ada", 0, np.arange(len(X)))
    model = method(alarm_rate=0.2).fit(X, task=task, groups=groups)
    assert model.calibration_.counts[0] == 0
    assert model.calibration_.borrows(0.2)[0]
    assert np.isfinite(model.pvalues(X, task=task)).all()
    with pytest.raises(ValueError, match="one group in every task"):
        method().fit(X, task=task, groups=task)


@methods
def test_clumps_count_as_few(method):
    """Ten copies, a hair apart, of each of eight readings are eight readings."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(24, 3)), 10, axis=0)
    task = np.repeat([0, 1, 2], 80)
    X += 1e-6 * rng.normal(size=X.shape)
    model = method(alarm_rate=0.2).fit(
        X, task=task, groups=np.repeat(np.arange(24), 10)
    )
    np.testing.assert_allclose(model.calibration_.counts, 8, atol=1)


def test_closed_form_of_tune_equals_refits(grouped):
    X, task, groups = grouped
    rows = training_rows(JointOCKSR(), X, task, groups=groups)[0]
    alphas = np.array([0.05, 0.5])
    K = np.exp(-0.3 * ((rows.X[:, None] - rows.X) ** 2).sum(-1))
    R = rows.responses()
    blocks = [left.gone for left in leaving_together(rows)]
    of_tasks = [np.flatnonzero(rows.codes == t) for t in range(rows.n_tasks)]
    for whole in (None, of_tasks):
        gaps = left_out_gaps(K.copy(), R, alphas, rows.weight, whole, blocks)
        for k, alpha in enumerate(alphas):
            for block in blocks[::3]:
                for t in range(rows.n_tasks):
                    own = rows.codes[block[0]] == t
                    gone = (
                        block
                        if own or whole is None
                        else of_tasks[rows.codes[block[0]]]
                    )
                    kept = np.setdiff1d(np.arange(len(K)), gone)
                    G = K[np.ix_(kept, kept)] + alpha * np.eye(len(kept))
                    coef = np.linalg.solve(G, R[kept, t])
                    mean = (K[np.ix_(kept[rows.codes[kept] == t], kept)] @ coef).mean()
                    wanted = K[np.ix_(block, kept)] @ coef - mean
                    np.testing.assert_allclose(gaps[k, block, t], wanted, atol=1e-8)


@pytest.mark.parametrize(
    "method", [IndependentOCKSR, JointOCKSR, LinearOCKSR, NonlinearOCKSR, SVDD]
)
@pytest.mark.parametrize("criterion", ["seen", "unseen", "faults"])
def test_tune_with_groups(method, criterion, grouped):
    X, task, groups = grouped
    groups = np.where(task == "ada", 0, groups)
    name = "nu" if method is SVDD else "alpha"
    model = tune(
        method(alarm_rate=0.2),
        X,
        task=task,
        groups=groups,
        criterion=criterion,
        grid={name: [0.05, 0.5]},
    )
    assert np.isfinite(model.tuning_["score"]).all()
    assert model.training_.group is not None


def test_auto_and_combined_models_take_groups(grouped):
    X, task, groups = grouped
    for anomalies in ("faults", "any"):
        model = auto(X, task=task, groups=groups, anomalies=anomalies, alarm_rate=0.2)
        assert model.training_.group is not None
    model = CombinedOneClass(
        estimators=[("a", JointOCKSR()), ("b", IndependentOCKSR())], alarm_rate=0.2
    ).fit(X, task=task, groups=groups)
    model.enroll(X[:2] + 0.1, task=["ada", "ada"])
    assert len(np.unique(model.training_.group)) > len(np.unique(groups))


@closed
def test_enrolled_rows_are_a_group_of_their_own(method, grouped):
    X, task, groups = grouped
    known = np.arange(len(X)) < 50
    model = method(gamma=0.3, alarm_rate=0.2).fit(
        X[known], task=task[known], groups=groups[known]
    )
    model.enroll(X[~known], task=task[~known])
    marked = np.where(known, groups, 9)
    whole = method(gamma=0.3, alarm_rate=0.2).fit(X, task=task, groups=marked)
    np.testing.assert_allclose(model.offset_, whole.offset_, atol=1e-8)


def test_groups_as_a_column_and_through_metadata_routing(grouped):
    pd = pytest.importorskip("pandas")
    X, task, groups = grouped
    frame = pd.DataFrame(X, columns=list("abcd")).assign(who=task, day=groups)
    named = JointOCKSR(alarm_rate=0.2).fit(frame, task="who", groups="day")
    plain = JointOCKSR(alarm_rate=0.2).fit(X, task=task, groups=groups)
    np.testing.assert_array_equal(named.offset_, plain.offset_)
    assert len(named.predict(frame, task="who")) == len(X)  # the column is no feature
    with config_context(enable_metadata_routing=True):
        step = JointOCKSR(alarm_rate=0.2).set_fit_request(task=True, groups=True)
        step.set_predict_request(task=True)
        pipe = make_pipeline(StandardScaler(), step).fit(X, task=task, groups=groups)
        scaled = StandardScaler().fit_transform(X)
        alone = JointOCKSR(alarm_rate=0.2).fit(scaled, task=task, groups=groups)
        np.testing.assert_array_equal(pipe[-1].offset_, alone.offset_)


def test_messages(fleet):
    X, task = fleet
    with pytest.raises(ValueError, match="groups has 3 values but X has 60 rows"):
        JointOCKSR().fit(X, task=task, groups=[1, 2, 3])
    with pytest.raises(ValueError, match="time is missing in row 2"):
        JointOCKSR().fit(
            X, task=task, groups=TimeBlocks([0.0, 1.0, np.nan, *range(57)])
        )
    with pytest.raises(ValueError, match="Parse it first"):
        JointOCKSR().fit(X, task=task, groups=TimeBlocks(["noon"] * 60))
    with pytest.raises(ValueError, match="at least 2"):
        JointOCKSR().fit(X, task=task, groups=TimeBlocks(np.arange(60), number=1))


def test_times_may_be_dates_and_equal(fleet):
    X, task = fleet
    days = np.datetime64("2026-01-01") + np.arange(60) // 6
    dates = JointOCKSR(alarm_rate=0.2).fit(X, task=task, groups=TimeBlocks(days))
    numbers = JointOCKSR(alarm_rate=0.2).fit(
        X, task=task, groups=TimeBlocks(np.arange(60) // 6)
    )
    np.testing.assert_array_equal(dates.offset_, numbers.offset_)


@pytest.mark.slow
@closed
def test_random_left_out_rows_lie_about_clumps_and_groups_do_not(method):
    """Ten near-copies per clump; new rows come in clumps of their own."""
    counts = {"rows": 0, "groups": 0}
    rate = 0.1
    sets = 150
    tasks = 4
    clumps = 12
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        centres = 1.5 * rng.normal(size=(tasks, 3))
        code = np.repeat(np.arange(tasks), clumps)
        X = np.repeat(centres[code] + rng.normal(size=(len(code), 3)), 10, axis=0)
        X += 0.05 * rng.normal(size=X.shape)
        task = np.repeat(code, 10)
        groups = np.repeat(np.arange(len(code)), 10)
        new = centres + rng.normal(size=(tasks, 3)) + 0.05 * rng.normal(size=(tasks, 3))
        for name, given in (("rows", None), ("groups", groups)):
            model = method(alarm_rate=rate).fit(X, task=task, groups=given)
            counts[name] += np.sum(model.predict(new, task=np.arange(tasks)) == -1)
    most = binom.ppf(0.999, sets * tasks, rate)
    assert counts["rows"] > most
    assert counts["groups"] <= most
    assert counts["groups"] > binom.ppf(
        0.001, sets * tasks, 0.75 * np.floor(rate * 13) / 13
    )


@closed
def test_rows_without_any_response_can_leave_in_groups(method):
    """A linear kernel of rows of zeros is zero: it has no mean response."""
    X = np.zeros((12, 2))
    X[6:] = np.random.default_rng(0).normal(size=(6, 2))
    task = np.repeat(["still", "moving"], 6)
    groups = np.tile([0, 0, 1, 1, 2, 2], 2)
    model = method(kernel="linear", alarm_rate=0.2).fit(X, task=task, groups=groups)
    assert np.isfinite(model.calibration_.scores).all()
    assert len(model.calibration_.scores) == 12
    assert np.all(model.predict(X[:6], task=task[:6]) == 1)


@every_method
def test_weights_are_copies_in_groups_too(method):
    """With known outliers, whose groups are dealt to folds as well."""
    X, codes = gaussian_tasks([14, 11, 9], 3, seed=1, shuffled=True)
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 8, len(X))
    outlier = rng.random(len(X)) < 0.1
    weight = rng.integers(1, 4, len(X))
    copies = np.repeat(np.arange(len(X)), weight)
    weighted = method(alarm_rate=0.2).fit(
        X, task=codes, groups=groups, outlier=outlier, sample_weight=weight
    )
    repeated = method(alarm_rate=0.2).fit(
        X[copies], task=codes[copies], groups=groups[copies], outlier=outlier[copies]
    )
    np.testing.assert_allclose(
        weighted.pvalues(X, task=codes), repeated.pvalues(X, task=codes), atol=1e-6
    )


def test_a_group_of_one_row_that_counts_twice_leaves_as_a_whole():
    X, codes = gaussian_tasks([9, 9], 2, seed=1)
    weight = np.where(np.arange(len(X)) % 3 == 0, 2, 1)
    copies = np.repeat(np.arange(len(X)), weight)
    weighted = JointOCKSR().fit(
        X, task=codes, groups=np.arange(len(X)), sample_weight=weight
    )
    repeated = JointOCKSR().fit(X[copies], task=codes[copies], groups=copies)
    np.testing.assert_allclose(
        weighted.pvalues(X, task=codes), repeated.pvalues(X, task=codes), atol=1e-9
    )


@closed
def test_enrolled_groups_of_one_row_each_leave_by_themselves(method):
    X, codes = gaussian_tasks([12, 12, 6], 3, seed=1)
    groups = np.append(np.arange(24) // 3, np.arange(100, 106))
    old = codes < 2
    model = method().fit(X[old], task=codes[old], groups=groups[old])
    model.enroll(X[~old], task=codes[~old], groups=groups[~old])
    fresh = method().fit(X, task=codes, groups=groups)
    np.testing.assert_allclose(
        model.pvalues(X, task=codes), fresh.pvalues(X, task=codes), atol=1e-9
    )
