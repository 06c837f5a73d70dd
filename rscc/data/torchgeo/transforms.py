"""Random changes of samples that keep their captions true, by name in :data:`TRANSFORMS`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from rscc.data.augmentation import jitter_colour
from rscc.data.pairs import FLIPS, flip_words

Sample = dict[str, Any]


def flip(sample: Sample) -> Sample:
    """Flip both dates, the mask and the captions' words of direction, or leave them."""
    name = FLIPS[int(torch.randint(len(FLIPS), ()))]
    axes = [
        axis for axis, names in ((-1, ("horizontal", "both")), (-2, ("vertical", "both"))) if name in names
    ]
    turned = {key: sample[key].flip(axes) for key in ("image", "mask")}
    return {**sample, **turned, "caption": [flip_words(caption, name) for caption in sample["caption"]]}


def change_light(sample: Sample) -> Sample:
    """Change brightness, contrast and colours of each date by itself."""
    rng = np.random.default_rng(int(torch.randint(2**31, ())))
    dates = [jitter_colour(date.byte().numpy(), rng, 0.15) for date in sample["image"]]
    return {**sample, "image": torch.from_numpy(np.stack(dates)).float()}


TRANSFORMS: dict[str, Callable[[Sample], Sample]] = {"flip": flip, "light": change_light}


def change(sample: Sample, names: Sequence[str]) -> Sample:
    """Apply transforms by name, in order."""
    for name in names:
        sample = TRANSFORMS[name](sample)
    return sample
