"""Whether two scenes suit a model: the resolution to work at, what is refused, and warnings."""

import os
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_UP, Decimal
from typing import TypeVar

from rscc.folders import DEFAULT_MODEL, MEDIUM_MODEL
from rscc.model_folder import ModelCard, available_models
from tiling import SceneInfo, ScenePair
from workflows.dates import SceneDate
from workflows.errors import OptionInvalid, TooCoarse
from workflows.options import SceneOptions
from workflows.scenes import FINEST, Infos

Dates = tuple[SceneDate, SceneDate]
OptionsT = TypeVar("OptionsT", bound=SceneOptions)


def planned_gsd(infos: Infos, card: ModelCard, options: SceneOptions) -> float | None:
    """Return the metres per pixel at which a model sees two scenes, see :func:`working_gsd`.

    Raises:
        TooCoarse: a scene is coarser than the model is meant for, and ``options.force`` is not set.
    """
    check_resolution(infos, card, force=options.force)
    return working_gsd(infos[0], card, options.gsd)


def _one_file(before: SceneInfo, after: SceneInfo) -> bool:
    """Return whether two scenes are the same file, however it is named."""
    if before.path == after.path:
        return True
    try:
        return os.path.samefile(before.path, after.path)
    except OSError:
        return False  # one lies elsewhere, or in an archive


def pair_warnings(pair: ScenePair, dates: Dates, card: ModelCard) -> list[str]:
    """Return warnings about a pair, one line each."""
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
    warnings += [
        f"{info.path}: {taken.doubt}" for info, taken in zip(infos, dates, strict=True) if taken.doubt
    ]
    earlier, later = (taken.value for taken in dates)
    # Only as many characters as both have: 2019 is not earlier than 2019-08.
    if earlier and later and earlier[: len(later)] > later[: len(earlier)]:
        warnings.append(f"the scene before is of {earlier}, the scene after of {later}; are they swapped?")
    return warnings


# A scene is enlarged at most this many times to reach the model's resolution; a coarser one stays as it is.
ENLARGED = 4
# Metres per pixel are measured on the ground, so they are never round numbers.
TOLERANCE = 1.02


def chosen_model(infos: Sequence[SceneInfo], model: str | None, options: OptionsT) -> tuple[str, OptionsT]:
    """Return the model for two scenes, and the options to run it with.

    A model that was named is taken. Else the shipped one decides whose range holds the coarser scene's metres
    per pixel; between two ranges it is the nearer one, which is then run out of its range with a warning.
    """
    if model is not None:
        return model, options
    coarsest = max(info.gsd for info in infos)
    by_name = {card.name: card for card in available_models()}
    fine, coarse = by_name[DEFAULT_MODEL], by_name[MEDIUM_MODEL]
    if coarsest <= fine.gsd_range[1] * TOLERANCE:
        return fine.name, options
    if coarsest * TOLERANCE >= coarse.gsd_range[0]:
        return coarse.name, options
    is_nearer = coarsest / fine.gsd_range[1] <= coarse.gsd_range[0] / coarsest
    return (fine.name, replace(options, force=True)) if is_nearer else (coarse.name, options)


def check_resolution(infos: Sequence[SceneInfo], card: ModelCard, *, force: bool = False) -> None:
    """Refuse scenes that are too coarse for the model, unless ``force`` is set.

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
    """Return warnings about the resolution of the scenes, one line each."""
    warnings = []
    for info in infos:
        if too_coarse(info, card):
            warnings.append(f"{_coarseness(info, card)}; expect little of the result")
        elif info.gsd * TOLERANCE < card.gsd_range[0]:
            fine = (
                f"{info.path}: {info.gsd:.3g} m per pixel is finer than the {card.gsd_range[0]:g} m from "
                f"which {card.name} serves, so it is reduced to {card.gsd:g} m"
            )
            if other := serving_model(info.gsd, card):
                warnings.append(f"{fine}; --model {other} sees more")
            # Below the finest model nothing is lost that any of them would see.
            elif any(one.gsd_range[1] < info.gsd for one in available_models()):
                warnings.append(f"{fine}; no model sees more, so expect little of the result")
    return warnings


def working_warning(infos: Sequence[SceneInfo], working: float, card: ModelCard) -> str | None:
    """Return a warning if the model does not serve the working resolution; None without."""
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
    """Return the working resolution: ``wanted``, else the model's, else None for that of the scene.

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
