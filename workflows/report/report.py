"""What a run found: the changes and the record of how they were found, and the file they are written to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflows.files import check_output, style_path, write_together
from workflows.report.change import PROPERTIES, Change, Chips, feature_of, number_types
from workflows.report.geojson import CRS, collection_bbox, json_text
from workflows.report.qgis import qgis_style
from workflows.report.record import of_scenes
from workflows.report.summary import area_in_words, summary_of

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

MOST_ROWS = 20
"""Changes that a notebook shows of a report."""


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
        return {**self._head(), "features": [feature_of(change) for change in self.changes]}

    def to_geodataframe(self) -> GeoDataFrame:
        """Return a row for each change: the attributes of the report, geometry in WGS84.

        Columns have the same types in all reports, so that tables of several can be put together.
        """
        from geopandas import GeoDataFrame

        rows = [change.properties() for change in self.changes]
        geometry = [change.geometry for change in self.changes]
        frame = GeoDataFrame(rows, columns=PROPERTIES, geometry=geometry, crs=CRS)
        return frame.astype(number_types())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {summary_of(self.changes).text}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the summary, and the changes with the largest areas."""
        largest = sorted(self.changes, key=lambda change: -change.area_m2)[:MOST_ROWS]
        rows = [(str(one.id), one.caption, str(one.count), area_in_words(one.area_m2)) for one in largest]
        cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
        more = len(self.changes) - len(largest)
        return (
            f"<p>{escape(summary_of(self.changes).text)}</p>"
            "<table><tr><th>id</th><th>caption</th><th>count</th><th>area</th></tr>"
            + "".join(f"<tr>{row}</tr>" for row in cells)
            + "</table>"
            + (f"<p>and {more:,} smaller</p>" if more else "")
        )

    def recounted(self) -> ChangeReport:
        """Return the report with a summary of its changes as they are; itself where it has that, or none."""
        told, now = self.run.get("summary"), summary_of(self.changes).as_dict()
        if not isinstance(told, dict):
            return self
        area, rounding = told.get("area_m2"), 0.01 * (1 + len(self.changes))
        same = (
            isinstance(area, float | int) and now["area_m2"] - rounding <= area <= now["area_m2"] + rounding
        )
        if same and all(told.get(name) == now[name] for name in ("text", "changes")):
            return self
        return replace(self, run={**self.run, "summary": now}, finished=None)

    def write(self, path: str | Path, overwrite: bool = False, chips: Chips | None = None) -> Path:
        """Write the report in the format of the suffix of ``path``, and its QGIS style.

        Its summary is that of the changes as they are now. The style lies beside it (``.qml``); a GeoPackage
        has it inside. All files appear complete or not at all. Returns the path of the report.

        Args:
            path: where it goes.
            overwrite: a report that is there may be replaced.
            chips: pictures of changes for the map tips of a GeoPackage; other formats have none.

        Raises:
            FormatUnsupported, OutputExists, OutputFolderMissing, OutputNotWritable: see
                :func:`workflows.files.check_output`.
        """
        inputs = [name for name in of_scenes(self.run, "path").values() if name is not None]
        path = check_report(path, overwrite, inputs)
        style = style_path(path)
        write_together(
            {
                **({} if style is None else {style: [qgis_style()]}),
                path: self.recounted()._content(path, chips),
            }
        )
        if self.finished is not None:
            self.finished()
        return path

    def encoded(self) -> bytes:
        """Return the report as GeoJSON, if nobody edited it what :meth:`write` writes to a ``.geojson``."""
        return "".join(self._lines()).encode()

    def _content(self, path: Path, chips: Chips | None) -> Iterable[str] | Callable[[Path], None]:
        """Return what a report at ``path`` holds: its text, or what writes it to a path."""
        if path.suffix.lower() == ".geojson":
            return self._lines()
        from workflows.report.formats import content_of  # pyogrio and pyarrow: not for every report

        return content_of(path, self.changes, self.run, chips)

    def _head(self) -> dict[str, Any]:
        """Return the members of the collection but the features."""
        bbox = collection_bbox(change.geometry for change in self.changes)
        head: dict[str, Any] = {"type": "FeatureCollection"}
        if bbox is not None:
            head["bbox"] = bbox
        return {**head, "rscc": self.run}

    def _lines(self) -> Iterator[str]:
        """Yield the text of the collection.

        Each feature is made when its line is: as plain values all together would take many times the memory.
        """
        return collection_lines(self._head(), map(feature_of, self.changes))


def check_report(path: str | Path, overwrite: bool = False, inputs: Iterable[str | Path] = ()) -> Path:
    """Make sure that a report and its style can be written, see :func:`workflows.files.check_output`."""
    return check_output(path, overwrite, inputs, qgis_style())


def collection_lines(head: dict[str, Any], features: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the text of a collection, one feature a line, so that reports can be compared by line."""
    yield json_text(head)[:-1] + ', "features": ['
    start = "\n"
    for feature in features:
        yield start + json_text(feature)
        start = ",\n"
    yield "]}\n" if start == "\n" else "\n]}\n"
