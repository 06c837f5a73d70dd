from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from affine import Affine
from shapely.affinity import rotate, translate
from shapely.geometry import MultiPolygon, box

from tiling import Grid, Window, to_wgs84
from workflows.scene.words.location import arrangement, compass_words, ground_of

GROUND = box(10, 40, 13, 43)
POLAR = "EPSG:3413"
CUT = MultiPolygon([box(178.5, -3, 180, 0), box(-180, -3, -178.5, 0)])


@pytest.mark.parametrize(
    ("west", "south", "words"),
    [
        (10.2, 42.4, "north-west"), (11.4, 42.4, "north"), (12.4, 42.4, "north-east"),
        (10.2, 41.4, "west"), (11.4, 41.4, "centre"), (12.4, 41.4, "east"),
        (10.2, 40.4, "south-west"), (11.4, 40.4, "south"), (12.4, 40.4, "south-east"),
    ],
)  # fmt: skip
def test_each_of_nine_parts_has_its_words(west, south, words):
    assert compass_words(box(west, south, west + 0.2, south + 0.2), GROUND) == words


@pytest.mark.parametrize(
    ("outline", "words"),
    [
        (GROUND, None),
        (box(10.5, 40.5, 12.5, 42.5), None),
        (box(10.1, 40.1, 10.3, 42.9), "west"),
        (box(10.1, 42.5, 12.9, 42.9), "north"),
        (box(11.4, 40.1, 11.6, 42.9), None),
        # Over the border of a third, most of it in the north.
        (box(11.4, 41.8, 11.6, 42.8), "north"),
        # Outlines count by their area.
        (MultiPolygon([box(12.8, 41.9, 12.9, 42.0), box(11.1, 41.1, 11.9, 41.9)]), "centre"),
        # Beyond what was asked for.
        (box(7, 41.4, 10.5, 41.6), "west"),
    ],
)
def test_what_goes_across_has_no_word_in_that_direction(outline, words):
    assert compass_words(outline, GROUND) == words


def test_words_across_the_antimeridian():
    assert compass_words(box(-178.9, -0.5, -178.7, -0.3), CUT) == "north-east"
    assert compass_words(box(178.7, -0.5, 178.9, -0.3), CUT) == "north-west"
    across = MultiPolygon([box(179.9, -1.6, 180, -1.4), box(-180, -1.6, -179.9, -1.4)])
    assert compass_words(across, CUT) == "centre"


def polar(left, top):
    """The ground of 30 km by 30 km of a polar stereographic map."""
    grid = Grid(POLAR, Affine(100, 0, left, 0, -100, top), 300, 300, 100.0)
    return ground_of(SimpleNamespace(focus=Window(0, 0, 300, 300), grid=grid, site=None))


def test_north_is_that_of_the_map_and_not_of_the_rows():
    # At 90 degrees east, north is to the left of the rows.
    ground = polar(2_000_000, 2_000_000)
    # At this corner of the map the pole lies to the south-west, in the last rows.
    last_rows = box(2_000_500, 1_970_500, 2_002_000, 1_972_000)
    first_rows = box(2_028_000, 1_998_000, 2_029_500, 1_999_500)
    assert compass_words(to_wgs84(last_rows, POLAR), ground) == "north"
    assert compass_words(to_wgs84(first_rows, POLAR), ground) == "south"


def test_around_a_pole_there_are_no_words():
    assert polar(-15_000, 15_000) is None
    assert compass_words(box(10, 89, 20, 89.5), None) is None


def houses(centres):
    return [box(x - 4, y - 4, x + 4, y + 4) for x, y in centres]


@pytest.mark.parametrize(
    ("centres", "words"),
    [
        ([(0, 0)], "alone"),
        ([(0, 0), (20, 0)], None),
        ([(0, 0), (20, 0), (40, 0)], None),
        # Half of them are a row.
        ([*((20 * n, 0) for n in range(5)), (300, 0), (320, 15), (305, 30)], None),
    ],
)
def test_few_outlines_and_half_a_row_have_no_arrangement(centres, words):
    assert arrangement(houses(centres)) == words


def test_lines_are_rows_at_any_angle_and_where_they_bend():
    street = houses([(20 * n, row) for row in (0, 60) for n in range(6)])
    for angle in (0, 33, 90):
        assert arrangement([rotate(house, angle, origin=(0, 0)) for house in street]) == "in rows"
    bent = houses([(200 * np.sin(n / 9), 200 * np.cos(n / 9)) for n in range(14)])
    assert arrangement(bent) == "in rows"
    rng = np.random.default_rng(2)
    assert arrangement([translate(house, *rng.normal(0, 1.5, 2)) for house in street]) == "in rows"


def test_houses_here_and_there_are_scattered():
    places = np.random.default_rng(4).uniform(0, 600, (40, 2))
    assert arrangement(houses(places)) == arrangement(houses(places * 10)) == "scattered"
