"""A report: the changes of one pair of scenes, and the record of how they were found."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiling import TilingError
from workflows.errors import OptionInvalid, speaks_python
from workflows.files import Content, check_output, style_path, write_together
from workflows.options import ServerOptions
from workflows.printable import counted, printable
from workflows.progress import Progress
from workflows.report.change import KINDS, OPTIONAL, Change, Chips, columns_of, feature_of
from workflows.report.geojson import CRS, collection_bbox, json_lines
from workflows.report.qgis import qgis_style
from workflows.report.record import of_scenes
from workflows.report.summary import SceneSummary, summary_of

if TYPE_CHECKING:
    from folium import Map
    from geopandas import GeoDataFrame
    from matplotlib.axes import Axes

    from workflows.scenes import Scene


@dataclass(frozen=True)
class Report:
    """The changes of one pair of scenes, and how they were found.

    Attributes:
        changes: in the order of their ids.
        run: the run record, plain values.
        path: the file that the report was read from; None for a new report.
        scenes: before and after, where the page and the pictures read them; None: where the record says.
        servers: which may be asked for the scenes; None: any for ``scenes``, else public ones only.
        finished: called once the report is written; it removes the temporary maps of the run.
        copies: temporary files of scenes that were given as arrays; they live as long as the report.
    """

    changes: list[Change]
    run: dict[str, Any] = field(default_factory=dict)
    path: Path | None = field(default=None, repr=False, compare=False)
    scenes: tuple[Scene, Scene] | None = field(default=None, repr=False, compare=False)
    servers: ServerOptions | None = field(default=None, repr=False, compare=False)
    finished: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    copies: object = field(default=None, repr=False, compare=False)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    def __bool__(self) -> bool:
        return True  # a report without changes is a report

    def __getitem__(self, index: int) -> Change:
        return self.changes[index]

    @property
    def __geo_interface__(self) -> dict[str, Any]:
        return self.to_geojson()

    @property
    def summary(self) -> SceneSummary:
        """What was found in two or three sentences (``summary.text``), and the numbers behind them."""
        return summary_of(self.changes, self.run)

    @property
    def source(self) -> Path:
        """The file of the report, for messages; ``report.geojson`` of one that has none."""
        return self.path or Path("report.geojson")

    @property
    def area_m2(self) -> float:
        """The sum of the changes' areas in square metres."""
        return sum(change.area_m2 for change in self.changes)

    def change(self, number: int) -> Change:
        """Return the change with an id.

        Raises:
            OptionInvalid: there is none.
        """
        found = next((change for change in self.changes if change.id == number), None)
        if found is not None:
            return found
        there = "it has no changes"
        if self.changes:
            ids = [change.id for change in self.changes]
            span = f"{min(ids)} to {max(ids)}" if len(ids) > 1 else f"{ids[0]}"
            there = f"it has {counted(len(ids), 'change')}; give the id of one ({span})"
        raise OptionInvalid(f"{printable(self.source)}: there is no change {number} in it; {there}")

    def recounted(self) -> Report:
        """Return the report with a summary of its changes as they are now.

        Itself where the summary is right already, or where its record has none.
        """
        recorded, now = self.run.get("summary"), summary_of(self.changes, self.run).as_dict()
        if not isinstance(recorded, dict):
            return self
        # Areas are summed from rounded ones when a report was read from its file.
        area, rounding = recorded.get("area_m2"), 0.01 * (1 + len(self.changes))
        same = isinstance(area, float | int) and abs(now["area_m2"] - area) <= rounding
        if same and all(recorded.get(name) == now[name] for name in ("text", "changes")):
            return self
        return replace(self, run={**self.run, "summary": now}, finished=None)

    def to_geojson(self) -> dict[str, Any]:
        """Return an RFC 7946 feature collection; ``bbox`` only with features, the run record in ``rscc``."""
        return {**self._head(), "features": [feature_of(change) for change in self.changes]}

    def to_geodataframe(self) -> GeoDataFrame:
        """Return a row for each change: the attributes of the report, geometry in WGS84.

        Columns have the same types in all reports, so that tables of several can be joined.
        """
        from geopandas import GeoDataFrame

        rows = [change.properties() for change in self.changes]
        geometry = [change.geometry for change in self.changes]
        frame = GeoDataFrame(rows, columns=columns_of(self.changes), geometry=geometry, crs=CRS)
        # A column of floats has NaN for None.
        types = {name: float if name in OPTIONAL else kind for name, kind in KINDS.items()}
        return frame.astype({name: kind for name, kind in types.items() if KINDS[name] in (bool, int, float)})

    def encoded(self) -> bytes:
        """Return the report as the bytes of a ``.geojson`` file."""
        return "".join(self._lines()).encode()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary.text}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the summary, and the largest changes with both dates."""
        from workflows.report.notebook import report_html

        return report_html(self)

    @speaks_python
    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the outlines of the changes with their ids over the scene after; return the axes.

        Raises:
            ExtraNotInstalled: matplotlib is not there.
        """
        from workflows.report.notebook import plot_report

        return plot_report(self, axes)

    @speaks_python
    def explore(self) -> Map:
        """Return a folium map of the changes, with both dates and a swipe between them.

        Raises:
            ExtraNotInstalled: folium is not there.
            TilingError: a scene is no longer as it was.
        """
        from workflows.report.notebook import explore_report

        return explore_report(self)

    @speaks_python
    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write the report in the format of the suffix, or with ``.html`` its page; return the path.

        A GeoPackage has small pictures of the changes where the scenes were given; a warning says where a
        scene is no longer as it was and so gives none.

        Raises:
            TilingError: a page was asked for, and a scene is no longer as it was.
            WorkflowError: as :meth:`write` and :meth:`page`.
        """
        if Path(path).suffix.lower() == ".html":
            return self.page(path, overwrite=overwrite)
        return self.write(path, overwrite, self.chips(path, partial(warnings.warn, stacklevel=2)))

    def chips(self, path: str | Path, warn: Callable[[str], None]) -> Chips | None:
        """Return the pictures of the changes that a report at ``path`` has: a GeoPackage, with its scenes."""
        if Path(path).suffix.lower() != ".gpkg" or self.scenes is None:
            return None
        from workflows.report.page.chips import chips_of

        try:
            return chips_of(self)
        except TilingError as error:
            # The changes are worth more than their pictures.
            warn(f"map tips have no pictures: {error}")
            return None

    def write(self, path: str | Path, overwrite: bool = False, chips: Chips | None = None) -> Path:
        """Write the report in the format of the suffix of ``path``, and its QGIS style; return the path.

        The summary is that of the changes as they are now. The style lies beside the report (``.qml``), in a
        GeoPackage inside it. All files appear complete or not at all.

        Args:
            chips: pictures of changes for the map tips of a GeoPackage; other formats have none.
        """
        inputs = [name for name in of_scenes(self.run, "path").values() if name is not None]
        path = check_report(path, overwrite, inputs)
        style = style_path(path)
        styles = {} if style is None else {style: [qgis_style()]}
        report = self.recounted()
        contents: Mapping[Path, Content] = {path: report._lines()}
        if path.suffix.lower() != ".geojson":
            from workflows.report.formats.writing import files_of  # pyogrio and pyarrow: not for every report

            contents = files_of(path, report.changes, report.run, chips)
        write_together({**styles, **contents})
        if self.finished is not None:
            self.finished()
        return path

    @speaks_python
    def page(
        self,
        path: str | Path,
        *,
        size: int | None = None,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Path:
        """Write the report as one HTML file for a browser and return its path; both scenes are read again.

        The page names the file of the report, into which ``rscc review`` merges the page's marks; for a new
        report that is the page's own name with ``.geojson``.

        Args:
            size: bytes that it may have, pictures and all; texts are never left out for it. None: 8 MB.

        Raises:
            TilingError: a scene cannot be read, or a change does not lie on the ground that both show.
            ReportInvalid: the report is damaged where it says which scenes were read, and how.
            WorkflowError: see :func:`workflows.report.page.page.check_page`; nothing is left behind.
        """
        from workflows.report.page.page import SIZE, write_page

        named = replace(self, path=self.path or Path(path).with_suffix(".geojson"))
        return write_page(named, path, size=size or SIZE, overwrite=overwrite, progress=progress)

    @speaks_python
    def page_folder(
        self, folder: str | Path, *, overwrite: bool = False, progress: Progress | None = None
    ) -> Path:
        """Write the report as a folder with a page and both scenes at full detail; return the page.

        Raises:
            TilingError, ReportInvalid: as :meth:`page`.
        """
        from workflows.report.page.folder import write_page_folder

        return write_page_folder(self, folder, overwrite=overwrite, progress=progress)

    def _head(self) -> dict[str, Any]:
        """Return the members of the collection but the features."""
        bbox = collection_bbox(change.geometry for change in self.changes)
        head: dict[str, Any] = {"type": "FeatureCollection"}
        if bbox is not None:
            head["bbox"] = bbox
        return {**head, "rscc": self.run}

    def _lines(self) -> Iterator[str]:
        """Yield the text of the collection; each feature is made when its line is, to save memory."""
        return json_lines(self._head(), map(feature_of, self.changes))


def check_report(path: str | Path, overwrite: bool = False, inputs: Iterable[str | Path] = ()) -> Path:
    """Make sure that a report and its style can be written, see :func:`workflows.files.check_output`."""
    return check_output(path, overwrite, inputs, qgis_style())
