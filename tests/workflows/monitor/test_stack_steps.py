"""Steps in stacks of pairs: what lasts is found at its date, what one date shows is not."""

import numpy as np
import pytest

from tiling import TileGrid, Window
from workflows.monitor.stack.pairs import REACH, near_pairs
from workflows.monitor.stack.step_maps import _changed_area
from workflows.monitor.stack.steps import step_probability
from workflows.monitor.stack.visibility import ALIKE, next_step, shown_by_dates, went_back

BLANK, VEILED = None, "veiled"


def pairs_of(*dates):
    """Return the pooled probabilities of dates by what each shows; a veiled date differs from all others."""
    found = {}
    for first, second in near_pairs(len(dates)):
        one, other = dates[first], dates[second]
        if BLANK not in (one, other):
            found[first, second] = 0.9 if one != other or one == VEILED else 0.05
    return found


def steps_of(*dates):
    """Return after which dates there is a step."""
    pooled = pairs_of(*dates)

    def read(pair):
        return np.float32(pooled[pair]) if pair in pooled else None

    found = [step_probability(read, step, len(dates), ALIKE) for step in range(len(dates) - 1)]
    return [step for step, value in enumerate(found) if value is not None and value >= 0.5]


def states_of(step, *dates):
    pooled = pairs_of(*dates)
    stop = next_step(pooled, step, len(dates))
    return "".join(shown.state[0] for shown in shown_by_dates(pooled, step, stop, len(dates)))


@pytest.mark.parametrize("step", range(7))
def test_one_step_is_found_at_its_date_only(step):
    assert steps_of(*[0] * (step + 1), *[1] * (7 - step)) == [step]


@pytest.mark.parametrize("date", range(1, 7))
@pytest.mark.parametrize("veil", [VEILED, 1], ids=["unlike all", "like nothing before"])
def test_what_one_date_shows_alone_is_no_step(date, veil):
    dates = [0] * 8
    dates[date] = veil
    assert steps_of(*dates) == []


@pytest.mark.parametrize(("date", "step"), [(1, 3), (2, 3), (5, 3), (6, 3), (2, 4), (6, 2)])
@pytest.mark.parametrize("veil", [VEILED, BLANK])
def test_a_veiled_date_does_not_hide_a_step(veil, date, step):
    dates = [0] * (step + 1) + [1] * (7 - step)
    dates[date] = veil
    assert steps_of(*dates) == [step]


@pytest.mark.parametrize("veil", [VEILED, BLANK])
def test_a_veil_over_the_last_date_before_moves_the_step_to_the_date_that_shows_the_ground(veil):
    assert steps_of(0, 0, 0, veil, 1, 1, 1, 1) == [2]
    assert states_of(2, 0, 0, 0, veil, 1, 1, 1, 1) == "aaahssss"


def test_a_veil_over_the_first_date_after_is_hidden():
    assert steps_of(0, 0, 0, 0, VEILED, 1, 1, 1) == [3]
    assert states_of(3, 0, 0, 0, 0, VEILED, 1, 1, 1) == "aaaahsss"


@pytest.mark.parametrize("long", [2, 3, 6])
def test_what_came_and_went_has_two_steps_and_went_back_where_a_pair_tells(long):
    dates = [0] * 3 + [1] * long + [0] * 3
    assert steps_of(*dates) == [2, 2 + long]
    back = went_back(pairs_of(*dates), 2, 2 + long)
    assert back is (True if long < REACH else None)
    assert states_of(2, *dates) == "a" * 3 + "s" * long + "a" * 3


def test_two_dates_with_equal_veils_and_clear_ground_between_are_no_step():
    assert steps_of(0, 0, 0, 1, 0, 1, 0, 0) == []


def test_building_that_takes_several_dates_is_one_step_at_its_start():
    assert steps_of(0, 0, "cleared", "walls", 1, 1, 1) == [1]


def test_growth_has_a_step_at_each_date():
    assert steps_of(0, 0, 1, 1, 2, 2) == [1, 3]


def test_the_last_date_alone_makes_a_candidate_which_the_next_one_decides():
    assert steps_of(0, 0, 0, 1) == [2]
    assert states_of(2, 0, 0, 0, 1) == "aaas"
    assert steps_of(0, 0, 0, 1, 0) == []


def test_a_step_in_the_middle_is_the_same_however_long_the_series_goes_on():
    dates = [0] * 4 + [1] * 4
    long = pairs_of(*dates, *[1] * 9)
    short = pairs_of(*dates)
    assert all(long[pair] == value for pair, value in short.items())
    for step in range(4):
        both = [
            step_probability(lambda pair, known=known: known.get(pair), step, count, ALIKE)
            for known, count in ((short, 8), (long, 17))
        ]
        assert both[0] == both[1]


def test_low_probabilities_date_a_step_as_high_ones_do():
    pairs = {pair: np.float32(0.45 if pair[0] < 2 <= pair[1] else 0.0) for pair in near_pairs(5)}
    found = [step_probability(pairs.get, step, 5, alike=0.3) for step in range(4)]
    assert np.array(found).tolist() == pytest.approx([0, 0.45, 0, 0])


def test_pixels_without_data_count_for_neither_side():
    shown = np.ones((2, 8), bool)
    shown[1, 4] = False  # the second pixel is hidden on the first date after

    def read(pair):
        if pair[1] - pair[0] > REACH:
            return None
        values = np.full(2, 0.9 if pair[0] < 4 <= pair[1] else 0.1, np.float32)
        values[~(shown[:, pair[0]] & shown[:, pair[1]])] = np.nan
        return values

    found = np.stack([step_probability(read, step, 8, ALIKE) for step in range(7)])
    assert [np.flatnonzero(one >= 0.5).tolist() for one in found.T] == [[3], [3]]


def test_the_tiles_beside_what_changed_are_looked_at_too():
    grid, whole = TileGrid(400, 400, 64, 16), Window(0, 0, 400, 400)
    values = np.zeros((400, 400), np.float32)
    values[180:190, 230:240] = 0.9
    area = _changed_area(lambda top, bottom, band: values[top:bottom], grid, whole, [0.5])
    (number,) = [tile.index for tile in grid if values[tile.core.slices(whole)].any()]
    (row, col), edges = divmod(number, grid.shape[1]), (grid.rows.edges, grid.columns.edges)
    assert (area.row_off, area.row_end) == (edges[0][row - 1], edges[0][row + 2])
    assert (area.col_off, area.col_end) == (edges[1][col - 1], edges[1][col + 2])
