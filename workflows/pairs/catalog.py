"""Dated scenes with their footprints, the pairs that were made of them, and what was left out."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shapely.geometry import MultiPolygon, Polygon

from tiling import SceneInfo
from workflows.addresses import public_path
from workflows.errors import NoPairs, PairTableInvalid
from workflows.pairs.delivery.contents import Content
from workflows.pairs.names import made_ids
from workflows.pairs.options import CatalogOptions, within
from workflows.pairs.rows import PairRow, UnnamedPair
from workflows.printable import listed

EXAMPLES = 3
"""Names that a warning lists."""


@dataclass(frozen=True)
class Scene:
    """A dated scene.

    Attributes:
        name: its name in messages and in names of pairs: its path under the source, or the id of its item.
        location: path or address to open; it may contain secrets.
        date: ISO date as precise as is known; empty if unknown.
        cloud: cloud cover in percent; None if unknown.
        footprint: in degrees of WGS84, cut at 180 degrees.
        content: what a raster of a folder shows; None if unknown.
        note: what is doubtful about its date, without its name; None if nothing is.
        info: its header, where it is to be kept.
    """

    name: str
    location: str = field(repr=False)
    site: str | None
    date: str
    cloud: float | None
    footprint: Polygon | MultiPolygon
    content: Content | None = None
    note: str | None = None
    info: SceneInfo | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Skipped:
    """A scene, or a pair, that is not in the table.

    Attributes:
        kind: the reason in a few words, for the summary.
        name: the scene; None if the user's options left it out.
        reason: in a sentence.
        quiet: it is no warning, since another raster of its delivery is used.
    """

    kind: str
    name: str | None = None
    reason: str = ""
    quiet: bool = False

    @property
    def line(self) -> str | None:
        """The scene and the reason; None if the user's options left it out."""
        return None if self.name is None else f"{self.name}: {self.reason}"


def lines_by_reason(named: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield one line for each reason, with the first few of its names.

    >>> list(lines_by_reason([("a.tif", "no date"), ("b.tif", "no date")]))
    ['a.tif, b.tif: no date']
    """
    by_reason: dict[str, list[str]] = {}
    for name, reason in named:
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        yield f"{listed(names, EXAMPLES)}: {reason}"


def skip_warnings(skipped: Iterable[Skipped]) -> Iterator[str]:
    """Yield one warning for each reason why scenes were left out, but by the user's options."""
    loud = [one for one in skipped if one.name and not one.quiet]
    for kind in dict.fromkeys(one.kind for one in loud):
        lines = list(lines_by_reason((one.name or "", one.reason) for one in loud if one.kind == kind))
        yield from lines[:EXAMPLES]
        if len(lines) > EXAMPLES:
            yield f"{len(lines) - EXAMPLES:,} more reasons like these; --json lists all that was left out"


@dataclass(frozen=True)
class Stack:
    """Single bands of a scene that become one VRT beside them.

    Attributes:
        scene: the VRT, which need not exist yet.
        bands: the raster of each part of the spectrum.
    """

    scene: Scene
    bands: Mapping[str, Scene]


@dataclass(frozen=True)
class Catalog:
    """Pairs, and what was left out.

    Attributes:
        source: where they come from, in words.
        chosen: which rasters of deliveries were taken and why, a line for each kind of choice.
        stacks: VRTs that have to be written before the table is used.
    """

    source: str
    rows: Sequence[PairRow]
    scenes: int
    skipped: Sequence[Skipped] = ()
    warnings: Sequence[str] = ()
    chosen: Sequence[str] = ()
    stacks: Sequence[Stack] = ()

    def left_out(self) -> dict[str, int]:
        """Return the number of skipped scenes and pairs by kind, the most frequent first."""
        return dict(Counter(skipped.kind for skipped in self.skipped).most_common())

    def left_out_words(self) -> str:
        """Return the same in words."""
        return ", ".join(f"{count:,} {kind}" for kind, count in self.left_out().items())

    def check(self) -> None:
        """Make sure that there is a pair.

        Raises:
            NoPairs: there is none; the message counts why scenes were left out.
        """
        if not self.rows:
            words = self.left_out_words()
            raise NoPairs(
                f"{self.source}: no pair in its {self.scenes:,} scenes{f' ({words})' if words else ''}; "
                "docs/archive.md describes what makes a pair"
            )


def choose(scenes: Iterable[Scene], options: CatalogOptions) -> tuple[list[Scene], list[Skipped], list[str]]:
    """Return the scenes within the dates and clouds of the options, the skipped scenes, and warnings."""
    chosen, skipped, unknown = [], [], 0
    for scene in scenes:
        if not within(scene.date, options.first_date, options.last_date):
            skipped.append(Skipped("outside the dates"))
        elif options.max_cloud is not None and scene.cloud is not None and scene.cloud > options.max_cloud:
            skipped.append(Skipped(f"more than {options.max_cloud:g} percent of clouds"))
        else:
            chosen.append(scene)
            unknown += scene.cloud is None
    warnings = []
    if options.max_cloud is not None and unknown:
        warnings.append(f"{unknown} of the {len(chosen)} chosen scenes have no cloud cover; they are used")
    return chosen, skipped, warnings


def named_rows(pairs: Sequence[UnnamedPair]) -> list[PairRow]:
    """Return the rows of ``pairs``, each with a unique name.

    Raises:
        PairTableInvalid: two of them are the same but for signatures.
    """
    names = made_ids(pairs)
    first: dict[str, UnnamedPair] = {}
    for name, pair in zip(names, pairs, strict=True):
        if first.setdefault(name.lower(), pair) is not pair:
            scenes = f"{public_path(pair.row.before)} and {public_path(pair.row.after)}"
            raise PairTableInvalid(f"{scenes}: this pair is there twice, with other signatures; keep one")
    return [replace(pair.row, pair=name) for pair, name in zip(pairs, names, strict=True)]
