"""Write VRTs of our own: selected bands of a scene, their mask, and both warped.

A palette becomes its colours, and masked pixels become 0, so that nothing of them is mixed into neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
from affine import Affine
from rasterio.control import GroundControlPoint
from rasterio.dtypes import dtype_rev, typename_fwd

from tiling.errors import UnsafeReference

# So fine that not even a millionth of a masked pixel goes unnoticed in a warped one.
MASK_TYPE = "float32"
# Of 255; below it a pixel is transparent.
OPAQUE = 250
# Largest error of the warper's approximation of the projection, in source pixels.
WARP_TOLERANCE = 0.01
_ALPHA = 4  # component of a palette


@dataclass(frozen=True)
class Selection:
    """Bands and masks that are read of a scene.

    Attributes:
        source: the raster, as GDAL opens it; see :func:`pinned`.
        bands: number and numpy type of each band.
        palette: take red, green and blue of the colour table of the one band.
        masks: masks of bands: "mask,1" is that of band 1; empty: all pixels have data.
        any_mask: a pixel has data if any mask says so; otherwise only if all do.
        alpha: number of an alpha band and the value at which it is opaque; None: not used.
        clear_palette: some colours of the palette are transparent.
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
class MapPosition:
    """Position of a raster on the map: CRS as WKT, and a transform or ground control points."""

    wkt: str
    transform: Affine
    gcps: tuple[GroundControlPoint, ...] = ()


def pinned(shown: str, source: str, driver: str) -> str:
    """Return a name by which GDAL opens ``source`` with ``driver`` only."""
    if "?" not in source:
        return f"vrt://{source}?if={driver}"
    # A question mark would end the name. The zero in the first four bytes of a TIFF, and of a georeferenced
    # JPEG 2000 file as on servers, keeps the text-based drivers away.
    if driver == "GTiff" or (driver == "JP2OpenJPEG" and source.startswith("/vsi")):
        return source
    raise UnsafeReference(f"{shown}: a {driver} file with a question mark in its path is not read; rename it")


def bands_vrt(selection: Selection) -> str:
    """Return the VRT of the selected bands."""
    root = _pixels_of(selection)
    hides = bool(selection.masks) and not selection.any_mask
    for number, (band, kind) in enumerate(selection.bands, start=1):
        node = SubElement(root, "VRTRasterBand", dataType=gdal_type(kind), band=str(number))
        source = _source(node, selection, str(band), plain=not (hides or selection.palette))
        if selection.palette:
            SubElement(source, "ColorTableComponent").text = str(number)
        if hides:
            SubElement(source, "UseMaskBand").text = "true"
    return tostring(root, encoding="unicode")


def mask_vrt(selection: Selection) -> str:
    """Return the VRT of one band, 1 where the selection has data and 0 elsewhere.

    It is separate because GDAL reads and warps the bands three times as fast without a mask. Each mask but
    the first writes only where it changes something.
    """
    root = _pixels_of(selection)
    node = SubElement(root, "VRTRasterBand", dataType=gdal_type(MASK_TYPE), band="1")
    layers = [(name, 0) for name in selection.masks]
    if selection.clear_palette:
        layers.insert(0, ("1", _ALPHA))
    if not layers and selection.alpha is None:
        SubElement(node, "NoDataValue").text = "1"  # what GDAL fills a band without sources with
    for number, (name, component) in enumerate(layers):
        source = _source(node, selection, name, plain=False)
        if number:
            SubElement(source, "NODATA").text = "0" if selection.any_mask else "255"
        if component:
            SubElement(source, "ColorTableComponent").text = str(component)
        SubElement(source, "LUT").text = _opaque_from(255)
    if selection.alpha:
        band, most = selection.alpha
        source = _source(node, selection, str(band), plain=False)
        if layers:  # write only where it is not opaque
            SubElement(source, "NODATA").text = f"{most:g}"
        SubElement(source, "LUT").text = f"0:0,{most:g}:0" if layers else _opaque_from(most)
    return tostring(root, encoding="unicode")


def _opaque_from(most: float) -> str:
    """Return the lookup table that makes 1 of opaque values and 0 of the others."""
    clear, opaque = ((OPAQUE - step) / 255 * most for step in (1, 0))
    return f"0:0,{clear:g}:0,{opaque:g}:1,{most:g}:1"


