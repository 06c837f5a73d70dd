"""What a run found: the changes and the record of how they were found, and the file they are written to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workflows.files import check_output, style_path, write_together
from workflows.report.change import Change, feature_of
from workflows.report.formats import content_of, text_in
from workflows.report.geojson import collection_bbox, json_text, rounded
from workflows.report.qgis import qgis_style

END = b"]}\n"
"""The last bytes of every report, and of nothing that was cut off."""


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

    def write(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write the report in the format of the suffix of ``path``, and its QGIS style.

        The style lies beside it (``.qml``); a GeoPackage has it inside. All files appear complete or not at
        all. Returns the path of the report.

        Raises:
            FormatUnsupported, OutputExists, OutputFolderMissing, OutputNotWritable: see
                :func:`workflows.files.check_output`.
        """
        named = (text_in(self.run, "inputs", role, "path") for role in ("before", "after"))
        path = check_output(path, overwrite, [name for name in named if name is not None])
        style = style_path(path)
        made = content_of(path, self.changes, self.run) or self._lines()
        write_together({**({} if style is None else {style: [qgis_style()]}), path: made})
        if self.finished is not None:
            self.finished()
        return path

    def replace(self, path: Path) -> None:
        """Write the report in the place of the GeoJSON report that is at ``path``; its style stays.

        Raises:
            OutputNotWritable: the system refused; the report is as it was.
        """
        write_together({path: self._lines()})

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
            yield ("\n" if number == 0 else ",\n") + json_text(feature_of(change))
        yield f"\n{END.decode()}" if self.changes else END.decode()
