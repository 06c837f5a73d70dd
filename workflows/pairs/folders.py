"""Pairs from one folder of dated scenes: its sub-folders are sites, or it is one itself."""

from __future__ import annotations

import fnmatch
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from tiling import ANYWHERE, Access
from workflows.addresses import public_path
from workflows.dates import scene_date
from workflows.errors import CatalogInvalid, OptionInvalid
from workflows.pairs.catalog import Catalog, Scene, Skipped, choose, named_rows
from workflows.pairs.headers import read_headers
from workflows.pairs.options import CatalogOptions, within
from workflows.pairs.rows import Draft, PairRow
from workflows.pairs.rules import common_ground, draft_of, pair_up
from workflows.pairs.sidecars import Sidecars
from workflows.pairs.table import read_pairs

if TYPE_CHECKING:
    from regex import Pattern

    from workflows.progress import Progress


RASTERS = (".tif", ".tiff", ".jp2", ".j2k", ".png", ".jpg", ".jpeg", ".vrt", ".zip")
UNMATCHED = "not like --match"
# That a name may be compared with a pattern for; a sound pattern takes some millionths.
SECONDS = 2.0


@dataclass(frozen=True)
class SceneFolder:
    """The rasters under a folder.

    Attributes:
        root: the folder, absolute.
        names: paths of the rasters under it, in order, with ``/``.
        sidecars: the text files of each folder, by its absolute path.
        skipped: folders under it that cannot be listed.
    """

    root: str
    names: Sequence[str]
    sidecars: Mapping[str, Sidecars]
    skipped: Sequence[Skipped] = ()

    @classmethod
    def listed(cls, folder: str | Path, options: CatalogOptions) -> SceneFolder:
        """List a folder and those in it, but no hidden ones and none that are only linked to.

        Raises:
            CatalogInvalid: there is no raster.
        """
        root = os.path.abspath(folder)
        sidecars = {}
        names = []
        closed: list[OSError] = []
        for path, folders, files in os.walk(root, onerror=closed.append):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            sidecars[path] = Sidecars(path, files)
            names += [
                Path(path, name).relative_to(root).as_posix()
                for name in files
                if name.lower().endswith(RASTERS)
                and not name.startswith(".")
                and fnmatch.fnmatch(name, options.glob or "*")
            ]
        lines = [f"it cannot be listed ({error.strerror})" for error in closed]
        if not names and closed:
            raise CatalogInvalid(
                f"{closed[0].filename}: {lines[0]}, and there is no raster elsewhere; check its permissions"
            )
        if not names:
            like = f" like {options.glob}" if options.glob else f" ({', '.join(RASTERS)})"
            raise CatalogInvalid(f"{folder}: there is no raster{like} in it; check the path")
        skipped = [
            Skipped("unreadable folder", f"{error.filename}: left out, {line}")
            for error, line in zip(closed, lines, strict=True)
        ]
        return cls(root, sorted(names), sidecars, skipped)

    def locations(self) -> list[str]:
        """Return the absolute path of each raster."""
        return [os.path.join(self.root, *name.split("/")) for name in self.names]


def folder_catalog(folder: str | Path, options: CatalogOptions, progress: Progress | None = None) -> Catalog:
    """Pair the dated scenes under a folder.

    The site of a scene is the group of ``options.match``, else the first folder on its way whose name holds
    no date. In a folder where no name has a date, scenes named ``before`` and ``after`` are a pair.

    Raises:
        CatalogInvalid: there is no raster.
        CatalogUnreachable: see :func:`workflows.pairs.headers.read_headers`.
    """
    files = SceneFolder.listed(folder, options)
    pattern = options.pattern()
    scenes: list[Scene] = []
    undated: dict[str, dict[str, Scene]] = defaultdict(dict)
    skipped = list(files.skipped)
    headers = read_headers(files.locations(), files.sidecars, progress)
    for name, header in zip(files.names, headers, strict=True):
        site = _site(files.root, name, pattern)
        if isinstance(header, Skipped):
            skipped.append(header)
        elif site is None:
            skipped.append(Skipped(UNMATCHED, None))
        else:
            scene = replace(header, name=name, site=site, date=header.date or _date_of_folders(name) or "")
            if scene.date:
                scenes.append(scene)
            else:
                undated[name.rpartition("/")[0]][name] = scene
    chosen, excluded, warnings = choose(scenes, options)
    drafts, unpaired = pair_up(chosen, options)
    for group in undated.values():
        named, dateless = _before_and_after(group)
        drafts += named
        skipped += dateless
    drafts.sort(key=lambda draft: draft.row.site or "")
    return Catalog(
        f"folder {folder}", named_rows(drafts), len(files.names), [*skipped, *excluded, *unpaired], warnings
    )


