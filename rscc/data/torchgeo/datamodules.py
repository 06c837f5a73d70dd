"""Data modules of captioned pairs for TorchGeo's and Lightning's trainers, with random changes of samples."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torchgeo.datamodules import NonGeoDataModule

from rscc.data.augmentation import jitter_colour
from rscc.data.pairs import FLIPS, flip_array, flip_words
from rscc.data.torchgeo import datasets
from rscc.data.torchgeo.datasets import CaptionedPairs, Sample, collate_pairs
from rscc.errors import ConfigInvalid
from rscc.settings import check_choice


def flip(sample: Sample) -> Sample:
    """Flip both dates, the mask and the captions' words of direction, or leave them."""
    name = FLIPS[int(torch.randint(len(FLIPS), ()))]
    flipped = {key: torch.from_numpy(flip_array(sample[key].numpy(), name)) for key in ("image", "mask")}
    return {**sample, **flipped, "caption": [flip_words(caption, name) for caption in sample["caption"]]}


def change_light(sample: Sample) -> Sample:
    """Change brightness, contrast and colours of each date by itself."""
    rng = np.random.default_rng(int(torch.randint(2**31, ())))
    dates = [jitter_colour(date.byte().numpy(), rng, 0.15) for date in sample["image"]]
    return {**sample, "image": torch.from_numpy(np.stack(dates)).float()}


TRANSFORMS: dict[str, Callable[[Sample], Sample]] = {"flip": flip, "light": change_light}
"""Random changes of samples that keep their captions true."""


def change(sample: Sample, names: Sequence[str]) -> Sample:
    """Apply transforms by name, in order."""
    for name in names:
        sample = TRANSFORMS[name](sample)
    return sample


class CaptionedDataModule(NonGeoDataModule):
    """Splits, loaders and augmentation of one benchmark.

    As in every data module of TorchGeo, images are divided by 255 when a batch reaches its device.

    Attributes:
        changes: names of the training transforms that keep its captions true.
    """

    pairs: ClassVar[type[CaptionedPairs]]
    changes: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        batch_size: int = 8,
        size: int | None = 256,
        num_workers: int = 0,
        augment: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """Prepare the loaders; nothing is read yet.

        Args:
            augment: names of :data:`~rscc.data.torchgeo.datamodules.TRANSFORMS`; None: :attr:`changes`.
            **kwargs: of the data set, such as ``root``.
        """
        super().__init__(self.pairs, batch_size, num_workers, size=size, **kwargs)
        self.augment = self.changes if augment is None else tuple(augment)
        for name in self.augment:
            check_choice("augment", name, TRANSFORMS)
        self.collate_fn = collate_pairs
        self.aug = _scaled

    def setup(self, stage: str) -> None:
        """Open the splits that a stage needs; only training pairs are augmented."""
        super().setup(stage)
        if stage == "fit":
            if self.train_dataset.transforms is not None:
                raise ConfigInvalid("give augment instead of transforms: validation pairs stay as they are")
            self.train_dataset.transforms = partial(change, names=self.augment)


def _scaled(batch: dict[str, Any]) -> dict[str, Any]:
    return {**batch, "image": batch["image"] / 255}


def _module(pairs: type[CaptionedPairs], *changes: str) -> type[CaptionedDataModule]:
    """Return the data module of a data set, whose captions stay true under these changes."""
    about = f"Loaders of :class:`~rscc.data.torchgeo.datasets.{pairs.__name__}`."
    fields = {"pairs": pairs, "changes": changes, "__doc__": about, "__module__": __name__}
    return type(f"{pairs.__name__}DataModule", (CaptionedDataModule,), fields)


LEVIRCCDataModule = _module(datasets.LEVIRCC, "flip", "light")
LEVIRCDCDataModule = _module(datasets.LEVIRCDC, "flip", "light")
WHUCDCDataModule = _module(datasets.WHUCDC, "flip", "light")
SECONDCCDataModule = _module(datasets.SECONDCC, "flip", "light")
ForestChangeDataModule = _module(datasets.ForestChange, "flip", "light")
DubaiCCDataModule = _module(datasets.DubaiCC, "flip", "light")
# Their sentences name sides in depth.
CLEVRChangeDataModule = _module(datasets.CLEVRChange, "light")
CLEVRDCDataModule = _module(datasets.CLEVRDC, "light")
# Left and right may mean the two frames.
SpotTheDiffDataModule = _module(datasets.SpotTheDiff, "light")
# Its sentences may ask for other colours.
ImageEditingRequestDataModule = _module(datasets.ImageEditingRequest)
