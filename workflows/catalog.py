"""What a catalog is made of: dated scenes on the ground, what was left out and why, and the pairs of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, get_args

from workflows.dates import parse_date
from workflows.errors import NoPairs, OptionInvalid, PairTableInvalid
from workflows.pair_ids import Unnamed, made_ids
from workflows.pair_table import PairRow
from workflows.record import public_path, unsigned

if TYPE_CHECKING:
    from shapely.geometry import MultiPolygon, Polygon

PairRule = Literal["consecutive", "first-last", "all", "yearly"]
PAIR_RULES: tuple[PairRule, ...] = get_args(PairRule)


@dataclass(frozen=True)
class CatalogOptions:
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
    """

    pair: PairRule = "consecutive"
    max_cloud: float | None = None
    first_date: str | None = None
    last_date: str | None = None
    min_overlap: float = 50.0
    match: str | None = None
    glob: str | None = None
    assets: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()
    bounds: tuple[float, float, float, float] | None = None

    def __post_init__(self) -> None:
        if self.pair not in PAIR_RULES:
            raise OptionInvalid(f"pair is {self.pair!r}; it must be {' or '.join(PAIR_RULES)}")
        for name, value in (("max-cloud", self.max_cloud), ("min-overlap", self.min_overlap)):
            if value is not None and not 0 <= value <= 100:
                raise OptionInvalid(f"{name} is {value}; it must be percent, 0 to 100")
        dates = [parse_date(text) for text in (self.first_date, self.last_date) if text is not None]
        if len(dates) == 2 and not within(dates[0], None, dates[1]):
            raise OptionInvalid(f"there is no day from {dates[0]} to {dates[1]}; are they swapped?")
        if self.match is not None:
            self.pattern()

    def pattern(self) -> re.Pattern[str]:
        """Return ``match``, compiled.

        Raises:
            OptionInvalid: it is no pattern, or has no group.
        """
        text = self.match or ""
        try:
            pattern = re.compile(text)
        except re.error as error:
            raise OptionInvalid(f"match is {text!r}, which is no pattern of Python's re: {error}") from error
        if not pattern.groups:
            raise OptionInvalid(
                rf"match is {text!r}; put what is the same in both names into a group, such as (tile_\d+)"
            )
        return pattern


@dataclass(frozen=True)
class Scene:
    """A dated scene.

    Attributes:
        name: what messages and names of pairs call it: its path under the source, or the id of its item.
        location: what is opened; it may hold secrets.
        site: where it is, in words; None where nobody says.
        date: ISO date as precise as is known.
        cloud: cloud cover in percent, None where it is not known.
        footprint: in degrees of WGS84, cut where it crosses 180 degrees.
    """

    name: str
    location: str = field(repr=False)
    site: str | None
    date: str
    cloud: float | None
    footprint: Polygon | MultiPolygon


@dataclass(frozen=True)
class Skipped:
    """A scene, or a pair, that is not in the table.

    Attributes:
        kind: in a few words, the same for all of a kind; for the summary.
        line: which one and why, for a person; None where it was left out because that was asked for.
    """

    kind: str
    line: str | None


@dataclass(frozen=True)
class Draft:
    """A pair without a name, and what its scenes are called."""

    row: PairRow
    before: str
    after: str


@dataclass(frozen=True)
class Catalog:
    """Pairs, and what became of everything else.

    Attributes:
        source: what they come from, in words.
        rows: in order of site and date.
        scenes: how many scenes were found, those that were left out included.
        skipped: what is not in ``rows``.
        warnings: lines about the whole.
    """

    source: str
    rows: Sequence[PairRow]
    scenes: int
    skipped: Sequence[Skipped] = ()
    warnings: Sequence[str] = ()

    def left_out(self) -> dict[str, int]:
        """Return how many are not in the table, by kind, the most frequent first."""
        return dict(Counter(skipped.kind for skipped in self.skipped).most_common())

    def left_out_words(self) -> str:
        """Return the same in words."""
        return ", ".join(f"{count:,} {kind}" for kind, count in self.left_out().items())

    def check(self) -> None:
        """Make sure that there is a pair.

        Raises:
            NoPairs: there is none; the message counts what became of the scenes.
        """
        if not self.rows:
            words = self.left_out_words()
            raise NoPairs(
                f"{self.source}: no pair in its {self.scenes:,} scenes{f' ({words})' if words else ''}; "
                "docs/pairs.md says what makes a pair"
            )


def within(date: str, first: str | None, last: str | None) -> bool:
    """Tell whether an ISO date may lie in a span, both ends included; of less precise ones nothing is known.

    >>> within("2019", "2019-08", "2020"), within("2019-07-31", "2019-08", None)
    (True, False)
    """
    if first is not None and date[: len(first)] < first[: len(date)]:
        return False
    return last is None or date[: len(last)] <= last[: len(date)]


def choose(scenes: Iterable[Scene], options: CatalogOptions) -> tuple[list[Scene], list[Skipped], list[str]]:
    """Return the scenes that the options allow, those they do not, and warnings."""
    kept, skipped, unknown = [], [], 0
    for scene in scenes:
        if not within(scene.date, options.first_date, options.last_date):
            skipped.append(Skipped("outside the dates", None))
        elif options.max_cloud is not None and scene.cloud is not None and scene.cloud > options.max_cloud:
            skipped.append(Skipped(f"more than {options.max_cloud:g} percent of clouds", None))
        else:
            kept.append(scene)
            unknown += scene.cloud is None
    warnings = []
    if options.max_cloud is not None and unknown:
        warnings.append(
            f"nothing says how cloudy {unknown} of the {len(kept)} scenes are; they were taken all the same"
        )
    return kept, skipped, warnings


def named_rows(drafts: Sequence[Draft]) -> list[PairRow]:
    """Return the rows of ``drafts``, each with a name of its own.

    Raises:
        PairTableInvalid: two of them cannot be told apart.
    """
    names = made_ids(
        [
            Unnamed(
                draft.before,
                draft.after,
                draft.row.date_before,
                draft.row.date_after,
                draft.row.site,
                (unsigned(draft.row.before), unsigned(draft.row.after)),
            )
            for draft in drafts
        ]
    )
    first: dict[str, Draft] = {}
    for name, draft in zip(names, drafts, strict=True):
        if first.setdefault(name.lower(), draft) is not draft:
            scenes = f"{public_path(draft.row.before)} and {public_path(draft.row.after)}"
            raise PairTableInvalid(
                f"{scenes}: there are two such pairs, alike in all but signatures; keep one"
            )
    return [replace(draft.row, pair=name) for draft, name in zip(drafts, names, strict=True)]