def _pixels_of(selection: Selection) -> Element:
    root = Element("VRTDataset", rasterXSize=str(selection.width), rasterYSize=str(selection.height))
    # A dummy: rasterio would warn without georeferencing.
    SubElement(root, "GeoTransform").text = "0, 1, 0, 0, 0, -1"
    return root


def _source(node: Element, selection: Selection, band: str, *, plain: bool) -> Element:
    source = SubElement(node, "SimpleSource" if plain else "ComplexSource")
    # Not shared: a handle must not be used by two threads.
    SubElement(source, "SourceFilename", relativeToVRT="0", shared="0").text = selection.source
    SubElement(source, "SourceBand").text = band
    return source


@dataclass(frozen=True)
class Warp:
    """How a selection is warped onto another grid.

    Attributes:
        source, target: positions of the selection and of the grid, which has no control points.
        block: rows and columns that are computed together, always in full.
        method: GDAL's name of the resampling.
        scale: working pixels per source pixel along its columns and rows; GDAL would measure it block by
            block, and neighbouring blocks would be resampled differently.
    """

    source: MapPosition
    target: MapPosition
    width: int
    height: int
    block: tuple[int, int]
    method: str
    scale: tuple[float, float]


def warped_vrt(text: str, types: Sequence[str], warp: Warp) -> str:
    """Return the VRT of a raster on another grid; 0 outside.

    Args:
        text: VRT of the raster, see :func:`bands_vrt` and :func:`mask_vrt`. A mask keeps its full value only
            where all source pixels have data.
    """
    root = Element(
        "VRTDataset", rasterXSize=str(warp.width), rasterYSize=str(warp.height), subClass="VRTWarpedDataset"
    )
    SubElement(root, "GeoTransform").text = numbers_of(warp.target.transform)
    for number, kind in enumerate(types, start=1):
        SubElement(
            root, "VRTRasterBand", dataType=gdal_type(kind), band=str(number), subClass="VRTWarpedRasterBand"
        )
    SubElement(root, "BlockXSize").text = str(warp.block[1])
    SubElement(root, "BlockYSize").text = str(warp.block[0])
    options = SubElement(root, "GDALWarpOptions")
    SubElement(options, "ResampleAlg").text = warp.method
    SubElement(options, "WorkingDataType").text = gdal_type(np.result_type(*types).name)
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


def _add_way(node: Element, source: MapPosition, target: MapPosition) -> None:
    """Write the transformation from source pixels over the map to target pixels."""
    way = SubElement(node, "GenImgProjTransformer")
    if source.gcps:
        points = SubElement(SubElement(way, "SrcGCPTransformer"), "GCPTransformer")
        SubElement(points, "Order").text = "0"  # GDAL chooses it by the number of points
        SubElement(points, "Reversed").text = "0"
        listed = SubElement(points, "GCPList")
        for number, point in enumerate(source.gcps):
            values = {"Pixel": point.col, "Line": point.row, "X": point.x, "Y": point.y}
            texts = {name: repr(float(value)) for name, value in values.items()}
            SubElement(listed, "GCP", {"Id": str(number), **texts})
    else:
        SubElement(way, "SrcGeoTransform").text = numbers_of(source.transform)
        SubElement(way, "SrcInvGeoTransform").text = numbers_of(~source.transform)
    if source.wkt != target.wkt:
        maps = SubElement(SubElement(way, "ReprojectTransformer"), "ReprojectionTransformer")
        SubElement(maps, "SourceSRS").text = source.wkt
        SubElement(maps, "TargetSRS").text = target.wkt
    SubElement(way, "DstGeoTransform").text = numbers_of(target.transform)
    SubElement(way, "DstInvGeoTransform").text = numbers_of(~target.transform)


def gdal_type(name: str) -> str:
    """Return GDAL's name of a numpy type."""
    return str(typename_fwd[dtype_rev[name]])


def numbers_of(transform: Affine) -> str:
    """Return a transform as the text of a VRT, to the last bit."""
    return ", ".join(repr(float(value)) for value in transform.to_gdal())
