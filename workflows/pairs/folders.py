"""Pairs from one folder of dated scenes; its sub-folders are sites, or it is one itself."""

import fnmatch
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Self

from regex import Pattern

from workflows.dates import scene_date
from workflows.errors import CatalogInvalid, OptionInvalid
from workflows.pairs.catalog import Catalog, Scene, Skipped, choose, lines_by_reason, named_rows
from workflows.pairs.delivery.contents import NO_PICTURES, kind_by_name
from workflows.pairs.delivery.pictures import Pictures, left_out, pictures_of
from workflows.pairs.headers import read_headers
from workflows.pairs.options import CatalogOptions
from workflows.pairs.rows import UnnamedPair
from workflows.pairs.rules import pair_of, pair_up
from workflows.progress import Progress

RASTERS = (".tif", ".tiff", ".jp2", ".j2k", ".png", ".jpg", ".jpeg", ".vrt", ".zip")
UNMATCHED = "not matching --match"
OURS = ("rscc-archive.json", "rscc-monitor.json")
"""Marks of folders that rscc writes; the rasters in them are no scenes."""
_OF_PRODUCTS = re.compile(r"GRANULE|IMG_DATA|QI_DATA|R\d0m|odm_\w+|PSScene|files", re.IGNORECASE)
"""Folders inside of deliveries; they name no site."""
MATCH_SECONDS = 2.0
"""Limit for one match; a sound pattern takes microseconds."""


@dataclass(frozen=True)
class SceneFolder:
    """The rasters under a folder.

    Attributes:
        root: the folder, absolute.
        names: paths of the rasters under it, in order, with ``/``.
    """

    root: str
    names: Sequence[str]
    skipped: Sequence[Skipped] = ()

    @classmethod
    def listed(cls, folder: str | Path, options: CatalogOptions) -> Self:
        """List a folder and its sub-folders, except hidden ones, links, and folders that rscc writes."""
        root = os.path.abspath(folder)
        names: list[str] = []
        closed: list[OSError] = []
        for path, folders, files in os.walk(root, onerror=closed.append):
            if not {*OURS}.isdisjoint(files):
                folders.clear()
                continue
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            names += [
                Path(path, name).relative_to(root).as_posix()
                for name in files
                if name.lower().endswith(RASTERS)
                and not name.startswith(".")
                and fnmatch.fnmatch(name, options.glob or "*")
            ]
        if not names and closed:
            raise CatalogInvalid(
                f"{closed[0].filename}: cannot be listed ({closed[0].strerror}), and no raster was found "
                "elsewhere; check its permissions"
            )
        if not names:
            raise CatalogInvalid(f"{folder}: no raster ({options.glob or ', '.join(RASTERS)}) in this folder")
        skipped = [
            Skipped("unreadable folder", error.filename, f"cannot be listed ({error.strerror}); left out")
            for error in closed
        ]
        return cls(root, sorted(names), skipped)

    def locations(self) -> list[str]:
        """Return the absolute path of each raster."""
        return [os.path.join(self.root, *name.split("/")) for name in self.names]


def folder_catalog(folder: str | Path, options: CatalogOptions, progress: Progress | None = None) -> Catalog:
    """Pair the dated scenes under a folder.

    The site of a scene is the group of ``options.match``, else the first folder of its path whose name has no
    date. In a folder without dates, scenes named ``before`` and ``after`` are a pair.
    """
    found = folder_scenes(folder, options, progress)
    chosen, excluded, warnings = choose((scene for scene in found.scenes if scene.date), options)
    pairs, unpaired = pair_up(chosen, options, root=os.path.basename(os.path.abspath(folder)))
    skipped = [*found.skipped, *excluded, *unpaired]
    groups: dict[str, dict[str, Scene]] = defaultdict(dict)
    for scene in found.scenes:
        if not scene.date:
            groups[scene.name.rpartition("/")[0]][scene.name] = scene
    for group in groups.values():
        named, dateless = _before_and_after(group)
        pairs += named
        skipped += dateless
    pairs.sort(key=lambda pair: pair.row.site or "")
    used = {location for pair in pairs for location in (pair.row.before, pair.row.after)}
    return Catalog(
        f"folder {folder}",
        named_rows(pairs),
        found.rasters,
        skipped,
        [*found.warnings, *warnings],
        found.chosen,
        [stack for stack in found.stacks if stack.scene.location in used],
    )


