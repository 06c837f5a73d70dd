"""A report as one HTML file: its own files joined, with a policy that lets nothing else in.

The page makes no request. Its policy names the one style and the one script by their hashes; what comes from
a report is data that only the script reads, and shows as text.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import shapely
from shapely.geometry import MultiPolygon, box

from tiling import NoOverlap, ScenePair, Window
from workflows.errors import FormatUnsupported, OptionInvalid, ReportInvalid
from workflows.files import check_free, write_together
from workflows.inspection.event import ReportedRun
from workflows.options import MOST_METRES, ServerOptions
from workflows.page.content import imagery_content, report_content
from workflows.page.imagery import imagery_of
from workflows.progress import Progress
from workflows.report.report import ChangeReport
from workflows.scene.memory import MB, bounded_cache
from workflows.scene.opening import FINEST, Scene, grown, read_headers
from workflows.scene.pixels import in_pixels
from workflows.texts import shown

SUFFIX = ".html"
SIZE, LEAST_SIZE = 8 * MB, MB // 2
"""Bytes of a page: by default, and the least that may be asked for."""
# Of the pictures, where the words leave less than that of what was asked for.
LEAST_IMAGERY = MB // 4
# Pixels around the changes that lie at the edge of what was searched.
EDGE = 32
_SCRIPTS = ("start.js", "imagery.js", "map.js", "pointer.js", "marks.js", "list.js", "card.js", "main.js")
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def check_page(
    path: str | Path, overwrite: bool = False, inputs: Iterable[str | Path] = (), size: int = SIZE
) -> Path:
    """Make sure that a page can be written, leaving nothing there; ``inputs`` stay as they are.

    Raises:
        FormatUnsupported: another suffix than .html.
        OptionInvalid: its size is too small.
        OutputFolderMissing, OutputExists, OutputNotWritable: see :func:`workflows.files.check_free`.
    """
    path = Path(path)
    if path.suffix.lower() != SUFFIX:
        raise FormatUnsupported(f"{path}: a page is written as {SUFFIX}; give it such a name")
    if size < LEAST_SIZE:
        raise OptionInvalid(
            f"html-size is {size / MB:g} MB; a page takes {LEAST_SIZE / MB:g} MB at least: give that or more"
        )
    check_free([path], overwrite, inputs)
    return path


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
) -> int:
    """Write a report as a page and return its bytes.

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
    run = ReportedRun(source, report.run)
    if servers is None:
        servers = ServerOptions(allow_hosts=() if scenes is None else None)
    path = check_page(path, overwrite, (source,), size)
    with bounded_cache(), _opened(run, scenes or run.scenes(), servers) as pair:
        chunks = list(page_of(report, pair, source, size, progress))
    write_together({path: chunks})
    return sum(len(chunk.encode()) for chunk in chunks)


def page_of(
    report: ChangeReport, pair: ScenePair, source: Path, size: int = SIZE, progress: Progress | None = None
) -> Iterator[str]:
    """Yield the text of a page; arguments as in :func:`write_page`, the scenes opened as they were searched.

    Raises:
        NoOverlap: a change does not lie on the ground that both scenes show.
        SceneDamaged: pixels of a file cannot be decoded.
    """
    outlines = in_pixels([change.geometry for change in report.changes], pair) if report.changes else []
    window = _shown(report, pair, outlines, source)
    content = report_content(report, outlines, window, round(float(pair.grid.gsd), 4), source.name)
    words = data_text(content)
    left = max(size - sum(len(chunk.encode()) for chunk in _joined(words, "")), LEAST_IMAGERY)
    imagery = imagery_of(pair, window, outlines, left, progress)
    yield from _joined(words, data_text(imagery_content(imagery, window)))


def _opened(run: ReportedRun, scenes: tuple[Scene, Scene], servers: ServerOptions) -> ScenePair:
    """Open the scenes of a report as they were searched; arguments as in :func:`write_page`."""
    options = replace(run.options(), offline=servers.offline, allow_hosts=servers.allow_hosts)
    infos = read_headers(*scenes, options)
    gsd = run.record["tiling"].get("gsd")
    if not isinstance(gsd, int | float) or not infos[0].gsd / FINEST <= gsd <= MOST_METRES:
        raise ReportInvalid(
            f"{shown(run.report)}: it does not say at what resolution its scenes were searched; give a "
            ".geojson file that rscc caption or rscc batch wrote, with its own scenes"
        )
    return ScenePair.open(
        *infos,
        bands=options.bands,
        gsd=gsd,
        bounds=options.bounds,
        scale=options.scale,
        normalize=options.normalize,
        align=options.align,
    )


def _shown(report: ChangeReport, pair: ScenePair, outlines: list[MultiPolygon], source: Path) -> Window:
    """Return the pixels that a page shows: what was asked for, and the changes that reach beyond it."""
    grid = box(0, 0, pair.grid.width, pair.grid.height)
    for change, outline in zip(report.changes, outlines, strict=True):
        if not outline.intersects(grid):
            raise NoOverlap(
                f"{shown(source)}: change {change.id} does not lie on the ground that {pair.before.path} and "
                f"{pair.after.path} both show; give --before and --after of this report"
            )
    focus = pair.focus
    asked = box(focus.col_off, focus.row_off, focus.col_end, focus.row_end)
    west, north, east, south = (int(value) for value in shapely.total_bounds([asked, *outlines]))
    around = Window(west, north, east - west, south - north)
    reaches = (west, north, east, south) != (focus.col_off, focus.row_off, focus.col_end, focus.row_end)
    return grown(pair, around, EDGE if reaches else 0)


def data_text(value: Any) -> str:
    """Return JSON that can stand in a page: nothing in it ends the element that holds it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter, escaped in _ESCAPED.items():
        text = text.replace(letter, escaped)
    return text


def _joined(data: str, imagery: str) -> Iterator[str]:
    """Yield a page from its parts."""
    script, style = _files()
    policy = "; ".join(
        (
            "default-src 'none'",
            "img-src data:",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    parts = {"policy": policy, "style": style, "data": data, "script": script, "imagery": imagery}
    rest = _text("page.html")
    for name, part in parts.items():
        head, rest = rest.split(f"[[{name}]]")
        yield head
        yield part
    yield rest


@cache
def _files() -> tuple[str, str]:
    """Return the script and the style of every page."""
    body = "".join(_text(name) for name in _SCRIPTS)
    return f'(() => {{\n"use strict";\n{body}}})();\n', _text("page.css")


def _text(name: str) -> str:
    return files("workflows.page").joinpath("files", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
