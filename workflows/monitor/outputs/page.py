"""Write the events of a place as one HTML file: a map with a date slider, strips of pictures, a chart.

The places of a monitor are listed on a page of their own.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rscc.text.map_sentences import sentence_case
from tiling import Frame
from workflows.dates import PartialDate
from workflows.files import write_together
from workflows.monitor.outputs.pictures import frame_of, read_pictures
from workflows.monitor.view import Event, PlaceView, story_of
from workflows.monitor.words import clause_of, date_words
from workflows.printable import counted, printable
from workflows.report.page.content import rings_of
from workflows.report.page.imagery import data_address
from workflows.report.page.template import Template, data_text, legible
from workflows.report.scenes import STEPS, in_pixels

_TEMPLATE = Template(
    "events.html",
    ("page.css", "events.css"),
    ("base.js", "events.js", "view.js", "pointer.js", "rows.js", "timeline.js", "history.js"),
)
_PLACES = Template("places.html", ("page.css", "places.css"), ())
MOST_STORIES = 5
"""Stories of a place that the list of places shows."""
_STATES = ("confirmed", "ended", "candidate")
_LEFT_OUT = ("place", "direction", "start", "end", "facts", "site")
_LETTERS = {"seen": "s", "absent": "a", "hidden": "h"}


def write_place_page(view: PlaceView, folder: Path, path: Path) -> None:
    """Write the page of a place."""
    frame = frame_of(view.place)
    pictures = read_pictures(folder, view.place.scenes)
    shown = [None if one is None else data_address(one) for one in pictures]
    texts = data_text(legible(_content(view, frame)))
    write_together({path: list(_TEMPLATE.joined(data=texts, imagery=data_text(shown)))})


def _content(view: PlaceView, frame: Frame) -> dict[str, Any]:
    events = [event for event in view.events if event.state != "dropped" and event.history.first_seen]
    places = {scene.name: number for number, scene in enumerate(view.place.scenes)}
    outlines = in_pixels([event.found.geometry for event in events], frame) if events else []
    return {
        "name": view.place.name,
        "width": frame.grid.width,
        "height": frame.grid.height,
        "gsd": round(float(frame.grid.gsd), 4),
        "steps": STEPS,
        "scenes": [
            {"name": scene.name, "date": scene.date, "words": date_words(scene.date)}
            for scene in view.place.scenes
        ],
        "stories": [story_of(site) for site in view.sure_sites],
        "dropped": sum(event.state == "dropped" for event in view.events),
        "events": [
            _event(event, outline, frame, places) for event, outline in zip(events, outlines, strict=True)
        ],
    }


def _event(event: Event, outline: Any, frame: Frame, places: dict[str, int]) -> dict[str, Any]:
    seen = [one.scene for one in event.sightings if one.state == "seen"]
    begun = next(places[name] for name in seen if event.dates[name] == event.history.first_seen)
    # It was gone at the first scene without it, and not only when that was certain.
    ended = 1 + max(map(places.__getitem__, seen)) if event.history.ended_on is not None else None
    center = event.found.geometry.representative_point()
    return {
        **{name: value for name, value in event.properties().items() if name not in _LEFT_OUT},
        "change": event.found.direction,
        "label": sentence_case(clause_of(event.found)),
        "begun": begun,
        "ended": ended,
        "sightings": "".join(_LETTERS[one.state] for one in event.sightings),
        "areas": [one.area_m2 for one in event.sightings],
        "counts": [one.count for one in event.sightings],
        "lon": round(center.x, 6),
        "lat": round(center.y, 6),
        "rings": rings_of(outline, frame.focus),
    }


def index_lines(places: Sequence[PlaceView]) -> Iterator[str]:
    """Yield the page that lists the places of a monitor, those with the latest change first.

    Its links are relative to the folder of the monitor.
    """
    ordered = sorted(places, key=lambda view: (-_latest(view), view.place.name))
    scenes = sum(len(view.place.scenes) for view in places)
    counts = f"{counted(len(places), 'place')}, {counted(scenes, 'scene')}"
    yield from _PLACES.joined(places="\n".join(map(_place_item, ordered)), counts=counts)


def _latest(view: PlaceView) -> float:
    """Return when the state of an event of a place changed last, in days; 0 where none did."""
    turns = (turn for event in view.events if event.state != "dropped" for turn in event.history.turns)
    return max((PartialDate(turn.date).ordinal for turn in turns), default=0.0)


def _place_item(view: PlaceView) -> str:
    name, dates = view.place.name, [scene.date for scene in view.place.scenes]
    states = Counter(event.state for event in view.events)
    events = ", ".join(f"{states[state]} {state}" for state in _STATES if states[state]) or "no events"
    span = f"{date_words(dates[0])} to {date_words(dates[-1])}" if dates else "no scenes"
    # The latest sites first: they are what somebody who comes back looks for.
    sure = sorted(view.sure_sites, key=lambda site: site[-1].history.first_seen or "", reverse=True)
    stories = [story_of(site) for site in sure[:MOST_STORIES]]
    if len(sure) > MOST_STORIES:
        stories.append(f"{len(sure) - MOST_STORIES:,} more on its page")
    listed = "".join(f"<li>{escape(printable(story))}</li>" for story in stories)
    link = escape(f"places/{quote(name)}/events.html")
    return (
        f'<li><a href="{link}">{escape(printable(name))}</a>'
        f"<p>{counted(len(dates), 'scene')}, {span}: {events}</p><ul>{listed}</ul></li>"
    )
