"""One pair of scenes from end to end: tiles, change map, polygons, words, report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from tiling import (
    ChangeMosaic,
    ChangeRegion,
    NothingValid,
    PairTile,
    Polygonizer,
    SceneInfo,
    ScenePair,
    TileGrid,
    describe,
    geodesic_area_m2,
    read_tiles,
    to_wgs84,
)
from workflows.dates import SceneDate, scene_date
from workflows.describing import describe_regions
from workflows.geojson import rounded
from workflows.options import SceneOptions
from workflows.progress import Progress, batches, tell
from workflows.record import grid_record, model_record, public_path, scene_record, settings_record, versions
from workflows.report import Change, ChangeReport
from workflows.resolution import check_resolution, resolution_warnings, working_gsd

if TYPE_CHECKING:
    from shapely.geometry import MultiPolygon, Polygon

    from rscc.captioner import Captioner
    from rscc.structures import Caption
    from rscc.weights import ModelCard


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
    infos = (describe(before), describe(after))
    check_resolution(infos, card, force=options.force)
    dates = (
        scene_date(str(before), infos[0].tags, options.date_before),
        scene_date(str(after), infos[1].tags, options.date_after),
    )
    with ScenePair.open(
        before,
        after,
        bands=options.bands,
        gsd=working_gsd(infos[0], card, options.gsd),
        bounds=options.bounds,
    ) as pair:
        grid = TileGrid(
            pair.grid.width, pair.grid.height, tile=card.tile_size, overlap=options.overlap_for(card)
        )
        regions, tiles = find_changes(pair, grid, captioner, options, progress)
        if tiles["blank"] == len(grid):
            raise NothingValid(f"{before} and {after}: every pixel is nodata on one date or the other")
        places = _places(regions, pair, options.min_area)
        described = describe_regions(
            pair, grid, [[place.region] for place in places], captioner, options, progress
        )
        names = (PurePath(public_path(before)).name, PurePath(public_path(after)).name)
        changes = [
            _change(number, place, words, card, names, dates)
            for number, (place, words) in enumerate(zip(places, described, strict=True), start=1)
        ]
        run = {
            "inputs": {
                role: scene_record(path, info, taken)
                for role, path, info, taken in zip(
                    ("before", "after"), (before, after), infos, dates, strict=True
                )
            },
            "model": model_record(card),
            "settings": settings_record(options, card),
            "tiling": {**grid_record(pair, grid), **tiles},
            "stretch": pair.stretch.as_dict(),
            "warnings": scene_warnings(infos, dates, card),
            "versions": versions(),
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - clock, 2),
        }
    return ChangeReport(changes, run)


def scene_warnings(
    infos: tuple[SceneInfo, SceneInfo], dates: tuple[SceneDate, SceneDate], card: ModelCard
) -> list[str]:
    """Say in one line each what makes the result doubtful though the run goes through."""
    warnings = resolution_warnings(infos, card)
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


def find_changes(
    pair: ScenePair,
    grid: TileGrid,
    captioner: Captioner,
    options: SceneOptions,
    progress: Progress | None = None,
) -> tuple[list[ChangeRegion], dict[str, int]]:
    """Return the changed regions of the whole grid, and how many tiles were ``blank`` and ``changed``.

    Blank tiles have no valid pixel and are not shown to the model.
    """
    mosaic = ChangeMosaic(grid)
    polygons = Polygonizer(options.threshold_for(captioner.card))
    counts = Counter(blank=0, changed=0)
    done = 0
    reader: Any = read_tiles(pair, grid)
    # Closed also when the model fails, so that the reader threads end.
    with closing(reader) as tiles:
        for batch in batches(tiles, options.batch_size):
            seen = [tile for tile in batch if tile.valid.any()]
            probabilities, changed = _predict(seen, captioner)
            counts.update(blank=len(batch) - len(seen), changed=changed)
            for tile in batch:
                blank = np.zeros(tile.valid.shape, np.float32)
                for band in mosaic.add(tile.tile, probabilities.get(tile.tile.index, blank), tile.valid):
                    polygons.add(band)
            done += len(batch)
            tell(progress, "tiles", done, len(grid))
    for band in mosaic.finish():
        polygons.add(band)
    # Half the area here, all of it once the outline that is reported is known: simplifying moves edges.
    smallest = 0.5 * options.min_area / pair.grid.gsd**2
    regions = polygons.finish(
        min_area_px=smallest, simplify_px=options.simplify, transform=pair.grid.transform
    )
    return regions, dict(counts)


def _predict(tiles: Sequence[PairTile], captioner: Captioner) -> tuple[dict[int, np.ndarray], int]:
    """Return the change probability by tile index, and how many of the tiles the model calls changed."""
    if not tiles:
        return {}, 0
    prediction = captioner.predict_change(
        np.stack([tile.before for tile in tiles]), np.stack([tile.after for tile in tiles])
    )
    changed = int((prediction.changed_probability >= captioner.card.changed_threshold).sum())
    return {t.tile.index: p for t, p in zip(tiles, prediction.change_probability, strict=True)}, changed


@dataclass(frozen=True)
class _Place:
    """A region with its outline as it is written (WGS84, rounded) and the geodesic area of that outline."""

    region: ChangeRegion
    geometry: Polygon | MultiPolygon
    area_m2: float


def _places(regions: Iterable[ChangeRegion], pair: ScenePair, min_area: float) -> list[_Place]:
    """Leave out what is too small; north to south, then west to east: the same input gives the same ids."""
    places = []
    for region in regions:
        geometry = rounded(to_wgs84(region.polygon, pair.grid.crs))
        if geometry.is_empty:
            continue
        area = geodesic_area_m2(geometry)
        if area >= min_area:
            places.append(_Place(region, geometry, area))
    return sorted(places, key=lambda place: (-place.geometry.bounds[3], place.geometry.bounds[0]))


def _change(
    number: int,
    place: _Place,
    words: tuple[Caption, tuple[str, ...]],
    card: ModelCard,
    names: tuple[str, str],
    dates: tuple[SceneDate, SceneDate],
) -> Change:
    caption, alternatives = words
    return Change(
        geometry=place.geometry,
        id=number,
        caption=caption.text,
        alternatives=alternatives,
        score=float(caption.score),
        change_probability=float(place.region.mean_probability),
        area_m2=float(place.area_m2),
        date_before=dates[0].value,
        date_after=dates[1].value,
        before=names[0],
        after=names[1],
        model=card.name,
        model_version=card.version,
    )
