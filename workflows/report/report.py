"""What a run found: the changes and the record of how they were found, and the file they are written to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from shapely.geometry import MultiPolygon, Polygon

from workflows.files import check_output, style_path, write_together
from workflows.report.geojson import collection_bbox, geometry_member, json_text, rounded
from workflows.report.qgis import qgis_style

END = b"]}\n"
"""The last bytes of every report, and of nothing that was cut off."""


@dataclass(frozen=True)
class Change:
    """One change and the words for it; the attributes but ``geometry`` are the fields of the report.

    A change is what a person calls one: a house, an estate of many outlines. What is not known is None or
    empty.

    Attributes:
        geometry: its outlines in WGS84 longitude and latitude, degrees; cut in parts where they cross 180
            degrees.
        id: 1..n, counted from north to south and from west to east.
        caption: the sentence, lower case.
        alternatives: other sentences, best first.
        score: how sure the model is of the words, 0..1.
        change_probability: mean probability of change inside the outlines, 0..1.
        area_m2: geodesic area of all outlines in square metres.
        date_before, date_after: ISO dates as precise as known (day, month or year); None when unknown.
        before, after: file names of the scenes.
        model, model_version: what found and described it.
        count: number of outlines.
        direction: ``appeared``, ``disappeared`` or ``replaced``.
        came, gone: object classes that appeared and that are gone.
        before_cover: what covered the ground before.
        largest_m2, median_m2: geodesic area of the largest and of the median outline in square metres.
        place: compass words of where it lies in the ground that was searched; None where it lies all over.
        arrangement: ``alone`` (one outline), ``in rows`` or ``scattered``.
        caption_confident: whether the words are sure enough to be said.
    """

    geometry: Polygon | MultiPolygon
    id: int
    caption: str
    alternatives: tuple[str, ...]
    score: float
    change_probability: float
    area_m2: float
    date_before: str | None
    date_after: str | None
    before: str
    after: str
    model: str
    model_version: str
    count: int = 1
    direction: str | None = None
    came: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    before_cover: tuple[str, ...] = ()
    largest_m2: float | None = None
    median_m2: float | None = None
    place: str | None = None
    arrangement: str | None = None
    caption_confident: bool = True

    def properties(self) -> dict[str, Any]:
        """Return the fields as plain values: probabilities with 4 decimals, areas with 2, tuples as lists."""
        return {
            each.name: _plain(getattr(self, each.name), 2 if each.name.endswith("_m2") else 4)
            for each in fields(self)
            if each.name != "geometry"
        }


@dataclass(frozen=True)
class ChangeReport:
    """The changes of one pair of scenes, in the order of their ids, and the run record (plain values).

    ``finished`` is called once the report is written: what was kept in case the run ends early may go.
    """

    changes: list[Change]
    run: dict[str, Any] = field(default_factory=dict)
    finished: Callable[[], None] | None = field(default=None, repr=False, compare=False)

    @property
    def area_m2(self) -> float:
        """The sum of the changes' areas in square metres."""
        return sum(change.area_m2 for change in self.changes)

    def to_geojson(self) -> dict[str, Any]:
        """Return an RFC 7946 feature collection; ``bbox`` only with features, the run record in ``rscc``."""
        return {**self._head(), "features": [_feature(change) for change in self.changes]}

    def write(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write the report to ``path`` (``.geojson``) and its QGIS style beside it (``.qml``).

        Both appear complete or not at all. Returns the path of the report.

        Raises:
            FormatUnsupported, OutputExists, OutputFolderMissing, OutputNotWritable: see
                :func:`workflows.files.check_output`.
        """
        scenes = [scene["path"] for scene in self.run.get("inputs", {}).values()]
        path = check_output(path, overwrite, scenes)
        write_together({style_path(path): [qgis_style()], path: self._lines()})
        if self.finished is not None:
            self.finished()
        return path

    def encoded(self) -> bytes:
        """Return the bytes that :meth:`write` writes to the report's file."""
        return "".join(self._lines()).encode()

    def _head(self) -> dict[str, Any]:
        """Return the members of the collection but the features."""
        bbox = collection_bbox(rounded(change.geometry) for change in self.changes)
        head: dict[str, Any] = {"type": "FeatureCollection"}
        if bbox is not None:
            head["bbox"] = bbox
        return {**head, "rscc": self.run}

    def _lines(self) -> Iterator[str]:
        """Yield the text of the collection, one feature a line, so that reports can be compared by line.

        Each feature is made when its line is: as plain values all together would take many times the memory.
        """
        yield json_text(self._head())[:-1] + ', "features": ['
        for number, change in enumerate(self.changes):
            yield ("\n" if number == 0 else ",\n") + json_text(_feature(change))
        yield f"\n{END.decode()}" if self.changes else END.decode()


def _plain(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return round(value, digits)
    return list(value) if isinstance(value, tuple) else value


def _feature(change: Change) -> dict[str, Any]:
    return {
        "type": "Feature",
        "id": change.id,
        "geometry": geometry_member(rounded(change.geometry)),
        "properties": change.properties(),
    }
