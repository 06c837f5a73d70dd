"""The summary of a scene: what it says follows from the attributes of the changes, number by number."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from archive_rows import change
from hypothesis import given
from hypothesis import strategies as st

from rscc.text.change_facts import SOMETHING
from rscc.text.wording import number_words
from workflows.report.summary import archive_summary, summary_of


def appeared(number=1, count=1, came=("building",), **values):
    return change(
        number, direction="appeared", came=came, count=count, largest_m2=200.0, median_m2=200.0, **values
    )


def gone(number=1, classes=("trees",), **values):
    return change(number, direction="disappeared", gone=classes, **values)


def text(*changes):
    return summary_of(changes).text


def test_several_changes_are_added_up_class_by_class():
    said = text(
        appeared(1, 12, area_m2=9_000.0, place="south-west"),
        appeared(2, 1, ("building", "road"), area_m2=500.0, place="south"),
        appeared(3, 4, ("road",), area_m2=300.0, place="north"),
        gone(4, area_m2=200.0),
    )
    assert said == (
        "4 changes were found, 1.0 ha in all, most of it in the south-west. About 15 houses in 2 places "
        "and some roads were built. Trees were removed."
    )


def test_measured_cover_is_added_up_by_area():
    said = text(
        gone(1, ("vegetation",), changed_m2=12_000.0, area_m2=20_000.0),
        gone(2, ("vegetation",), changed_m2=3_000.0, area_m2=9_000.0),
        change(3, direction="replaced", came=("water",), gone=("vegetation",), changed_m2=5_000.0),
    )
    assert said == (
        "3 changes were found, 2.9 ha in all. 0.5 ha of water appeared. 1.5 ha of vegetation in 2 places and "
        "more in 1 other disappeared."
    ), "how much of the vegetation was flooded is not known"
    river = change(
        4, direction="replaced", came=("water",), gone=("water",), changed_m2=2e4, changed_back_m2=3e4
    )
    assert " 2 ha of water appeared. 3 ha of water disappeared." in text(river)
    lost = [gone(n, ("vegetation",), changed_m2=area) for n, area in ((1, 12_000.0), (2, 3_000.0))]
    assert text(*lost).endswith(" 1.5 ha of vegetation in 2 places disappeared.")
    lost[1] = replace(lost[1], changed_at_least=True)
    assert text(*lost).endswith(" At least 1.5 ha of vegetation in 2 places disappeared.")


def test_numbers_are_as_sure_as_those_of_the_changes():
    doubtful = appeared(1, 8, count_sure=1), appeared(2, 1, count_sure=0)
    assert "1 to 9 houses in 2 places were built" in text(*doubtful)
    assert "Up to 3 houses in 2 places" in text(appeared(1, 2, count_sure=0), appeared(2, 1, count_sure=0))
    assert " Perhaps a house was built." in text(appeared(1, 1, count_sure=0))
    doubtful_house = appeared(1, 1, ("building", "road"), count_sure=0)
    assert " A road and perhaps a house were built." in text(doubtful_house)
    assert "3 or 4 houses in 2 places" in text(appeared(1, 3, count_sure=2), appeared(2, 1, count_sure=1))
    assert "About 35 houses" in text(appeared(1, 2, count_sure=1), appeared(2, 32, count_sure=28))
    assert "21 to 34 houses" in text(appeared(1, 2, count_sure=1), appeared(2, 32, count_sure=20))
    assert " 9 houses in 2 places" in text(appeared(1, 8, count_sure=8), appeared(2, 1))


def test_what_is_not_told_is_not_made_up():
    assert text() == "No change was found."
    assert text(appeared(1)).endswith("1 house was built. No removal was found.")
    assert text(appeared(1, before_cover=("trees",))).endswith("1 house was built."), "those are gone"
    assert text(change(1), change(2)) == "2 changes were found, 200 m2 in all.", "their sentences may tell"
    unknown = [change(number, caption=SOMETHING) for number in (1, 2)]
    assert text(*unknown) == "2 changes were found, 200 m2 in all. What changed is not known."
    said = text(appeared(1), change(2), change(3))
    assert said.endswith("1 house was built. What was added or removed is not stated for 2 changes.")


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (["south", "south"], ", in the south"),
        (["south-east", "south-west"], ", in the south"),
        (["south-east", "south-east", "north"], ", most of it in the south-east"),
        (["north", "south"], ""),
        (["north", "north", "north", "south", "south"], ""),  # three fifths are not most of it
        ([None, None], ""),
        (["centre", "centre"], ", in the centre"),
    ],
)
def test_a_place_is_named_where_most_of_the_area_lies(places, words):
    said = text(*(change(n, place=place, area_m2=100.0) for n, place in enumerate(places, start=1)))
    assert said == f"{len(places)} changes were found, {len(places)}00 m2 in all{words}."


NAMES = ("building", "road", "trees", "water", "grass")
CLASSES = st.lists(st.sampled_from(NAMES), max_size=3, unique=True).map(tuple)
CHANGE = st.builds(
    change,
    direction=st.sampled_from(["appeared", "disappeared", None]),
    came=CLASSES,
    gone=CLASSES,
    count=st.integers(1, 500),
    area_m2=st.integers(4, 4 * 10**7).map(lambda quarters: quarters / 4),  # whose sums are exact
)


@given(st.lists(CHANGE, max_size=8))
def test_every_number_is_in_the_table(changes):
    said = text(*changes)
    sizes = {
        f"{value:,.{digits}f}"
        for total in [sum(one.area_m2 for one in changes)]
        for value, digits in ((total, 0), (total / 1e4, 1), (total / 1e6, 1))
    }
    counts = {len(changes), sum(not (one.came or one.gone) for one in changes)}
    for names in ("came", "gone"):
        for name in NAMES:
            having = [one for one in changes if name in getattr(one, names)]
            counts |= {len(having), sum(one.count for one in having)}
            counts.add(sum(one.count if name not in one.came else 1 for one in having))
            counts.add(sum(one.count for one in having if name not in one.came))
    rounded = {number_words(count) for count in counts}
    for about, number in re.findall(r"([Aa]bout )?(\d[\d,.]*\d|\d)", re.sub(r"k?m2", "", said)):
        known = (
            f"about {number}" in rounded
            if about
            else number.replace(",", "").isdigit() and int(number.replace(",", "")) in counts
        )
        assert number in sizes or known


def test_an_archive_is_the_sum_of_its_reports():
    scenes = [
        summary_of([appeared(1, area_m2=9_000.0), appeared(2, came=("road", "building"), area_m2=500.0)]),
        summary_of([]),
        summary_of([gone(1, area_m2=600.0), change(2, area_m2=20.0)]),
    ]
    made = archive_summary(iter(scenes), failed=2, left=1)
    assert made.text == (
        "4 changes were found in 2 of 3 pairs, 1.0 ha in all. "
        "2 changes include new buildings and 1 new roads. 1 change includes lost trees. "
        "What was added or removed is not stated for 1 change. "
        "Of 6 pairs in the archive, 2 failed and 1 is not done yet."
    )
    assert {name: one.changes for name, one in made.directions.items()} == {
        "appeared": 2, "disappeared": 1, "unnamed": 1
    }  # fmt: skip
    assert made.came["building"].area_m2 == 9_500 and made.total.area_m2 == 10_120


GROUND = {"tiling": {"gsd": 0.5}, "focus": {"width": 1136, "height": 1134}}  # 32.2 ha


def unjudged(area, **by):
    return {**GROUND, "not_judged": {"area_m2": area, "by": by}}


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (GROUND, "No change was found in 32.2 ha."),
        (unjudged(4000.0, cloud=4000.0), "No change was found in 31.8 of 32.2 ha; 0.4 ha were under cloud."),
        (unjudged(100.0, fill=100.0), "No change was found in 32.2 ha."),
        (
            unjudged(161_000.0, fill=1_000.0, cloud=100_000.0, haze=60_000.0),
            "No change was found in 16.1 of 32.2 ha; 16.1 ha were under cloud or under haze.",
        ),
        (
            unjudged(315_000.0, fill=315_000.0),
            "No change was found in 0.7 of 32.2 ha; 31.5 ha were without data.",
        ),
        # Areas of the ground are larger than those of the grid.
        (
            {**GROUND, "not_judged": {"area_m2": 322_500.0, "share": 0.997, "by": {"fill": 322_500.0}}},
            "No change was found in 966 m2 of 32.2 ha; all but 966 m2 is without data.",
        ),
    ],
)
def test_what_was_looked_at_is_said(run, said):
    words = summary_of([], run).text
    assert words.startswith(said)


@pytest.mark.parametrize("damage", [None, "x", [], -1, float("nan"), float("inf"), True, 1e300])
def test_a_damaged_record_says_nothing_of_the_ground(damage):
    run = {**GROUND, "focus": {"width": damage, "height": 3}}
    assert summary_of([], run).text == "No change was found."
    assert summary_of([], {**GROUND, "not_judged": damage}).text.startswith("No change was found in 32.2 ha.")
