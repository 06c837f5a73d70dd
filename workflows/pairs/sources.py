"""Finds the kind of a source of pairs, checks that the options suit it, and reads it.

Pairs of a table and of two folders are known already: their scenes are read and compared.
"""

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tiling import ANYWHERE, Access, is_address
from workflows.addresses import public_path
from workflows.errors import CatalogInvalid, OptionInvalid
from workflows.pairs.catalog import EXAMPLES, Catalog, Skipped, named_rows
from workflows.pairs.folders import UNMATCHED, SceneFolder, folder_catalog, key_of
from workflows.pairs.headers import read_headers
from workflows.pairs.options import CatalogOptions, within
from workflows.pairs.rows import PairRow, UnnamedPair
from workflows.pairs.rules import common_ground
from workflows.pairs.stac_documents import is_web, stac_root
from workflows.pairs.table import is_table, read_pairs
from workflows.printable import listed
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
        # pystac brings urllib3, which opens a socket when it is imported.
        from workflows.pairs.stac import stac_catalog

        return stac_catalog(stac_root(first) or first, options, progress)
    if kind == "a folder":
        return folder_catalog(first, options, progress)
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


def table_catalog(
    path: str | Path, options: CatalogOptions | None = None, progress: Progress | None = None
) -> Catalog:
    """Check that the scenes of a table can be read and overlap; fill in dates, clouds and footprints.

    Only the servers of the options count.
    """
    warnings: list[str] = []
    rows = read_pairs(path, warnings.append)
    access = (options or CatalogOptions()).for_others().access
    checked, skipped = _checked(rows, progress, access)
    scenes = len({location for row in rows for location in (row.before, row.after)})
    return Catalog(f"table {path}", checked, scenes, skipped, [*warnings, *_swapped(checked)])


def two_folder_catalog(
    before: str | Path, after: str | Path, options: CatalogOptions, progress: Progress | None = None
) -> Catalog:
    """Pair the scenes of two folders that have the same path but for its suffix, or the same ``match``."""
    first, second = (SceneFolder.listed(folder, options) for folder in (before, after))
    if first.root == second.root:
        raise CatalogInvalid(f"{before}: both folders are the same")
    firsts, skipped = _by_key(first, options)
    seconds, unmatched = _by_key(second, options)
    skipped += [*unmatched, *first.skipped, *second.skipped]
    pairs = []
    for key in sorted(firsts.keys() & seconds.keys()):
        site, _, name = key.rpartition("/")
        # With a suffix, so that a dot in the key does not begin one.
        row = PairRow("", firsts[key], seconds[key], site=site or None)
        pairs.append(UnnamedPair(row, f"{name}.x", f"{name}.x"))
    warnings = []
    for scenes, others, folder in ((firsts, seconds, before), (seconds, firsts, after)):
        unpaired = sorted(scenes.keys() - others.keys())
        if unpaired:
            skipped += [Skipped("without a partner in the other folder")] * len(unpaired)
            warnings.append(
                f"{folder}: without a partner in the other folder: {listed(unpaired, EXAMPLES)}; --match can "
                "say what both names have in common"
            )
    checked, unreadable = _checked(named_rows(pairs), progress)
    return Catalog(
        f"folders {before} and {after}",
        checked,
        len(first.names) + len(second.names),
        [*skipped, *unreadable],
        [*warnings, *_swapped(checked)],
    )


def _by_key(files: SceneFolder, options: CatalogOptions) -> tuple[dict[str, str], list[Skipped]]:
    """Return the scenes of a folder by the key that pairs them, and those without a unique key."""
    pattern = options.pattern()
    by_key = defaultdict(list)
    skipped = []
    for name, location in zip(files.names, files.locations(), strict=True):
        key = os.path.splitext(name)[0] if pattern is None else key_of(name, pattern)
        if key is None:
            skipped.append(Skipped(UNMATCHED))
        else:
            by_key[key].append(location)
    for key, locations in by_key.items():
        if len(locations) > 1:
            skipped += [
                Skipped("with the same name", location, f"left out, {len(locations)} scenes are {key!r}")
                for location in locations
            ]
    return {key: locations[0] for key, locations in by_key.items() if len(locations) == 1}, skipped


def _checked(
    rows: Sequence[PairRow], progress: Progress | None, access: Access = ANYWHERE
) -> tuple[list[PairRow], list[Skipped]]:
    """Return the rows whose scenes can be read and overlap, completed from the headers of the scenes."""
    locations = list(dict.fromkeys(location for row in rows for location in (row.before, row.after)))
    headers = dict(zip(locations, read_headers(locations, progress, access), strict=True))
    skipped = [header for header in headers.values() if isinstance(header, Skipped)]
    checked = []
    for row in rows:
        before, after = headers[row.before], headers[row.after]
        if isinstance(before, Skipped) or isinstance(after, Skipped):
            continue
        ground = common_ground(before.footprint, after.footprint)
        if ground is None:
            scenes = " and ".join(map(public_path, (row.before, row.after)))
            skipped.append(Skipped("without common ground", scenes, "left out, they do not overlap"))
            continue
        filled: dict[str, Any] = {"footprint": ground}
        for role, header in (("before", before), ("after", after)):
            cloud = getattr(row, f"cloud_{role}")
            filled[f"date_{role}"] = getattr(row, f"date_{role}") or header.date or None
            filled[f"cloud_{role}"] = header.cloud if cloud is None else cloud
        checked.append(replace(row, **filled))
    return checked, skipped


def _swapped(rows: Sequence[PairRow]) -> list[str]:
    """Return a warning about pairs that go back in time, if there are any."""
    dated = (row for row in rows if row.date_before and row.date_after)
    names = [row.pair for row in dated if not within(row.date_after or "", row.date_before, None)]
    return [f"before is later than after in {listed(names, EXAMPLES)}; are they swapped?"] if names else []
