"""Checks outputs before the work, and writes them under temporary names that are renamed when complete."""

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rscc.files import atomic_write, read_file
from workflows.errors import FormatUnsupported, OutputExists, OutputFolderMissing, OutputNotWritable

SUPPORTED_SUFFIXES = (".geojson", ".geojsonl", ".gpkg", ".fgb", ".parquet", ".csv", ".kml", ".shp")
Content = Iterable[str | bytes] | Callable[[Path], None]
"""What a file holds: its parts, or a function that writes it to a path."""
# Without a style for QGIS: a GeoPackage has its own; a .csv and a .kml are not opened with one.
_STYLELESS = (".gpkg", ".csv", ".kml")
# A race lost to another run that removes a folder takes one.
_TRIES = 9
NEARLY_FULL = 10**6
"""Free bytes below which a library's failure to write is put down to a full disk."""


def style_path(path: Path) -> Path | None:
    """Return the path of the QGIS style beside the report ``path``; None where there is none."""
    return None if path.suffix.lower() in _STYLELESS else path.with_suffix(".qml")


def check_output(
    path: str | Path, overwrite: bool = False, inputs: Iterable[str | Path] = (), style: str = ""
) -> Path:
    """Make sure that a report can be written to ``path``, without creating it.

    Args:
        style: text of the style; an existing style with this text, of another format, may be replaced.

    Raises:
        OutputExists: the report or its style exists and ``overwrite`` is False, is one of the inputs, is a
            folder, or is a GeoPackage being edited.
        OutputNotWritable: no file can be created in the folder.
    """
    path = Path(path)
    if path.suffix.lower() not in SUPPORTED_SUFFIXES:
        raise FormatUnsupported(
            f"{path}: a report must be {', '.join(SUPPORTED_SUFFIXES)}, or .html for its web page"
        )
    if path.suffix.lower() == ".gpkg":
        _check_closed(path)
    beside = style_path(path)
    is_same = beside is not None and holds_bytes(beside, style.encode())
    check_free((path,) if beside is None or is_same else (path, beside), overwrite, inputs)
    return path


def holds_bytes(path: Path, content: bytes) -> bool:
    """Return whether a regular file holds exactly these bytes."""
    try:
        return read_file(path, len(content)) == content
    except OSError:
        return False


def _check_closed(path: Path) -> None:
    """Refuse a GeoPackage with a SQLite journal beside it, which would be applied to the new file."""
    for log in (path.with_name(f"{path.name}{end}") for end in ("-wal", "-journal")):
        if log.is_file() and log.stat().st_size:
            raise OutputExists(
                f"{path}: open in another program, such as QGIS, with changes in {log.name}; close it there, "
                "remove that file if no program has it open, or choose another output name"
            )


def check_free(targets: Sequence[Path], overwrite: bool, inputs: Iterable[str | Path] = ()) -> None:
    """Make sure that files of one folder can be written, without replacing ``inputs``."""
    check_folder(targets[0])
    for target in targets:
        if target.is_dir():
            raise OutputExists(f"{target}: is a folder; choose another output name")
        if os.path.exists(target) and any(_is_same(target, source) for source in _files_of(inputs)):
            raise OutputExists(f"{target}: is an input of this run; choose another output name")
        # A broken link counts as existing too.
        if os.path.lexists(target) and not overwrite:
            raise OutputExists(f"{target}: exists already; add --overwrite or choose another output name")


def _files_of(inputs: Iterable[str | Path]) -> Iterator[str | Path]:
    """Yield inputs, and all files that the scenes among them are read from, such as sources of a VRT."""
    from tiling import OFFLINE, TilingError, files_of  # only where a file is to be replaced

    for source in inputs:
        yield source
        with suppress(TilingError, OSError, ValueError):
            yield from files_of(source, OFFLINE)


def _is_same(target: Path, source: str | Path) -> bool:
    """Return whether two paths are the same file; a source may also be in a zip or on a server."""
    try:
        return os.path.samefile(target, source)
    except (OSError, ValueError):
        return False


def check_folder(path: Path) -> None:
    """Make sure that files can be created in the folder of ``path``, without leaving one."""
    if not path.parent.is_dir():
        raise OutputFolderMissing(f"{path}: the folder {path.parent} does not exist; create it")
    probe = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise _not_writable(path, error) from error


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, though another run may remove an empty one above it meanwhile.

    Raises:
        OSError: the system refuses.
    """
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):
            return folder.mkdir(parents=True, exist_ok=True)
    return folder.mkdir(parents=True, exist_ok=True)


def write_together(contents: Mapping[Path, Content]) -> None:
    """Write several files, text as UTF-8, all of them or none.

    A function as content writes its file itself, to the path it is called with. All files are complete under
    temporary names before the first is renamed. They are renamed in the given order: if the last exists, all
    do.
    """
    try:
        with atomic_write(*contents) as drafts:
            for draft, content in zip(drafts, contents.values(), strict=True):
                if callable(content):
                    content(draft)
                    continue
                with draft.open("xb") as file:
                    file.writelines(chunk.encode() if isinstance(chunk, str) else chunk for chunk in content)
    except OSError as error:
        raise _not_writable(list(contents)[-1], error) from error


@contextmanager
def one_line_if_disk_full(folder: Path) -> Iterator[None]:
    """Turn the error of any library about a full or read-only disk into an error of one line."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if reason := next((words for words in _REFUSALS if words in str(cause)), None):
                raise OutputNotWritable(
                    f"{folder}: cannot be written ({reason}); choose another folder or free space"
                ) from error
            cause = cause.__cause__ or cause.__context__
        raise


# The system's words, which shutil, safetensors and torch quote in errors of their own types.
_REFUSALS = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EROFS)))


def _not_writable(path: Path, error: OSError) -> OutputNotWritable:
    reason = error.strerror or str(error)
    with suppress(OSError):
        free = shutil.disk_usage(path.parent).free
        if error.strerror is None and free < NEARLY_FULL:  # GDAL and SQLite do not name the reason
            reason += f"; only {free / 1000:,.0f} kB are free"
    return OutputNotWritable(f"{path}: cannot be written ({reason}); choose another folder or free space")
