"""Two scenes opened for a model: dates, resolution and warnings, the same for every job on a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiling import SceneInfo, ScenePair
from workflows.dates import SceneDate, scene_date
from workflows.options import SceneOptions
from workflows.resolution import check_resolution, resolution_warnings, working_gsd, working_warning

if TYPE_CHECKING:
    from rscc.weights import ModelCard

Infos = tuple[SceneInfo, SceneInfo]
Dates = tuple[SceneDate, SceneDate]


def scene_dates(infos: Infos, options: SceneOptions) -> Dates:
    """Find the dates of both scenes, see :func:`workflows.dates.scene_date`."""
    before, after = infos
    return (
        scene_date(before.path, before.tags, options.date_before),
        scene_date(after.path, after.tags, options.date_after),
    )


def open_pair(infos: Infos, card: ModelCard, options: SceneOptions) -> ScenePair:
    """Open two scenes the way a model wants to see them.

    Raises:
        TooCoarse: a scene is coarser than the model is meant for, and ``options.force`` is not set.
        TilingError: the two cannot be compared; the message says why.
        OptionInvalid: the resolution asked for is too fine.
    """
    check_resolution(infos, card, force=options.force)
    return ScenePair.open(
        *infos,
        bands=options.bands,
        gsd=working_gsd(infos[0], card, options.gsd),
        bounds=options.bounds,
        scale=options.scale,
        normalize=options.normalize,
        align=options.align,
    )


def pair_warnings(pair: ScenePair, dates: Dates, card: ModelCard) -> list[str]:
    """Say in one line each what makes the result doubtful though the run goes through."""
    infos = (pair.before, pair.after)
    working = working_warning(infos, pair.grid.gsd, card)
    warnings = [*resolution_warnings(infos, card), *([working] if working else []), *pair.notes]
    if pair.before.path == pair.after.path:
        warnings.append(f"{pair.after.path}: it was given twice, so nothing can have changed")
    if card.localiser != "change_head":
        warnings.append(
            f"{card.name}: its polygons come from the {card.localisation}; expect rough outlines, and "
            "places that did not change"
        )
    earlier, later = (taken.value for taken in dates)
    # Only as many characters as both have: 2019 is not earlier than 2019-08.
    if earlier and later and earlier[: len(later)] > later[: len(earlier)]:
        warnings.append(f"the scene before is of {earlier}, the scene after of {later}; are they swapped?")
    return warnings
