"""Series of monthly scenes with dated truth: ``FOLDER/PLACE/YYYY-MM.tif`` and ``FOLDER/truth.json``."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shapely.geometry import Polygon

from rscc.errors import DatasetLayoutInvalid
from tiling import describe
from workflows.dates import PartialDate, scene_date
from workflows.monitor.events import Series, SeriesScene

Box = tuple[float, float, float, float]
"""Left, top, right and bottom in pixels."""


@dataclass(frozen=True)
class TrueEvent:
    """A persistent change, dated by eye.

    Attributes:
        polygon: in pixels, column before row.
        sure: whether the reader was; recall is counted on these.
        earliest, latest: months, see :func:`month_of`, between which it may begin.
        seen: month from which it is there.
    """

    polygon: Polygon
    sure: bool
    earliest: int
    latest: int
    seen: int


@dataclass(frozen=True)
class PlaceTruth:
    """The truth of a place.

    Attributes:
        events: what changed to stay.
        look_alikes: boxes of what must not be reported.
        doubtful: boxes in which a reported event counts neither way.
    """

    events: tuple[TrueEvent, ...]
    look_alikes: tuple[Box, ...]
    doubtful: tuple[Box, ...]


def month_of(date: str) -> int:
    """Return the number of the month of an ISO date.

    >>> month_of("2019-01") - month_of("2018-12-24")
    1
    """
    first = PartialDate(date).first
    return first.year * 12 + first.month


def read_truth(folder: Path) -> dict[str, PlaceTruth]:
    """Return the truth of each place of a folder."""
    path = folder / "truth.json"
    try:
        places = json.loads(path.read_text(encoding="utf-8"))
        truth = {str(name): _place(content) for name, content in places.items()}
    except OSError as error:
        reason = error.strerror or "unreadable"
        raise DatasetLayoutInvalid(f"{path}: {reason}; give a folder of series with truth.json") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatasetLayoutInvalid(
            f"{path}: not the truth of series ({error}); see docs/medium.md"
        ) from error
    for name in truth:
        # A name is joined to the folder, so it must be a single part.
        if Path(name).name != name or not (folder / name).is_dir():
            raise DatasetLayoutInvalid(f"{path}: it names {name!r}, which is no folder beside it")
    if not truth:
        raise DatasetLayoutInvalid(f"{path}: it has no place; give dated truth of one place at least")
    return truth


def series_of(folder: Path, chosen: slice = slice(None)) -> Series:
    """Return the scenes of a place's folder in order of date.

    Raises:
        DatasetLayoutInvalid: there are fewer than two, or a name has no date.
    """
    scenes = []
    for path in folder.glob("*.tif"):
        date = scene_date(path.name, {}).value
        if date is None:
            raise DatasetLayoutInvalid(f"{path}: its name has no date; call it YYYY-MM.tif")
        scenes.append(SeriesScene(path.name, describe(path), PartialDate(date), path.name))
    scenes = sorted(scenes, key=lambda scene: (scene.date, scene.name))[chosen]
    if len(scenes) < 2:
        raise DatasetLayoutInvalid(f"{folder}: fewer than two scenes (YYYY-MM.tif)")
    return Series(folder.name, folder, tuple(scenes))


def _place(content: Mapping[str, Any]) -> PlaceTruth:
    return PlaceTruth(
        tuple(_event(one) for one in content["events"]),
        tuple(_box(one) for one in content.get("not_events", ())),
        tuple(_box(one) for one in content.get("doubtful", ())),
    )


def _event(content: Mapping[str, Any]) -> TrueEvent:
    seen = month_of(content["first_present"])
    grown = content.get("grows_until")
    return TrueEvent(
        Polygon(content["polygon"]),
        content["certainty"] == "sure",
        month_of(content["last_absent"]) + 1,
        month_of(grown) if grown else seen,
        seen,
    )


def _box(content: Any) -> Box:
    left, top, right, bottom = content["box"] if isinstance(content, Mapping) else content
    return float(left), float(top), float(right), float(bottom)
