"""One change of a report, read back from its file; it may come from anybody, so nothing in it is trusted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, Polygon, box

from tiling import NoOverlap, SceneNotFound, ScenePair, locate, on_map, transformer
from workflows.errors import OptionInvalid, ReportInvalid
from workflows.options import FRAMES, MOST_METRES, SceneOptions, ServerOptions
from workflows.report.change import VERDICTS, Change, attributes_of, fits, id_of
from workflows.report.geojson import outlines_in, polygons_in
from workflows.report.reading import ANOTHER, no_report, report_content
from workflows.report.record import of_scenes
from workflows.report.report import ChangeReport
from workflows.scene.opening import FINEST, Scene, open_at, read_headers
from workflows.texts import counted, shown

GIVE_BOTH = "give BEFORE and AFTER, where the scenes are now (rscc convert takes --before and --after)"
_LARGEST_NUMBER = 1e15
_RECORD = ("inputs", "model", "settings", "tiling")


@dataclass(frozen=True)
class ReportedRun:
    """What a report says of how it was made.

    Attributes:
        record: the run record, with at least the members ``inputs``, ``model``, ``settings`` and ``tiling``.
    """

    report: Path
    record: Mapping[str, Mapping[str, Any]]

    def scenes(self) -> tuple[str, str]:
        """Return where the scenes are: as they are named, else beside the report.

        Raises:
            ReportInvalid: it names none.
            SceneNotFound: one is in neither place.
            TilingError: its name is none that is read, or its archive is damaged.
        """
        before, after = (self._scene(role, path) for role, path in of_scenes(self.record, "path").items())
        return before, after

    def _scene(self, role: str, path: str | None) -> str:
        # What is printed of it, by anybody, must not steer a terminal.
        if not path and "sample" in self.record:
            raise ReportInvalid(
                f"{shown(self.report)}: it is a sample of several pairs; give the report of one of them"
            )
        if not path or not path.isprintable():
            raise ReportInvalid(
                f"{shown(self.report)}: it names no scene {role} that can be read; {GIVE_BOTH}"
            )
        return _find(self.report, path)

    def options(self) -> SceneOptions:
        """Return how the scenes were read.

        Raises:
            ReportInvalid: the record says so in values that no run has.
        """
        settings = {name: self.record["settings"].get(name) for name in _SETTINGS}
        given = {name: value for name, value in settings.items() if value is not None}
        wrong = [name for name, value in given.items() if not _SETTINGS[name](value)]
        if wrong:
            raise no_report(self.report, f"its setting {wrong[0]} is damaged")
        try:
            plain: dict[str, Any] = {
                n: tuple(value) if isinstance(value, list) else value for n, value in given.items()
            }
            return SceneOptions(**plain)
        except OptionInvalid as error:
            raise no_report(self.report, f"a setting is damaged ({error})") from error

    def check_order(self, scenes: Sequence[str]) -> None:
        """Refuse scenes before and after that have each other's names in the report.

        Raises:
            OptionInvalid: they have.
        """
        told = [PurePath(name or "").name for name in of_scenes(self.record, "path").values()]
        if [PurePath(name).name for name in scenes] == told[::-1] != told:
            raise OptionInvalid(
                f"{shown(self.report)}: its scene before is {shown(told[0])} and its scene after "
                f"{shown(told[1])}, and they were given the other way round; swap them"
            )

    def opened(self, scenes: tuple[Scene, Scene], servers: ServerOptions) -> ScenePair:
        """Open the scenes, wherever they are now, as they were searched: on the same pixel grid.

        Raises:
            TilingError: a scene cannot be read.
            ReportInvalid: the record says in values that no run has how it was read.
            OptionInvalid: the scenes are swapped.
        """
        options = replace(self.options(), offline=servers.offline, allow_hosts=servers.allow_hosts)
        infos = read_headers(*scenes, options)
        self.check_order([info.path for info in infos])
        gsd = self.record["tiling"].get("gsd")
        if not isinstance(gsd, int | float) or not infos[0].gsd / FINEST <= gsd <= MOST_METRES:
            raise ReportInvalid(
                f"{shown(self.report)}: it does not say at what resolution its scenes were searched; "
                f"{ANOTHER}, with its own scenes"
            )
        return open_at(gsd, infos, options)


def _find(report: Path, name: str) -> str:
    for place in (name, str(report.parent / name), str(report.parent / PurePath(name).name)):
        try:
            local = locate(place).local
        except SceneNotFound:
            continue
        if local is None or local.exists():
            return place
    raise SceneNotFound(
        f"{shown(report)}: its scene {name} is neither there nor beside the report; {GIVE_BOTH}"
    )


@dataclass(frozen=True)
class ReportedEvent(ReportedRun):
    """One change of a report, and what the report says of how it was found.

    Attributes:
        change: as the report has it; what an older report does not tell has its default.
        features: all changes of the report, as they are in the file.
    """

    change: Change
    features: Sequence[Any]

    def others(self) -> Iterator[Polygon | MultiPolygon]:
        """Yield the outlines of the other changes.

        Raises:
            ReportInvalid: a change has none.
        """
        for feature in self.features:
            if id_of(feature) != self.change.id:
                yield _geometry(self.report, feature)


def read_report(path: str | Path) -> ChangeReport:
    """Read a whole report.

    Raises:
        ReportInvalid: the file is missing, too large, or no report that rscc wrote.
    """
    path = Path(path)
    record, features = _parts(path)
    unnamed = next((n for n, feature in enumerate(features, start=1) if id_of(feature) is None), None)
    if unnamed is not None:
        raise no_report(path, f"its feature {unnamed} has no id")
    return ChangeReport([_change(path, feature) for feature in features], record)


STEPS = 8
"""Parts of a pixel that outlines are brought back to: they were traced along pixels, rounded in degrees."""


def in_pixels(geometries: Iterable[Polygon | MultiPolygon], pair: ScenePair) -> list[MultiPolygon]:
    """Return outlines in degrees in pixels of the working grid; empty where they have no place on it."""
    move, to_pixel = transformer("EPSG:4326", pair.grid.crs), ~pair.grid.transform

    def moved(degrees: np.ndarray) -> np.ndarray:
        pixels = np.column_stack(on_map(to_pixel, *move.transform(degrees[:, 0], degrees[:, 1])))
        return np.round(pixels * STEPS) / STEPS

    outlines = shapely.transform(np.array(list(geometries), dtype=object), moved)
    lost = ~np.isfinite(shapely.bounds(outlines)).all(axis=1)
    outlines[lost] = MultiPolygon()
    return [MultiPolygon(polygons_in(outline)) for outline in shapely.make_valid(outlines)]


def outlines_on(pair: ScenePair, report: ChangeReport, source: Path) -> list[MultiPolygon]:
    """Return the outlines of the changes of a report, of the file ``source``, in pixels of the working grid.

    Raises:
        NoOverlap: a change does not lie on the ground that both scenes show.
    """
    outlines = in_pixels([change.geometry for change in report.changes], pair) if report.changes else []
    grid = box(0, 0, pair.grid.width, pair.grid.height)
    for change, outline in zip(report.changes, outlines, strict=True):
        if not outline.intersects(grid):
            raise NoOverlap(
                f"{shown(source)}: change {change.id} does not lie on the ground that {pair.before.path} and "
                f"{pair.after.path} both show; give --before and --after of this report, or delete the change"
            )
    return outlines


def read_event(path: str | Path, number: int) -> ReportedEvent:
    """Read the change with the id ``number`` of a report.

    Raises:
        ReportInvalid: the file is missing, too large, or no report that rscc wrote.
        OptionInvalid: the report has no such change.
    """
    path = Path(path)
    record, features = _parts(path)
    feature = next((one for one in features if id_of(one) == number), None)
    if feature is None:
        there = "it has no changes"
        if features:
            last = max(id_of(one) or 0 for one in features)
            ids = "1 to" if last == len(features) else "of one that is there, up to"
            there = f"it has {counted(len(features), 'change')}; give --id {ids} {last}"
        raise OptionInvalid(f"{shown(path)}: there is no change {number} in it; {there}")
    run = {name: record[name] for name in _RECORD}
    return ReportedEvent(path, run, _change(path, feature), features)


def _parts(path: Path) -> tuple[dict[str, Any], list[Any]]:
    """Return the run record and the features of a report."""
    content = report_content(path)
    record: Any = content.get("rscc")
    features: Any = content.get("features")
    whole = isinstance(record, dict) and all(isinstance(record.get(name), dict) for name in _RECORD)
    if not whole or not isinstance(features, list) or content.get("type") != "FeatureCollection":
        raise ReportInvalid(
            f"{shown(path)}: this is no report of rscc; {ANOTHER}; what a GIS saves under another name lacks "
            "the run record"
        )
    return record, features


def _change(path: Path, feature: Mapping[str, Any]) -> Change:
    """Return a feature as what was written; an attribute that it lacks has its default."""
    try:
        values = attributes_of(feature)
    except KeyError as error:
        raise no_report(path, f"change {id_of(feature)} lacks attributes that every report has") from error
    for name, value in values.items():
        if not fits(name, value):
            if name == "review_status":
                raise ReportInvalid(
                    f"{shown(path)}: the review_status of change {values['id']} is {value!r}; make it one of "
                    f"{', '.join(VERDICTS)}, or empty"
                )
            raise no_report(path, f"the attribute {name} of change {values['id']} is damaged")
        values[name] = tuple(value) if isinstance(value, list) else value
    return Change(geometry=_geometry(path, feature), **values)


def _geometry(path: Path, feature: Mapping[str, Any]) -> Polygon | MultiPolygon:
    """Return the outlines of a feature, in degrees; valid."""
    outlines = outlines_in(feature.get("geometry"))
    if outlines is None:
        raise no_report(path, f"change {id_of(feature)} has no outline in degrees of longitude and latitude")
    return outlines


def _is_number(value: Any) -> bool:
    # A comparison, since whole numbers of any length are JSON.
    return type(value) in (int, float) and abs(value) < _LARGEST_NUMBER


def _numbers(value: Any, count: int) -> bool:
    return isinstance(value, list) and len(value) == count and all(map(_is_number, value))


def _is_flag(value: Any) -> bool:
    return type(value) is bool


_SETTINGS = {
    "bands": lambda value: (
        isinstance(value, list)
        and all(type(band) is int or (isinstance(band, str) and band.isprintable()) for band in value)
    ),
    "band_names": lambda value: (
        isinstance(value, list) and all(isinstance(name, str) and name.isprintable() for name in value)
    ),
    "bounds": lambda value: _numbers(value, 4),
    "gsd": _is_number,
    "scale": lambda value: value == "reflectance" or _numbers(value, 2),
    "normalize": _is_flag,
    "align": _is_flag,
    "frame": lambda value: value in FRAMES,
    "force": _is_flag,
}
"""Members of the record's settings that say how scenes are read, and which values they may have."""
