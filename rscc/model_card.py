"""The card of a trained model, all that a report, a command or a user must know of it, and of a detector.

A detector is a change detector of another project that runs in place of the change head of a model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from rscc.config import MOST_BEAMS, MOST_TILE, SENTENCES
from rscc.errors import DetectorInvalid
from rscc.facts.calibration import Calibration, FlagCalibration
from rscc.settings import check, check_choice, check_sizes

# Sources of polygons, by the ``localiser`` of a card.
LOCALISATIONS = {
    "change_head": "change head trained on change masks",
    "attention": "attention of the caption's words (the decoder's cross-attention), not trained on masks",
    "difference": "difference of both dates, thresholded and clustered (DAVIR, Eq. 2), not trained on masks",
}


@dataclass(frozen=True)
class ModelCard:
    """Describes a trained model.

    Attributes:
        weights_sha256: of ``model.safetensors``.
        facts_sha256: of the fact heads; empty without them.
        familiarity_sha256: of the measure of familiar ground; empty without one.
        gsd: metres per pixel that scenes are resampled to.
        gsd_range: finest and coarsest native metres per pixel it is meant for.
        tile_size: side of its input in pixels.
        threshold: change probability from which a pixel is changed, chosen on the validation split.
        changed_threshold: P(anything changed) from which a tile is changed; 0 where it was not learnt.
        localisation: source of the polygons, in words.
        trained: command, machine and time.
        localiser: source of the polygons, a key of :data:`LOCALISATIONS`.
        parts: prefixes of the weights in a folder that holds a part of a model, from which training can
            start; empty for a whole model.
        calibration: maps P(changed) and caption scores to probabilities; None: they are used unchanged.
        support: see :class:`~rscc.config.CardConfig`.
        kinds: validation scores by kind of change, see :func:`rscc.evaluation.scoring.score_kinds`.
        sentences: source of the sentences without fact heads, a key of :data:`rscc.config.SENTENCES`.
        search_size: side in pixels of the tiles used for change maps of scenes; 0 is ``tile_size``. Larger
            tiles overlap less.
        position_size: side in pixels of a position of its features; sides of tiles are multiples of it.
        ranges: sizes of the activations of trunk and change head, for 8-bit integers, see
            :func:`rscc.models.int8.activation_ranges`; empty where they were not measured.
        detector: the network of another project that finds the changed pixels; None: the change head does.
    """

    name: str
    version: str
    description: str
    paper: str
    weights_sha256: str
    gsd: float
    gsd_range: tuple[float, ...]
    tile_size: int
    threshold: float
    changed_threshold: float
    localisation: str
    licence: str
    data: str
    trained: str
    limits: tuple[str, ...] = ()
    scores: dict[str, float] = field(default_factory=dict)
    localiser: str = "change_head"
    parts: tuple[str, ...] = ()
    calibration: Calibration | None = None
    support: int = 0
    kinds: dict[str, dict[str, float]] = field(default_factory=dict)
    cost: str = ""
    facts_sha256: str = ""
    familiarity_sha256: str = ""
    sentences: str = "decoder"
    search_size: int = 0
    position_size: int = 16
    ranges: dict[str, float] = field(default_factory=dict)
    detector: DetectorCard | None = None

    def __post_init__(self) -> None:
        check_choice("card.localiser", self.localiser, LOCALISATIONS)
        check_choice("card.sentences", self.sentences, SENTENCES)
        check_sizes(self, "card", support=(0, MOST_BEAMS))
        tile, searched, side = self.tile_size, self.search_size, self.position_size
        check(16 <= tile <= MOST_TILE, f"card.tile_size is {tile}; it must be 16 to {MOST_TILE} pixels")
        fits = searched == 0 or tile <= searched <= MOST_TILE
        check(fits, f"card.search_size must be {tile} to {MOST_TILE} pixels, or 0")
        whole = side >= 1 and tile % side == searched % side == 0
        check(whole, f"card.tile_size and card.search_size must be multiples of {side} pixels")
        low_high = len(self.gsd_range) == 2 and 0 < self.gsd_range[0] <= self.gsd_range[1] < math.inf
        metres = 0 < self.gsd < math.inf and low_high
        check(metres, "card.gsd and card.gsd_range must be metres above 0, the finer first")
        ranges = all(0 < most < math.inf for most in self.ranges.values())
        check(ranges, "card.ranges must be numbers above 0")
        shares = 0 <= self.threshold <= 1 and 0 <= self.changed_threshold < math.inf
        check(shares, "card.threshold must be in 0..1, card.changed_threshold a number from 0")

    @property
    def flag(self) -> FlagCalibration | None:
        """The calibration of P(changed), if there is one."""
        return None if self.calibration is None else self.calibration.changed


def with_detector(card: ModelCard, detector: DetectorCard) -> ModelCard:
    """Return the card of a model in which a detector runs.

    Raises:
        DetectorInvalid: it was trained at a resolution that the model does not serve.
    """
    low, high = card.gsd_range
    if detector.gsd and not low <= detector.gsd <= high:
        raise DetectorInvalid(
            f"{detector.file}: was trained at {detector.gsd:g} m per pixel, but {card.name} describes "
            f"{low:g} to {high:g} m; give another --model"
        )
    side = card.position_size
    searched = min(-(-max(detector.patch_size, card.tile_size) // side) * side, MOST_TILE // side * side)
    return replace(
        card,
        detector=detector,
        gsd=detector.gsd or card.gsd,
        threshold=detector.threshold,
        search_size=searched if detector.patch_size else card.search_size,
        localisation=f"{detector.name} of TorchGeo ({detector.file})",
    )


MOST_BANDS = 64


@dataclass(frozen=True)
class DetectorSettings:
    """The TOML file beside the weights of a detector; every key has a default.

    Attributes:
        bands: names or numbers of the bands whose file values it reads, in its order, such as ``["B02",
            "B03", "B04", "B08"]``. Empty: red, green and blue in 0..255, as our own models see them.
        mean, std: subtracted from the values, and what they are then divided by: one number, or one per band.
            Empty: 0, and 255 for red, green and blue, else 1.
        patch_size: side in pixels of the tiles it sees; 0: that of the data module in the checkpoint, else
            that of the model that it runs in.
        gsd: metres per pixel that it was trained at; 0: those of the model that it runs in.
        threshold: change probability from which a pixel is changed.
        changed: numbers of its classes or labels that are changes; empty: all but class 0, all labels.
        hyperparameters: of TorchGeo's change detection task, where the weights do not hold them, such as
            ``model`` and ``backbone``.
    """

    bands: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    patch_size: int = 0
    gsd: float = 0.0
    threshold: float = 0.5
    changed: tuple[int, ...] = ()
    hyperparameters: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.bands) or 3
        check(count <= MOST_BANDS, f"bands has {count} names; {MOST_BANDS} at most")
        for name in ("mean", "std"):
            numbers = len(getattr(self, name))
            check(numbers in (0, 1, count), f"{name} has {numbers} numbers; give one, or one for each band")
        check(all(value > 0 for value in self.std), "std must be above 0")
        check(0 < self.threshold < 1, f"threshold is {self.threshold}; it must be between 0 and 1")
        check(0 <= self.gsd < math.inf, f"gsd is {self.gsd}; it must be metres above 0")
        check(all(number >= 0 for number in self.changed), "changed must be numbers from 0")


@dataclass(frozen=True)
class DetectorCard:
    """Describes a detector in the card of the model that it runs in, and in run records.

    Attributes:
        bands, mean, std, patch_size, gsd, threshold, changed: see :class:`DetectorSettings`, with the
            defaults filled in.
        assumed: what neither the weights nor the TOML file say, one line each.
    """

    name: str
    file: str
    sha256: str
    bands: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    patch_size: int
    gsd: float
    threshold: float
    changed: tuple[int, ...]
    assumed: tuple[str, ...] = ()
