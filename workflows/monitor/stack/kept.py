"""The changes of each step, kept in the folder of a series: only steps near a new scene are found again.

A step depends on the dates around it that pairs across it hold, so its file is named by those scenes. The
mean probability of a change in each pair is kept with it, by the names of the pairs.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import shapely
from shapely.geometry import MultiPolygon

from rscc.files import atomic_write, parsed_json, read_file
from tiling import Frame
from workflows.bounded import check_depth
from workflows.monitor.events import Direction, Kind
from workflows.monitor.stack.pairs import REACH

VERSION = 3
"""To be raised when the same maps are to give other steps."""


@dataclass
class StepChange:
    """A change of the ground after one date.

    Attributes:
        band: the band of the probability that shows it: ``change``, or one of
            :data:`rscc.facts.lone_changes.KINDS`.
        kind, direction: what appeared or disappeared.
        pixels: its outlines in pixels of the grid of the place.
        probability: mean probability of its pixels, 0..1.
        facts: as :attr:`workflows.monitor.events.FoundEvent.facts`.
        pooled: mean probability in its outlines by the name of each pair; None where a pair shows less than
            half of them.
    """

    band: str
    kind: Kind
    direction: Direction
    pixels: MultiPolygon
    geometry: MultiPolygon
    probability: float
    count: int | None
    area_m2: float
    facts: Mapping[str, Any]
    pooled: dict[str, float | None] = field(default_factory=dict)


class KeptSteps:
    """The files of the steps of a series.

    Args:
        keys: of the scenes, in order of date.
        frame: the grid of the place.
    """

    def __init__(self, folder: Path, keys: Sequence[str], frame: Frame) -> None:
        self.folder, self._keys = folder, keys
        grid = frame.grid
        self._ground = [str(grid.crs), list(grid.transform[:6]), grid.width, grid.height]

    def _path(self, step: int) -> Path:
        before, after = self._keys[max(0, step - REACH + 1) : step + 1], self._keys[step + 1 :][:REACH]
        content = json.dumps([VERSION, self._ground, before, after])
        return self.folder / f"step-{hashlib.sha256(content.encode()).hexdigest()[:20]}.json"

    def read(self, step: int) -> list[StepChange] | None:
        """Return the changes after date ``step``; None where they are not kept, or the file is damaged."""
        return self._read(self._path(step))

    def _read(self, path: Path) -> list[StepChange] | None:
        try:
            return [_change(one) for one in parsed_json(read_file(path))]
        except (OSError, ValueError, TypeError, KeyError, AttributeError, shapely.errors.ShapelyError):
            return None

    def write(self, step: int, changes: Iterable[StepChange]) -> None:
        """Keep the changes after date ``step``."""
        with atomic_write(self._path(step), sync=False) as (draft,):
            draft.write_text(json.dumps(list(map(_written, changes))) + "\n", encoding="utf-8")

    def add_known_means(self, changes: Iterable[StepChange]) -> None:
        """Add to changes that were found again what is kept of those with the same outlines."""

        def outlines(change: StepChange) -> tuple[str, bytes, bytes]:
            # Pixels alone are counted from another corner where the ground of the place has grown.
            return change.band, shapely.to_wkb(change.pixels), shapely.to_wkb(change.geometry)

        stored = (one for path in self.folder.glob("step-*.json") for one in self._read(path) or ())
        known = {outlines(one): one.pooled for one in stored}
        for change in changes:
            change.pooled.update(known.get(outlines(change), {}))

    def remove_others(self) -> None:
        """Remove the files of steps that are between other scenes now."""
        own = {self._path(step) for step in range(len(self._keys) - 1)}
        for path in self.folder.glob("step-*.json"):
            if path not in own:
                path.unlink(missing_ok=True)


def _written(change: StepChange) -> dict[str, Any]:
    shapes = {name: shapely.to_wkb(getattr(change, name), hex=True) for name in ("pixels", "geometry")}
    return {**asdict(change), **shapes}


def _change(stored: Mapping[str, Any]) -> StepChange:
    codes = {name: bytes.fromhex(stored[name]) for name in ("pixels", "geometry")}
    for code in codes.values():
        check_depth(code)
    shapes = {name: MultiPolygon(shapely.from_wkb(code)) for name, code in codes.items()}
    pooled = {str(name): None if mean is None else float(mean) for name, mean in stored["pooled"].items()}
    rest = {one.name: stored[one.name] for one in fields(StepChange) if one.name not in (*shapes, "pooled")}
    return StepChange(**rest, **shapes, pooled=pooled)
