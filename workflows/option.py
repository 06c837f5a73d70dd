"""What an option of a run is: its value, and what commands, records and the key of an archive know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from workflows.errors import OptionInvalid

Place = Literal["settings", "dates", "overlap", "none"]
"""Entry of an archive's key that holds a field; ``settings`` are the run record's too."""


@dataclass(frozen=True)
class Option:
    """What a field of the options has besides its value.

    Attributes:
        help: text of the commands' option; None: no command offers it.
        place: where the field is written; ``none``: nothing that is found depends on it.
        flag: the commands' option; empty: the name of the field.
        metavar: what the help calls the value.
        allowed: in words, the values that are in range.
        is_allowed: whether a value, other than None, is one of those.
    """

    help: str | None = None
    place: Place = "settings"
    flag: str = ""
    metavar: str | None = None
    allowed: str = ""
    is_allowed: Callable[[Any], bool] | None = None


def option(default: Any, help: str | None = None, **facts: Any) -> Any:
    """Return a dataclass field; ``facts`` are further attributes of :class:`Option`."""
    return field(default=default, metadata={"option": Option(help, **facts)})


def _is_allowed(value: Any, facts: Option) -> bool:
    try:
        return facts.is_allowed is None or facts.is_allowed(value)
    except (TypeError, AttributeError):
        return False  # of another type than those that are


class Options:
    """What all lists of options have in common: dataclasses whose fields are made by :func:`option`."""

    def __post_init__(self) -> None:
        for name in self.names():
            value, facts = getattr(self, name), self.option(name)
            if type(value).__module__ == "numpy":  # a record takes plain numbers alone
                value = value.item()
                object.__setattr__(self, name, value)
            if value is not None and not _is_allowed(value, facts):
                called = self.flag(name).removeprefix("--")
                raise OptionInvalid(f"{called} is {str(value)[:60]}; it must be {facts.allowed}")

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all fields."""
        return [each.name for each in fields(cls)]  # type: ignore[arg-type]

    @classmethod
    def option(cls, name: str) -> Option:
        """Return what a field has besides its value."""
        facts: Option = cls.__dataclass_fields__[name].metadata["option"]  # type: ignore[attr-defined]
        return facts

    @classmethod
    def again(cls, name: str, help: str = "") -> Any:
        """Return a dataclass field like that of this list, None by default, perhaps with another help."""
        facts = cls.option(name)
        return field(default=None, metadata={"option": replace(facts, help=help or facts.help)})

    @classmethod
    def flag(cls, name: str) -> str:
        """Return how the commands call a field."""
        return cls.option(name).flag or f"--{name.replace('_', '-')}"
