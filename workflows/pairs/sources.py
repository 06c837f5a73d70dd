"""Finds the kind of a source of pairs, checks that the options suit it, and reads it."""

import os
from collections.abc import Sequence
from dataclasses import replace

from tiling import is_address
from workflows.addresses import public_path
from workflows.errors import CatalogInvalid, OptionInvalid
from workflows.pairs.catalog import Catalog
from workflows.pairs.options import CatalogOptions
from workflows.pairs.stac_documents import is_web, stac_root
from workflows.pairs.table import is_table
from workflows.progress import Progress

_SERVERS = {"offline", "allow_hosts"}
_DATED = {"pair", "max_cloud", "first_date", "last_date", "min_overlap"}
_OPTIONS = {
    "a table": frozenset(_SERVERS),
    "two folders": frozenset({"match", "glob", "offline"}),
    "a folder": frozenset({*_DATED, "match", "glob", "offline"}),
    "STAC": frozenset({*_DATED, *_SERVERS, "assets", "collections", "bounds"}),
}
"""The options that each kind of source uses."""
_SECRETS = "the table contains signed addresses or passwords; keep it as secret as these"
_KINDS = "give a table, a folder of dated scenes, two folders, or STAC as a folder, a .json or an address"


def read_catalog(
    sources: Sequence[str], options: CatalogOptions | None = None, progress: Progress | None = None
) -> Catalog:
    """Find pairs of scenes in a table, one or two folders, or STAC.

    ``progress`` is called as ``progress(stage, done, total)`` with the stage ``scenes`` or ``items``.

    Raises:
        CatalogInvalid: a source is none of these, is missing or is empty.
        OptionInvalid: an option does not suit this kind of source.
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
    if kind == "a folder":
        from workflows.pairs.folders import folder_catalog

        return folder_catalog(first, options, progress)
    from workflows.pairs.checked import table_catalog, two_folder_catalog

    if kind == "a table":
        return table_catalog(first, options, progress)
    return two_folder_catalog(first, sources[1], options, progress)


def _kind(sources: Sequence[str]) -> str:
    if len(sources) == 2 and all(map(os.path.isdir, sources)):
        return "two folders"
    if len(sources) != 1:
        wrong = next((source for source in sources if not os.path.isdir(source)), sources[-1])
        raise CatalogInvalid(f"{public_path(wrong)}: cannot be combined with other sources; {_KINDS}")
    (source,) = sources
    if is_web(source) or stac_root(source) is not None:
        return "STAC"
    if "://" in source or (is_address(source) and not os.path.exists(source)):
        raise CatalogInvalid(f"{public_path(source)}: catalogs are read from files, http and https only")
    if os.path.isdir(source):
        return "a folder"
    if is_table(source):
        return "a table"
    if not os.path.exists(source):
        raise CatalogInvalid(f"{public_path(source)}: no such file or folder")
    if source.lower().endswith((".json", ".geojson")):
        return "STAC"
    raise CatalogInvalid(f"{source}: not a source of pairs; {_KINDS}")


def _check_options(kind: str, options: CatalogOptions) -> None:
    defaults = CatalogOptions()
    for name in options.names():
        if name not in _OPTIONS[kind] and getattr(options, name) != getattr(defaults, name):
            others = " or ".join(other for other, names in _OPTIONS.items() if name in names)
            raise OptionInvalid(
                f"{options.flag(name)} has no effect on {kind}, only on {others}; leave it out"
            )
