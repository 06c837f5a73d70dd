"""The one sample type of all data sets, its augmentation and its batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from rscc.errors import DatasetLayoutInvalid
from rscc.images import resize
from rscc.structures import PairBatch
from rscc.text.no_change import is_no_change


@dataclass(frozen=True)
class PairRecord:
    """Where one pair lies and what is known about it; nothing is read yet.

    Attributes:
        id: file name of the pair.
        before, after: image files.
        mask: mask file, above 0 where changed; None when there is none.
        captions: reference sentences, lower case; empty when there are none.
        changed: whether anything changed; None when unknown.
        gsd: metres per pixel of the stored images; None when unknown.
        crops: random crops taken from a pair larger than the crop size in one epoch.
        kind: type of the change as the data set names it; empty when it names none.
        resize_after: the second image may have another size and is resized to the first.
        reversed_captions: sentences that are true when the dates are swapped; without any the dates of the
            pair must not be swapped where captions are used.
        place: what pairs of the same ground have in common, such as the tile that they were cut from; empty
            when it is not known.
        window: left, top and side in pixels of the square that the pair is of the stored images; None: all.
    """

    id: str
    before: Path
    after: Path
    mask: Path | None = None
    captions: tuple[str, ...] = ()
    changed: bool | None = None
    gsd: float | None = None
    crops: int = 1
    kind: str = ""
    resize_after: bool = False
    reversed_captions: tuple[str, ...] = ()
    place: str = ""
    window: tuple[int, int, int] | None = None


def truly_changed(record: PairRecord) -> bool:
    """Return the pair's flag; without one, whether any reference speaks of change."""
    return record.changed if record.changed is not None else not all(map(is_no_change, record.captions))


CONTRADICTING = 60
"""Pixels that a mask marks at least, for a pair that is called unchanged to contradict it."""


def contradicts_itself(record: PairRecord) -> bool:
    """Return whether a pair is called unchanged though its mask marks :data:`CONTRADICTING` pixels or more.

    Which of the two is right cannot be told without looking, so that such a pair teaches neither. One that is
    called changed may have an empty mask: masks hold buildings alone, captions speak of more.

    Raises:
        DatasetLayoutInvalid: the mask cannot be read.
    """
    if record.mask is None or truly_changed(record):
        return False
    return int(read_mask(record.mask).sum()) >= CONTRADICTING


@dataclass(frozen=True)
class PairSample:
    """One pair in memory.

    Attributes:
        before, after: (3, H, W) uint8 RGB.
        mask: (H, W) bool or None.
        captions: reference sentences that are true of the images as they stand (after any flip).
        changed: whether anything changed; None when unknown.
    """

    id: str
    before: np.ndarray
    after: np.ndarray
    mask: np.ndarray | None
    captions: tuple[str, ...]
    changed: bool | None


def file_name(value: object) -> str:
    """Return the name of a file inside its folder.

    Raises:
        ValueError: it leads to another folder, or is no name.
    """
    if not isinstance(value, str) or not value or value in (".", "..") or set(value) & {"/", "\\", "\0"}:
        raise ValueError(f"{value!r} is no file name")
    return value


def read_rgb(path: Path) -> np.ndarray:
    """Read an image file as (3, H, W) uint8 RGB.

    Raises:
        DatasetLayoutInvalid: the file is missing, no image, or one of more than 8 bits, of which nobody knows
            how bright they are to be shown.
    """
    with _opened(path, "an image") as image:
        if _is_wide(image):
            raise DatasetLayoutInvalid(
                f"{path}: has more than 8 bits a value; write images of 8 bits, both dates stretched alike"
            )
        return np.ascontiguousarray(np.asarray(image.convert("RGB")).transpose(2, 0, 1))


def read_mask(path: Path) -> np.ndarray:
    """Read a mask file as (H, W) bool, True where the value is above half of its range.

    Values below 16 are numbers of classes, and so is one grey beside 0: True above 0. Of colours the
    brightest band counts, and of a coloured palette its indices.

    Raises:
        DatasetLayoutInvalid: the file is missing or no image.
    """
    with _opened(path, "a mask") as image:
        if image.mode == "P" and _is_coloured(image):
            values = np.asarray(image)
        elif image.mode in ("1", "L", "LA") or _is_wide(image):
            values = np.asarray(image.convert("L"))
        else:
            values = np.asarray(image.convert("RGB")).max(axis=-1)
    top = values.max(initial=0)
    numbers = top < 16 or (top <= 127 and set(np.unique(values)) == {0, top})
    return values > (0 if numbers else 127)


@contextmanager
def _opened(path: Path, what: str) -> Iterator[Image.Image]:
    """Give an open image; whatever is wrong with the file is told as a fault of the data set."""
    try:
        with Image.open(path) as image:
            yield image
    except FileNotFoundError as error:
        raise DatasetLayoutInvalid(f"{path}: is not there; check that the data set is complete") from error
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise DatasetLayoutInvalid(
            f"{path}: cannot be read as {what}; check that it is whole, and has 8 bits and at most 4 bands"
        ) from error


