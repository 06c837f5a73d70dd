"""Synthetic pairs of suburbs with captions, made from imagery with masks.

There are crops of pairs whose building changes are known from a mask, with sentences of
:mod:`rscc.data.synthesis.grammar`; pairs of one date and its disturbed copy, which are certainly unchanged;
and buildings inserted into or removed from an image (:mod:`rscc.data.synthesis.blending`). Only training
splits are read. Every pair is a function of (seed, kind, number) alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy import ndimage

from rscc.data.augmentation import DISTURBANCES, disturb_scene, random_crop, relight
from rscc.data.pairs import PairRecord, PairSample, flip_array, map_arrays, read_mask, read_pair, read_rgb
from rscc.data.single_dates import mask_of
from rscc.data.synthesis.blending import find_ground, insert_building, match_colours, remove_building
from rscc.data.synthesis.grammar import Grammar, describe_mask
from rscc.data.synthesis.imagery import Imagery
from rscc.errors import ConfigInvalid, DatasetLayoutInvalid
from rscc.images import resize
from rscc.text.no_change import NO_CHANGE_SENTENCES

SIZE = 256
GSD = 0.5
"""Side of a pair in pixels, and metres per pixel."""
MAX_DIFFERENCE = 20.0
"""Largest :func:`difference` of a pair that is labelled unchanged.

