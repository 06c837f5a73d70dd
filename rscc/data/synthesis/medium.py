"""Captioned pairs at 10 to 90 m, cut from scenes with masks or spectral bands.

There are cities with construction masks (Onera's Sentinel-2 pairs, only red, green and blue), and series of
dates with a near-infrared band, where water, vegetation and bare ground follow from spectral indices and the
masks are where these classes differ between two dates. Training, validation and test are at different
places: whole cities, and strips of columns of a series. Sentences are made of measured kind, amount and place
of a change; they name a class of ground only where the pixels show it, see
:mod:`rscc.data.synthesis.medium_facts`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources

import numpy as np
from scipy import ndimage

from rscc.data.augmentation import jitter_colour
from rscc.data.benchmarks.annotations import SPLITS
from rscc.data.pairs import PairSample, resize_sample
from rscc.data.synthesis.medium_facts import SeriesLayout, city_facts, series_facts, without_specks
from rscc.images import resize
from rscc.text.no_change import NO_CHANGE_SENTENCES

SIZE = 128
GSD = 10.0

# Cities that are not trained on.
VAL_CITIES = ("rennes", "aguasclaras")
TEST_CITIES = ("beirut", "saclay_e")
# Parts of the width of a series: training up to the first, validation up to the second, test beyond.
STRIPS = (0.5, 0.75)
# Windows tried for one without a change.
CALM_TRIES = 40

CAPTIONS = 5
# Shares of a tile: an area below the first is small, from the second on it is large.
SMALL, LARGE = 0.006, 0.04
# Fewest patches of "several", and the largest share of the change that one of them may have.
SEVERAL, DOMINANT = 4, 0.5
# Standard deviation of the pixels, in tile sides, from which a change has no single place.
SPREAD = 0.27

# Kind of change to phrases.
PHRASES: dict[str, list[str]] = tomllib.loads(
    resources.files("rscc").joinpath("data", "synthesis", "medium_phrases.toml").read_text(encoding="utf-8")
)
# Kind of change when the dates are swapped.
REVERSED = {
    "built over": "greened", "greened": "built over", "brightened": "darkened", "darkened": "brightened",
    "rebuilt": "rebuilt", "cleared": "overgrown", "overgrown": "cleared", "flooded": "dried",
    "dried": "flooded",
}  # fmt: skip


@dataclass(frozen=True)
class City:
    """A pair of dates with a construction mask.

    Attributes:
        name: of the file, without suffix.
        before, after: (3, H, W) uint8 RGB.
        mask: (H, W) bool.
    """

    name: str
    before: np.ndarray
    after: np.ndarray
    mask: np.ndarray

    @property
    def split(self) -> str:
        """The split of the whole city."""
        city = self.name.removeprefix("oscd_")
        return "val" if city in VAL_CITIES else "test" if city in TEST_CITIES else "train"


@dataclass(frozen=True)
class MediumPair:
    """One tile: its sample, its split, the place it was cut from and the metres per pixel there."""

    sample: PairSample
    split: str
    place: str
    gsd: float


@dataclass(frozen=True)
class _Source:
    """A part of a place, of one split: images, and the kinds of change as (H, W) bool masks."""

    place: str
    split: str
    gsd: float
    before: np.ndarray
    after: np.ndarray
    facts: dict[str, np.ndarray]

    @property
    def mask(self) -> np.ndarray:
        return _union(self.facts, self.before.shape[1:])

    def reversed(self) -> _Source:
        facts = {REVERSED[kind]: part for kind, part in self.facts.items()}
        return replace(self, before=self.after, after=self.before, facts=facts)


def _union(facts: dict[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    return np.logical_or.reduce([np.zeros(shape, bool), *facts.values()])


def stretched(before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Stretch two dates (3, H, W) per band from the 2nd to the 98th percentile of both, as in `tiling`."""
    low, high = np.percentile(np.concatenate([before, after], axis=1), (2, 98), axis=(1, 2))[:, :, None, None]
    gain = 255 / np.maximum(high - low, 1)
    first, second = (np.rint(((x - low) * gain).clip(0, 255)).astype(np.uint8) for x in (before, after))
    return first, second


def city_sources(cities: Sequence[City]) -> list[_Source]:
    """Return a source per city, its dates stretched together."""
    sources = []
    for city in cities:
        facts = city_facts(city.before, city.after, city.mask)
        before, after = stretched(city.before, city.after)
        sources.append(_Source(city.name, city.split, GSD, before, after, facts))
    return sources


