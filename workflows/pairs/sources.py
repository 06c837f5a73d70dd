"""From what a person names to a catalog of pairs: which kind of source it is, and which options it takes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from tiling import is_address
from workflows.addresses import public_path
from workflows.errors import CatalogInvalid, OptionInvalid
from workflows.pairs.catalog import Catalog
from workflows.pairs.options import CatalogOptions
from workflows.pairs.stac_client import is_web, stac_root
from workflows.pairs.table import is_table
from workflows.progress import Progress

_SERVERS = {"offline", "allow_hosts"}
_DATED = {"pair", "max_cloud", "first_date", "last_date", "min_overlap"}
# What each kind of source can make use of.
_OPTIONS = {
    "a table": frozenset(_SERVERS),
    "two folders": frozenset({"match", "glob", "offline"}),
    "a folder": frozenset({*_DATED, "match", "glob", "offline"}),
    "STAC": frozenset({*_DATED, *_SERVERS, "assets", "collections", "bounds"}),
}
_SECRETS = (
    "addresses in the table are signed or hold a password: whoever has the table can read the scenes, for as "
    "long as these are valid"
)
_KINDS = (
    "give a table, a folder of dated scenes, two folders, or STAC: a catalog's folder, a .json, an address"
)


def read_catalog(
    sources: Sequence[str], options: CatalogOptions | None = None, progress: Progress | None = None
) -> Catalog:
    """Find pairs of scenes in a table, one or two folders, or STAC.

    ``progress`` is called as ``progress(stage, done, total)`` with the stage ``scenes`` or ``items``.

    Raises:
        CatalogInvalid: a source is none of these, is missing or has nothing in it.
        CatalogUnreachable: a server does not answer.
        PairTableInvalid: a table is wrong.
        OptionInvalid: an option does not go with this kind of source.
    """
    catalog = _read(sources, options or CatalogOptions(), progress)
    scenes = (scene for row in catalog.rows for scene in (row.before, row.after))
    if any(public_path(scene) != scene for scene in scenes):
        return replace(catalog, warnings=[*catalog.warnings, _SECRETS])
    return catalog


def _read(sources: Sequence[str], options: CatalogOptions, progress: Progress | None) -> Catalog:
    kind = _kind(sources)
    _check_options(kind, options)
    first = sources[0]
    if kind == "STAC":
        from workflows.pairs.stac import stac_catalog

        return stac_catalog(stac_root(first) or first, options, progress)
    from workflows.pairs import folders

    if kind == "a table":
        return folders.table_catalog(first, options, progress)
    if kind == "two folders":
        return folders.two_folder_catalog(first, sources[1], options, progress)
    return folders.folder_catalog(first, options, progress)


def _kind(sources: Sequence[str]) -> str:
    if len(sources) == 2 and all(map(os.path.isdir, sources)):
        return "two folders"
    if len(sources) != 1:
        wrong = next((source for source in sources if not os.path.isdir(source)), sources[-1])
        raise CatalogInvalid(f"{public_path(wrong)}: it cannot go with other sources; {_KINDS}")
    (source,) = sources
    if is_web(source) or stac_root(source) is not None:
        return "STAC"
    if "://" in source or (is_address(source) and not os.path.exists(source)):
        raise CatalogInvalid(f"{public_path(source)}: catalogs are read from files and from http and https")
    if os.path.isdir(source):
        return "a folder"
    if is_table(source):
        return "a table"
    if not os.path.exists(source):
        raise CatalogInvalid(f"{public_path(source)}: there is no such file or folder; check the path")
    if source.lower().endswith((".json", ".geojson")):
        return "STAC"
    raise CatalogInvalid(f"{source}: pairs are not made from such a file; {_KINDS}")


def _check_options(kind: str, options: CatalogOptions) -> None:
    defaults = CatalogOptions()
    for name in options.names():
        if name not in _OPTIONS[kind] and getattr(options, name) != getattr(defaults, name):
            others = [other for other, taken in _OPTIONS.items() if name in taken]
            raise OptionInvalid(
                f"{options.flag(name)} does not go with {kind}, only with {' or '.join(others)}; leave it out"
            )
