from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from affine import Affine
from scene_pairs import make_pair
from shapely.affinity import rotate, translate
from shapely.geometry import MultiPolygon, box

from tiling import ScenePair, Window, to_wgs84
from workflows.scene.layout import arrangement, compass_words, ground_of

GROUND = box(10, 40, 13, 43)
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


def test_what_goes_across_has_no_word_in_that_direction():
    assert compass_words(GROUND, GROUND) is None
    assert compass_words(box(10.5, 40.5, 12.5, 42.5), GROUND) is None
    assert compass_words(box(10.1, 40.1, 10.3, 42.9), GROUND) == "west"
    assert compass_words(box(10.1, 42.5, 12.9, 42.9), GROUND) == "north"
    assert compass_words(box(11.4, 40.1, 11.6, 42.9), GROUND) is None
    # Over the border of a third, most of it in the north.
    assert compass_words(box(11.4, 41.8, 11.6, 42.8), GROUND) == "north"


def test_outlines_count_by_their_area():
    small, large = box(12.8, 41.9, 12.9, 42.0), box(11.1, 41.1, 11.9, 41.9)
    assert compass_words(MultiPolygon([small, large]), GROUND) == "centre"


def test_what_reaches_beyond_a_box_has_words():
    assert compass_words(box(7, 41.4, 10.5, 41.6), GROUND) == "west"


def test_words_across_the_antimeridian():
    assert compass_words(box(-178.9, -0.5, -178.7, -0.3), CUT) == "north-east"
    assert compass_words(box(178.7, -0.5, 178.9, -0.3), CUT) == "north-west"
    across = MultiPolygon([box(179.9, -1.6, 180, -1.4), box(-180, -1.6, -179.9, -1.4)])
    assert compass_words(across, CUT) == "centre"


def test_north_is_that_of_the_map_and_not_of_the_rows():
    # Polar stereographic: at 90 degrees east, north is to the left of the rows.
    crs = "EPSG:3413"
    transform = Affine(100, 0, 2_000_000, 0, -100, 2_000_000)
    pair = SimpleNamespace(focus=Window(0, 0, 300, 300), grid=SimpleNamespace(transform=transform, crs=crs))
    ground = ground_of(pair)
    # At this corner of the map the pole lies to the south-west, in the last rows.
    last_rows = box(2_000_500, 1_970_500, 2_002_000, 1_972_000)
    first_rows = box(2_028_000, 1_998_000, 2_029_500, 1_999_500)
    assert compass_words(to_wgs84(last_rows, crs), ground) == "north"
    assert compass_words(to_wgs84(first_rows, crs), ground) == "south"


def test_around_a_pole_there_are_no_words():
    transform = Affine(100, 0, -15_000, 0, -100, 15_000)
    pair = SimpleNamespace(
        focus=Window(0, 0, 300, 300), grid=SimpleNamespace(transform=transform, crs="EPSG:3413")
    )
    assert ground_of(pair) is None
    assert compass_words(box(10, 89, 20, 89.5), None) is None


def test_the_ground_is_what_was_asked_for(tmp_path):
    made = make_pair(tmp_path, [])
    with ScenePair.open(made.before, made.after) as pair:
        whole = ground_of(pair)
        pair.focus = Window(0, 0, 30, 50)
        part = ground_of(pair)
    assert part.area / whole.area == pytest.approx(30 * 50 / (150 * 210), rel=0.01)
    assert (part.bounds[0], part.bounds[3]) == pytest.approx((whole.bounds[0], whole.bounds[3]), abs=1e-6)


def houses(centres):
    return [box(x - 4, y - 4, x + 4, y + 4) for x, y in centres]


def test_one_outline_is_alone_and_two_have_no_arrangement():
    assert arrangement(houses([(0, 0)])) == "alone"
    assert arrangement(houses([(0, 0), (20, 0)])) is None
    assert arrangement(houses([(0, 0), (20, 0), (40, 0)])) is None


def test_lines_are_rows_at_any_angle_and_where_they_bend():
    street = houses([(20 * n, row) for row in (0, 60) for n in range(6)])
    for angle in (0, 33, 90):
        assert arrangement([rotate(house, angle, origin=(0, 0)) for house in street]) == "in rows"
    bent = houses([(200 * np.sin(n / 9), 200 * np.cos(n / 9)) for n in range(14)])
    assert arrangement(bent) == "in rows"
    rng = np.random.default_rng(2)
    assert arrangement([translate(house, *rng.normal(0, 1.5, 2)) for house in street]) == "in rows"


def test_houses_here_and_there_are_scattered():
    rng = np.random.default_rng(4)
    said = [arrangement(houses(rng.uniform(0, 400, (20, 2)))) for _ in range(40)]
    assert said.count("scattered") >= 30
    assert said.count("in rows") == 0


def test_half_a_row_is_neither():
    row = [(20 * n, 0) for n in range(5)]
    beside = [(300, 0), (320, 15), (305, 30)]
    assert arrangement(houses([*row, *beside])) is None


def test_outlines_around_one_centre_are_no_line():
    rings = [box(-r, -r, r, r) for r in (1, 2, 3, 4)]
    assert arrangement(rings) == "scattered"
