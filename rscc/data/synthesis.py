"""Pairs with captions that nobody wrote, made from imagery with masks, in the layout of LEVIR-CC.

Three things are made: crops of pairs whose building changes are known by a mask, with sentences of
:mod:`rscc.data.grammar`; pairs of which one date is the other one disturbed, which are unchanged for certain;
and buildings put into or taken out of a place (:mod:`rscc.data.blending`). Only training splits are read.
Every pair is a function of (seed, kind, number) alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy import ndimage

from rscc.data.augmentation import DISTURBANCES, jitter_colour, random_crop, shift_image
from rscc.data.grammar import Grammar, describe_mask
from rscc.data.pairs import PairRecord, PairSample, flip_array, read_pair, read_rgb
from rscc.data.synthesis_sources import Sources
from rscc.errors import DatasetLayoutInvalid
from rscc.metrics import NO_CHANGE_SENTENCES

SIZE = 256
GSD = 0.5
"""Side of a pair in pixels, and metres per pixel."""
ALIKE = 20.0
"""Most difference (see :func:`difference`) of a pair that is called unchanged.

Of the training pairs of LEVIR-CC without a building change that stay below it, 98.5 percent (195 of 198)
are called unchanged by their captions; of all without a building change it is 86 percent (477 of 552).
"""
LEAST_CHANGE = 250
"""Least number of changed pixels (62 m2) of a crop that is called changed; less does not catch the eye."""
TRIES = 40


@dataclass(frozen=True)
class SynthesisOptions:
    """How many pairs of each kind to make.

    Attributes:
        crops: crops of pairs with change masks.
        unchanged: one date and the same date disturbed.
        insertions, removals: buildings put into and taken out of a place.
        swap: share of the changed crops of which the dates are swapped, so that buildings disappear.
        alike: greatest share of the crops without any change.
        seed: the same seed gives the same folder.
    """

    crops: int = 600
    unchanged: int = 300
    insertions: int = 250
    removals: int = 100
    swap: float = 0.3
    alike: float = 0.15
    seed: int = 0


@dataclass(frozen=True)
class MadePair:
    """One pair with its captions, and where it comes from.

    Attributes:
        sample: images, mask of the buildings that changed, captions and flag.
        kind: ``crop``, ``crop_reversed``, ``crop_alike``, ``unchanged``, ``insertion`` or ``removal``.
        sources: names of the images it is made from.
    """

    sample: PairSample
    kind: str
    sources: tuple[str, ...]


def difference(before: np.ndarray, after: np.ndarray) -> float:
    """Return how much two dates differ beyond light and exposure, in grey values (0..255).

    Both are blurred by 3 pixels, so that registration and sharpness count little, and each is explained by
    the other through one straight line; the result is the greatest mean residual of a block of 32 x 32
    pixels, in the direction that leaves more.

    Args:
        before, after: (3, H, W) uint8.
    """
    grey = [ndimage.gaussian_filter(image.astype(np.float32).mean(0), 3) for image in (before, after)]
    return max(_unexplained(*grey), _unexplained(*reversed(grey)))


def _unexplained(first: np.ndarray, second: np.ndarray) -> float:
    """Return the greatest block mean of what a straight line of ``first`` does not explain of ``second``."""
    off, aim = first - first.mean(), second - second.mean()
    slope = float((off * aim).mean()) / max(float((off**2).mean()), 1e-6)
    blocks = np.abs(aim - slope * off)
    height, width = (max(1, side // 32) for side in blocks.shape)
    rows = np.array_split(blocks, height)
    return max(float(block.mean()) for row in rows for block in np.array_split(row, width, axis=1))


def match_colours(image: np.ndarray, model: np.ndarray) -> np.ndarray:
    """Give each channel of an image (3, H, W) uint8 the mean and spread it has in another one."""
    x, y = image.astype(np.float32), model.astype(np.float32)
    mean, spread = x.mean((1, 2), keepdims=True), x.std((1, 2), keepdims=True)
    aim, aim_spread = y.mean((1, 2), keepdims=True), y.std((1, 2), keepdims=True)
    # A flat image has no contrast to be stretched: noise and compression would come out.
    gain = np.clip(aim_spread / np.maximum(spread, 1), 0.5, 2)
    return np.clip(np.rint((x - mean) * gain + aim), 0, 255).astype(np.uint8)


def turn(array: np.ndarray, number: int) -> np.ndarray:
    """Turn an array (..., H, W) into one of its eight positions, ``number`` 0..7."""
    turned = np.rot90(array, number % 4, (-2, -1))
    return flip_array(turned, "horizontal" if number >= 4 else "none")


def _turned(sample: PairSample, number: int) -> PairSample:
    return replace(
        sample,
        before=turn(sample.before, number),
        after=turn(sample.after, number),
        mask=None if sample.mask is None else turn(sample.mask, number),
    )


class Synthesis:
    """Makes pairs; each method gives one pair, or None when the place drawn does not serve."""

    def __init__(self, sources: Sources, grammar: Grammar, options: SynthesisOptions):
        self.sources, self.grammar, self.options = sources, grammar, options
        # A large pair is drawn often, and decoding it takes longer than all that is done with its crop.
        self._read = lru_cache(maxsize=128)(read_pair)

    def pairs(self) -> Iterator[MadePair]:
        """Yield all pairs, kind after kind.

        Raises:
            DatasetLayoutInvalid: the sources lack what a kind needs, or too few places serve.
        """
        options = self.options
        made: list[tuple[str, int, Callable[[np.random.Generator, bool], MadePair | None]]] = [
            ("crops", options.crops, self.crop),
            ("unchanged", options.unchanged, self.unchanged),
        ]
        for place, (name, number, make) in enumerate(made):
            yield from self._several(name, number, place, make)

    def _several(
        self,
        name: str,
        number: int,
        place: int,
        make: Callable[[np.random.Generator, bool], MadePair | None],
    ) -> Iterator[MadePair]:
        alike = 0
        for i in range(number):
            for attempt in range(TRIES):
                rng = np.random.default_rng((self.options.seed, place, i, attempt))
                pair = make(rng, alike < self.options.alike * number)
                if pair is not None:
                    break
            else:
                raise DatasetLayoutInvalid(
                    f"{name}: {TRIES} places in turn do not serve for pair {i + 1}; ask for fewer, or give "
                    "imagery with more changes"
                )
            alike += pair.kind == "crop_alike"
            yield pair

    def crop(self, rng: np.random.Generator, alike: bool = True) -> MadePair | None:
        """Cut a square out of a pair with a change mask and say what the mask shows.

        Args:
            rng: the only source of chance.
            alike: whether a crop without any change may be given.
        """
        record = self.sources.draw_pair(rng)
        sample = _turned(_crop(self._read(record), record, rng), int(rng.integers(8)))
        natural = self.sources.natural(record)
        if not natural:
            model = self.sources.draw_natural(rng)
            if model is not None:
                seen = self._read(model)
                sample = replace(
                    sample,
                    before=match_colours(sample.before, seen.before),
                    after=match_colours(sample.after, seen.after),
                )
        assert sample.mask is not None
        buildings = describe_mask(sample.mask)
        if buildings.count == 0:
            # A corner of a building is neither worth a word nor no change.
            # What counts as alike was measured on colours as they were taken.
            known = alike and natural and not sample.mask.any()
            if not known or difference(sample.before, sample.after) > ALIKE:
                return None
            return MadePair(_unchanged(sample), "crop_alike", (record.id,))
        if sum(buildings.areas) < LEAST_CHANGE:
            return None
        removed = self.grammar.can_remove() and rng.random() < self.options.swap
        if removed:
            sample = replace(sample, before=sample.after, after=sample.before)
        captions = self.grammar.sentences(buildings, rng, removed=removed)
        sample = replace(sample, captions=captions, changed=True)
        return MadePair(sample, "crop_reversed" if removed else "crop", (record.id,))

    def unchanged(self, rng: np.random.Generator, _: bool = True) -> MadePair | None:
        """Show one date of a place and the same date disturbed."""
        record, gsd = self.sources.draw_scene(rng)
        image = read_rgb(record)
        side = round(SIZE * GSD / gsd)
        empty = np.zeros(image.shape[1:], bool)
        sample = random_crop(PairSample(record.name, image, image, empty, (), False), side, SIZE, rng)
        sample = _turned(sample, int(rng.integers(8)))
        first = sample.before
        after = disturb_scene(first, rng)
        before = DISTURBANCES["jpeg"](first, rng, 0.3) if rng.random() < 0.3 else first
        if rng.random() < 0.5:
            before, after = after, before
        return MadePair(_unchanged(replace(sample, before=before, after=after)), "unchanged", (record.name,))


def _unchanged(sample: PairSample) -> PairSample:
    return replace(sample, captions=NO_CHANGE_SENTENCES, changed=False)


def _crop(sample: PairSample, record: PairRecord, rng: np.random.Generator) -> PairSample:
    """Cut a square of :data:`SIZE` pixels at about :data:`GSD`; small images are taken whole."""
    return random_crop(sample, round(SIZE * GSD / (record.gsd or GSD)), SIZE, rng)


def disturb_scene(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Disturb a date (3, H, W) uint8 as light, weather, sensor, registration, shadows and cars do."""
    if rng.random() < 0.4:
        image = add_cars(image, rng)
    if rng.random() < 0.3:
        image = add_shadow(image, rng)
    image = jitter_colour(image, rng, float(rng.uniform(0.05, 0.35)))
    chosen = rng.random(len(DISTURBANCES)) < 0.35
    for wanted, change in zip(chosen, DISTURBANCES.values(), strict=True):
        if wanted:
            image = change(image, rng, float(rng.uniform(0.2, 0.9)))
    return shift_image(image, rng, 1) if rng.random() < 0.5 else image


