"""Virtual rasters of strangers: refuse those that reach out of their folder.

A VRT is a text that may name any file, any address and even code to run. Only the plain mosaic that
``gdalbuildvrt`` writes passes: known elements, and sources that are ordinary rasters in or under its folder.
GDAL reads XML more loosely than we do, so it is given what we read and never the stranger's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from tiling.errors import SceneTooLarge, UnsafeReference
from tiling.plain import plain_only

MAX_BYTES = 16 * 2**20
MAX_SOURCES = 10_000
_REMEDY = "rebuild it with gdalbuildvrt beside its sources, or convert it with gdal_translate to a GeoTIFF"
_ALLOWED = {
    "VRTDataset", "SRS", "GeoTransform", "GCPList", "GCP", "OverviewList", "Metadata", "MDI", "BlockXSize",
    "BlockYSize",
    "VRTRasterBand", "MaskBand", "NoDataValue", "HideNoDataValue", "ColorInterp", "ColorTable", "Entry",
    "Description", "UnitType", "Offset", "Scale", "CategoryNames", "Category", "Histograms", "HistItem",
    "HistMin", "HistMax", "BucketCount", "IncludeOutOfRange", "Approximate", "HistCounts",
    "SimpleSource", "ComplexSource", "SourceFilename", "SourceBand", "SourceProperties", "SrcRect", "DstRect",
    "NODATA", "UseMaskBand", "ScaleOffset", "ScaleRatio",
}  # fmt: skip
# In lower case: GDAL does not mind, and it would take an attribute for an element of the same name.
_ATTRIBUTES = {
    "rasterxsize", "rasterysize", "blockxsize", "blockysize", "datatype", "band", "resampling", "shared",
    "dataaxistosrsaxismapping", "coordinateepoch", "relativetovrt", "xoff", "yoff", "xsize", "ysize",
    "projection", "id", "info", "pixel", "line", "x", "y", "z", "gcppixel", "gcpline", "c1", "c2", "c3", "c4",
    "key", "domain", "format",
}  # fmt: skip
# A band of a mask has the deepest: VRTDataset, MaskBand, VRTRasterBand, SimpleSource, SourceFilename.
_DEEPEST = 8


@dataclass(frozen=True)
class CheckedVRT:
    """A VRT whose elements and sources were checked.

    Attributes:
        root: what was read.
        named: the file that each element names that names a source.
        bands: the highest number of a band that is asked for, of each source.
    """

    root: Element
    named: Mapping[Element, Path]
    bands: Mapping[Path, int]

    @property
    def sources(self) -> list[Path]:
        """The files it is made of, each once."""
        return list(dict.fromkeys(self.named.values()))

    def text(self, names: Mapping[Path, str], mask: str | None = None) -> str:
        """Return the VRT written anew, its sources called ``names``.

        ``mask`` is the name of a raster that says where there are data, unless the VRT says so itself.
        """
        # Nothing is read of overviews, and thousands of them would be made for ever.
        for overviews in self.root.findall("OverviewList"):
            self.root.remove(overviews)
        for element, path in self.named.items():
            shared = element.get("shared")
            element.attrib = {"relativeToVRT": "0"} | ({"shared": shared} if shared in ("0", "1") else {})
            element.text = names[path]
        if mask is not None and self.root.find("MaskBand") is None:
            band = SubElement(SubElement(self.root, "MaskBand"), "VRTRasterBand", dataType="Byte")
            source = SubElement(band, "SimpleSource")
            SubElement(source, "SourceFilename", relativeToVRT="0").text = mask
            SubElement(source, "SourceBand").text = "1"
        return ElementTree.tostring(self.root, encoding="unicode")


def looks_like_vrt(head: bytes) -> bool:
    """Return whether GDAL would take a file that starts with ``head`` for a VRT."""
    return b"<vrtdataset" in head.lower()


def checked_vrt(shown: str, path: Path) -> CheckedVRT:
    """Return the VRT at ``path``, all its sources in or under its folder; these are not looked at.

    Raises:
        UnsafeReference: it names something elsewhere, or holds an element that is not checked.
        SceneTooLarge: the file is larger than 16 MiB or names more than 10,000 sources.
    """
    root = _parsed(shown, path)
    folder = path.resolve().parent
    named: dict[Element, Path] = {}
    for element in _elements(shown, root):
        own = {name.lower(): value for name, value in element.attrib.items()}
        # GDAL does not mind upper and lower case; an element spelt otherwise is unknown here and refused.
        if element.tag not in _ALLOWED or "subclass" in own:
            kind = own.get("subclass", element.tag)
            raise UnsafeReference(f"{shown}: the VRT uses {kind}, which is not allowed; {_REMEDY}")
        odd = sorted(own.keys() - _ATTRIBUTES)
        if odd or len(own) < len(element.attrib):
            attribute = odd[0] if odd else "one twice"
            raise UnsafeReference(
                f"{shown}: the VRT uses the attribute {attribute}, which is not allowed; {_REMEDY}"
            )
        if element.tag == "SourceFilename":
            named[element] = _source(shown, folder, element, own.get("relativetovrt", "0"))
    checked = CheckedVRT(root, named, _bands(shown, root, named))
    if len(checked.sources) > MAX_SOURCES:
        raise SceneTooLarge(
            f"{shown}: the VRT names {len(checked.sources)} sources, more than {MAX_SOURCES}; merge some"
        )
    return checked


def _bands(shown: str, root: Element, named: Mapping[Element, Path]) -> dict[Path, int]:
    """Return the highest number of a band that is asked for, of each source."""
    bands: dict[Path, int] = {}
    for element in root.iter():
        numbers = [_band_number(shown, child.text or "") for child in element.findall("SourceBand")]
        for child in element.findall("SourceFilename"):
            bands[named[child]] = max(bands.get(named[child], 1), *numbers, 1)
    return bands


def _band_number(shown: str, text: str) -> int:
    """Return the number in ``2``, ``mask,2`` or ``mask``."""
    match = re.fullmatch(r"(?:mask(?:,|$))?(\d{1,6})?", text.strip())
    if not match:
        raise UnsafeReference(f"{shown}: the VRT asks for the band {text!r}, which is none; {_REMEDY}")
    return int(match[1] or 1)


def _parsed(shown: str, path: Path) -> Element:
    if path.stat().st_size > MAX_BYTES:
        raise SceneTooLarge(f"{shown}: a VRT of more than {MAX_BYTES // 2**20} MiB; convert it to a GeoTIFF")
    with open(path, "rb", opener=plain_only) as file:
        text = file.read()
    if b"<!" in text.replace(b"<!--", b"").replace(b"<![CDATA[", b""):
        raise UnsafeReference(f"{shown}: the VRT declares a document type or entities; {_REMEDY}")
    if b"<?" in re.sub(rb"\A(\xef\xbb\xbf)?\s*<\?xml\s", b"", text):
        raise UnsafeReference(f"{shown}: the VRT holds processing instructions (<?...?>); {_REMEDY}")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise UnsafeReference(f"{shown}: the VRT is not well-formed ({error}); {_REMEDY}") from error
    if root.tag != "VRTDataset":
        raise UnsafeReference(f"{shown}: the VRT uses {root.tag}, which is not allowed there; {_REMEDY}")
    return root


def _elements(shown: str, root: Element) -> Iterator[Element]:
    """Yield all elements in their order."""
    waiting = [(root, 1)]
    while waiting:
        element, depth = waiting.pop()
        if depth > _DEEPEST:
            raise UnsafeReference(f"{shown}: the VRT is nested deeper than a mosaic is; {_REMEDY}")
        yield element
        waiting.extend((child, depth + 1) for child in reversed(element))


def _source(shown: str, folder: Path, element: Element, relative: str) -> Path:
    name = (element.text or "").strip()
    if relative not in ("0", "1"):
        raise UnsafeReference(f"{shown}: the VRT says relativeToVRT={relative!r}, not 0 or 1; {_REMEDY}")
    source = (folder / name if relative == "1" else Path(name)).resolve()
    plain = name and ":" not in source.as_posix()[len(source.drive) :] and "<" not in name
    if not plain or not source.is_relative_to(folder):
        raise UnsafeReference(
            f"{shown}: the VRT names '{name}', which is not in or under its folder; {_REMEDY}"
        )
    return source
