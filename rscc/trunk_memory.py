"""Features of single dates kept in files, so that a scene goes through the trunk once in all its pairs.

The trunk sees each date by itself, and the change head begins with a 1 x 1 convolution of each date. What
comes out of it, with the trunk's last map for the fact heads, is all that a pair needs of a date: with
rscc-base 19 bytes a pixel, in half precision. Files are named by a hash of the pixels. So a result never
depends on what is kept: a file that is missing or damaged is made again, and its values are those that the
first pass gave.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from rscc.captioner import Captioner
from rscc.files import atomic_write
from rscc.models.shared.change_detector import ChangeDetector, average_positions

ENDING = ".features"
_HWC = "hwc"
"""Begins the names of stored maps: their channels come last, as the heads read them, which saves a copy."""


@contextmanager
def remembering(captioner: Captioner, folder: Path) -> Iterator[None]:
    """Let a captioner with a change head read features of dates from a folder, and write those it lacks.

    Args:
        folder: created if it is not there; the files of each model and number format get their own folder in
            it. Only files that were made here may be in it.
    """
    kind = json.dumps([captioner.card.weights_sha256, captioner.int8, captioner.bf16, captioner.device.type])
    place = folder / hashlib.sha256(kind.encode()).hexdigest()[:16]
    place.mkdir(parents=True, exist_ok=True)
    detector = captioner.detector
    captioner.detector = RememberingDetector(detector, place)
    try:
        yield
    finally:
        captioner.detector = detector


class RememberingDetector(ChangeDetector):
    """A detector that keeps what it reads of a date."""

    def __init__(self, detector: ChangeDetector, folder: Path) -> None:
        super().__init__(backbone=detector.backbone, change_head=detector.change_head, pool=detector.pool)
        self._folder = folder

    def forward(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As :meth:`~rscc.models.shared.change_detector.ChangeDetector.forward`, with features in fp16."""
        (first, *early), (second, *late) = (
            [
                maps[0] if len(maps) == 1 else torch.cat(maps)
                for maps in zip(*map(self._features, date.split(1)), strict=True)
            ]
            for date in (before, after)
        )
        logits: Tensor = self.change_head.compare(early, late)  # type: ignore[operator]
        return first, second, logits

    def _features(self, image: Tensor) -> list[Tensor]:
        """Return the last map of one image (1, 3, H, W), and what the change head reads of it.

        One image at a time: the values may not depend on which others were missing.
        """
        pixels = image.cpu().numpy()
        name = hashlib.blake2b(pixels.tobytes(), digest_size=20, salt=bytes(str(pixels.shape[-1]), "ascii"))
        path = self._folder / f"{name.hexdigest()}{ENDING}"
        try:
            stored = load_file(path)
            found = [stored[f"{_HWC}{number}"].permute(0, 3, 1, 2) for number in range(len(stored))]
        except (OSError, SafetensorError, KeyError):
            maps = self.backbone(image)
            reduced: list[Tensor] = self.change_head.reduced(maps)  # type: ignore[operator]
            features = (average_positions(maps[-1], self.pool), *reduced)
            found = [(one if one.dtype is torch.uint8 else one.half()).cpu() for one in features]
            kept = {f"{_HWC}{n}": one.permute(0, 2, 3, 1).contiguous() for n, one in enumerate(found)}
            with atomic_write(path) as (draft,):
                save_file(kept, draft)
        return [_as_read(one).to(image.device) for one in found]


def _as_read(stored: Tensor) -> Tensor:
    """Return stored values as the heads read them, in one memory format, which decides the last bits."""
    numbers = stored if stored.dtype is torch.uint8 else stored.float()
    return numbers.contiguous(memory_format=torch.channels_last)
