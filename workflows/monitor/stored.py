"""The events of a place as they are stored: with ids that last, and their lineage."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shapely.geometry import MultiPolygon, shape

from workflows.monitor.events import FoundEvent, Sighting
from workflows.monitor.folder import read_state, write_state
from workflows.report.context import ContextLayers, Overlap
from workflows.report.geojson import geometry_member, parts_of, rounded

NAME, CONTEXT = "events.json", "context.json"


@dataclass(frozen=True)
class StoredEvent:
    """An event with its id.

    Attributes:
        number: 1..n in its place, in the order in which events were found; never used again.
        found: what the finder returned, of the last run that found it.
        live: the last run found it; the others were withdrawn by later evidence.
        split_from: numbers of the events of which it was a part.
        merged_into: numbers of the events that hold it now.
    """

    number: int
    found: FoundEvent
    live: bool = True
    split_from: tuple[int, ...] = ()
    merged_into: tuple[int, ...] = ()


@dataclass(frozen=True)
class News:
    """A change of state that a run found.

    Attributes:
        state: its new state; ``was``: the one before, None for a new event.
        date: date of the scene that gave the evidence; ``scene``: its name.
    """

    event: int
    state: str
    was: str | None
    date: str | None
    scene: str | None


@dataclass(frozen=True)
class PlaceEvents:
    """Everything that is stored of the events of a place.

    Attributes:
        made_of: digest of the scenes and options that they were made of; empty before the first run.
        events: in order of their numbers.
        news: all changes of state, in the order in which they were found.
    """

    made_of: str = ""
    confirm: int = 2
    events: tuple[StoredEvent, ...] = ()
    news: tuple[News, ...] = ()


def read_events(folder: Path) -> PlaceEvents:
    """Return the events stored in the folder of a place; none before the first run."""
    found: PlaceEvents = read_state(folder / NAME, _place_events, PlaceEvents())
    return found


def write_events(folder: Path, stored: PlaceEvents) -> None:
    """Store the events of a place; raises OutputNotWritable."""
    content = {
        **vars(stored),
        "events": [_written(event) for event in stored.events],
        "news": [vars(news) for news in stored.news],
    }
    write_state(folder / NAME, content)


def read_context(folder: Path) -> dict[int, tuple[Overlap, ...]]:
    """Return the context areas of the events of a place, by their numbers; those of the last run with any."""

    def parse(content: Mapping[str, Any]) -> dict[int, tuple[Overlap, ...]]:
        return {int(number): tuple(Overlap(**one) for one in ones) for number, ones in content.items()}

    found: dict[int, tuple[Overlap, ...]] = read_state(folder / CONTEXT, parse, {})
    return found


def write_context(folder: Path, stored: PlaceEvents, layers: ContextLayers) -> None:
    """Store the areas of context layers that the events of a place overlap; raises OutputNotWritable."""
    found = {one.number: layers.overlaps(one.found.geometry) for one in stored.events}
    if found != read_context(folder):
        write_state(
            folder / CONTEXT, {str(number): [vars(one) for one in ones] for number, ones in found.items()}
        )


def stable(found: FoundEvent) -> FoundEvent:
    """Return an event as it will be read again: its outline rounded to 7 decimals."""
    return replace(found, geometry=MultiPolygon(parts_of(rounded(found.geometry))))


def _written(event: StoredEvent) -> dict[str, Any]:
    found = {
        **vars(event.found),
        "geometry": geometry_member(event.found.geometry),
        "sightings": [list(vars(one).values()) for one in event.found.sightings],
        "facts": dict(event.found.facts),
    }
    return {**vars(event), "found": found}


def _place_events(content: Mapping[str, Any]) -> PlaceEvents:
    return PlaceEvents(
        made_of=str(content["made_of"]),
        confirm=int(content["confirm"]),
        events=tuple(map(_event, content["events"])),
        news=tuple(News(**news) for news in content["news"]),
    )


def _event(content: Mapping[str, Any]) -> StoredEvent:
    found = content["found"]
    own = {
        **found,
        "geometry": MultiPolygon(parts_of(shape(found["geometry"]))),
        "sightings": tuple(Sighting(*one) for one in found["sightings"]),
        "growth": tuple(found["growth"]),
    }
    lineage = {name: tuple(content[name]) for name in ("split_from", "merged_into")}
    return StoredEvent(int(content["number"]), FoundEvent(**own), bool(content["live"]), **lineage)
