"""Write events as GeoJSON: a layer for each place, and one of all places."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from workflows.monitor.view import Event
from workflows.report.geojson import collection_bbox, geometry_member, joined, json_text, parts_of, rounded


def feature_of(event: Event) -> dict[str, Any]:
    """Return the GeoJSON feature of an event; its id is a member of the feature too."""
    return {
        "type": "Feature",
        "id": event.id,
        "geometry": geometry_member(joined(parts_of(rounded(event.found.geometry)))),
        "properties": event.properties(),
    }


def layer_lines(events: Sequence[Event], about: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Yield the text of a layer, one event a line; ``about`` are further members of the collection."""
    bbox = collection_bbox(event.found.geometry for event in events)
    head = {"type": "FeatureCollection", **(about or {}), **({"bbox": bbox} if bbox else {})}
    yield json_text(head)[:-1] + ', "features": [\n'
    yield from _separated(json_text(feature_of(event)) for event in events)
    yield "\n]}\n"


def _separated(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f",\n{line}" if number else line
