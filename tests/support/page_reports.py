"""A pair of scenes with a report of many changes on it, and the page of that, without any search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archive_rows import change, report
from page_checks import PageTexts
from scene_pairs import MadePair, make_pair
from shapely.geometry import Polygon

from tiling import transformer
from workflows.page.folder import write_page_folder
from workflows.page.page import write_page
from workflows.report.change import Change
from workflows.report.geojson import rounded
from workflows.report.report import ChangeReport

CRS, GSD, WEST, NORTH = "EPSG:32633", 0.5, 500_000.0, 5_600_000.0
TO_DEGREES = transformer(CRS, "EPSG:4326")
KINDS = (
    {"direction": "appeared", "came": ("building", "road"), "count": 3, "score": 0.9, "place": "south-west"},
    {
        "direction": "disappeared", "gone": ("trees",), "score": 0.7, "place": "south", "changed_m2": 60.0,
        "changed_back_m2": 7.0,
    },
    {"direction": "replaced", "came": ("building",), "gone": ("building",), "score": 0.5, "place": "south"},
    {"direction": None, "score": 0.2, "caption": "something changed", "place": None},
)  # fmt: skip


@dataclass(frozen=True)
class MadePage(PageTexts):
    """The scenes, the report and the page of a test."""

    pair: MadePair
    report: ChangeReport
    source: Path
    page: Path

    @property
    def data(self) -> dict[str, Any]:
        """What the page shows: ``report`` and ``imagery``."""
        return {"report": self.values("data"), "imagery": self.values("imagery")}


def square(number: int, col: float, row: float, side: float, **values: Any) -> Change:
    """A change whose outline is a square, by pixels of the scenes."""
    west, north, size = WEST + col * GSD, NORTH - row * GSD, side * GSD
    xs, ys = [west, west, west + size, west + size], [north, north - size, north - size, north]
    outline = rounded(Polygon(zip(*TO_DEGREES.transform(xs, ys), strict=True)))
    kind: dict[str, Any] = {"caption": f"house {number} is built", **KINDS[(number - 1) % len(KINDS)]}
    area = size**2
    return change(
        number, geometry=outline, area_m2=area, largest_m2=area, median_m2=area, **{**kind, **values}
    )


def squares(count: int, size: tuple[int, int]) -> list[Change]:
    """Many changes on scenes of ``size`` (height, width), each a little larger than the one before."""
    columns = int((count * size[1] / size[0]) ** 0.5) + 1
    step = size[1] / columns
    return [
        square(
            n + 1,
            (n % columns + 0.2) * step,
            (n // columns + 0.2) * step,
            step * (0.3 + 0.3 * n / count),
        )
        for n in range(count)
    ]


def said(text: str) -> dict[str, str]:
    """What a reviewer said of a change."""
    return {"review_status": "wrong words", "reviewer_caption": text, "reviewer_note": text, "reviewer": text}


def made_report(pair: MadePair, changes: list[Change], **run: Any) -> ChangeReport:
    """A report as a run over a pair writes it, as far as the page reads it."""
    scenes = {
        role: {"path": str(path), "date": day}
        for role, path, day in (("before", pair.before, "2016-03-14"), ("after", pair.after, "2019-10-05"))
    }
    about = {"settings": {}, "warnings": [], "started": "2026-01-01T00:00:00+00:00"}
    return report(*changes, **{"inputs": scenes, **about, **run})


def made_page(
    folder: Path,
    changes: list[Change],
    *,
    name: str = "report.geojson",
    warnings: Sequence[str] = (),
    as_folder: bool = False,
    rectangles: Sequence[tuple[int, ...]] = ((60, 60, 40, 40, 240),),
    **scenes: Any,
) -> MadePage:
    """Write scenes as ``make_pair``, with report and page of changes: a file, or the folder ``page``."""
    pair = make_pair(folder, rectangles, **{"size": (300, 420), **scenes})
    told = made_report(pair, changes, warnings=list(warnings))
    source, page = told.write(folder / name), folder / "page.html"
    if as_folder:
        page = write_page_folder(told, source, folder / "page")
    else:
        write_page(told, source, page)
    return MadePage(pair, told, source, page)
