"""The settings of one run over a pair of scenes, checked when they are made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rscc.config import MOST_BEAMS
from workflows.dates import parse_date
from workflows.errors import OptionInvalid
from workflows.focus import FOCUS_WAYS

if TYPE_CHECKING:
    from rscc.weights import ModelCard

REFLECTANCE = "reflectance"
INFINITE = float("inf")


@dataclass(frozen=True)
class SceneOptions:
    """How a pair of scenes is read and what counts as a change.

    Attributes:
        bands: three bands shown to the model as red, green, blue: numbers from 1 or names; None takes the
            reader's.
        bounds: west, south, east, north in degrees of WGS84; None takes the whole intersection.
        gsd: metres per pixel to work at; None takes the model's.
        threshold: probability from which a pixel counts as changed, 0..1; None takes the model's.
        min_area: square metres; smaller polygons are left out.
        overlap: pixels that neighbouring tiles share, below half a tile; None takes a quarter.
        batch_size: tiles or crops that the model gets at once.
        beams: width of the caption search, 1 to 20.
        simplify: tolerance in pixels when outlines are simplified.
        force: work on scenes that are coarser than the model is meant for.
        date_before, date_after: ISO dates (year, month or day); None looks into tags and file names.
        scale: pixel values that are shown as 0 and 255, or ``reflectance`` for the sensor's own scale; None
            stretches both dates alike.
        normalize: bring the light of the scene after to that of the scene before.
        align: move the scene after onto the scene before by the shift that was measured.
        group_distance: metres; changes whose outlines are at most so far apart are one change event. 0: off.
        regularize: give outlines right angles where that hardly changes them.
        refine: name or folder of a promptable segmenter that redraws the outlines; None leaves them.
        focus_captions: how the words are kept to their change where several share a crop; one of
            :data:`workflows.focus.FOCUS_WAYS`.
        memory: bytes that the run may hold; None sets no cap.
        tile_cache: folder that finished tiles are kept in, so that a killed run goes on; None keeps none.
    """

    bands: tuple[int | str, int | str, int | str] | None = None
    bounds: tuple[float, float, float, float] | None = None
    gsd: float | None = None
    threshold: float | None = None
    min_area: float = 20.0
    overlap: int | None = None
    batch_size: int = 16
    beams: int = 3
    simplify: float = 1.0
    force: bool = False
    date_before: str | None = None
    date_after: str | None = None
    scale: tuple[float, float] | Literal["reflectance"] | None = None
    normalize: bool = False
    align: bool = False
    group_distance: float = 0.0
    regularize: bool = False
    refine: str | None = None
    focus_captions: str = "mask"
    memory: int | None = None
    tile_cache: Path | None = None

    def __post_init__(self) -> None:
        for name, value, allowed, right in (
            (
                "threshold",
                self.threshold,
                "between 0 and 1",
                self.threshold is None or 0 < self.threshold < 1,
            ),
            ("gsd", self.gsd, "metres above 0", self.gsd is None or 0 < self.gsd < INFINITE),
            ("min-area", self.min_area, "square metres from 0", 0 <= self.min_area < INFINITE),
            ("overlap", self.overlap, "pixels from 0", self.overlap is None or self.overlap >= 0),
            ("batch-size", self.batch_size, "at least 1", self.batch_size >= 1),
            ("beams", self.beams, f"1 to {MOST_BEAMS}", 1 <= self.beams <= MOST_BEAMS),
            ("simplify", self.simplify, "pixels from 0", 0 <= self.simplify < INFINITE),
            ("bands", self.bands, "three band numbers from 1 or band names", _bands_right(self.bands)),
            ("scale", self.scale, f"two rising numbers or {REFLECTANCE!r}", _scale_right(self.scale)),
            ("group-distance", self.group_distance, "metres from 0", 0 <= self.group_distance < INFINITE),
            ("refine", self.refine, "the name or folder of a segmenter", self.refine != ""),
            (
                "focus-captions",
                self.focus_captions,
                " or ".join(FOCUS_WAYS),
                self.focus_captions in FOCUS_WAYS,
            ),
            ("memory", self.memory, "bytes above 0", self.memory is None or self.memory > 0),
        ):
            if not right:
                raise OptionInvalid(f"{name} is {value}; it must be {allowed}")
        for text in (self.date_before, self.date_after):
            if text is not None:
                parse_date(text)

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

    def threshold_for(self, card: ModelCard) -> float:
        """Return the probability from which a pixel counts as changed: the option, else the model's own."""
        return card.threshold if self.threshold is None else self.threshold


def _bands_right(bands: tuple[int | str, ...] | None) -> bool:
    if bands is None:
        return True
    return len(bands) == 3 and all(band.strip() if isinstance(band, str) else band >= 1 for band in bands)


def _scale_right(scale: tuple[float, float] | str | None) -> bool:
    if scale is None or isinstance(scale, str):
        return scale in (None, REFLECTANCE)
    return len(scale) == 2 and -INFINITE < scale[0] < scale[1] < INFINITE
