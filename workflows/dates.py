"""Finds the acquisition date of a scene in its tags or file name, as precise as it is known."""

import calendar
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache, total_ordering
from pathlib import PurePath
from typing import Self

from workflows.errors import DateInvalid

# Names that products and GDAL use for the time of acquisition.
ACQUISITION_TAGS = (
    "ACQUISITIONDATETIME",
    "ACQUISITION_DATETIME",
    "ACQUISITIONDATE",
    "ACQUISITION_DATE",
    "DATE_ACQUIRED",
    "SENSING_TIME",
)

EXPORT_TAG = "TIFFTAG_DATETIME"
"""Often the time of saving, not of acquisition."""
_EXPORTED_LATER = 366
"""Days between the date in a name and an export date from which the name counts."""

_YEAR = r"(?:19[5-9]\d|20\d\d)"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH_NAME = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)


def _form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII | re.IGNORECASE)


# Forms of days, the first that fits. An optional time may follow the first one.
_DAYS = (
    _form(rf"(?<!\d)(?P<y>{_YEAR})(?P<sep>[-_:./]?)(?P<m>\d\d)(?P=sep)(?P<d>\d\d)(?:\d{{4}}|\d{{6}})?(?!\d)"),
    _form(rf"(?<!\d)(?P<y>{_YEAR})(?P<sep>[-.])(?P<m>\d\d?)(?P=sep)(?P<d>\d\d?)(?!\d)"),
    _form(rf"(?<!\d)(?P<first>\d\d?)(?P<sep>[-.])(?P<second>\d\d?)(?P=sep)(?P<y>{_YEAR})(?!\d)"),
    _form(rf"(?<!\d)(?P<first>\d\d)_(?P<second>\d\d)_(?P<y>{_YEAR})(?!\d)"),
    _form(rf"(?<!\d)(?P<d>\d\d?)[-_. ]?{_MONTH_NAME}[-_. ]?(?P<y>{_YEAR})(?!\d)"),
    _form(rf"(?<!\d)(?P<y>{_YEAR})[-_. ]?{_MONTH_NAME}[-_. ]?(?P<d>\d\d?)(?!\d)"),
    # Maxar: 20JAN31101112-M2AS.
    _form(rf"(?<![\da-z])(?P<short>\d\d){_MONTH_NAME}(?P<d>\d\d)(?=\d{{6}}[-_])"),
    # A day of the year: scenes of Landsat before its collections, of MODIS and HLS.
    _form(rf"(?:[._]A?|^A|L[a-z]\d{{7}})(?P<y>{_YEAR})(?P<day>[0-3]\d\d)(?=T\d|\.|[a-z]{{3}}\d\d|$)"),
)
# Forms of months, with a separator: 201801 may be any number.
_MONTHS_OF_YEARS = (
    _form(rf"(?<!\d)(?P<y>{_YEAR})[-_.](?P<m>0[1-9]|1[0-2])(?!\d|[-_.]\d\d?(?!\d))"),
    _form(rf"(?<!\d)(?<!\d[-.])(?P<m>0[1-9]|1[0-2])[-.](?P<y>{_YEAR})(?!\d)"),
    _form(rf"(?<![a-z\d]){_MONTH_NAME}[-_. ]?(?P<y>{_YEAR})(?!\d)"),
    _form(rf"(?<!\d)(?P<y>{_YEAR})[-_. ]?{_MONTH_NAME}(?![a-z\d])"),
)
# Two digits of a year, of a month and of a day in an order of their own: 310819, 19-08-31.
_SHORT = _form(r"(?<![\da-z])(?<!\d[-_.])(\d\d)([-_.]?)(\d\d)\2(\d\d)(?![\da-z])(?![-_.]\d)")
_BARE_YEAR = re.compile(rf"(?<!\d){_YEAR}(?!\d)", re.ASCII)
_OPTION = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?", re.ASCII)


Day = str | date
"""A date as callers in Python give it."""


def iso_date(day: Day | None) -> str | None:
    """Return a date as text."""
    return day.isoformat()[:10] if isinstance(day, date) else day


@dataclass(frozen=True)
class SceneDate:
    """A date and its source.

    Attributes:
        value: ``YYYY-MM-DD``, ``YYYY-MM`` or ``YYYY``; None if unknown.
        source: ``option``, ``tag``, ``file name``, or None.
        exported: the export date of the file, if it is not believed since it is more than a year off.
        read_from: the six digits that it was read from, which might be something else.
    """

    value: str | None
    source: str | None
    exported: str | None = None
    read_from: str | None = None

    @property
    def doubt(self) -> str | None:
        """What is told of a date that may be another one; None where there is no doubt."""
        if self.read_from is not None:
            return f"dated {self.value} by {self.read_from} in its name, which fits no other date"
        if self.exported is None:
            return None
        return (
            f"dated {self.value} by its name, not {self.exported} by its tag {EXPORT_TAG}, which is more "
            "than a year off"
        )


