"""Which of the dated scenes of a place make a pair, by rule and by ground."""

import pytest
from shapely.geometry import MultiPolygon, box

from workflows.errors import DateInvalid, OptionInvalid
from workflows.pairs.catalog import Scene, choose
from workflows.pairs.names import is_pair_id, pair_id
from workflows.pairs.options import CatalogOptions, within
from workflows.pairs.rules import pair_up


def scene(name, date, ground=(0, 0, 1, 1), site="s", cloud=None):
    footprint = ground if isinstance(ground, MultiPolygon) else box(*ground)
    return Scene(name, f"/in/{name}", site, date, cloud, footprint)


def pairs_of(scenes, rule="consecutive", **options):
    drafts, skipped = pair_up(scenes, CatalogOptions(pair=rule, **options))
    return [draft.before + draft.after for draft in drafts], skipped


SERIES = [
    scene(name, date) for name, date in zip("abcd", ["2015", "2016-03", "2016-05-01", "2018"], strict=True)
]


@pytest.mark.parametrize(
    ("rule", "expected", "kinds"),
    [
        ("consecutive", ["ab", "bc", "cd"], []),
        ("first-last", ["ad"], ["between the first and the last"] * 2),
        ("all", ["ab", "ac", "ad", "bc", "bd", "cd"], []),
        ("yearly", ["ab", "bd"], ["of years with a clearer scene"]),
    ],
)
def test_the_rules(rule, expected, kinds):
    pairs, skipped = pairs_of(SERIES[::-1], rule)
    assert pairs == expected
    assert [left.kind for left in skipped] == kinds
    assert all(left.line is None for left in skipped)


def test_scenes_that_share_too_little_ground_are_no_pair():
    scenes = [scene("a", "2015", (0, 0, 4, 1)), scene("b", "2016", (3, 0, 7, 1))]
    assert pairs_of(scenes, min_overlap=25)[0] == ["ab"]
    assert pairs_of(scenes, min_overlap=26)[0] == []
    # Touching is not overlapping, whatever is asked for.
    assert pairs_of([scene("a", "2015"), scene("b", "2016", (1, 0, 2, 1))], min_overlap=0)[0] == []
    assert pairs_of([scene("a", "2015"), scene("b", "2016", (0.999, 0, 2, 1))], min_overlap=0)[0] == ["ab"]


def test_tiles_of_a_mosaic_are_paired_each_with_its_own():
    scenes = [
        scene(f"{year}{place}", f"{year}", (place - 0.05, 0, place + 1.05, 1))
        for year in (2015, 2017)
        for place in (0, 1)
    ]
    assert pairs_of(scenes)[0] == ["2015020170", "2015120171"]


def test_a_large_scene_goes_with_all_the_small_ones_on_it():
    small = [scene(f"q{n}", "2017", (n, 0, n + 1, 1)) for n in range(4)]
    later = [scene(f"r{n}", "2019", (n, 0, n + 1, 1)) for n in range(4)]
    large = scene("L", "2015", (0, 0, 4, 1)), scene("M", "2018", (0, 0, 4, 1))
    assert pairs_of([*small, large[0]])[0] == ["Lq0", "Lq1", "Lq2", "Lq3"]
    pairs, _ = pairs_of([*small, large[1], *later])
    assert {pair for pair in pairs if pair.startswith("q")} == {f"q{n}M" for n in range(4)}
    assert {pair for pair in pairs if pair.startswith("M")} == {f"Mr{n}" for n in range(4)}
    assert len(pairs) == 8


def test_a_scene_of_a_part_does_not_end_the_series_of_the_rest():
    """b shows the left half only: the right half of a is followed by c."""
    scenes = [
        scene("a", "2015", (0, 0, 2, 1)),
        scene("b", "2016", (0, 0, 1, 1)),
        scene("c", "2017", (1, 0, 2, 1)),
    ]
    assert pairs_of(scenes)[0] == ["ab", "ac"]
    assert pairs_of(scenes, "first-last")[0] == ["ab", "ac"]


