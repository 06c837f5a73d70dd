"""Writing into an archive so that a kill at any moment loses nothing.

Files are made under ``work/``, complete, and renamed into place. A pair whose report is replaced has its old
folder put aside in between; :meth:`Claim.recover`, which every run calls first, finishes or undoes that.
"""

import filecmp
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from workflows.archive.folder import (
    CLAIM,
    ITEM,
    MAPS,
    PAGE,
    REPORT,
    STYLE,
    THUMBNAILS,
    WHOLE,
    ArchiveFolder,
    Shard,
    locked,
    writing,
)
from workflows.errors import ArchiveBusy
from workflows.files import make_folder


@dataclass(frozen=True)
class Claim:
    """The right of one run to write into an archive; several of its threads may install pairs at once.

    Every method raises OutputNotWritable where the system refuses.

    Attributes:
        work: folder for the unfinished files of this run.
    """

    folder: ArchiveFolder
    work: Path

    def install(self, pair: str, files: Mapping[str, bytes], maps: Path | None = None) -> None:
        """Make ``files``, contents by name, the folder of a pair; an older folder is replaced.

        Files of people in the older folder are kept, except a page of the older report. The pair's failure
        is removed.

        Args:
            maps: folder of maps of the pair, which are moved beside the files.
        """
        final = self.folder.pair_folder(pair)
        new, old = self.work / "new" / pair, self.work / "old" / pair
        with writing(final):
            try:
                _remove(new)
                _write_folder(new, files)
                _move_maps(maps, new)
                if os.path.lexists(final):
                    _move(final, old)
                _move(new, final)
            except OSError:
                if old.exists() and not final.exists():
                    old.rename(final)
                shutil.rmtree(new, ignore_errors=True)
                raise
            _drop_old(old, final)
            self.folder.failure(pair).unlink(missing_ok=True)

    def fail(self, pair: str, failure: Mapping[str, object]) -> None:
        """Record why a pair failed, and remove its report; files of people beside it stay."""
        folder = self.folder.pair_folder(pair)
        with writing(folder):
            if folder.is_symlink():
                folder.unlink()
            for path in (folder / name for name in (REPORT, STYLE, ITEM, PAGE, THUMBNAILS, *MAPS)):
                path.unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()
        self.write(self.folder.failure(pair), json.dumps(failure, ensure_ascii=False).encode())

    def write(self, path: Path, content: bytes) -> None:
        """Write a file of the archive: complete, or not at all."""
        with writing(path):
            make_folder(self.work)
            draft = self.work / secrets.token_hex(8)
            draft.write_bytes(content)
            draft.replace(path)

    def drop_maps(self, pair: str) -> None:
        """Remove the maps of a pair, if there are any."""
        with writing(self.work):
            _remove(self.folder.maps(pair))

    @contextmanager
    def drafting(self) -> Iterator[Path]:
        """Yield an empty folder to write the layers in; at the end they replace the old ones.

        After a kill in between there is no catalog, so that the next run writes all layers again.
        """
        draft = self.work / "layers"
        with writing(self.folder.path):
            _remove(draft)
            make_folder(draft.parent)
            draft.mkdir()
            try:
                yield draft
                made = [layer for layer in self.folder.layers if (draft / layer.name).exists()]
                for layer in made:
                    _sync(draft / layer.name)
                if self.folder.catalog in made:
                    self.folder.catalog.unlink(missing_ok=True)
                for layer in made:
                    (draft / layer.name).replace(layer)
                _sync(self.folder.path)
            finally:
                shutil.rmtree(draft, ignore_errors=True)

    def recover(self) -> None:
        """Finish or undo what killed runs left in the work folders of free claims; maps stay."""
        with writing(self.folder.work):
            # No link is followed, at whatever depth: what it leads to is not ours.
            maps = self.folder.work / "maps"
            for link in (one for one in (*_entries(self.folder.work), *_entries(maps)) if one.is_symlink()):
                link.unlink()
            for work in _entries(self.folder.work):
                if not work.is_dir():
                    continue
                if work == self.work:
                    self._recover(work)
                elif CLAIM.fullmatch(f"{work.name}.lock"):
                    with suppress(ArchiveBusy), locked(self.folder.claims / f"{work.name}.lock", "", 0):
                        self._recover(work)
        self.tidy()

    def _recover(self, work: Path) -> None:
        complete = {new.name: new for new in _entries(work / "new") if _is_folder(new)}
        for old in _entries(work / "old"):
            final = self.folder.pair_folder(old.name)
            if _is_folder(old) and not os.path.lexists(final):
                # The old folder was put aside when the new one was complete.
                _move(complete.get(old.name, old), final)
            _drop_old(old, final)
        _remove(work)

    def tidy(self) -> None:
        """Remove the work folder of this run, and empty folders beside it."""
        shutil.rmtree(self.work, ignore_errors=True)
        for folder in (self.folder.work / "maps", self.folder.work):
            with suppress(OSError):
                folder.rmdir()


@contextmanager
def claim_shard(folder: ArchiveFolder, shard: Shard = WHOLE) -> Iterator[Claim]:
    """Hold a shard of an archive that :meth:`ArchiveFolder.create` has made.

    Raises:
        ArchiveBusy: another run works on this shard, or on shards of another count.
        OutputNotWritable: the lock cannot be made.
    """
    number, count = shard
    with locked(folder.claims / f"{number}-of-{count}.lock", f"{folder.path}: another run works on it"):
        others = [claimed for claimed in folder.claimed() if claimed[1] != count]
        if others:
            raise ArchiveBusy(
                f"{folder.path}: a run works on shard {others[0][0]} of {others[0][1]}; wait for its end"
            )
        yield Claim(folder, folder.work / f"{number}-of-{count}")


def _write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    make_folder(folder.parent)
    folder.mkdir()
    for name, content in files.items():
        with (folder / name).open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    _sync(folder)


def _move_maps(maps: Path | None, folder: Path) -> None:
    for path in () if maps is None else (maps / name for name in MAPS if (maps / name).exists()):
        _sync(path)
        path.rename(folder / path.name)


def _drop_old(old: Path, new: Path) -> None:
    """Remove the replaced folder of a pair; what people put into it moves to the new one."""
    for path in sorted(_entries(old)) if _is_folder(new) else ():
        is_stale = path.name in (PAGE, THUMBNAILS) and not _is_same(old / REPORT, new / REPORT)
        if (
            path.name not in (REPORT, STYLE, ITEM, *MAPS)
            and not is_stale
            and not os.path.lexists(new / path.name)
        ):
            path.rename(new / path.name)
            _sync(new)
    _remove(old)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _entries(folder: Path) -> list[Path]:
    """Return what is in a folder; nothing where it is a link."""
    return list(folder.iterdir()) if _is_folder(folder) else []


def _is_same(one: Path, other: Path) -> bool:
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


def _move(source: Path, target: Path) -> None:
    make_folder(target.parent)
    source.rename(target)
    _sync(target.parent)


def _remove(folder: Path) -> None:
    if _is_folder(folder):
        shutil.rmtree(folder)
    else:
        folder.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
