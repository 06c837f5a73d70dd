"""Whether a model serves the resolution of two scenes, and at which resolution it sees them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_UP, Decimal
from typing import TYPE_CHECKING

from workflows.errors import OptionInvalid, TooCoarse

if TYPE_CHECKING:
    from rscc.weights import ModelCard
    from tiling import SceneInfo

# A scene is enlarged at most this many times when that is asked for...
FINEST = 16
# ...and this many times to reach the model's own resolution; what is coarser is shown as it is.
ENLARGED = 4
# Metres per pixel are measured on the ground and so never round: this much is not called coarser.
TOLERANCE = 1.02


def check_resolution(
    infos: Sequence[SceneInfo],
    card: ModelCard,
    *,
    force: bool = False,
    known: Sequence[ModelCard] | None = None,
) -> None:
    """Refuse scenes that are coarser than the model knows: its words would be made up.

    Args:
        infos: both scenes.
        card: of the model.
        force: let them pass all the same.
        known: cards of the models that may serve instead; None takes those of this installation.

    Raises:
        TooCoarse: as said; the message names a model that serves, if there is one.
    """
    coarsest = max(infos, key=lambda info: info.gsd)
    if force or not too_coarse(coarsest, card):
        return
    other = serving_model(coarsest.gsd, card, known)
    remedy = "no model of this installation does; " if other is None else f"use --model {other}, or "
    raise TooCoarse(f"{_coarseness(coarsest, card)}; {remedy}--force tries all the same")


def resolution_warnings(
    infos: Sequence[SceneInfo], card: ModelCard, known: Sequence[ModelCard] | None = None
) -> list[str]:
    """Say in one line each where the result suffers from the resolution; arguments as above."""
    warnings = []
    for info in infos:
        if too_coarse(info, card):
            warnings.append(f"{_coarseness(info, card)}; expect little of the result")
        elif info.gsd * TOLERANCE < card.gsd_range[0]:
            other = serving_model(info.gsd, card, known)
            if other is not None:
                warnings.append(
                    f"{info.path}: {info.gsd:.3g} m per pixel is finer than the {card.gsd_range[0]:g} m from "
                    f"which {card.name} serves, so it is reduced to {card.gsd:g} m; --model {other} sees more"
                )
    return warnings


def working_warning(infos: Sequence[SceneInfo], working: float, card: ModelCard) -> str | None:
    """Say when scenes that the model serves are shown to it at a resolution that it does not know.

    Args:
        infos: both scenes.
        working: metres per pixel that were asked for, or else chosen.
        card: of the model.
    """
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
    """Tell whether a scene has more metres per pixel than the coarsest that the model is meant for."""
    return info.gsd > card.gsd_range[1] * TOLERANCE


def serving_model(gsd: float, card: ModelCard, known: Sequence[ModelCard] | None = None) -> str | None:
    """Return the name of another model that is meant for ``gsd`` metres per pixel, None without one."""
    if known is None:
        from rscc.weights import available_models

        known = available_models()
    for other in known:
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
