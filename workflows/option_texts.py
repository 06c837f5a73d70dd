"""Parsers of option texts; each raises ValueError for a text that it cannot parse."""

from __future__ import annotations

import re
from collections.abc import Callable

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
    if not 1 <= number <= count < 10**9:
        raise ValueError(text)
    return number, count
