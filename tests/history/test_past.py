"""Columns from the past of rows, against loops, in any order and blocks."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from manyone.history.past import RESTART, Past, past_columns
from manyone.history.seasons import SEASONS, Season, Seasonal

SPAN = 12
#: Two phases, each an hour long.
TWO_PHASES = Season("two", 3600.0, 2)


def columns_by_loops(X, codes, times, span=SPAN):
    """Difference, swing and still rows by definition; times all differ."""
    found = np.zeros((3, *X.shape))
    for row, column in np.ndindex(X.shape):
        earlier = np.flatnonzero((codes == codes[row]) & (times < times[row]))
        earlier = earlier[np.argsort(times[earlier])]
        past = X[earlier, column]
        value = X[row, column]
        found[0, row, column] = value - _mean(past, span)
        steps = np.full(len(past), np.nan)
        last = np.nan
        for place, seen in enumerate(past):
            steps[place] = abs(seen - last)
            last = last if np.isnan(seen) else seen
        found[1, row, column] = _mean(steps, span)
        for seen in [value, *past[::-1]]:
            known = past[~np.isnan(past)]
            if not len(known):
                break
            if not (np.isnan(seen) or seen == known[-1]):
                break
            found[2, row, column] += 1
    return found


def _mean(values, span):
    """Weighted mean of the known values, the last one weighs most."""
    weight = (1 - 2 / (span + 1)) ** np.arange(len(values))[::-1]
    known = ~np.isnan(values)
    return (
        weight[known] @ values[known] / weight[known].sum() if known.any() else np.nan
    )


def usual_by_loops(X, codes, times, season, span=SPAN):
    """Means of earlier visits in the phase of each row, if these are enough."""
    found = np.full(X.shape, np.nan)
    # The first of January 1970 was a Thursday, and seasons begin on Monday.
    visits = (times + 3 * 86400) // season.seconds
    for row, column in np.ndindex(X.shape):
        is_earlier = (codes == codes[row]) & (visits < visits[row])
        is_earlier &= (visits - visits[row]) % season.phases == 0
        means = []
        for visit in np.unique(visits[is_earlier]):
            values = X[is_earlier & (visits == visit), column]
            known = values[~np.isnan(values)]
            means.append(known.mean() if len(known) else np.nan)
        decay = 1 - 2 / (span + 1)
        weight = decay ** np.arange(len(means))[::-1]
        # About two visits, less than half of one by age.
        if weight[~np.isnan(means)].sum() > 1 + decay - 0.5:
            found[row, column] = _mean(np.array(means), span)
    return found


def rows_in_time(seed, n=80, entities=3, missing=0.1):
    rng = np.random.default_rng(seed)
    X = np.round(np.cumsum(rng.normal(size=(n, 2)), axis=0), 1)
    X[rng.random(X.shape) < missing] = np.nan
    return X, rng.integers(0, entities, n), rng.permutation(n).astype(float)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_columns_are_what_their_definitions_say(missing):
    X, codes, times = rows_in_time(0, missing=missing)
    columns, _ = past_columns(X, codes, times, Past.none(3, 2), SPAN)
    difference, swing, _ = columns_by_loops(X, codes, times)
    np.testing.assert_allclose(columns.difference, difference, atol=1e-12)
    np.testing.assert_allclose(columns.swing, swing, atol=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("season", [TWO_PHASES, SEASONS["hour of day"]])
def test_a_season_is_taken_off_before_differences_are_made(season, missing):
    X, codes, times = rows_in_time(5, n=240, missing=missing)
    times *= season.seconds * 0.7
    seasonal = Seasonal(season, np.array([True, False]))
    none = Past.none(3, 2, season.phases)
    columns, _ = past_columns(X, codes, times, none, SPAN, seasonal)
    usual = usual_by_loops(X, codes, times, season)[:, 0]
    is_known = ~np.isnan(usual)
    assert is_known.mean() > 0.2
    np.testing.assert_allclose(columns.usual[:, 0], usual, atol=1e-9)
    level = np.column_stack([X[:, 0] - usual, X[:, 1]])
    difference, _, _ = columns_by_loops(level, codes, times)
    expected = np.where(is_known, difference[:, 0], np.nan)
    np.testing.assert_allclose(columns.difference[:, 0], expected, atol=1e-9)
    _, swing, _ = columns_by_loops(X, codes, times)
    np.testing.assert_allclose(columns.swing, swing, atol=1e-9)
    plain, _ = past_columns(X, codes, times, Past.none(3, 2), SPAN)
    np.testing.assert_allclose(
        columns.difference[:, 1], plain.difference[:, 1], atol=1e-12
    )


def test_phases_are_hours_of_days_and_weeks_that_begin_on_monday():
    sunday = np.datetime64("2026-03-29T14:35", "s").astype(float)
    words = {name: season.words(sunday) for name, season in SEASONS.items()}
    assert words == {
        "weekday": "on Sundays",
        "hour of day": "at 14:00",
        "hour of week": "on Sundays at 14:00",
    }
    monday = np.datetime64("1969-12-29T00:00", "s").astype(float)
    for season in SEASONS.values():
        assert season.visits(np.array(monday)) == 0.0
        assert season.visits(np.array(monday - 1.0)) == -1.0


def test_still_rows_are_counted_with_the_row_itself():
    X = np.array([[1.0], [1.0], [np.nan], [1.0], [2.0], [2.0]])
    times = np.arange(6.0)
    columns, _ = past_columns(X, np.zeros(6, dtype=int), times, Past.none(1, 1), SPAN)
    assert columns.still[:, 0].tolist() == [0, 1, 2, 3, 0, 1]


@settings(max_examples=60, deadline=None)
@example(seed=40, cuts=[], ties=20, missing=0.0, season=None)
@given(
    seed=st.integers(0, 10**6),
    cuts=st.lists(st.integers(0, 80), max_size=6),
    ties=st.sampled_from([1, 3, 20]),
    missing=st.sampled_from([0.0, 0.3]),
    season=st.sampled_from([None, TWO_PHASES, *SEASONS.values()]),
)
def test_blocks_order_and_names_do_not_matter(seed, cuts, ties, missing, season):
    X, codes, times = rows_in_time(seed, missing=missing)
    times = np.floor(times / ties)
    phases = 0
    seasonal = None
    if season is not None:
        times = times * season.seconds / 2.5
        phases = season.phases
        seasonal = Seasonal(season, np.array([True, False]))
    none = Past.none(3, 2, phases)
    whole, end = past_columns(X, codes, times, none, SPAN, seasonal)
    rng = np.random.default_rng(seed)
    renamed = rng.permutation(3)
    past = none
    found = np.empty_like(whole.values)
    for rows in np.split(np.argsort(times, kind="stable"), sorted(cuts)):
        rows = rng.permutation(rows)
        columns, past = past_columns(
            X[rows], renamed[codes[rows]], times[rows], past, SPAN, seasonal
        )
        found[rows] = columns.values
    np.testing.assert_allclose(found, whole.values, rtol=1e-9, atol=1e-9)
    for name, values in vars(end).items():
        np.testing.assert_allclose(
            getattr(past, name)[renamed], values, rtol=1e-9, atol=1e-9, err_msg=name
        )


def test_many_short_and_a_few_long_entities_are_the_same_as_each_alone():
    rng = np.random.default_rng(1)
    codes = np.repeat(np.arange(42), [*rng.integers(1, 9, 40), 300, 9000])
    X = (
        rng.normal(size=(len(codes), 1))
        * 10.0 ** rng.integers(-9, 9, len(codes))[:, None]
    )
    times = rng.permutation(len(codes)).astype(float)
    columns, _ = past_columns(X, codes, times, Past.none(42, 1), SPAN)
    for code in (0, 17, 40, 41):
        rows = codes == code
        alone, _ = past_columns(
            X[rows], codes[rows], times[rows], Past.none(42, 1), SPAN
        )
        np.testing.assert_array_equal(columns.difference[rows], alone.difference)
        np.testing.assert_array_equal(columns.swing[rows], alone.swing)


def test_rows_of_one_time_are_not_each_others_past():
    X = np.array([[1.0], [5.0], [7.0]])
    codes = np.zeros(3, dtype=int)
    columns, _ = past_columns(
        X, codes, np.array([0.0, 1.0, 1.0]), Past.none(1, 1), SPAN
    )
    np.testing.assert_array_equal(columns.difference[:, 0], [np.nan, 4.0, 6.0])


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_rows_of_one_time_may_come_in_any_order_to_the_last_bit(missing):
    X, codes, times = rows_in_time(0, n=300, missing=missing)
    X /= 3.0
    times = np.floor(times / 6)
    columns, past = past_columns(X, codes, times, Past.none(3, 2), SPAN)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(300)
        rows = X[order], codes[order], times[order]
        shuffled, after = past_columns(*rows, Past.none(3, 2), SPAN)
        np.testing.assert_array_equal(shuffled.values, columns.values[order])
        for name, values in vars(past).items():
            np.testing.assert_array_equal(getattr(after, name), values)


def test_a_long_gap_starts_again_and_a_usual_one_does_not():
    X = np.arange(40.0)[:, None]
    codes = np.zeros(40, dtype=int)
    times = np.arange(40.0)
    for gap, begins_again in (
        (RESTART * SPAN - 1.0, False),
        (RESTART * SPAN + 9.0, True),
    ):
        later = times + gap * (np.arange(40) >= 20)
        columns, past = past_columns(X, codes, later, Past.none(1, 1), SPAN)
        assert np.isnan(columns.difference[20, 0]) == begins_again
        assert columns.difference[21, 0] != 0.0
        cut, half = past_columns(X[:20], codes[:20], later[:20], Past.none(1, 1), SPAN)
        rest, _ = past_columns(X[20:], codes[20:], later[20:], half, SPAN)
        np.testing.assert_array_equal(
            np.vstack([cut.difference, rest.difference]), columns.difference
        )


@given(seed=st.integers(0, 99), shortest=st.integers(2, SPAN))
def test_a_past_of_fewer_rows_than_asked_for_is_none(seed, shortest):
    X, codes, times = rows_in_time(seed, n=60)
    # The last rows come after a gap, which ends running means but no swing.
    times += 1000.0 * (times >= 40)
    whole, _ = past_columns(X, codes, times, Past.none(3, 2), SPAN)
    cut = []
    past = Past.none(3, 2)
    for rows in np.array_split(np.argsort(times), 5):
        columns, past = past_columns(
            X[rows], codes[rows], times[rows], past, SPAN, shortest=shortest
        )
        cut.append((rows, columns))
    for rows, columns in cut:
        for place, row in enumerate(rows):
            earlier = times[(codes == codes[row]) & (times < times[row])]
            has_gaps = len(earlier) > 3
            since_gap = earlier[earlier >= 1000.0] if times[row] >= 1000 else earlier
            number = len(since_gap) if has_gaps else len(earlier)
            difference = columns.difference[place]
            swing = columns.swing[place]
            if number < shortest:
                assert np.isnan(difference).all()
            else:
                np.testing.assert_allclose(difference, whole.difference[row])
            if len(earlier) < shortest:
                assert np.isnan(swing).all()
            else:
                np.testing.assert_allclose(swing, whole.swing[row])


def test_a_long_gap_does_not_end_the_swing():
    """How far a column moves is known after it, but not the step from before it."""
    X = np.random.default_rng(0).normal(size=(40, 1))
    codes = np.zeros(40, dtype=int)
    times = np.arange(40.0) + 1000.0 * (np.arange(40) >= 20)
    steps = np.abs(np.diff(X[:, 0], prepend=np.nan))
    steps[20] = np.nan
    expected = [_mean(steps[:row], SPAN) for row in range(40)]
    past = Past.none(1, 1)
    for rows in (slice(0, 20), slice(20, 22), slice(22, 40)):
        columns, past = past_columns(X[rows], codes[rows], times[rows], past, SPAN)
        np.testing.assert_allclose(columns.swing[:, 0], expected[rows])
    whole, _ = past_columns(X, codes, times, Past.none(1, 1), SPAN)
    np.testing.assert_allclose(whole.swing[:, 0], expected)


def test_late_rows_and_rows_without_a_time_move_nothing():
    X, codes, times = rows_in_time(3, missing=0.0)
    _, past = past_columns(X, codes, times, Past.none(3, 2), SPAN)
    late = np.array([times.min() - 1, np.nan])
    columns, after = past_columns(np.zeros((2, 2)), np.array([1, 1]), late, past, SPAN)
    soon, _ = past_columns(
        np.zeros((1, 2)), np.array([1]), np.array([times.max() + 1]), past, SPAN
    )
    np.testing.assert_array_equal(columns.difference, np.repeat(soon.difference, 2, 0))
    for name, values in vars(past).items():
        np.testing.assert_array_equal(getattr(after, name), values)


def test_a_table_goes_on_only_from_an_end_that_lies_before_it():
    X, codes, times = rows_in_time(4, missing=0.0)
    columns, past = past_columns(X, codes, times, Past.none(3, 2), SPAN)
    again, _ = past_columns(X, codes, times, past.continued(codes, times), SPAN)
    np.testing.assert_array_equal(again.difference, columns.difference)
    later = past.continued(codes, times + 100)
    np.testing.assert_array_equal(later.time, past.time)


@pytest.mark.parametrize("scale", [1e-300, 1e150, 1e300])
def test_huge_tiny_constant_and_infinite_values_stay_finite(scale):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300) * scale, np.full(300, scale)])
    X[7, 0] = np.inf
    columns, past = past_columns(
        X, np.zeros(300, dtype=int), np.arange(300.0), Past.none(1, 2), SPAN
    )
    assert np.isnan(columns.difference).sum() == 3  # and the first row has no past
    assert np.isfinite(columns.swing[2:]).all()
    assert np.isfinite(past.sums).all()
    assert (columns.swing[2:, 1] == 0).all()


def test_a_constant_column_has_no_differences_at_all():
    X = np.full((500, 1), 0.1)
    columns, _ = past_columns(
        X, np.zeros(500, dtype=int), np.arange(500.0), Past.none(1, 1), SPAN
    )
    assert not columns.difference[1:].any()


def test_the_swing_of_a_stuck_column_falls_by_the_same_factor_every_row():
    rng = np.random.default_rng(0)
    x = np.append(rng.normal(size=600), np.full(25, 0.3))
    columns, _ = past_columns(
        x[:, None], np.zeros(625, dtype=int), np.arange(625.0), Past.none(1, 1), SPAN
    )
    fall = columns.swing[605:, 0] / columns.swing[604:-1, 0]
    np.testing.assert_allclose(fall, 1 - 2 / (SPAN + 1), atol=1e-9)
    assert columns.still[-1, 0] == 24


def test_one_movement_of_a_still_column_is_forgotten():
    x = np.zeros(300)
    x[100:] = 1.0
    columns, _ = past_columns(
        x[:, None], np.zeros(300, dtype=int), np.arange(300.0), Past.none(1, 1), SPAN
    )
    assert columns.swing[101, 0] > 0.1
    assert (np.abs(columns.swing[200:]) < 1e-7).all()


def columns_row_by_row(X, codes, times, limits, season=None, columns=(True, True)):
    """What is made of rows, by plain sums that are moved on time by time.

    Values beyond their limits, from a mean that weighs a row or more, are left out.
    """
    decay = 1 - 2 / (SPAN + 1)
    made = np.full((4, *X.shape), np.nan)
    left_out = np.zeros(X.shape, dtype=bool)
    for code, column in np.ndindex(codes.max() + 1, X.shape[1]):
        low, high = limits[:, code, column]
        counted = []  # of each time: level, value, visit; NaN where nothing counts
        still = 0
        rows_of_code = np.flatnonzero(codes == code)
        for number, time in enumerate(np.unique(times[rows_of_code])):
            rows = rows_of_code[times[rows_of_code] == time]
            usual = 0.0
            visit = 0
            if season is not None and columns[column]:
                visit = (time + 3 * 86400) // season.seconds
                usual = _usual(counted, visit, season, decay)
            levels = np.array([level for level, *_ in counted])
            ages = decay ** np.arange(len(levels))[::-1]
            known = ~np.isnan(levels)
            weight = ages[known].sum()
            mean = ages[known] @ levels[known] / weight if weight > 1e-9 else np.nan
            values = [value for _, value, *_ in counted]
            steps = [np.nan] * len(values)
            last = np.nan
            for place, value in enumerate(values):
                steps[place] = abs(value - last)
                last = last if np.isnan(value) else value
            is_long = number >= SHORTEST
            for row in rows:
                value = X[row, column]
                made[0, row, column] = value - usual - mean if is_long else np.nan
                made[1, row, column] = _mean(np.array(steps), SPAN)
                stays = np.isnan(value) or _is_same(value, last)
                made[2, row, column] = (still + 1) * stays
                made[3, row, column] = usual
            seen = X[rows, column]
            now = np.nan
            total = 0.0
            number_known = int((~np.isnan(seen)).sum())
            if number_known:
                total = seen[~np.isnan(seen)].sum()
                now = total / number_known
                difference = now - usual - mean
                is_beyond = difference < low or difference > high
                if is_long and is_beyond and weight >= 1.0:
                    now = np.nan
                    total = number_known = 0
                    left_out[rows, column] = True
            if np.isnan(now) or _is_same(now, last):
                still += 1
            else:
                still = 0
            counted.append((now - usual, now, visit, total, number_known))
    return made, left_out


def _is_same(value, last):
    """Means of values at one time have rounding errors."""
    return abs(value - last) <= 1e-13 * abs(value)


def _usual(counted, visit, season, decay):
    """Mean of earlier visits to the same phase, if these are enough."""
    sums = {}
    for *_, seen, total, number in counted:
        if seen < visit and (visit - seen) % season.phases == 0:
            before = sums.get(seen, (0.0, 0))
            sums[seen] = (before[0] + total, before[1] + number)
    total = weight = 0.0
    for seen in sorted(sums):
        total *= decay
        weight *= decay
        if sums[seen][1]:
            total += sums[seen][0] / sums[seen][1]
            weight += 1.0
    return total / weight if weight > 1 + decay - 0.5 else np.nan


SHORTEST = 4


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    cuts=st.lists(st.integers(0, 90), max_size=6),
    ties=st.sampled_from([1, 3]),
    missing=st.sampled_from([0.0, 0.2]),
    season=st.sampled_from([None, TWO_PHASES, SEASONS["hour of day"]]),
    width=st.sampled_from([0.5, 1.0, 3.0]),
    tile=st.sampled_from([5, 256]),
)
def test_values_beyond_their_limits_do_not_count_however_rows_are_cut(
    seed, cuts, ties, missing, season, width, tile
):
    X, codes, times = rows_in_time(seed, n=90, missing=missing)
    rng = np.random.default_rng(seed)
    X[rng.random(X.shape) < 0.1] += 9.0
    X[:, 1] += 20.0 * (times > 60)  # this level has changed for good
    times = np.floor(times / ties)
    limits = width * np.array([-1.0, 1.5])[:, None, None] * rng.random((2, 3, 2))
    seasonal = None
    phases = 0
    if season is not None:
        times = times * season.seconds / 2.5
        phases = season.phases
        seasonal = Seasonal(season, np.array([True, False]))
    made, left_out = columns_row_by_row(X, codes, times, limits, season, (True, False))
    found = np.empty_like(made[:3])
    past = Past.none(3, 2, phases)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("manyone.history.past._TILE", tile)
        for rows in np.split(np.argsort(times, kind="stable"), sorted(cuts)):
            columns, past = past_columns(
                X[rows], codes[rows], times[rows], past, SPAN, seasonal, 4, limits
            )
            parts = (columns.difference, columns.swing, columns.still)
            found[:, rows] = np.stack(parts)
    assert left_out.any()
    np.testing.assert_allclose(found[0], made[0], rtol=1e-9, atol=1e-9)
    is_known = ~np.isnan(found[1])
    np.testing.assert_allclose(found[1][is_known], made[1][is_known], atol=1e-9)
    np.testing.assert_array_equal(found[2], made[2])
