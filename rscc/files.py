"""Bounded reads of regular files, strict JSON, atomic writes of files and folders, and cells of CSV."""

import errno
import gzip
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

MOST_BYTES = 2**30
"""Largest file that is read whole, also after unpacking."""
DRAFTS = ".rscc-"
"""Start of the names of temporary folders."""
_NEW, _ENDING, _LOCK, _OLD = f"{DRAFTS}new-", ".tmp", ".rscc-lock", ".old"
# Seconds in which a new folder gets its lock.
_UNLOCKED = 60.0
# Escapes of UTF-16 surrogates in JSON; only pairs of them are characters.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
# Numbers that may be infinite: the largest has 309 digits.
_HUGE = re.compile(r"[eE]\+?\d{3}|\d{200}")
# Objects, lists and values in JSON: each takes many times its bytes in memory. A corner of an outline is a
# list.
_MOST = {"{": 3_500_000, "[": 8_000_000, ",": 24_000_000}
# With the wide signs, which spreadsheets of East Asia evaluate, too.
_START = "'*\\s*[=+@\\t\uff1d\uff0b\uff20\uff0d-]"
_FORMULA = re.compile(_START)
# The same behind a character at which some spreadsheets separate cells, without and with a guard.
_HIDDEN = re.compile(rf"([;|\t]\s*)(?={_START})")
_GUARDED = re.compile(rf"([;|\t]\s*)'(?={_START})")


def open_regular(name: str, flags: int) -> int:
    """Open a regular file; the argument ``opener`` of :func:`open`. A pipe would block for ever.

    Raises:
        OSError: as :func:`open`, and for a pipe, a socket or a device.
    """
    # Non-blocking: the type can be checked without a race only once it is open.
    number = os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(number).st_mode
    # Python itself refuses folders.
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is a pipe, a socket or a device, not a file", name)
    return number


