"""Pages of an archive: one for each pair that is done, with thumbnails beside it, and one for all pairs."""

import json
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

from tiling import TilingError
from workflows.archive.archive import Archive
from workflows.archive.folder import PAGE, THUMBNAILS
from workflows.archive.index import DONE
from workflows.archive.overview import archive_overview
from workflows.errors import OutputNotWritable, WorkflowError
from workflows.files import write_together
from workflows.options import ServerOptions
from workflows.progress import Progress, report_progress
from workflows.report.page.chips import chips_of
from workflows.report.page.template import Template, check_page_name, data_text, legible, page_file
from workflows.report.reading import open_report

EACH = 24
"""Changes of a pair that have thumbnails, the largest."""
_TEMPLATE = Template(
    "archive.html",
    ("page.css", "archive.css"),
    ("base.js", "archive.js", "view.js", "world.js", "pointer.js", "rows.js", "pairs.js"),
)


def write_pages(archive: Archive, servers: ServerOptions, progress: Progress | None = None) -> list[str]:
    """Write what is missing or older than its report, then the page of the archive.

    Returns:
        The pairs without a page, because their scenes cannot be read.

    Raises:
        ReportsDamaged: a report was damaged since the layers were written.
    """
    done, without = [row.pair for row in archive.index.rows(DONE)], []
    for number, pair in enumerate(done, start=1):
        try:
            _write_pair(archive, pair, servers)
        except OutputNotWritable:
            raise
        except (TilingError, WorkflowError):
            without.append(pair)
        report_progress(progress, "pages", number, len(done))
    write_archive_page(archive.folder.path, archive.folder.page, overwrite=True)
    return without


def _write_pair(archive: Archive, pair: str, servers: ServerOptions) -> None:
    path = archive.folder.report(pair)
    page, thumbnails = path.with_name(PAGE), path.with_name(THUMBNAILS)
    if _is_newer(page, path) and _is_newer(thumbnails, path):
        return
    report = replace(open_report(path), servers=servers)
    report.page(page, overwrite=True)
    largest = sorted(report.changes, key=lambda change: -change.area_m2)[:EACH]
    chips = chips_of(report, largest) if largest else {}
    content = {number: [b64encode(date).decode() for date in dates] for number, dates in chips.items()}
    archive.claim.write(thumbnails, json.dumps(content).encode())


def _is_newer(made: Path, report: Path) -> bool:
    try:
        return not made.is_symlink() and made.stat().st_mtime_ns >= report.stat().st_mtime_ns
    except OSError:
        return False


def write_archive_page(folder: Path, page: Path, overwrite: bool) -> None:
    """Write the page of an archive: a map of its pairs, their dates, their changes, links to their reports.

    Raises:
        ReportsDamaged: a report of a pair that is done is missing or damaged.
    """
    check_page_name(page, overwrite)
    overview = archive_overview(folder, page)
    # The scripts that all pages share read the members of the map at the top level.
    data = data_text(legible({**overview, **overview["map"]}))
    write_together({page: list(_TEMPLATE.joined(data=data, world=page_file("world.json")))})
