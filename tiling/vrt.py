"""Virtual rasters of strangers: refuse those that reach out of their folder.

A VRT is a text that may name any file, any address and even code to run. Only the plain mosaic that
``gdalbuildvrt`` writes passes: known elements, and sources that are ordinary rasters in or under its folder.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from tiling.errors import SceneTooLarge, UnsafeReference

MAX_BYTES = 16 * 2**20
MAX_SOURCES = 10_000
_REMEDY = "rebuild it with gdalbuildvrt beside its sources, or convert it with gdal_translate to a GeoTIFF"
_DATASET = {
    "VRTDataset",
    "SRS",
    "GeoTransform",
    "GCPList",
    "GCP",
    "OverviewList",
    "Metadata",
    "MDI",
    "BlockXSize",
    "BlockYSize",
}
_BAND = {
    "VRTRasterBand", "MaskBand", "NoDataValue", "HideNoDataValue", "ColorInterp", "ColorTable", "Entry",
    "Description", "UnitType", "Offset", "Scale", "CategoryNames", "Category", "Histograms", "HistItem",
    "HistMin", "HistMax", "BucketCount", "IncludeOutOfRange", "Approximate", "HistCounts",
}  # fmt: skip
_SOURCE = {
    "SimpleSource", "ComplexSource", "SourceFilename", "SourceBand", "SourceProperties", "SrcRect", "DstRect",
    "NODATA", "UseMaskBand", "ScaleOffset", "ScaleRatio",
}  # fmt: skip
_ALLOWED = _DATASET | _BAND | _SOURCE


def looks_like_vrt(head: bytes) -> bool:
    """Tell whether GDAL would take a file that starts with ``head`` for a VRT."""
    return b"<vrtdataset" in head.lower()


def checked_sources(shown: str, path: Path) -> list[Path]:
    """Return the files the VRT at ``path`` is made of, each once, all of them in or under its folder.

    Raises:
        UnsafeReference: it names something elsewhere, or holds an element that is not checked.
        SceneTooLarge: the file is larger than 16 MiB or names more than 10,000 sources.
    """
    if path.stat().st_size > MAX_BYTES:
        raise SceneTooLarge(f"{shown}: a VRT of more than {MAX_BYTES // 2**20} MiB; convert it to a GeoTIFF")
    text = path.read_bytes()
    if b"<!" in text.replace(b"<!--", b"").replace(b"<![CDATA[", b""):
        raise UnsafeReference(f"{shown}: the VRT declares a document type or entities; {_REMEDY}")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise UnsafeReference(f"{shown}: the VRT is not well-formed ({error}); {_REMEDY}") from error
    folder = path.resolve().parent
    sources: dict[Path, None] = {}
    for element in root.iter():
        # GDAL does not mind upper and lower case; an element spelt otherwise is unknown here and refused.
        if element.tag not in _ALLOWED or "subclass" in {name.lower() for name in element.attrib}:
            kind = next((v for n, v in element.attrib.items() if n.lower() == "subclass"), element.tag)
            raise UnsafeReference(f"{shown}: the VRT uses {kind}, which is not allowed; {_REMEDY}")
        if element.tag == "SourceFilename":
            sources[_source(shown, folder, element)] = None
    if len(sources) > MAX_SOURCES:
        raise SceneTooLarge(
            f"{shown}: the VRT names {len(sources)} sources, more than {MAX_SOURCES}; merge some"
        )
    return list(sources)


def _source(shown: str, folder: Path, element: ElementTree.Element) -> Path:
    name = (element.text or "").strip()
    relative = element.get("relativeToVRT", element.get("relativetoVRT", "0")) == "1"
    source = (folder / name if relative else Path(name)).resolve()
    plain = name and ":" not in source.as_posix()[len(source.drive) :] and "<" not in name
    if not plain or not source.is_relative_to(folder):
        raise UnsafeReference(
            f"{shown}: the VRT names '{name}', which is not in or under its folder; {_REMEDY}"
        )
    return source
