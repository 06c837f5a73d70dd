"""From what a person names to a catalog of pairs: which kind of source it is, and which options it takes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from tiling.location import is_address
from workflows.catalog import Catalog, CatalogOptions
from workflows.errors import CatalogInvalid, OptionInvalid
from workflows.pair_table import is_table
from workflows.record import public_path
from workflows.stac_source import is_web, stac_root

if TYPE_CHECKING:
    from workflows.progress import Progress

_DATED = {"pair", "max_cloud", "first_date", "last_date", "min_overlap"}
# What each kind of source can make use of.
_OPTIONS = {
    "a table": frozenset[str](),
    "two folders": frozenset({"match", "glob"}),
    "a folder": frozenset({*_DATED, "match", "glob"}),
    "STAC": frozenset({*_DATED, "assets", "collections", "bounds"}),
}
_FLAGS = {
    "first_date": "--from",
    "last_date": "--to",
    "assets": "--asset",
    "collections": "--collection",
    "bounds": "--bbox",
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
    found = _read(sources, options or CatalogOptions(), progress)
    scenes = (scene for row in found.rows for scene in (row.before, row.after))
    if any(public_path(scene) != scene for scene in scenes):
        return replace(found, warnings=[*found.warnings, _SECRETS])
    return found


def _read(sources: Sequence[str], options: CatalogOptions, progress: Progress | None) -> Catalog:
    kind = _kind(sources)
    _check_options(kind, options)
    first = sources[0]
    if kind == "a table":
        from workflows.catalog_given import table_catalog

        return table_catalog(first, progress)
    if kind == "two folders":
        from workflows.catalog_given import two_folder_catalog

        return two_folder_catalog(first, sources[1], options, progress)
    if kind == "a folder":
        from workflows.catalog_folders import folder_catalog

        return folder_catalog(first, options, progress)
    from workflows.catalog_stac import stac_catalog

    return stac_catalog(stac_root(first) or first, options, progress)


def _kind(sources: Sequence[str]) -> str:
    folders = [os.path.isdir(source) for source in sources]
    if len(sources) == 2 and all(folders):
        return "two folders"
    if len(sources) != 1:
        wrong = next(
            (source for source, folder in zip(sources, folders, strict=True) if not folder), sources[-1]
        )
        raise CatalogInvalid(f"{public_path(wrong)}: it cannot go with other sources; {_KINDS}")
    (source,) = sources
    if is_web(source) or stac_root(source) is not None:
        return "STAC"
    if "://" in source or (is_address(source) and not os.path.exists(source)):
        raise CatalogInvalid(f"{public_path(source)}: catalogs are read from files and from http and https")
    if folders[0]:
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
    for field in fields(CatalogOptions):
        if field.name not in _OPTIONS[kind] and getattr(options, field.name) != getattr(defaults, field.name):
            flag = _FLAGS.get(field.name, f"--{field.name.replace('_', '-')}")
            others = [other for other, taken in _OPTIONS.items() if field.name in taken]
            raise OptionInvalid(
                f"{flag} does not go with {kind}, only with {' or '.join(others)}; leave it out"
            )
