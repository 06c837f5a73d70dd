"""The one list of options of a run over a pair of scenes; values are checked when they are set.

Each field carries what the commands, the run record and the key of an archive need to know of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from rscc.config import MOST_BEAMS
from workflows.dates import parse_date
from workflows.errors import OptionInvalid
from workflows.option import Options, Place, option

if TYPE_CHECKING:
    from rscc.model_folder import ModelCard
    from tiling import Access


FocusWay = Literal["mask", "others", "weight", "zoom", "none"]
FOCUS_WAYS: tuple[str, ...] = get_args(FocusWay)
"""Ways, the best first.

* ``mask``: all but this change and its surroundings looks in AFTER as it did in BEFORE;
* ``others``: the other known changes look in AFTER as they did in BEFORE;
* ``weight``: the images stay; the model's differences are weighed down outside the surroundings;
* ``zoom``: a tighter crop, enlarged;
* ``none``: the plain crop.
"""


Frame = Literal["before", "after"]
FRAMES: tuple[str, ...] = get_args(Frame)

EVENT_DISTANCE = 28.0
"""Metres between outlines up to which they are one change; fitted by ``benchmarks/event_distance.py``.

It reaches over a street with its front gardens, so that both sides of it are one estate.
"""
EVENT_PIXELS = 2
"""Working pixels that outlines may be apart at least: a coarse grid draws no narrower gap for certain."""

LEAST_AREA = 20.0
"""Square metres of the smallest polygon."""
LEAST_PIXELS = 8
"""Working pixels of the smallest polygon: rscc-medium was shown no smaller change."""

REFLECTANCE = "reflectance"
# A name or IPv4 address, or one of IPv6 in brackets.
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?", re.ASCII | re.IGNORECASE)

# The largest values that mean anything: farther than around the Earth, larger than all of it, more bands,
# pixels or tiles than any scene has.
MOST_METRES = 4e7
MOST_SQUARE_METRES = 5.2e14
MOST_BANDS = 65_535
MOST_PIXELS = 2**31 - 1
MOST_AT_ONCE = 4096
MOST_BYTES = 2**60
# Of pixel values, whatever the type.
MOST_VALUE = 1e12


@dataclass(frozen=True)
class ServerOptions(Options):
    """Which servers may be asked for what is read.

    Attributes:
        offline: none at all.
        allow_hosts: None: the user named what is read, any may be. Else a table, catalog or report did, and
            besides those of the public network only these hosts may be: ``host`` or ``host:port``.
    """

    offline: bool = option(False, "Open no address at all; what is on a server is refused.", place="none")
    allow_hosts: tuple[str, ...] | None = option(
        None,
        "Addresses of a table, catalog or report may lead to this host of a private network; repeatable.",
        place="none",
        flag="--allow-host",
        metavar="HOST",
        allowed="hosts, each perhaps with a port: HOST or HOST:PORT",
        is_allowed=lambda hosts: all(_HOST.fullmatch(host) for host in hosts),
    )

    @property
    def access(self) -> Access:
        """Which servers may be asked, as :func:`tiling.describe` takes it."""
        from tiling import Access

        return Access(self.offline, self.allow_hosts)

    def for_others(self) -> Self:
        """Return the options for what somebody else named: a table, a catalog, a report."""
        return replace(self, allow_hosts=self.allow_hosts or ())


MADE_BY = ("threshold", "min_area", "group_distance")
"""Settings that changes can be made anew with from the change probability that was kept."""
_DATE_HELP = "2019, 2019-08 or 2019-08-31; default: from tags or file name."


@dataclass(frozen=True)
class SceneOptions(ServerOptions):
    """How a pair of scenes is read and what counts as a change.

    Attributes:
        bands: three bands shown to the model as red, green, blue: numbers from 1 or names; None takes the
            reader's.
        band_names: what the bands of both scenes show, in their order, in place of the names in the files;
            None leaves those.
        bounds: west, south, east, north in degrees of WGS84; None takes the whole intersection.
        gsd: metres per pixel to work at; None takes the model's.
        threshold: probability from which a pixel counts as changed, 0..1; None takes the model's.
        min_area: square metres; smaller changes are left out. None takes :data:`LEAST_AREA`, or
            :data:`LEAST_PIXELS` where those are more.
        overlap: pixels that neighbouring tiles share, below half of the model's tile; None takes a
            quarter of that.
        batch_size: tiles or crops that the model gets at once.
        beams: width of the caption search, 1 to 20.
        simplify: tolerance in pixels when outlines are simplified.
        force: work on scenes that are coarser than the model is meant for.
        date_before, date_after: ISO dates (year, month or day); None looks into tags and file names.
        scale: pixel values that are shown as 0 and 255, or ``reflectance`` for the sensor's own scale; None
            stretches both dates alike.
        normalize: bring the light of the scene after to that of the scene before.
        align: move the scene after onto the scene before by the shift that was measured.
        frame: with ``align``, the scene that stays where it is: outlines lie as it shows the ground.
        group_distance: metres; outlines at most so far apart are one change event. None takes
            :data:`EVENT_DISTANCE`; 0 gives each outline alone.
        regularize: give outlines right angles where that hardly changes them.
        refine: name or folder of a promptable segmenter that redraws the outlines; None leaves them.
        focus_captions: how the words are kept to their change where several share a crop; one of
            :data:`workflows.options.FOCUS_WAYS`.
        ground: make sentences of measured facts where the model tells them; without, its decoder speaks for
            itself.
        fast: let a small model look first, and the model asked for only at tiles that it does not rule out.
        memory: bytes that the run may hold; None sets no cap.
        tile_cache: folder that finished tiles are kept in, so that a killed run goes on; None keeps none.
        offline, allow_hosts: see :class:`ServerOptions`.
    """

    bands: tuple[int | str, int | str, int | str] | None = option(
        None,
        "Bands shown to the model: numbers from 1 or names (3,2,1; B04,B03,B02).",
        metavar="R,G,B",
        allowed="three band numbers from 1 or band names",
        is_allowed=lambda bands: (
            len(bands) == 3
            and all(band.strip() if isinstance(band, str) else 1 <= band <= MOST_BANDS for band in bands)
        ),
    )
    band_names: tuple[str, ...] | None = option(
        None,
        "What the bands of both scenes show, in order (swir16,nir,red,green), where the files do not say.",
        metavar="NAME,...",
        allowed="names separated by commas",
        is_allowed=lambda names: names and all(name.strip() for name in names),
    )
    bounds: tuple[float, float, float, float] | None = option(
        None,
        "Only this box, in degrees of longitude and latitude.",
        flag="--bbox",
        metavar="W,S,E,N",
        allowed="west, south, east, north in degrees",
        # Whether they make a box is known where it is used.
        is_allowed=lambda box: all(abs(value) <= 360 for value in box),
    )
    gsd: float | None = option(
        None,
        "Metres per pixel to work at; default: the model's.",
        allowed=f"metres above 0, {MOST_METRES:g} at most",
        is_allowed=lambda gsd: 0 < gsd <= MOST_METRES,
    )
    threshold: float | None = option(
        None,
        "Probability from which a pixel is changed; default: the model's.",
        allowed="between 0 and 1",
        is_allowed=lambda threshold: 0 < threshold < 1,
    )
    min_area: float | None = option(
        None,
        f"Leave out changes smaller than this, in square metres; default: {LEAST_AREA:g}, or "
        f"{LEAST_PIXELS} pixels of a coarse grid.",
        metavar="M2",
        allowed=f"square metres, 0 to {MOST_SQUARE_METRES:g}",
        is_allowed=lambda area: 0 <= area <= MOST_SQUARE_METRES,
    )
    overlap: int | None = option(
        None,
        place="overlap",
        allowed=f"pixels, 0 to {MOST_PIXELS}",
        is_allowed=lambda overlap: 0 <= overlap <= MOST_PIXELS,
    )
    batch_size: int = option(
        16,
        "Tiles given to the model at once.",
        allowed=f"1 to {MOST_AT_ONCE}",
        is_allowed=lambda size: 1 <= size <= MOST_AT_ONCE,
    )
    beams: int = option(
        3,
        "Width of the caption search, 1 to 20.",
        allowed=f"1 to {MOST_BEAMS}",
        is_allowed=lambda beams: 1 <= beams <= MOST_BEAMS,
    )
    simplify: float = option(
        1.0,
        allowed=f"pixels, 0 to {MOST_PIXELS}",
        is_allowed=lambda pixels: 0 <= pixels <= MOST_PIXELS,
    )
    force: bool = option(False, "Work on scenes that are coarser than the model is meant for.")
    date_before: str | None = option(None, _DATE_HELP, place="dates", metavar="DATE")
    date_after: str | None = option(None, _DATE_HELP, place="dates", metavar="DATE")
    scale: tuple[float, float] | Literal["reflectance"] | None = option(
        None,
        "Pixel values shown as black and white, or the word reflectance; default: fitted on both dates.",
        metavar="LOW,HIGH",
        allowed=f"two rising numbers within {MOST_VALUE:g} of 0, or {REFLECTANCE!r}",
        is_allowed=lambda scale: (
            scale == REFLECTANCE
            if isinstance(scale, str)
            else len(scale) == 2 and -MOST_VALUE <= scale[0] < scale[1] <= MOST_VALUE
        ),
    )
    normalize: bool = option(False, "Bring the light of AFTER to that of BEFORE, judged by unchanged pixels.")
    align: bool = option(
        False, "Move AFTER onto BEFORE by the shift measured between them; outlines lie as BEFORE shows them."
    )
    frame: Frame = option(  # noqa: RUF009
        "before",
        "With --align: the scene that stays in its place, and on which the outlines lie.",
        allowed=" or ".join(FRAMES),
        is_allowed=lambda frame: frame in FRAMES,
    )
    group_distance: float | None = option(
        None,
        f"Outlines at most so many metres apart are one change; 0: each alone; default: {EVENT_DISTANCE:g}.",
        metavar="M",
        allowed=f"metres, 0 to {MOST_METRES:g}",
        is_allowed=lambda metres: 0 <= metres <= MOST_METRES,
    )
    regularize: bool = option(False, "Give outlines right angles where that hardly changes them.")
    refine: str | None = option(
        None,
        "Redraw outlines by a segmenter: sam:FOLDER or mobile_sam:FILE.",
        metavar="SEGMENTER",
        allowed="the name or folder of a segmenter",
        is_allowed=bool,
    )
    focus_captions: FocusWay = option(  # noqa: RUF009
        "mask",
        "How words keep to their polygon where several changes share a crop.",
        allowed=" or ".join(FOCUS_WAYS),
        is_allowed=lambda way: way in FOCUS_WAYS,
    )
    ground: bool = option(
        True,
        "Make sentences of measured facts, or let the model's decoder speak for itself.",
    )
    fast: bool = option(
        False, "Let rscc-small look first, and the model only at tiles that it does not rule out."
    )
    memory: int | None = option(
        None,
        "Memory that the run may take, such as 2GB or 1500MB.",
        metavar="SIZE",
        allowed="bytes above 0, 1 EiB at most",
        is_allowed=lambda size: 0 < size <= MOST_BYTES,
    )
    tile_cache: Path | None = option(  # noqa: RUF009
        None, "Keep finished tiles here, so that a killed run goes on.", place="none", metavar="DIR"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frame != "before" and not self.align:
            raise OptionInvalid(f"frame is {self.frame}: without align no scene is moved; give --align, too")
        for text in self.written("dates").values():
            if text is not None:
                parse_date(text)

    def written(self, place: Place) -> dict[str, Any]:
        """Return the fields that belong to ``place`` as plain values, in order."""
        values = {name: getattr(self, name) for name in self.names() if self.option(name).place == place}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def overlap_for(self, card: ModelCard) -> int:
        """Return the pixels that neighbouring tiles share: the option, else a quarter of the model's tile.

        Raises:
            OptionInvalid: the option is not below half of the model's tile.
        """
        overlap = card.tile_size // 4 if self.overlap is None else self.overlap
        if 2 * overlap >= card.tile_size:
            raise OptionInvalid(
                f"overlap is {overlap}; it must be below half of the model's tile of {card.tile_size}"
            )
        return overlap

    def group_distance_for(self, gsd: float) -> float:
        """Return the metres between outlines up to which they are one change, at ``gsd`` metres per pixel."""
        if self.group_distance is None:
            return max(EVENT_DISTANCE, EVENT_PIXELS * gsd)
        return self.group_distance

    def least_outline_for(self, gsd: float) -> float:
        """Return the square metres that an outline has at least, at ``gsd`` metres per pixel.

        A change is left out by ``min_area`` as a whole: its smaller outlines are counted like the others.
        """
        least = max(LEAST_AREA, LEAST_PIXELS * gsd**2)
        return least if self.min_area is None else min(least, self.min_area)

    def threshold_for(self, card: ModelCard) -> float:
        """Return the probability from which a pixel counts as changed: the option, else the model's own."""
        return card.threshold if self.threshold is None else self.threshold


