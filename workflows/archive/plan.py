"""What an archive's run is about to do: which pairs, in which shard, under which keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workflows.errors import NotAnArchive, OptionInvalid, ShardsDiffer
from workflows.options import SceneOptions
from workflows.pairs.rows import PairRow
from workflows.progress import Progress, tell
from workflows.store.folder import ArchiveFolder
from workflows.store.identity import SceneIdentities, keyed, settings_key
from workflows.store.ledger import Ledger

if TYPE_CHECKING:
    from rscc.model_folder import ModelCard


Shard = tuple[int, int]


@dataclass(frozen=True)
class ArchiveOptions:
    """Which pairs a run takes up, and how it meets large ones and failures.

    Attributes:
        retries: how often a pair is tried again after it failed or crashed; what was refused is not.
        retry_failed: take up what failed in earlier runs, too.
        overwrite: also do pairs anew whose reports have marks of people, which are lost then.
        full_hash: know scenes by all their bytes instead of by size, time and header.
        shard: (number from 1, count): only this share of the pairs, into an archive within the folder.
        split_above: a pair with more tiles than this is cut into parts that several workers do, where all of
            them see the archive; None: never.
        give_up_after: so many pairs in a row whose scenes cannot be had end the run; 0: never.
    """

    retries: int = 1
    retry_failed: bool = False
    overwrite: bool = False
    full_hash: bool = False
    shard: Shard | None = None
    split_above: int | None = None
    give_up_after: int = 25


def shard_of(pair: str, count: int) -> int:
    """Return which of ``count`` shards, from 1, has a pair: by its id alone, so that others may be added."""
    return int.from_bytes(hashlib.sha256(pair.casefold().encode()).digest()[:8]) % count + 1


def with_keys(
    rows: Sequence[PairRow],
    ledger: Ledger,
    scene: SceneOptions,
    card: ModelCard,
    options: ArchiveOptions,
    *,
    progress: Progress | None = None,
    missing: list[str] | None = None,
) -> Iterator[tuple[PairRow, str | None]]:
    """Yield every pair with the hash of all that has an influence on its report; None for other shards'.

    The names of pairs that stay done though their scenes are no longer there are added to ``missing``.
    """

    def stays(pair: str, key: str) -> bool:
        is_done = ledger.has_report(pair, key)
        if is_done and missing is not None:
            missing.append(pair)
        return is_done

    shard = options.shard
    mine = [shard is None or shard_of(row.pair, shard[1]) == shard[0] for row in rows]
    scenes = SceneIdentities(ledger.files(), full=options.full_hash)
    ours = (row for row, is_mine in zip(rows, mine, strict=True) if is_mine)
    with_key = keyed(ours, scenes, settings_key(scene, card), ledger.keep_files, stays)
    for number, (row, is_mine) in enumerate(zip(rows, mine, strict=True), start=1):
        yield next(with_key) if is_mine else (row, None)
        if number % 100 == 0:
            tell(progress, "scenes", number, len(rows))
    # It ends by keeping what it read last.
    yield from with_key


def archive_of(folder: str | Path, shard: Shard | None = None) -> ArchiveFolder:
    """Return the archive in ``folder``, or that of a shard within it; nothing is made.

    Raises:
        OptionInvalid: no such shard can be.
        NotAnArchive: something else is in the folder.
        ShardsDiffer: shards are in it and the whole is to be worked on, or the other way round.
        OutputNotWritable: the system refused to tell.
    """
    whole = ArchiveFolder(folder)
    if whole.is_foreign():
        raise NotAnArchive(f"{folder}: is not empty and no archive of rscc; give a new or an empty folder")
    counts = {count for _, count in whole.shard_folders()}
    if shard is None:
        if counts:
            raise ShardsDiffer(
                f"{whole.shards}: shards lie there; run rscc merge {folder} --remove-shards when all are "
                "finished, or give --out another folder"
            )
        return whole
    number, count = shard
    if not 1 <= number <= count:
        raise OptionInvalid(f"shard is {number}/{count}; it must be a number from 1 / how many there are")
    if counts - {count}:
        raise ShardsDiffer(
            f"{whole.shards}: shards of {min(counts - {count})} lie there; take as many, or remove them"
        )
    if not counts and whole.ledger.is_file():
        raise ShardsDiffer(
            f"{folder}: is an archive without shards; leave --shard out, or give --out another folder"
        )
    return whole.shard(number, count)