def folder_scenes(
    folder: str | Path, options: CatalogOptions, progress: Progress | None = None, *, with_info: bool = False
) -> Pictures:
    """Return the scenes under a folder, with a date or without one.

    Their names and sites are as in :func:`folder_catalog`; ``with_info`` as in :func:`read_headers`.
    """
    files = SceneFolder.listed(folder, options)
    pattern = options.pattern()
    skipped, scenes = list(files.skipped), []
    headers = read_headers(
        files.locations(),
        progress,
        named=[(name, _date_of_folders(name)) for name in files.names],
        with_info=with_info,
    )
    for name, header in zip(files.names, headers, strict=True):
        site = _site(files.root, name, pattern)
        kind = kind_by_name(name) if options.glob is None else None
        if isinstance(header, Skipped):
            skipped.append(left_out(name, kind) if kind in NO_PICTURES else header)
        elif site is None:
            skipped.append(Skipped(UNMATCHED))
        else:
            scenes.append(replace(header, site=site))
    notes = list(lines_by_reason((scene.name, scene.note) for scene in scenes if scene.note))
    # Names that were asked for are taken as they are.
    found = pictures_of(scenes) if options.glob is None else Pictures(scenes)
    skipped, warnings = [*skipped, *found.skipped], [*notes, *found.warnings]
    return replace(found, skipped=skipped, warnings=warnings, rasters=len(files.names))


def without_date(name: str) -> Skipped:
    """Return why a scene without a date is left out."""
    return Skipped(
        "without a date",
        name,
        "left out, without a date; put it into the file name, such as scene_2019-08-31.tif",
    )


def key_of(name: str, pattern: Pattern[str]) -> str | None:
    """Return the groups of a pattern in a path, joined; None if it does not match.

    Raises:
        OptionInvalid: the match takes too long, as with ``(a+)+``.
    """
    try:
        match = pattern.search(name, timeout=MATCH_SECONDS)
    except TimeoutError:
        raise OptionInvalid(
            f"match is {pattern.pattern!r}, which takes more than {MATCH_SECONDS:g} s for {name}; avoid a "
            "repeat inside a repeat"
        ) from None
    return "-".join(group for group in match.groups() if group) or None if match else None


def _site(root: str, name: str, pattern: Pattern[str] | None) -> str | None:
    if pattern is not None:
        return key_of(name, pattern)
    above = re.split(r"[^/]*\.SAFE/", name, flags=re.IGNORECASE)[0]
    for folder in PurePosixPath(f"{above}x").parts[:-1]:
        if _date_of_folder(folder) is None and not _OF_PRODUCTS.fullmatch(folder):
            return folder
    return os.path.basename(root) or None


def _date_of_folders(name: str) -> str | None:
    """Return the date in the name of the innermost folder that has one."""
    folders = PurePosixPath(name).parts[:-1]
    return next(filter(None, map(_date_of_folder, reversed(folders))), None)


def _date_of_folder(folder: str) -> str | None:
    """Return the day in a folder's name, or a year or month that is the whole name: others contain years."""
    # With a suffix, so that a dot in the name does not begin one.
    date = scene_date(f"{folder}.x", {}).value
    is_whole = date is not None and folder.replace("_", "-") == date
    return date if date is not None and (len(date) == 10 or is_whole) else None


def _before_and_after(group: Mapping[str, Scene]) -> tuple[list[UnnamedPair], list[Skipped]]:
    """Pair the scenes named before and after of a folder; without dates, others cannot be ordered."""
    by_stem = {PurePosixPath(name).stem.lower(): scene for name, scene in group.items()}
    before, after = by_stem.get("before"), by_stem.get("after")
    pair = pair_of(before, after) if before and after else None
    pairs = [pair] if pair and pair.row.footprint is not None else []
    used = {name for pair in pairs for name in (pair.before, pair.after)}
    return pairs, [without_date(name) for name in group if name not in used]
