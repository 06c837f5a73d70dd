"""Pairs from one folder of dated scenes: its sub-folders are sites, or it is one itself."""

from __future__ import annotations

import fnmatch
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from re import Pattern
from typing import TYPE_CHECKING

from workflows.catalog import Catalog, CatalogOptions, Draft, Scene, Skipped, choose, named_rows
from workflows.catalog_pairing import common_ground, pair_up
from workflows.catalog_scenes import Header, read_headers
from workflows.catalog_sidecars import Sidecars
from workflows.dates import scene_date
from workflows.errors import CatalogInvalid
from workflows.pair_table import PairRow

if TYPE_CHECKING:
    from workflows.progress import Progress

RASTERS = (".tif", ".tiff", ".jp2", ".j2k", ".png", ".jpg", ".jpeg", ".vrt", ".zip")
UNMATCHED = "not like --match"


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
        skipped = [
            Skipped(
                "unreadable folder", f"{error.filename}: left out, it cannot be listed ({error.strerror})"
            )
            for error in closed
        ]
        if not names and skipped:
            raise CatalogInvalid(
                f"{closed[0].filename}: it cannot be listed ({closed[0].strerror}), and there is no raster "
                "elsewhere; check its permissions"
            )
        if not names:
            like = f" like {options.glob}" if options.glob else f" ({', '.join(RASTERS)})"
            raise CatalogInvalid(f"{folder}: there is no raster{like} in it; check the path")
        return cls(root, sorted(names), sidecars, skipped)

    def locations(self) -> list[str]:
        """Return the absolute path of each raster."""
        return [os.path.join(self.root, *name.split("/")) for name in self.names]

    def headers(self, progress: Progress | None) -> list[tuple[str, Header | Skipped]]:
        """Return the name and the header of each raster, or why there is none."""
        found = read_headers(
            self.locations(), progress, lambda location: self.sidecars.get(os.path.dirname(location))
        )
        return list(zip(self.names, found, strict=True))


def folder_catalog(folder: str | Path, options: CatalogOptions, progress: Progress | None = None) -> Catalog:
    """Pair the dated scenes under a folder.

    The site of a scene is the group of ``options.match``, else the first folder on its way whose name holds
    no date. In a folder where no name has a date, scenes named ``before`` and ``after`` are a pair.

    Raises:
        CatalogInvalid: there is no raster.
        CatalogUnreachable: see :func:`workflows.catalog_scenes.read_headers`.
    """
    files = SceneFolder.listed(folder, options)
    pattern = None if options.match is None else options.pattern()
    scenes: list[Scene] = []
    undated: dict[str, dict[str, Scene]] = defaultdict(dict)
    skipped = list(files.skipped)
    for name, header in files.headers(progress):
        site = _site(files.root, name, pattern)
        if isinstance(header, Skipped):
            skipped.append(header)
        elif site is None:
            skipped.append(Skipped(UNMATCHED, None))
        else:
            date = header.date or _date_of_folders(name)
            scene = Scene(name, header.location, site, date or "", header.cloud, header.footprint)
            if date:
                scenes.append(scene)
            else:
                undated[name.rpartition("/")[0]][name] = scene
    kept, left, warnings = choose(scenes, options)
    drafts, alone = pair_up(kept, options)
    for group in undated.values():
        named, dateless = _before_and_after(group)
        drafts += named
        skipped += dateless
    drafts.sort(key=lambda draft: draft.row.site or "")
    return Catalog(
        f"folder {folder}", named_rows(drafts), len(files.names), [*skipped, *left, *alone], warnings
    )


def key_of(name: str, pattern: Pattern[str]) -> str | None:
    """Return what the groups of a pattern find in a path, joined; None where it is not found."""
    found = pattern.search(name)
    return "-".join(group for group in found.groups() if group) or None if found else None


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
    ground = before and after and common_ground(before.footprint, after.footprint)
    drafts, used = [], set()
    if before and after and ground is not None:
        used = {before.name, after.name}
        row = PairRow(
            pair="",
            before=before.location,
            after=after.location,
            site=before.site,
            cloud_before=before.cloud,
            cloud_after=after.cloud,
            footprint=ground,
        )
        drafts.append(Draft(row, before.name, after.name))
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
