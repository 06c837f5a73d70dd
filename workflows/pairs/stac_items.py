"""Finds the items of a STAC source: an ItemCollection, a tree of catalogs in files or on a server, an API."""

import os
import re
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from tiling import Access
from workflows.addresses import public_path
from workflows.dates import PartialDate
from workflows.errors import CatalogInvalid
from workflows.pairs.options import CatalogOptions
from workflows.pairs.stac_documents import (
    MAX_DOCUMENTS,
    Document,
    Documents,
    StacUnreadable,
    is_web,
    links_of,
    parsed,
    resolved,
)

_THREADS, _AT_ONCE = 8, 16
PAGE_SIZE = 100
"""Items per page of an API."""
MAX_PAGES, MAX_DEPTH = 10_000, 32
"""Pages of an API, and catalogs within catalogs, after which a source counts as one without end."""


@dataclass(frozen=True)
class StacItem:
    """An item of a source.

    Attributes:
        base: the address that its links are relative to.
        content: the item, or why it cannot be read.
        remote: whether a server sent it.
    """

    base: str
    content: Document | StacUnreadable
    remote: bool


def stac_items(source: str, options: CatalogOptions) -> Iterator[StacItem]:
    """Yield every item of ``source``, a file or an address, or why it cannot be read.

    An API is searched by the collections, box and dates of the options. Links may lead to the server of
    the source, to public servers, and to the hosts that the options allow.

    Raises:
        CatalogInvalid: the source is not STAC, its server is forbidden, or the API refuses the search.
    """
    source = source if is_web(source) else os.path.abspath(source)
    documents = Documents(_access(source, options))
    document = documents.read(source, is_named=True)
    kind = document.get("type")
    links = links_of(document)
    if kind == "FeatureCollection":
        yield from _collection_items(source, document, documents)
    elif kind == "Feature":
        yield StacItem(source, document, is_web(source))
    elif "conformsTo" in document or "search" in links:
        yield from _api_items(source, document, options, documents, [])
    elif kind == "Collection" and "items" in links and "root" in links:
        root = _web_link(links["root"][0], source)
        landing = documents.read(root)
        yield from _api_items(root, landing, options, documents, [str(document.get("id"))])
    elif "stac_version" in document:
        yield from _tree_items(source, document, documents)
    else:
        raise CatalogInvalid(f"{public_path(source)}: not STAC; give an ItemCollection, a catalog or an API")


def _access(source: str, options: CatalogOptions) -> Access:
    """Return the servers that the documents of a source may lead to: public ones, and its own."""
    access = options.for_others().access
    parts = urllib.parse.urlsplit(source) if is_web(source) else None
    if parts is None or not parts.netloc:
        return access
    host = parts.netloc.rpartition("@")[2]
    port = re.search(r":\d+$", host)
    own = host if port else f"{host}:{443 if parts.scheme == 'https' else 80}"
    return replace(access, hosts=(*(access.hosts or ()), own))


def _collection_items(source: str, document: Document, documents: Documents) -> Iterator[StacItem]:
    """Yield the items of a collection and of its next pages."""
    seen = {source}
    while len(seen) <= MAX_PAGES:
        features = document.get("features")
        for feature in features if isinstance(features, list) else ():
            if isinstance(feature, dict):
                yield StacItem(_own_address(feature, source), feature, is_web(source))
        address = next((resolved(href, source) for href in links_of(document).get("next", [])), None)
        if address is None or address in seen or not is_web(address) or not is_web(source):
            return
        seen.add(address)
        source, document = address, documents.read(address)
    raise _endless(source, f"{MAX_PAGES:,} pages")


def _own_address(item: Document, source: str) -> str:
    try:
        return next((resolved(href, source) for href in links_of(item).get("self", [])), source)
    except StacUnreadable:
        return source


def _endless(source: str, what: str) -> CatalogInvalid:
    return CatalogInvalid(
        f"{public_path(source)}: no end after {what}; choose a part by --collection, --bbox, --from, --to"
    )


