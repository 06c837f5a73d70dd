"""The events of a monitor as users see them: with their dates, states and sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import shapely

from workflows.dates import PartialDate
from workflows.monitor.events import FoundEvent, Sighting
from workflows.monitor.folder import MonitorFolder
from workflows.monitor.history import History, history_of
from workflows.monitor.places import Place, read_places
from workflows.monitor.stored import StoredEvent, read_context, read_events
from workflows.monitor.words import sentence_of, story_words
from workflows.report.context import Overlap, inside_of


@dataclass(frozen=True)
class Event:
    """One event of a place.

    Attributes:
        site: number of the first event of its site: events that touch over time are of one site.
    """

    place: str
    stored: StoredEvent
    history: History
    site: int
    caption: str
    dates: Mapping[str, str]
    context: tuple[Overlap, ...] = ()

    @property
    def id(self) -> str:
        """Its id in all outputs; it is never given to another event."""
        return f"{self.place}-{self.stored.number}"

    @property
    def state(self) -> str:
        """Its state; an event that later scenes withdrew is dropped."""
        return self.history.state if self.stored.live else "dropped"

    @property
    def found(self) -> FoundEvent:
        """What the finder returned."""
        return self.stored.found

    @property
    def sightings(self) -> list[Sighting]:
        """What each scene says, in order of date."""
        return [one for one in self.found.sightings if one.scene in self.dates]

    def properties(self) -> dict[str, Any]:
        """Return its attributes as plain values, in the order of the outputs."""
        history, found = self.history, self.found
        first, ended = history.first_seen, history.ended_on
        return {
            "event_id": self.id,
            "place": self.place,
            "site": f"{self.place}-{self.site}",
            "state": self.state,
            "kind": found.kind,
            "direction": found.direction,
            "caption": self.caption,
            "last_absent": history.last_absent,
            "first_seen": first,
            "confirmed_on": history.confirmed_on,
            "last_seen": history.last_seen,
            "ended_on": ended,
            "seen": history.seen,
            "usable": history.usable,
            "probability": round(found.probability, 4),
            "count": found.count,
            "area_m2": round(found.area_m2, 2),
            "grew_on": [self.dates[name] for name in found.growth if name in self.dates],
            "split_from": [f"{self.place}-{number}" for number in self.stored.split_from],
            "context": [asdict(one) for one in self.context],
            "merged_into": [f"{self.place}-{number}" for number in self.stored.merged_into],
            # Whole days, by which a GIS shows it at its time.
            "start": None if first is None else PartialDate(first).first.isoformat(),
            "end": None if ended is None else PartialDate(ended).first.isoformat(),
            "facts": dict(found.facts),
        }


@dataclass(frozen=True)
class PlaceView:
    """A place with its events, in order of their numbers."""

    place: Place
    events: tuple[Event, ...]

    @property
    def sites(self) -> list[list[Event]]:
        """The events of each site that were not dropped, in order of time."""
        members: dict[int, list[Event]] = {}
        for event in sorted(self.events, key=_time_of):
            if event.state != "dropped":
                members.setdefault(event.site, []).append(event)
        return [members[number] for number in sorted(members)]

    @property
    def sure_sites(self) -> list[list[Event]]:
        """The sites of which an event is confirmed or ended."""
        return [site for site in self.sites if any(event.state != "candidate" for event in site)]


def _time_of(event: Event) -> float:
    first = event.history.first_seen
    return 0.0 if first is None else PartialDate(first).ordinal


def story_of(site: Sequence[Event]) -> str:
    """Return the story of a site: what happened, in order of time."""
    return story_words([(event.found, event.history) for event in site])


def view_monitor(folder: MonitorFolder) -> list[PlaceView]:
    """Return the places of a monitor with their events; nothing is written."""
    return [_view(place, folder) for place in read_places(folder)]


def _view(place: Place, folder: MonitorFolder) -> PlaceView:
    stored = read_events(folder.place(place.name))
    sites = _sites(stored.events)
    dates, context = place.dates, read_context(folder.place(place.name))
    events = []
    for one in stored.events:
        sightings = [each for each in one.found.sightings if each.scene in dates]
        history = history_of(sightings, dates, stored.confirm)
        around = context.get(one.number, ())
        caption = sentence_of(one.found, history, withdrawn=not one.live, inside=inside_of(around))
        events.append(Event(place.name, one, history, sites[one.number], caption, dates, around))
    return PlaceView(place, tuple(events))


def _sites(events: Sequence[StoredEvent]) -> dict[int, int]:
    """Return the number of the first event of each event's site; dropped events join no other."""
    first = {event.number: event.number for event in events}
    live = [event for event in events if event.live]
    shapes = [event.found.geometry for event in live]
    if not shapes:
        return first
    pairs = shapely.STRtree(shapes).query(shapes, predicate="intersects").T.tolist()

    def root(number: int) -> int:
        while first[number] != number:
            number = first[number]
        return number

    for one, other in pairs:
        low, high = sorted((root(live[one].number), root(live[other].number)))
        first[high] = low
    return {number: root(number) for number in first}
