"""STAC 1.1 of a monitor: an item for each event with the version extension, and a catalog of all.

Links are relative, so the folder can be moved or put on a server.
"""

from collections.abc import Iterator, Sequence

from workflows.archive.layers.stac import STAC_VERSION, item_link, linked_lines
from workflows.dates import PartialDate
from workflows.monitor.view import Event, PlaceView
from workflows.report.geojson import bbox_of, geometry_member, json_text, rounded

VERSION = "https://stac-extensions.github.io/version/v1.2.0/schema.json"
_JSON, _GEOJSON = "application/json", "application/geo+json"
_OWN = (
    "place", "site", "state", "kind", "direction", "last_absent", "first_seen", "confirmed_on", "last_seen",
    "ended_on", "seen", "usable", "probability", "count", "area_m2",
)  # fmt: skip


def item_lines(event: Event) -> list[str]:
    """Return the text of an event's item, which lies in ``places/PLACE/items``."""
    own = event.properties()
    links = [{"rel": rel, "href": "../../../catalog.json", "type": _JSON} for rel in ("root", "parent")]
    lineage = {"predecessor-version": event.stored.split_from, "successor-version": event.stored.merged_into}
    for relation, numbers in lineage.items():
        links += [{"rel": relation, "href": f"./{number}.json", "type": _GEOJSON} for number in numbers]
    first, last = _interval(event)
    item = {
        "type": "Feature",
        "stac_version": STAC_VERSION,
        "stac_extensions": [VERSION],
        "id": event.id,
        "geometry": geometry_member(rounded(event.found.geometry)),
        "bbox": list(bbox_of(event.found.geometry)),
        "properties": {
            "title": own["caption"],
            "datetime": None,
            "start_datetime": f"{first}T00:00:00Z",
            "end_datetime": f"{last}T23:59:59Z",
            # Each change of state is a version.
            "version": str(max(1, len(event.history.turns) + (not event.stored.live))),
            "deprecated": event.state == "dropped",
            **{f"rscc:{name}": own[name] for name in _OWN if own[name] is not None},
        },
        "links": links,
        "assets": {
            "events": {"href": "../events.geojson", "type": _GEOJSON, "title": "Events", "roles": ["data"]},
            "page": {"href": "../events.html", "type": "text/html", "title": "Page", "roles": ["overview"]},
        },
    }
    return [json_text(item) + "\n"]


def catalog_lines(places: Sequence[PlaceView]) -> Iterator[str]:
    """Yield the text of the catalog, one item a line."""
    head = {
        "id": "rscc-monitor",
        "title": "Events found by rscc",
        "description": "What happened at places over time, as polygons and sentences: one item per event.",
    }
    return linked_lines(
        head,
        (
            item_link(f"./places/{view.place.name}/items/{event.stored.number}.json")
            for view in places
            for event in view.events
        ),
    )


def _interval(event: Event) -> tuple[str, str]:
    """Return the first and the last day of an event; those of the series where no scene shows it."""
    history = event.history
    known = [history.last_absent, history.first_seen, history.ended_on or history.last_seen]
    dates = [PartialDate(one) for one in filter(None, known)] or list(map(PartialDate, event.dates.values()))
    return min(date.first for date in dates).isoformat(), max(date.last for date in dates).isoformat()
