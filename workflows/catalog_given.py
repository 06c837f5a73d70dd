"""Pairs that a person has put together: a table, or two folders whose scenes have the same names."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflows.catalog import Catalog, CatalogOptions, Draft, Skipped, named_rows, within
from workflows.catalog_folders import UNMATCHED, SceneFolder, key_of
from workflows.catalog_pairing import common_ground
from workflows.catalog_scenes import Header, read_headers
from workflows.catalog_sidecars import Sidecars
from workflows.errors import CatalogInvalid
from workflows.pair_table import PairRow, read_pairs
from workflows.record import public_path

if TYPE_CHECKING:
    from workflows.progress import Progress

# So many names are enough to see what is wrong.
_EXAMPLES = 3


def table_catalog(path: str | Path, progress: Progress | None = None) -> Catalog:
    """Check the pairs of a table: both scenes can be read and overlap; fill in dates, clouds and ground.

    Raises:
        PairTableInvalid: see :func:`workflows.pair_table.read_pairs`.
        CatalogUnreachable: see :func:`workflows.catalog_scenes.read_headers`.
    """
    warnings: list[str] = []
    rows = read_pairs(path, warnings.append)
    checked, skipped = _checked(rows, {}, progress)
    scenes = len({location for row in rows for location in (row.before, row.after)})
    return Catalog(f"table {path}", checked, scenes, skipped, [*warnings, *_swapped(checked)])


def two_folder_catalog(
    before: str | Path, after: str | Path, options: CatalogOptions, progress: Progress | None = None
) -> Catalog:
    """Pair the scenes of two folders that have the same path in both, or the same group of ``options.match``.

    The ending of a name does not count.

    Raises:
        CatalogInvalid: a folder has no raster, or they are one folder.
        CatalogUnreachable: see :func:`workflows.catalog_scenes.read_headers`.
    """
    first, second = (SceneFolder.listed(folder, options) for folder in (before, after))
    if first.root == second.root:
        raise CatalogInvalid(f"{before}: both folders are the same; name the other one, or only one")
    firsts, skipped = _by_key(first, options)
    seconds, left = _by_key(second, options)
    skipped += [*left, *first.skipped, *second.skipped]
    drafts = []
    for key in sorted(firsts.keys() & seconds.keys()):
        site, _, name = key.rpartition("/")
        # With an ending, so that a dot in the key is none.
        drafts.append(
            Draft(PairRow("", firsts[key], seconds[key], site=site or None), f"{name}.x", f"{name}.x")
        )
    warnings = []
    for own, other, folder in ((firsts, seconds, before), (seconds, firsts, after)):
        lone = sorted(own.keys() - other.keys())
        if lone:
            skipped += [Skipped("without a partner in the other folder", None)] * len(lone)
            warnings.append(
                f"{folder}: of its scenes {_some(lone)} have no partner in the other folder; what is the "
                "same in both names can be given with --match"
            )
    checked, wrong = _checked(named_rows(drafts), {**first.sidecars, **second.sidecars}, progress)
    return Catalog(
        f"folders {before} and {after}",
        checked,
        len(first.names) + len(second.names),
        [*skipped, *wrong],
        [*warnings, *_swapped(checked)],
    )


def _by_key(files: SceneFolder, options: CatalogOptions) -> tuple[dict[str, str], list[Skipped]]:
    """Return the scenes of a folder by what they have in common with those of the other."""
    pattern = None if options.match is None else options.pattern()
    found = defaultdict(list)
    skipped = []
    for name, location in zip(files.names, files.locations(), strict=True):
        key = os.path.splitext(name)[0] if pattern is None else key_of(name, pattern)
        if key is None:
            skipped.append(Skipped(UNMATCHED, None))
        else:
            found[key].append(location)
    for key, locations in found.items():
        if len(locations) > 1:
            skipped += [
                Skipped("with the same name", f"{location}: left out, {len(locations)} scenes are {key!r}")
                for location in locations
            ]
    return {key: locations[0] for key, locations in found.items() if len(locations) == 1}, skipped


def _checked(
    rows: Sequence[PairRow], sidecars: Mapping[str, Sidecars], progress: Progress | None
) -> tuple[list[PairRow], list[Skipped]]:
    """Return the rows whose scenes can be read and overlap, with what the scenes say filled in."""
    locations = list(dict.fromkeys(location for row in rows for location in (row.before, row.after)))
    found = read_headers(locations, progress, lambda location: sidecars.get(os.path.dirname(location)))
    headers = dict(zip(locations, found, strict=True))
    skipped = [header for header in headers.values() if isinstance(header, Skipped)]
    kept = []
    for row in rows:
        before, after = headers[row.before], headers[row.after]
        if isinstance(before, Skipped) or isinstance(after, Skipped):
            continue
        ground = common_ground(before.footprint, after.footprint)
        if ground is None:
            scenes = " and ".join(map(public_path, (row.before, row.after)))
            skipped.append(Skipped("without common ground", f"{scenes}: left out, they do not overlap"))
            continue
        kept.append(_filled(row, before, after, ground))
    return kept, skipped


def _filled(row: PairRow, before: Header, after: Header, ground: Any) -> PairRow:
    return replace(
        row,
        date_before=row.date_before or before.date,
        date_after=row.date_after or after.date,
        cloud_before=before.cloud if row.cloud_before is None else row.cloud_before,
        cloud_after=after.cloud if row.cloud_after is None else row.cloud_after,
        footprint=ground,
    )


def _swapped(rows: Sequence[PairRow]) -> list[str]:
    """Say which pairs go back in time, if any."""
    names = [
        row.pair
        for row in rows
        if row.date_before and row.date_after and not within(row.date_after, row.date_before, None)
    ]
    return [f"before is later than after in {_some(names)}; are they swapped?"] if names else []


def _some(names: Sequence[str]) -> str:
    """Return the first names and how many there are."""
    rest = f" and {len(names) - _EXAMPLES} more" if len(names) > _EXAMPLES else ""
    return ", ".join(names[:_EXAMPLES]) + rest
