"""The folder of an archive: its mark, the names in it, and the locks of its runs.

::

    rscc-archive.json       the mark; without it nothing here is written, moved or removed
    pairs/PAIR/             a pair that is done: report, style, STAC item; with --keep-maps also its maps
    failed/PAIR.json        a pair that failed, and why
    index.sqlite            a cache of what the folders hold, see workflows.archive.index
    claims/I-of-N.lock      held by the run that works on this shard
    runs/*.json             progress of each run
    work/I-of-N/            unfinished files of that run

What is written, and how it survives a kill: see :mod:`workflows.archive.claim`.
"""

import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from rscc.files import DRAFTS, has_no_locks, parsed_json, read_file, temporary_folder
from tiling import is_special_file
from workflows.errors import ArchiveBusy, FolderOccupied, MarkMissing, OutputFolderMissing, OutputNotWritable
from workflows.files import check_folder
from workflows.pairs.names import is_pair_id

MARK = "rscc-archive.json"
REPORT, STYLE, ITEM = "changes.geojson", "changes.qml", "item.json"
PAGE, THUMBNAILS = "changes.html", "thumbnails.json"
"""The page of a pair, which ``rscc convert`` may have made, too, and small pictures of its changes."""
MAPS = ("maps.json", "probability.tif", "evidence.tif", "visibility.tif")
"""The maps of a pair, see :mod:`workflows.scene.maps`."""
WHOLE = (1, 1)
"""The shard of a run over all pairs."""
Shard = tuple[int, int]
# Seconds to wait for a lock, which rscc status holds for a moment.
_PATIENCE = 0.2
CLAIM = re.compile(r"([1-9]\d{0,8})-of-([1-9]\d{0,8})\.lock")
_FORMAT = 1


