"""Finds test images in training data: whole, cut, rotated, mirrored, zoomed or recoloured.

Images are compared as small grey versions, filtered so that structure is left without brightness, contrast
and colour. First patches around key points are compared, all with all. Where two agree, they give the
position of one image on the other, and the whole overlap is compared. That correlation is near 0 for images
that have nothing in common and near 1 for copies.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter, maximum_filter

from rscc.errors import DatasetLayoutInvalid
from rscc.images import open_image
from rscc.sequences import batches

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp"})
_MASKS = frozenset({"label", "labels", "mask", "masks"})
THRESHOLD = 0.85
"""Correlation of the overlap of two images from which one counts as a copy of the other."""
ZOOMS = tuple(2 ** (step / 4) for step in range(-4, 5))
"""Zooms of a test image that are searched for: half to twice its size."""

# Two successive reductions of an image; all lengths below are in pixels of the result.
_HALF, _REDUCED = 2, 2
# Half the side of a patch, and the distance of its samples.
_REACH, _STEP = 8, 2
# Radius in which a key point is the strongest; correlation of patches that match; most matches of two images.
_RADIUS, _MATCH, _MAX_MATCHES = 4, 0.85, 3
# Half the side of the surroundings of a match, and the correlation they need for the next step.
_AROUND, _MATCH_AROUND = 16, 0.7
# Smallest side and smallest area of an overlap, and the largest error of the position of a key point.
_MIN_SIDE, _MIN_AREA, _MAX_SHIFT = 20, 32**2, 2
# Zooms between those of :data:`ZOOMS` that are tried.
_FINE_ZOOMS = tuple(1 + step / 50 for step in range(-5, 6))
_IMAGES_AT_ONCE, _ROWS_AT_ONCE = 256, 1024

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Leak:
    """A test image that a training image shows at least in part; ``zoom`` as in :data:`ZOOMS`."""

    test: Path
    training: Path
    correlation: float
    zoom: float

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        rounded = {"correlation": round(self.correlation, 3), "zoom": round(self.zoom, 2)}
        return {"test": str(self.test), "training": str(self.training), **rounded}


@dataclass(frozen=True)
class LeakCheck:
    """Result of a search.

    Attributes:
        leaks: the highest correlation first; two images once.
        largest: the largest correlation below the threshold; 0 if no two patches agreed.
        unread: files that are no images, or too small to compare.
    """

    leaks: tuple[Leak, ...]
    test: int
    training: int
    largest: float
    unread: tuple[Path, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; file names as they were given."""
        return {
            "test": self.test,
            "training": self.training,
            "threshold": THRESHOLD,
            "largest": round(self.largest, 3),
            "leaks": [leak.as_dict() for leak in self.leaks],
            "unread": [str(path) for path in self.unread],
        }


class _Points(NamedTuple):
    """Patches around key points of several images.

    Attributes:
        image: (N,) number of the image.
        place: (N, 2) row and column in its small version.
        turn: (N, 2, 2) matrix from offsets (row, column) in the image to those in the patch.
        patch: (N, D) zero mean, norm 1.
    """

    image: np.ndarray
    place: np.ndarray
    turn: np.ndarray
    patch: np.ndarray


def image_files(folder: Path, *, but: Sequence[Path] = ()) -> list[Path]:
    """Return the images below a folder without masks (by the names of their folders) and those in ``but``."""
    left_out = {path.resolve() for path in but}
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in SUFFIXES and _MASKS.isdisjoint(path.relative_to(folder).parts[:-1])
    ]
    found = [path for path in found if path.is_file() and path.resolve() not in left_out]
    if not found:
        raise DatasetLayoutInvalid(f"{folder}: there are no images below it; give a folder of training data")
    return found


