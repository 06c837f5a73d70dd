"""Options of a run over a pair of scenes: one table for Python, the commands, run records and archive keys.

Values are checked when they are set.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from workflows.dates import parse_date
from workflows.errors import OptionInvalid
from workflows.option_fields import (
    CLASSES,
    Options,
    Place,
    area_of,
    between,
    numbers,
    one_of,
    option,
    read_area,
    read_bands,
    read_classes,
    read_names,
    read_scale,
    read_size,
)

if TYPE_CHECKING:
    from rscc.model_folder import ModelCard
    from tiling import Access


Frame = Literal["before", "after"]
FRAMES: tuple[str, ...] = get_args(Frame)

GROUP_DISTANCE = 28.0
"""Metres between outlines up to which they are one change.

It spans a street with its front gardens, so that both sides of the street are one estate.
"""
GROUP_PIXELS = 2
"""The same in working pixels, where that is more: a coarse grid cannot show narrower gaps."""
MIN_AREA = 20.0
"""Square metres of the smallest outline."""
MIN_PIXELS = 8
"""Working pixels of the smallest outline: rscc-medium was trained on none smaller."""

REFLECTANCE = "reflectance"
# A name, an IPv4 address, or an IPv6 address in brackets.
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?", re.ASCII | re.IGNORECASE)

# Upper limits of meaningful values: the Earth's circumference and surface, the bands and pixels of a file.
MAX_METRES = 4e7
MAX_SQUARE_METRES = 5.2e14
MAX_BANDS = 65_535
MAX_PIXELS = 2**31 - 1
MAX_BATCH = 4096
MAX_BYTES = 2**60
MAX_VALUE = 1e12
"""Largest magnitude of a pixel value."""


@dataclass(frozen=True)
class ServerOptions(Options):
    """Servers that may be contacted.

    Attributes:
        allow_hosts: None: the user named the inputs, any server is allowed. Else a table, catalog or report
            named them, and only public servers and these hosts are allowed, as ``host`` or ``host:port``.
    """

    offline: bool = option(
        False, "Never use the network; inputs on servers are refused", panel="Input", place="none"
    )
    allow_hosts: tuple[str, ...] | None = option(
        None,
        "Private host that addresses in a table, catalog or report may name; repeatable",
        panel="Input",
        place="none",
        flag="--allow-host",
        metavar="HOST",
        allowed="hosts, as HOST or HOST:PORT",
        is_allowed=lambda hosts: all(_HOST.fullmatch(host) for host in hosts),
        read=tuple,
    )

    @property
    def access(self) -> Access:
        """Servers that may be contacted, as :func:`tiling.describe` takes it."""
        from tiling import Access

        return Access(self.offline, self.allow_hosts)

    def for_others(self) -> Self:
        """Return the options for inputs that a table, a catalog or a report names."""
        return replace(self, allow_hosts=self.allow_hosts or ())


MADE_BY = ("threshold", "min_area", "group_distance")
"""Settings with which the changes of a report can be made again."""
_DATES: dict[str, Any] = {"panel": "Input", "place": "dates", "metavar": "DATE"}
_DATE_HELP = "Date of {}, such as 2019, 2019-08 or 2019-08-31; default: from its tags or file name"


@dataclass(frozen=True)
class SceneOptions(ServerOptions):
    """How a pair of scenes is read, and what counts as a change; the help of a field explains it.

    Attributes:
        min_area: square metres; smaller changes are dropped. None: :data:`MIN_AREA`, or :data:`MIN_PIXELS`
            if those are more.
        overlap: pixels that neighbouring tiles share, below half of the model's tile; None: a quarter of it.
        simplify: tolerance of the outlines' simplification, in pixels.
        group_distance: metres; outlines up to this far apart are one change. None: :data:`GROUP_DISTANCE`;
            0: each outline is a change.
        changes: changes that are described in place of those that would be found: a file, or what
            :func:`workflows.scene.given.read.read_changes` returned.
    """

    bands: tuple[int | str, int | str, int | str] | None = option(
        None,
        "Bands shown to the model, by number or name, such as 3,2,1 or B04,B03,B02",
        panel="Input",
        metavar="R,G,B",
        read=read_bands,
        allowed="three band numbers from 1 or names, such as 3,2,1 or B04,B03,B02",
        is_allowed=lambda bands: (
            len(bands) == 3
            and all(band.strip() if isinstance(band, str) else 1 <= band <= MAX_BANDS for band in bands)
        ),
    )
    band_names: tuple[str, ...] | None = option(
        None,
        "Names of both scenes' bands, in order, if the files have none, such as swir16,nir,red,green",
        panel="Input",
        metavar="NAME,...",
        read=read_names,
        allowed="names separated by commas",
        is_allowed=lambda names: names and all(name.strip() for name in names),
    )
    bounds: tuple[float, float, float, float] | None = option(
        None,
        "Process only this box, in degrees of longitude and latitude",
        panel="Input",
        flag="--bbox",
        metavar="W,S,E,N",
        read=numbers(float),
        allowed="west,south,east,north in degrees",
        # Whether they form a box is checked where the scenes are known.
        is_allowed=lambda box: len(box) == 4 and all(abs(value) <= 360 for value in box),
    )
    area: str | None = option(
        None,
        "Process only the polygons of a vector file, in any CRS",
        panel="Input",
        metavar="FILE",
        read=read_area,
        allowed="polygons in WGS84, as WKT",
        is_allowed=lambda area: area_of(area) is not None,
    )
    gsd: float | None = option(
        None,
        "Working resolution in metres per pixel; default: the model's",
        panel="Input",
        hidden=True,
        metavar="M",
        allowed=f"metres above 0, {MAX_METRES:g} at most",
        is_allowed=lambda gsd: 0 < gsd <= MAX_METRES,
    )
    threshold: float | None = option(
        None,
        "Probability from which a pixel counts as changed; default: the model's",
        panel="Detection",
        metavar="P",
        allowed="between 0 and 1",
        is_allowed=lambda threshold: 0 < threshold < 1,
    )
    min_area: float | None = option(
        None,
        f"Smallest change in square metres; default: {MIN_AREA:g}, or {MIN_PIXELS} pixels of a coarse grid",
        panel="Detection",
        metavar="M2",
        **between(0, MAX_SQUARE_METRES, "square metres"),
    )
    overlap: int | None = option(None, place="overlap", **between(0, MAX_PIXELS, "pixels"))
    batch_size: int | None = option(
        None,
        "Tiles in one batch of the model; default: 16, on a GPU 64",
        hidden=True,
        metavar="N",
        **between(1, MAX_BATCH),
    )
    simplify: float = option(1.0, **between(0, MAX_PIXELS, "pixels"))
    force: bool = option(False, "Process scenes that are too coarse for the model", panel="Input")
    date_before: str | None = option(None, _DATE_HELP.format("BEFORE"), **_DATES)
    date_after: str | None = option(None, _DATE_HELP.format("AFTER"), **_DATES)
    scale: tuple[float, float] | Literal["reflectance"] | None = option(
        None,
        "Pixel values shown as black and white, or 'reflectance'; default: fitted to both dates",
        panel="Input",
        metavar="LOW,HIGH",
        read=read_scale,
        allowed=f"two rising numbers within {MAX_VALUE:g} of 0, such as 0,3000, or {REFLECTANCE!r}",
        is_allowed=lambda scale: (
            scale == REFLECTANCE
            if isinstance(scale, str)
            else len(scale) == 2 and -MAX_VALUE <= scale[0] < scale[1] <= MAX_VALUE
        ),
    )
    normalize: bool = option(
        False, "Match AFTER's brightness to BEFORE, using unchanged pixels", panel="Input", hidden=True
    )
    align: bool = option(
        False, "Correct the measured offset between the scenes by moving AFTER onto BEFORE", panel="Input"
    )
    frame: Frame = option(  # noqa: RUF009
        "before", "With --align: the scene that stays in place", panel="Input", hidden=True, **one_of(FRAMES)
    )
    group_distance: float | None = option(
        None,
        f"Group outlines up to this many metres apart into one change; default: {GROUP_DISTANCE:g}",
        panel="Detection",
        metavar="M",
        **between(0, MAX_METRES, "metres"),
    )
    regularize: bool = option(
        False, "Make outlines right-angled where that hardly changes them", panel="Detection", hidden=True
    )
    only: tuple[str, ...] | None = option(
        None,
        "Report only changes of these classes, such as building,road",
        panel="Detection",
        metavar="CLASS,...",
        read=read_classes,
        allowed=f"of {', '.join(CLASSES)}",
        is_allowed=lambda names: names and set(names) <= set(CLASSES),
    )
    direction: Literal["appeared", "disappeared"] | None = option(
        None,
        "Report only what appeared or what disappeared",
        panel="Detection",
        **one_of(("appeared", "disappeared")),
    )
    ground: bool = option(
        True, "Write sentences from measured facts, or by the model's text decoder", panel="Words"
    )
    fast: bool = option(
        False, "Screen tiles with rscc-small and run the model only on candidates", panel="Detection"
    )
    memory: int | None = option(
        None,
        "Memory limit of the run, such as 2GB or 1500MB",
        hidden=True,
        metavar="SIZE",
        read=read_size,
        allowed="a size above 0 with its unit, such as 2GB or 1500MB",
        is_allowed=lambda size: 0 < size <= MAX_BYTES,
    )
    context: tuple[str, ...] = option(
        (),
        "Layer of areas, such as parcels.gpkg:permit_id; the result names those it overlaps; repeatable",
        panel="Input",
        place="none",
        metavar="FILE:COLUMN",
        read=tuple,
    )
    changes: Any = option(  # noqa: RUF009
        None,
        "Describe these changes instead of searching: polygons, or a mask of another detector",
        panel="Input",
        place="none",
        metavar="FILE",
        read=str,
    )
    keep_maps: Path | None = option(  # noqa: RUF009
        None,
        "Keep the maps of change probability and evidence, for rscc convert and explain",
        panel="Output",
        place="none",
        metavar="DIR",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frame != "before" and not self.align:
            raise OptionInvalid(f"frame is {self.frame}, but nothing is aligned; add --align")
        for text in (self.date_before, self.date_after):
            if text is not None:
                parse_date(text)

    @property
    def box(self) -> tuple[float, float, float, float] | None:
        """West, south, east and north of what is processed: ``bounds``, or the box around ``area``."""
        if self.bounds is not None or self.area is None:
            return self.bounds
        area = area_of(self.area)
        assert area is not None, "checked when it was set"
        return area.bounds

    def written(self, place: Place) -> dict[str, Any]:
        """Return the fields of ``place`` as plain values, in order."""
        values = {name: getattr(self, name) for name in self.names() if self.option(name).place == place}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def overlap_for(self, card: ModelCard) -> int:
        """Return the pixels that neighbouring tiles share: the option, else a quarter of the model's tile.

        Raises:
            OptionInvalid: the option is half of the model's tile or more.
        """
        overlap = card.tile_size // 4 if self.overlap is None else self.overlap
        if 2 * overlap >= card.tile_size:
            raise OptionInvalid(f"overlap is {overlap}; it must be below {card.tile_size // 2}, half a tile")
        return overlap

    def group_distance_for(self, gsd: float) -> float:
        """Return the metres up to which outlines are one change, at ``gsd`` metres per pixel."""
        if self.group_distance is None:
            return max(GROUP_DISTANCE, GROUP_PIXELS * gsd)
        return self.group_distance

    def smallest_outline_for(self, gsd: float) -> float:
        """Return the square metres of the smallest outline at ``gsd`` metres per pixel.

        ``min_area`` drops a change as a whole: its smaller outlines count like the others.
        """
        smallest = max(MIN_AREA, MIN_PIXELS * gsd**2)
        return smallest if self.min_area is None else min(smallest, self.min_area)

    def threshold_for(self, card: ModelCard) -> float:
        """Return the probability from which a pixel counts as changed: the option, else the model's."""
        return card.threshold if self.threshold is None else self.threshold