@total_ordering
@dataclass(frozen=True)
class PartialDate:
    """A date that may be known to the year or the month only; ordered by the middle of what it covers.

    Attributes:
        text: ``YYYY-MM-DD``, ``YYYY-MM`` or ``YYYY``, as :func:`parse_date` returns it.
    """

    text: str

    def __lt__(self, other: Self) -> bool:
        return (self.ordinal, self.text) < (other.ordinal, other.text)

    def __str__(self) -> str:
        return self.text

    @property
    def first(self) -> date:
        """The first day that it covers."""
        year, month, day = (*map(int, self.text.split("-")), 1, 1)[:3]
        return date(year, month, day)

    @property
    def last(self) -> date:
        """The last day that it covers."""
        year, month, day = (*map(int, self.text.split("-")), 12, 31)[:3]
        return date(year, month, day if len(self.text) == 10 else calendar.monthrange(year, month)[1])

    @property
    def ordinal(self) -> float:
        """The middle of what it covers, in days of the proleptic Gregorian calendar."""
        return (self.first.toordinal() + self.last.toordinal()) / 2


# Cached: a table of pairs repeats few dates.
@lru_cache(maxsize=4096)
def parse_date(text: str) -> str:
    """Check a date given by a user, ``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD``, and return it stripped.

    Raises:
        DateInvalid: it has another form, or is not in the calendar.
    """
    match = _OPTION.fullmatch(text.strip())
    if match:
        year, month, day = (int(part) if part else 1 for part in match.groups())
        if _calendar_day(year, month, day):
            return text.strip()
    raise DateInvalid(f"{text!r} is not a date; write 2019, 2019-08 or 2019-08-31")


def scene_date(
    path: str, tags: Mapping[str, str], option: str | None = None, folder: str | None = None
) -> SceneDate:
    """Find the date of one scene; ``path`` is its path without the query of an address.

    The first source that has one wins: the option, an acquisition tag, a day in the name, a month in it,
    ``TIFFTAG_DATETIME`` (often the time of saving) unless it is more than a year off the name, a year in the
    name. The name is that of the file; where that has no date, ``folder``, the date of its folders. Years of
    two digits are read last of all, where only one order of year, month and day gives a past day.
    """
    if option is not None:
        return SceneDate(parse_date(option), "option")
    upper = {key.upper(): str(value) for key, value in tags.items()}
    for tag in ACQUISITION_TAGS:
        if found := _find_day(upper.get(tag, "")):
            return SceneDate(found, "tag")
    # The raster's own name, and that of its zip.
    names = [PurePath(path).stem]
    names += [folder.stem for folder in PurePath(path).parents if folder.suffix.lower() == ".zip"]
    ways = (find(name) for find in (_find_day, _find_month, _find_year) for name in names)
    named = next(filter(None, ways), folder)
    exported = _find_day(upper.get(EXPORT_TAG, ""))
    if named is None and exported is None and (short := _find_short_day(names[0])):
        return SceneDate(short[0], "file name", read_from=short[1])
    if named is None or exported is None:
        return SceneDate(named or exported, "file name" if named else "tag" if exported else None)
    one, other = PartialDate(named), PartialDate(exported)
    is_off = max((one.first - other.last).days, (other.first - one.last).days) > _EXPORTED_LATER
    if is_off or len(named) > 4:
        return SceneDate(named, "file name", exported if is_off else None)
    return SceneDate(exported, "tag")


def _find_day(text: str) -> str | None:
    return next(filter(None, (_day_in(match) for form in _DAYS for match in form.finditer(text))), None)


def _day_in(match: re.Match[str]) -> str | None:
    """Return the day that a match names; None if there is no such day, or it may be one of two."""
    found = match.groupdict()
    year = int(found.get("y") or f"20{found['short']}")
    if found.get("day"):
        day = date(year, 1, 1) + timedelta(int(found["day"]) - 1)
        return day.isoformat() if day.year == year else None
    if found.get("first"):
        first, second = int(found["first"]), int(found["second"])
        days = {(second, first), (first, second)}
    else:
        days = {(_month_in(found), int(found["d"]))}
    real = [(month, day) for month, day in days if _calendar_day(year, month, day)]
    return f"{year}-{real[0][0]:02}-{real[0][1]:02}" if len(real) == 1 else None


def _month_in(found: Mapping[str, str | None]) -> int:
    name = found.get("name")
    return int(found["m"] or 0) if name is None else _MONTHS.index(name[:3].lower()) + 1


def _find_month(name: str) -> str | None:
    found = [match.groupdict() for form in _MONTHS_OF_YEARS for match in form.finditer(name)]
    months = {f"{one['y']}-{_month_in(one):02}" for one in found if int(one["y"]) <= date.today().year}
    return months.pop() if len(months) == 1 else None  # two different ones are ambiguous


def _find_short_day(name: str) -> tuple[str, str] | None:
    """Return the only past day that six digits of a name may be, and the digits; None if it is unsure."""
    found = list(_SHORT.finditer(name))
    if len(found) != 1:
        return None
    one, _, two, three = found[0].groups()
    today, days = date.today(), set()
    for year, month, day in ((one, two, three), (three, two, one), (three, one, two)):
        century = 2000 if 2000 + int(year) <= today.year else 1900
        full = century + int(year)
        if full >= 1950 and _calendar_day(full, int(month), int(day)):
            days.add(date(full, int(month), int(day)))
    past = [day for day in days if day <= today]
    return (past[0].isoformat(), found[0][0]) if len(past) == 1 else None


def _find_year(name: str) -> str | None:
    years = {year for year in _BARE_YEAR.findall(name) if int(year) <= date.today().year}
    return years.pop() if len(years) == 1 else None


def _calendar_day(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True