def find_leaks(
    test: Sequence[Path], training: Sequence[Path], *, progress: Progress | None = None
) -> LeakCheck:
    """Search for test images in training images.

    Args:
        test, training: image files; repeated ones count once. A test image is searched for at half to twice
            its size, in all eight orientations.
        progress: called as ``progress("leaks", done, total)`` over the training images.
    """
    test, training = list(dict.fromkeys(test)), list(dict.fromkeys(training))
    images = {path: image for path in test if (image := _grey(path)) is not None}
    unread = [path for path in test if path not in images]
    keys = [(path, zoom) for path in images for zoom in ZOOMS]
    sizes = [_structure(images[path], zoom) for path, zoom in keys]
    wanted = _points(sizes)
    found: dict[tuple[Path, Path], Leak] = {}
    done = trained = 0
    for part in batches(training, _IMAGES_AT_ONCE):
        read = {path: _structure(image) for path in part if (image := _grey(path)) is not None}
        unread += [path for path in part if path not in read]
        names, structures = list(read), list(read.values())
        points = _points(structures)
        for one, other in _matches(wanted, points):
            place, size = wanted.place[one], wanted.image[one]
            (path, zoom), source = keys[size], names[points.image[other]]
            turn = wanted.turn[one].T @ points.turn[other]
            turned, point = _turned(structures[points.image[other]], points.place[other], turn)
            if not _match_around(sizes[size], place, turned, point):
                continue
            correlation, fine = _compare(images[path], zoom, place, turned, point)
            if (path, source) not in found or correlation > found[path, source].correlation:
                found[path, source] = Leak(path, source, correlation, fine)
        done, trained = done + len(part), trained + len(read)
        if progress is not None:
            progress("leaks", done, len(training))
    if not images or not trained:
        raise DatasetLayoutInvalid(
            "there are no images of 80 pixels or more to compare; give folders of images"
        )
    ranked = sorted(found.values(), key=lambda leak: -leak.correlation)
    leaks = tuple(leak for leak in ranked if leak.correlation >= THRESHOLD)
    rest = ranked[len(leaks) :]
    return LeakCheck(leaks, len(images), trained, rest[0].correlation if rest else 0.0, tuple(unread))


def _grey(path: Path) -> Image.Image | None:
    """Return an image in grey at half its size; None for a file that is no image or too small."""
    try:
        with open_image(path) as file:
            image = file.convert("L").reduce(_HALF)
    except (OSError, ValueError, Image.DecompressionBombError):
        return None
    return image if min(image.size) >= _MIN_SIDE * _REDUCED else None


def _structure(image: Image.Image, zoom: float = 1.0) -> np.ndarray:
    """Return the local contrast of the small version, normalised, (H, W)."""
    size = [round(side * zoom / _REDUCED) for side in image.size]
    grey = np.asarray(image.resize(size, Image.Resampling.BILINEAR), np.float32)
    detail = gaussian_filter(grey, 1.0) - gaussian_filter(grey, 4.0)
    contrast = np.sqrt(gaussian_filter(detail**2, 4.0)) + 1.0
    return detail / contrast


def _points(structures: Sequence[np.ndarray]) -> _Points:
    images, places, turns, patches = [], [], [], []
    offsets = np.arange(-_REACH, _REACH + 1, _STEP)
    rows, columns = np.meshgrid(offsets, offsets, indexing="ij")
    for number, structure in enumerate(structures):
        strength = np.abs(structure)
        is_point = strength == maximum_filter(strength, 2 * _RADIUS + 1)
        is_point[:_REACH] = is_point[-_REACH:] = is_point[:, :_REACH] = is_point[:, -_REACH:] = False
        place = np.argwhere(is_point)
        patch = structure[place[:, :1, None] + rows, place[:, 1:, None] + columns]
        patch = patch - patch.mean((1, 2), keepdims=True)
        patch /= np.sqrt((patch**2).sum((1, 2), keepdims=True)) + 1e-6
        turn, patch = _in_common_form(patch, rows, columns)
        images.append(np.full(len(place), number))
        places.append(place)
        turns.append(turn)
        patches.append(patch.reshape(len(place), len(offsets) ** 2))
    if not structures:
        return _Points(*(np.zeros((0, *shape)) for shape in ((), (2,), (2, 2), (len(offsets) ** 2,))))
    return _Points(*(np.concatenate(some) for some in (images, places, turns, patches)))


