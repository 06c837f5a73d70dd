"""One pair of scenes from end to end: tiles, change map, polygons, words, report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from tiling import NothingValid, ScenePair, TileGrid, describe
from workflows.dates import SceneDate
from workflows.describing import describe_regions
from workflows.detecting import search_area, tile_grid
from workflows.events import Event, Search, in_order, right_angled
from workflows.memory import (
    LOADED,
    Batches,
    MemoryPlan,
    bounded_cache,
    device_of,
    least_cache,
    plan,
    resident_bytes,
)
from workflows.opening import Dates, Infos, open_pair, pair_warnings, scene_dates
from workflows.options import SceneOptions
from workflows.progress import Progress
from workflows.record import (
    grid_record,
    ground_record,
    identity,
    model_record,
    pair_record,
    scene_record,
    settings_record,
    versions,
)
from workflows.refining import open_segmenter, refine_events
from workflows.report import Change, ChangeReport
from workflows.tile_cache import TileCache

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from rscc.structures import Caption
    from rscc.weights import ModelCard


@dataclass(frozen=True)
class OpenRun:
    """A pair of scenes ready to be searched.

    Attributes:
        infos: what the headers of both say.
        dates: when they were taken.
        pair: the scenes.
        scene_grid: all tiles of the pair.
        grid: the tiles to look at.
        memory: how large the parts of the run may grow.
        cache: of the finished rows; None keeps none.
    """

    infos: Infos
    dates: Dates
    pair: ScenePair
    scene_grid: TileGrid
    grid: TileGrid
    memory: MemoryPlan
    cache: TileCache | None


@contextmanager
def open_run(
    before: str | Path,
    after: str | Path,
    captioner: Captioner,
    options: SceneOptions,
    *,
    shared: bool = False,
) -> Iterator[OpenRun]:
    """Open two scenes for a search, the same way whether all of it is wanted or, ``shared``, a part.

    Raises:
        TilingError, TooCoarse, OptionInvalid, MemoryTooSmall, TileCacheBusy, TileCacheUnusable: the run
            cannot begin; the message says why.
    """
    card = captioner.card
    infos = (describe(before), describe(after))
    dates = scene_dates(infos, options)
    # Before the scenes are opened: what GDAL keeps of them from then on is part of the plan.
    held = max(resident_bytes(), LOADED)
    with bounded_cache(least_cache(options.memory)), ExitStack() as stack:
        pair = stack.enter_context(open_pair(infos, card, options))
        scene_grid = tile_grid(pair, card, options)
        grid = tile_grid(pair, card, options, search_area(pair, card, options))
        memory = plan(
            options.memory,
            grid,
            card,
            batch_size=options.batch_size,
            held=held,
            on_cpu=device_of(captioner) == "cpu",
        )
        stack.enter_context(bounded_cache(memory.gdal_cache))
        cache = None
        if options.tile_cache is not None:
            known = identity(pair, grid, captioner, options)
            threshold = options.threshold_for(card)
            cache = stack.enter_context(TileCache(options.tile_cache, known, threshold, shared=shared))
            memory = replace(memory, batch_size=cache.batch_size(memory.batch_size))
        yield OpenRun(infos, dates, pair, scene_grid, grid, memory, cache)


def caption_scene(
    before: str | Path,
    after: str | Path,
    captioner: Captioner,
    options: SceneOptions | None = None,
    progress: Progress | None = None,
) -> ChangeReport:
    """Find what changed between two scenes and say it in words; memory does not grow with the scene.

    ``progress`` is called as ``progress(stage, done, total)`` with the stages ``tiles`` and ``captions``.

    Raises:
        TilingError: a scene cannot be read, or the two cannot be compared; the message names the file.
        TooCoarse: a scene is coarser than the model is meant for, and ``options.force`` is not set.
        RsccError: the model cannot run here.
    """
    options = options or SceneOptions()
    started, clock = datetime.now(UTC), time.perf_counter()
    card = captioner.card
    with open_run(before, after, captioner, options) as opened:
        infos, dates, pair, memory = opened.infos, opened.dates, opened.pair, opened.memory
        scene_grid, grid, cache = opened.scene_grid, opened.grid, opened.cache
        # Before the work: what cannot be loaded is said at once.
        segmenter = options.refine and open_segmenter(options.refine, device_of(captioner))
        search = Search(pair, captioner, options, Batches(memory.batch_size), memory.ahead)
        found = search.run(grid, progress, cache)
        if found.counts["blank"] == len(grid):
            raise NothingValid(
                f"{infos[0].path} and {infos[1].path}: every pixel is nodata on one date or the other"
            )
        refinement = None
        if segmenter:
            found, refinement = refine_events(pair, scene_grid, found, segmenter, options, progress)
        events = found.events
        if options.regularize:
            events = right_angled(pair, events, options.min_area)
        events = in_order(events)
        described = describe_regions(
            pair,
            scene_grid,
            [event.regions for event in events],
            captioner,
            options,
            progress,
            [event.regions for event in found.others],
            sizes=search.sizes,
        )
        names = (PurePath(infos[0].path).name, PurePath(infos[1].path).name)
        changes = [
            _change(number, event, words, card, names, dates)
            for number, (event, words) in enumerate(zip(events, described, strict=True), start=1)
        ]
        run = {
            "inputs": {
                role: scene_record(info, taken)
                for role, info, taken in zip(("before", "after"), infos, dates, strict=True)
            },
            "model": model_record(card),
            "settings": settings_record(options, card),
            "tiling": {**grid_record(pair, grid), **found.counts},
            "ground": ground_record(pair),
            **pair_record(pair),
            "refinement": refinement.as_dict() if refinement else None,
            "memory": memory.as_dict(),
            "resumed_tiles": cache.resumed_tiles if cache else 0,
            "warnings": [*pair_warnings(pair, dates, card), *found.warnings, *search.sizes.warnings],
            "versions": versions(),
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - clock, 2),
        }
    return ChangeReport(changes, run, finished=cache.remove if cache else None)


def _change(
    number: int,
    event: Event,
    words: tuple[Caption, tuple[str, ...]],
    card: ModelCard,
    names: tuple[str, str],
    dates: tuple[SceneDate, SceneDate],
) -> Change:
    caption, alternatives = words
    return Change(
        geometry=event.geometry,
        id=number,
        caption=caption.text,
        alternatives=alternatives,
        score=float(caption.score),
        change_probability=event.probability,
        area_m2=float(event.area_m2),
        date_before=dates[0].value,
        date_after=dates[1].value,
        before=names[0],
        after=names[1],
        model=card.name,
        model_version=card.version,
    )
