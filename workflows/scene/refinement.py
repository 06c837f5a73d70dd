"""Outlines of changes redrawn by a promptable segmenter, where what it sees there agrees with the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely
from shapely.geometry import box

from rscc.inference.refinement import LEAST_AGREEMENT, refine_masks
from tiling import Band, ChangeRegion, ScenePair, Window, polygonize
from workflows.errors import OptionInvalid
from workflows.progress import tell
from workflows.scene.carrier import OpenRun
from workflows.scene.crops import CropPlanner, burnt
from workflows.scene.events import Event, Events

if TYPE_CHECKING:
    import torch

    from rscc.models.shared.extraction import Segmenter

# Pixels between a region and the edge of the crop it is redrawn in: an object that is cut looks like another.
ROOM = 8


def open_segmenter(name: str, device: str | torch.device = "cpu") -> Segmenter:
    """Load the segmenter that ``--refine`` names.

    Raises:
        OptionInvalid: it is neither ``sam:FOLDER`` nor ``mobile_sam:FILE``.
        ExtraNotInstalled: transformers is not installed.
        WeightsNotFound: no such file or folder, or it holds something else.
    """
    family, _, place = name.partition(":")
    if family not in ("sam", "mobile_sam") or not place:
        raise OptionInvalid(
            f"refine is {name!r}; give sam:FOLDER (Segment Anything in the format of transformers) or "
            "mobile_sam:FILE (MobileSAM's checkpoint)"
        )
    from rscc.models.shared.segmenters import load_segmenter

    return load_segmenter(name).to(device)


@dataclass(frozen=True)
class Refinement:
    """What became of the regions.

    Attributes:
        regions: in the order they were given.
        redrawn: how many have the segmenter's outline.
        too_large: how many do not fit into a crop and stayed as they were.
    """

    regions: list[ChangeRegion]
    redrawn: int
    too_large: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for the run record."""
        counts = {"regions": len(self.regions), "redrawn": self.redrawn, "too_large": self.too_large}
        return {**counts, "least_agreement": LEAST_AGREEMENT}


def refine_regions(
    run: OpenRun,
    regions: Sequence[ChangeRegion],
    segmenter: Segmenter,
    *,
    others: Sequence[ChangeRegion] = (),
    least: float = LEAST_AGREEMENT,
) -> Refinement:
    """Give every region the segmenter's outline where it agrees with the model's.

    Regions that lie in one crop are asked about together, since encoding a crop is what takes time. What a
    segmenter draws over another region is cut off.

    Args:
        run: over the pair. Its progress hears of the stage ``outlines``.
        others: regions that are known but stay as they are.
        least: intersection over union with the model's mask from which an outline is taken.
    """
    pair, crops = run.pair, run.crops
    refined, redrawn, tried = list(regions), 0, 0
    boxes = np.array([region.pixel_polygon.bounds for region in regions]).reshape(-1, 4)
    outlines = [region.pixel_polygon for region in (*regions, *others)]
    tree = shapely.STRtree(outlines)
    fit = np.flatnonzero((boxes[:, 2:] - boxes[:, :2] <= crops.size - 2 * ROOM).all(1))
    for window, members in _shared_crops(boxes, fit, crops):
        before, after, valid = pair.read(window)
        near = tree.query(box(window.col_off, window.row_off, window.col_end, window.row_end))
        masks = {
            number: burnt([outlines[number]], window, all_touched=False) & valid
            for number in sorted({*near, *members})
        }
        requested = [number for number in members if masks[number].any()]
        drawn = refine_masks(segmenter, before, after, [masks[n] for n in requested], least=least)
        for number, outline in zip(requested, drawn, strict=True):
            if outline is None:
                continue
            taken = [mask for other, mask in masks.items() if other != number]
            free = valid & ~np.any(taken, axis=0) if taken else valid
            region = _region(outline.mask & free, window, pair, regions[number], run.options.simplify)
            if region is not None:
                refined[number], redrawn = region, redrawn + 1
        tried += len(members)
        tell(run.progress, "outlines", tried, len(fit))
    return Refinement(refined, redrawn, len(regions) - len(fit))


def refine_events(run: OpenRun, events: Events, segmenter: Segmenter) -> Events:
    """Give events the outlines of :func:`refine_regions`, but for those that would become too small."""
    places = [place for event in events.events for place in event.places]
    others = [region for event in events.others for region in event.regions]
    refinement = refine_regions(run, [place.region for place in places], segmenter, others=others)
    redrawn = iter(
        place.redrawn(region, run.pair, run.options.least_outline_for(run.pair.grid.gsd))
        for place, region in zip(places, refinement.regions, strict=True)
    )
    refined = [Event(tuple(next(redrawn) for _ in event.places)) for event in events.events]
    return replace(events, events=refined, refinement=refinement.as_dict())


def _shared_crops(
    boxes: np.ndarray, members: np.ndarray, crops: CropPlanner
) -> Iterator[tuple[Window, list[int]]]:
    """Yield crops with the numbers of the regions to be redrawn in them, every member once.

    Each crop is centred on the first region that waits, from top to bottom.
    """
    waiting = sorted(members.tolist(), key=lambda number: (boxes[number, 1], boxes[number, 0]))
    while waiting:
        window = crops.around(tuple(boxes[waiting[0]]))
        low = np.array([window.col_off, window.row_off])
        high = np.array([window.col_end, window.row_end])
        # At the edge of the scene there is no more room to be had.
        low, high = low + ROOM * (low > 0), high - ROOM * (high < (crops.width, crops.height))
        inside = (boxes[waiting, :2] >= low).all(1) & (boxes[waiting, 2:] <= high).all(1)
        inside[0] = True
        yield window, [number for number, there in zip(waiting, inside, strict=True) if there]
        waiting = [number for number, there in zip(waiting, inside, strict=True) if not there]


def _region(
    mask: np.ndarray, window: Window, pair: ScenePair, region: ChangeRegion, simplify_px: float
) -> ChangeRegion | None:
    """Return the region with the outline of the mask's largest piece; None where nothing is left of it."""
    band = Band(window.row_off, mask.astype(np.float32), mask, window.col_off)
    pieces = polygonize([band], 0.5, simplify_px=simplify_px, transform=pair.grid.transform)
    if not pieces:
        return None
    return replace(max(pieces, key=lambda piece: piece.area_px), mean_probability=region.mean_probability)
