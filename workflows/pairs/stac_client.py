"""The items of a STAC source: an ItemCollection, a tree of catalogs in files or on a server, an API."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException, InvalidURL
from typing import Any

from tiling import plain_only
from workflows.addresses import public_path
from workflows.errors import CatalogInvalid, CatalogUnreachable
from workflows.pairs.options import CatalogOptions

_SECONDS = 60
_READERS = 8
_MOST_BYTES = 2**28
_WEB = re.compile(r"https?://", re.IGNORECASE)
_ROOTS = ("catalog.json", "collection.json")
Document = dict[str, Any]


class StacUnreadable(CatalogInvalid):
    """One document of a source is missing or damaged; the message names it."""


def is_web(text: str) -> bool:
    """Return whether a source is an address."""
    return _WEB.match(text) is not None


def stac_root(folder: str) -> str | None:
    """Return the file that a static catalog begins with, None where the folder is no catalog."""
    files = (os.path.join(folder, name) for name in _ROOTS)
    return next((file for file in files if os.path.isfile(file)), None)


def stac_items(source: str, options: CatalogOptions) -> Iterator[tuple[str, Document | StacUnreadable]]:
    """Yield the address and the content of every item, or why it cannot be had.

    ``source`` is a file or an address. Of an API only what lies in the collections, box and dates of the
    options is asked for.

    Raises:
        CatalogInvalid: the source is not STAC, or the API does not take the question.
        CatalogUnreachable: the server does not answer.
        ModuleNotFoundError: an API needs ``pystac_client``.
    """
    source = source if is_web(source) else os.path.abspath(source)
    document = _read(source)
    kind = document.get("type")
    links = _links(document)
    if kind == "FeatureCollection":
        yield from _collection_items(source, document)
    elif kind == "Feature":
        yield source, document
    elif "conformsTo" in document or "search" in links:
        yield from _api_items(source, options)
    elif kind == "Collection" and "items" in links and "root" in links:
        root = resolved(links["root"][0], source)
        yield from _api_items(root, options, [str(document.get("id"))])
    elif "stac_version" in document:
        yield from _tree_items(source, document)
    else:
        raise CatalogInvalid(
            f"{public_path(source)}: this is no STAC; give an ItemCollection, a catalog or an API"
        )


def resolved(href: str, base: str) -> str:
    """Return where an ``href`` leads that was found in the document ``base``: an address, or a path.

    Raises:
        StacUnreadable: it leads nowhere.
    """
    from pystac.utils import make_absolute_href

    if href.lower().startswith("file://"):
        return re.sub(r"^file://[^/]*", "", href, flags=re.IGNORECASE)
    if href.startswith("/vsi"):
        return href
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


def _collection_items(source: str, document: Document) -> Iterator[tuple[str, Document]]:
    """Yield the items of a collection and of the pages that follow; an item says itself where it is from."""
    seen = {source}
    while True:
        features = document.get("features")
        for feature in features if isinstance(features, list) else ():
            if isinstance(feature, dict):
                yield _own_address(feature, source), feature
        address = next((resolved(href, source) for href in _links(document).get("next", [])), None)
        if address is None or address in seen or not is_web(address) or not is_web(source):
            return
        seen.add(address)
        source, document = address, _read(address)


def _own_address(item: Document, source: str) -> str:
    try:
        return next((resolved(href, source) for href in _links(item).get("self", [])), source)
    except StacUnreadable:
        return source


def _tree_items(source: str, document: Document) -> Iterator[tuple[str, Document | StacUnreadable]]:
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
                        yield base, error
                targets = [target for target in dict.fromkeys(targets) if target not in seen]
                seen.update(targets)
                contents = executor.map(lambda target: _tried(target, source), targets)
                for target, content in zip(targets, contents, strict=True):
                    if relation == "item" or isinstance(content, StacUnreadable):
                        yield target, content
                    else:
                        waiting.append((target, content))


def _tried(target: str, source: str) -> Document | StacUnreadable:
    if is_web(source) and not is_web(target):
        return StacUnreadable(
            f"{public_path(target)}: a catalog on a server names this file of this machine; it is not read"
        )
    try:
        return _read(target)
    except StacUnreadable as error:
        return error


def _api_items(
    address: str, options: CatalogOptions, collections: Sequence[str] = ()
) -> Iterator[tuple[str, Document]]:
    """Ask an API for items, page by page."""
    from pystac_client import Client
    from pystac_client.exceptions import APIError
    from pystac_client.stac_api_io import StacApiIO
    from requests.exceptions import RequestException

    shown = public_path(address)
    requested = list(options.collections or collections)
    dates = (options.first_date or "..", options.last_date or "..")
    service = StacApiIO(timeout=_SECONDS)
    try:
        client = Client.open(address, stac_io=service)
        if not requested:
            names = sorted(collection.id for collection in client.get_collections())
            raise CatalogInvalid(
                f"{shown}: say which of its collections with --collection: {', '.join(names)}"
            )
        search = client.search(
            collections=requested,
            bbox=options.bounds,
            datetime=None if dates == ("..", "..") else "/".join(dates),
        )
        for item in search.items_as_dicts():
            yield _own_address(item, address), item
    except APIError as error:
        status = error.status_code
        if status is not None and 400 <= status < 500:
            raise CatalogInvalid(
                f"{shown}: the API refuses the question (HTTP {status}); check --collection, --bbox and dates"
            ) from error
        raise CatalogUnreachable(f"{shown}: the API fails (HTTP {status}); try again later") from error
    except RequestException as error:
        raise CatalogUnreachable(
            f"{shown}: the API does not answer ({type(error).__name__}); check the address or try again later"
        ) from error
    finally:
        service.session.close()


def _read(href: str) -> Document:
    """Read one document.

    Raises:
        StacUnreadable: it is missing or damaged.
        CatalogUnreachable: its server does not answer.
    """
    shown = public_path(href)
    try:
        with _opened(href) as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise StacUnreadable(f"{shown}: more than {_MOST_BYTES // 2**20} MiB; cut it into several")
        document = json.loads(content)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code < 500:
            raise StacUnreadable(f"{shown}: the server has no such document (HTTP {error.code})") from error
        raise CatalogUnreachable(f"{shown}: the server fails (HTTP {error.code}); try again later") from error
    except (OSError, ValueError, RecursionError, HTTPException) as error:
        if isinstance(error, OSError | HTTPException) and not isinstance(error, InvalidURL) and is_web(href):
            raise CatalogUnreachable(
                f"{shown}: the server does not answer; check the address, or try again later"
            ) from error
        plain = "this is no address" if isinstance(error, InvalidURL) else "this is no JSON"
        reason = error.strerror if isinstance(error, OSError) else plain
        raise StacUnreadable(f"{shown}: it cannot be read ({reason}); check the path") from error
    if not isinstance(document, dict):
        raise StacUnreadable(f"{shown}: this is no STAC document")
    return document


def _opened(href: str) -> Any:
    if not is_web(href):
        return open(href, "rb", opener=plain_only)
    # Links of strangers have spaces and letters of every script.
    quoted = urllib.parse.quote(href, safe="%/:?#[]@!$&'()*+,;=~")
    request = urllib.request.Request(quoted, headers={"Accept": "application/json"})
    return urllib.request.urlopen(request, timeout=_SECONDS)
