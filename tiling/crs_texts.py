"""Check CRS texts of strangers before GDAL or PROJ sees them.

PROJ opens each file that such a text names (grids, parameter files, ``+init``); a pipe there blocks for ever.
"""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tiling.errors import UnsafeReference
from tiling.regular_files import open_regular

MAX_CHARACTERS = 100_000
_CODE = re.compile(
    r"[A-Za-z][A-Za-z0-9_]{1,15}:[A-Za-z0-9_.]{1,32}(\+(EPSG:)?\d{1,9})?"
    r"|urn:(ogc|x-ogc):def:crs:[A-Za-z0-9_.:,-]{1,100}"
    r"|https?://www\.opengis\.net/def/crs/[A-Za-z0-9_./-]{1,100}"
    r"|http://www\.opengis\.net/gml/srs/epsg\.xml#\d{1,9}"
    r"|WGS84|WGS72|NAD27|NAD83|CRS84|CRS83|CRS27"
)
_WKT = re.compile(r"[A-Za-z][A-Za-z0-9_]{2,30}\s*[\[(]")
_PROJ = re.compile(r"\+?[A-Za-z_0-9]+\s*=")
# "@null" means that there is no grid; EPSG:3857 is written so.
_NO_GRID = re.compile(r"nadgrids\s*=\s*@null(?![^\s\"'<&\]])", re.IGNORECASE)
_FILE_NAMED = re.compile(
    r"PARAMETERFILE|PROJ4_GRIDS|\"Dataset_|grids\s*=|\b(init|file|model|catalog)\s*="
    r"|\bproj\s*=\s*(pipeline|\w*gridshift|defmodel|tinshift|deformation)\b",
    re.IGNORECASE,
)
# Elements and attributes of an .aux.xml that hold the text of a CRS; GDAL ignores case.
_IN_XML = {"srs", "projection", "wkt"}


def checked_crs(text: str, shown: str = "the coordinate reference system") -> str:
    """Return the text of a CRS, stripped, if it can name no file.

    Accepted are authority codes (``EPSG:32633``, URNs and addresses of OGC), WKT, PROJ strings and PROJJSON
    without grids, parameter files, ``+init`` and pipelines.

    Raises:
        UnsafeReference: it names a file, is none of these kinds, or has more than 100,000 characters.
    """
    text = text.strip()
    if len(text) <= MAX_CHARACTERS:
        if _CODE.fullmatch(text):
            return text
        known = text.startswith("{") or _WKT.match(text) or _PROJ.match(text)
        parts = _json_texts(text) if text.startswith("{") else (text,)
        if known and not any(map(names_file, parts)):
            return text
    raise UnsafeReference(
        f"{shown}: its coordinate reference system names a file or is no code, WKT or PROJ text: "
        f"{text[:60]!r}; set it to EPSG:... with gdal_edit.py -a_srs"
    )


def names_file(text: str) -> bool:
    """Return whether PROJ would open a file for a text or a part of it."""
    return _FILE_NAMED.search(_NO_GRID.sub("", text)) is not None


def check_crs_bytes(shown: str, content: bytes) -> None:
    """Refuse bytes of a file that hold, in clear or as XML, the text of a CRS that names a file."""
    text = content.decode("latin-1")
    # Entities, and what a comment or a CDATA section may split.
    plain = re.sub(r"<!--.*?-->|<!\[CDATA\[|\]\]>", "", html.unescape(html.unescape(text)), flags=re.DOTALL)
    if names_file(text) or names_file(plain):
        raise UnsafeReference(f"{shown}: its coordinate reference system names a file; set it to EPSG:...")


def check_crs_of_xml(shown: str, file: Path) -> None:
    """Check the CRS texts of an ``.aux.xml`` file.

    Raises:
        UnsafeReference: one of them names a file, or the file is no XML.
    """
    try:
        with open(file, "rb", opener=open_regular) as source:
            content = source.read()
    except OSError:
        return  # GDAL cannot read it either
    if not any(name.encode() in content.lower() for name in _IN_XML):
        return
    check_crs_bytes(shown, content)
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise UnsafeReference(f"{shown}: {file.name} beside it is not well-formed; remove it") from error
    for text in _crs_of(root):
        checked_crs(text, f"{shown}: {file.name} beside it")


def _crs_of(root: ElementTree.Element) -> Iterator[str]:
    """Yield the CRS texts of an XML document: GDAL takes attributes and elements for the same thing."""
    for element in root.iter():
        named = [(element.tag, "".join(element.itertext())), *element.attrib.items()]
        for name, text in named:
            if name.rpartition("}")[2].lower() in _IN_XML and text.strip():
                yield text


def _json_texts(text: str) -> Iterator[str]:
    """Yield the strings of a PROJJSON, and ``file=`` where a parameter is a string, which names a file."""
    try:
        waiting: list[Any] = [json.loads(text)]
    except (ValueError, RecursionError):
        yield "file="
        return
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if isinstance(item.get("value"), str):
                yield "file="
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, str):
            yield item
