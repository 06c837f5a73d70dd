"""Errors a user can act on; each class is named by the fact it states.

The command prints ``str(error)`` as one line on stderr and exits with ``error.exit_code``
(2: the input or an option is wrong; 1: the input was right but the run failed).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class RsccError(Exception):
    """Root of every error that the ``rscc`` package raises on purpose."""

    exit_code = 2


class ModelNotFound(RsccError):
    """A model name is not in the registry and is not a folder either."""


class ModelFolderInvalid(RsccError):
    """A model folder lacks a file, or a file does not agree with its recorded SHA-256 or config."""


class ConfigInvalid(RsccError):
    """A config file has an unknown key or a value outside its allowed range."""


class DatasetLayoutInvalid(RsccError):
    """A data set folder does not follow its benchmark's official layout."""


class SplitMissing(DatasetLayoutInvalid):
    """A data set has no pairs of a split, or no file that lists them."""


class WeightsNotFound(RsccError):
    """A file of pretrained weights (backbone, text encoder, parser) is missing."""


class ExtraNotInstalled(RsccError):
    """A command needs an optional dependency group that is not installed."""


@contextmanager
def extra(name: str, who: str = "this command") -> Iterator[None]:
    """Say which extra brings a package outside this distribution that is missing, and who needs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("rscc", "tiling", "workflows"):
            raise
        raise ExtraNotInstalled(f"{who} needs {package}: pip install 'rscc[{name}]'") from error


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says; its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class DeviceUnavailable(RsccError):
    """The requested compute device does not exist on this machine."""


class OutputExists(RsccError):
    """The folder to be written is there already; nothing is overwritten."""


class NonFiniteLoss(RsccError):
    """Training met a NaN or an infinity; the message lists every loss term."""

    exit_code = 1


class NonFiniteOutput(RsccError):
    """The network answered NaN or infinity; ``pairs`` are the places of such pairs in what it was given."""

    exit_code = 1

    def __init__(self, message: str, pairs: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.pairs = list(pairs)
