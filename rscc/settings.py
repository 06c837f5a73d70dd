"""Dataclasses from plain values: the types of the fields are the schema.

An unknown key, a wrong type or a value out of range is a :class:`~rscc.errors.ConfigInvalid`.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Collection
from typing import Any, TypeVar

from rscc.errors import ConfigInvalid

T = TypeVar("T")


def check(condition: bool, message: str) -> None:
    """Raise ConfigInvalid with the message unless the condition holds."""
    if not condition:
        raise ConfigInvalid(message)


def check_choice(name: str, value: str, allowed: Collection[str], joint: str = ", ") -> None:
    """Raise ConfigInvalid unless the value of a field is allowed."""
    check(value in allowed, f"{name} is {value!r}; use {joint.join(allowed)}")


def check_sizes(config: object, where: str, **ranges: tuple[int, int]) -> None:
    """Raise ConfigInvalid unless each named field lies in its range, ends included."""
    for name, (least, most) in ranges.items():
        value = getattr(config, name)
        check(value >= least, f"{where}.{name} {value} is below {least}")
        check(value <= most, f"{where}.{name} {value} is above {most}")


def build(cls: type[T], values: dict[str, Any], where: str) -> T:
    """Build a settings dataclass from plain values."""
    hints = typing.get_type_hints(cls)
    unknown = sorted(set(values) - set(hints))
    if unknown:
        raise ConfigInvalid(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(hints))}")
    return cls(**{key: of_type(hints[key], value, f"{where}.{key}") for key, value in values.items()})


def of_type(hint: Any, value: Any, where: str) -> Any:
    """Return a plain value converted to the type of a field, with the items of tuples.

    Raises:
        ConfigInvalid: it is of another type, or not finite; the message says where.
    """
    if isinstance(hint, types.UnionType):  # of ``X | None``, X for any value but None
        alternatives = (one for one in typing.get_args(hint) if (one is types.NoneType) == (value is None))
        hint = next(alternatives, hint)
    origin = typing.get_origin(hint) or hint
    if dataclasses.is_dataclass(hint):
        check(isinstance(value, dict), f"{where} must be a table")
        return build(typing.cast(type, hint), value, where)
    if origin is float and isinstance(value, int) and not isinstance(value, bool):
        check(abs(value) < 2**1023, f"{where} is too large")
        value = float(value)
    check(not isinstance(value, float) or math.isfinite(value), f"{where} is {value!r}, not a finite number")
    if origin is tuple and isinstance(value, list | tuple):
        value = tuple(
            of_type(typing.get_args(hint)[0], item, f"{where}[{n}]") for n, item in enumerate(value)
        )
    accepted = origin if isinstance(origin, type) else object
    fits = isinstance(value, accepted) and not (origin is int and isinstance(value, bool))
    expected = hint if isinstance(hint, types.GenericAlias) else getattr(origin, "__name__", origin)
    check(fits, f"{where} is {value!r}; expected {expected}")
    return value
