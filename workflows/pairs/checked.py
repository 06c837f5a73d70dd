"""Pairs that are known already, from a table or from two folders: their scenes are read and compared."""

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tiling import ANYWHERE, Access
from workflows.addresses import public_path
from workflows.errors import CatalogInvalid
from workflows.pairs.catalog import EXAMPLES, Catalog, Skipped, named_rows
from workflows.pairs.folders import UNMATCHED, SceneFolder, key_of
from workflows.pairs.headers import read_headers
from workflows.pairs.options import CatalogOptions, within
from workflows.pairs.rows import PairRow, UnnamedPair
from workflows.pairs.rules import common_ground
from workflows.pairs.table import read_pairs
from workflows.printable import listed
from workflows.progress import Progress


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
