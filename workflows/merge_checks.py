"""Whether shards belong together and with the archive that they are merged into, and what is newer there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from workflows.archive_folder import ArchiveFolder
from workflows.errors import ShardsDiffer
from workflows.ledger import Ledger
from workflows.ledger_rows import DONE, FAILED, PENDING, RUNNING

# By the number of the shard.
Shards = Mapping[int, ArchiveFolder]
Ledgers = Mapping[int, Ledger]


def common_record(shards: Shards) -> str | None:
    """Return the text of the run record that the shards share; None if none had anything to do.

    Raises:
        ShardsDiffer: they do not share one, or one is damaged.
    """
    first: tuple[ArchiveFolder, str, Mapping[str, Any]] | None = None
    for shard in shards.values():
        found = _record(shard, "run the shard again")
        if found is None:
            continue
        first = first or (shard, *found)
        what = _difference(found[1], first[2])
        if what is not None:
            raise ShardsDiffer(
                f"{shard.path}: was made with {what} than {first[0].path}; run one of the two again like "
                "the other, or remove it"
            )
    return None if first is None else first[1]


def _record(folder: ArchiveFolder, remedy: str) -> tuple[str, Mapping[str, Any]] | None:
    """Return the text of a run record and what of it must be the same everywhere; None if there is none."""
    try:
        text = folder.run.read_text(encoding="utf-8")
        return text, _decisive(json.loads(text))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ShardsDiffer(f"{folder.run}: is damaged or cannot be read; {remedy}") from error


def _decisive(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "another model": record["model"],
        "other options": record["settings"],
        "another version of rscc": record["versions"]["rscc"],
    }


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    return next((what for what, value in one.items() if value != other[what]), None)


def places(shards: Shards, ledgers: Ledgers) -> dict[str, int]:
    """Return the shard of every pair, also of those that its table has no more.

    Raises:
        ShardsDiffer: two shards have the same pair.
    """
    found: dict[str, int] = {}
    for number, ledger in ledgers.items():
        for (pair,) in ledger.select("SELECT pair FROM pairs"):
            if found.setdefault(pair, number) != number:
                raise ShardsDiffer(
                    f"{shards[number].path}: has the pair {pair}, which is in {shards[found[pair]].path}, "
                    "too; remove the one that is a copy"
                )
    return found


def newer_here(ledgers: Ledgers, ledger: Ledger) -> dict[str, str]:
    """Return the states of pairs that the archive itself finished later than their shards saw them.

    A shard saw what it has not finished when it was last begun; what it would find with the key that the
    archive has done it with is there already. What failed in the archive is not newer than a report.
    """
    own = {
        pair: (state, key, finished)
        for pair, state, key, finished in ledger.select(
            "SELECT pair, state, key, finished FROM pairs WHERE state IN ('done', 'failed')"
        )
    }
    found = {}
    for shard in ledgers.values() if own else ():
        begun = max((session.started for session in shard.sessions()), default=0.0)
        for pair, state, key, finished in shard.select("SELECT pair, state, key, finished FROM pairs"):
            ours = own.get(pair)
            if ours is None or (ours[0] == FAILED and state == DONE):
                continue
            is_left = state in (PENDING, RUNNING)
            seen = finished if state in (DONE, FAILED) else begun
            if ours[2] > seen or (is_left and ours[:2] == (DONE, key)):
                found[pair] = ours[0]
    return found


def check_own(
    folder: ArchiveFolder,
    record: str | None,
    ledger: Ledger,
    known: Mapping[str, int],
    newer: Mapping[str, str],
) -> None:
    """Refuse to mix what stays in the archive with shards of another run.

    Raises:
        ShardsDiffer: the archive has work of its own that was done with another model, options or version.
    """
    done = ledger.select("SELECT pair FROM pairs WHERE state = 'done'")
    if record is None or not (newer or any(pair not in known for (pair,) in done)):
        return
    own = _record(folder, f"run rscc batch over {folder.path} again")
    what = None if own is None else _difference(own[1], _decisive(json.loads(record)))
    if what is not None:
        raise ShardsDiffer(
            f"{folder.path}: was itself worked on with {what} than its shards; run rscc batch --out "
            f"{folder.path} with what the shards were made with, or move {folder.shards} into a new folder "
            "and merge that"
        )
