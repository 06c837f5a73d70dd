"""Check two scenes and estimate time and memory of a run.

Nothing is decided here: the same functions open the pair, cut the tiles and word the warnings as in
:func:`workflows.caption_scene`.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rscc.errors import RsccError
from rscc.model_folder import ModelCard
from tiling import TilingError, choose_bands
from workflows.dates import scene_date
from workflows.errors import WorkflowError
from workflows.options import SceneOptions
from workflows.report.record import grid_record, model_record, pair_record
from workflows.scene.inspect.cost import expected_cost, measured_speed
from workflows.scene.inspect.scene_facts import layer_facts, overlap_facts, scene_facts
from workflows.scene.inspect.text import inspection_text
from workflows.scene.network.memory import MemoryPlan, plan
from workflows.scene.opening import OpenPair, open_pair
from workflows.scene.resolution import check_resolution
from workflows.scenes import Scene, read_header

if TYPE_CHECKING:
    from rscc.captioner import Captioner

T = TypeVar("T")


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
    load: "Callable[[], Captioner] | None" = None,
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
                return replace(shown, expected=expected_cost(opened, _memory(opened), speed))

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


def _memory(opened: OpenPair) -> MemoryPlan:
    options = opened.options
    return plan(options.memory, opened.grid, opened.card, batch_size=options.batch_size)