def add_shadow(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Darken one soft-edged patch of an image (3, H, W) uint8: a cloud's or a tree's shadow."""
    height, width = image.shape[1:]
    y, x = np.mgrid[:height, :width] / max(height, width)
    top, left = rng.uniform(0, 1, 2)
    angle, long, short = rng.uniform(0, np.pi), rng.uniform(0.06, 0.3), rng.uniform(0.04, 0.12)
    along = (x - left) * np.cos(angle) + (y - top) * np.sin(angle)
    across = (y - top) * np.cos(angle) - (x - left) * np.sin(angle)
    inside = (along / long) ** 2 + (across / short) ** 2 < 1
    soft = ndimage.gaussian_filter(inside.astype(np.float32), float(rng.uniform(1, 6)))
    dark = np.array([0.95, 1.0, 1.1])[:, None, None] * float(rng.uniform(0.4, 0.75))
    return np.clip(np.rint(image * (1 - soft * (1 - dark))), 0, 255).astype(np.uint8)


def add_cars(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Put up to six car-sized blobs (about 2 x 4.5 m) onto grey, even ground such as roads."""
    grey = image.astype(np.float32)
    even = ndimage.generic_gradient_magnitude(grey.mean(0), ndimage.sobel) < 60
    paved = (np.ptp(grey, axis=0) < 30) & (np.abs(grey.mean(0) - 130) < 60) & even
    places = np.argwhere(ndimage.binary_erosion(paved, np.ones((5, 5))))
    if not len(places):
        return image
    result = grey.copy()
    y, x = np.mgrid[: image.shape[1], : image.shape[2]]
    for row, column in places[rng.integers(len(places), size=int(rng.integers(1, 7)))]:
        angle = rng.uniform(0, np.pi)
        along = (x - column) * np.cos(angle) + (y - row) * np.sin(angle)
        across = (y - row) * np.cos(angle) - (x - column) * np.sin(angle)
        body = (np.abs(along) < 4.5) & (np.abs(across) < 2.1)
        soft = ndimage.gaussian_filter(body.astype(np.float32), 0.7)
        colour = _CAR_COLOURS[int(rng.integers(len(_CAR_COLOURS)))][:, None, None]
        result = result * (1 - soft) + colour * soft
    return np.clip(np.rint(result), 0, 255).astype(np.uint8)


_CAR_COLOURS: Sequence[np.ndarray] = [
    np.array(colour, np.float32)
    for colour in ((235, 235, 232), (40, 40, 45), (150, 152, 155), (140, 40, 38), (50, 66, 110))
]
