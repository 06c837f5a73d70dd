"""The folder of a monitor: its mark, its lock, and the names in it.

::

    rscc-monitor.json           the mark; without it nothing here is written
    lock                        held by the run that updates it
    places/PLACE/place.json     the ground of a place and its scenes
    places/PLACE/events.json    its events with their ids, and how their states changed
    places/PLACE/context.json   the areas of context layers that its events overlap
    places/PLACE/events.geojson the same as a layer
    places/PLACE/maps/          what finders keep for each scene; made again when lost
    places/PLACE/pictures/      a small picture of each scene, for the page
    told.json                   the changes of state that were announced
    events.* observations.* ... layers, catalog and page of all places

A file is complete or absent: it is written beside its name and renamed.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from rscc.files import atomic_write, parsed_json, read_file
from workflows.archive.folder import can_be_marked, known_mark, locked, read_mark, write_mark, writing
from workflows.errors import FolderOccupied, MonitorDamaged
from workflows.pairs.names import is_pair_id

MARK = "rscc-monitor.json"


class MonitorFolder:
    """The names in a monitor.

    Args:
        path: the folder; it need not exist.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.mark = self.path / MARK
        self.places = self.path / "places"
        self.told = self.path / "told.json"

    def is_monitor(self) -> bool:
        """Return whether the folder has our mark."""
        return read_mark(self.mark, "monitor") is not None

    def monitor_id(self) -> str:
        """Return the id in the mark; raises MarkMissing."""
        return known_mark(self.mark, "monitor", "rscc monitor")

    def create(self) -> None:
        """Make the folder and those above it, unless they are there.

        Raises:
            FolderOccupied: other files are in it, or a link, pipe or device lies among its places.
            OutputNotWritable: the system refused.
        """
        if not can_be_marked(self.mark) and not self.is_monitor():
            raise FolderOccupied(f"{self.path}: not empty, and has no {MARK}; give a new or an empty folder")
        if wrong := self._not_ours():
            raise FolderOccupied(f"{wrong}: is no file or folder of this monitor; remove it")
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        write_mark(self.mark, "monitor")
        with writing(self.path):
            self.places.mkdir(exist_ok=True)

    def _not_ours(self) -> Path | None:
        """Return what is neither file nor folder among the places, at any depth; None where all is."""
        if self.places.is_symlink() or (self.places.exists() and not self.places.is_dir()):
            return self.places
        waiting = [str(self.places)]
        while waiting:
            with suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif not entry.is_file(follow_symlinks=False):
                        return Path(entry.path)
        return None

    def lock(self) -> AbstractContextManager[None]:
        """Hold the right to update the folder.

        Raises:
            ArchiveBusy: another run has it.
        """
        return locked(self.path / "lock", f"{self.path}: another run of rscc monitor updates it")

    def place(self, name: str) -> Path:
        """Return the folder of a place.

        Raises:
            ValueError: no place can have this name: the folder might lie elsewhere.
        """
        if not is_pair_id(name):
            raise ValueError(f"{name!r} is not the name of a place")
        return self.places / name

    def place_names(self) -> list[str]:
        """Return the names of the places, in order."""
        if not self.places.is_dir():
            return []
        folders = (path for path in self.places.iterdir() if not path.is_symlink() and is_pair_id(path.name))
        return sorted(path.name for path in folders if (path / "place.json").is_file())


def read_state(path: Path, parse: Callable[[Any], Any], default: Any = None) -> Any:
    """Return what ``parse`` makes of a JSON file of the state; ``default`` where there is none.

    Raises:
        MonitorDamaged: it is damaged.
    """
    try:
        return parse(parsed_json(read_file(path)))
    except FileNotFoundError:
        return default
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise MonitorDamaged(
            f"{path}: damaged ({error}); restore it, or remove its folder to begin that place anew"
        ) from error


def write_state(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file of the state, one member a line; only under the lock.

    Raises:
        OutputNotWritable: the system refused; the old file is there.
    """
    with writing(path), atomic_write(path) as (draft,):
        draft.write_text(json.dumps(content, ensure_ascii=False, allow_nan=False, indent=0) + "\n", "utf-8")
