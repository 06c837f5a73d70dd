"""Two scenes opened for a model: dates, resolution, tiles and warnings, the same for every job on a pair."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_UP, Decimal
from pathlib import Path

import numpy as np

from rscc.model_folder import ModelCard, available_models
from tiling import Frame, SceneInfo, ScenePair, TileGrid, Window, describe
from workflows.dates import SceneDate
from workflows.errors import OptionInvalid, TooCoarse
from workflows.options import SceneOptions
from workflows.scene.cascade import sides_of_both

Scene = str | Path | SceneInfo
"""A scene by its name, or what its header said."""
Infos = tuple[SceneInfo, SceneInfo]
Dates = tuple[SceneDate, SceneDate]


def read_headers(before: Scene, after: Scene, options: SceneOptions) -> Infos:
    """Return :func:`read_header` of two scenes."""
    return read_header(before, options), read_header(after, options)


def read_header(scene: Scene, options: SceneOptions) -> SceneInfo:
    """Return what the header of a scene says; one that was read is not read again.

    Its first bands have the names that were asked for.

    Raises:
        TilingError: it cannot be read, or its server may not be asked; the message names the file.
        OptionInvalid: it has fewer bands than there are names.
    """
    info = scene if isinstance(scene, SceneInfo) else describe(scene, options.access)
    names = options.band_names
    if names is None:
        return info
    if len(names) > info.count:
        raise OptionInvalid(
            f"{info.path}: it has {info.count} bands, and band-names has {len(names)} names; give as many"
        )
    return replace(info, descriptions=(*names, *info.descriptions[len(names) :]))


def planned_gsd(infos: Infos, card: ModelCard, options: SceneOptions) -> float | None:
    """Return the metres per pixel that a model looks at two scenes with, see :func:`working_gsd`.

    Raises:
        TooCoarse: a scene is coarser than the model is meant for, and ``options.force`` is not set.
        OptionInvalid: the resolution asked for is too fine.
    """
    check_resolution(infos, card, force=options.force)
    return working_gsd(infos[0], card, options.gsd)


def open_at(gsd: float | None, infos: Infos, options: SceneOptions) -> ScenePair:
    """Open two scenes as the options say, at ``gsd`` metres per pixel; None takes those of the scene before.

    Raises:
        TilingError: the two cannot be compared; the message says why.
    """
    return ScenePair.open(
        *infos,
        bands=options.bands,
        gsd=gsd,
        bounds=options.bounds,
        scale=options.scale,
        normalize=options.normalize,
        align=options.align,
        frame=options.frame,
    )


def tile_grid(
    pair: ScenePair | Frame, card: ModelCard, options: SceneOptions, area: Window | None = None
) -> TileGrid:
    """Return the tiles that a pair is searched in and that touch ``area``, by default all.

    They are fixed to the ground.

    Raises:
        OptionInvalid: the overlap that was asked for is too large.
    """
    multiple = sides_of_both(card) if options.fast else card.position_size
    return TileGrid(
        pair.grid.width,
        pair.grid.height,
        tile=max(card.search_size, card.tile_size),
        least=-(-card.tile_size // multiple) * multiple,
        multiple=multiple,
        overlap=options.overlap_for(card),
        anchor=pair.grid.anchor,
        area=area,
    )


def search_area(pair: ScenePair | Frame, card: ModelCard, options: SceneOptions) -> Window:
    """Return the pixels to look at: those asked for, and around them a tile and the distance of a group.

    So a change that lies across the edge of what was asked for is seen whole, unless it is larger than that.
    """
    apart = options.group_distance_for(pair.grid.gsd) / pair.grid.gsd
    return grown(pair, pair.focus, card.tile_size + int(np.ceil(apart)))


def grown(pair: ScenePair | Frame, window: Window, pixels: int) -> Window:
    """Return ``window`` with ``pixels`` more on every side, as far as the working grid goes."""
    larger = Window(
        window.col_off - pixels,
        window.row_off - pixels,
        window.width + 2 * pixels,
        window.height + 2 * pixels,
    )
    return larger.intersection(Window(0, 0, pair.grid.width, pair.grid.height))


def _one_file(before: SceneInfo, after: SceneInfo) -> bool:
    """Return whether two scenes are the same file, however it is named."""
    if before.path == after.path:
        return True
    try:
        return os.path.samefile(before.path, after.path)
    except OSError:
        return False  # one lies elsewhere, or in an archive


def pair_warnings(pair: ScenePair, dates: Dates, card: ModelCard) -> list[str]:
    """Say in one line each what makes the result doubtful though the run goes through."""
    infos = (pair.before, pair.after)
    working = working_warning(infos, pair.grid.gsd, card)
    warnings = [*resolution_warnings(infos, card), *([working] if working else []), *pair.notes]
    if _one_file(*infos):
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


# A scene is enlarged at most this many times when that is asked for...
FINEST = 16
# ...and this many times to reach the model's own resolution; what is coarser is shown as it is.
ENLARGED = 4
# Metres per pixel are measured on the ground and so never round: this much is not called coarser.
TOLERANCE = 1.02


def check_resolution(infos: Sequence[SceneInfo], card: ModelCard, *, force: bool = False) -> None:
    """Refuse scenes that are coarser than the model knows: its words would be made up. ``force`` lets them.

    Raises:
        TooCoarse: as said; the message names a model that serves, if there is one.
    """
    coarsest = max(infos, key=lambda info: info.gsd)
    if force or not too_coarse(coarsest, card):
        return
    other = serving_model(coarsest.gsd, card)
    remedy = f"use --model {other}, or " if other else "no model of this installation does; "
    if other is None and (coarser := _reducing_model(coarsest.gsd, card)):
        remedy = f"use --model {coarser.name}, which looks at it at {coarser.gsd:g} m, or "
    raise TooCoarse(f"{_coarseness(coarsest, card)}; {remedy}--force tries all the same")


def resolution_warnings(infos: Sequence[SceneInfo], card: ModelCard) -> list[str]:
    """Say in one line each where the result suffers from the resolution."""
    warnings = []
    for info in infos:
        if too_coarse(info, card):
            warnings.append(f"{_coarseness(info, card)}; expect little of the result")
        elif info.gsd * TOLERANCE < card.gsd_range[0]:
            other = serving_model(info.gsd, card)
            if other is not None:
                warnings.append(
                    f"{info.path}: {info.gsd:.3g} m per pixel is finer than the {card.gsd_range[0]:g} m from "
                    f"which {card.name} serves, so it is reduced to {card.gsd:g} m; --model {other} sees more"
                )
    return warnings


def working_warning(infos: Sequence[SceneInfo], working: float, card: ModelCard) -> str | None:
    """Say when a model is shown scenes that it serves at ``working`` metres per pixel, which it does not."""
    low, high = card.gsd_range
    if low <= working * TOLERANCE and working <= high * TOLERANCE:
        return None
    if any(too_coarse(info, card) for info in infos):  # said already
        return None
    return (
        f"gsd is {working:.3g}: {card.name} serves {low:g} to {high:g} m per pixel; expect little of the "
        "result, or leave the option out"
    )


def too_coarse(info: SceneInfo, card: ModelCard) -> bool:
    """Return whether a scene has more metres per pixel than the coarsest that the model is meant for."""
    return info.gsd > card.gsd_range[1] * TOLERANCE


def _reducing_model(gsd: float, card: ModelCard) -> ModelCard | None:
    """Return the finest of the other models that reduce ``gsd`` metres per pixel to theirs; None without."""
    coarser = [other for other in available_models() if other.name != card.name and gsd < other.gsd_range[0]]
    return min(coarser, key=lambda other: other.gsd, default=None)


def serving_model(gsd: float, card: ModelCard) -> str | None:
    """Return the name of another model that is meant for ``gsd`` metres per pixel, None without one."""
    for other in available_models():
        low, high = other.gsd_range
        if other.name != card.name and low <= gsd * TOLERANCE and gsd <= high * TOLERANCE:
            return other.name
    return None


def working_gsd(before: SceneInfo, card: ModelCard, wanted: float | None) -> float | None:
    """Return the metres per pixel to work at: those wanted, else the model's, else None for the scene's own.

    A scene coarser than the model's range, or so coarse that it would have to be enlarged many times, stays
    as it is: enlarging it would add pixels but no detail.

    Raises:
        OptionInvalid: ``wanted`` is so fine that the scene would be enlarged more than 16 times.
    """
    if wanted is not None:
        if wanted * FINEST < before.gsd:
            least = Decimal(before.gsd / FINEST)
            rounded = least.quantize(Decimal(1).scaleb(least.adjusted() - 2), ROUND_UP)
            raise OptionInvalid(
                f"gsd is {wanted:g}: {before.path} has {before.gsd:.3g} m per pixel; give at least "
                f"{rounded:f}, since enlarging it further adds no detail"
            )
        return wanted
    return None if too_coarse(before, card) or before.gsd > ENLARGED * card.gsd else card.gsd


def _coarseness(info: SceneInfo, card: ModelCard) -> str:
    return (
        f"{info.path}: {info.gsd:.3g} m per pixel is coarser than the {card.gsd_range[1]:g} m up to which "
        f"{card.name} serves"
    )
