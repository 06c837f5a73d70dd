"""A random sample of the changes of an archive, as a small report for a person to mark."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

from workflows.archive.reports import done_report, report_path
from workflows.archive.status import archives_in
from workflows.errors import NothingToSample
from workflows.layers.layers import in_common
from workflows.report.change import SCHEMA_VERSION, Change
from workflows.report.record import hash_of
from workflows.report.report import ChangeReport
from workflows.store.ledger import Ledger
from workflows.texts import shown

_DONE = "SELECT pair, changes FROM pairs WHERE state = 'done' AND changes > 0 ORDER BY number"
# What all reports of an archive have in common.
_SHARED, _HASH = ("model", "settings", "versions"), "settings_sha256"


def draw_sample(folder: str | Path, count: int, seed: int = 0) -> ChangeReport:
    """Draw changes of all pairs that are done: each as likely as any other, none twice.

    The member ``sample`` of the run record says of how many changes they were drawn, and which they are. The
    scenes are named where all changes are of one pair.

    Args:
        folder: an archive, or one with shards.
        count: how many; all of them where there are fewer.
        seed: the same one draws the same changes of the same archive.

    Raises:
        ArchiveMissing, LedgerForeign, LedgerUnusable: see :func:`workflows.archive.status.archive_status`.
        NothingToSample: no change was found in it yet.
        ReportsDamaged: a report is missing, or another one than that of the run.
    """
    pairs = list(_pairs(folder))
    total = sum(changes for _, changes in pairs)
    if total == 0:
        raise NothingToSample(f"{shown(folder)}: no change was found in it yet; run rscc batch first")
    drawn = sorted(random.Random(seed).sample(range(total), min(count, total)))
    changes: list[Change] = []
    origins: list[list[Any]] = []
    records = []
    for path, among, places in _by_pair(pairs, drawn):
        report = done_report(path, among)
        records.append(report.run)
        for change in (report.changes[place] for place in places):
            changes.append(replace(change, id=len(changes) + 1))
            origins.append([path.parent.name, change.id])
    name = Path(folder).resolve().name
    sample = {"archive": name, "seed": seed, "changes": total, "drawn": origins}
    return ChangeReport(changes, {**_record(records), "sample": sample})


def _pairs(folder: str | Path) -> Iterator[tuple[Path, int]]:
    """Yield the report of each pair that is done, and how many changes it has."""
    for archive in archives_in(folder):
        with Ledger.reader(archive.path) as ledger:
            for pair, changes in ledger.select(_DONE, kinds=(str, int)):
                yield report_path(archive, pair), changes


def _by_pair(
    pairs: Sequence[tuple[Path, int]], drawn: Sequence[int]
) -> Iterator[tuple[Path, int, list[int]]]:
    """Yield each report of which changes were drawn, how many it has, and the places of those in it."""
    ends = list(accumulate(among for _, among in pairs))
    for number, numbers in groupby(drawn, lambda one: bisect_right(ends, one)):
        path, among = pairs[number]
        yield path, among, [one - (ends[number] - among) for one in numbers]


def _record(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the run record of a sample: that of its pair, or what the pairs have in common."""
    first, schema = records[0], {"schema": SCHEMA_VERSION}
    if len(records) == 1:
        return {**{name: value for name, value in first.items() if name != "summary"}, **schema}
    # Reports that people marked may be of other options, and another model, than those that were done anew.
    shared = {name: reduce(in_common, (record.get(name, {}) for record in records)) for name in _SHARED}
    return {**schema, "inputs": {}, "tiling": {}, **shared, _HASH: hash_of(shared["settings"])}
