"""Which changes a report keeps: of some object classes, in one direction, in some polygons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from workflows.areas import area_of

if TYPE_CHECKING:
    from workflows.report.change import Change


class Selection(Protocol):
    """Options that select changes; None selects all."""

    @property
    def only(self) -> tuple[str, ...] | None: ...  # noqa: D102
    @property
    def direction(self) -> str | None: ...  # noqa: D102
    @property
    def area(self) -> str | None: ...  # noqa: D102


def selected(changes: Iterable[Change], options: Selection) -> list[Change]:
    """Return the changes that touch ``area`` and in which a class of ``only`` came or went as asked.

    A change that replaced one class by another counts for both directions.
    """
    area = None if options.area is None else area_of(options.area)
    return [
        change
        for change in changes
        if _names_match(change, options) and (area is None or change.geometry.intersects(area))
    ]


def _names_match(change: Change, options: Selection) -> bool:
    parts = {"appeared": change.came, "disappeared": change.gone}
    wanted = [named for direction, named in parts.items() if options.direction in (None, direction)]
    names = {name for named in wanted for name in named}
    if options.only is not None:
        return not names.isdisjoint(options.only)
    return options.direction is None or bool(names) or change.direction == options.direction
