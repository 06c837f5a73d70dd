"""The folder of an archive: what lies where, and how whole folders come and go under kills.

What is made is made under ``work/`` in the same file system and renamed when it is complete. Every step is
such that :meth:`ArchiveFolder.recover`, called by the next run, can tell what a killed run was at and bring
it to an end: a pair has its old report or its new one, and the layers are all of one run.
"""

from __future__ import annotations

import filecmp
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from tiling import is_odd
from workflows.errors import ArchiveBusy, NotAnArchive, OutputFolderMissing, OutputNotWritable
from workflows.files import check_folder
from workflows.pairs.names import is_pair_id
from workflows.store.ledger_file import host_file
from workflows.store.lock import LOCK

REPORT, STYLE, ITEM = "changes.geojson", "changes.qml", "item.json"
# The page that somebody may make of the report, under the name that the page of an archive looks for.
PAGE = "changes.html"
# Seconds that the lock is waited for: who looks whether a run is at work holds it for a moment.
PATIENCE = 0.2
_SHARD = re.compile(r"(\d+)-of-(\d+)")


class ArchiveFolder:
    """The names of everything in an archive, and the changes to it that must not be seen half done.

    Only the process that holds the lock may call what changes anything; several of its threads may install
    different pairs at once, for which the disk waits once. Where the system refuses, each method raises
    OutputNotWritable.

    Args:
        path: the folder; it need not exist.
        durable: wait until the disk has what was installed, so that a power cut takes nothing back of it.
            Without it only the end of the process is survived, and installing is several times as fast.
    """

    def __init__(self, path: str | Path, *, durable: bool = True) -> None:
        self.path = Path(path)
        self.durable = durable
        self.lock = self.path / LOCK
        self.ledger = self.path / "ledger.sqlite"
        self.run = self.path / "run.json"
        self.pairs = self.path / "pairs"
        self.parquet = self.path / "changes.parquet"
        self.geopackage = self.path / "changes.gpkg"
        self.summary = self.path / "summary.csv"
        self.catalog = self.path / "catalog.json"
        self.shards = self.path / "shards"
        self.work = self.path / "work"
        self._new, self._old, self._removed = (self.work / name for name in ("new", "old", "gone"))
        self._draft, self._ready = self.work / "layers", self.work / "layers-ready"

    @property
    def layers(self) -> tuple[Path, ...]:
        """What describes the whole archive and is made at the end of a run, in the order of renaming."""
        return self.parquet, self.geopackage, self.summary, self.catalog

    def pair_folder(self, pair: str) -> Path:
        """Return where the files of a pair lie; ``pair`` is its id.

        Raises:
            ValueError: no such id can be: the folder would not lie where it should.
        """
        return self.pairs / _checked(pair)

    def tile_cache(self, pair: str) -> Path:
        """Return where the finished tiles of a pair that several tasks share are kept."""
        return self.work / "tiles" / _checked(pair)

    def make_tile_cache(self, pair: str) -> Path:
        """Make the folder of :meth:`tile_cache`, unless it is there, and return it."""
        folder = self.tile_cache(pair)
        with self._writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def drop_tile_cache(self, pair: str) -> None:
        """Remove the finished tiles of a pair, if there are any."""
        with self._writing(self.work):
            _remove(self.tile_cache(pair))

    def shard(self, number: int, count: int) -> ArchiveFolder:
        """Return the archive of shard ``number``, 1..``count``, within this one."""
        return ArchiveFolder(self.shards / f"{number}-of-{count}", durable=self.durable)

    def shard_folders(self) -> dict[tuple[int, int], ArchiveFolder]:
        """Return the archives of the shards that are there, by (number, count), in this order."""
        named = sorted(numbers for path, *numbers in self._named_as_shards() if _is_shard(path, *numbers))
        return {(number, count): self.shard(number, count) for number, count in named}

    def oddly_named_shards(self) -> list[Path]:
        """Return folders that are named like shards but as none can be: ``3-of-2``, ``01-of-2``."""
        return sorted(path for path, *numbers in self._named_as_shards() if not _is_shard(path, *numbers))

    def _named_as_shards(self) -> Iterator[tuple[Path, int, int]]:
        for path in self.shards.iterdir() if self.shards.is_dir() else ():
            if (named := _SHARD.fullmatch(path.name)) and path.is_dir():
                yield path, int(named[1]), int(named[2])

    def exists(self) -> bool:
        """Whether there is an archive here, or shards of one."""
        return self.ledger.is_file() or self.lock.is_file() or bool(self.shard_folders())

    def is_foreign(self) -> bool:
        """Whether something else than an archive is here: a file, or a folder with other things in it."""
        with self._writing(self.path):
            if not self.path.is_dir():
                return self.path.exists()
            # A folder or two of ours, without a ledger, is what a run leaves that was killed when it began.
            own = {self.pairs.name, self.shards.name, self.work.name}
            names = {path.name for path in self.path.iterdir()} - own
            # So does what check_folder tries a folder out with.
            probe = f".{self.lock.name}.*.tmp"
            return not self.exists() and not all(fnmatchcase(name, probe) for name in names)

    def create(self) -> None:
        """Make the folder, unless it is there, and make sure that it takes files.

        Raises:
            NotAnArchive: something else is here, which is left alone.
            OutputFolderMissing: the folder that it is to lie in does not exist.
        """
        if self.is_foreign():
            raise NotAnArchive(
                f"{self.path}: is not empty and no archive of rscc; give --out a new or an empty folder"
            )
        is_shard = self.path.parent.name == self.shards.name and _SHARD.fullmatch(self.path.name)
        whole = self.path.parent.parent if is_shard else self.path
        if not whole.parent.is_dir():
            raise OutputFolderMissing(f"{whole}: the folder {whole.parent} does not exist; create it first")
        with self._writing(self.path):
            for path in (whole, self.path.parent, self.path, self.pairs):
                path.mkdir(exist_ok=True)
        check_folder(self.lock)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the archive within this block.

        Raises:
            ArchiveBusy: another process holds it.
        """
        if is_odd(self.lock):
            raise OutputNotWritable(f"{self.lock}: it is a pipe, a socket or a device, not a file; remove it")
        lock = FileLock(self.lock, timeout=PATIENCE)
        try:
            held = lock.acquire()
        except Timeout:
            raise ArchiveBusy(
                f"{self.path}: another run works on this archive; wait for it (rscc status tells how far)"
            ) from None
        except OSError as error:
            raise OutputNotWritable(
                f"{self.lock}: cannot be written ({error.strerror or error}); check permissions and disk"
            ) from error
        with held:
            yield

    def install(self, pair: str, files: Mapping[str, bytes]) -> None:
        """Make ``files``, contents by name, the folder of a pair; one that is there is replaced.

        What people put beside the report stays, but for the page of another one. A kill at any moment leaves
        the old folder or the new one, after :meth:`recover`; an error leaves the old one.
        """
        self._replace(pair, partial(self._write_folder, files=files))

    def adopt(self, pair: str, folder: Path) -> None:
        """Make what lies in ``folder`` the folder of a pair, as :meth:`install` does; ``folder`` stays.

        The files are shared with it where the file system can do that, and copied elsewhere.

        Raises:
            FileNotFoundError: there is no such folder.
        """
        if not folder.is_dir():
            raise FileNotFoundError(folder)
        self._replace(pair, partial(self._share_folder, source=folder))

    def remove(self, pair: str) -> None:
        """Remove the folder of a pair, if it is there: at once, or but for what people put into it."""
        folder = self.pair_folder(pair)
        with self._writing(folder):
            ours = [folder / name for name in (REPORT, STYLE, ITEM, PAGE)]
            if not folder.is_dir() or {*folder.iterdir()} <= {*ours}:
                self._take_away(folder)
                return
            for path in ours:
                path.unlink(missing_ok=True)

    def remove_shards(self) -> None:
        """Remove the archives of the shards: all at once, as others see it."""
        self._take_away(self.shards)

    @contextmanager
    def drafting(self) -> Iterator[Path]:
        """Yield an empty folder to make the layers in; they take the place of those there when all are made.

        A kill at any moment leaves the old layers or the new ones, after :meth:`recover`. An error in the
        block leaves the old ones, and nothing of the new.
        """
        with self._writing(self.path):
            _remove(self._draft)
            self._draft.mkdir(parents=True)
            try:
                yield self._draft
            except Exception:
                shutil.rmtree(self._draft, ignore_errors=True)
                raise
            for path in (*sorted(self._draft.iterdir()), self._draft):
                self._sync(path)
            if self._ready.is_dir():
                self._show()
            self._draft.rename(self._ready)
            self._show()
        self.tidy()

    def recover(self) -> None:
        """Finish or undo what a killed run was at, and remove its temporary things; tiles are kept."""
        with self._writing(self.work):
            if self._ready.is_dir():
                self._show()
            for old in self._old.iterdir() if self._old.is_dir() else ():
                final, new = self.pairs / old.name, self._new / old.name
                if not final.exists():
                    # The old folder was put aside when the new one was complete.
                    self._move(new if new.exists() else old, final)
                self._drop_old(old, final)
            for leftover in (self._new, self._removed, self._draft):
                _remove(leftover)
            # Whoever holds the lock knows that the process it names is gone.
            host_file(self.ledger).unlink(missing_ok=True)
            for unfinished in self.path.glob(".*.tmp"):
                unfinished.unlink()
        self.tidy()

    def tidy(self) -> None:
        """Remove the folders under ``work/`` that are empty, and ``work/`` itself if nothing is left."""
        for folder in (self._new, self._old, self._removed, self.work / "tiles", self.work):
            with suppress(OSError):
                folder.rmdir()

    def _show(self) -> None:
        for layer in self.layers:
            made = self._ready / layer.name
            if made.exists():
                made.replace(layer)
        self._sync(self.path)
        _remove(self._ready)

    def _write_folder(self, folder: Path, files: Mapping[str, bytes]) -> None:
        folder.mkdir(parents=True)
        for name, content in files.items():
            with (folder / name).open("xb") as file:
                file.write(content)
                file.flush()
                if self.durable:
                    os.fsync(file.fileno())
        self._sync(folder)

    def _share_folder(self, folder: Path, source: Path) -> None:
        folder.mkdir(parents=True)
        for path in sorted(source.iterdir()):
            if path.is_dir():  # what somebody put beside the report
                shutil.copytree(path, folder / path.name, symlinks=True)
                continue
            try:
                os.link(path, folder / path.name)
            except OSError:
                shutil.copy2(path, folder / path.name)
                self._sync(folder / path.name)
        self._sync(folder)

    def _replace(self, pair: str, fill: Callable[[Path], None]) -> None:
        final = self.pair_folder(pair)
        new, old = self._new / pair, self._old / pair
        with self._writing(final):
            try:
                _remove(new)
                fill(new)
                if final.exists():
                    self._move(final, old)
                self._move(new, final)
            except OSError:
                if old.exists() and not final.exists():
                    old.rename(final)
                shutil.rmtree(new, ignore_errors=True)
                raise
            self._drop_old(old, final)

    def _drop_old(self, old: Path, new: Path) -> None:
        """Remove the folder of a pair that a new one replaced; what people put into it goes over."""
        for path in sorted(old.iterdir()) if old.exists() else ():
            is_stale = path.name == PAGE and not is_same(old / REPORT, new / REPORT)
            if path.name not in (REPORT, STYLE, ITEM) and not is_stale and not (new / path.name).exists():
                path.rename(new / path.name)
                self._sync(new)
        _remove(old)

    def _take_away(self, folder: Path) -> None:
        gone = self._removed / folder.name
        with self._writing(folder):
            if folder.exists():
                _remove(gone)
                self._move(folder, gone)
                _remove(gone)

    def _move(self, source: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
        self._sync(target.parent)

    def _sync(self, path: Path) -> None:
        """Wait until the disk has a file, or the names in a folder."""
        if not self.durable:
            return
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)

    @contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputNotWritable(
                f"{path}: cannot be written ({error.strerror or error}); free space or give write "
                "permission, then run the same command again"
            ) from error


def _is_shard(path: Path, number: int, count: int) -> bool:
    return 1 <= number <= count and path.name == f"{number}-of-{count}"


def _checked(pair: str) -> str:
    if not is_pair_id(pair):
        raise ValueError(f"{pair!r} is no id of a pair")
    return pair


def is_same(one: Path, other: Path) -> bool:
    """Return whether two files are there and have the same content."""
    with suppress(OSError):
        return os.path.samefile(one, other) or filecmp.cmp(one, other, shallow=False)
    return False


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
