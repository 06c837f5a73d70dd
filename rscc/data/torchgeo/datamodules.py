"""Data modules of captioned pairs for TorchGeo's and Lightning's trainers."""

from collections.abc import Sequence
from typing import Any, ClassVar

from torchgeo.datamodules import NonGeoDataModule

from rscc.data.torchgeo import datasets
from rscc.data.torchgeo.datasets import CaptionedPairs, collate_pairs
from rscc.data.torchgeo.transforms import TRANSFORMS, Transforms
from rscc.errors import ConfigInvalid
from rscc.settings import check_choice


class CaptionedDataModule(NonGeoDataModule):
    """Splits, loaders and augmentation of one benchmark.

    As in every data module of TorchGeo, images are divided by 255 when a batch reaches its device.

    Attributes:
        changes: names of the training transforms that keep its captions true.
    """

    pairs: ClassVar[type[CaptionedPairs]]
    changes: ClassVar[tuple[str, ...]] = ("flip", "light")

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
            augment: names of :data:`~rscc.data.torchgeo.transforms.TRANSFORMS`; None: :attr:`changes`.
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
            self.train_dataset.transforms = Transforms(self.augment)


def _scaled(batch: dict[str, Any]) -> dict[str, Any]:
    return {**batch, "image": batch["image"] / 255}


class LEVIRCCDataModule(CaptionedDataModule):
    """Of LEVIR-CC and LEVIR-MCI."""

    pairs = datasets.LEVIRCC


class LEVIRCDCDataModule(CaptionedDataModule):
    """Of LEVIR-CDC."""

    pairs = datasets.LEVIRCDC


class WHUCDCDataModule(CaptionedDataModule):
    """Of WHU-CDC."""

    pairs = datasets.WHUCDC


class SECONDCCDataModule(CaptionedDataModule):
    """Of SECOND-CC."""

    pairs = datasets.SECONDCC


class ForestChangeDataModule(CaptionedDataModule):
    """Of Forest-Change."""

    pairs = datasets.ForestChange


class DubaiCCDataModule(CaptionedDataModule):
    """Of Dubai-CC."""

    pairs = datasets.DubaiCC


class CLEVRChangeDataModule(CaptionedDataModule):
    """Of CLEVR-Change, whose sentences name sides in depth, so pairs are not flipped."""

    pairs = datasets.CLEVRChange
    changes = ("light",)


class CLEVRDCDataModule(CaptionedDataModule):
    """Of CLEVR-DC, which is not flipped either."""

    pairs = datasets.CLEVRDC
    changes = ("light",)


class SpotTheDiffDataModule(CaptionedDataModule):
    """Of Spot-the-Diff, where left and right may mean the two frames: it is not flipped."""

    pairs = datasets.SpotTheDiff
    changes = ("light",)


class ImageEditingRequestDataModule(CaptionedDataModule):
    """Of Image Editing Request, whose sentences may ask for other colours: it stays as it is."""

    pairs = datasets.ImageEditingRequest
    changes = ()