def series_sources(dates: Sequence[np.ndarray], layout: SeriesLayout) -> list[_Source]:
    """Return a source for every two dates (bands, H, W), in order, and every strip of a series."""
    height, width = (min(date.shape[axis] for date in dates) for axis in (1, 2))
    dates = [date[:, :height, :width] for date in dates]
    edges = (0, *(round(part * width) for part in STRIPS), width)
    sources = []
    for index, first in enumerate(dates):
        for second in dates[index + 1 :]:
            facts = series_facts(first, second, layout)
            before, after = first[list(layout.shown)], second[list(layout.shown)]
            for split, start, end in zip(SPLITS, edges[:-1], edges[1:], strict=True):
                cut = {kind: part[:, start:end] for kind, part in facts.items()}
                strip = (before[:, :, start:end], after[:, :, start:end])
                sources.append(_Source(layout.name, split, layout.gsd, *strip, cut))
    return sources


def fixed_tiles(source: _Source) -> Iterator[MediumPair]:
    """Cut a validation or test source into tiles that overlap as little as possible.

    Nearly every tile of a city holds some change. To have unchanged ones, parts of half the side in which
    nothing changed are tiles too, enlarged.
    """
    height, width = source.before.shape[1:]
    side = min(SIZE, height, width)
    for half in (False, True) if source.gsd == GSD else (False,):
        size = side // 2 if half else side
        for top in _starts(height, size):
            for left in _starts(width, size):
                if not (half and source.mask[top : top + size, left : left + size].any()):
                    yield _tile(source, top, left, size, np.random.default_rng((top, left)))


