"""What a catalog is made of: dated scenes on the ground, what was left out and why, and the pairs of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from workflows.addresses import public_path
from workflows.errors import NoPairs, PairTableInvalid
from workflows.pairs.names import made_ids
from workflows.pairs.options import CatalogOptions, within
from workflows.pairs.rows import Draft, PairRow

if TYPE_CHECKING:
    from shapely.geometry import MultiPolygon, Polygon


@dataclass(frozen=True)
class Scene:
    """A dated scene.

    Attributes:
        name: what messages and names of pairs call it: its path under the source, or the id of its item.
        location: what is opened; it may hold secrets.
        site: where it is, in words; None where nobody says.
        date: ISO date as precise as is known; empty where it is not.
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
class Catalog:
    """Pairs, and what became of everything else.

    Attributes:
        source: what they come from, in words.
        rows: in order of site and date.
        scenes: how many scenes were found, those that were left out included.
        skipped: what is not in ``rows``.
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


def choose(scenes: Iterable[Scene], options: CatalogOptions) -> tuple[list[Scene], list[Skipped], list[str]]:
    """Return the scenes that the options allow, those they do not, and warnings."""
    chosen, skipped, unknown = [], [], 0
    for scene in scenes:
        if not within(scene.date, options.first_date, options.last_date):
            skipped.append(Skipped("outside the dates", None))
        elif options.max_cloud is not None and scene.cloud is not None and scene.cloud > options.max_cloud:
            skipped.append(Skipped(f"more than {options.max_cloud:g} percent of clouds", None))
        else:
            chosen.append(scene)
            unknown += scene.cloud is None
    warnings = []
    if options.max_cloud is not None and unknown:
        warnings.append(
            f"nothing says how cloudy {unknown} of the {len(chosen)} scenes are; they were taken all the same"
        )
    return chosen, skipped, warnings


def named_rows(drafts: Sequence[Draft]) -> list[PairRow]:
    """Return the rows of ``drafts``, each with a name of its own.

    Raises:
        PairTableInvalid: two of them cannot be told apart.
    """
    names = made_ids(drafts)
    first: dict[str, Draft] = {}
    for name, draft in zip(names, drafts, strict=True):
        if first.setdefault(name.lower(), draft) is not draft:
            scenes = f"{public_path(draft.row.before)} and {public_path(draft.row.after)}"
            raise PairTableInvalid(
                f"{scenes}: there are two such pairs, alike in all but signatures; keep one"
            )
    return [replace(draft.row, pair=name) for draft, name in zip(drafts, names, strict=True)]
