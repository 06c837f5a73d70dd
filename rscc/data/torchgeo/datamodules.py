"""Data modules of captioned pairs for TorchGeo's and Lightning's trainers."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from torchgeo.datamodules import NonGeoDataModule

from rscc.data.torchgeo import datasets
from rscc.data.torchgeo.datasets import CaptionedPairs, collate_pairs
from rscc.data.torchgeo.transforms import TRANSFORMS, change
from rscc.errors import ConfigInvalid
from rscc.settings import check_choice


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
