"""The command ``rscc monitor``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workflows.cli.options import DeviceOption, argument, option, takes_options
from workflows.cli.terminal import Terminal
from workflows.monitor.options import MonitorOptions
from workflows.printable import counted, printable_lines

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from workflows.monitor.monitor import Monitor

NEW_CONFIRMED = 4
"""Exit code: an event was confirmed that was not confirmed before."""
INCOMPLETE = 3
"""Exit code: some places could not be updated."""
STATES = ("confirmed", "ended", "candidate", "dropped")
MOST_STORIES = 20
"""Stories that the summary prints."""


@takes_options(
    MonitorOptions,
    *("confirm", "model", "context", "bands", "band_names", "scale", "force"),
    *("first_date", "last_date", "max_cloud", "min_overlap", "match", "glob", "assets"),
    *("collections", "bounds", "offline", "allow_hosts"),
)
def monitor(
    session: typer.Context,
    output: Annotated[
        Path, option("Folder of the monitor, new or to continue", "DIR", "--out", "-o", panel="Output")
    ],
    options: MonitorOptions,
    scenes: Annotated[
        list[str] | None,
        argument(
            "SCENES", "Dated scenes: files, folders, tables of pairs, archives, or STAC as for rscc pairs"
        ),
    ] = None,
    since: Annotated[
        str | None, option("Also print what changed since this day, month or year", "DATE", panel="Output")
    ] = None,
    feed: Annotated[
        Path | None, option("Write an Atom feed of confirmed and ended events", "FILE", panel="Output")
    ] = None,
    notify: Annotated[
        str | None,
        option(
            "Send a CloudEvents notice of each change of state to a file or address",
            "FILE|URL",
            panel="Output",
        ),
    ] = None,
    device: DeviceOption = "auto",
    *,
    terminal: Terminal,
) -> None:
    """Follow places over time: find events in dated scenes, and keep their history in DIR.

    The same command takes new scenes, in any order; it can run from cron. Exit code 4 says that an event was
    confirmed, 0 that none was, 3 that a place could not be updated.
    """
    from workflows.dates import parse_date
    from workflows.monitor.monitor import run_monitor

    if since is not None:
        parse_date(since)

    def load() -> Captioner:
        # The attribute imports torch, which a run without new scenes does not need.
        captioner: Captioner = session.obj.load_captioner(options.model, device)
        return captioner

    with terminal.progress() as update:
        result = run_monitor(scenes or [], output, options, load, update, feed=feed, notify=notify)
    done = result.done
    terminal.warn(*done.warnings, *(f"{place}: {why}" for place, why in done.failed.items()))
    terminal.result(_summary(result, since), _facts(result, since))
    if done.failed:
        raise typer.Exit(INCOMPLETE)
    if done.confirmed:
        raise typer.Exit(NEW_CONFIRMED)


def _summary(result: Monitor, since: str | None) -> str:
    done = result.done
    scenes, places = counted(done.scenes, "scene"), counted(done.places, "place")
    lines = [f"{counted(done.new_scenes, 'new scene')}; {scenes} of {places} in {result.path}"]
    states = Counter(one.state for news in done.news.values() for one in news)
    new = ", ".join(f"{states[state]} {state}" for state in STATES if states[state])
    lines.append(f"events   {new or 'none new'}")
    stories = result.stories()
    lines += ["", *stories[:MOST_STORIES]]
    if len(stories) > MOST_STORIES:
        lines.append(f"{len(stories) - MOST_STORIES:,} more in {result.path / 'events.geojson'}")
    waiting = sum(event.state == "candidate" for event in result.all_events)
    if waiting:
        lines.append(f"{counted(waiting, 'event')} not confirmed yet")
    if since is not None:
        changed = result.since(since)
        lines += ["", f"since {since}: {counted(len(changed), 'event')}"]
        lines += [f"{event.id}  {event.state}  {event.caption}" for event in changed]
    return printable_lines(lines)


def state_of(path: Path) -> dict[str, Any]:
    """Return the state of a monitor as plain values; nothing is written."""
    from workflows.monitor.monitor import Monitor

    places = []
    for view in Monitor(path).places:
        dates = [scene.date for scene in view.place.scenes]
        states = Counter(event.state for event in view.events)
        places.append(
            {
                "place": view.place.name,
                "scenes": len(dates),
                "first_date": min(dates, default=None),
                "last_date": max(dates, default=None),
                "states": {state: states[state] for state in STATES},
            }
        )
    return {"monitor": str(path), "places": places}


def state_text(state: dict[str, Any]) -> str:
    """Return the state of a monitor, a line for each place."""
    lines = [f"{counted(len(state['places']), 'place')} in {state['monitor']}"]
    for place in state["places"]:
        span = f"{place['first_date']} to {place['last_date']}"
        states = ", ".join(f"{count} {name}" for name, count in place["states"].items() if count)
        lines.append(
            f"{place['place']}  {counted(place['scenes'], 'scene')}, {span}: {states or 'no events'}"
        )
    return printable_lines(lines)


def _facts(result: Monitor, since: str | None) -> dict[str, Any]:
    from workflows.monitor.run import as_facts

    done = result.done
    facts: dict[str, Any] = {
        "output": str(result.path),
        "new_scenes": done.new_scenes,
        "scenes": done.scenes,
        "places": done.places,
        "confirmed": done.confirmed,
        "news": as_facts(done.news),
        "events": len([event for event in result.all_events if event.state != "dropped"]),
        "stories": result.stories(),
        "failed": done.failed,
        "warnings": done.warnings,
    }
    if since is not None:
        facts["since"] = [event.properties() for event in result.since(since)]
    return facts
