"""The items of a STAC source: an ItemCollection, a tree of catalogs in files or on a server, an API.

The source is what the user named; whatever its documents lead to is a stranger's word and checked.
"""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from http.client import HTTPException, InvalidURL
from time import monotonic
from typing import Any

from tiling import Access, SceneUnreachable, TilingError, plain_only
from workflows.addresses import public_path
from workflows.errors import CatalogInvalid, CatalogUnreachable
from workflows.pairs.options import CatalogOptions

_SECONDS = 60
# Seconds for all of one document, however slowly its server sends it.
_LONGEST = 600
_READERS = 8
_MOST_BYTES = 2**28
_WEB = re.compile(r"https?://", re.IGNORECASE)
_ROOTS = ("catalog.json", "collection.json")
Document = dict[str, Any]


class StacUnreadable(CatalogInvalid):
    """One document of a source is missing or damaged, or may not be read; the message names it."""


@dataclass(frozen=True)
class StacItem:
    """An item of a source.

    Attributes:
        base: the address that its links are relative to.
        content: the item, or why it cannot be had.
        remote: whether a server gave it.
    """

    base: str
    content: Document | StacUnreadable
    remote: bool


def is_web(text: str) -> bool:
    """Return whether a source is an address."""
    return _WEB.match(text) is not None


def stac_root(folder: str) -> str | None:
    """Return the file that a static catalog begins with, None where the folder is no catalog."""
    files = (os.path.join(folder, name) for name in _ROOTS)
    return next((file for file in files if os.path.isfile(file)), None)


def stac_items(source: str, options: CatalogOptions) -> Iterator[StacItem]:
    """Yield every item, or why it cannot be had.

    ``source`` is a file or an address. Of an API only what lies in the collections, box and dates of the
    options is asked for. Documents may lead to the server of the source, to the public network, and to the
    hosts that the options allow.

    Raises:
        CatalogInvalid: the source is not STAC, may not be asked, or the API does not take the question.
        CatalogUnreachable: the server does not answer.
        ModuleNotFoundError: an API needs ``pystac_client``.
    """
    source = source if is_web(source) else os.path.abspath(source)
    access = _access(source, options)
    document = _read(source, access, is_named=True)
    kind = document.get("type")
    links = _links(document)
    if kind == "FeatureCollection":
        yield from _collection_items(source, document, access)
    elif kind == "Feature":
        yield StacItem(source, document, is_web(source))
    elif "conformsTo" in document or "search" in links:
        yield from _api_items(source, options, access, [])
    elif kind == "Collection" and "items" in links and "root" in links:
        root = resolved(links["root"][0], source)
        yield from _api_items(root, options, access, [str(document.get("id"))])
    elif "stac_version" in document:
        yield from _tree_items(source, document, access)
    else:
        raise CatalogInvalid(
            f"{public_path(source)}: this is no STAC; give an ItemCollection, a catalog or an API"
        )


def resolved(href: str, base: str) -> str:
    """Return where an ``href`` leads that was found in the document ``base``: an address, or a path.

    Raises:
        StacUnreadable: it leads nowhere, or into a file system of GDAL.
    """
    from pystac.utils import make_absolute_href

    if href.lower().startswith("file://"):
        return re.sub(r"^file://[^/]*", "", href, flags=re.IGNORECASE)
    if href.startswith("/vsi"):
        raise StacUnreadable(f"{public_path(href)}: this is a name for GDAL and no address; correct the link")
    try:
        return str(make_absolute_href(href, base, start_is_dir=False))
    except ValueError as error:
        raise StacUnreadable(f"{public_path(href)}: this is no address; correct the link to it") from error


