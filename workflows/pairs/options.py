"""Options of a catalog: which scenes are used, and which of them become pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from workflows.dates import parse_date
from workflows.errors import OptionInvalid
from workflows.option_fields import between, one_of, option
from workflows.options import SceneOptions, ServerOptions

if TYPE_CHECKING:
    from regex import Pattern

PairRule = Literal["consecutive", "first-last", "all", "yearly"]
PAIR_RULES: tuple[PairRule, ...] = get_args(PairRule)


_PERCENT: dict[str, Any] = {"panel": "Input", "metavar": "PERCENT"}


@dataclass(frozen=True)
class CatalogOptions(ServerOptions):
    """Which scenes are used, and which of them become pairs.

    Attributes:
        pair: ``consecutive``: each scene with the next in time; ``first-last``: the first with the last;
            ``all``: each with every later one; ``yearly``: one scene per year, consecutive.
        max_cloud: percent; scenes known to have more clouds are left out.
        first_date, last_date: ISO dates (year, month or day); scenes outside are left out.
        min_overlap: minimum overlap of a pair, in percent of the smaller scene.
        match: regular expression whose group in a scene's path, under its folder, is its site; with two
            folders, the part that both paths of a pair have in common.
    """

    pair: PairRule = option(  # noqa: RUF009
        "consecutive",
        "Rule by which dated scenes of a site become pairs",
        panel="Input",
        **one_of(PAIR_RULES),
    )
    max_cloud: float | None = option(
        None, "Leave out scenes known to have more clouds", **_PERCENT, **between(0, 100, "percent")
    )
    first_date: str | None = option(
        None, "Only scenes from this day, month or year on", panel="Input", flag="--from", metavar="DATE"
    )
    last_date: str | None = option(
        None, "Only scenes up to this day, month or year", panel="Input", flag="--to", metavar="DATE"
    )
    min_overlap: float = option(
        50.0, "Minimum overlap, in percent of the smaller scene", **_PERCENT, **between(0, 100, "percent")
    )
    match: str | None = option(
        None,
        "Pattern whose group in a scene's path is its site; with two folders, what both paths have in common",
        panel="Input",
        metavar="REGEX",
    )
    glob: str | None = option(
        None, "Only files with such names, like '*_visual.tif'", panel="Input", metavar="PATTERN"
    )
    assets: tuple[str, ...] = option(
        (),
        "STAC: asset to use; repeatable, best first",
        panel="Input",
        flag="--asset",
        metavar="NAME",
        read=tuple,
    )
    collections: tuple[str, ...] = option(
        (),
        "STAC: collection to use; repeatable",
        panel="Input",
        flag="--collection",
        metavar="NAME",
        read=tuple,
    )
    bounds: tuple[float, float, float, float] | None = SceneOptions.again(
        "bounds", "STAC: only items in this box, in degrees of longitude and latitude"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        dates = [parse_date(text) for text in (self.first_date, self.last_date) if text is not None]
        if len(dates) == 2 and not within(dates[0], None, dates[1]):
            raise OptionInvalid(f"there is no day from {dates[0]} to {dates[1]}; swap them")
        self.pattern()

    def pattern(self) -> Pattern[str] | None:
        """Return ``match``, compiled; None without it.

        Raises:
            OptionInvalid: it is no regular expression, or has no group.
        """
        if self.match is None:
            return None
        # Unlike Python's re, it has a timeout: some patterns take for ever on some names.
        import regex

        try:
            pattern = regex.compile(self.match)
        except (regex.error, RecursionError, OverflowError) as error:
            raise OptionInvalid(f"match is {self.match!r}, no regular expression: {error}") from error
        if not pattern.groups:
            raise OptionInvalid(rf"match is {self.match!r}; it needs a group, such as (tile_\d+)")
        return pattern


def within(date: str, first: str | None, last: str | None) -> bool:
    """Return whether an ISO date may lie between two others, ends included; imprecise dates may.

    >>> within("2019", "2019-08", "2020"), within("2019-07-31", "2019-08", None)
    (True, False)
    """
    if first is not None and date[: len(first)] < first[: len(date)]:
        return False
    return last is None or date[: len(last)] <= last[: len(date)]