def _tree_items(source: str, document: Document, documents: Documents) -> Iterator[StacItem]:
    """Walk a tree of catalogs; each document is read once, so link cycles end."""
    seen, links_left = {source}, MAX_DOCUMENTS
    waiting = [(source, _below(document), 1)]
    with ThreadPoolExecutor(_THREADS) as executor:
        while waiting:
            base, links, depth = waiting.pop()
            if depth > MAX_DEPTH:
                raise _endless(base, f"{MAX_DEPTH} catalogs within catalogs")
            for relation, addresses in links.items():
                targets = []
                for href in addresses:
                    try:
                        targets.append(resolved(href, base))
                    except StacUnreadable as error:
                        yield StacItem(base, error, is_web(base))
                targets = [target for target in dict.fromkeys(targets) if target not in seen]
                seen.update(targets)
                if len(seen) > MAX_DOCUMENTS:
                    raise _endless(base, f"{MAX_DOCUMENTS:,} links")
                fetch = partial(_fetched, base=base, documents=documents)
                # Few at once, and parsed one by one: as objects they take ten times their bytes.
                parts = (targets[start : start + _AT_ONCE] for start in range(0, len(targets), _AT_ONCE))
                contents = chain.from_iterable(executor.map(fetch, part) for part in parts)
                for target, fetched in zip(targets, contents, strict=True):
                    content = _parsed(target, fetched)
                    if relation == "item" or isinstance(content, StacUnreadable):
                        yield StacItem(target, content, is_web(target))
                    else:
                        waiting.append((target, _below(content), depth + 1))
                        links_left -= sum(map(len, waiting[-1][1].values()))
                        if links_left < 0:
                            raise _endless(target, f"{MAX_DOCUMENTS:,} links")


def _below(document: Document) -> dict[str, list[str]]:
    """Return the links of a catalog to what it holds."""
    links = links_of(document)
    return {relation: links.get(relation, []) for relation in ("item", "child")}


def _fetched(target: str, base: str, documents: Documents) -> bytes | StacUnreadable:
    if is_web(base) and not is_web(target):
        return StacUnreadable(f"{public_path(target)}: a server's catalog must not name a local file")
    try:
        return documents.fetch(target)
    except StacUnreadable as error:
        return error


def _parsed(target: str, content: bytes | StacUnreadable) -> Document | StacUnreadable:
    try:
        return content if isinstance(content, StacUnreadable) else parsed(target, content)
    except StacUnreadable as error:
        return error


def _api_items(
    root: str, landing: Document, options: CatalogOptions, documents: Documents, collections: list[str]
) -> Iterator[StacItem]:
    """Search an API, page by page; ``landing`` is the document at ``root``."""
    requested = list(options.collections) or collections
    links = links_of(landing)
    if not requested:
        places = links.get("data") or [f"{root.rstrip('/')}/collections"]
        listed = documents.read(_web_link(places[0], root)).get("collections")
        names = sorted(str(one.get("id")) for one in listed or () if isinstance(one, dict))
        raise CatalogInvalid(f"{public_path(root)}: choose one with --collection: {', '.join(names)}")
    query = {"collections": ",".join(requested), "limit": str(PAGE_SIZE)}
    if options.bounds is not None:
        query["bbox"] = ",".join(map(str, options.bounds))
    first, last = options.first_date, options.last_date
    if first or last:
        begin = f"{PartialDate(first).first}T00:00:00Z" if first else ".."
        end = f"{PartialDate(last).last}T23:59:59Z" if last else ".."
        query["datetime"] = f"{begin}/{end}"
    search = _web_link((links.get("search") or [f"{root.rstrip('/')}/search"])[0], root)
    address = f"{search}{'&' if '?' in search else '?'}{urllib.parse.urlencode(query)}"
    try:
        page = documents.read(address)
    except StacUnreadable as error:
        raise CatalogInvalid(f"{error}; check --collection, --bbox and dates") from error
    yield from _collection_items(address, page, documents)


def _web_link(href: str, base: str) -> str:
    """Return the address of an API's link, which must not be a local file."""
    address = resolved(href, base)
    if not is_web(address):
        raise CatalogInvalid(f"{public_path(address)}: an API must not name a local file")
    return address
