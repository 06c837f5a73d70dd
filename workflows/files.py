"""Where an output goes: checked before the work, written under temporary names, renamed when complete."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rscc.files import atomic_write
from workflows.errors import FormatUnsupported, OutputExists, OutputFolderMissing, OutputNotWritable

SUPPORTED_SUFFIXES = (".geojson", ".geojsonl", ".gpkg", ".fgb", ".parquet")
NEARLY_FULL = 10**6
"""Free bytes that are told of where a library cannot write and does not say why."""
_FORMULA = re.compile(r"'*\s*[=+@\t-]")


def style_path(path: Path) -> Path | None:
    """Return the path of the QGIS style that lies beside the report ``path``; a GeoPackage holds its own."""
    return None if path.suffix.lower() == ".gpkg" else path.with_suffix(".qml")


def check_output(
    path: str | Path, overwrite: bool = False, inputs: Iterable[str | Path] = (), style: str = ""
) -> Path:
    """Make sure that a report can be written to ``path``, without leaving anything there.

    Args:
        path: where the report is to be.
        overwrite: a report that is there may be replaced.
        inputs: files that what is written is made of.
        style: text of the style; where it is there already, as beside another format, nothing is lost.

    Raises:
        FormatUnsupported: another suffix than the supported ones.
        OutputFolderMissing: the folder does not exist.
        OutputExists: the report or its style exists and ``overwrite`` is False, is one of the inputs, a
            folder has that name, or a GeoPackage is being edited.
        OutputNotWritable: no file can be made in the folder.
    """
    path = Path(path)
    if path.suffix.lower() not in SUPPORTED_SUFFIXES:
        raise FormatUnsupported(
            f"{path}: reports are written as {', '.join(SUPPORTED_SUFFIXES)}; give the output such a name"
            + (", or make the page of a report with rscc convert" if path.suffix.lower() == ".html" else "")
        )
    if path.suffix.lower() == ".gpkg":
        _check_closed(path)
    beside = style_path(path)
    is_there = beside is not None and beside.is_file() and beside.read_bytes() == style.encode()
    check_free((path,) if beside is None or is_there else (path, beside), overwrite, inputs)
    return path


def _check_closed(path: Path) -> None:
    """Refuse a GeoPackage with a log of changes beside it: SQLite would take it for that of the new file."""
    for log in (path.with_name(f"{path.name}{end}") for end in ("-wal", "-journal")):
        if log.is_file() and log.stat().st_size:
            raise OutputExists(
                f"{path}: another program, such as QGIS, has changes of it in {log.name}; save and close it "
                "there, remove that file if no program has it open, or choose another output name"
            )


def check_raster(path: Path, overwrite: bool, inputs: Iterable[str | Path]) -> None:
    """Make sure that the change probability can be kept at ``path``, without leaving anything there.

    Raises:
        FormatUnsupported, OutputFolderMissing, OutputExists, OutputNotWritable: as :func:`check_output`.
    """
    if path.suffix.lower() not in (".tif", ".tiff"):
        raise FormatUnsupported(f"{path}: the change probability is kept as GeoTIFF; name it .tif")
    check_free((path,), overwrite, inputs)


def check_free(targets: Sequence[Path], overwrite: bool, inputs: Iterable[str | Path] = ()) -> None:
    """Make sure that files, all in one folder, can be written without harm; ``inputs`` stay as they are.

    Raises:
        OutputFolderMissing, OutputExists, OutputNotWritable: as :func:`check_output`.
    """
    check_folder(targets[0])
    for target in targets:
        if target.is_dir():
            raise OutputExists(f"{target}: a folder has this name; choose another output name")
        if any(_is_same(target, source) for source in inputs):
            raise OutputExists(f"{target}: is an input of this run; choose another output name")
        # A link that leads nowhere is somebody's, too.
        if os.path.lexists(target) and not overwrite:
            raise OutputExists(f"{target}: exists already; add --overwrite or choose another output name")


def _is_same(target: Path, source: str | Path) -> bool:
    """Return whether two names are of one file; a source may lie in an archive, or on a server."""
    try:
        return os.path.samefile(target, source)
    except (OSError, ValueError):
        return False


def check_folder(path: Path) -> None:
    """Make sure that the folder of ``path`` is there and takes files, without leaving anything there.

    Raises:
        OutputFolderMissing: it does not exist, or is no folder.
        OutputNotWritable: no file can be made in it.
    """
    if not path.parent.is_dir():
        raise OutputFolderMissing(f"{path}: the folder {path.parent} does not exist; create it first")
    probe = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise _not_writable(path, error) from error


def write_together(contents: Mapping[Path, Iterable[str | bytes] | Callable[[Path], None]]) -> None:
    """Write files that belong together, text as UTF-8; on any error none of the names is touched.

    What is a function writes its file itself, at the path that it is given. Every file is complete under a
    temporary name in its own folder before the first is renamed; they are renamed in the order given, so the
    last one there means that all are.

    Raises:
        OutputNotWritable: the system refused; temporary files are removed.
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
def told_when_refused(folder: Path) -> Iterator[None]:
    """Say in one line that the system takes no more files in a folder, in whatever words a library tells it.

    Raises:
        OutputNotWritable: the disk is full or read only.
    """
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if reason := next((words for words in _REFUSALS if words in str(cause)), None):
                raise OutputNotWritable(
                    f"{folder}: cannot be written ({reason}); choose another folder or free this one"
                ) from error
            cause = cause.__cause__ or cause.__context__
        raise


# Copying of folders, safetensors and torch have errors of their own; these words in them tell the reason.
_REFUSALS = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EROFS)))


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet takes a cell for a formula, perhaps after marks that keep it from that."""
    return _FORMULA.match(text) is not None


def guarded_cell(text: str) -> str:
    """Return the text as a cell of CSV that no spreadsheet calculates: a formula gets ``'`` in front."""
    return f"'{text}" if is_formula(text) else text


def unguarded_cell(text: str) -> str:
    """Return what :func:`guarded_cell` was given."""
    return text[1:] if text.startswith("'") and is_formula(text) else text


def _not_writable(path: Path, error: OSError) -> OutputNotWritable:
    reason = error.strerror or str(error)
    with suppress(OSError):
        free = shutil.disk_usage(path.parent).free
        if error.strerror is None and free < NEARLY_FULL:  # GDAL and SQLite do not say so
            reason += f"; only {free / 1000:,.0f} kB are free there"
    return OutputNotWritable(f"{path}: cannot be written ({reason}); choose another folder or free this one")
