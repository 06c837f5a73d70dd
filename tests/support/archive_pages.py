"""An archive of sites beside each other, without any scene, and the page of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archive_rows import change, fill, report
from page_checks import PageTexts
from shapely.geometry import box, mapping

from workflows.archive.overview import archive_overview
from workflows.page.archive import write_archive_page
from workflows.pairs.rows import PairRow
from workflows.report.report import ChangeReport

KINDS: tuple[dict[str, Any], ...] = (
    {"direction": "appeared", "came": ("building", "road")},
    {"direction": "disappeared", "gone": ("trees",)},
    {"direction": "replaced", "came": ("building",), "gone": ("building",)},
    {"direction": None},
)


@dataclass(frozen=True)
class MadeArchivePage(PageTexts):
    """The folder of the archive, and its page."""

    folder: Path
    page: Path

    @property
    def data(self) -> dict[str, Any]:
        """What the page shows."""
        data: dict[str, Any] = self.values("data")
        return data


def pair(number: int, **values: Any) -> PairRow:
    """A pair of site ``number``, a hundredth of a degree wide; ``values`` replace what it has by default."""
    west, south = 13 + 0.05 * (number % 5), 52 + 0.03 * (number // 5)
    fields = {
        "pair": f"p{number}",
        "before": f"/scenes/{number}_1.tif",
        "after": f"/scenes/{number}_2.tif",
        "date_before": "2015",
        "date_after": str(2018 + number % 3),
        "site": f"site {number}",
        "footprint": box(west, south, west + 0.01, south + 0.01),
    }
    return PairRow(**{**fields, **values})


def found(row: PairRow, count: int, **values: Any) -> ChangeReport:
    """The report of a pair with ``count`` changes of all kinds, the n-th of n hundred square metres."""
    west, south = row.footprint.bounds[:2] if row.footprint is not None else (13, 52)
    changes = [
        change(n, west, south, **{"area_m2": 100.0 * n, **KINDS[(n - 1) % len(KINDS)], **values})
        for n in range(1, count + 1)
    ]
    ground = None if row.footprint is None else mapping(row.footprint)
    return report(*changes, dates=(row.date_before, row.date_after), ground=ground)


def page_of(archive: Path) -> MadeArchivePage:
    """Write the page of an archive beside it."""
    page = archive.with_name("archive.html")
    write_archive_page(archive_overview(archive, page), page)
    return MadeArchivePage(archive, page)


def made_archive_page(
    folder: Path, rows: Mapping[PairRow, ChangeReport | str | None], name: str = "archive"
) -> MadeArchivePage:
    """Write an archive in ``folder/name``, see :func:`archive_rows.fill`, and its page beside it."""
    return page_of(fill(folder / name, rows).path)


def usual_rows() -> dict[PairRow, ChangeReport | str | None]:
    """Seven pairs: four that are done, one of them without changes, two that failed, one that is left."""
    rows: dict[PairRow, ChangeReport | str | None] = {
        row: found(row, count) for row, count in zip(map(pair, range(4)), (4, 0, 2, 6), strict=True)
    }
    lost = {pair(n): f"/scenes/{n}_2.tif: there is no such file" for n in (4, 5)}
    return {**rows, **lost, pair(6): None}
