"""Reports and archives made without any search, their pages, and what is checked on every page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from archive_rows import change, fill, report
from scene_pairs import MadePair, make_pair
from shapely.geometry import Polygon, box, mapping

from tiling import transformer
from workflows.archive.layers.pages import write_archive_page
from workflows.pairs.rows import PairRow
from workflows.report.change import Change
from workflows.report.geojson import rounded
from workflows.report.report import Report

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 800}

CONTRAST = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$/.test(colour) && colour !== "transparent") return colour;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll("aside *, #card *, #tools *")]
    .filter((one) => one.checkVisibility())
    .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
    .filter((one) => !one.disabled && getComputedStyle(one).opacity === "1")
    .map((one) => {
      const pair = [light(getComputedStyle(one).color), light(ground(one))].sort((a, b) => b - a);
      return [one.tagName, one.className, (pair[0] + 0.05) / (pair[1] + 0.05)];
    })
    .filter(([, , contrast]) => contrast < 4.5);
}"""


def nameless(page: Any) -> int:
    """Return how many elements that can be pressed have no name."""
    return page.locator("button:visible, input:visible, select:visible, a:visible").evaluate_all(
        "all => all.filter((one) => !(one.ariaLabel || one.labels?.length || one.textContent.trim())).length"
    )


OVER_THE_MAP = ".tools, .date, #scale span, #legend, #card, #time"


def free_rows(page: Any) -> tuple[float, float]:
    """Return the rows of the screen between which nothing lies over the map."""
    high, low = 0.0, page.locator("#ground").bounding_box()["height"]
    middle = low / 2
    boxes = [one.bounding_box() for one in page.locator("#map").locator(OVER_THE_MAP).all()]
    for box_ in filter(None, boxes):
        if box_["y"] + box_["height"] / 2 < middle:
            high = max(high, box_["y"] + box_["height"] + 4)
        else:
            low = min(low, box_["y"] - 4)
    return high, low


def on_screen(page: Any, size: tuple[int, int], x: float, y: float) -> tuple[float, float]:
    """Return where a place of a map of ``size`` (width, height) lies while all of it is shown."""
    width, (high, low) = page.locator("#ground").bounding_box()["width"], free_rows(page)
    zoom = min(width / size[0], (low - high) / size[1])
    return width / 2 + (x - size[0] / 2) * zoom, (high + low) / 2 + (y - size[1] / 2) * zoom


class PageTexts:
    """What stands in a page."""

    page: Path

    @property
    def text(self) -> str:
        """The page."""
        return self.page.read_text(encoding="utf-8")

    def values(self, name: str) -> Any:
        """Return the data that the page has under a name."""
        found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', self.text, re.S)
        assert found is not None
        return json.loads(found[1])


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
    report: Report
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
    """The verdict of a reviewer on a change."""
    return {"review_status": "wrong words", "reviewer_caption": text, "reviewer_note": text, "reviewer": text}


def made_report(pair: MadePair, changes: list[Change], **run: Any) -> Report:
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
    source = told.write(folder / name)
    told = replace(told, path=source)
    page = told.page_folder(folder / "page") if as_folder else told.page(folder / "page.html")
    return MadePage(pair, told, source, page)


ARCHIVE_KINDS: tuple[dict[str, Any], ...] = (
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


def found(row: PairRow, count: int, **values: Any) -> Report:
    """The report of a pair with ``count`` changes of all kinds, the n-th of n hundred square metres."""
    west, south = row.footprint.bounds[:2] if row.footprint is not None else (13, 52)
    changes = [
        change(
            n, west, south, **{"area_m2": 100.0 * n, **ARCHIVE_KINDS[(n - 1) % len(ARCHIVE_KINDS)], **values}
        )
        for n in range(1, count + 1)
    ]
    ground = None if row.footprint is None else mapping(row.footprint)
    return report(*changes, dates=(row.date_before, row.date_after), ground=ground)


def page_of(archive: Path) -> MadeArchivePage:
    """Write the page of an archive beside it."""
    page = archive.with_name("archive.html")
    write_archive_page(archive, page, overwrite=True)
    return MadeArchivePage(archive, page)


def made_archive_page(
    folder: Path, rows: Mapping[PairRow, Report | str | None], name: str = "archive"
) -> MadeArchivePage:
    """Write an archive in ``folder/name``, see :func:`archive_rows.fill`, and its page beside it."""
    return page_of(fill(folder / name, rows).path)


def usual_rows() -> dict[PairRow, Report | str | None]:
    """Seven pairs: four that are done, one of them without changes, two that failed, one that is left."""
    rows: dict[PairRow, Report | str | None] = {
        row: found(row, count) for row, count in zip(map(pair, range(4)), (4, 0, 2, 6), strict=True)
    }
    lost = {pair(n): f"/scenes/{n}_2.tif: there is no such file" for n in (4, 5)}
    return {**rows, **lost, pair(6): None}


def listed_ids(page):
    """The ids in the list, in its order."""
    return page.locator("#list .facts").evaluate_all(
        "all => all.map((one) => Number(/#(\\d+)/.exec(one.textContent)[1]))"
    )


def address(page, words):
    """Wait until the address tells what is seen; return its numbers."""
    page.wait_for_url(re.compile(f"#.*{words}"))
    return dict(word.split("=") for word in page.url.partition("#")[2].split("&"))
