"""What is known of a change detector of another project that runs in place of a model's change head."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from rscc.settings import check

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
