"""Pairs from STAC: items become scenes by their geometry, date, clouds and one of their assets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pystac
import shapely
from shapely.geometry import MultiPolygon, Polygon, shape

from tiling import TilingError, locate
from workflows.addresses import public_path
from workflows.pairs.catalog import Catalog, Scene, Skipped, choose, named_rows
from workflows.pairs.options import CatalogOptions
from workflows.pairs.rules import pair_up
from workflows.pairs.stac_client import StacItem, StacUnreadable, resolved, stac_items
from workflows.progress import Progress, tell
from workflows.report.geojson import box_across, joined, polygons_in

# What is raised where something is missing or of a wrong type in a stranger's item.
_ODD = (
    pystac.STACError,
    pystac.STACTypeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
)
_RASTERS = (".tif", ".tiff", ".jp2", ".png", ".jpg", ".jpeg", ".vrt")


class _Unusable(Exception):
    """An item that is no scene; ``kind`` and message as those of :class:`workflows.pairs.catalog.Skipped`."""

    def __init__(self, kind: str, line: str):
        super().__init__(_written(line))
        self.kind = kind


def stac_catalog(source: str, options: CatalogOptions, progress: Progress | None = None) -> Catalog:
    """Pair the items of a STAC source unopened; a place is called by ``grid:code``, else by the collection.

    Raises:
        CatalogInvalid, CatalogUnreachable, ModuleNotFoundError: see
            :func:`workflows.pairs.stac_client.stac_items`.
    """
    scenes: list[Scene] = []
    skipped: list[Skipped] = []
    count = 0
    for count, found in enumerate(stac_items(source, options), start=1):
        tell(progress, "items", count, count)
        try:
            if isinstance(found.content, StacUnreadable):
                raise _Unusable("unreadable", f"{found.content} (left out)")
            scene = _scene_of(found.content, found, options)
            if scene is None:
                skipped.append(Skipped("outside the box or collections", None))
            else:
                scenes.append(scene)
        except _Unusable as error:
            skipped.append(Skipped(error.kind, str(error)))
    chosen, excluded, warnings = choose(scenes, options)
    drafts, unpaired = pair_up(chosen, options, label_places=True)
    return Catalog(
        f"STAC {public_path(source)}", named_rows(drafts), count, [*skipped, *excluded, *unpaired], warnings
    )


def _written(text: object) -> str:
    """Return a text of a stranger as it can be written: JSON may have halves of characters."""
    return str(text).encode("utf-8", "replace").decode()


def _scene_of(document: Mapping[str, Any], found: StacItem, options: CatalogOptions) -> Scene | None:
    """Return the scene of an item, None for one that is not asked for."""
    name = document.get("id") or public_path(found.base)
    try:
        item = pystac.Item.from_dict(dict(document), preserve_dict=False)
        item.id = _written(item.id)
        return _scene(item, found, options.assets) if _asked_for(item, options) else None
    except _ODD as error:
        raise _Unusable("no STAC item", f"{name}: left out, this is no valid STAC item") from error


def _asked_for(item: pystac.Item, options: CatalogOptions) -> bool:
    if options.collections and item.collection_id not in options.collections:
        return False
    return options.bounds is None or bool(_ground(item).intersects(box_across(*options.bounds)))


def _ground(item: pystac.Item) -> Polygon | MultiPolygon:
    try:
        ground = shapely.make_valid(shapely.force_2d(shape(item.geometry or {})))
        finite = np.isfinite(shapely.get_coordinates(ground)).all()
    except (shapely.errors.ShapelyError, *_ODD):
        ground, finite = None, False
    parts = polygons_in(ground)
    if not parts or not finite:
        raise _Unusable("without a geometry", f"{item.id}: left out, it has no polygon that says where it is")
    return joined(parts)


def _scene(item: pystac.Item, found: StacItem, assets: Sequence[str]) -> Scene:
    date = item.datetime or item.common_metadata.start_datetime
    if date is None:
        raise _Unusable("without a date", f"{item.id}: left out, it has no date")
    clouds = item.properties.get("eo:cloud_cover")
    site = item.properties.get("grid:code") or item.collection_id
    return Scene(
        name=item.id,
        location=_location(item, _chosen(item, assets), found),
        site=_written(site) if site else None,
        date=date.date().isoformat(),
        cloud=float(clouds) if isinstance(clouds, int | float) and 0 <= clouds <= 100 else None,
        footprint=_ground(item),
    )


def _chosen(item: pystac.Item, assets: Sequence[str]) -> pystac.Asset:
    """Return the asset that is asked for, else the one to look at, else the only one with data."""
    for name in assets or ("visual",):
        if name in item.assets:
            return item.assets[name]
        with_role = [asset for asset in item.assets.values() if name in (asset.roles or [])]
        if len(with_role) == 1:
            return with_role[0]
    data = {name: asset for name, asset in item.assets.items() if _has_data(asset)}
    if not assets and len(data) == 1:
        return next(iter(data.values()))
    missing = " or ".join(assets) if assets else "'visual' and not exactly one with data"
    names = ", ".join(data or item.assets) or "it has none"
    raise _Unusable(
        "without the asset", f"{item.id}: left out, it has no asset {missing}; choose with --asset: {names}"
    )


def _has_data(asset: pystac.Asset) -> bool:
    roles = set(asset.roles or [])
    kind = asset.media_type or ""
    raster = kind.startswith("image/") or public_path(asset.href).lower().endswith(_RASTERS)
    return "data" in roles or (not roles and raster)


def _location(item: pystac.Item, asset: pystac.Asset, found: StacItem) -> str:
    """Return where the raster of an asset is; what a server says never leads to a file of this machine."""
    try:
        # A table of pairs has no spaces around a name.
        href = resolved(asset.href.strip(), found.base)
        location = locate(href)
    except (TilingError, StacUnreadable) as error:
        raise _Unusable("unreadable", f"{item.id}: {error} (left out)") from error
    if "\0" in href or _written(href) != href:
        raise _Unusable("unreadable", f"{item.id}: left out, its asset has an address that is no text")
    if location.local is not None:
        if found.remote:
            raise _Unusable("unreadable", f"{item.id}: left out, it names a file of this machine")
        if not os.path.exists(location.local):
            raise _Unusable("unreadable", f"{item.id}: left out, there is no {href}")
    return href
