"""Write the outputs of a monitor; those that are up to date stay as they are."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rscc.files import atomic_write, temporary_folder
from workflows.archive.folder import writing
from workflows.files import holds_bytes
from workflows.monitor.folder import MonitorFolder
from workflows.monitor.options import MonitorOptions
from workflows.monitor.outputs.page import index_lines, write_place_page
from workflows.monitor.outputs.pictures import make_pictures
from workflows.monitor.outputs.project import write_project
from workflows.monitor.outputs.stac import catalog_lines, item_lines
from workflows.monitor.view import Event, PlaceView
from workflows.report.geojson import collection_bbox, geometry_member, json_lines, rounded
from workflows.report.record import hash_of

VERSION = 3
"""To be raised when the same events are to give other outputs."""
PAGE, PROJECT, CATALOG, INDEX = "events.html", "events.qgz", "catalog.json", "index.html"
_THREADS = 8  # that wait for the disk
TABLES = ("events.gpkg", "events.parquet", "observations.parquet")


def write_outputs(folder: MonitorFolder, places: Sequence[PlaceView], options: MonitorOptions) -> None:
    """Write all outputs of a monitor; only under its lock.

    ``events.geojson`` comes last: while it has the digest of the state, all others are up to date.
    """
    events = [event for view in places for event in view.events]
    about = {"rscc:digest": hash_of([VERSION, list(map(_state_of, events))])}
    lines = list(layer_lines(events, about))
    layer = folder.path / "events.geojson"
    if holds(layer, lines) and all((folder.path / name).is_file() for name in (*TABLES, PROJECT, CATALOG)):
        return
    for view in places:
        own = folder.place(view.place.name)
        write_if_new(own / layer.name, layer_lines(view.events))
        _write_items(own / "items", view)
        make_pictures(own, view.place, options)
        write_place_page(view, own, own / PAGE)
    _write_tables(folder.path, events)
    write_project(folder.path / PROJECT, places)
    write_if_new(folder.path / CATALOG, catalog_lines(places))
    if len(places) > 1:
        write_if_new(folder.path / INDEX, index_lines(places))
    write_if_new(layer, lines)


def layer_lines(events: Sequence[Event], about: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Yield the text of a GeoJSON layer, one event a line; ``about`` has further members of it."""
    bbox = collection_bbox(event.found.geometry for event in events)
    head = {"type": "FeatureCollection", **(about or {}), **({"bbox": bbox} if bbox else {})}
    features = (
        {
            "type": "Feature",
            "id": event.id,
            "geometry": geometry_member(rounded(event.found.geometry)),
            "properties": event.properties(),
        }
        for event in events
    )
    return json_lines(head, features)


def _state_of(event: Event) -> list[Any]:
    return [event.properties(), [[*vars(one).values(), event.dates[one.scene]] for one in event.sightings]]


def _write_items(folder: Path, view: PlaceView) -> None:
    with writing(folder):
        folder.mkdir(exist_ok=True)

    def write(event: Event) -> None:
        write_if_new(folder / f"{event.stored.number}.json", item_lines(event))

    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(write, view.events))


def _write_tables(folder: Path, events: Sequence[Event]) -> None:
    # pyogrio brings pandas, which takes longer than a run that finds nothing to do.
    from workflows.monitor.outputs.tables import write_tables

    with writing(folder), temporary_folder(folder) as draft:
        write_tables(draft, events)
        for name in TABLES:
            os.replace(draft / name, folder / name)


def holds(path: Path, lines: Iterable[str]) -> bool:
    """Return whether a plain file holds exactly this text."""
    return not path.is_symlink() and holds_bytes(path, "".join(lines).encode())


def write_if_new(path: Path, lines: Iterable[str]) -> None:
    """Write a text unless the file holds it already; raises OutputNotWritable."""
    content = list(lines)
    with writing(path):
        if not holds(path, content):
            with atomic_write(path) as (draft,):
                draft.write_text("".join(content), "utf-8")
