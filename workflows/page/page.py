"""A report as one HTML file: its words, both scenes as pictures within a budget of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import shapely
from shapely.geometry import MultiPolygon, box

from tiling import ScenePair, Window
from workflows.errors import OptionInvalid
from workflows.files import write_together
from workflows.inspection.event import ReportedRun, outlines_on
from workflows.options import ServerOptions
from workflows.page.content import placed, report_content
from workflows.page.imagery import Picture, data_address, imagery_of
from workflows.page.template import Template, check_page_name, data_text
from workflows.progress import Progress
from workflows.report.report import ChangeReport
from workflows.scene.memory import MB, bounded_cache
from workflows.scene.opening import Scene, grown

SIZE, LEAST_SIZE = 8 * MB, MB // 2
"""Bytes of a page: by default, and the least that may be asked for."""
# Of the pictures, where the words leave less than that of what was asked for.
LEAST_IMAGERY = MB // 4
# Pixels around the changes that lie at the edge of what was searched.
EDGE = 32
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
    """Make sure that a page can be written, leaving nothing there; ``inputs`` stay as they are.

    Raises:
        OptionInvalid: its size is too small.
        WorkflowError: see :func:`workflows.page.template.check_page_name`.
    """
    if size < LEAST_SIZE:
        raise OptionInvalid(
            f"html-size is {size / MB:g} MB; a page takes {LEAST_SIZE / MB:g} MB at least: give that or more"
        )
    return check_page_name(path, overwrite, inputs)


def write_page(
    report: ChangeReport,
    source: Path,
    path: str | Path,
    *,
    scenes: tuple[Scene, Scene] | None = None,
    servers: ServerOptions | None = None,
    size: int = SIZE,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write a report as a page.

    Args:
        report: the changes and the run record.
        source: the file of the report.
        path: where the page goes.
        scenes: before and after; None takes those that the report names.
        servers: which may be asked; None: any for ``scenes``, those of the public network for the report's.
        size: bytes that the page may have; words are never left out for it.
        overwrite: a page that is there may be replaced.
        progress: told how far the reading is, as the stage ``page``.

    Raises:
        TilingError: a scene cannot be read, or a change does not lie on the ground that both show.
        ReportInvalid: the report is damaged where it says which scenes were read, and how.
        WorkflowError: as :func:`check_page`; nothing is left behind then.
    """
    path = check_page(path, overwrite, (source,), size)
    with opened_scenes(report, source, scenes, servers) as pair:
        window, outlines, words = shown_report(report, pair, source)
        bare = sum(len(chunk.encode()) for chunk in TEMPLATE.joined(data=words, imagery=""))
        imagery = imagery_of(pair, window, outlines, max(size - bare, LEAST_IMAGERY), progress)

    def written_out(picture: Picture) -> dict[str, Any]:
        return placed(picture, window, data_address(picture.before), data_address(picture.after))

    content = {
        "whole": written_out(imagery.whole),
        "parts": list(map(written_out, imagery.parts)),
        "reduced": round(imagery.whole.reduced, 3),
    }
    write_together({path: list(TEMPLATE.joined(data=words, imagery=data_text(content)))})


@contextmanager
def opened_scenes(
    report: ChangeReport, source: Path, scenes: tuple[Scene, Scene] | None, servers: ServerOptions | None
) -> Iterator[ScenePair]:
    """Open the scenes of a report as they were searched; arguments and errors as in :func:`write_page`."""
    run = ReportedRun(source, report.run)
    if servers is None:
        servers = ServerOptions(allow_hosts=() if scenes is None else None)
    with bounded_cache(), run.opened(scenes or run.scenes(), servers) as pair:
        yield pair


def shown_report(
    report: ChangeReport, pair: ScenePair, source: Path
) -> tuple[Window, list[MultiPolygon], str]:
    """Return the pixels that a page shows, the outlines in them, and everything but the pictures as a text.

    Raises:
        NoOverlap: a change does not lie on the ground that both scenes show.
    """
    outlines = outlines_on(pair, report, source)
    window = _shown(pair, outlines)
    content = report_content(report, outlines, window, round(float(pair.grid.gsd), 4), source.name)
    return window, outlines, data_text(content)


def _shown(pair: ScenePair, outlines: list[MultiPolygon]) -> Window:
    """Return the pixels that a page shows: what was asked for, and the changes that reach beyond it."""
    focus = pair.focus
    asked = box(focus.col_off, focus.row_off, focus.col_end, focus.row_end)
    west, north, east, south = (int(value) for value in shapely.total_bounds([asked, *outlines]))
    around = Window(west, north, east - west, south - north)
    return grown(pair, around, 0 if around == focus else EDGE)
