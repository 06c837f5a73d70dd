"""Errors of whole jobs; each class is named by the fact it states.

``exit_code`` is what the command returns: 2 when an option or an input is wrong, 1 when the input was right
but the run failed.
"""

from collections.abc import Sequence
from pathlib import Path


class WorkflowError(Exception):
    """Root of every error that the ``workflows`` package raises on purpose."""

    exit_code = 2


class RunFailed(WorkflowError):
    """Root of the errors of a run whose input was right."""

    exit_code = 1


class OptionInvalid(WorkflowError):
    """An option has a value outside its allowed range."""


class TooCoarse(WorkflowError):
    """A scene has more metres per pixel than the model is meant for."""


class DateInvalid(WorkflowError):
    """A date given as an option is not a year, a month or a day in ISO form."""


class FormatUnsupported(WorkflowError):
    """The suffix of the output names a format that reports are not written in."""


class ReportInvalid(WorkflowError):
    """A file that is to be a report is none that rscc wrote, or is damaged."""


class MarksInvalid(WorkflowError):
    """A file that is to be marks of a report is none, is damaged, or is of another report."""


class NothingToSample(WorkflowError):
    """An archive has no change that could be drawn for a person to mark."""


class NothingToExport(WorkflowError):
    """What was reviewed makes no training pairs, or none to validate on."""


class OutputExists(WorkflowError):
    """The report or its style is there already, and overwriting was not asked for."""


class OutputFolderMissing(WorkflowError):
    """The folder of the report does not exist, or is not a folder."""


class OutputNotWritable(RunFailed):
    """The report cannot be written: no permission, a full disk, a read-only file system."""


class PicturesDiffer(WorkflowError):
    """Two pictures without georeferencing have different sizes: nothing says which pixels belong together."""


class MemoryTooSmall(WorkflowError):
    """The run cannot keep the memory cap, however small its parts."""


class MemoryExhausted(RunFailed):
    """Memory ran out with a single tile."""


class TileCacheBusy(RunFailed):
    """Another run works with the same finished tiles."""


class TileCacheUnusable(RunFailed):
    """Finished tiles cannot be kept in the folder: it is none, takes no files, or the disk is full."""


class NotAnArchive(WorkflowError):
    """A folder that is to be an archive holds other things, or is none."""


class PairTableInvalid(WorkflowError):
    """A table of pairs cannot be read: it is none, lacks a column, or has a wrong row."""


class CatalogInvalid(WorkflowError):
    """What scenes are to be taken from is none of the kinds that are read, or is damaged."""


class CatalogUnreachable(RunFailed):
    """The server of a catalog cannot be reached, or fails; the catalog may be right."""


class NoPairs(WorkflowError):
    """The scenes that were found make no pair."""


class ArchiveBusy(RunFailed):
    """Another run works on the same archive."""


class ScenesUnreachable(RunFailed):
    """The scenes of many pairs in a row cannot be had, as where a disk or a server is away."""


class ArchiveMissing(WorkflowError):
    """The folder is no archive: there is no ledger in it."""


class LedgerForeign(WorkflowError):
    """The file in the place of the ledger is damaged, none of ours, or of another version."""


class LedgerUnusable(RunFailed):
    """The ledger cannot be read or written now: a full disk, a lock, no permission."""


class WorkersUnable(RunFailed):
    """The worker processes cannot start."""


class SchedulerLost(RunFailed):
    """The scheduler of a Dask cluster cannot be reached, or went away."""


class VersionsDiffer(WorkflowError):
    """A worker of a cluster has another version of rscc than the process that leads it, or has none."""


class ShardsDiffer(WorkflowError):
    """Shards that lie together are not of one run."""


class ShardsUnfinished(RunFailed):
    """Shards are missing, or have pairs that are still to be done."""


class ReportsDamaged(RunFailed):
    """Reports of pairs that are done are missing or cannot be read; ``pairs`` has the ids of these pairs."""

    def __init__(
        self,
        first: Path,
        pairs: Sequence[str],
        remedy: str = "run the same command again to make it anew",
        what: str = "is missing or damaged though its pair was done",
    ) -> None:
        others = f" and {len(pairs) - 1} more" if len(pairs) > 1 else ""
        super().__init__(f"{first}{others}: the report {what}; {remedy}")
        self.pairs = list(pairs)
