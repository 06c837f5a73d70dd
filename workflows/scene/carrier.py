"""What one trip over a pair of scenes carries, opened the same way for every job on a pair."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from shapely.geometry import MultiPolygon, Polygon

from rscc.errors import NonFiniteOutput
from rscc.freed_memory import keep_freed_memory
from rscc.model_folder import ModelCard
from tiling import ScenePair, TileGrid, Window
from workflows.dates import scene_date
from workflows.options import SceneOptions
from workflows.progress import Progress, device_of
from workflows.report.record import identity, tells_facts
from workflows.scene.cascade import open_scout
from workflows.scene.crops import CropPlanner
from workflows.scene.layout import ground_of
from workflows.scene.memory import CACHES, LOADED, Batches, MemoryPlan, bounded_cache, plan, resident_bytes
from workflows.scene.opening import (
    Dates,
    Infos,
    Scene,
    open_at,
    pair_warnings,
    planned_gsd,
    read_headers,
    search_area,
    tile_grid,
)
from workflows.scene.tile_cache import TileCache

if TYPE_CHECKING:
    from rscc.captioner import Captioner


@dataclass
class OpenRun:
    """A pair of scenes, and everything that the steps over it need.

    Attributes:
        model: the loaded model, or only its card where nothing is searched for.
        cache: of the finished rows; None keeps none.
        held: bytes that the process held before the scenes were opened; None takes what it holds when the
            memory is planned.
        land_cover: by what land cover was told, as the run record has it; None where it was not asked for.
        probability: where the change probability is kept, as it was named; None where it is not.
        started: when the trip began.
        clock: the same in seconds of :func:`time.perf_counter`.
    """

    pair: ScenePair
    model: Captioner | ModelCard
    options: SceneOptions = field(default_factory=SceneOptions)
    progress: Progress | None = None
    cache: TileCache | None = None
    held: int | None = None
    land_cover: dict[str, Any] | None = None
    probability: str | None = None
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=time.perf_counter)

    @classmethod
    @contextmanager
    def open(
        cls,
        before: Scene,
        after: Scene,
        model: Captioner | ModelCard,
        options: SceneOptions | None = None,
        progress: Progress | None = None,
        *,
        shared: bool = False,
    ) -> Iterator[Self]:
        """Open two scenes, named or with headers that were read; for a search where the model is loaded.

        With ``shared`` others may search other parts of the pair at the same time.

        Raises:
            TilingError, TooCoarse, OptionInvalid, MemoryTooSmall, TileCacheBusy, TileCacheUnusable: the run
                cannot begin; the message says why.
        """
        started, clock = datetime.now(UTC), time.perf_counter()
        options = options or SceneOptions()
        if options.memory is None and _card(model) is not model:
            # Before the first threads: who has an arena of memory of its own by then keeps it.
            keep_freed_memory()
        infos = read_headers(before, after, options)
        # Before the scenes are opened: what GDAL keeps of them from then on is part of the plan.
        held = max(resident_bytes(), LOADED)
        # While there is no plan yet: with a cap as little of a cache as a plan may allow.
        cache = CACHES[0] if options.memory is None else CACHES[-1]
        with bounded_cache(cache), ExitStack() as stack:
            pair = stack.enter_context(open_at(planned_gsd(infos, _card(model), options), infos, options))
            run = cls(pair, model, options, progress, held=held, started=started, clock=clock)
            if run.card is not model:
                stack.enter_context(bounded_cache(run.memory.gdal_cache))
                if options.tile_cache is not None:
                    named = identity(pair, run.grid, run.captioner, options)
                    threshold = options.threshold_for(run.card)
                    tiles = TileCache(options.tile_cache, named, threshold, shared=shared)
                    run.cache = stack.enter_context(tiles)
                    run.memory = replace(run.memory, batch_size=tiles.batch_size(run.memory.batch_size))
            yield run

    @property
    def captioner(self) -> Captioner:
        """The model, where it is loaded."""
        return cast("Captioner", self.model)

    @property
    def card(self) -> ModelCard:
        """The card of the model."""
        return _card(self.model)

    @property
    def infos(self) -> Infos:
        """What the headers of both scenes say."""
        return self.pair.before, self.pair.after

    @cached_property
    def dates(self) -> Dates:
        """When the scenes were taken."""
        before, after = self.infos
        return (
            scene_date(before.path, before.tags, self.options.date_before),
            scene_date(after.path, after.tags, self.options.date_after),
        )

    @cached_property
    def scout(self) -> Captioner | None:
        """The model that looks before :attr:`captioner`; None where that looks at every tile.

        Raises:
            OptionInvalid: there is none for this model.
        """
        return open_scout(self.captioner) if self.options.fast else None

    @cached_property
    def fact_maps(self) -> dict[Window, np.ndarray] | None:
        """What the fact heads answer in a tile, (answers, h, w), by its window; None where none are asked.

        The search keeps those of tiles with a change, a new road or a clearing.
        """
        return {} if tells_facts(self.captioner, self.options) else None

    @cached_property
    def crops(self) -> CropPlanner:
        """Where the model looks to describe a change."""
        return CropPlanner(self.pair.grid.width, self.pair.grid.height, self.card.tile_size)

    @cached_property
    def grid(self) -> TileGrid:
        """The tiles to search: those of :func:`workflows.scene.opening.search_area`."""
        return tile_grid(self.pair, self.card, self.options, search_area(self.pair, self.card, self.options))

    @cached_property
    def ground(self) -> Polygon | MultiPolygon | None:
        """What was asked for of the pair, in WGS84; None around a pole."""
        return ground_of(self.pair)

    @cached_property
    def memory(self) -> MemoryPlan:
        """How large the parts of the run may grow.

        Raises:
            MemoryTooSmall: even the smallest parts need more than the options allow.
        """
        return plan(
            self.options.memory,
            self.grid,
            self.card,
            batch_size=self.options.batch_size,
            held=self.held,
            on_cpu=device_of(self.model) == "cpu",
        )

    @cached_property
    def sizes(self) -> Batches:
        """How many tiles or crops the model gets at once."""
        return Batches(self.memory.batch_size)

    @contextmanager
    def naming(self, windows: Sequence[Window]) -> Iterator[None]:
        """Say which of ``windows``, shown to the network together, it has no answer for.

        Raises:
            NonFiniteOutput: it answered NaN or infinity; the message names the scenes and the window.
        """
        try:
            yield
        except NonFiniteOutput as error:
            broken = [windows[number] for number in error.pairs]
            if not broken:
                raise
            at, more = broken[0], f" and {len(broken) - 1} more" if len(broken) > 1 else ""
            before, after = (info.path for info in self.infos)
            raise NonFiniteOutput(
                f"{before} and {after}: for the tile at column {at.col_off}, row {at.row_off} "
                f"({at.width} x {at.height} pixels of the working grid){more} {self.card.name} answers NaN "
                "or infinity; get a sound copy of the model, or try another --device",
                error.pairs,
            ) from error

    @property
    def warnings(self) -> list[str]:
        """What makes the result doubtful though the run goes through, one line each."""
        return pair_warnings(self.pair, self.dates, self.card)


def _card(model: Captioner | ModelCard) -> ModelCard:
    return cast(ModelCard, getattr(model, "card", model))
