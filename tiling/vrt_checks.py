"""Check VRTs of strangers: they may name any file, any address and even code to run.

Accepted are plain mosaics as ``gdalbuildvrt`` writes them: known elements, and sources that are rasters in or
under its folder. GDAL parses XML less strictly, so it gets our serialisation, never the original text.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from tiling.crs_texts import checked_crs
from tiling.errors import SceneTooLarge, UnsafeReference
from tiling.regular_files import open_regular

MAX_BYTES = 16 * 2**20
MAX_SOURCES = 10_000
_REMEDY = "rebuild it with gdalbuildvrt beside its sources, or convert it to a GeoTIFF"
_ALLOWED = {
    "VRTDataset", "SRS", "GeoTransform", "GCPList", "GCP", "OverviewList", "Metadata", "MDI", "BlockXSize",
    "BlockYSize",
    "VRTRasterBand", "MaskBand", "NoDataValue", "HideNoDataValue", "ColorInterp", "ColorTable", "Entry",
    "Description", "UnitType", "Offset", "Scale", "CategoryNames", "Category", "Histograms", "HistItem",
    "HistMin", "HistMax", "BucketCount", "IncludeOutOfRange", "Approximate", "HistCounts",
    "SimpleSource", "ComplexSource", "SourceFilename", "SourceBand", "SourceProperties", "SrcRect", "DstRect",
    "NODATA", "UseMaskBand", "ScaleOffset", "ScaleRatio",
}  # fmt: skip
# In lower case: GDAL ignores case, and treats attributes as elements of the same name.
_ATTRIBUTES = {
    "rasterxsize", "rasterysize", "blockxsize", "blockysize", "datatype", "band", "resampling", "shared",
    "dataaxistosrsaxismapping", "coordinateepoch", "relativetovrt", "xoff", "yoff", "xsize", "ysize",
    "projection", "id", "info", "pixel", "line", "x", "y", "z", "gcppixel", "gcpline", "c1", "c2", "c3", "c4",
    "key", "domain", "format",
}  # fmt: skip
# Deepest in a mask band: VRTDataset, MaskBand, VRTRasterBand, SimpleSource, SourceFilename.
_DEEPEST = 8


@dataclass(frozen=True)
class CheckedVRT:
    """A VRT whose elements and sources were checked.

    Attributes:
        root: the parsed text.
        named: the source file of each element that names one.
        bands: the highest band number that is requested of each source.
    """

    root: Element
    named: Mapping[Element, Path]
    bands: Mapping[Path, int]

    @property
    def sources(self) -> list[Path]:
        """The source files, each once."""
        return list(dict.fromkeys(self.named.values()))

    def text(self, names: Mapping[Path, str], mask: str | None = None) -> str:
        """Return the VRT as text with sources renamed to ``names``; ``mask`` is added if it has none."""
        # Overviews are not used, and thousands of them would take very long.
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
    """Return whether GDAL would open a file that starts with ``head`` as a VRT."""
    return b"<vrtdataset" in head.lower()


def checked_vrt(shown: str, path: Path) -> CheckedVRT:
    """Parse and check the VRT at ``path``; its sources are not opened.

    Raises:
        UnsafeReference: it names something outside its folder, or holds an unknown element.
        SceneTooLarge: the file is larger than 16 MiB or names more than 10,000 sources.
    """
    root = _parsed(shown, path)
    folder = path.resolve().parent
    named: dict[Element, Path] = {}
    for element in _elements(shown, root):
        own = {name.lower(): value for name, value in element.attrib.items()}
        # GDAL ignores case; an element spelt in another case is refused.
        if element.tag not in _ALLOWED or "subclass" in own:
            kind = own.get("subclass", element.tag)
            raise UnsafeReference(f"{shown}: the VRT uses {kind}, which is not allowed; {_REMEDY}")
        odd = sorted(own.keys() - _ATTRIBUTES)
        if odd or len(own) < len(element.attrib):
            attribute = odd[0] if odd else "one twice"
            raise UnsafeReference(
                f"{shown}: the VRT uses the attribute {attribute}, which is not allowed; {_REMEDY}"
            )
        for crs in (own.get("projection", ""), "".join(element.itertext()) if element.tag == "SRS" else ""):
            if crs.strip():
                checked_crs(crs, shown)
        if element.tag == "SourceFilename":
            named[element] = _source(shown, folder, element, own.get("relativetovrt", "0"))
    checked = CheckedVRT(root, named, _bands(shown, root, named))
    if len(checked.sources) > MAX_SOURCES:
        raise SceneTooLarge(
            f"{shown}: the VRT names {len(checked.sources)} sources, more than {MAX_SOURCES}; merge some"
        )
    return checked


def _bands(shown: str, root: Element, named: Mapping[Element, Path]) -> dict[Path, int]:
    """Return the highest band number that is requested of each source."""
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
        raise UnsafeReference(f"{shown}: the VRT asks for the invalid band {text!r}; {_REMEDY}")
    return int(match[1] or 1)


def _parsed(shown: str, path: Path) -> Element:
    if path.stat().st_size > MAX_BYTES:
        raise SceneTooLarge(f"{shown}: a VRT of more than {MAX_BYTES // 2**20} MiB; convert it to a GeoTIFF")
    with open(path, "rb", opener=open_regular) as file:
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