def test_of_two_scenes_of_one_day_the_clearest_is_taken():
    scenes = [
        scene("cloudy", "2015-01-01", cloud=60.0),
        scene("clear", "2015-01-01", cloud=5.0),
        scene("unknown", "2015-01-01"),
        scene("later", "2016"),
    ]
    pairs, skipped = pairs_of(scenes)
    assert pairs == ["clearlater"]
    assert [left.line for left in skipped] == [
        f"{name}: left out for clear, of the same place and day" for name in ("cloudy", "unknown")
    ]
    # As clear as each other: the one that shows more ground, whatever the names.
    wide = scene("wide", "2015-01-01", (0, 0, 1.5, 1), cloud=5.0)
    assert pairs_of([scenes[1], wide, scenes[3]])[0] == ["widelater"]
    # Halves of one day are both needed.
    halves = [scene("w", "2015-01-01", (0, 0, 0.5, 1)), scene("e", "2015-01-01", (0.5, 0, 1, 1)), scenes[3]]
    assert pairs_of(halves)[0] == ["elater", "wlater"]


def test_yearly_takes_clear_scenes_of_one_season():
    scenes = [
        scene("a", "2015-07-01", cloud=10.0),
        scene("b", "2015-12-30", cloud=10.0),
        scene("c", "2016-07-20", cloud=2.0),
        scene("d", "2016-07-01", cloud=50.0),
        scene("e", "2017-01-05", cloud=0.0),
        scene("f", "2017-06-20", cloud=0.0),
    ]
    assert pairs_of(scenes, "yearly")[0] == ["ac", "cf"]
    assert pairs_of([scene("a", "2015"), scene("b", "2016-07"), scene("c", "2016-08")], "yearly")[0] == ["ab"]


def test_the_usual_season_may_lie_across_new_year():
    """The scenes are of January, so that of late December is nearer to them than that of April."""
    usual = [scene(f"{year}-", f"{year}-01-10") for year in range(2012, 2016)]
    december, april = scene("december", "2016-12-28"), scene("april", "2016-04-20")
    assert pairs_of([*usual, december, april], "yearly")[0][-1] == "2015-december"


@pytest.mark.parametrize(
    ("date", "first", "last", "expected"),
    [
        ("2019-08-31", "2019-08-31", "2019-08-31", True),
        ("2019-08-30", "2019-08-31", None, False),
        ("2019-09-01", None, "2019-08", False),
        ("2019-08-31", "2019", "2019", True),
        ("2019", "2019-08", None, True),
        ("2018", "2019-08", None, False),
        ("2020", None, "2019-08", False),
    ],
)
def test_a_span_of_dates_includes_its_ends(date, first, last, expected):
    assert within(date, first, last) is expected


def test_scenes_are_chosen_by_date_and_clouds():
    scenes = [
        scene("early", "2014"),
        scene("late", "2019-01-01"),
        scene("cloudy", "2016", cloud=20.5),
        scene("clear", "2016", cloud=20.0),
        scene("unknown", "2017"),
    ]
    options = CatalogOptions(first_date="2015", last_date="2018", max_cloud=20)
    chosen, skipped, warnings = choose(scenes, options)
    assert [one.name for one in chosen] == ["clear", "unknown"]
    assert [left.kind for left in skipped] == ["outside the dates"] * 2 + ["more than 20 percent of clouds"]
    assert len(warnings) == 1 and warnings[0].startswith("1 of the 2 ")
    assert choose(scenes, CatalogOptions()) == (scenes, [], [])


@pytest.mark.parametrize(
    "values",
    [
        {"pair": "random"},
        {"max_cloud": 101},
        {"min_overlap": -1},
        {"min_overlap": float("nan")},
        {"first_date": "2020", "last_date": "2019-12"},
        {"match": "("},
        {"match": "tile"},
        {"first_date": "31.8.2019"},
    ],
)
def test_wrong_options_are_refused(values):
    with pytest.raises((OptionInvalid, DateInvalid)):
        CatalogOptions(**values)


@pytest.mark.parametrize("length", [78, 79, 150])
def test_the_name_of_a_pair_is_never_too_long(length):
    names = {pair_id("x" * length + end, "2019-01-01", "2020-01-01") for end in "ab"}
    assert all(map(is_pair_id, names)) and len(names) == 2
