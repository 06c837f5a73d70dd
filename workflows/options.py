"""The settings of one run over a pair of scenes, checked when they are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workflows.dates import parse_date
from workflows.errors import OptionInvalid

if TYPE_CHECKING:
    from rscc.weights import ModelCard


@dataclass(frozen=True)
class SceneOptions:
    """How a pair of scenes is read and what counts as a change.

    Attributes:
        bands: three band numbers from 1, shown to the model as red, green, blue; None takes the reader's.
        bounds: west, south, east, north in degrees of WGS84; None takes the whole intersection.
        gsd: metres per pixel to work at; None takes the model's.
        threshold: probability from which a pixel counts as changed, 0..1; None takes the model's.
        min_area: square metres; smaller polygons are left out.
        overlap: pixels that neighbouring tiles share, below half a tile; None takes a quarter.
        batch_size: tiles or crops that the model gets at once.
        beams: width of the caption search.
        simplify: tolerance in pixels when outlines are simplified.
        force: work on scenes that are coarser than the model is meant for.
        date_before, date_after: ISO dates (year, month or day); None looks into tags and file names.
    """

    bands: tuple[int, int, int] | None = None
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

    def __post_init__(self) -> None:
        for name, value, allowed, right in (
            (
                "threshold",
                self.threshold,
                "between 0 and 1",
                self.threshold is None or 0 < self.threshold < 1,
            ),
            ("gsd", self.gsd, "metres above 0", self.gsd is None or 0 < self.gsd < float("inf")),
            ("min-area", self.min_area, "square metres from 0", 0 <= self.min_area < float("inf")),
            ("overlap", self.overlap, "pixels from 0", self.overlap is None or self.overlap >= 0),
            ("batch-size", self.batch_size, "at least 1", self.batch_size >= 1),
            ("beams", self.beams, "at least 1", self.beams >= 1),
            ("simplify", self.simplify, "pixels from 0", 0 <= self.simplify < float("inf")),
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
