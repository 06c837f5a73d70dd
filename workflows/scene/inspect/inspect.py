"""Check two scenes and estimate time and memory of a run.

Nothing is decided here: the same functions open the pair, cut the tiles and word the warnings as in
:func:`workflows.caption_scene`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rscc.errors import RsccError
from rscc.model_folder import ModelCard
from tiling import PairTile, TilingError, choose_bands
from workflows.dates import scene_date
from workflows.errors import WorkflowError
from workflows.options import SceneOptions
from workflows.progress import device_of
from workflows.report.record import grid_record, model_record, pair_record
from workflows.scene.inspect.scene_facts import layer_facts, overlap_facts, scene_facts
from workflows.scene.inspect.text import inspection_text
from workflows.scene.network.memory import plan, tiles_at_once, weight_of
from workflows.scene.network.models import Network
from workflows.scene.opening import OpenPair, open_pair
from workflows.scene.resolution import check_resolution
from workflows.scenes import Scene, read_header

if TYPE_CHECKING:
    from rscc.captioner import Captioner

T = TypeVar("T")
LONG_ENOUGH = 0.3
"""Seconds from which a measurement is not repeated."""


@dataclass(frozen=True)
class Refusal:
    """An error that ``rscc caption`` would end with: its line and its exit code."""

    message: str
    exit_code: int


@dataclass(frozen=True)
class Inspection:
    """What a run would find in a pair; sections are plain values, None if an error keeps them unknown.

    Attributes:
        before, after: format, size, bands, type, masks, reference system, placement, date of each scene.
        overlap: the ground that both show: its area and its bounds.
        resampling: how each scene comes onto the grid.
        pair: ``bands``, ``stretch``, ``normalization``, ``registration``, ``focus`` as in the run record.
        expected: memory and time that the run takes.
        preconditions: what was checked, with the shares of the scenes in common and with data.
        refusals: why there would be no run; the run's own error first.
    """

    before: dict[str, Any] | None
    after: dict[str, Any] | None
    model: dict[str, Any]
    overlap: dict[str, Any] | None = None
    tiling: dict[str, Any] | None = None
    resampling: dict[str, Any] | None = None
    pair: dict[str, Any] | None = None
    expected: dict[str, Any] | None = None
    preconditions: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit code of ``rscc caption`` before it detects anything; 0 without a refusal."""
        return self.refusals[0].exit_code if self.refusals else 0

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "exit_code": self.exit_code}

    def as_text(self) -> str:
        """Return one screen of text; refusals are only counted."""
        return inspection_text(self.as_dict())


def inspect_pair(
    before: Scene,
    after: Scene,
    card: ModelCard,
    options: SceneOptions | None = None,
    load: Callable[[], Captioner] | None = None,
    started: float | None = None,
) -> Inspection:
    """Check two scenes as ``rscc caption`` would; refusals are part of the result.

    Args:
        started: reading of :func:`time.perf_counter` from which the time counts: of a command its start,
            since libraries take seconds to load; None: now.
    """
    started = time.perf_counter() if started is None else started
    options = options or SceneOptions()
    refusals: list[Refusal] = []

    def try_to(step: Callable[[], T]) -> T | None:
        try:
            return step()
        except (TilingError, WorkflowError, RsccError) as error:
            refusal = Refusal(" ".join(str(error).split()), error.exit_code)
            if refusal not in refusals:
                refusals.append(refusal)
            return None

    described = [try_to(partial(read_header, path, options)) for path in (before, after)]
    infos = tuple(info for info in described if info is not None)
    if len(infos) == 2:
        try_to(partial(check_resolution, infos, card, force=options.force))
    facts: dict[str, Any] = dict.fromkeys(("before", "after"))
    dates = (options.date_before, options.date_after)
    for role, info, date in zip(facts, described, dates, strict=True):
        if info is not None:
            choice = try_to(partial(choose_bands, info, options.bands))
            facts[role] = scene_facts(info, scene_date(info.path, info.tags, date), choice)
    inspection = Inspection(**facts, model=model_record(card))
    if len(infos) == 2:

        def look() -> Inspection:
            # A pair that is refused only for its resolution is shown nevertheless.
            with open_pair(*infos, card, replace(options, force=True)) as opened:
                shown = _opened(inspection, opened)
                speed = None
                if load is not None and not refusals:
                    speed = try_to(partial(measured_speed, opened, load, started))
                return replace(shown, expected=_expected_cost(opened, speed))

        inspection = try_to(look) or inspection
    return replace(inspection, refusals=tuple(refusals))


def _opened(inspection: Inspection, opened: OpenPair) -> Inspection:
    """Add what needs the open pair to an inspection."""
    first, second = opened.pair.layers
    return replace(
        inspection,
        overlap=overlap_facts(opened.pair),
        tiling=grid_record(opened.pair, opened.grid),
        resampling={"before": layer_facts(first), "after": layer_facts(second)},
        pair=pair_record(opened.pair),
        preconditions=tuple(map(asdict, opened.pair.preconditions)),
        warnings=tuple(opened.warnings),
    )


@dataclass(frozen=True)
class Speed:
    """How fast a model is on this machine.

    Attributes:
        start: seconds until the scenes are open and the model is loaded.
        tile: seconds for a tile: to read it, twice, and to look at it.
        device: where the model computes.
    """

    start: float
    tile: float
    device: str


def measured_speed(opened: OpenPair, load: Callable[[], Captioner], started: float) -> Speed:
    """Load a model and measure its speed on a tile in the middle of a pair.

    Args:
        started: reading of :func:`time.perf_counter` before the scenes were opened.

    Raises:
        RsccError, TilingError, WorkflowError: the model cannot run here, or the tile cannot be read.
    """
    clock = time.perf_counter
    captioner = load()
    start = clock() - started
    grid, card, device = opened.grid, opened.card, device_of(captioner)
    options, on_cpu = replace(opened.options, fast=False), device == "cpu"
    memory = plan(None, grid, card, batch_size=options.batch_size, on_cpu=on_cpu)
    network = Network(captioner, opened.pair, options, memory)
    tile = grid[opened.tiles[len(opened.tiles) // 2]]
    started = clock()
    before, after, valid = opened.pair.read(tile.window)
    reading = clock() - started
    if np.array_equal(before, after):  # the network would not look at it
        after = 255 - before
    count = 1 if on_cpu else tiles_at_once(memory.batch_size, grid, card)
    tiles = [PairTile(before, after, valid, replace(tile, index=number)) for number in range(count)]
    looks: list[float] = []
    while len(looks) < 2 or (sum(looks) < LONG_ENOUGH and len(looks) < 10):  # the first one is slow
        started = clock()
        network.look(tiles, weight_of(grid, card))
        looks.append(clock() - started)
    return Speed(start, 2 * reading + min(looks) / count, device)


def _expected_cost(opened: OpenPair, speed: Speed | None) -> dict[str, Any]:
    """Return the cost of a run as plain values; ``seconds`` is None where no speed was measured."""
    options = opened.options
    memory = plan(options.memory, opened.grid, opened.card, batch_size=options.batch_size)
    planned = {**memory.as_dict(), "expected": memory.expected}
    if speed is None:
        return {"memory": planned, "seconds": None, "device": None}
    # The network does not see tiles without data.
    tiles = sum(bool(opened.grid[n].window.intersection(opened.pair.site)) for n in opened.tiles)
    seconds = round(speed.start + speed.tile * tiles, 1)
    return {"memory": planned, "seconds": seconds, "device": speed.device}