Of the training pairs of LEVIR-CC without a building change below it, 98.5 percent (195 of 198) have captions
that say unchanged; of all without a building change 86 percent (477 of 552).
"""
MIN_CHANGE = 250
"""Fewest changed pixels (62 m2) of a crop that is labelled changed; people overlook less."""
SWAP, ALIKE = 0.3, 0.15
"""Share of the changed crops whose dates are swapped, so that buildings disappear, and largest share of the
crops without any change."""
TRIES, DONORS = 400, 8
"""Random draws for one pair, and images searched for one with whole buildings."""


@dataclass(frozen=True)
class SynthesisOptions:
    """Number of pairs of each kind.

    Attributes:
        crops: crops of pairs with change masks.
        unchanged: one date and its disturbed copy.
        insertions, removals: buildings inserted into and removed from an image.

    Raises:
        ConfigInvalid: a number is negative, or all are 0.
    """

    crops: int = 600
    unchanged: int = 300
    insertions: int = 250
    removals: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        numbers = (self.crops, self.unchanged, self.insertions, self.removals)
        if min(numbers) < 0 or not any(numbers):
            raise ConfigInvalid("all numbers are 0 or one is negative; ask for at least one pair of one kind")


@dataclass(frozen=True)
class SyntheticPair:
    """One pair with its captions and origin.

    Attributes:
        sample: images, mask of the buildings that changed, captions and flag.
        kind: ``crop``, ``crop_reversed``, ``crop_alike``, ``unchanged``, ``insertion`` or ``removal``.
    """

    sample: PairSample
    kind: str
    sources: tuple[str, ...]


def difference(before: np.ndarray, after: np.ndarray) -> float:
    """Return the difference of two dates (3, H, W) uint8 beyond light and exposure, in grey values (0..255).

    Both are blurred by 3 pixels, so that registration and sharpness matter little, and the second is fitted
    to the first by linear regression; the result is the largest mean residual of a block of 32 x 32 pixels.
    """
    grey = [ndimage.gaussian_filter(image.astype(np.float32).mean(0), 3) for image in (before, after)]
    off, aim = (image - image.mean() for image in grey)
    slope = float((off * aim).mean()) / max(float((off**2).mean()), 1e-6)
    residual = np.abs(aim - slope * off)
    height, width = (max(1, side // 32) for side in residual.shape)
    rows = np.array_split(residual, height)
    return max(float(block.mean()) for row in rows for block in np.array_split(row, width, axis=1))


def turn(array: np.ndarray, number: int) -> np.ndarray:
    """Rotate and mirror an array (..., H, W) into one of its eight orientations, ``number`` 0..7."""
    turned = np.rot90(array, number % 4, (-2, -1))
    return flip_array(turned, "horizontal" if number >= 4 else "none")


def _turned(sample: PairSample, rng: np.random.Generator) -> PairSample:
    number = int(rng.integers(8))
    return map_arrays(sample, lambda array: turn(array, number))


class Synthesis:
    """Makes pairs; each method makes one, or returns None if the drawn image is unsuitable."""

    def __init__(self, imagery: Imagery, grammar: Grammar, options: SynthesisOptions):
        self.imagery, self.grammar, self.options = imagery, grammar, options
        # A large pair is drawn often, and decoding it takes longer than everything done with its crop.
        self._read = lru_cache(maxsize=128)(read_pair)

    def pairs(self) -> Iterator[SyntheticPair]:
        """Yield all pairs, kind by kind."""
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
        self, name: str, number: int, place: int, make: Callable[[np.random.Generator], SyntheticPair | None]
    ) -> Iterator[SyntheticPair]:
        alike = 0
        for i in range(number):
            for attempt in range(TRIES):
                pair = make(np.random.default_rng((self.options.seed, place, i, attempt)))
                enough = alike >= ALIKE * number
                if pair is not None and not (enough and pair.kind == "crop_alike"):
                    break
            else:
                raise DatasetLayoutInvalid(
                    f"{name}: {TRIES} drawn images are unsuitable for pair {i + 1}; ask for fewer pairs, or "
                    "give imagery with more changes"
                )
            alike += pair.kind == "crop_alike"
            yield pair

    def crop(self, rng: np.random.Generator) -> SyntheticPair | None:
        """Cut a square out of a pair with a change mask and describe the mask."""
        record = self.imagery.draw_pair(rng)
        sample = _turned(_crop(self._read(record), record, rng), rng)
        natural = self.imagery.natural(record)
        if not natural:
            model = self.imagery.draw_natural(rng)
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
            # A corner of a building is neither a change nor no change, and MAX_DIFFERENCE was measured on
            # original colours.
            if not natural or sample.mask.any() or difference(sample.before, sample.after) > MAX_DIFFERENCE:
                return None
            return SyntheticPair(_unchanged(sample), "crop_alike", (record.id,))
        if sum(buildings.areas) < MIN_CHANGE:
            return None
        removed = self.grammar.can_remove() and rng.random() < SWAP
        if removed:
            sample = replace(sample, before=sample.after, after=sample.before)
        captions = self.grammar.sentences(buildings, rng, removed=removed)
        sample = replace(sample, captions=captions, changed=True)
        return SyntheticPair(sample, "crop_reversed" if removed else "crop", (record.id,))

    def unchanged(self, rng: np.random.Generator) -> SyntheticPair | None:
        """Pair one date with its disturbed copy."""
        record, gsd = self.imagery.draw_scene(rng)
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
        return SyntheticPair(
            _unchanged(replace(sample, before=before, after=after)), "unchanged", (record.name,)
        )

    def insertion(self, rng: np.random.Generator) -> SyntheticPair | None:
        """Insert buildings of one or two other images into the open ground of an image."""
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
            blend = None
            if buildings:
                building = buildings[int(rng.integers(len(buildings)))]
                blend = insert_building(image, ground, donor, building, rng)
            if blend is not None:
                image, mask, missing = blend.image, mask | blend.mask, missing - 1
                ground &= blend.alpha == 0
                names += [name] if name not in names else []
            if not missing:
                break
            # Buildings of a street look similar; use another image if nothing fits yet, and now and then.
            if len(names) == 1 or (len(names) == 2 and rng.random() < 0.15):
                drawn = self._donor(rng)
        return self._blended(place.before, image, mask, "insertion", tuple(names), rng)

    def removal(self, rng: np.random.Generator) -> SyntheticPair | None:
        """Cover some buildings of an image with ground from beside them or from the earlier date."""
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
        """Draw a crop of a pair with a change mask in its original colours, in a random orientation."""
        record = self.imagery.draw_pair(rng, natural=True)
        return record, _turned(_crop(self._read(record), record, rng), rng)

    def _donor(self, rng: np.random.Generator) -> tuple[str, np.ndarray, list[np.ndarray]]:
        """Draw an image at 0.5 m with whole buildings: (name, image, masks of the buildings)."""
        if self.imagery.buildings and rng.random() < 0.2:
            path, gsd = self.imagery.buildings[int(rng.integers(len(self.imagery.buildings)))]
            image, mask = read_rgb(path), read_mask(mask_of(path))
            height, width = (max(1, round(side * gsd / GSD)) for side in mask.shape)
            image, mask = resize(image, (height, width)), resize(mask, (height, width))
            return path.name, image, _whole_buildings(mask)
        record, pair, buildings = self._built_place(rng)
        return record.id, pair.after, buildings

    def _built_place(self, rng: np.random.Generator) -> tuple[PairRecord, PairSample, list[np.ndarray]]:
        """Draw an image where whole buildings were built, if one is found soon, with the mask of each."""
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
    ) -> SyntheticPair | None:
        """Describe the inserted or removed buildings, and give each date its own light."""
        buildings = describe_mask(mask)
        if sum(buildings.areas) < MIN_CHANGE:
            return None
        removed = kind == "removal"
        if removed and not self.grammar.can_remove():
            raise DatasetLayoutInvalid("no training caption describes a removal; use --removals 0")
        captions = self.grammar.sentences(buildings, rng, removed=removed)
        before, after = relight(before, rng), relight(after, rng)
        return SyntheticPair(PairSample(kind, before, after, mask, captions, True), kind, sources)


def _unchanged(sample: PairSample) -> PairSample:
    return replace(sample, captions=NO_CHANGE_SENTENCES, changed=False)


def _crop(sample: PairSample, record: PairRecord, rng: np.random.Generator) -> PairSample:
    """Cut out a square of :data:`SIZE` pixels at about :data:`GSD`; small images are used whole."""
    return random_crop(sample, round(SIZE * GSD / (record.gsd or GSD)), SIZE, rng)


def _whole_buildings(mask: np.ndarray) -> list[np.ndarray]:
    """Return each building (H, W) bool of at least 100 pixels (25 m2) that the border does not cut."""
    labels, _ = ndimage.label(mask, np.ones((3, 3)))
    cut = set(np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]]).tolist())
    areas = np.bincount(labels.ravel())
    return [labels == i for i in range(1, len(areas)) if areas[i] >= 100 and i not in cut]
