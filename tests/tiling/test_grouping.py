from hypothesis import given
from hypothesis import strategies as st
from shapely.geometry import box

from tiling import ChangeRegion, group_regions


def region(outline):
    return ChangeRegion(outline, outline, 0.9, max(1, round(outline.area)))


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(1, 9)), max_size=20),
    st.integers(0, 15),
)
def test_events_are_the_chains_of_near_regions(corners, distance):
    regions = [region(box(x, y, x + size, y + size)) for x, y, size in corners]
    groups = group_regions(regions, distance)
    assert sorted(number for group in groups for number in group) == list(range(len(regions)))
    event = {number: group[0] for group in groups for number in group}
    for one, first in enumerate(regions):
        for other, second in enumerate(regions):
            if first.pixel_polygon.distance(second.pixel_polygon) <= distance:
                assert event[one] == event[other]
    near = {
        (one, other)
        for group in groups
        for one in group
        for other in group
        if regions[one].pixel_polygon.distance(regions[other].pixel_polygon) <= distance
    }
    for group in groups:
        reached = {group[0]}
        for _ in group:
            reached |= {other for one, other in near if one in reached}
        assert reached == set(group)
