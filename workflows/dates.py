"""When a scene was taken, from its tags or its file name: an ISO 8601 date as precise as is known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import PurePath

from workflows.errors import DateInvalid

# Names that sensors' products and GDAL use for the time of acquisition.
ACQUISITION_TAGS = (
    "ACQUISITIONDATETIME",
    "ACQUISITION_DATETIME",
    "ACQUISITIONDATE",
    "ACQUISITION_DATE",
    "DATE_ACQUIRED",
    "SENSING_TIME",
)

_YEAR = r"(?:19[5-9]\d|20\d\d)"
# Year, month and day with the same separator twice or none, then perhaps a time.
_DAY = re.compile(rf"(?<!\d)({_YEAR})([-_:./]?)(\d\d)\2(\d\d)(?:\d{{4}}|\d{{6}})?(?!\d)", re.ASCII)
_BARE_YEAR = re.compile(rf"(?<!\d){_YEAR}(?!\d)", re.ASCII)
_OPTION = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?", re.ASCII)


@dataclass(frozen=True)
class SceneDate:
    """A date and where it was found.

    Attributes:
        value: ``YYYY-MM-DD``, ``YYYY-MM`` or ``YYYY``; None when unknown.
        source: ``option``, ``tag``, ``file name``, or None.
    """

    value: str | None
    source: str | None


# A table of pairs has the same few days over and over.
@lru_cache(maxsize=4096)
def parse_date(text: str) -> str:
    """Check a date given by a person: ``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD``; returns it stripped.

    Raises:
        DateInvalid: another form, or no day of the calendar.
    """
    match = _OPTION.fullmatch(text.strip())
    if match:
        year, month, day = (int(part) if part else 1 for part in match.groups())
        if _calendar_day(year, month, day):
            return text.strip()
    raise DateInvalid(f"{text!r} is not a date; write 2019, 2019-08 or 2019-08-31")


def scene_date(path: str, tags: Mapping[str, str], option: str | None = None) -> SceneDate:
    """Find the date of one scene; ``path`` is its name without what an address may hold beside it.

    The first that is known wins: the option, an acquisition tag, a day in the file name, ``TIFFTAG_DATETIME``
    (many programs put the time of saving there), a lone year in the file name.

    Raises:
        DateInvalid: the option is no date.
    """
    if option is not None:
        return SceneDate(parse_date(option), "option")
    upper = {key.upper(): str(value) for key, value in tags.items()}
    names = _names(PurePath(path))
    for text, source in (
        *((upper.get(tag, ""), "tag") for tag in ACQUISITION_TAGS),
        *((name, "file name") for name in names),
        (upper.get("TIFFTAG_DATETIME", ""), "tag"),
    ):
        day = _find_day(text)
        if day:
            return SceneDate(day, source)
    for name in names:
        years = {year for year in _BARE_YEAR.findall(name) if int(year) <= date.today().year}
        # Two different years in one name say nothing about which is meant.
        if len(years) == 1:
            return SceneDate(years.pop(), "file name")
    return SceneDate(None, None)


def _names(path: PurePath) -> list[str]:
    """Return the names that may hold a date: the raster's own and that of the archive it lies in."""
    return [path.stem, *(folder.stem for folder in path.parents if folder.suffix.lower() == ".zip")]


def _find_day(text: str) -> str | None:
    for year, _, month, day in _DAY.findall(text):
        if _calendar_day(int(year), int(month), int(day)):
            return f"{year}-{month}-{day}"
    return None


def _calendar_day(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True