def read_file(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a regular file, those of a ``.gz`` unpacked.

    Raises:
        OSError: it cannot be read, is no regular file, or has more than ``most`` bytes.
        EOFError: a ``.gz`` is cut off.
    """
    with open(path, "rb", opener=open_regular) as file:
        if str(path).endswith(".gz"):
            content = _unpacked(file, most + 1)
            size = len(content)
        else:
            size, content = os.fstat(file.fileno()).st_size, b""
            if size <= most:
                content = file.read(size)
    if size > most:
        raise OSError(errno.EFBIG, f"it has more than {most / 2**20:,.0f} MiB", str(path))
    return content


def _unpacked(file: IO[bytes], most: int) -> bytes:
    """Return at most so many bytes of a gzip file."""
    content = bytearray()
    with gzip.GzipFile(fileobj=file) as reader:
        while block := reader.read(min(2**24, most - len(content))):
            content += block
    return bytes(content)


@contextmanager
def temporary_folder(parent: Path | None = None) -> Iterator[Path]:
    """Yield a new folder in ``parent``, or where the system has temporary files; it is removed at the end.

    What killed processes left there is removed first: a process holds a lock in its folder while it lives.
    """
    parent = parent or Path(tempfile.gettempdir())
    clear_dead(parent)
    folder = Path(tempfile.mkdtemp(prefix=_NEW, suffix=_ENDING, dir=parent))
    lock = None
    try:
        if (lock := _lock(folder / _LOCK, os.O_CREAT)) is not None:
            # Only now others look for a lock in it.
            folder = folder.rename(folder.with_name(folder.name.replace(_NEW, DRAFTS, 1)))
        yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            if lock is not None:
                os.close(lock)


def has_no_locks(error: BaseException) -> bool:
    """Return whether an error says that a file system, such as a network share, has no locks."""
    if isinstance(error, NotImplementedError):  # of filelock
        return True
    return isinstance(error, OSError) and error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


def clear_dead(parent: Path) -> None:
    """Remove the temporary folders of killed processes; a folder that one was replacing comes back."""
    if not hasattr(os, "getuid"):  # Windows
        return
    try:
        found = [entry for entry in os.scandir(parent) if entry.name.startswith(DRAFTS)]
    except OSError:
        return
    for entry in found:
        folder = Path(entry.path)
        with suppress(OSError):
            is_ours = entry.is_dir(follow_symlinks=False) and folder.lstat().st_uid == os.getuid()
            # Another process may be about to lock it.
            is_new = entry.name.startswith(_NEW) and time.time() - folder.lstat().st_mtime < _UNLOCKED
            if not is_ours or is_new:
                continue
            if not os.listdir(folder):  # killed while it removed its folder
                folder.rmdir()
            if (lock := _lock(folder / _LOCK)) is None:
                continue
            for kept in folder.glob(f"*{_OLD}"):
                # A link leads to what is not ours.
                for old in [] if kept.is_symlink() else list(kept.iterdir()):
                    if not os.path.lexists(parent / old.name):
                        old.replace(parent / old.name)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _lock(path: Path, flags: int = 0) -> int | None:
    """Return the descriptor of a locked file; None where another process holds it, and on Windows."""
    try:
        import fcntl
    except ImportError:
        return None
    number = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | flags, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(number)
        return None
    return number


@contextmanager
def atomic_write(*targets: Path, sync: bool = True) -> Iterator[tuple[Path, ...]]:
    """Yield a temporary path for each target to write to; at the end they are renamed to the targets.

    All are complete, and files are flushed to disk, before the first is renamed, in the given order: if the
    last target exists, all do. An existing folder is replaced as a whole. After an error, here or in the
    block, the temporary files are removed; no target is touched before the first renaming. A temporary path
    has the suffix of its target, and lies beside it in a :func:`temporary_folder`.

    Without ``sync`` nothing is flushed, which takes long: a power failure may leave damaged files. It is for
    files that are made again where they are damaged.
    """
    with ExitStack() as stack:
        folders = {path.parent: Path() for path in targets}
        for parent in folders:
            folders[parent] = stack.enter_context(temporary_folder(parent))
        drafts = tuple(
            folders[path.parent] / f"{number}{path.suffix.lower()}" for number, path in enumerate(targets)
        )
        yield drafts
        for draft in drafts:
            if sync and draft.is_file():
                with draft.open("rb+") as file:
                    os.fsync(file.fileno())
        for draft, target in zip(drafts, targets, strict=True):
            if target.is_dir() and draft.is_dir():
                _exchange(draft, target)
            else:
                draft.replace(target)


def parsed_json(text: str | bytes, hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """Parse JSON strictly: no NaN, no infinity, also not as 1e400.

    Args:
        text: of one value.
        hook: what replaces each object, as ``object_hook`` of :func:`json.loads`.

    Raises:
        ValueError: it is not JSON or not UTF-8, is nested too deeply, holds millions of values, an infinite
            number, or lone surrogates, which cannot be written to a file.
    """
    try:
        text = text.decode() if isinstance(text, bytes) else text
        check_json(text)
        content = json.loads(text, parse_constant=_refused, object_hook=hook)
        if _HALF.search(text) or _HUGE.search(text):
            plain = content if hook is None else json.loads(text)
            json.dumps(plain, ensure_ascii=False, allow_nan=False).encode()
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return content


def check_json(text: str) -> None:
    """Raise ValueError for JSON that is small as a text and would be huge in memory."""
    if any(text.count(mark) > most for mark, most in _MOST.items()):
        raise ValueError("it holds too many values")


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not a number in JSON")


def _exchange(draft: Path, target: Path) -> None:
    """Replace one folder by another; restore it if that fails, and after a kill, see :func:`clear_dead`."""
    old = draft.with_name(f"{draft.name}{_OLD}") / target.name
    old.parent.mkdir()
    target.replace(old)
    try:
        draft.replace(target)
    except BaseException:
        old.replace(target)
        raise


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet evaluates a cell as a formula, also after leading apostrophes."""
    return _FORMULA.match(text) is not None


def guarded_cell(text: str) -> str:
    """Return the text as a CSV cell that no spreadsheet evaluates: a formula gets a leading ``'``.

    So does one behind a semicolon, a bar or a tab, at which a spreadsheet may separate cells.
    """
    if ";" in text or "|" in text or "\t" in text:  # tables of millions of cells have hardly any
        text = _HIDDEN.sub(r"\1'", text)
    return f"'{text}" if is_formula(text) else text


def unguarded_cell(text: str) -> str:
    """Invert :func:`guarded_cell`."""
    text = text[1:] if text.startswith("'") and is_formula(text) else text
    return _GUARDED.sub(r"\1", text)
