"""An archive that a run works on: what it plans, installs and writes."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Self

from rscc.files import parsed_json, read_file
from workflows.addresses import without_secrets
from workflows.archive.claim import Claim, claim_shard
from workflows.archive.folder import ITEM, MAPS, REPORT, STYLE, WHOLE, ArchiveFolder, Shard
from workflows.archive.folder import locked as locked_file
from workflows.archive.index import DONE, FAILED, Index, PairState
from workflows.archive.layers.layers import write_layers
from workflows.archive.layers.stac import stac_item
from workflows.archive.plan import Plan, Planned
from workflows.archive.reports import Found, found_in, is_marked
from workflows.archive.state import THREADS, State, load_state, stamp_of
from workflows.archive.workers.tasks import Outcome
from workflows.errors import OptionInvalid, OutputExists, OutputNotWritable, ReportsDamaged
from workflows.pairs.rows import PairRow
from workflows.printable import listed
from workflows.progress import Progress
from workflows.report.locking import locked
from workflows.report.qgis import qgis_style
from workflows.report.reading import LARGEST_BYTES, report_content

PATIENCE = 600.0
"""Seconds to wait for another run that writes the layers."""
DAMAGED = "changes.damaged.geojson"
"""Name under which a damaged report is kept when its pair is done again."""


@dataclass(frozen=True)
class ArchiveOptions:
    """Which pairs a run does.

    Attributes:
        retry_failed: do again the pairs that failed in earlier runs.
        overwrite: also replace reports that people have marked; the marks are lost.
        shard: (number from 1, count): every ``count``-th pair of the table.
        pages: write the page of each pair that is done, and of the archive.
        keep_maps: keep the maps of each pair in its folder.

    Raises:
        OptionInvalid: there is no such shard.
    """

    retry_failed: bool = False
    overwrite: bool = False
    shard: Shard = WHOLE
    pages: bool = False
    keep_maps: bool = False

    def __post_init__(self) -> None:
        number, count = self.shard
        if not 1 <= number <= count < 10**9:
            raise OptionInvalid(f"shard is {number}/{count}; it must be a number from 1 / their number")


@dataclass(frozen=True)
class Archive:
    """An archive, or a shard of it, that this process works on.

    Attributes:
        state: what the folder holds; its index belongs to the main thread.
        pool: threads for work that waits for the disk.
    """

    folder: ArchiveFolder
    claim: Claim
    state: State
    pool: ThreadPoolExecutor
    options: ArchiveOptions = ArchiveOptions()

    @property
    def index(self) -> Index:
        """The index in memory."""
        return self.state.index

    @classmethod
    @contextmanager
    def open(cls, folder: ArchiveFolder, options: ArchiveOptions = ArchiveOptions()) -> Iterator[Self]:
        """Make the archive unless it exists, claim a shard of it, and clear up after a killed run.

        Raises:
            FolderOccupied, OutputFolderMissing, OutputNotWritable: the folder cannot be used.
            ArchiveBusy: another run works on this shard, or on shards of another count.
        """
        folder.create()
        with claim_shard(folder, options.shard) as claim, ThreadPoolExecutor(THREADS) as pool:
            claim.recover()
            archive = cls(folder, claim, load_state(folder, folder.archive_id(), pool), pool, options)
            try:
                archive._renew_items()
                yield archive
            except BaseException:
                with suppress(Exception):  # the first error says what is wrong
                    archive.save()
                raise
            else:
                archive.save()
            finally:
                claim.tidy()
                archive.index.close()

    def save(self) -> None:
        """Write the index; raises OutputNotWritable where the system refuses."""
        self.claim.write(self.folder.index, self.index.encoded())

    def plan(self, keyed: Iterable[tuple[PairRow, str | None]]) -> Planned:
        """Compare the archive with a table of pairs, and make pending in the index what is to be done.

        Args:
            keyed: all pairs of the table, each with its key; None for pairs of other shards.
        """
        plan = Plan(self.index, self.options.retry_failed)
        for number, (row, key) in enumerate(keyed):
            plan.compare(number, row, key)
        kept = [] if self.options.overwrite else self.marked(plan.outdated)
        plan.write(set(kept))
        unmapped = self._without_maps() if self.options.keep_maps else []
        self.index.reset(unmapped)
        counts = self.index.counts(self.options.shard)
        return Planned(
            **vars(counts),
            new=plan.new,
            changed=plan.changed - len(kept) + len(unmapped),
            retried=plan.retried,
            removed=len(self.state.removed),
            kept=tuple(kept),
        )

    def _without_maps(self) -> list[str]:
        """Return the pairs of the shard that are done, but have no maps and may be done again."""
        done = self.index.names(DONE, self.options.shard)
        has_maps = self.pool.map(lambda pair: (self.folder.pair_folder(pair) / MAPS[0]).is_file(), done)
        lacking = [pair for pair, is_there in zip(done, has_maps, strict=True) if not is_there]
        marked = set() if self.options.overwrite else set(self.marked(lacking))
        return [pair for pair in lacking if pair not in marked]

    def marked(self, pairs: Sequence[str], *, edited: bool = True) -> list[str]:
        """Return the pairs whose reports people have marked, or ``edited`` in a GIS."""
        found = self.pool.map(lambda pair: is_marked(self.folder.report(pair), edited=edited), pairs)
        return [pair for pair, is_one in zip(pairs, found, strict=True) if is_one]

    def install(self, row: PairState, report: bytes) -> tuple[Found, int] | None:
        """Write the folder of a pair with its report, a GeoJSON file; several threads may do so at once.

        Returns:
            What is in the report, and its time; None where people have marked the existing report, which
            stays unless the options overwrite it.

        Raises:
            OutputNotWritable: the system refused.
        """
        content = json.loads(report)
        item = _encoded(stac_item(row, content, row.wanted or ""))
        path = self.folder.report(row.pair)
        with _unchanged(path):
            if not self.options.overwrite and is_marked(path):
                return None
            files = {REPORT: report, STYLE: qgis_style().encode(), ITEM: item}
            maps = self.folder.maps(row.pair) if self.options.keep_maps else None
            self.claim.install(row.pair, files, maps)
            return found_in(content), stamp_of(f"{path}")

    def done(self, row: PairState, outcome: Outcome, found: Found, stamp: int) -> None:
        """Record that a pair has its report."""
        warnings = tuple(without_secrets(text) for text in found.warnings)
        values = {**found._asdict(), "warnings": warnings, **_ended(outcome), "kind": None, "error": None}
        self.index.update(row.pair, **values, state=DONE, key=row.wanted or "", stamp=stamp, line=None)

    def keep(self, pair: str) -> None:
        """Let a pair be done with the outdated report that people have marked."""
        row = self.index.one(pair)
        assert row is not None
        self.index.update(pair, state=DONE, wanted=row.key)

    def fail(self, row: PairState, outcome: Outcome) -> bool:
        """Record that a pair failed, and remove its outdated report; False if that is marked and stays.

        Raises:
            OutputNotWritable: the system refused.
        """
        reason = {"kind": outcome.state, "error": outcome.error or "", "line": outcome.line or ""}
        reason["line"] = without_secrets(reason["line"])
        values = {"key": row.wanted or "", **reason, **_ended(outcome)}
        report = self.folder.report(row.pair)
        with _unchanged(report):
            if not self.options.overwrite and is_marked(report):
                self.keep(row.pair)
                return False
            self.claim.fail(row.pair, {"before": row.before, "after": row.after, **values})
        stamp = stamp_of(f"{self.folder.failure(row.pair)}")
        self.index.reset([row.pair])
        self.index.update(row.pair, state=FAILED, stamp=stamp, **values)
        return True

    def write_layers(self, progress: Progress | None) -> None:
        """Write what describes the whole archive, unless it is up to date.

        Raises:
            ReportsDamaged: reports cannot be read. Their pairs are pending again, nothing was written, and
                each damaged report was renamed to :data:`DAMAGED`, with a number in front if that exists.
            OutputExists: a damaged report has marks of people, and the options do not overwrite it.
            OutputNotWritable: the system refused.
            ArchiveBusy: another run writes them for over ten minutes.
        """
        with locked_file(self.folder.claims / "layers.lock", "another run writes the layers", PATIENCE):
            try:
                self.index.layers = write_layers(self.claim, self.index.rows, progress, self.index.layers)
            except ReportsDamaged as damaged:
                marked = [] if self.options.overwrite else self.marked(damaged.pairs, edited=False)
                if marked:
                    reports = listed([str(self.folder.report(pair)) for pair in marked], 1)
                    raise OutputExists(
                        f"{reports}: damaged, has marks of people and would be replaced; mend it (rscc "
                        "review REPORT says where it is damaged), or add --overwrite"
                    ) from damaged
                for pair in damaged.pairs:
                    self.set_aside(pair)
                self.index.reset(damaged.pairs)
                raise

    def _renew_items(self) -> None:
        """Write the STAC items of edited reports again."""
        for pair in self.state.edited:
            row = self.index.one(pair)
            with suppress(Exception):  # a tampered report; the layers say what is wrong
                assert row is not None
                item = stac_item(row, report_content(self.folder.report(pair)), row.key)
                self.claim.write(self.folder.pair_folder(pair) / ITEM, _encoded(item))
        self.state.edited.clear()

    def set_aside(self, pair: str) -> None:
        """Rename a damaged report that is JSON: it may hold what somebody drew or wrote."""
        report = self.folder.report(pair)
        with suppress(OSError, ValueError):
            parsed_json(read_file(report, LARGEST_BYTES))
            names = (DAMAGED if number == 1 else f"{number}.{DAMAGED}" for number in count(1))
            report.replace(next(path for name in names if not (path := report.with_name(name)).exists()))


@contextmanager
def _unchanged(report: Path) -> Iterator[None]:
    """Let nobody review a report from the check for marks until it is replaced; raises ReportBusy."""
    with ExitStack() as stack:
        with suppress(OutputNotWritable):  # missing, a link, or read-only: nobody can review it
            stack.enter_context(locked(report))
        yield


def _ended(outcome: Outcome) -> dict[str, Any]:
    return {"worker": outcome.worker, "seconds": round(outcome.seconds, 3), "finished": time.time()}


def _encoded(item: Mapping[str, Any]) -> bytes:
    return f"{json.dumps(item, ensure_ascii=False, indent=1)}\n".encode()