class ArchiveFolder:
    """The names in an archive.

    Args:
        path: the folder; it need not exist.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.mark = self.path / MARK
        self.index = self.path / "index.sqlite"
        self.record = self.path / "run.json"
        self.pairs, self.failed = self.path / "pairs", self.path / "failed"
        self.claims, self.runs, self.work = self.path / "claims", self.path / "runs", self.path / "work"
        self.parquet = self.path / "changes.parquet"
        self.geopackage = self.path / "changes.gpkg"
        self.summary = self.path / "summary.csv"
        self.catalog = self.path / "catalog.json"
        self.page = self.path / "archive.html"

    @property
    def layers(self) -> tuple[Path, ...]:
        """The files that describe the whole archive; the catalog comes last, when all others are there."""
        return self.parquet, self.geopackage, self.summary, self.catalog

    def writes(self, path: Path) -> bool:
        """Return whether a file is one that a run replaces, under whatever name it is given."""
        written = (*self.layers, self.mark, self.index, self.record, self.page)
        return any(one.exists() and path.exists() and one.samefile(path) for one in written)

    def pair_folder(self, pair: str) -> Path:
        """Return the folder of a pair.

        Raises:
            ValueError: no pair can have this id: the folder might lie elsewhere.
        """
        return self.pairs / _checked(pair)

    def report(self, pair: str) -> Path:
        """Return the path of the report of a pair; raises ValueError as :meth:`pair_folder`."""
        return self.pair_folder(pair) / REPORT

    def failure(self, pair: str) -> Path:
        """Return the path of the failure of a pair; raises ValueError as :meth:`pair_folder`."""
        return self.failed / f"{_checked(pair)}.json"

    def maps(self, pair: str) -> Path:
        """Return where workers write the maps of a pair."""
        return self.work / "maps" / _checked(pair)

    def archive_id(self, makers: str = "rscc batch") -> str:
        """Return the id in the mark.

        Args:
            makers: the commands whose folders are taken, for the message.

        Raises:
            MarkMissing: there is no mark, or no folder.
        """
        return known_mark(self.mark, "archive", makers)

    def check(self) -> None:
        """Make sure that this is an archive, or can become one; nothing is written.

        Raises:
            FolderOccupied: another file or folder is here, or a folder of the archive is a link.
        """
        if not can_be_marked(self.mark) and read_mark(self.mark, "archive") is None:
            raise FolderOccupied(
                f"{self.path}: not empty, and has no {MARK}; give --out a new or an empty folder"
            )
        for folder in (self.pairs, self.failed, self.claims, self.runs, self.work):
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise FolderOccupied(
                    f"{folder}: is not a folder of this archive; remove it, or give another --out"
                )

    def create(self) -> None:
        """Make the archive, unless it is there.

        Raises:
            FolderOccupied: as :meth:`check`.
            OutputFolderMissing: its parent folder does not exist.
            OutputNotWritable: the system refused.
        """
        self.check()
        if not self.path.parent.is_dir():
            raise OutputFolderMissing(
                f"{self.path}: the folder {self.path.parent} does not exist; create it first"
            )
        with writing(self.path):
            self.path.mkdir(exist_ok=True)
        write_mark(self.mark, "archive")
        with writing(self.path):
            for folder in (self.pairs, self.failed, self.claims, self.runs):
                folder.mkdir(exist_ok=True)

    def claimed(self) -> list[Shard]:
        """Return the shards that runs are working on now."""
        locks = self.claims.iterdir() if self.claims.is_dir() else ()
        named = [(CLAIM.fullmatch(path.name), path) for path in locks]
        return sorted((int(name[1]), int(name[2])) for name, path in named if name and is_held(path))


def read_mark(mark: Path, kind: str) -> str | None:
    """Return the id in the mark of a folder of this kind; None where there is no mark of ours."""
    if mark.is_symlink():
        return None
    try:
        content = parsed_json(read_file(mark, 4096))
        return str(content[kind]) if content["format"] == _FORMAT else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def known_mark(mark: Path, kind: str, makers: str) -> str:
    """Return the id in the mark of a folder that ``makers`` made; raises MarkMissing."""
    if (found := read_mark(mark, kind)) is not None:
        return found
    folder, what = mark.parent, f"is not a folder of {makers}"
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
    raise MarkMissing(f"{folder}: {what}; give one that {makers} made")


def can_be_marked(mark: Path) -> bool:
    """Return whether nothing is in the folder of a mark but what a killed run left.

    Look for the mark after this, not before: a run that starts at the same time writes it first of all.
    """
    folder = mark.parent
    with writing(folder):
        try:
            return all(name.startswith(DRAFTS) for name in os.listdir(folder))
        except FileNotFoundError:
            return not folder.is_symlink()
        except NotADirectoryError:
            return False


def write_mark(mark: Path, kind: str) -> None:
    """Mark a folder as one of this kind, with a new id; an older mark, or that of a faster run, stays."""
    check_folder(mark)
    if read_mark(mark, kind) is not None:
        return
    text = json.dumps({kind: secrets.token_hex(16), "format": _FORMAT}) + "\n"
    with writing(mark.parent), temporary_folder(mark.parent) as drafts:
        draft = drafts / mark.name
        with draft.open("x") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, mark)
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            draft.replace(mark)


def is_held(lock: Path) -> bool:
    """Return whether a process holds a lock file; nothing is written."""
    try:
        import fcntl
    except ImportError:  # Windows
        try:
            with FileLock(lock, timeout=0):
                return False
        except (Timeout, OSError):
            return lock.exists()
    if lock.is_symlink() or is_special_file(lock):
        return False
    try:
        # For reading: the status of an archive that may not be written can be read, too.
        file = os.open(lock, os.O_RDONLY)
    except OSError:
        return False
    try:
        # Shared: two readers do not take each other for a run.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(file)
    return False


@contextmanager
def locked(path: Path, busy: str, patience: float = _PATIENCE) -> Iterator[None]:
    """Hold a lock file; the system releases it when the process dies.

    Raises:
        ArchiveBusy: another process holds it for over ``patience`` seconds; ``busy`` says who.
        OutputNotWritable: the file is a link or a device, or the system refused.
    """
    if path.is_symlink() or is_special_file(path):
        raise OutputNotWritable(f"{path}: is not a plain file; remove it")
    lock = FileLock(path, timeout=patience)
    try:
        held = lock.acquire()
    except Timeout:
        raise ArchiveBusy(f"{busy}; wait for its end (rscc status shows its progress)") from None
    except (OSError, NotImplementedError) as error:
        if has_no_locks(error):
            raise OutputNotWritable(
                f"{path}: its file system has no locks, which runs need; use a folder on a local disk and "
                "copy it when it is done, or mount the share with locks"
            ) from error
        raise OutputNotWritable(
            f"{path}: cannot be written ({getattr(error, 'strerror', error)}); check permissions and disk"
        ) from error
    with held:
        yield


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise OutputNotWritable, which names ``path``, where the system refuses a change in this block."""
    try:
        yield
    except OSError as error:
        raise OutputNotWritable(
            f"{path}: cannot be written ({error.strerror or error}); free space or give write permission, "
            "then run the same command again"
        ) from error


def _checked(pair: str) -> str:
    if not is_pair_id(pair):
        raise ValueError(f"{pair!r} is not the id of a pair")
    return pair
