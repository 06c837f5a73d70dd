"""Errors of jobs, each named after the fact that it states.

``exit_code`` is that of the command: 2 if an option or an input is wrong, 1 if the run failed. Errors of
Python calls name keywords, where those of commands name options of the command line.
"""

import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar


class WorkflowError(Exception):
    """Root of every error that the ``workflows`` package raises on purpose."""

    exit_code = 2


class RunFailed(WorkflowError):
    """Root of the errors of a run whose input was right."""

    exit_code = 1


class OptionInvalid(WorkflowError):
    """An option has a value outside its allowed range."""


class TooCoarse(WorkflowError):
    """A scene is too coarse for the model."""


class DateInvalid(WorkflowError):
    """A date given as an option is not a year, a month or a day in ISO form."""


class FormatUnsupported(WorkflowError):
    """The suffix of the output is not a supported format."""


class ReportInvalid(WorkflowError):
    """A file is no report of rscc, or is damaged."""


class MarksInvalid(WorkflowError):
    """A file has no marks, is damaged, or belongs to another report."""


class NothingToSample(WorkflowError):
    """An archive has no change to draw for marking."""


class NothingToExport(WorkflowError):
    """Reviewed changes make no training pairs, or none for validation."""


class NoChangeThere(WorkflowError):
    """No change was found at the place that was asked for."""


class OutputExists(WorkflowError):
    """An output exists already, and may not be replaced."""


class OutputFolderMissing(WorkflowError):
    """The folder of an output does not exist, or is no folder."""


class ReportBusy(RunFailed):
    """Other programs keep changing the report."""


class OutputNotWritable(RunFailed):
    """An output cannot be written: no permission, a full disk, a read-only file system."""


class PicturesDiffer(WorkflowError):
    """Two pictures without georeferencing have different sizes, so their pixels cannot be matched."""


class MemoryTooSmall(WorkflowError):
    """The run cannot stay below its memory limit, however small its parts."""


class MemoryExhausted(RunFailed):
    """Memory ran out with a single tile."""


class MapsBusy(RunFailed):
    """Another run writes maps in the same folder."""


class MapsUnusable(RunFailed):
    """A folder cannot be used for maps: it holds other files or other maps, is damaged, or takes no files."""


class FolderOccupied(WorkflowError):
    """A folder contains other things than the archive or monitor that is to be written, or is no folder."""


class PairTableInvalid(WorkflowError):
    """A table of pairs cannot be read, lacks a column, or has a wrong row."""


class CatalogInvalid(WorkflowError):
    """A source of pairs is of no supported kind, or is damaged."""


class CatalogUnreachable(RunFailed):
    """The server of a catalog is unreachable or fails."""


class NoPairs(WorkflowError):
    """No two of the scenes make a pair."""


class ArchiveBusy(RunFailed):
    """Another run works on the same archive."""


class ScenesUnreachable(RunFailed):
    """The scenes of many pairs in a row are unreachable: their disk or server is down."""


class MarkMissing(WorkflowError):
    """The folder is no archive, or no monitor: it has no mark of one."""


class MonitorDamaged(RunFailed):
    """A file of a monitor's state is damaged."""


class ScenesMissing(RunFailed):
    """Scenes of a monitored place are gone, so that its events cannot be found again."""


class ContextInvalid(WorkflowError):
    """A context layer cannot be read, or has no such column."""


class GivenInvalid(WorkflowError):
    """A layer of given changes cannot be read, or holds something else than polygons on the ground."""


class NoticeFailed(RunFailed):
    """A server takes no notices."""


class NoScenes(WorkflowError):
    """No source has a dated scene that can be used."""


class WorkersUnable(RunFailed):
    """Worker processes cannot start."""


class SchedulerLost(RunFailed):
    """The scheduler of a Dask cluster is unreachable or stopped."""


class VersionsDiffer(WorkflowError):
    """A worker of a cluster has another version of rscc than this process, or has none."""


class ReportsDamaged(RunFailed):
    """Reports of finished pairs are missing or damaged; ``pairs`` has the ids of these pairs."""

    def __init__(
        self,
        first: Path,
        pairs: Sequence[str],
        remedy: str = "run the same command again",
        what: str = "of a finished pair is missing or damaged",
    ) -> None:
        others = f" and {len(pairs) - 1} more" if len(pairs) > 1 else ""
        super().__init__(f"{first}{others}: the report {what}; {remedy}")
        self.pairs = list(pairs)


P = ParamSpec("P")
T = TypeVar("T")
# An option, perhaps after "add", and its value in capitals or of a model.
_OPTION = re.compile(r"(add )?--(no-)?([a-z][a-z-]*)(?:[ =]([A-Z][A-Z0-9,]*\b|rscc-[a-z]+))?")
_WITH_VALUE = ("bbox", "model", "scale", "bands", "band_names", "gsd", "memory", "keep_maps", "allow_host")


def in_python(text: str) -> str:
    """Return a message with keywords in the place of options: ``--overwrite`` becomes ``overwrite=True``."""

    def keyword(found: re.Match[str]) -> str:
        name, value = found[3].replace("-", "_"), found[4]
        verb = "pass " if found[1] else ""
        if value is None and name not in _WITH_VALUE:
            return f"{verb}{name}={found[2] is None}"
        return f'{verb}{name}="{value}"' if value and value.startswith("rscc-") else f"{verb}{name}=..."

    return _OPTION.sub(keyword, text)


def speaks_python(function: Callable[P, T]) -> Callable[P, T]:
    """Let the errors of a function name keywords."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            # Known by the attribute, so that no package has to be imported for its errors.
            if hasattr(error, "exit_code") and error.args and isinstance(error.args[0], str):
                error.args = (in_python(error.args[0]), *error.args[1:])
            raise

    return call
