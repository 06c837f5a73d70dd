"""Gives the events of a new run the ids of stored ones that they continue.

The pairs of found and stored events are chosen together, by the largest total overlap
(``scipy.optimize.linear_sum_assignment``). What continues no stored event gets a new number; a stored event
that is not continued keeps its own, and is withdrawn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import shapely

from workflows.dates import PartialDate
from workflows.monitor.events import FoundEvent
from workflows.monitor.stored import StoredEvent, stable

# Least overlap of a match: of the union, or of the smaller outline, which holds for parts and wholes.
LEAST_UNION, LEAST_PART = 0.2, 0.6
# Worth of the same kind of change, and of the same time, beside an overlap of at most 1.
SAME_CHANGE, SAME_TIME = 0.3, 0.5
DAYS = 180.0
"""Days between two first sightings at which :data:`SAME_TIME` has fallen to 1/e."""
REVIVED = 0.5
"""Least overlap of the union with which a withdrawn event comes back; it is also of the same kind."""
LIVE = 0.2
"""Worth of a stored event that was not withdrawn."""
MOSTLY = 0.5
"""Share of an outline that lies in another, from which one is part of the other."""


def continue_events(
    found: Sequence[FoundEvent], stored: Sequence[StoredEvent], dates: Mapping[str, str]
) -> list[StoredEvent]:
    """Return all events of a place, in order of their numbers."""
    found = [one for one in map(stable, found) if not one.geometry.is_empty]
    union, of_stored, of_found = _shares(
        [one.geometry for one in found], [one.found.geometry for one in stored]
    )
    same = np.array([[_same_change(one, other.found) for other in stored] for one in found], bool)
    same = same.reshape(union.shape)
    numbers = _assigned(found, stored, union, np.maximum(of_stored, of_found), same, dates)
    unused = count(max((one.number for one in stored), default=0) + 1)
    for place in sorted(set(range(len(found))) - numbers.keys(), key=lambda i: _order(found[i], dates)):
        numbers[place] = next(unused)
    known = {one.number: one for one in stored}
    live = np.array([one.live for one in stored], bool)
    events = {one.number: replace(one, live=False) for one in stored}
    for place, number in numbers.items():
        # A new event was a part of those that lie around it.
        around = np.flatnonzero((of_found[place] >= MOSTLY) & live & same[place])
        split = (
            known[number].split_from if number in known else tuple(stored[i].number for i in around.tolist())
        )
        events[number] = StoredEvent(number, found[place], split_from=split)
    for column, one in enumerate(stored):
        if not events[one.number].live:
            inside = np.flatnonzero((of_stored[:, column] >= MOSTLY) & same[:, column])
            merged = tuple(sorted(numbers[int(i)] for i in inside))
            events[one.number] = replace(events[one.number], merged_into=merged)
    return [events[number] for number in sorted(events)]


def _shares(found: Sequence, stored: Sequence) -> np.ndarray:
    """Return the overlaps (3, found, stored) as shares of the union, of the stored one, and of the found."""
    shares = np.zeros((3, len(found), len(stored)))
    if not shares.size:
        return shares
    ones, others = np.array(found, dtype=object), np.array(stored, dtype=object)
    rows, columns = shapely.STRtree(others).query(ones, predicate="intersects")
    common = shapely.area(shapely.intersection(ones[rows], others[columns]))
    mine, theirs = shapely.area(ones)[rows], shapely.area(others)[columns]
    shares[:, rows, columns] = common / (mine + theirs - common), common / theirs, common / mine
    return shares


def _assigned(
    found: Sequence[FoundEvent],
    stored: Sequence[StoredEvent],
    union: np.ndarray,
    part: np.ndarray,
    same: np.ndarray,
    dates: Mapping[str, str],
) -> dict[int, int]:
    """Return the number of the stored event that each found one continues, by its place in ``found``."""
    live = np.array([one.live for one in stored], bool)
    possible = np.where(live, (union >= LEAST_UNION) | (part >= LEAST_PART), (union >= REVIVED) & same)
    worth = np.where(possible, union + SAME_CHANGE * same + LIVE * live, 0.0)
    for row, column in np.argwhere(possible):
        worth[row, column] += SAME_TIME * _same_time(found[row], stored[column].found, dates)
    rows, columns = np.nonzero(possible)
    if len(set(rows)) < len(rows) or len(set(columns)) < len(columns):
        from scipy.optimize import linear_sum_assignment  # slow to import, and mostly there is no choice

        rows, columns = linear_sum_assignment(worth, maximize=True)
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    return {row: stored[column].number for row, column in pairs if possible[row, column]}


def _same_change(one: FoundEvent, other: FoundEvent) -> bool:
    return (one.kind, one.direction) == (other.kind, other.direction)


def _same_time(one: FoundEvent, other: FoundEvent, dates: Mapping[str, str]) -> float:
    first, second = _first_seen(one, dates), _first_seen(other, dates)
    if first is None or second is None:
        return 0.0
    return float(np.exp(-abs(first - second) / DAYS))


def _first_seen(event: FoundEvent, dates: Mapping[str, str]) -> float | None:
    seen = (dates.get(one.scene) for one in event.sightings if one.state == "seen")
    date = next(seen, None)
    return None if date is None else PartialDate(date).ordinal


def _order(event: FoundEvent, dates: Mapping[str, str]) -> tuple[float, float, float]:
    """Sort key of new events: by time, then from north to south and from west to east."""
    place = event.geometry.centroid
    return (_first_seen(event, dates) or 0.0, -place.y, place.x)
