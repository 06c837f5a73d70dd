"""Finds the dated scenes of a monitor: files, folders, tables of pairs, archives, STAC."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tiling import is_address
from workflows.addresses import public_path
from workflows.archive.folder import MAPS, MARK, ArchiveFolder, read_mark
from workflows.errors import CatalogInvalid, NoScenes, OptionInvalid
from workflows.monitor.events import map_key
from workflows.monitor.options import MonitorOptions
from workflows.pairs.catalog import Scene, Skipped, choose
from workflows.pairs.delivery.pictures import write_stack
from workflows.pairs.folders import RASTERS, folder_scenes, without_date
from workflows.pairs.headers import read_headers
from workflows.pairs.stac_documents import is_web, stac_root
from workflows.pairs.table import is_table, read_pairs
from workflows.printable import counted
from workflows.progress import Progress

# Options that some kinds of sources use; the others use none of them.
_ONLY = {
    "match": {"folder"},
    "glob": {"folder"},
    "assets": {"STAC"},
    "collections": {"STAC"},
    "bounds": {"STAC"},
}

_Facts = tuple[str | None, float | None, str | None]
"""Date, clouds and site of a scene, as far as a table has them."""


@dataclass
class Found:
    """Dated scenes of all sources, what was left out, and warnings.

    Attributes:
        maps: folders with the maps of pairs of an archive, by :func:`workflows.monitor.events.map_key`.
    """

    scenes: list[Scene] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    maps: dict[str, Path] = field(default_factory=dict)


def find_scenes(sources: Sequence[str], options: MonitorOptions, progress: Progress | None = None) -> Found:
    """Return the dated scenes of the sources, within the dates and clouds of the options.

    Raises:
        CatalogInvalid: a source is missing, is empty, or is of no supported kind.
        CatalogUnreachable: a server does not answer.
        PairTableInvalid: a table is wrong.
        OptionInvalid: an option does not suit any of the sources.
        NoScenes: no scene has a date, or can be read.
    """
    kinds = [_kind(source) for source in sources]
    for name, suited in _ONLY.items():
        if getattr(options, name) and suited.isdisjoint(kinds):
            raise OptionInvalid(f"{options.flag(name)} has an effect only on a {' or '.join(suited)}")
    found = Found()
    files = [source for source, kind in zip(sources, kinds, strict=True) if kind == "file"]
    local = [name if is_address(name) or name.startswith("/vsi") else os.path.abspath(name) for name in files]
    _add_headers(found, dict.fromkeys(local, (None, None, None)), options, progress)
    for source, kind in zip(sources, kinds, strict=True):
        if kind != "file":
            _ADDED[kind](found, source, options, progress)
    found.scenes, excluded, warnings = choose(found.scenes, options)
    found.skipped += excluded
    found.warnings += warnings
    if not found.scenes:
        why = next((one.line for one in found.skipped if one.line), "give other --from, --to or --max-cloud")
        raise NoScenes(f"{public_path(sources[0])}: no scene can be used; {why}")
    return found


def _kind(source: str) -> str:
    if read_mark(Path(source) / MARK, "archive") is not None:
        return "archive"
    is_raster = public_path(source).lower().endswith(RASTERS)
    if not is_raster and (is_web(source) or stac_root(source) is not None):
        return "STAC"
    if os.path.isdir(source):
        return "folder"
    if is_raster or source.startswith("/vsi") or is_address(source):
        return "file"
    if not os.path.exists(source):
        raise CatalogInvalid(f"{public_path(source)}: no such file or folder")
    if is_table(source):
        return "table"
    return "STAC" if source.lower().endswith((".json", ".geojson")) else "file"


def _add_headers(
    found: Found, known: Mapping[str, _Facts], options: MonitorOptions, progress: Progress | None
) -> None:
    """Add the scenes at the locations that are the keys of ``known``."""
    if not known:
        return
    headers = read_headers(list(known), progress, options.access, with_info=True)
    for (location, (date, cloud, site)), header in zip(known.items(), headers, strict=True):
        if isinstance(header, Skipped):
            found.skipped.append(header)
            continue
        name = os.path.basename(public_path(location).rstrip("/"))
        cloud = header.cloud if cloud is None else cloud
        scene = replace(header, name=name, site=site, date=date or header.date, cloud=cloud)
        if scene.date:
            found.scenes.append(scene)
        else:
            found.skipped.append(without_date(name))


def _add_folder(found: Found, source: str, options: MonitorOptions, progress: Progress | None) -> None:
    pictures = folder_scenes(source, options, progress, with_info=True)
    for stack in pictures.stacks:
        write_stack(stack)
    found.scenes += [scene for scene in pictures.scenes if scene.date]
    found.warnings += pictures.warnings
    found.skipped += pictures.skipped
    found.skipped += [without_date(scene.name) for scene in pictures.scenes if not scene.date]


def _add_table(found: Found, source: str, options: MonitorOptions, progress: Progress | None) -> None:
    known: dict[str, _Facts] = {}
    for row in read_pairs(source, found.warnings.append):
        for role in ("before", "after"):
            facts = getattr(row, f"date_{role}"), getattr(row, f"cloud_{role}"), row.site
            known.setdefault(getattr(row, role), facts)
    _add_headers(found, known, options.for_others(), progress)


def _add_archive(found: Found, source: str, options: MonitorOptions, progress: Progress | None) -> None:
    """Add the scenes of the pairs that are done, and where their maps are."""
    from workflows.archive.index import DONE
    from workflows.archive.state import read_state  # slow to import

    known: dict[str, _Facts] = {}
    with read_state(source) as state:
        rows = list(state.index.rows(DONE))
        left = state.index.counts().total - len(rows)
    for row in rows:
        for location, date in ((row.before, row.date_before), (row.after, row.date_after)):
            known.setdefault(location, (date, None, row.site))
        folder = ArchiveFolder(source).pair_folder(row.pair)
        # The key of a pair begins with what its scenes are known by.
        before, _, rest = row.key.partition("-")
        if not folder.is_symlink() and (folder / MAPS[0]).is_file():
            found.maps[map_key(before, rest.partition("-")[0])] = folder
    if left:
        found.warnings.append(f"{source}: {counted(left, 'pair')} not done; finish it with rscc batch")
    _add_headers(found, known, options.for_others(), progress)


def _add_stac(found: Found, source: str, options: MonitorOptions, progress: Progress | None) -> None:
    from workflows.pairs.stac import stac_scenes

    scenes, skipped, _ = stac_scenes(stac_root(source) or source, options, progress)
    found.scenes += scenes
    found.skipped += skipped


_ADDED = {"folder": _add_folder, "table": _add_table, "archive": _add_archive, "STAC": _add_stac}