def _in_common_form(
    patch: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rotate and mirror patches (N, S, S) so that all orientations of one patch become the same.

    The lighter side is moved to the bottom right, and more to the bottom.
    """
    down, right = (patch * rows).sum((1, 2)), (patch * columns).sum((1, 2))
    patch = np.where((down < 0)[:, None, None], patch[:, ::-1], patch)
    patch = np.where((right < 0)[:, None, None], patch[:, :, ::-1], patch)
    is_wide = np.abs(right) > np.abs(down)
    patch = np.where(is_wide[:, None, None], patch.transpose(0, 2, 1), patch)
    turn = np.zeros((len(patch), 2, 2))
    turn[:, 0, 0], turn[:, 1, 1] = np.where(down < 0, -1, 1), np.where(right < 0, -1, 1)
    turn[is_wide] = turn[is_wide][:, ::-1]
    return turn, patch


def _matches(wanted: _Points, points: _Points) -> Iterator[tuple[int, int]]:
    """Yield the numbers of matching points of test images, each in all zooms in a row, and training images.

    Of two images only the best matches are used.
    """
    tests = wanted.image // len(ZOOMS)
    ones, others, values = [], [], []
    for begin in range(0, len(wanted.patch), _ROWS_AT_ONCE):
        product = wanted.patch[begin : begin + _ROWS_AT_ONCE] @ points.patch.T
        one, other = np.nonzero(product > _MATCH)
        ones.append(one + begin)
        others.append(other)
        values.append(product[one, other])
    if not ones:
        return
    one, other, value = map(np.concatenate, (ones, others, values))
    tried: Counter[tuple[int, int]] = Counter()
    for index in np.argsort(-value, kind="stable"):
        images = int(tests[one[index]]), int(points.image[other[index]])
        tried[images] += 1
        if tried[images] <= _MAX_MATCHES:
            yield int(one[index]), int(other[index])


def _match_around(first: np.ndarray, place: np.ndarray, second: np.ndarray, met: np.ndarray) -> bool:
    (top, left), (row, column) = (np.maximum(one - _AROUND, 0) for one in (place, met))
    one = first[top : place[0] + _AROUND + 1, left : place[1] + _AROUND + 1]
    other = second[row : met[0] + _AROUND + 1, column : met[1] + _AROUND + 1]
    offset = (place - (top, left)) - (met - (row, column))
    return _best_near(one, other, offset, 0) >= _MATCH_AROUND


def _compare(
    image: Image.Image, zoom: float, place: np.ndarray, turned: np.ndarray, met: np.ndarray
) -> tuple[float, float]:
    """Return the best correlation of the overlap where two points coincide, and the zoom for it."""
    return max(
        (
            _best_near(_structure(image, zoom * fine), turned, np.rint(place * fine).astype(int) - met),
            zoom * fine,
        )
        for fine in _FINE_ZOOMS
    )


def _best_near(first: np.ndarray, second: np.ndarray, corner: np.ndarray, least: int = _MIN_AREA) -> float:
    """Return the largest correlation with the corner of ``second`` near a position of ``first``."""
    steps = range(-_MAX_SHIFT, _MAX_SHIFT + 1)
    row, column = map(int, corner)
    return max(
        _correlation(first, second, row + down, column + right, least) for down in steps for right in steps
    )


def _turned(structure: np.ndarray, place: np.ndarray, turn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Transform a map, and a point in it, by a matrix of signs that may swap the axes."""
    place = np.array(place)
    if turn[0, 0] == 0:
        structure, place = structure.T, place[::-1]
    signs = turn.sum(1)
    for axis in (0, 1):
        if signs[axis] < 0:
            structure = np.flip(structure, axis)
            place[axis] = structure.shape[axis] - 1 - place[axis]
    return structure, place


def _correlation(first: np.ndarray, second: np.ndarray, row: int, column: int, least: int) -> float:
    """Return the correlation of two maps with the corner of ``second`` at a position of ``first``.

    0 if the overlap has fewer pixels than ``least``, or is a narrow strip.
    """
    top, left = max(row, 0), max(column, 0)
    bottom, right = min(first.shape[0], row + second.shape[0]), min(first.shape[1], column + second.shape[1])
    height, width = bottom - top, right - left
    if min(height, width) < _MIN_SIDE or height * width < least:
        return 0.0
    one = first[top:bottom, left:right]
    other = second[top - row : bottom - row, left - column : right - column]
    scale = np.sqrt((one**2).sum() * (other**2).sum())
    return float((one * other).sum() / scale) if scale > 0 else 0.0