def key_of(name: str, pattern: Pattern[str]) -> str | None:
    """Return what the groups of a pattern find in a path, joined; None where it is not found.

    Raises:
        OptionInvalid: it would take for ever, as ``(a+)+`` may.
    """
    try:
        match = pattern.search(name, timeout=SECONDS)
    except TimeoutError:
        raise OptionInvalid(
            f"match is {pattern.pattern!r}, for which {name} takes more than {SECONDS:g} s; give one "
            "without a repeat inside a repeat"
        ) from None
    return "-".join(group for group in match.groups() if group) or None if match else None


def _site(root: str, name: str, pattern: Pattern[str] | None) -> str | None:
    if pattern is not None:
        return key_of(name, pattern)
    for folder in PurePosixPath(name).parts[:-1]:
        if _date_of_folder(folder) is None:
            return folder
    return os.path.basename(root) or None


def _date_of_folders(name: str) -> str | None:
    """Return the date that the innermost folder with one in its name has."""
    folders = PurePosixPath(name).parts[:-1]
    return next(filter(None, map(_date_of_folder, reversed(folders))), None)


def _date_of_folder(folder: str) -> str | None:
    """Return the day in a folder's name, or the year that it is; a name of a place may hold a year."""
    # With an ending, so that a dot in the name is none.
    date = scene_date(f"{folder}.x", {}).value
    return date if date is not None and (len(date) == 10 or folder.isdecimal()) else None


def _before_and_after(group: Mapping[str, Scene]) -> tuple[list[Draft], list[Skipped]]:
    """Pair what is called before and after among the scenes of a folder; the others have no order."""
    roles = {PurePosixPath(name).stem.lower(): scene for name, scene in group.items()}
    before, after = roles.get("before"), roles.get("after")
    draft = draft_of(before, after) if before and after else None
    drafts = [draft] if draft and draft.row.footprint is not None else []
    used = {name for draft in drafts for name in (draft.before, draft.after)}
    skipped = [
        Skipped(
            "without a date",
            f"{name}: left out, nothing says when it was taken; put the date into its name, such as "
            "scene_2019-08-31.tif",
        )
        for name in group
        if name not in used
    ]
    return drafts, skipped


# So many names are enough to see what is wrong.
_EXAMPLES = 3


def table_catalog(
    path: str | Path, options: CatalogOptions | None = None, progress: Progress | None = None
) -> Catalog:
    """Check the pairs of a table: both scenes can be read and overlap; fill in dates, clouds and ground.

    Of the options count those that say which servers may be asked.

    Raises:
        PairTableInvalid: see :func:`workflows.pairs.table.read_pairs`.
        CatalogUnreachable: see :func:`workflows.pairs.headers.read_headers`.
    """
    warnings: list[str] = []
    rows = read_pairs(path, warnings.append)
    access = (options or CatalogOptions()).for_others().access
    checked, skipped = _checked(rows, {}, progress, access)
    scenes = len({location for row in rows for location in (row.before, row.after)})
    return Catalog(f"table {path}", checked, scenes, skipped, [*warnings, *_swapped(checked)])


