"""Write the page that lists the places of a monitor, those with the latest change first."""

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from urllib.parse import quote

from workflows.dates import PartialDate
from workflows.monitor.view import PlaceView, story_of
from workflows.monitor.words import date_words
from workflows.printable import counted, printable
from workflows.report.page.template import Template

MOST_STORIES = 5
"""Stories of a place that the list shows."""
_STATES = ("confirmed", "ended", "candidate")
_TEMPLATE = Template("places.html", ("page.css", "places.css"), ())


def index_lines(places: Sequence[PlaceView]) -> Iterator[str]:
    """Yield the page; its links lead to the pages of the places, relative to the folder of the monitor."""
    ordered = sorted(places, key=lambda view: (-_latest(view), view.place.name))
    scenes = sum(len(view.place.scenes) for view in places)
    counts = f"{counted(len(places), 'place')}, {counted(scenes, 'scene')}"
    yield from _TEMPLATE.joined(places="\n".join(map(_item, ordered)), counts=counts)


def _latest(view: PlaceView) -> float:
    """Return when the state of an event of a place changed last, in days; 0 where none did."""
    turns = (turn for event in view.events if event.state != "dropped" for turn in event.history.turns)
    return max((PartialDate(turn.date).ordinal for turn in turns), default=0.0)


def _item(view: PlaceView) -> str:
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
