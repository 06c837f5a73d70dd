"""What would become of a pair of scenes, before the work: what they are, what fits, what it costs.

Nothing is decided here: the same functions open the pair, cut the tiles and word the warnings as in
:func:`workflows.caption_scene`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tiling import TilingError, choose_bands
from workflows.dates import scene_date
from workflows.errors import WorkflowError
from workflows.inspection.cost import expected_cost, measured_rate, stated_rate
from workflows.inspection.facts import layer_facts, overlap_facts, scene_facts
from workflows.inspection.text import inspection_text
from workflows.options import SceneOptions
from workflows.report.record import grid_record, model_record, pair_record
from workflows.scene.opening import check_resolution, read_header
from workflows.scene.run import SceneRun

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from rscc.model_folder import ModelCard

T = TypeVar("T")


@dataclass(frozen=True)
class Refusal:
    """Why ``rscc caption`` would stop: its error line, and the exit code it ends with."""

    message: str
    exit_code: int


@dataclass(frozen=True)
class Inspection:
    """What a run over a pair would meet; sections are plain values, None where a refusal keeps them unknown.

    Attributes:
        before, after: format, size, bands, type, masks, reference system, placement, date of each scene.
        model, tiling: as in the run record.
        overlap: the ground that both show: shares of each scene, area, map extent, share with data.
        resampling: how each scene comes onto the grid.
        pair: ``bands``, ``stretch``, ``normalization``, ``registration``, ``focus`` as in the run record.
        expected: memory and time that the run takes.
        warnings: those that the run would give.
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
    warnings: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()

    @property
    def exit_code(self) -> int:
        """What ``rscc caption`` would end with before it looks at a tile; 0 where nothing is refused."""
        return self.refusals[0].exit_code if self.refusals else 0

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "exit_code": self.exit_code}

    def as_text(self) -> str:
        """Return one screen of plain words; of refusals only that there are some."""
        return inspection_text(self.as_dict())


def inspect_pair(
    before: str | Path,
    after: str | Path,
    card: ModelCard,
    options: SceneOptions | None = None,
    load: Callable[[], Captioner] | None = None,
) -> Inspection:
    """Say what ``rscc caption`` would make of two scenes; what it would refuse is part of the answer.

    Args:
        before, after, options: as for :func:`workflows.caption_scene`.
        card: of the model; its weights are not needed.
        load: loads the model, which is then timed on a few tiles; None takes a stated rate instead.

    Raises:
        RsccError: the model that is to be timed cannot run here.
    """
    options = options or SceneOptions()
    refusals: list[Refusal] = []

    def try_to(step: Callable[[], T]) -> T | None:
        try:
            return step()
        except (TilingError, WorkflowError) as error:
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
            # What is refused for its resolution alone is shown all the same.
            with SceneRun.open(*infos, card, replace(options, force=True)) as run:
                return _opened(inspection, run, load)

        inspection = try_to(look) or inspection
    return replace(inspection, refusals=tuple(refusals))


def _opened(inspection: Inspection, run: SceneRun, load: Callable[[], Captioner] | None) -> Inspection:
    """Add to an inspection what only the open pair tells."""
    grid = run.grid
    # What the process holds then is part of the plan.
    run = replace(run, model=run.card if load is None else load(), held=None)
    rate = stated_rate(run.card) if load is None else measured_rate(run)
    first, second = run.pair.layers
    return replace(
        inspection,
        overlap=overlap_facts(run.pair),
        tiling=grid_record(run.pair, grid),
        resampling={"before": layer_facts(first), "after": layer_facts(second)},
        pair=pair_record(run.pair),
        expected=expected_cost(grid, run.memory, rate),
        warnings=tuple(run.warnings),
    )
