"""Pairs from STAC: items become scenes by their geometry, date, cloud cover and one of their assets."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pystac
import shapely
from shapely.geometry import MultiPolygon, Polygon, shape

from tiling import TilingError, locate, mended, polygons_in
from workflows.addresses import public_path
from workflows.errors import CatalogInvalid
from workflows.pairs.catalog import Catalog, Scene, Skipped, choose, named_rows
from workflows.pairs.options import CatalogOptions
from workflows.pairs.rules import pair_up
from workflows.pairs.stac_documents import StacUnreadable, resolved
from workflows.pairs.stac_items import StacItem, stac_items
from workflows.progress import Progress, report_progress
from workflows.report.geojson import box_across, joined

# Raised for missing members, or members of a wrong type, in an untrusted item.
_INVALID_ITEM = (
    pystac.STACError,
    pystac.STACTypeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
)
MAX_CORNERS = 50_000_000
"""Corners that the outlines of all scenes of a source may have."""
_RASTERS = (".tif", ".tiff", ".jp2", ".png", ".jpg", ".jpeg", ".vrt")


class _Unusable(Exception):
    """An item that is no scene; ``kind`` and message as those of :class:`workflows.pairs.catalog.Skipped`."""

    def __init__(self, kind: str, line: str):
        super().__init__(_encodable(line))
        self.kind = kind


def stac_catalog(source: str, options: CatalogOptions, progress: Progress | None = None) -> Catalog:
    """Pair the items of a STAC source without opening scenes; sites are ``grid:code`` or the collection."""
    scenes, skipped, count = stac_scenes(source, options, progress)
    chosen, excluded, warnings = choose(scenes, options)
    pairs, unpaired = pair_up(chosen, options)
    return Catalog(
        f"STAC {public_path(source)}", named_rows(pairs), count, [*skipped, *excluded, *unpaired], warnings
    )


def stac_scenes(
    source: str, options: CatalogOptions, progress: Progress | None = None
) -> tuple[list[Scene], list[Skipped], int]:
    """Return the scenes of a STAC source, what was left out, and the number of items."""
    scenes: list[Scene] = []
    skipped: list[Skipped] = []
    count = corners = 0
    for count, found in enumerate(stac_items(source, options), start=1):
        report_progress(progress, "items", count, count)
        try:
            if isinstance(found.content, StacUnreadable):
                raise _Unusable("unreadable", f"{found.content} (left out)")
            scene = _scene_of(found.content, found, options)
            if scene is None:
                skipped.append(Skipped("outside the box or collections"))
            else:
                scenes.append(scene)
                corners += int(shapely.get_num_coordinates(scene.footprint))
                if corners > MAX_CORNERS:
                    raise CatalogInvalid(
                        f"{public_path(source)}: the outlines of its items have more than {MAX_CORNERS:,} "
                        "corners; choose a part with --collection, --bbox, --from and --to"
                    )
        except _Unusable as error:
            name, _, reason = str(error).partition(": ")
            skipped.append(Skipped(error.kind, name, reason))
    return scenes, skipped, count


def _encodable(text: object) -> str:
    """Return a text without the lone surrogates that JSON may contain."""
    return str(text).encode("utf-8", "replace").decode()


def _scene_of(document: Mapping[str, Any], found: StacItem, options: CatalogOptions) -> Scene | None:
    """Return the scene of an item, None outside the box or collections of the options."""
    name = document.get("id") or public_path(found.base)
    try:
        item = pystac.Item.from_dict(dict(document), preserve_dict=False)
        item.id = _encodable(item.id)
        return _scene(item, found, options.assets) if _is_requested(item, options) else None
    except _INVALID_ITEM as error:
        raise _Unusable("no STAC item", f"{name}: left out, not a valid STAC item") from error


def _is_requested(item: pystac.Item, options: CatalogOptions) -> bool:
    if options.collections and item.collection_id not in options.collections:
        return False
    return options.bounds is None or bool(_footprint(item).intersects(box_across(*options.bounds)))


def _footprint(item: pystac.Item) -> Polygon | MultiPolygon:
    try:
        with np.errstate(all="ignore"):  # corners may be infinite
            ground = mended(shapely.force_2d(shape(item.geometry or {})))
        # Beyond 180 degrees where it crosses that line.
        is_in_degrees = (np.abs(shapely.get_coordinates(ground)) <= 360).all()
    except (shapely.errors.ShapelyError, *_INVALID_ITEM):
        ground, is_in_degrees = None, False
    parts = polygons_in(ground)
    if not parts or not is_in_degrees:
        raise _Unusable("without a geometry", f"{item.id}: left out, it has no polygon in degrees")
    return joined(parts)


def _scene(item: pystac.Item, found: StacItem, assets: Sequence[str]) -> Scene:
    date = item.datetime or item.common_metadata.start_datetime
    if date is None:
        raise _Unusable("without a date", f"{item.id}: left out, it has no date")
    clouds = item.properties.get("eo:cloud_cover")
    site = item.properties.get("grid:code") or item.collection_id
    return Scene(
        name=item.id,
        location=_location(item, _asset(item, assets), found),
        site=_encodable(site) if site else None,
        date=date.date().isoformat(),
        cloud=float(clouds) if isinstance(clouds, int | float) and 0 <= clouds <= 100 else None,
        footprint=_footprint(item),
    )


def _asset(item: pystac.Item, assets: Sequence[str]) -> pystac.Asset:
    """Return the first of ``assets`` by name or role; by default ``visual``, else the only one with data."""
    for name in assets or ("visual",):
        if name in item.assets:
            return item.assets[name]
        with_role = [asset for asset in item.assets.values() if name in (asset.roles or [])]
        if len(with_role) == 1:
            return with_role[0]
    data = {name: asset for name, asset in item.assets.items() if _has_data(asset)}
    if not assets and len(data) == 1:
        return next(iter(data.values()))
    missing = " or ".join(assets) if assets else "'visual', and not exactly one with data"
    names = ", ".join(data or item.assets) or "it has none"
    raise _Unusable(
        "without the asset", f"{item.id}: left out, no asset {missing}; choose with --asset: {names}"
    )


def _has_data(asset: pystac.Asset) -> bool:
    roles = set(asset.roles or [])
    kind = asset.media_type or ""
    is_raster = kind.startswith("image/") or public_path(asset.href).lower().endswith(_RASTERS)
    return "data" in roles or (not roles and is_raster)


def _location(item: pystac.Item, asset: pystac.Asset, found: StacItem) -> str:
    """Return the path or address of an asset; an item from a server must not name a local file."""
    try:
        # A table of pairs strips spaces around a name.
        href = resolved(asset.href.strip(), found.base)
        location = locate(href)
    except (TilingError, StacUnreadable) as error:
        raise _Unusable("unreadable", f"{item.id}: {error} (left out)") from error
    if "\0" in href or _encodable(href) != href:
        raise _Unusable("unreadable", f"{item.id}: left out, the address of its asset is not valid text")
    if location.local is not None:
        if found.remote:
            raise _Unusable("unreadable", f"{item.id}: left out, a server's item must not name a local file")
        if not os.path.exists(location.local):
            raise _Unusable("unreadable", f"{item.id}: left out, there is no {href}")
    return href