@dataclass(frozen=True)
class ExplainOptions(SceneOptions):
    """How a pair of scenes is read, and which crop of it is explained: by default the largest change.

    Attributes:
        bounds: box in which the largest change is looked for.
        at: longitude and latitude in degrees of the crop's centre.
        pixel: column and row of the crop's centre in the image before, from 0.
    """

    bounds: tuple[float, float, float, float] | None = SceneOptions.again(
        "bounds", "Explain the largest change in this box, in degrees"
    )
    at: tuple[float, float] | None = option(
        None,
        "Explain this place, in degrees of longitude and latitude",
        panel="Input",
        place="none",
        metavar="LON,LAT",
        read=numbers(float),
        allowed="longitude,latitude in degrees",
        is_allowed=lambda place: len(place) == 2 and abs(place[0]) <= 180 and abs(place[1]) <= 90,
    )
    pixel: tuple[int, int] | None = option(
        None,
        "Explain this pixel of BEFORE, counted from 0",
        panel="Input",
        place="none",
        flag="--window",
        metavar="COL,ROW",
        read=numbers(int),
        allowed=f"column,row of the image before, {MAX_PIXELS} at most",
        is_allowed=lambda place: len(place) == 2 and all(abs(number) <= MAX_PIXELS for number in place),
    )

    def __post_init__(self) -> None:
        if sum(place is not None for place in (self.bounds, self.at, self.pixel)) > 1:
            raise OptionInvalid("--bbox, --at and --window each choose the crop; give only one of them")
        super().__post_init__()
