"""Errors that a user can act on.

The command prints ``str(error)`` as one line on stderr and exits with ``error.exit_code``
(2: the input or an option is wrong; 1: the input is right but the run failed).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class RsccError(Exception):
    """Root of every error that the ``rscc`` package raises on purpose."""

    exit_code = 2


class ModelNotFound(RsccError):
    """A model name is neither in the registry nor a folder."""


class ModelFolderInvalid(RsccError):
    """A model folder lacks a file, or a file does not match its recorded SHA-256 or config."""


class DetectorInvalid(RsccError):
    """A change detector of another project cannot be opened, or does not fit the model or the scenes."""


class ConfigInvalid(RsccError):
    """A config has an unknown key or a value outside its allowed range."""


class DatasetLayoutInvalid(RsccError):
    """A data set folder does not follow its benchmark's official layout."""


class SplitMissing(DatasetLayoutInvalid):
    """A data set has no pairs in a split, or no file that lists them."""


class WeightsNotFound(RsccError):
    """A file of pretrained weights (backbone, text encoder, parser) is missing."""


class ExtraNotInstalled(RsccError):
    """A command needs an optional dependency group that is not installed."""


@contextmanager
def extra(name: str, who: str = "this command") -> Iterator[None]:
    """Turn a missing third-party package into an error that names the extra that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("rscc", "tiling", "workflows"):
            raise
        raise ExtraNotInstalled(f"{who} needs {package}: pip install 'rscc[{name}]'") from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message; its type if the message is empty."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class DeviceUnavailable(RsccError):
    """The requested compute device does not exist on this machine."""


class OutputExists(RsccError):
    """The output folder exists; nothing is overwritten."""


class NonFiniteLoss(RsccError):
    """A loss is NaN or infinite; the message lists every loss term."""

    exit_code = 1


class NonFiniteOutput(RsccError):
    """The network returned NaN or infinity; ``pairs`` are the indices of those pairs in the batch."""

    exit_code = 1

    def __init__(self, message: str, pairs: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.pairs = list(pairs)
