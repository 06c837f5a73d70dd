"""Update a monitor: new scenes in, events with their histories out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from tiling import SceneDamaged, SceneInfo, TilingError
from workflows.archive.folder import writing
from workflows.errors import NoScenes, TooCoarse, WorkflowError
from workflows.monitor.discovery import Found
from workflows.monitor.events import FoundEvent, Series
from workflows.monitor.folder import MonitorFolder, read_state, write_state
from workflows.monitor.history import history_of
from workflows.monitor.matching import continue_events
from workflows.monitor.options import MonitorOptions
from workflows.monitor.places import FINE, NAME, Place, add_scenes, read_places
from workflows.monitor.stored import News, PlaceEvents, StoredEvent, read_events, write_context, write_events
from workflows.pairs.catalog import skip_warnings
from workflows.progress import Progress, report_progress
from workflows.report.context import ContextLayers
from workflows.report.record import hash_of
from workflows.scene.resolution import TOLERANCE
from workflows.scenes import bounded_cache

if TYPE_CHECKING:
    from rscc.captioner import Captioner

Finder = Callable[[Series, MonitorOptions, Progress | None], list[FoundEvent]]
COARSEST = 40.0
"""Metres per pixel above which no finder serves."""


@dataclass
class Update:
    """What one run did.

    Attributes:
        new_scenes: scenes that were not known before.
        scenes, places: all that are known now.
        news: changes of state since the last run that ended, by place.
        failed: places that could not be updated, with the reason; they are as they were.
        opened: as :class:`workflows.monitor.places.Place` has it, of all places.
    """

    new_scenes: int = 0
    scenes: int = 0
    places: int = 0
    news: dict[str, list[News]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    opened: dict[str, str | SceneInfo] = field(default_factory=dict, repr=False)

    @property
    def confirmed(self) -> int:
        """The number of events that were confirmed."""
        return sum(one.state == "confirmed" for news in self.news.values() for one in news)


def update_monitor(
    folder: MonitorFolder,
    found: Found,
    options: MonitorOptions,
    load_captioner: Callable[[], Captioner],
    progress: Progress | None = None,
    finder: Finder | None = None,
    layers: ContextLayers | None = None,
) -> Update:
    """Add scenes to a monitor, and bring its state up to date; its outputs are written by the caller.

    Args:
        folder: created, and locked by the caller.
        found: dated scenes, known ones too; without any, only unfinished work is done.
        load_captioner: called once, where scenes show single objects.
        progress: called with the stage ``scenes`` or ``items``, ``places``, and those of the finders.
        finder: in place of the one that suits the pixel size.
        layers: of areas that events are compared with.

    Raises:
        MonitorDamaged, OutputNotWritable: the state cannot be read or written.
        NoScenes: there are scenes, but not one of them was ever readable.
    """
    result, places = Update(), read_places(folder)
    result.warnings += [*found.warnings, *skip_warnings(found.skipped)]
    known = {place.name: place.as_dict() for place in places}
    with bounded_cache():
        left_out = list(add_scenes(places, found.scenes, options))
    if left_out and not places:
        raise NoScenes(f"no scene can be used; {left_out[0]}")
    result.warnings += left_out
    new: dict[str, set[str]] = {}
    for place in places:
        before = known.get(place.name)
        if place.as_dict() == before:
            continue
        stored = before["scenes"] if before else []
        keys, names = ({scene[name] for scene in stored} for name in ("key", "name"))
        result.new_scenes += sum(scene.key not in keys for scene in place.scenes)
        new[place.name] = {scene.source for scene in place.scenes if scene.name not in names}
        with writing(folder.place(place.name)):
            folder.place(place.name).mkdir(exist_ok=True)
        write_state(folder.place(place.name) / NAME, place.as_dict())
    find = finder or partial(find_events, load_captioner=cache(load_captioner))
    for number, place in enumerate(places, start=1):
        own = folder.place(place.name)
        try:
            with bounded_cache():
                update = partial(update_place, own, place, options, find, progress, found.maps)
                for warning in _without_damaged(own, place, new.get(place.name, set()), update):
                    result.warnings.append(warning)
                    result.new_scenes -= 1
        except (TilingError, WorkflowError) as error:
            result.failed[place.name] = str(error)
        if layers:
            write_context(own, read_events(own), layers)
        result.opened |= place.opened
        report_progress(progress, "places", number, len(places))
    result.scenes, result.places = sum(len(place.scenes) for place in places), len(places)
    return result


def _without_damaged(
    folder: Path, place: Place, new: Collection[str], update: Callable[[], None]
) -> Iterator[str]:
    """Update a place; a new scene whose pixels cannot be decoded is left out, as one without a header.

    A known scene that was damaged since is not: without it the state would change, by no evidence. Yields a
    warning for each; raises as :func:`update_place`.
    """
    while True:
        try:
            return update()
        except SceneDamaged as error:
            if error.scene not in new:
                raise
            place.scenes = [scene for scene in place.scenes if scene.source != error.scene]
            write_state(folder / NAME, place.as_dict())
            yield f"{error} (left out)"


def update_place(
    folder: Path,
    place: Place,
    options: MonitorOptions,
    find: Finder,
    progress: Progress | None = None,
    archived: Mapping[str, Path] | None = None,
) -> None:
    """Find the events of a place again, unless they were made of the same scenes and options.

    ``archived`` as :class:`workflows.monitor.events.Series` has it.

    Raises:
        TilingError, WorkflowError: a scene cannot be read, or no finder serves; nothing was changed.
    """
    stored = read_events(folder)
    settings = {name: getattr(options, name) for name in ("bands", "band_names", "scale", "force", "model")}
    scenes = [(scene.key, scene.name, scene.date) for scene in place.scenes]
    made_of = hash_of([scenes, settings])
    if (made_of, options.confirm) == (stored.made_of, stored.confirm):
        return
    maps = folder / "maps"
    with writing(maps):
        maps.mkdir(exist_ok=True)
    series = replace(place.series(maps, options), archived=archived or {})
    found = find(series, options, progress)
    events = tuple(continue_events(found, stored.events, place.dates))
    news = _news(stored, events, place.dates, options.confirm)
    write_events(folder, PlaceEvents(made_of, options.confirm, events, (*stored.news, *news)))


def find_events(
    series: Series,
    options: MonitorOptions,
    progress: Progress | None,
    load_captioner: Callable[[], Captioner],
) -> list[FoundEvent]:
    """Return the events of a series by the finder that suits its pixel size.

    Raises:
        TooCoarse: its pixels are too coarse for any finder.
    """
    if len(series.scenes) < 2:
        return []
    coarsest = max((scene.info for scene in series.scenes), key=lambda info: info.gsd)
    if coarsest.gsd > COARSEST * TOLERANCE and not options.force:
        raise TooCoarse(
            f"{coarsest.path}: {coarsest.gsd:.3g} m per pixel is coarser than the {COARSEST:g} m up to "
            "which a place can be monitored; --force tries all the same"
        )
    if coarsest.gsd > FINE:
        from workflows.monitor.step.spans import find_in_spans
        from workflows.monitor.steps import find_steps

        return find_in_spans(series, lambda span, told: find_steps(span, options, told), progress)
    from workflows.monitor.stacks import find_objects

    return find_objects(series, options, load_captioner(), progress)


def _news(
    stored: PlaceEvents, events: Sequence[StoredEvent], dates: dict[str, str], confirm: int
) -> list[News]:
    """Return the changes of state, in the order of the events' numbers."""
    was = {one.event: one.state for one in stored.news}
    news = []
    for event in events:
        history = history_of([one for one in event.found.sightings if one.scene in dates], dates, confirm)
        state = history.state if event.live else "dropped"
        if state == was.get(event.number):
            continue
        turn = history.turns[-1] if history.turns and event.live else None
        date, scene = (turn.date, turn.scene) if turn else (None, None)
        news.append(News(event.number, state, was.get(event.number), date, scene))
    return news


def take_news(folder: MonitorFolder, target: str) -> tuple[dict[str, list[News]], dict[str, int]]:
    """Return by place the changes of state that ``target`` was not told yet, and how many it was told."""
    told: dict[str, int] = read_state(folder.told, dict, {}).get(target, {})
    fresh = {
        name: list(read_events(folder.place(name)).news[told.get(name, 0) :]) for name in folder.place_names()
    }
    return {name: news for name, news in fresh.items() if news}, told


def mark_told(folder: MonitorFolder, target: str) -> None:
    """Note that ``target`` was told everything that is known now; only under the lock.

    It is noted after the telling: a run killed in between tells again, and tells nothing too little.
    """
    told = read_state(folder.told, dict, {})
    counts = {name: len(read_events(folder.place(name)).news) for name in folder.place_names()}
    if told.get(target) != counts:
        write_state(folder.told, {**told, target: counts})


def as_facts(news: dict[str, list[News]]) -> list[dict[str, object]]:
    """Return changes of state as plain values."""
    return [
        {**asdict(one), "place": place, "event": f"{place}-{one.event}"}
        for place, ones in news.items()
        for one in ones
    ]
