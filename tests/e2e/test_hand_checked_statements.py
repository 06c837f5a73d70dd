"""What rscc-medium states of real scenes, against what a person saw in crops of both dates.

Each row was written down from enlarged crops of both dates with the outline on them: a place in the change,
what came and what is gone there, and between how many hectares that is by eye. Whoever looked had seen the
sentence, so a row shows that it is not wrong, not that a stranger would have written it.
"""

from functools import cache

import pytest
from shapely.geometry import Point, Polygon

from rscc import Captioner
from tiling import ChangeRegion, on_map
from workflows import SceneOptions, caption_scene
from workflows.scene.found import FoundChange
from workflows.scene.opening import open_pair
from workflows.scene.outline import outlines_of
from workflows.scene.words.land_cover import describe_by_cover

pytestmark = [pytest.mark.real, pytest.mark.slow]

NAIP = {"band_names": ("red", "green", "blue", "nir")}
LANDSAT = {"band_names": ("swir16", "nir", "red", "green"), "force": True}
PAIRS = {
    "Beirut": ("oscd_beirut", "20150820", "20171003", {}),
    "Ucayali": ("pucallpa_landsat", "2005", "2015", LANDSAT),
    "prairie": ("naip_4709963", "m_4709963_se_14_1_20090818", "m_4709963_se_14_1_20200831", NAIP),
    "fields": ("naip_4709963", "m_4709963_se_14_1_20170827", "m_4709963_se_14_1_20200831", NAIP),
}
PLANTS = "vegetation"
# Pair, longitude and latitude, what came, what is gone, hectares by eye.
SEEN = [
    # A pit and scrub on a round site in the city: all bare and bright after.
    ("Beirut", 35.52260, 33.84844, (), (PLANTS,), 0.3, 0.7),
    # A strip of scrub beside the motorway: bare earth after.
    ("Beirut", 35.49281, 33.84978, (), (PLANTS,), 0.3, 0.9),
    # The river took a new bed through the green neck of a meander.
    ("Ucayali", -74.44899, -8.43183, ("water",), (PLANTS,), 600, 900),
    # The bank in the north of a bend is river after.
    ("Ucayali", -74.47960, -8.40646, ("water",), (PLANTS,), 280, 420),
    # Half an island beside the old bed is river after.
    ("Ucayali", -74.50311, -8.42102, ("water",), (PLANTS,), 100, 160),
    # The old bed in the north is overgrown.
    ("Ucayali", -74.51648, -8.28425, (PLANTS,), ("water",), 80, 130),
    # Two lakes grew together over marsh and meadow.
    ("prairie", -99.18268, 47.03186, ("water",), None, 11, 14),
    # Two ponds in fields have grown to several times their size.
    ("prairie", -99.15067, 47.02317, ("water",), None, 4.5, 6.5),
    # A lake spread into a pasture.
    ("fields", -99.18468, 47.03149, ("water",), (PLANTS,), 1.1, 1.9),
    # A green field is bare, nearly all of it.
    ("fields", -99.13196, 47.01276, (), (PLANTS,), 0.75, 0.95),
    # Fields with patches of green are harvested, but for a green rectangle.
    ("fields", -99.15716, 47.00516, (), (PLANTS,), 3.5, 7),
]


@pytest.fixture(scope="module")
def changes(shared_data):
    """Return the changes of a pair, found once."""
    captioner = Captioner.load("rscc-medium", device="cpu")
    # In which the outlines were found that a person saw: in float32 some fields are outlined in part.
    captioner.bf16 = True

    @cache
    def of(name):
        folder, before, after, options = PAIRS[name]
        scenes = shared_data / "data" / "scenes" / folder
        return caption_scene(
            scenes / f"{before}.tif", scenes / f"{after}.tif", captioner, SceneOptions(**options)
        ).changes

    return of


@pytest.mark.parametrize(("pair", "lon", "lat", "came", "gone", "least", "most"), SEEN)
def test_a_statement_is_what_a_person_sees(changes, pair, lon, lat, came, gone, least, most):
    (change,) = (one for one in changes(pair) if one.geometry.covers(Point(lon, lat)))
    assert change.caption_confident and change.came == came
    assert gone is None or change.gone == gone
    assert least <= change.changed_m2 / 10_000 <= most
    assert change.direction == {(True, False): "appeared", (False, True): "disappeared"}.get(
        (bool(came), bool(change.gone)), "replaced"
    )
    assert " ha" in change.caption and all(name in change.caption.lower() for name in (*came, *(gone or ())))


# Outlines drawn by hand, since none are found there: columns and rows of Landsat 1985 and 2020.
CLEARED = (453, 477, 3, 22)  # a clearing in closed forest, about half of the box, the rest untouched
UNTOUCHED = (560, 640, 20, 80)  # forest on both dates


@pytest.mark.parametrize(("box", "least", "most"), [(CLEARED, 120, 220), (UNTOUCHED, None, None)])
def test_a_clearing_in_a_forest_is_told_and_standing_forest_is_not(shared_data, box, least, most):
    scenes = shared_data / "data" / "scenes" / "pucallpa_landsat"
    card = Captioner.load("rscc-medium", device="cpu").card
    left, right, top, bottom = box
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    options = SceneOptions(**LANDSAT)
    with open_pair(scenes / "1985.tif", scenes / "2020.tif", card, options) as opened:
        grid = opened.pair.grid
        drawn = Polygon([on_map(grid.transform, *corner) for corner in corners])
        region = ChangeRegion(Polygon(corners), drawn, 1.0, (right - left) * (bottom - top))
        change = FoundChange(tuple(outlines_of([region], grid, 0)))
        ((caption,), _) = describe_by_cover([change], opened.pair, opened.ground)
    if least is None:
        assert caption.text == "Something changed"
        return
    assert (dict(caption.facts.came), list(caption.facts.gone)) == ({}, ["dense vegetation"])
    assert least <= caption.facts.area_m2 / 10_000 <= most
    assert "dense vegetation disappeared in the north" in caption.text