@dataclass(frozen=True)
class ExplainOptions(SceneOptions):
    """How a pair of scenes is read and which crop is explained; without a place, that of the largest change.

    Attributes:
        bounds: the box in which the largest change is looked for.
        at: longitude and latitude in degrees that the crop is centred on.
        pixel: column and row of the image before, from 0, that the crop is centred on.
    """

    bounds: tuple[float, float, float, float] | None = SceneOptions.again(
        "bounds", "Take the largest change in this box, in degrees."
    )
    at: tuple[float, float] | None = option(
        None,
        "Look at this place, in degrees.",
        place="none",
        metavar="LON,LAT",
        allowed="longitude,latitude in degrees",
        is_allowed=lambda place: abs(place[0]) <= 180 and abs(place[1]) <= 90,
    )
    pixel: tuple[int, int] | None = option(
        None,
        "Look at this pixel of BEFORE, counted from 0.",
        place="none",
        flag="--window",
        metavar="COL,ROW",
        allowed=f"a column and a row, {MOST_PIXELS} at most",
        is_allowed=lambda place: all(abs(number) <= MOST_PIXELS for number in place),
    )

    def __post_init__(self) -> None:
        if sum(place is not None for place in (self.bounds, self.at, self.pixel)) > 1:
            raise OptionInvalid("bbox, at and window each say where to look; give one of them")
        super().__post_init__()