def _starts(length: int, side: int) -> list[int]:
    count = -(-length // side)
    return [round(number * (length - side) / max(1, count - 1)) for number in range(count)]


def random_tile(source: _Source, rng: np.random.Generator) -> MediumPair:
    """Cut out a random training tile, two in three around a change; some with swapped dates, or coarser."""
    height, width = source.before.shape[1:]
    side = min(int(rng.integers(SIZE // 2, SIZE * 3 // 2)), height, width)
    rows, cols = np.nonzero(source.mask)
    top, left = int(rng.integers(height - side + 1)), int(rng.integers(width - side + 1))
    if len(rows) and rng.random() < 2 / 3:
        chosen = int(rng.integers(len(rows)))
        top = int(np.clip(rows[chosen] - rng.integers(side), 0, height - side))
        left = int(np.clip(cols[chosen] - rng.integers(side), 0, width - side))
    if rng.random() < 1 / 3:
        source = source.reversed()
    pair = _tile(source, top, left, side, rng)
    return _coarser(pair, float(rng.uniform(1.5, 3))) if rng.random() < 0.3 else pair


def repeated_tile(source: _Source, rng: np.random.Generator) -> MediumPair:
    """Cut out a training tile of one date twice, in another light: nothing changed."""
    pair = random_tile(replace(source, after=source.before, facts={}), rng)
    after = jitter_colour(pair.sample.after, rng, 0.3)
    return replace(pair, sample=replace(pair.sample, after=after))


def unchanged_tile(source: _Source, rng: np.random.Generator) -> MediumPair | None:
    """Cut out a small training tile of two dates in which nothing changed; None if a few tries find none.

    Light, season and fields do change between the dates, which must not be called a change.
    """
    height, width = source.before.shape[1:]
    mask = source.mask
    for _ in range(CALM_TRIES):
        side = min(int(rng.integers(SIZE * 3 // 8, SIZE * 3 // 4)), height, width)
        top, left = int(rng.integers(height - side + 1)), int(rng.integers(width - side + 1))
        if not mask[top : top + side, left : left + side].any():
            return _tile(source, top, left, side, rng)
    return None


def _tile(source: _Source, top: int, left: int, side: int, rng: np.random.Generator) -> MediumPair:
    window = (..., slice(top, top + side), slice(left, left + side))
    cut = without_specks({kind: part[window] for kind, part in source.facts.items()})
    mask = _union(cut, (side, side))
    captions = captions_of(cut, rng)
    sample = PairSample("", source.before[window], source.after[window], mask, captions, bool(mask.any()))
    return MediumPair(resize_sample(sample, SIZE), source.split, source.place, source.gsd * side / SIZE)


def _coarser(pair: MediumPair, factor: float) -> MediumPair:
    side = round(SIZE / factor)
    images = [
        resize(resize(image, (side, side)), (SIZE, SIZE)) for image in (pair.sample.before, pair.sample.after)
    ]
    sample = replace(pair.sample, before=images[0], after=images[1])
    return replace(pair, sample=sample, gsd=pair.gsd * factor)


def medium_pairs(
    cities: Sequence[City],
    series: Sequence[tuple[SeriesLayout, Sequence[np.ndarray]]],
    *,
    city_tiles: int,
    series_tiles: int,
    still_tiles: int,
    calm_tiles: int,
    seed: int,
) -> Iterator[MediumPair]:
    """Yield all tiles: random ones for training, and fixed ones of held-out places.

    Args:
        series: layout and dates, oldest first, (bands, H, W) uint8.
        city_tiles: training tiles of all cities together, by their area.
        series_tiles: training tiles of each series.
        still_tiles: training tiles of a city's date and itself.
        calm_tiles: training tiles of two dates in which nothing changed; fewer if none is found.
    """
    urban = city_sources(cities)
    groups = [series_sources(dates, layout) for layout, dates in series]
    every = [(urban, city_tiles), *((group, series_tiles) for group in groups)]
    for number, (sources, count) in enumerate(every):
        yield from (random_tile(source, rng) for source, rng in _draws(sources, count, (seed, number)))
        for source in sources:
            if source.split != "train":
                yield from fixed_tiles(source)
    yield from (repeated_tile(source, rng) for source, rng in _draws(urban, still_tiles, (seed, len(every))))
    everywhere = [source for sources, _ in every for source in sources]
    for source, rng in _draws(everywhere, calm_tiles, (seed, len(every) + 1)):
        if (pair := unchanged_tile(source, rng)) is not None:
            yield pair


def _draws(
    sources: Sequence[_Source], count: int, seed: tuple[int, int]
) -> Iterator[tuple[_Source, np.random.Generator]]:
    """Draw training sources by their area, each with a generator for its tile."""
    training = [source for source in sources if source.split == "train"]
    areas = np.array([source.before[0].size for source in training], float)
    for index in range(count if training else 0):
        rng = np.random.default_rng((*seed, index))
        yield training[int(rng.choice(len(training), p=areas / areas.sum()))], rng


def captions_of(facts: Mapping[str, np.ndarray], rng: np.random.Generator) -> tuple[str, ...]:
    """Return five captions; the largest change is in every one, the second in some.

    ``facts`` is kind, a key of :data:`PHRASES`, to where it happened, (H, W) bool, not empty. Without any the
    captions say that nothing changed.
    """
    if not facts:
        return tuple(str(text) for text in rng.choice(NO_CHANGE_SENTENCES, CAPTIONS, replace=False))
    ordered = sorted(facts.items(), key=lambda fact: -fact[1].sum())
    captions = []
    for number in range(CAPTIONS):
        clauses = [_sentence(*ordered[0], number + int(rng.integers(2)))]
        if len(ordered) > 1 and number % 2:
            clauses.append(_sentence(*ordered[1], int(rng.integers(9))))
        captions.append(" and ".join(clauses))
    return tuple(captions)


def _sentence(kind: str, mask: np.ndarray, number: int) -> str:
    phrases = PHRASES[kind]
    amount, be = amount_words(mask)
    return phrases[number % len(phrases)].format(amount=amount, be=be, place=place_words(mask))


def amount_words(mask: np.ndarray) -> tuple[str, str]:
    """Return in words how much of a tile changed, and "is" or "are"."""
    labels, count = ndimage.label(mask, np.ones((3, 3)))
    if count >= SEVERAL and np.bincount(labels[mask])[1:].max() < DOMINANT * mask.sum():
        return ("several small areas" if mask.mean() < LARGE else "many areas"), "are"
    share = mask.mean()
    size = "small " if share < SMALL else "large " if share >= LARGE else ""
    return f"a {size}area" if size else "an area", "is"


def place_words(mask: np.ndarray) -> str:
    """Return in words where in the tile a change is, in thirds; "across the scene" without a single place."""
    height, width = mask.shape
    rows, cols = np.nonzero(mask)
    if np.hypot(rows.std() / height, cols.std() / width) > SPREAD:
        return "across the scene"
    row = ("top", "", "bottom")[min(2, int(3 * rows.mean() / height))]
    col = ("left", "", "right")[min(2, int(3 * cols.mean() / width))]
    if row and col:
        return f"in the {row} {col}"
    if row:
        return f"at the {row}"
    return f"on the {col}" if col else "in the middle"
