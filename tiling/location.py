"""Translate the user's name of a scene into the name that GDAL opens.

Names are local files, rasters in local zip archives, and objects on servers; not what GDAL accepts besides:
standard input, parts of files, chains of virtual file systems.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from tiling.errors import LocationUnsupported, SceneNotFound
from tiling.zip_archives import raster_in

# Schemes of addresses, and GDAL's file systems for them.
_CLOUDS = {"s3": "/vsis3/", "gs": "/vsigs/", "az": "/vsiaz/"}
_WEB = ("http", "https")
_CURL, _ZIP = "/vsicurl/", "/vsizip/"
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://+(.*)", re.DOTALL)
# pathlib turns the two slashes of an address into one.
_FOLDED = re.compile(rf"^({'|'.join((*_WEB, *_CLOUDS))}):/+(?=[^/])", re.IGNORECASE)
# Any scheme, with one slash or two; one letter is a drive.
_NAMED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_KNOWN = "a file, archive.zip/raster.tif, https://, http://, s3://, gs:// or az://"


@dataclass(frozen=True)
class Location:
    """Where a scene is.

    Attributes:
        shown: name for messages and records: the user's, without user, password and query.
        source: name that GDAL opens; it may hold a signature, so it is never shown.
        local: the local file that holds the scene, None on a server.
        member: the name of the scene in ``local``, if that is a zip archive.
    """

    shown: str
    source: str = field(repr=False)
    local: Path | None
    member: str | None = None


def is_address(name: str) -> bool:
    """Return whether a scene's name is on a server, so that it may hold a secret.

    >>> is_address("https:/host/a.tif"), is_address("/vsis3/bucket/a.tif"), is_address("/vsizip/a.zip")
    (True, True, False)
    """
    if name.startswith("/vsi"):
        return not name.startswith(_ZIP)
    return _NAMED.match(name) is not None


def locate(path: str | Path) -> Location:
    """Return the location of the scene ``path``; ``locate(location.source)`` finds it again.

    A local file need not exist, but an archive must. No server is asked.

    Raises:
        LocationUnsupported: this kind of name is not supported.
        ArchiveUnclear: a zip archive holds no raster, or several.
    """
    text = str(path)
    if text.startswith(_ZIP):
        return _in_zip(text)
    prefix = _CURL if text.startswith(_CURL) else ""
    address = _ADDRESS.match(_FOLDED.sub(r"\1://", text.removeprefix(prefix), count=1))
    if address and (not prefix or address[1].lower() in _WEB):
        return _on_server(prefix, address[1], address[2])
    for system in _CLOUDS.values():
        if text.startswith(system):
            return _in_cloud(system, system, text.removeprefix(system))
    if virtual := re.match(r"/vsi\w*", text):
        raise LocationUnsupported(
            f"{virtual[0]}...: this file system of GDAL is not supported; give {_KNOWN}, or /vsizip/, "
            "/vsicurl/http..., /vsis3/, /vsigs/, /vsiaz/"
        )
    return _on_disk(text, Path(text))


def _on_server(prefix: str, scheme: str, rest: str) -> Location:
    scheme = scheme.lower()
    if scheme in _CLOUDS:
        return _in_cloud(f"{scheme}://", _CLOUDS[scheme], rest)
    if scheme not in _WEB:
        raise LocationUnsupported(f"{scheme}://...: such an address is not supported; give {_KNOWN}")
    authority, _, path = rest.partition("/")
    host = authority.rpartition("@")[2]
    if not path or not host or re.search(r"[?#\s]", authority):
        raise LocationUnsupported(f"{scheme}://...: the address names no file on a server; give {_KNOWN}")
    shown = f"{prefix}{scheme}://{host}/{_public(path)}"
    return _remote(shown, f"{_CURL}{scheme}://{rest}")


def _in_cloud(prefix: str, system: str, rest: str) -> Location:
    bucket, _, key = rest.lstrip("/").partition("/")
    if not bucket or not key:
        raise LocationUnsupported(f"{prefix}{_public(rest)}: it names no file; give {prefix}BUCKET/FILE")
    return _remote(f"{prefix}{bucket}/{_public(key)}", f"{system}{bucket}/{key}")


def _remote(shown: str, source: str) -> Location:
    if re.search(r"\.zip(/|$)", shown, re.IGNORECASE):
        raise LocationUnsupported(f"{shown}: zip archives on servers are not read; download it")
    return Location(shown, source, None)


def _public(path: str) -> str:
    """Return the path of an address without query and fragment, which may hold a signature."""
    return re.sub(r"[?#].*", "", path, flags=re.DOTALL)


def _on_disk(shown: str, path: Path) -> Location:
    for archive in (path, *path.parents):
        if archive.suffix.lower() == ".zip" and os.path.isfile(archive):
            return _zipped(shown, archive, _member(path, archive))
    return Location(shown, os.path.abspath(path), path)


def _in_zip(text: str) -> Location:
    """Locate ``/vsizip/archive.zip/member``; an archive in braces may have any name."""
    rest = text[len(_ZIP) :]
    if rest.startswith("{") and "}" in rest:
        name, _, member = rest[1:].rpartition("}")
        archive = Path(name)
        if os.path.isfile(archive):
            return _zipped(text, archive, member.strip("/") or None)
    whole = Path(rest)
    for archive in (whole, *whole.parents):
        if os.path.isfile(archive):
            return _zipped(text, archive, _member(whole, archive))
    if rest.startswith(("vsi", "/vsi")):
        raise LocationUnsupported(f"{_ZIP}vsi...: zip archives on servers are not read; download it")
    raise SceneNotFound(f"{text}: there is no such archive; check the path")


def _member(whole: Path, archive: Path) -> str | None:
    """Return the part of a path inside an archive, None for the archive itself."""
    return None if whole == archive else whole.relative_to(archive).as_posix()


def _zipped(shown: str, archive: Path, inner: str | None) -> Location:
    member = raster_in(shown, archive, inner)
    if inner is None:
        shown = f"{shown.rstrip('/')}/{member}"
    # Without braces GDAL finds the end of the archive's name by its suffix.
    return Location(shown, f"{_ZIP}{{{os.path.abspath(archive)}}}/{member}", archive, member)
