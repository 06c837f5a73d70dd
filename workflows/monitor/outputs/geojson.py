"""Write events as GeoJSON: a layer for each place, and one of all places."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workflows.monitor.view import Event
from workflows.report.geojson import collection_bbox, geometry_member, rounded
from workflows.report.report import collection_lines


def feature_of(event: Event) -> dict[str, Any]:
    """Return the GeoJSON feature of an event; its id is a member of the feature too."""
    return {
        "type": "Feature",
        "id": event.id,
        "geometry": geometry_member(rounded(event.found.geometry)),
        "properties": event.properties(),
    }


def layer_lines(events: Sequence[Event], about: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Yield the text of a layer, one event a line; ``about`` are further members of the collection."""
    bbox = collection_bbox(event.found.geometry for event in events)
    head = {"type": "FeatureCollection", **(about or {}), **({"bbox": bbox} if bbox else {})}
    return collection_lines(head, map(feature_of, events))