def two_folder_catalog(
    before: str | Path, after: str | Path, options: CatalogOptions, progress: Progress | None = None
) -> Catalog:
    """Pair the scenes of two folders with the same path but for its ending, or group of ``options.match``.

    Raises:
        CatalogInvalid: a folder has no raster, or they are one folder.
        CatalogUnreachable: see :func:`workflows.pairs.headers.read_headers`.
    """
    first, second = (SceneFolder.listed(folder, options) for folder in (before, after))
    if first.root == second.root:
        raise CatalogInvalid(f"{before}: both folders are the same; name the other one, or only one")
    firsts, skipped = _by_key(first, options)
    seconds, unmatched = _by_key(second, options)
    skipped += [*unmatched, *first.skipped, *second.skipped]
    drafts = []
    for key in sorted(firsts.keys() & seconds.keys()):
        site, _, name = key.rpartition("/")
        # With an ending, so that a dot in the key is none.
        drafts.append(
            Draft(PairRow("", firsts[key], seconds[key], site=site or None), f"{name}.x", f"{name}.x")
        )
    warnings = []
    for scenes, others, folder in ((firsts, seconds, before), (seconds, firsts, after)):
        unpaired = sorted(scenes.keys() - others.keys())
        if unpaired:
            skipped += [Skipped("without a partner in the other folder", None)] * len(unpaired)
            warnings.append(
                f"{folder}: of its scenes {_some(unpaired)} have no partner in the other folder; what is the "
                "same in both names can be given with --match"
            )
    checked, unreadable = _checked(named_rows(drafts), {**first.sidecars, **second.sidecars}, progress)
    return Catalog(
        f"folders {before} and {after}",
        checked,
        len(first.names) + len(second.names),
        [*skipped, *unreadable],
        [*warnings, *_swapped(checked)],
    )


def _by_key(files: SceneFolder, options: CatalogOptions) -> tuple[dict[str, str], list[Skipped]]:
    """Return the scenes of a folder by what they have in common with those of the other."""
    pattern = options.pattern()
    by_key = defaultdict(list)
    skipped = []
    for name, location in zip(files.names, files.locations(), strict=True):
        key = os.path.splitext(name)[0] if pattern is None else key_of(name, pattern)
        if key is None:
            skipped.append(Skipped(UNMATCHED, None))
        else:
            by_key[key].append(location)
    for key, locations in by_key.items():
        if len(locations) > 1:
            skipped += [
                Skipped("with the same name", f"{location}: left out, {len(locations)} scenes are {key!r}")
                for location in locations
            ]
    return {key: locations[0] for key, locations in by_key.items() if len(locations) == 1}, skipped


def _checked(
    rows: Sequence[PairRow],
    sidecars: Mapping[str, Sidecars],
    progress: Progress | None,
    access: Access = ANYWHERE,
) -> tuple[list[PairRow], list[Skipped]]:
    """Return the rows whose scenes can be read and overlap, with what the scenes say filled in."""
    locations = list(dict.fromkeys(location for row in rows for location in (row.before, row.after)))
    headers = dict(zip(locations, read_headers(locations, sidecars, progress, access), strict=True))
    skipped = [header for header in headers.values() if isinstance(header, Skipped)]
    checked = []
    for row in rows:
        before, after = headers[row.before], headers[row.after]
        if isinstance(before, Skipped) or isinstance(after, Skipped):
            continue
        ground = common_ground(before.footprint, after.footprint)
        if ground is None:
            scenes = " and ".join(map(public_path, (row.before, row.after)))
            skipped.append(Skipped("without common ground", f"{scenes}: left out, they do not overlap"))
            continue
        filled: dict[str, Any] = {"footprint": ground}
        for role, header in (("before", before), ("after", after)):
            cloud = getattr(row, f"cloud_{role}")
            filled[f"date_{role}"] = getattr(row, f"date_{role}") or header.date or None
            filled[f"cloud_{role}"] = header.cloud if cloud is None else cloud
        checked.append(replace(row, **filled))
    return checked, skipped


def _swapped(rows: Sequence[PairRow]) -> list[str]:
    """Say which pairs go back in time, if any."""
    dated = (row for row in rows if row.date_before and row.date_after)
    names = [row.pair for row in dated if not within(row.date_after or "", row.date_before, None)]
    return [f"before is later than after in {_some(names)}; are they swapped?"] if names else []


def _some(names: Sequence[str]) -> str:
    """Return the first names and how many there are."""
    rest = f" and {len(names) - _EXAMPLES} more" if len(names) > _EXAMPLES else ""
    return ", ".join(names[:_EXAMPLES]) + rest
