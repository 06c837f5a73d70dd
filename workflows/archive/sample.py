"""Draw a random sample of the changes of an archive, as a small report for a person to mark."""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
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
    with read_state(folder) as state:
        pairs = [(state.folder.report(pair), changes) for pair, changes in state.index.select(_DONE)]
    total = sum(changes for _, changes in pairs)
    if total == 0:
        raise NothingToSample(f"{printable(folder)}: it has no changes yet; run rscc batch first")
    drawn = set(random.Random(seed).sample(range(total), min(count, total)))
    changes: list[Change] = []
    origins: list[list[Any]] = []
    records, first = [], 0
    for path, among in pairs:
        places = [place for place in range(among) if first + place in drawn]
        first += among
        if not places:
            continue
        report = done_report(path, among)
        records.append(report.run)
        for change in (report.changes[place] for place in places):
            changes.append(replace(change, id=len(changes) + 1))
            origins.append([path.parent.name, change.id])
    name = Path(folder).resolve().name
    sample = {"archive": name, "seed": seed, "changes": total, "drawn": origins}
    return Report(changes, {**_record(records), "sample": sample})


def _record(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the run record of a sample: that of its pair, or the members that the pairs share."""
    first, schema = records[0], {"schema": SCHEMA_VERSION}
    if len(records) == 1:
        return {**{name: value for name, value in first.items() if name != "summary"}, **schema}
    # Reports with marks may be of other options and an older model than the others.
    shared = {name: reduce(in_common, (record.get(name, {}) for record in records)) for name in _SHARED}
    return {**schema, "inputs": {}, "tiling": {}, **shared, _HASH: hash_of(shared["settings"])}
