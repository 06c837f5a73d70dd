"""Monitor places from Python, as ``rscc monitor`` does."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rscc.folders import DEFAULT_MODEL
from tiling import Access
from workflows.dates import Day, PartialDate, iso_date, parse_date
from workflows.errors import OptionInvalid, in_python, speaks_python
from workflows.identity import short_hash
from workflows.monitor.discovery import Found, find_scenes
from workflows.monitor.folder import MonitorFolder
from workflows.monitor.options import MonitorOptions
from workflows.monitor.outputs.feed import check_feed, write_feed
from workflows.monitor.outputs.notices import check_target, notices_of, send
from workflows.monitor.outputs.write import write_outputs
from workflows.monitor.run import Finder, Update, mark_told, take_news, update_monitor
from workflows.monitor.view import Event, PlaceView, story_of, view_monitor
from workflows.option_fields import texts_of
from workflows.progress import Progress
from workflows.report.context import ContextLayers
from workflows.report.page.template import check_page_name

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

    from rscc.captioner import Captioner

TOLD = "command"
"""Who is told the news of a run by its result."""


@dataclass(frozen=True)
class Monitor:
    """A monitor as it is on disk.

    Attributes:
        path: its folder.
        update: what the run did that made this object; None where it was only opened.
    """

    path: Path
    update: Update | None = field(default=None, repr=False)

    @cached_property
    def places(self) -> list[PlaceView]:
        """Its places, each with its events; read when first used.

        Raises:
            MarkMissing, MonitorDamaged: it cannot be read.
        """
        folder = MonitorFolder(self.path)
        folder.monitor_id()
        return view_monitor(folder)

    @property
    def done(self) -> Update:
        """What the run did that made this object."""
        assert self.update is not None, "it was only opened"
        return self.update

    @property
    def all_events(self) -> list[Event]:
        """The events of all places, dropped ones included."""
        return [event for view in self.places for event in view.events]

    @cached_property
    def events(self) -> GeoDataFrame:
        """All events as a table, see docs/monitor.md; dropped ones included."""
        from workflows.monitor.outputs.tables import EVENTS, event_rows

        return self._frame(EVENTS.names, event_rows(self.all_events))

    @cached_property
    def observations(self) -> GeoDataFrame:
        """What each scene says about each event, as a table."""
        from workflows.monitor.outputs.tables import OBSERVATIONS, observation_rows

        return self._frame(OBSERVATIONS.names, observation_rows(self.all_events))

    def _frame(self, columns: list[str], rows: Iterable[dict[str, Any]]) -> GeoDataFrame:
        from geopandas import GeoDataFrame

        return GeoDataFrame(list(rows), columns=columns, geometry="geometry", crs="EPSG:4326")

    def since(self, date: str) -> list[Event]:
        """Return the events whose state changed at a date or later, by the scenes' dates, in order of time.

        Raises:
            DateInvalid: it is no year, month or day in ISO form.
        """
        first = PartialDate(parse_date(date)).first
        turned = [event for event in self.all_events if event.state != "dropped" and event.history.turns]
        dated = [(PartialDate(event.history.turns[-1].date), event) for event in turned]
        return [event for last, event in sorted(dated, key=lambda one: one[0]) if last.last >= first]

    @speaks_python
    def page(self, path: str | Path, place: str | None = None, overwrite: bool = False) -> Path:
        """Write the page of a place: map, date slider, strips of pictures, chart; return its path.

        Args:
            path: ends with ``.html``.
            place: name of the place; may be left out where there is only one.
            overwrite: replace an existing file.

        Raises:
            OptionInvalid: there is no such place, or several and none is named.
            FormatUnsupported, OutputFolderMissing, OutputExists, OutputNotWritable: it cannot be written.
        """
        from workflows.monitor.outputs.page import write_place_page

        target = check_page_name(path, overwrite)
        names = [view.place.name for view in self.places]
        chosen = names[0] if place is None and len(names) == 1 else place
        if chosen not in names:
            raise OptionInvalid(f"place is {place}; it must be one of {', '.join(names) or 'none'}")
        view = self.places[names.index(chosen)]
        write_place_page(view, MonitorFolder(self.path).place(chosen), target)
        return target

    def stories(self) -> list[str]:
        """Return the story of each site that has a confirmed event, or without any of each site."""
        sites = [site for view in self.places for site in view.sites]
        sure = [[event for event in site if event.state != "candidate"] for site in sites]
        return [story_of(site) for site in list(filter(None, sure)) or sites]


@speaks_python
def monitor(
    scenes: str | Path | Iterable[str | Path],
    out: str | Path,
    *,
    device: str = "auto",
    captioner: Captioner | None = None,
    progress: Progress | None = None,
    feed: str | Path | None = None,
    notify: str | None = None,
    confirm: int = 2,
    model: str = DEFAULT_MODEL,
    context: str | Sequence[str] = (),
    bands: tuple[int | str, int | str, int | str] | None = None,
    band_names: Sequence[str] | None = None,
    scale: tuple[float, float] | Literal["reflectance"] | None = None,
    force: bool = False,
    bbox: tuple[float, float, float, float] | None = None,
    first_date: Day | None = None,
    last_date: Day | None = None,
    max_cloud: float | None = None,
    min_overlap: float = 50.0,
    match: str | None = None,
    glob: str | None = None,
    asset: str | Sequence[str] = (),
    collection: str | Sequence[str] = (),
    offline: bool = False,
    allow_host: str | Sequence[str] | None = None,
) -> Monitor:
    """Add new scenes to a monitor, and bring its events up to date.

    The keywords are the options of the command; ``first_date`` and ``last_date`` are ``--from``, ``--to``.

    Args:
        scenes: dated scenes: files, folders, tables of pairs, archives, STAC; empty only finishes a killed
            run.
        out: folder of the monitor, new or to continue.
        device: see :meth:`rscc.Captioner.load`.
        captioner: a loaded one, in place of ``model`` and ``device``.
        progress: called as ``progress(stage, done, total)``.
        feed: file of an Atom feed of the events.
        notify: file or address for a notice of each change of state, as CloudEvents.

    Warns:
        UserWarning: for each scene that was left out, and each place that could not be updated.

    Raises:
        WorkflowError: the scenes, the options or the folder are wrong; the message names which.
        TilingError: a source cannot be read.
    """
    chosen = MonitorOptions(
        confirm=confirm,
        model=model,
        context=tuple(texts_of(context)),
        bands=bands,
        band_names=None if band_names is None else tuple(band_names),
        scale=scale,
        force=force,
        bounds=bbox,
        first_date=iso_date(first_date),
        last_date=iso_date(last_date),
        max_cloud=max_cloud,
        min_overlap=min_overlap,
        match=match,
        glob=glob,
        assets=tuple(texts_of(asset)),
        collections=tuple(texts_of(collection)),
        offline=offline,
        allow_hosts=None if allow_host is None else tuple(texts_of(allow_host)),
    )
    sources = [str(scenes)] if isinstance(scenes, str | Path) else list(map(str, scenes))

    def load() -> Captioner:
        from rscc.captioner import Captioner

        return captioner or Captioner.load(chosen.model, device=device)

    feed_file = None if feed is None else Path(feed)
    result = run_monitor(sources, out, chosen, load, progress, feed=feed_file, notify=notify)
    for text in (*result.done.warnings, *result.done.failed.values()):
        warnings.warn(in_python(text), stacklevel=3)
    return result


def run_monitor(
    sources: list[str],
    out: str | Path,
    options: MonitorOptions,
    load_captioner: Callable[[], Captioner],
    progress: Progress | None = None,
    finder: Finder | None = None,
    *,
    feed: Path | None = None,
    notify: str | None = None,
) -> Monitor:
    """Do the work of :func:`monitor` under the lock of the folder.

    Raises:
        WorkflowError, TilingError: as :func:`monitor`. What could not be told is told by the next run.
    """
    folder, access = MonitorFolder(out), Access(options.offline)
    # What can be refused is refused before anything is written.
    if feed is not None:
        check_feed(feed, folder.monitor_id() if folder.is_monitor() else None)
    if notify is not None:
        check_target(notify, access)
        if feed is not None and os.path.realpath(feed) == os.path.realpath(notify):
            raise OptionInvalid(f"feed and notify are both {feed}; give two files")
    layers = ContextLayers(options.context)
    if not sources:
        folder.monitor_id()
    found = find_scenes(sources, options, progress) if sources else Found()
    folder.create()
    with folder.lock():
        update = update_monitor(folder, found, options, load_captioner, progress, finder, layers)
        update.news, _ = take_news(folder, TOLD)
        result = Monitor(Path(out), update)
        for view in result.places:
            view.place.opened |= update.opened
        write_outputs(folder, result.places, options)
        if feed is not None:
            write_feed(feed, result.all_events, folder.monitor_id(), folder.path.resolve().name)
        if notify is not None:
            # The address may hold a secret.
            target = f"notify {short_hash(notify)}"
            news, first = take_news(folder, target)
            send(list(notices_of(news, first, result.places, folder.monitor_id())), notify, access)
            mark_told(folder, target)
        mark_told(folder, TOLD)
    return result
