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
from workflows.options import ServerOptions
from workflows.progress import Progress, report_progress
from workflows.report.page.archive import write_archive_page
from workflows.report.page.chips import chips_of
from workflows.report.reading import open_report

EACH = 24
"""Changes of a pair that have thumbnails, the largest."""


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
    page = archive.folder.page
    write_archive_page(archive_overview(archive.folder.path, page), page, overwrite=True)
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
