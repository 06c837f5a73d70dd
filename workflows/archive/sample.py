"""Draw a random sample of the changes of an archive, as a small report for a person to mark."""

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

from workflows.archive.layers.layers import in_common
from workflows.archive.reports import done_report
from workflows.archive.state import read_state
from workflows.errors import NothingToSample
from workflows.printable import printable
from workflows.report.change import SCHEMA_VERSION, Change
from workflows.report.record import hash_of
from workflows.report.report import Report

_DONE = "SELECT pair, changes FROM pairs WHERE state = 'done' AND changes > 0 AND number >= 0 ORDER BY number"
# Members of the run record that reports of an archive share.
_SHARED, _HASH = ("model", "settings", "versions"), "settings_sha256"


def draw_sample(folder: str | Path, count: int, seed: int = 0) -> Report:
    """Draw changes of all finished pairs, with equal probability and without repetition.

    The member ``sample`` of the run record has the number of changes they were drawn from, and their ids. It
    names scenes only where all changes are of one pair.

    Args:
        count: number of changes; all of them where there are fewer.

    Raises:
        NothingToSample: it has no changes yet.
    """
    pairs = list(_pairs(folder))
    total = sum(changes for _, changes in pairs)
    if total == 0:
        raise NothingToSample(f"{printable(folder)}: it has no changes yet; run rscc batch first")
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
    return Report(changes, {**_record(records), "sample": sample})


def _pairs(folder: str | Path) -> Iterator[tuple[Path, int]]:
    """Yield the report of each finished pair, and its number of changes."""
    with read_state(folder) as state:
        for pair, changes in state.index.select(_DONE):
            yield state.folder.report(pair), changes


def _by_pair(
    pairs: Sequence[tuple[Path, int]], drawn: Sequence[int]
) -> Iterator[tuple[Path, int, list[int]]]:
    """Yield each report of which changes were drawn, its number of changes, and the places of those drawn."""
    ends = list(accumulate(among for _, among in pairs))
    for number, numbers in groupby(drawn, lambda one: bisect_right(ends, one)):
        path, among = pairs[number]
        yield path, among, [one - (ends[number] - among) for one in numbers]


def _record(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the run record of a sample: that of its pair, or the members that the pairs share."""
    first, schema = records[0], {"schema": SCHEMA_VERSION}
    if len(records) == 1:
        return {**{name: value for name, value in first.items() if name != "summary"}, **schema}
    # Reports with marks may be of other options and an older model than the others.
    shared = {name: reduce(in_common, (record.get(name, {}) for record in records)) for name in _SHARED}
    return {**schema, "inputs": {}, "tiling": {}, **shared, _HASH: hash_of(shared["settings"])}
