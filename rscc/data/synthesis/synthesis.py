"""Pairs with captions that nobody wrote, made from imagery with masks, in the layout of LEVIR-CC.

Three things are made: crops of pairs whose building changes are known by a mask, with sentences of
:mod:`rscc.data.synthesis.grammar`; pairs of which one date is the other one disturbed, which are unchanged
for certain; and buildings put into or taken out of a place (:mod:`rscc.data.synthesis.blending`). Only
training splits are read. Every pair is a function of (seed, kind, number) alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy import ndimage

from rscc.data.augmentation import DISTURBANCES, disturb, jitter_colour, random_crop, shift_image
from rscc.data.pairs import PairRecord, PairSample, flip_array, map_arrays, read_mask, read_pair, read_rgb
from rscc.data.single_dates import mask_of
from rscc.data.synthesis.blending import find_ground, insert_building, match_colours, remove_building
from rscc.data.synthesis.grammar import Grammar, describe_mask
from rscc.data.synthesis.sources import Sources
from rscc.errors import ConfigInvalid, DatasetLayoutInvalid
from rscc.images import resize
from rscc.text.no_change import NO_CHANGE_SENTENCES

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
TRIES, DONORS = 400, 8
"""Draws of chance for one pair, and places looked at for one with whole buildings."""


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

    Raises:
        ConfigInvalid: a number is negative, all are 0, or a share lies outside 0..1.
    """

    crops: int = 600
    unchanged: int = 300
    insertions: int = 250
    removals: int = 100
    swap: float = 0.3
    alike: float = 0.15
    seed: int = 0

    def __post_init__(self) -> None:
        numbers = (self.crops, self.unchanged, self.insertions, self.removals)
        if min(numbers) < 0 or not any(numbers):
            raise ConfigInvalid("there is nothing to make; ask for at least one pair of one kind")
        if not (0 <= self.swap <= 1 and 0 <= self.alike <= 1):
            raise ConfigInvalid(f"swap {self.swap} and alike {self.alike} are shares: give 0 to 1")


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
    """Return how much two dates (3, H, W) uint8 differ beyond light and exposure, in grey values (0..255).

    Both are blurred by 3 pixels, so that registration and sharpness count little, and the second is
    explained by the first through one straight line; the result is the greatest mean residual of a block of
    32 x 32 pixels.
    """
    grey = [ndimage.gaussian_filter(image.astype(np.float32).mean(0), 3) for image in (before, after)]
    off, aim = (image - image.mean() for image in grey)
    slope = float((off * aim).mean()) / max(float((off**2).mean()), 1e-6)
    residual = np.abs(aim - slope * off)
    height, width = (max(1, side // 32) for side in residual.shape)
    rows = np.array_split(residual, height)
    return max(float(block.mean()) for row in rows for block in np.array_split(row, width, axis=1))


def turn(array: np.ndarray, number: int) -> np.ndarray:
    """Turn an array (..., H, W) into one of its eight positions, ``number`` 0..7."""
    turned = np.rot90(array, number % 4, (-2, -1))
    return flip_array(turned, "horizontal" if number >= 4 else "none")


def _turned(sample: PairSample, rng: np.random.Generator) -> PairSample:
    number = int(rng.integers(8))
    return map_arrays(sample, lambda array: turn(array, number))


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
        kinds = [
            ("crops", options.crops, self.crop),
            ("unchanged", options.unchanged, self.unchanged),
            ("insertions", options.insertions, self.insertion),
            ("removals", options.removals, self.removal),
        ]
        for place, (name, number, make) in enumerate(kinds):
            yield from self._several(name, number, place, make)

    def _several(
        self, name: str, number: int, place: int, make: Callable[[np.random.Generator], MadePair | None]
    ) -> Iterator[MadePair]:
        alike = 0
        for i in range(number):
            for attempt in range(TRIES):
                pair = make(np.random.default_rng((self.options.seed, place, i, attempt)))
                enough = alike >= self.options.alike * number
                if pair is not None and not (enough and pair.kind == "crop_alike"):
                    break
            else:
                raise DatasetLayoutInvalid(
                    f"{name}: {TRIES} places in turn do not serve for pair {i + 1}; ask for fewer, or give "
                    "imagery with more changes"
                )
            alike += pair.kind == "crop_alike"
            yield pair

    def crop(self, rng: np.random.Generator) -> MadePair | None:
        """Cut a square out of a pair with a change mask and say what the mask shows."""
        record = self.sources.draw_pair(rng)
        sample = _turned(_crop(self._read(record), record, rng), rng)
        natural = self.sources.natural(record)
        if not natural:
            model = self.sources.draw_natural(rng)
            if model is not None:
                colours = self._read(model)
                sample = replace(
                    sample,
                    before=match_colours(sample.before, colours.before),
                    after=match_colours(sample.after, colours.after),
                )
        assert sample.mask is not None
        buildings = describe_mask(sample.mask)
        if buildings.count == 0:
            # A corner of a building is neither worth a word nor no change, and what counts as alike was
            # measured on colours as they were taken.
            if not natural or sample.mask.any() or difference(sample.before, sample.after) > ALIKE:
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

    def unchanged(self, rng: np.random.Generator) -> MadePair | None:
        """Show one date of a place and the same date disturbed."""
        record, gsd = self.sources.draw_scene(rng)
        image = read_rgb(record)
        side = round(SIZE * GSD / gsd)
        empty = np.zeros(image.shape[1:], bool)
        sample = random_crop(PairSample(record.name, image, image, empty, (), False), side, SIZE, rng)
        sample = _turned(sample, rng)
        first = sample.before
        after = disturb_scene(first, rng)
        before = DISTURBANCES["jpeg"](first, rng, 0.3) if rng.random() < 0.3 else first
        if rng.random() < 0.5:
            before, after = after, before
        return MadePair(_unchanged(replace(sample, before=before, after=after)), "unchanged", (record.name,))

    def insertion(self, rng: np.random.Generator) -> MadePair | None:
        """Put buildings of one or two other places onto the open ground of a place."""
        record, place = self._place(rng)
        assert place.mask is not None
        ground = find_ground(place.before, np.zeros_like(place.mask))
        if ground.mean() < 0.1:
            return None
        image, mask, names = place.before, np.zeros_like(place.mask), [record.id]
        missing = int(rng.choice((1, 1, 2, 3, 4, 6, 9)))
        drawn = self._donor(rng)
        for _attempt in range(3 * missing + 6):
            name, donor, buildings = drawn
            put = None
            if buildings:
                put = insert_building(image, ground, donor, buildings[int(rng.integers(len(buildings)))], rng)
            if put is not None:
                image, mask, missing = put.image, mask | put.mask, missing - 1
                ground &= put.alpha == 0
                names += [name] if name not in names else []
            if not missing:
                break
            # A street is built alike; another image is taken where nothing fits yet, and now and then.
            if len(names) == 1 or (len(names) == 2 and rng.random() < 0.15):
                drawn = self._donor(rng)
        return self._blended(place.before, image, mask, "insertion", tuple(names), rng)

    def removal(self, rng: np.random.Generator) -> MadePair | None:
        """Cover some buildings of a place with ground from beside them or from before they stood there."""
        record, place, buildings = self._built_place(rng)
        assert place.mask is not None
        ground = find_ground(place.after, place.mask)
        image, mask = place.after, np.zeros_like(place.mask)
        most = int(rng.choice((1, 1, 2, 3, 5)))
        for i in rng.permutation(len(buildings))[:most]:
            cleared = remove_building(image, ground, buildings[i], rng, earlier=place.before)
            if cleared is not None:
                image, mask = cleared.image, mask | cleared.mask
        return self._blended(place.after, image, mask, "removal", (record.id,), rng)

    def _place(self, rng: np.random.Generator) -> tuple[PairRecord, PairSample]:
        """Draw a crop of a pair with a change mask in its own colours, turned."""
        record = self.sources.draw_pair(rng, natural=True)
        return record, _turned(_crop(self._read(record), record, rng), rng)

    def _donor(self, rng: np.random.Generator) -> tuple[str, np.ndarray, list[np.ndarray]]:
        """Draw an image at 0.5 m with whole buildings: (name, image, masks of the buildings)."""
        if self.sources.buildings and rng.random() < 0.2:
            path, gsd = self.sources.buildings[int(rng.integers(len(self.sources.buildings)))]
            image, mask = read_rgb(path), read_mask(mask_of(path))
            height, width = (max(1, round(side * gsd / GSD)) for side in mask.shape)
            image, mask = resize(image, (height, width)), resize(mask, (height, width))
            return path.name, image, _whole_buildings(mask)
        record, pair, buildings = self._built_place(rng)
        return record.id, pair.after, buildings

    def _built_place(self, rng: np.random.Generator) -> tuple[PairRecord, PairSample, list[np.ndarray]]:
        """Draw a place where whole buildings were built, if one is found soon, with the masks of each."""
        for _ in range(DONORS):
            record, pair = self._place(rng)
            assert pair.mask is not None
            buildings = _whole_buildings(pair.mask)
            if buildings:
                break
        return record, pair, buildings

    def _blended(
        self,
        before: np.ndarray,
        after: np.ndarray,
        mask: np.ndarray,
        kind: str,
        sources: tuple[str, ...],
        rng: np.random.Generator,
    ) -> MadePair | None:
        """Say what was put in or taken out, and let each date have its own light."""
        buildings = describe_mask(mask)
        if sum(buildings.areas) < LEAST_CHANGE:
            return None
        removed = kind == "removal"
        if removed and not self.grammar.can_remove():
            raise DatasetLayoutInvalid(
                "the training captions never say that something is removed; use --removals 0"
            )
        captions = self.grammar.sentences(buildings, rng, removed=removed)
        before, after = relight(before, rng), relight(after, rng)
        return MadePair(PairSample(kind, before, after, mask, captions, True), kind, sources)


def _unchanged(sample: PairSample) -> PairSample:
    return replace(sample, captions=NO_CHANGE_SENTENCES, changed=False)


def _crop(sample: PairSample, record: PairRecord, rng: np.random.Generator) -> PairSample:
    """Cut a square of :data:`SIZE` pixels at about :data:`GSD`; small images are taken whole."""
    return random_crop(sample, round(SIZE * GSD / (record.gsd or GSD)), SIZE, rng)


def _whole_buildings(mask: np.ndarray) -> list[np.ndarray]:
    """Return each building (H, W) bool of at least 100 pixels (25 m2) that the border does not cut."""
    labels, _ = ndimage.label(mask, np.ones((3, 3)))
    cut = set(np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]]).tolist())
    areas = np.bincount(labels.ravel())
    return [labels == i for i in range(1, len(areas)) if areas[i] >= 100 and i not in cut]


def relight(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Give a date (3, H, W) uint8 a light and a sharpness of its own."""
    image = jitter_colour(image, rng, float(rng.uniform(0.05, 0.25)))
    return disturb(image, rng, float(rng.uniform(0.1, 0.5)))


def disturb_scene(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Disturb a date (3, H, W) uint8 as light, weather, sensor, registration, shadows and cars do."""
    if rng.random() < 0.4:
        image = add_cars(image, rng)
    if rng.random() < 0.3:
        image = add_shadow(image, rng)
    image = jitter_colour(image, rng, float(rng.uniform(0.05, 0.35)))
    chosen = rng.random(len(DISTURBANCES)) < 0.35
    for applies, change in zip(chosen, DISTURBANCES.values(), strict=True):
        if applies:
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
