"""Reads the JSON documents of a STAC source. The user named the source; where its links lead is checked.

Each document has limits of bytes and time, and so have all documents of a source together.
"""

import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from http.client import HTTPException, InvalidURL
from threading import Lock
from typing import Any

from rscc.files import check_json, read_file
from tiling import Access, SceneUnreachable, TilingError
from workflows.addresses import public_path
from workflows.bounded import within
from workflows.errors import CatalogInvalid, CatalogUnreachable

TIMEOUT = 60
"""Seconds of waiting for the next bytes of a document."""
ANSWER_SECONDS = 120
"""Limit for all of the headers of a document, with redirects and further tries."""
LEAST_SPEED = 1000
"""Bytes per second, on average after the first :data:`TIMEOUT` seconds, below which a server is given up."""
MAX_BYTES = 2**26
MAX_DOCUMENTS, MAX_TOTAL, MAX_SECONDS = 100_000, 2**32, 3600
"""Limits for all documents of a source: their number, bytes and seconds."""
RETRY_PAUSES = (0.5, 2.0)
"""Seconds before each further try of a connection that failed."""
_WEB = re.compile(r"https?://", re.IGNORECASE)
_ROOTS = ("catalog.json", "collection.json")
_LONGEST = 8192
Document = dict[str, Any]


class StacUnreadable(CatalogInvalid):
    """One document of a source is missing, damaged or forbidden; the message names it."""


def is_web(text: str) -> bool:
    """Return whether a source is an http or https address."""
    return _WEB.match(text) is not None


def stac_root(folder: str) -> str | None:
    """Return the first file of the static catalog in a folder, None if there is none."""
    files = (os.path.join(folder, name) for name in _ROOTS)
    return next((file for file in files if os.path.isfile(file)), None)


def resolved(href: str, base: str) -> str:
    """Return the address, or the path, of a link in the document ``base``.

    Raises:
        StacUnreadable: it is no address, or a virtual file system of GDAL.
    """
    from pystac.utils import make_absolute_href

    if href.lower().startswith("file://"):
        return re.sub(r"^file://[^/]*", "", href, flags=re.IGNORECASE)
    if href.startswith("/vsi"):
        raise StacUnreadable(f"{public_path(href)}: GDAL paths are not allowed in a catalog")
    try:
        return str(make_absolute_href(href, base, start_is_dir=False))
    except ValueError as error:
        raise StacUnreadable(f"{public_path(href)}: this link is no address") from error


def links_of(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the addresses that a document links to, by relation."""
    links: dict[str, list[str]] = {}
    members = document.get("links")
    for link in members if isinstance(members, list) else ():
        if isinstance(link, dict) and isinstance(link.get("href"), str) and len(link["href"]) < _LONGEST:
            links.setdefault(str(link.get("rel")), []).append(link["href"])
    return links


class Documents:
    """Reads the documents of one source; several threads may do so.

    Args:
        access: the servers that links and redirects may lead to.
    """

    def __init__(self, access: Access) -> None:
        self._access, self._lock = access, Lock()
        self._left, self._bytes, self._end = MAX_DOCUMENTS, MAX_TOTAL, time.monotonic() + MAX_SECONDS

    def read(self, href: str, *, is_named: bool = False) -> Document:
        """Read one document, which the user named (``is_named``) or another document links to.

        Raises:
            StacUnreadable: it is missing or damaged, or its server is forbidden.
            CatalogUnreachable: its server does not answer, or the source is without end.
        """
        return parsed(href, self.fetch(href, is_named=is_named))

    def fetch(self, href: str, *, is_named: bool = False) -> bytes:
        """Return the bytes of one document; see :meth:`read`."""
        content = b""
        if self._has_room(1, 0):
            content = _web_content(href, self._access, is_named) if is_web(href) else _file_content(href)
        if not self._has_room(0, len(content)):
            raise CatalogUnreachable(
                f"{public_path(href)}: after {MAX_DOCUMENTS:,} documents, {MAX_TOTAL // 2**30} GiB or "
                f"{MAX_SECONDS:,} s there is more; choose a part with --collection, --bbox, --from and --to"
            )
        return content

    def _has_room(self, documents: int, size: int) -> bool:
        with self._lock:
            self._left -= documents
            self._bytes -= size
            return min(self._left, self._bytes, self._end - time.monotonic()) >= 0


def parsed(href: str, content: bytes) -> Document:
    """Return a document by its bytes; raises StacUnreadable."""
    try:
        text = content.decode()
        check_json(text)
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StacUnreadable(f"{public_path(href)}: not JSON") from error
    if not isinstance(document, dict):
        raise StacUnreadable(f"{public_path(href)}: not a STAC document")
    return document


def _file_content(path: str) -> bytes:
    try:
        return read_file(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        raise StacUnreadable(f"{path}: cannot be read ({getattr(error, 'strerror', error)})") from error


def _web_content(href: str, access: Access, is_named: bool) -> bytes:
    shown = public_path(href)
    try:
        return _download(href, access, is_named)
    except SceneUnreachable as error:
        raise CatalogUnreachable(str(error)) from error
    except TilingError as error:
        raise StacUnreadable(str(error)) from error
    except urllib.error.HTTPError as error:
        error.close()
        if error.code >= 500:
            raise CatalogUnreachable(f"{shown}: the server fails (HTTP {error.code}); try later") from error
        problem = "the server refuses this request" if error.code >= 400 else "too many redirects"
        raise StacUnreadable(f"{shown}: {problem} (HTTP {error.code})") from error
    except (InvalidURL, ValueError) as error:
        raise StacUnreadable(f"{shown}: this is no address") from error
    except (OSError, HTTPException) as error:
        raise CatalogUnreachable(f"{shown}: the server does not answer; check the address") from error


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to an allowed server."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Return the request that follows; raises as :meth:`tiling.Access.check_address`."""
        try:
            self._access.check_address(public_path(newurl), newurl)
        except TilingError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _download(href: str, access: Access, is_named: bool) -> bytes:
    # Links in the wild contain spaces and letters of every script.
    quoted = urllib.parse.quote(href, safe="%/:?#[]@!$&'()*+,;=~")
    allowed = replace(access, hosts=None) if is_named else access
    allowed.check_address(public_path(href), quoted)
    request = urllib.request.Request(quoted, headers={"Accept": "application/json"})
    opener = urllib.request.build_opener(_CheckedRedirects(access))
    end = time.monotonic() + ANSWER_SECONDS
    for pause in (*RETRY_PAUSES, None):
        try:
            # The timeout of a socket starts again with each byte.
            answer = within(end - time.monotonic(), lambda: opener.open(request, timeout=TIMEOUT))
            with answer as file:
                return _bounded(href, file)
        except urllib.error.HTTPError:
            raise  # an answer, not a failed connection
        except (urllib.error.URLError, TimeoutError):
            if pause is None or time.monotonic() > end:
                raise
            time.sleep(pause)
    raise AssertionError("the last try returns or raises")


def _bounded(href: str, file: Any) -> bytes:
    """Read a document within the limits of size and time."""
    content, start = bytearray(), time.monotonic()
    while block := file.read1(2**20):
        content += block
        if len(content) > MAX_BYTES:
            raise StacUnreadable(f"{public_path(href)}: larger than {MAX_BYTES // 2**20} MiB; split it")
        if time.monotonic() - start > TIMEOUT + len(content) / LEAST_SPEED:
            raise CatalogUnreachable(f"{public_path(href)}: the server sends too slowly; try again later")
    return bytes(content)
