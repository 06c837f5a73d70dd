"""Options as dataclass fields: parsed and checked, with what commands, run records and archive keys need."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self

from workflows.bounded import check_depth
from workflows.errors import OptionInvalid
from workflows.printable import printable

Place = Literal["settings", "dates", "overlap", "none"]
"""Entry of an archive's key that holds a field; ``settings`` are in the run record too."""
Panel = Literal["Input", "Output", "Detection", "Words", "Advanced"]
"""Panel of the commands' help."""


@dataclass(frozen=True)
class Option:
    """Description of one field.

    Attributes:
        help: help text of the command-line option; None if no command has it.
        hidden: the help leaves it out; the command reference lists it.
        place: where the value is written; ``none`` if the result does not depend on it.
        flag: command-line option; empty: made from the name of the field.
        allowed: the allowed values in words.
        is_allowed: returns whether a value other than None is allowed.
        read: parses the text of the command line; raises ValueError.
    """

    help: str | None = None
    panel: Panel = "Advanced"
    hidden: bool = False
    place: Place = "settings"
    flag: str = ""
    metavar: str | None = None
    allowed: str = ""
    is_allowed: Callable[[Any], bool] | None = None
    read: Callable[[Any], Any] | None = None


def option(default: Any, help: str | None = None, **details: Any) -> Any:
    """Return a dataclass field; ``details`` are further attributes of :class:`Option`."""
    return field(default=default, metadata={"option": Option(help, **details)})


def between(low: float, high: float, unit: str = "") -> dict[str, Any]:
    """Return the details of a number from ``low`` to ``high``, ends included."""
    allowed = f"{unit}, {low:g} to {high:g}" if unit else f"{low:g} to {high:g}"
    return {"allowed": allowed, "is_allowed": lambda value: low <= value <= high}


def one_of(values: tuple[str, ...]) -> dict[str, Any]:
    """Return the details of a choice."""
    return {"allowed": " or ".join(values), "is_allowed": lambda value: value in values}


class Options:
    """Base of the option dataclasses; each field is made by :func:`option`."""

    def __post_init__(self) -> None:
        for name in self.names():
            value = getattr(self, name)
            if type(value).__module__ == "numpy":  # run records hold plain numbers only
                value = value.item()
                object.__setattr__(self, name, value)
            if value is not None and not _is_allowed(value, self.option(name)):
                raise self.invalid(name, value)

    @classmethod
    def read(cls, texts: Mapping[str, Any]) -> Self:
        """Return the options of texts from the command line, by field."""
        values = {}
        for name, text in texts.items():
            read = cls.option(name).read
            try:
                values[name] = text if read is None or text is None else read(text)
            except ValueError:
                raise cls.invalid(name, text) from None
        return cls(**values)

    @classmethod
    def invalid(cls, name: str, value: Any) -> OptionInvalid:
        """Return the error about a value of a field."""
        flag = cls.flag(name).removeprefix("--")
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        return OptionInvalid(f"{flag} is {text[:60]}; it must be {cls.option(name).allowed}")

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all fields."""
        return [each.name for each in fields(cls)]  # type: ignore[arg-type]

    @classmethod
    def option(cls, name: str) -> Option:
        """Return the description of a field."""
        described: Option = cls.__dataclass_fields__[name].metadata["option"]  # type: ignore[attr-defined]
        return described

    @classmethod
    def again(cls, name: str, help: str = "", default: Any = None) -> Any:
        """Return the same field for another class, with another default and perhaps another help."""
        described = cls.option(name)
        return field(default=default, metadata={"option": replace(described, help=help or described.help)})

    @classmethod
    def flag(cls, name: str) -> str:
        """Return the command-line option of a field."""
        return cls.option(name).flag or f"--{name.replace('_', '-')}"


def _is_allowed(value: Any, described: Option) -> bool:
    try:
        return described.is_allowed is None or described.is_allowed(value)
    except (TypeError, AttributeError):
        return False  # a value of another type


_PREFIXES = "kmgt"
# At most 18 digits: no machine has more memory.
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*([kmgt])(i?)b?", re.IGNORECASE)


def numbers(kind: type[float]) -> Callable[[str], tuple[float, ...]]:
    """Return the parser of numbers with commas between them, such as ``1,2.5``."""
    return lambda text: tuple(kind(part) for part in text.split(","))


def read_bands(text: str) -> tuple[int | str, ...]:
    """Parse ``3,2,1`` or ``B04,B03,B02``."""
    return tuple(int(part) if part.isdecimal() else part for part in map(str.strip, text.split(",")))


def read_names(texts: list[str]) -> tuple[str, ...]:
    """Parse ``swir16,nir,red,green``, in one text or several."""
    return tuple(name.strip() for text in texts for name in text.split(","))


CLASSES = (
    "building",
    "road",
    "parking lot",
    "trees",
    "water",
    "vegetation",
    "dense vegetation",
    "green cover",
    "burnt ground",
)
"""Object classes of which a report states that they came or went."""
_OTHER_WORDS = {"house": "building", "houses": "building", "tree": "trees"}


def texts_of(given: str | Sequence[str]) -> list[str]:
    """Return several texts, of which one may be given alone."""
    return [given] if isinstance(given, str) else list(given)


def read_classes(texts: list[str]) -> tuple[str, ...]:
    """Parse ``building,road``, in one text or several; plurals and ``houses`` are other words for classes."""
    names = (name.strip().lower() for text in texts for name in text.split(","))
    singular = (_OTHER_WORDS.get(name, name) for name in names)
    return tuple(name if name in CLASSES else name.removesuffix("s") for name in singular)


def read_scale(text: str) -> tuple[float, ...] | str:
    """Parse ``0,3000`` or a word."""
    return text if text.isalpha() else numbers(float)(text)


def read_size(text: str) -> int:
    """Parse a size with its unit (``2GB``, ``1500M``, ``1.5 GiB``) into bytes."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(text)
    number, prefix, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** (_PREFIXES.index(prefix.lower()) + 1))


def read_shard(text: str) -> tuple[int, int]:
    """Parse ``3/16``, the third of sixteen shards."""
    number, count = map(int, text.split("/"))
    return number, count


_MOST_FEATURES = 1_000_000


def read_area(text: str) -> str:
    """Return the polygons of a vector file (any CRS) as one geometry in WGS84, WKT."""
    # Here, so that the help of a command loads none of these.
    import shapely

    from tiling import mended
    from workflows.polygon_files import PolygonFiles

    files = PolygonFiles(OptionInvalid, _MOST_FEATURES)
    frame, _ = files.read(text)
    with files.one_line(printable(text)):
        areas = [mended(one) for one in frame.to_crs("EPSG:4326").geometry.dropna().values]
    area = shapely.union_all(shapely.buffer(areas, 0))
    if area.is_empty or not shapely.is_valid(area):
        raise OptionInvalid(f"{printable(text)}: it has no polygons; --area takes a file with polygons")
    return shapely.to_wkt(area, rounding_precision=7)


def area_of(text: str) -> Any | None:
    """Return the shapely geometry of the text of :func:`read_area`; None if it is none with an area."""
    import shapely
    from shapely.errors import ShapelyError

    try:
        check_depth(text)
        area = shapely.from_wkt(text)
    except (ShapelyError, TypeError, ValueError, AttributeError):
        return None
    return area if area.area > 0 else None
