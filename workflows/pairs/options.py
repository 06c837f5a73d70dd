"""The list of options of a catalog: which scenes are taken, and which of them make a pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from workflows.dates import parse_date
from workflows.errors import OptionInvalid
from workflows.options import SceneOptions, ServerOptions, option

if TYPE_CHECKING:
    from regex import Pattern

PairRule = Literal["consecutive", "first-last", "all", "yearly"]
PAIR_RULES: tuple[PairRule, ...] = get_args(PairRule)


_PERCENT: dict[str, Any] = {"allowed": "percent, 0 to 100", "is_allowed": lambda share: 0 <= share <= 100}


@dataclass(frozen=True)
class CatalogOptions(ServerOptions):
    """Which scenes are taken, and which of them make a pair.

    Attributes:
        pair: ``consecutive``: each scene with the next one in time; ``first-last``: the first with the last;
            ``all``: each with every later one; ``yearly``: one scene of each year, consecutive.
        max_cloud: percent; scenes that are known to have more clouds are left out.
        first_date, last_date: ISO dates (year, month or day); scenes outside are left out.
        min_overlap: percent of the smaller of two scenes that must lie in the other for a pair.
        match: pattern whose group in a scene's path (under its folder) is its site or, with two folders, what
            makes two scenes a pair.
        glob: only files whose name is like this are scenes.
        assets: names of the asset of a STAC item to take, best first.
        collections: of a STAC catalog.
        bounds: west, south, east, north in degrees; only items that touch this box.
        offline, allow_hosts: see :class:`workflows.options.ServerOptions`.
    """

    pair: PairRule = option(  # noqa: RUF009
        "consecutive", "Which of the dated scenes of a place make a pair."
    )
    max_cloud: float | None = option(
        None, "Leave out scenes that are known to have more clouds.", metavar="PERCENT", **_PERCENT
    )
    first_date: str | None = option(
        None, "Only scenes from this day, month or year on.", flag="--from", metavar="DATE"
    )
    last_date: str | None = option(
        None, "Only scenes up to this day, month or year.", flag="--to", metavar="DATE"
    )
    min_overlap: float = option(
        50.0, "So much of the smaller scene must lie in the other for a pair.", metavar="PERCENT", **_PERCENT
    )
    match: str | None = option(
        None,
        "Its group in a scene's path is its site or, with two folders, what makes a pair.",
        metavar="REGEX",
    )
    glob: str | None = option(None, "Only files with such a name, like '*_visual.tif'.", metavar="PATTERN")
    assets: tuple[str, ...] = option(
        (), "STAC: asset to take; several: the first that is there.", flag="--asset", metavar="NAME"
    )
    collections: tuple[str, ...] = option(
        (), "STAC: only of this; repeatable.", flag="--collection", metavar="NAME"
    )
    bounds: tuple[float, float, float, float] | None = SceneOptions.again("bounds")

    def __post_init__(self) -> None:
        if self.pair not in PAIR_RULES:
            raise OptionInvalid(f"pair is {self.pair!r}; it must be {' or '.join(PAIR_RULES)}")
        super().__post_init__()
        dates = [parse_date(text) for text in (self.first_date, self.last_date) if text is not None]
        if len(dates) == 2 and not within(dates[0], None, dates[1]):
            raise OptionInvalid(f"there is no day from {dates[0]} to {dates[1]}; are they swapped?")
        self.pattern()

    def pattern(self) -> Pattern[str] | None:
        """Return ``match``, compiled; None without it.

        Raises:
            OptionInvalid: it is no pattern, or has no group.
        """
        if self.match is None:
            return None
        # Python's own re cannot be stopped: on an unlucky name some patterns take for ever.
        import regex

        text = self.match
        try:
            pattern = regex.compile(text)
        except (regex.error, RecursionError, OverflowError) as error:
            raise OptionInvalid(f"match is {text!r}, which is no pattern of Python's re: {error}") from error
        if not pattern.groups:
            raise OptionInvalid(
                rf"match is {text!r}; put what is the same in both names into a group, such as (tile_\d+)"
            )
        return pattern


def within(date: str, first: str | None, last: str | None) -> bool:
    """Return whether an ISO date may lie in a span, ends included; of less precise ones nothing is known.

    >>> within("2019", "2019-08", "2020"), within("2019-07-31", "2019-08", None)
    (True, False)
    """
    if first is not None and date[: len(first)] < first[: len(date)]:
        return False
    return last is None or date[: len(last)] <= last[: len(date)]
