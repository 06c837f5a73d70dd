"""The tables of a monitor: events, and what each scene says about each event."""

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa

from workflows.dates import PartialDate
from workflows.monitor.view import Event
from workflows.report.formats.geopackage import Layer, write_geopackage
from workflows.report.formats.parquet import BBOX, GEOMETRY, Row, write_changes
from workflows.report.formats.writing import batches
from workflows.report.geojson import CRS, json_text
from workflows.report.qgis import file_text

_TEXTS = ("place", "site", "state", "kind", "direction", "caption")
_DATES = ("last_absent", "first_seen", "confirmed_on", "last_seen", "ended_on")
EVENTS = pa.schema(
    {
        **dict.fromkeys(("event_id", *_TEXTS, *_DATES), pa.string()),
        **dict.fromkeys(("seen", "usable"), pa.int64()),
        "probability": pa.float64(),
        "count": pa.int64(),
        "area_m2": pa.float64(),
        # JSON: most formats have no lists.
        **dict.fromkeys(("grew_on", "split_from", "merged_into", "context", "facts"), pa.string()),
        **dict.fromkeys(("start", "end"), pa.date32()),
        GEOMETRY: pa.binary(),
    }
)
OBSERVATIONS = pa.schema(
    {
        **dict.fromkeys(("event_id", "place", "scene", "date", "observed"), pa.string()),
        "probability": pa.float64(),
        "area_m2": pa.float64(),
        "count": pa.int64(),
        "day": pa.date32(),
        GEOMETRY: pa.binary(),
    }
)


def event_rows(events: Sequence[Event]) -> Iterator[Row]:
    """Yield a row of :data:`EVENTS` for each event, its geometry as a shape."""
    for event in events:
        row = event.properties()
        days = {name: date.fromisoformat(row[name]) if row[name] else None for name in ("start", "end")}
        nested = {name: json_text(value) for name, value in row.items() if isinstance(value, list | dict)}
        yield {**row, **nested, **days, GEOMETRY: event.found.geometry}


def observation_rows(events: Sequence[Event]) -> Iterator[Row]:
    """Yield a row of :data:`OBSERVATIONS` for each event and scene, in order of date."""
    for event in events:
        for one in event.sightings:
            day = event.dates[one.scene]
            yield {
                "event_id": event.id,
                "place": event.place,
                "scene": one.scene,
                "date": day,
                "observed": one.state,
                "probability": None if one.probability is None else round(one.probability, 4),
                "area_m2": None if one.area_m2 is None else round(one.area_m2, 2),
                "count": one.count,
                "day": PartialDate(day).first,
                GEOMETRY: event.found.geometry,
            }


def write_tables(folder: Path, events: Sequence[Event]) -> None:
    """Write ``events.gpkg``, ``events.parquet`` and ``observations.parquet`` into a folder."""
    tables = {"events": (EVENTS, event_rows), "observations": (OBSERVATIONS, observation_rows)}
    for name, (schema, rows) in tables.items():
        write_changes(
            folder / f"{name}.parquet", rows(events), lambda: None, schema.append(pa.field("bbox", BBOX))
        )
    about = {"events": "Events", "observations": "What each scene says about each event"}
    styles = {"events": file_text("events.qml")}
    layers = [
        Layer(name, schema, batches(schema, rows(events)), about[name], styles.get(name))
        for name, (schema, rows) in tables.items()
    ]
    write_geopackage(folder / "events.gpkg", layers, crs=CRS, record=None)
