"""Write a report as one HTML file: its texts, and both scenes as pictures within a budget of bytes."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import shapely
from shapely.geometry import MultiPolygon, box

from tiling import ScenePair, Window
from workflows.errors import OptionInvalid
from workflows.files import write_together
from workflows.progress import Progress
from workflows.report.looked_at import not_judged_outline
from workflows.report.page.content import page_content, placed
from workflows.report.page.imagery import Picture, data_address, imagery_of
from workflows.report.page.template import Template, check_page_name, data_text
from workflows.report.scenes import Pictured, in_pixels, open_scenes, outlines_on
from workflows.scenes import expanded

MB = 10**6
SIZE, LEAST_SIZE = 8 * MB, MB // 2
"""Bytes of a page: by default, and at least."""
# Bytes for the pictures where the texts leave less.
_LEAST_IMAGERY = MB // 4
# Pixels shown around changes that reach beyond what was searched.
_EDGE = 32
TEMPLATE = Template(
    "page.html",
    ("page.css",),
    (
        "base.js", "start.js", "imagery.js", "view.js", "map.js", "pointer.js", "rows.js", "marks.js",
        "list.js", "card.js", "main.js",
    ),
)  # fmt: skip


def check_page(
    path: str | Path, overwrite: bool = False, inputs: Iterable[str | Path] = (), size: int = SIZE
) -> Path:
    """Make sure that a page can be written, leaving nothing there; ``inputs`` stay as they are."""
    if size < LEAST_SIZE:
        raise OptionInvalid(
            f"html-size is {size / MB:g} MB; a page takes {LEAST_SIZE / MB:g} MB at least: give that or more"
        )
    return check_page_name(path, overwrite, inputs)


def write_page(
    report: Pictured,
    path: str | Path,
    *,
    size: int = SIZE,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write a report as a page, see :meth:`workflows.report.report.Report.page`; return its path."""
    scenes = [scene for scene in report.scenes or () if isinstance(scene, str | Path)]
    path = check_page(path, overwrite, (report.source, *scenes), size)
    with open_scenes(report) as pair:
        window, outlines, texts = shown_report(report, pair)
        bare = sum(len(chunk.encode()) for chunk in TEMPLATE.joined(data=texts, imagery=""))
        whole, parts = imagery_of(pair, window, outlines, max(size - bare, _LEAST_IMAGERY), progress)

    def in_page(picture: Picture) -> dict[str, Any]:
        return placed(picture, window, data_address(picture.before), data_address(picture.after))

    content = {
        "whole": in_page(whole),
        "parts": list(map(in_page, parts)),
        "reduced": round(whole.reduced, 3),
    }
    write_together({path: list(TEMPLATE.joined(data=texts, imagery=data_text(content)))})
    return path


def shown_report(report: Pictured, pair: ScenePair) -> tuple[Window, list[MultiPolygon], str]:
    """Return the pixels that a page shows, the outlines in them, and all content but the pictures as text.

    Raises:
        NoOverlap: a change does not lie on the ground that both scenes show.
    """
    outlines = outlines_on(pair, report)
    window = _shown(pair, outlines)
    gsd = round(float(pair.grid.gsd), 4)
    unseen = not_judged_outline(report.run)
    hidden = MultiPolygon() if unseen is None else in_pixels([unseen], pair)[0]
    content = page_content(report, outlines, hidden, window, gsd)
    return window, outlines, data_text(content)


def _shown(pair: ScenePair, outlines: list[MultiPolygon]) -> Window:
    """Return the pixels that were searched, extended to the changes that reach beyond them."""
    focus = pair.focus
    searched = box(*focus.bounds)
    west, north, east, south = (int(value) for value in shapely.total_bounds([searched, *outlines]))
    around = Window(west, north, east - west, south - north)
    return expanded(pair, around, 0 if around == focus else _EDGE)
