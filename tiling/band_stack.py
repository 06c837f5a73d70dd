"""Stack single-band rasters of one scene as one VRT."""

from collections.abc import Mapping
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

from tiling.scene import SceneInfo
from tiling.vrt_writing import gdal_type, numbers_of

_COLORS = {"red": "Red", "green": "Green", "blue": "Blue"}


def stack_vrt(bands: Mapping[str, SceneInfo]) -> str:
    """Return a VRT, for the folder of the rasters, with one band for each of ``bands``, named by its key."""
    first = next(iter(bands.values()))
    root = Element("VRTDataset", rasterXSize=str(first.width), rasterYSize=str(first.height))
    SubElement(root, "SRS").text = first.crs.to_wkt()
    SubElement(root, "GeoTransform").text = numbers_of(first.transform)
    for number, (name, info) in enumerate(bands.items(), start=1):
        band = SubElement(root, "VRTRasterBand", dataType=gdal_type(info.dtypes[0]), band=str(number))
        SubElement(band, "Description").text = name
        if name in _COLORS:
            SubElement(band, "ColorInterp").text = _COLORS[name]
        if info.nodata is not None:
            SubElement(band, "NoDataValue").text = repr(info.nodata)
        for tag, value, usual in (("Offset", info.offsets[0], 0.0), ("Scale", info.scales[0], 1.0)):
            if value != usual:
                SubElement(band, tag).text = repr(value)
        source = SubElement(band, "SimpleSource")
        SubElement(source, "SourceFilename", relativeToVRT="1").text = Path(info.source).name
        SubElement(source, "SourceBand").text = "1"
    return tostring(root, encoding="unicode")
