"""The changes that the page of an archive lists: the largest of all pairs, with their thumbnails."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from heapq import heappush, heappushpop
from itertools import count
from pathlib import Path
from typing import Any

from rscc.files import parsed_json, read_file
from rscc.text.change_facts import DIRECTIONS
from workflows.archive.folder import THUMBNAILS
from workflows.report.change import Change
from workflows.report.summary import UNNAMED

MOST = 5_000
"""Changes on the page of an archive."""
_CAPTION = 300
# Characters of all thumbnails on a page, and bytes of the thumbnails of a pair.
_THUMBNAILS, _LARGEST_FILE = 6_000_000, 2_000_000
_BASE64 = re.compile(r"[A-Za-z0-9+/]{1,40000}={0,2}")


class LargestChanges:
    """Keeps the largest of the changes that are added; memory does not grow with the archive."""

    def __init__(self, most: int = MOST) -> None:
        self.total = 0
        self._most, self._order = most, count(0, -1)
        self._kept: list[tuple[float, int, int, Path, Change]] = []

    def add(self, pair: int, report: Path, change: Change) -> None:
        """Add a change of the report of a pair, the ``pair``-th of the page."""
        self.total += 1
        entry = (change.area_m2, next(self._order), pair, report, change)
        if len(self._kept) < self._most:
            heappush(self._kept, entry)
        else:
            heappushpop(self._kept, entry)

    def rows(self, box_of: Callable[[Change], list[float]]) -> list[dict[str, Any]]:
        """Return what the page shows of each, the largest first; ``box_of`` gives their place on its map.

        Thumbnails are JPEGs in base64, of the first changes that have some.
        """
        rows, room = [], _THUMBNAILS
        thumbnails = lru_cache(maxsize=64)(_thumbnails)
        for _, _, pair, report, change in sorted(self._kept, key=lambda entry: entry[:2], reverse=True):
            pictures = thumbnails(report.with_name(THUMBNAILS)).get(str(change.id), [])
            room -= sum(map(len, pictures))
            rows.append({**_row(change), "pair": pair, "box": box_of(change), "dates": pictures * (room > 0)})
        return rows


def _row(change: Change) -> dict[str, Any]:
    return {
        "id": change.id,
        "caption": change.caption[:_CAPTION],
        "direction": change.direction if change.direction in DIRECTIONS else UNNAMED,
        "kinds": sorted({*change.came, *change.gone}) or ["not stated"],
        "area_m2": round(change.area_m2, 2),
        "score": change.score,
    }


def _thumbnails(path: Path) -> Mapping[str, list[str]]:
    """Return the thumbnails of a pair by the ids of its changes; the file may come from anybody."""
    try:
        content = parsed_json(read_file(path, _LARGEST_FILE))
    except (OSError, ValueError):
        return {}
    return {
        number: dates
        for number, dates in (content.items() if isinstance(content, dict) else ())
        if isinstance(dates, list) and len(dates) == 2 and all(map(_is_base64, dates))
    }


def _is_base64(text: Any) -> bool:
    return isinstance(text, str) and _BASE64.fullmatch(text) is not None
