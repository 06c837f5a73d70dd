"""Virtual rasters of our own: some bands of a scene with a mask of where they have data, and these warped.

GDAL reads both as texts. The bands come out as a picture (a palette becomes its colours) and what is masked
comes out as 0, so that nothing of it can be mixed into its surroundings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
from affine import Affine
from rasterio.control import GroundControlPoint
from rasterio.dtypes import dtype_rev, typename_fwd

from tiling.errors import UnsafeReference

# Fine enough that not even a millionth part of what is masked can be mixed into a pixel that counts.
MASK_TYPE = "float32"
# Of 255: below it a pixel of a scene is transparent.
OPAQUE = 250
# The warper's approximation of the map projection is at most this many source pixels off.
WARP_TOLERANCE = 0.01
_ALPHA = 4  # the component of a palette


@dataclass(frozen=True)
class Picture:
    """What is taken of a scene.

    Attributes:
        source: the raster, as GDAL opens it; see :func:`pinned`.
        width, height: its size in pixels.
        bands: for each band its number and numpy type.
        palette: the bands are all the same one, and what is taken is red, green and blue of its colours.
        masks: names of what says where there are data: "mask,1" is the mask of band 1; empty: everywhere.
        any_mask: a pixel has data if any mask says so; else only if all do.
        alpha: number of the band that has to be opaque, too, and the value at which it is; None: no band.
        clear_palette: whether some colours of the palette are transparent.
    """

    source: str
    width: int
    height: int
    bands: tuple[tuple[int, str], ...]
    palette: bool = False
    masks: tuple[str, ...] = ()
    any_mask: bool = False
    alpha: tuple[int, float] | None = None
    clear_palette: bool = False


@dataclass(frozen=True)
class Place:
    """Where a raster lies: CRS as WKT, and a transform or ground control points."""

    wkt: str
    transform: Affine
    gcps: tuple[GroundControlPoint, ...] = ()


def pinned(shown: str, source: str, driver: str) -> str:
    """Return the name by which GDAL opens ``source`` with ``driver`` alone, whatever it is to other drivers.

    Raises:
        UnsafeReference: the name cannot be written so.
    """
    if "?" not in source:
        return f"vrt://{source}?if={driver}"
    # A question mark ends a name there. A zero in the first four bytes keeps other drivers from finding text
    # of theirs in a TIFF, and in a JPEG 2000 file that says where it lies, as those on servers must.
    if driver == "GTiff" or (driver == "JP2OpenJPEG" and source.startswith("/vsi")):
        return source
    raise UnsafeReference(f"{shown}: a {driver} file with a question mark in its path is not read; rename it")


def picture_vrt(picture: Picture) -> str:
    """Return the text of a raster of the bands of a picture, pixel by pixel."""
    root = _pixels_of(picture)
    hides = bool(picture.masks) and not picture.any_mask
    for number, (band, kind) in enumerate(picture.bands, start=1):
        node = SubElement(root, "VRTRasterBand", dataType=_gdal_type(kind), band=str(number))
        source = _source(node, picture, str(band), plain=not (hides or picture.palette))
        if picture.palette:
            SubElement(source, "ColorTableComponent").text = str(number)
        if hides:
            SubElement(source, "UseMaskBand").text = "true"
    return tostring(root, encoding="unicode")


def mask_vrt(picture: Picture) -> str:
    """Return the text of a raster of one band, 1 where a picture has data and 0 elsewhere.

    It is a raster of its own because GDAL reads and warps the bands three times as fast without it. Each
    mask but the first writes only where it changes something.
    """
    root = _pixels_of(picture)
    node = SubElement(root, "VRTRasterBand", dataType=_gdal_type(MASK_TYPE), band="1")
    layers = [(name, 0) for name in picture.masks]
    if picture.clear_palette:
        layers.insert(0, ("1", _ALPHA))
    if not layers and picture.alpha is None:
        SubElement(node, "NoDataValue").text = "1"  # what GDAL fills a band without sources with
    for number, (name, component) in enumerate(layers):
        source = _source(node, picture, name, plain=False)
        if number:
            SubElement(source, "NODATA").text = "0" if picture.any_mask else "255"
        if component:
            SubElement(source, "ColorTableComponent").text = str(component)
        SubElement(source, "LUT").text = _opaque_from(255)
    if picture.alpha:
        band, most = picture.alpha
        source = _source(node, picture, str(band), plain=False)
        if layers:  # what is not wholly opaque takes from what they left
            SubElement(source, "NODATA").text = f"{most:g}"
        SubElement(source, "LUT").text = f"0:0,{most:g}:0" if layers else _opaque_from(most)
    return tostring(root, encoding="unicode")


def _opaque_from(most: float) -> str:
    """Return the table that makes 1 of what is opaque and 0 of the rest."""
    clear, opaque = ((OPAQUE - step) / 255 * most for step in (1, 0))
    return f"0:0,{clear:g}:0,{opaque:g}:1,{most:g}:1"


def _pixels_of(picture: Picture) -> Element:
    root = Element("VRTDataset", rasterXSize=str(picture.width), rasterYSize=str(picture.height))
    # Where it lies is not said here; without any place rasterio would warn.
    SubElement(root, "GeoTransform").text = "0, 1, 0, 0, 0, -1"
    return root


def _source(node: Element, picture: Picture, band: str, *, plain: bool) -> Element:
    source = SubElement(node, "SimpleSource" if plain else "ComplexSource")
    # Not shared: a handle must not serve two threads.
    SubElement(source, "SourceFilename", relativeToVRT="0", shared="0").text = picture.source
    SubElement(source, "SourceBand").text = band
    return source


@dataclass(frozen=True)
class Warp:
    """How a picture is brought onto another grid.

    Attributes:
        source, target: where the picture lies and where the grid does; the grid has no control points.
        width, height: of the grid in pixels.
        block: rows and columns that are computed together; all of them, whatever is needed of them.
        method: GDAL's name of what pixels are mixed by.
        scale: working pixels per source pixel along its columns and rows. Left alone GDAL measures it
            block by block, and so neighbouring blocks would be mixed differently.
    """

    source: Place
    target: Place
    width: int
    height: int
    block: tuple[int, int]
    method: str
    scale: tuple[float, float]


def warped_vrt(text: str, types: Sequence[str], warp: Warp) -> str:
    """Return the text of a raster on another grid; 0 outside of it.

    Args:
        text: that of the raster, see :func:`picture_vrt` and :func:`mask_vrt`. A mask keeps its full value
            only where all that a pixel was mixed from has data.
        types: numpy types of its bands.
        warp: how it is brought there.
    """
    root = Element(
        "VRTDataset", rasterXSize=str(warp.width), rasterYSize=str(warp.height), subClass="VRTWarpedDataset"
    )
    SubElement(root, "GeoTransform").text = _numbers(warp.target.transform)
    for number, kind in enumerate(types, start=1):
        SubElement(
            root, "VRTRasterBand", dataType=_gdal_type(kind), band=str(number), subClass="VRTWarpedRasterBand"
        )
    SubElement(root, "BlockXSize").text = str(warp.block[1])
    SubElement(root, "BlockYSize").text = str(warp.block[0])
    options = SubElement(root, "GDALWarpOptions")
    SubElement(options, "ResampleAlg").text = warp.method
    SubElement(options, "WorkingDataType").text = _gdal_type(np.result_type(*types).name)
    wide, high = map(repr, warp.scale)
    for name, value in (("INIT_DEST", "0"), ("XSCALE", wide), ("YSCALE", high)):
        SubElement(options, "Option", name=name).text = value
    SubElement(options, "SourceDataset", relativeToVRT="0").text = text
    approximation = SubElement(SubElement(options, "Transformer"), "ApproxTransformer")
    SubElement(approximation, "MaxError").text = repr(WARP_TOLERANCE)
    _add_way(SubElement(approximation, "BaseTransformer"), warp.source, warp.target)
    bands = SubElement(options, "BandList")
    for number in range(1, len(types) + 1):
        SubElement(bands, "BandMapping", src=str(number), dst=str(number))
    return tostring(root, encoding="unicode")


def _add_way(node: Element, source: Place, target: Place) -> None:
    """Write the way from pixels of the source over the map to pixels of the target."""
    way = SubElement(node, "GenImgProjTransformer")
    if source.gcps:
        points = SubElement(SubElement(way, "SrcGCPTransformer"), "GCPTransformer")
        SubElement(points, "Order").text = "0"  # as many terms as GDAL thinks fit for their number
        SubElement(points, "Reversed").text = "0"
        listed = SubElement(points, "GCPList")
        for number, point in enumerate(source.gcps):
            place = {"Pixel": point.col, "Line": point.row, "X": point.x, "Y": point.y}
            texts = {name: repr(float(value)) for name, value in place.items()}
            SubElement(listed, "GCP", {"Id": str(number), **texts})
    else:
        SubElement(way, "SrcGeoTransform").text = _numbers(source.transform)
        SubElement(way, "SrcInvGeoTransform").text = _numbers(~source.transform)
    if source.wkt != target.wkt:
        maps = SubElement(SubElement(way, "ReprojectTransformer"), "ReprojectionTransformer")
        SubElement(maps, "SourceSRS").text = source.wkt
        SubElement(maps, "TargetSRS").text = target.wkt
    SubElement(way, "DstGeoTransform").text = _numbers(target.transform)
    SubElement(way, "DstInvGeoTransform").text = _numbers(~target.transform)


def _gdal_type(name: str) -> str:
    return str(typename_fwd[dtype_rev[name]])


def _numbers(transform: Affine) -> str:
    return ", ".join(repr(float(value)) for value in transform.to_gdal())
