"""Long series in spans of time: every date is searched once, and events of two spans are one."""

import numpy as np
import pytest
from shapely.geometry import MultiPolygon, box

from workflows.monitor.events import FoundEvent, Series, Sighting
from workflows.monitor.step.spans import MARGIN, SPAN, find_in_spans, spans_of


class Scene:
    def __init__(self, number):
        self.name, self.number = f"{number:04}", number


def series_of(count):
    return Series("town", None, tuple(Scene(number) for number in range(count)))


def finder(steps, spans, off=0):
    """Find the steps at some dates in the middle of a span, dated ``off`` too late and too early by turns."""

    def find(series, progress):
        numbers = [scene.number for scene in series.scenes]
        spans.append(len(numbers))
        late = off * (-1) ** len(spans)
        return [
            FoundEvent(
                MultiPolygon([box(step, 0, step + 0.5, 1)]),
                "bare_ground",
                "appeared",
                tuple(Sighting(f"{n:04}", "seen" if n >= step + late else "absent") for n in numbers),
                0.9,
                None,
                1.0,
            )
            for step in steps
            if numbers[1] < step + late < numbers[-1]
        ]

    return find


@pytest.mark.parametrize("count", [1, SPAN, SPAN + 1, 300, 1000])
def test_every_date_is_searched_once_with_dates_around_it(count):
    spans = list(spans_of(count))
    assert np.array_equal(np.concatenate([np.arange(s.first, s.last) for s in spans]), np.arange(count))
    assert all(s.stop - s.start <= SPAN for s in spans)
    assert all(s.first - s.start >= MARGIN for s in spans[1:])
    assert all(s.stop - s.last >= MARGIN for s in spans[:-1])


@pytest.mark.parametrize("off", [0, 2, -2])
def test_each_event_of_a_long_series_is_found_once(off):
    steps, spans = [20, 60, 129, 130, 131, 228, 230, 350, 996], []
    events = find_in_spans(series_of(1000), finder(steps, spans, off))
    assert sorted(event.geometry.bounds[0] for event in events) == steps
    assert max(spans) == SPAN and len(spans) < 12
    assert all(len(event.sightings) <= SPAN for event in events)


def test_a_series_of_one_span_is_searched_as_it_is():
    series, spans = series_of(SPAN), []
    assert len(find_in_spans(series, finder([3, 150], spans))) == 2
    assert spans == [SPAN]
