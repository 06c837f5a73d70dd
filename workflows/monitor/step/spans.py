"""Long series in spans of time, so that memory and open files do not grow with the number of scenes.

Each span has :data:`SPAN` dates and begins :data:`APART` dates after the one before it; the last one may be
shorter. A date is searched in the span that shows most dates around it::

    dates   0        100       200       300   N
            |------span------|
                      |------span------|
                                |------span----|
    searched |----------|---------|------------|

An event is followed to the end of its span. What happens there later is an event of its own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from shapely import STRtree

from workflows.monitor.events import FoundEvent, Series
from workflows.progress import Progress, report_progress

SPAN, APART = 160, 100
MARGIN = (SPAN - APART) // 2
"""Dates that a span shows before and after those that are searched in it."""
# An event that two spans date differently is found by both, or by none without so many more dates.
DATED_OFF = 3
# Share of the smaller of two outlines that makes them the same event.
SAME = 0.5


@dataclass(frozen=True)
class Span:
    """The dates from ``start`` to before ``stop``; those from ``first`` to before ``last`` are searched."""

    start: int
    stop: int
    first: int
    last: int


def spans_of(dates: int) -> Iterator[Span]:
    """Yield the spans of a series of so many dates; their searched dates lie one after another.

    >>> [(span.start, span.stop) for span in spans_of(300)]
    [(0, 160), (100, 260), (200, 300)]
    """
    start = 0
    while True:
        stop = min(start + SPAN, dates)
        is_last = stop == dates
        yield Span(start, stop, start and start + MARGIN, dates if is_last else stop - MARGIN)
        if is_last:
            return
        start += APART


def find_in_spans(
    series: Series,
    find: Callable[[Series, Progress | None], list[FoundEvent]],
    progress: Progress | None = None,
) -> list[FoundEvent]:
    """Return the events of a series; each has sightings of the dates of one span.

    Args:
        progress: called with the stage ``steps``, where there are several spans.
    """
    spans = list(spans_of(len(series.scenes)))
    if len(spans) == 1:
        return find(series, progress)
    events: list[tuple[int, FoundEvent]] = []
    for number, span in enumerate(spans, start=1):
        part = replace(series, scenes=series.scenes[span.start : span.stop])
        dated = [(span.start + _first_seen(event), event) for event in find(part, None)]
        near = [
            (date, event) for date, event in dated if span.first - DATED_OFF <= date < span.last + DATED_OFF
        ]
        events += _new(near, events)
        report_progress(progress, "steps", number, len(spans))
    return [event for _, event in events]


def _first_seen(event: FoundEvent) -> int:
    return next((n for n, one in enumerate(event.sightings) if one.state == "seen"), 0)


def _new(
    found: list[tuple[int, FoundEvent]], known: list[tuple[int, FoundEvent]]
) -> list[tuple[int, FoundEvent]]:
    """Return the events that no span before has found."""
    tree = STRtree([event.geometry for _, event in known])

    def is_known(date: int, event: FoundEvent) -> bool:
        shape = event.geometry
        for index in tree.query(shape, predicate="intersects"):
            when, other = known[index]
            least = SAME * min(shape.area, other.geometry.area)
            if abs(when - date) <= 2 * DATED_OFF and shape.intersection(other.geometry).area >= least:
                return True
        return False

    return [(date, event) for date, event in found if not is_known(date, event)]
