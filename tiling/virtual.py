"""Virtual rasters of our own: some bands of a scene with a mask of where they have data, and these warped.

GDAL reads both as texts. The bands come out as a picture (a palette becomes its colours) and what is masked
comes out as 0, so that nothing of it can be mixed into its surroundings.
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
from affine import Affine
from rasterio.control import GroundControlPoint
from rasterio.dtypes import dtype_rev, typename_fwd

# Of 255: below it a pixel of a scene is transparent.
OPAQUE = 250
_ALPHA = 4  # the component of a palette


@dataclass(frozen=True)
class Picture:
    """What is taken of a scene.

    Attributes:
        source: the raster, as GDAL opens it.
        width, height: its size in pixels.
        bands: for each band its number and numpy type.
        palette: the bands are all the same one, and what is taken is red, green and blue of its colours.
        masks: names of what says where there are data: "mask,1" is the mask of band 1; empty: everywhere.
        any_mask: a pixel has data if any mask says so; else only if all do.
        clear_palette: whether some colours of the palette are transparent.
    """

    source: str
    width: int
    height: int
    bands: tuple[tuple[int, str], ...]
    palette: bool = False
    masks: tuple[str, ...] = ()
    any_mask: bool = False
    clear_palette: bool = False

    @property
    def mask(self) -> tuple[str, int]:
        """The type of the mask and its value where there are data; 0 elsewhere.

        The finer the mask, the surer it is that a pixel that kept its full value when it was warped has
        nothing masked in it; but all is warped in a type that holds them all, which should not grow.
        """
        kinds = {np.dtype(kind).kind for _, kind in self.bands}
        if "f" in kinds:
            return "float32", 65535
        return ("int16", 32767) if "i" in kinds else ("uint16", 65535)


@dataclass(frozen=True)
class Place:
    """Where a raster lies: CRS as WKT, and a transform or ground control points."""

    wkt: str
    transform: Affine
    gcps: tuple[GroundControlPoint, ...] = ()


def picture_vrt(picture: Picture) -> str:
    """Return the text of a raster of the picture's bands and its mask as the last one, pixel by pixel."""
    root = Element("VRTDataset", rasterXSize=str(picture.width), rasterYSize=str(picture.height))
    # Where it lies is not said here; without any place rasterio would warn.
    SubElement(root, "GeoTransform").text = "0, 1, 0, 0, 0, -1"
    hides = bool(picture.masks) and not picture.any_mask
    for number, (band, kind) in enumerate(picture.bands, start=1):
        node = SubElement(root, "VRTRasterBand", dataType=_gdal_type(kind), band=str(number))
        source = _source(node, picture, str(band), plain=not (hides or picture.palette))
        if picture.palette:
            SubElement(source, "ColorTableComponent").text = str(number)
        if hides:
            SubElement(source, "UseMaskBand").text = "true"
    kind, full = picture.mask
    number = len(picture.bands) + 1
    _add_mask(SubElement(root, "VRTRasterBand", dataType=_gdal_type(kind), band=str(number)), picture, full)
    return tostring(root, encoding="unicode")


def _add_mask(node: Element, picture: Picture, full: int) -> None:
    """Lay the masks over each other: each next one writes only where it changes something."""
    steps = f"0:0,{OPAQUE - 1}:0,{OPAQUE}:{full},255:{full}"
    layers = [(name, 0) for name in picture.masks]
    if picture.clear_palette:
        layers.insert(0, ("1", _ALPHA))
    if not layers:
        SubElement(node, "NoDataValue").text = str(full)  # what GDAL fills a band without sources with
    for number, (name, component) in enumerate(layers):
        source = _source(node, picture, name, plain=False)
        if number:
            SubElement(source, "NODATA").text = "0" if picture.any_mask else "255"
        if component:
            SubElement(source, "ColorTableComponent").text = str(component)
        SubElement(source, "LUT").text = steps


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
        tolerance: error of the way from grid to picture, in source pixels.
    """

    source: Place
    target: Place
    width: int
    height: int
    block: tuple[int, int]
    method: str
    scale: tuple[float, float]
    tolerance: float


def warped_vrt(picture: Picture, warp: Warp) -> str:
    """Return the text of a picture and its mask (see :func:`picture_vrt`) on another grid.

    The mask keeps its full value only where all that a pixel was mixed from has data; outside it is 0.
    """
    root = Element(
        "VRTDataset", rasterXSize=str(warp.width), rasterYSize=str(warp.height), subClass="VRTWarpedDataset"
    )
    SubElement(root, "GeoTransform").text = _numbers(warp.target.transform)
    types = [*(kind for _, kind in picture.bands), picture.mask[0]]
    for number, kind in enumerate(types, start=1):
        SubElement(
            root, "VRTRasterBand", dataType=_gdal_type(kind), band=str(number), subClass="VRTWarpedRasterBand"
        )
    SubElement(root, "BlockXSize").text = str(warp.block[1])
    SubElement(root, "BlockYSize").text = str(warp.block[0])
    options = SubElement(root, "GDALWarpOptions")
    SubElement(options, "ResampleAlg").text = warp.method
    SubElement(options, "WorkingDataType").text = _gdal_type(np.result_type(*types).name)
    for name, value in (
        ("INIT_DEST", "0"),
        ("XSCALE", repr(warp.scale[0])),
        ("YSCALE", repr(warp.scale[1])),
    ):
        SubElement(options, "Option", name=name).text = value
    SubElement(options, "SourceDataset", relativeToVRT="0").text = picture_vrt(picture)
    approximation = SubElement(SubElement(options, "Transformer"), "ApproxTransformer")
    SubElement(approximation, "MaxError").text = repr(warp.tolerance)
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
            place = (("Pixel", point.col), ("Line", point.row), ("X", point.x), ("Y", point.y))
            node = SubElement(listed, "GCP", Id=str(number))
            for name, value in place:
                node.set(name, repr(float(value)))
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