def _is_wide(image: Image.Image) -> bool:
    """Return whether the values of an image have 16 or 32 bits, whole or not."""
    return image.mode in ("I", "F") or image.mode.startswith("I;")


def _is_coloured(image: Image.Image) -> bool:
    return bool(np.ptp(np.asarray(image.convert("RGB")), axis=-1).any())


def read_pair(record: PairRecord) -> PairSample:
    """Read the files of a record.

    Raises:
        DatasetLayoutInvalid: a file is missing, sizes of images and mask differ, or the window leaves them.
    """
    before, after = read_rgb(record.before), read_rgb(record.after)
    if record.resize_after:
        after = resize(after, before.shape[1:])
    mask = read_mask(record.mask) if record.mask is not None else None
    if before.shape != after.shape or (mask is not None and mask.shape != before.shape[1:]):
        raise DatasetLayoutInvalid(f"{record.before}: the images or the mask of this pair differ in size")
    if record.window is not None:
        left, top, side = record.window
        rows, columns = slice(top, top + side), slice(left, left + side)
        before, after = before[:, rows, columns], after[:, rows, columns]
        mask = mask[rows, columns] if mask is not None else None
        if before.shape[1:] != (side, side):
            raise DatasetLayoutInvalid(
                f"{record.before}: is smaller than the square at {left}, {top} of {side} px"
            )
    return PairSample(record.id, before, after, mask, record.captions, record.changed)


class PairList:
    """Pairs in a fixed order; indexing reads one from disk.

    Attributes:
        records: what is known of each pair.
    """

    records: list[PairRecord]

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.records)

    def __getitem__(self, index: int) -> PairSample:
        """Read pair ``index``; see :func:`read_pair`."""
        return read_pair(self.records[index])


FLIPS = ("none", "horizontal", "vertical", "both")
_LEFT_RIGHT = {"left": "right", "right": "left", "east": "west", "west": "east"}
_TOP_BOTTOM = {
    **{"top": "bottom", "bottom": "top", "upper": "lower", "lower": "upper"},
    **{"north": "south", "south": "north", "above": "below", "below": "above"},
}


def flip_words(caption: str, flip: str) -> str:
    """Turn a caption's words of direction as the images are turned by ``flip`` (one of :data:`FLIPS`)."""
    swaps: dict[str, str] = {}
    if flip in ("horizontal", "both"):
        swaps |= _LEFT_RIGHT
    if flip in ("vertical", "both"):
        swaps |= _TOP_BOTTOM
    return re.sub(r"[a-z]+(?! angle)\b", lambda word: swaps.get(word[0], word[0]), caption)


def flip_array(array: np.ndarray, flip: str) -> np.ndarray:
    """Turn an array (..., H, W) by ``flip``."""
    if flip in ("horizontal", "both"):
        array = array[..., ::-1]
    if flip in ("vertical", "both"):
        array = array[..., ::-1, :]
    return np.ascontiguousarray(array)


def map_arrays(sample: PairSample, change: Callable[[np.ndarray], np.ndarray]) -> PairSample:
    """Change both images and the mask, each (..., H, W), in one way."""
    mask = None if sample.mask is None else change(sample.mask)
    return replace(sample, before=change(sample.before), after=change(sample.after), mask=mask)


def flip_sample(sample: PairSample, flip: str) -> PairSample:
    """Turn both images, the mask and the captions' words of direction."""
    captions = tuple(flip_words(caption, flip) for caption in sample.captions)
    return replace(map_arrays(sample, lambda array: flip_array(array, flip)), captions=captions)


def reverse_sample(sample: PairSample, captions: tuple[str, ...]) -> PairSample:
    """Swap the dates; ``captions`` are true of the swapped pair. The mask stays: it has no direction."""
    return replace(sample, before=sample.after, after=sample.before, captions=captions)


def resize_sample(sample: PairSample, size: int) -> PairSample:
    """Resize both images and the mask to ``size`` x ``size`` pixels."""
    return map_arrays(sample, lambda array: resize(array, (size, size)))


def collate(samples: Sequence[PairSample]) -> PairBatch:
    """Make a batch of samples of one size, without captions."""
    batch = PairBatch(
        before=torch.from_numpy(np.stack([s.before for s in samples])),
        after=torch.from_numpy(np.stack([s.after for s in samples])),
    )
    add_masks(batch, [s.mask for s in samples])
    add_changed(batch, [s.changed for s in samples])
    return batch


def add_masks(batch: PairBatch, masks: Sequence[np.ndarray | None]) -> None:
    """Fill in ``mask`` and ``mask_known`` from masks of one size; both stay None without any mask."""
    shapes = [mask.shape for mask in masks if mask is not None]
    if not shapes:
        return
    filled = [np.zeros(shapes[0]) if mask is None else mask for mask in masks]
    batch.mask = torch.from_numpy(np.stack(filled).astype(np.float32))
    batch.mask_known = torch.tensor([mask is not None for mask in masks])


def add_changed(batch: PairBatch, flags: Sequence[bool | None]) -> None:
    """Fill in ``changed`` and ``changed_known``."""
    batch.changed = torch.tensor([float(bool(flag)) for flag in flags])
    batch.changed_known = torch.tensor([flag is not None for flag in flags])
