"""Captioned pairs as data sets of TorchGeo, with one dict a sample."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import Tensor
from torchgeo.datasets import NonGeoDataset

from rscc.data.benchmarks import clevr, dubai_cc, image_editing_request, levir_cc, spot_the_diff
from rscc.data.benchmarks.annotations import Benchmark
from rscc.data.pairs import PairSample, read_pair, resize_sample, truly_changed

Sample = dict[str, Any]
UNKNOWN = 255
"""Value of a mask where it is not known whether a pixel changed; give it to a task as ``ignore_index``."""


class CaptionedPairs(NonGeoDataset):
    """The pairs of one split of a benchmark.

    A sample has ``image``, (2, 3, H, W) float32 in 0..255, the date before first; ``mask``, (1, H, W) int64:
    1 where changed, :data:`UNKNOWN` everywhere in a changed pair without a mask; ``caption``, all its
    references, a list of str; ``changed``, () float32 in {0, 1}; and ``id``, a str.
    """

    reader: ClassVar[Benchmark]

    def __init__(
        self,
        root: str | Path = "data",
        split: str = "train",
        transforms: Callable[[Sample], Sample] | None = None,
        size: int | None = None,
    ) -> None:
        """Read the annotations, no images.

        Args:
            root: folder of the data set in its official layout.
            size: side that pairs are resized to; None keeps them, and pairs of a batch must have one size.
        """
        self.root, self.split, self.transforms, self.size = Path(root), split, transforms, size
        self.records = self.reader(root, split)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Sample:
        pair = read_pair(self.records[index])
        sample = sample_of(
            pair if self.size is None else resize_sample(pair, self.size), truly_changed(self.records[index])
        )
        return sample if self.transforms is None else self.transforms(sample)

    def plot(
        self, sample: Mapping[str, Any], show_titles: bool = True, suptitle: str | None = None
    ) -> Figure:
        """Draw both dates, the mask, and ``prediction`` where the sample has one, over its first caption."""
        before, after = (date.permute(1, 2, 0).clamp(0, 255).byte() for date in sample["image"])
        panels = {"Before": before, "After": after, "Mask": sample["mask"].squeeze(0)}
        if "prediction" in sample:
            panels["Prediction"] = sample["prediction"].squeeze(0)
        figure, axes = pyplot.subplots(1, len(panels), figsize=(4 * len(panels), 4.5), squeeze=False)
        for axis, (title, panel) in zip(axes[0], panels.items(), strict=True):
            axis.imshow(panel, cmap="gray", vmin=0, vmax=1)
            axis.axis("off")
            if show_titles:
                axis.set_title(title)
        figure.suptitle(suptitle or next(iter(sample["caption"]), ""))
        return figure


def sample_of(pair: PairSample, changed: bool) -> Sample:
    """Return a pair as a sample, see :class:`CaptionedPairs`."""
    mask = pair.mask
    if mask is None:
        mask = np.full(pair.before.shape[1:], UNKNOWN if changed else 0)
    return {
        "image": torch.from_numpy(np.stack([pair.before, pair.after])).float(),
        "mask": torch.from_numpy(mask.astype(np.int64))[None],
        "caption": list(pair.captions),
        "changed": torch.tensor(float(changed)),
        "id": pair.id,
    }


def collate_pairs(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return a batch: tensors are stacked, the captions of each pair stay a list of their own."""
    columns = {name: [sample[name] for sample in samples] for name in samples[0]}
    return {
        name: torch.stack(values) if isinstance(values[0], Tensor) else values
        for name, values in columns.items()
    }


def _pairs(name: str, reader: Benchmark) -> type[CaptionedPairs]:
    """Return the data set of a benchmark; by its name and module it can be sent to other processes."""
    about = f"Captioned pairs of {reader.title}, see :class:`CaptionedPairs`."
    return type(name, (CaptionedPairs,), {"reader": reader, "__doc__": about, "__module__": __name__})


LEVIRCC = _pairs("LEVIRCC", levir_cc.LevirCC)
LEVIRCDC = _pairs("LEVIRCDC", levir_cc.LevirCDC)
WHUCDC = _pairs("WHUCDC", levir_cc.WhuCDC)
SECONDCC = _pairs("SECONDCC", levir_cc.SecondCC)
ForestChange = _pairs("ForestChange", levir_cc.ForestChange)
DubaiCC = _pairs("DubaiCC", dubai_cc.DubaiCC)
CLEVRChange = _pairs("CLEVRChange", clevr.ClevrChange)
CLEVRDC = _pairs("CLEVRDC", clevr.ClevrDC)
SpotTheDiff = _pairs("SpotTheDiff", spot_the_diff.SpotTheDiff)
ImageEditingRequest = _pairs("ImageEditingRequest", image_editing_request.ImageEditingRequest)