def _links(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the addresses that a document links to, by relation."""
    links: dict[str, list[str]] = {}
    members = document.get("links")
    for link in members if isinstance(members, list) else ():
        if isinstance(link, dict) and isinstance(link.get("href"), str):
            links.setdefault(str(link.get("rel")), []).append(link["href"])
    return links


def _access(source: str, options: CatalogOptions) -> Access:
    """Return what the documents of a source may lead to: what others may, and its own server."""
    access = options.for_others().access
    parts = urllib.parse.urlsplit(source) if is_web(source) else None
    if parts is None or not parts.netloc:
        return access
    host = parts.netloc.rpartition("@")[2]
    port = re.search(r":\d+$", host)
    own = host if port else f"{host}:{443 if parts.scheme == 'https' else 80}"
    return replace(access, hosts=(*(access.hosts or ()), own))


def _collection_items(source: str, document: Document, access: Access) -> Iterator[StacItem]:
    """Yield the items of a collection and of the pages that follow; an item says itself where it is from."""
    seen = {source}
    while True:
        features = document.get("features")
        for feature in features if isinstance(features, list) else ():
            if isinstance(feature, dict):
                yield StacItem(_own_address(feature, source), feature, is_web(source))
        address = next((resolved(href, source) for href in _links(document).get("next", [])), None)
        if address is None or address in seen or not is_web(address) or not is_web(source):
            return
        seen.add(address)
        source, document = address, _read(address, access)


def _own_address(item: Document, source: str) -> str:
    try:
        return next((resolved(href, source) for href in _links(item).get("self", [])), source)
    except StacUnreadable:
        return source


def _tree_items(source: str, document: Document, access: Access) -> Iterator[StacItem]:
    """Go down a tree of catalogs; each document is read once, also where links lead in a circle."""
    seen = {source}
    waiting = [(source, document)]
    with ThreadPoolExecutor(_READERS) as executor:
        while waiting:
            base, document = waiting.pop()
            links = _links(document)
            for relation in ("item", "child"):
                targets = []
                for href in links.get(relation, []):
                    try:
                        targets.append(resolved(href, base))
                    except StacUnreadable as error:
                        yield StacItem(base, error, is_web(base))
                targets = [target for target in dict.fromkeys(targets) if target not in seen]
                seen.update(targets)
                contents = executor.map(lambda target, base=base: _tried(target, base, access), targets)
                for target, content in zip(targets, contents, strict=True):
                    if relation == "item" or isinstance(content, StacUnreadable):
                        yield StacItem(target, content, is_web(target))
                    else:
                        waiting.append((target, content))


def _tried(target: str, base: str, access: Access) -> Document | StacUnreadable:
    if is_web(base) and not is_web(target):
        return StacUnreadable(
            f"{public_path(target)}: a catalog on a server names this file of this machine; it is not read"
        )
    try:
        return _read(target, access)
    except StacUnreadable as error:
        return error


def _api_items(
    address: str, options: CatalogOptions, access: Access, collections: list[str]
) -> Iterator[StacItem]:
    from workflows.pairs.stac_api import api_items

    for item in api_items(address, options, access, collections):
        yield StacItem(_own_address(item, address), item, True)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a few redirects, each to where it may lead."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Return the request that follows; errors as :meth:`tiling.Access.check_address`."""
        try:
            self._access.check_address(public_path(newurl), newurl)
        except TilingError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _read(href: str, access: Access, *, is_named: bool = False) -> Document:
    """Read one document, ``is_named`` by the user or else by another document.

    ``access`` says which servers documents and redirects may lead to.

    Raises:
        StacUnreadable: it is missing or damaged, or its server may not be asked.
        CatalogUnreachable: its server does not answer.
    """
    shown = public_path(href)
    try:
        with _opened(href, access, is_named) as file:
            content = _content(shown, file)
        document = json.loads(content)
    except SceneUnreachable as error:
        raise CatalogUnreachable(str(error)) from error
    except TilingError as error:
        raise StacUnreadable(str(error)) from error
    except urllib.error.HTTPError as error:
        error.close()
        if error.code < 400:
            raise StacUnreadable(
                f"{shown}: the server leads on and on (HTTP {error.code}); correct the link"
            ) from error
        if error.code < 500:
            raise StacUnreadable(f"{shown}: the server has no such document (HTTP {error.code})") from error
        raise CatalogUnreachable(f"{shown}: the server fails (HTTP {error.code}); try again later") from error
    except (OSError, ValueError, RecursionError, HTTPException) as error:
        plain = "this is no address" if isinstance(error, InvalidURL) else "this is no JSON"
        if isinstance(error, OSError | HTTPException) and not isinstance(error, InvalidURL) and is_web(href):
            raise CatalogUnreachable(
                f"{shown}: the server does not answer; check the address, or try again later"
            ) from error
        reason = error.strerror if isinstance(error, OSError) else plain
        raise StacUnreadable(f"{shown}: it cannot be read ({reason}); check the path") from error
    if not isinstance(document, dict):
        raise StacUnreadable(f"{shown}: this is no STAC document")
    return document


def _opened(href: str, access: Access, is_named: bool) -> Any:
    if not is_web(href):
        return open(href, "rb", opener=plain_only)
    # Links of strangers have spaces and letters of every script.
    quoted = urllib.parse.quote(href, safe="%/:?#[]@!$&'()*+,;=~")
    allowed = replace(access, hosts=None) if is_named else access
    allowed.check_address(public_path(href), quoted)
    request = urllib.request.Request(quoted, headers={"Accept": "application/json"})
    return urllib.request.build_opener(_Redirects(access)).open(request, timeout=_SECONDS)


def _content(shown: str, file: Any) -> bytes:
    content, end = bytearray(), monotonic() + _LONGEST
    while block := file.read1(2**20):
        content += block
        if len(content) > _MOST_BYTES:
            raise StacUnreadable(f"{shown}: more than {_MOST_BYTES // 2**20} MiB; cut it into several")
        if monotonic() > end:
            raise CatalogUnreachable(f"{shown}: not all of it came in {_LONGEST} s; try again later")
    return bytes(content)
