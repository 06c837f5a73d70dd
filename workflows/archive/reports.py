"""The reports of an archive's pairs, as the ledger has them."""

from __future__ import annotations

from pathlib import Path

from workflows.errors import ReportInvalid, ReportsDamaged
from workflows.inspection.event import read_report
from workflows.pairs.names import is_pair_id
from workflows.report.report import ChangeReport
from workflows.store.folder import REPORT, ArchiveFolder
from workflows.store.ledger_file import damaged


def report_path(archive: ArchiveFolder, pair: str) -> Path:
    """Return where the report of a pair is, or will be.

    Raises:
        LedgerForeign: no pair can have this name.
    """
    if not is_pair_id(pair):
        raise damaged(archive.ledger, f"a pair is {pair[:40]!r}")
    return archive.pair_folder(pair) / REPORT


def done_report(path: Path, changes: int | None) -> ChangeReport:
    """Return the report of a pair that is done.

    Raises:
        ReportsDamaged: it is missing, damaged, or has another number of ``changes`` than the ledger.
    """
    try:
        report = read_report(path)
    except ReportInvalid as error:
        remedy = "run the same rscc batch command again to make it anew"
        raise ReportsDamaged(path, [path.parent.name], remedy) from error
    if len(report.changes) != changes:
        raise ReportsDamaged(
            path,
            [path.parent.name],
            "give it the present time (touch), and run the same rscc batch command again to count it anew",
            what="was edited since its pair was done",
        )
    return report
