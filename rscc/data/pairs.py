"""The sample type of all data sets: records, images in memory, flips, batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from rscc.errors import DatasetLayoutInvalid
from rscc.images import open_image, resize
from rscc.structures import PairBatch
from rscc.text.no_change import is_no_change

CONTRADICTING = 60
"""Fewest pixels of a mask that contradict a pair labelled unchanged."""


@dataclass(frozen=True)
class PairRecord:
    """Files and labels of one pair; nothing is read yet.

    Attributes:
        id: file name of the pair.
        mask: mask file, above 0 where changed; None without one.
        captions: reference sentences, lower case; may be empty.
        changed: whether anything changed; None if unknown.
        gsd: metres per pixel of the stored images; None if unknown.
        crops: random crops per epoch from a pair larger than the crop size.
        kind: kind of the change as the data set names it; empty if it names none.
        resize_after: the second image may have another size and is resized to the first.
        reversed_captions: sentences that are true when the dates are swapped; without any the dates must not
            be swapped where captions are used.
        place: common name of pairs at the same place, such as the tile they were cut from; empty if unknown.
        window: left, top and side in pixels of the pair's square in the stored images; None: all.
        read: reads the pair where it has no files of its own; its paths then only tell it from others.
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
    read: Callable[[], PairSample] | None = None


def truly_changed(record: PairRecord) -> bool:
    """Return the pair's flag; without one, whether any reference describes a change."""
    return record.changed if record.changed is not None else not all(map(is_no_change, record.captions))


def contradicts_itself(record: PairRecord) -> bool:
    """Return whether a pair is labelled unchanged, but its mask has :data:`CONTRADICTING` pixels or more.

    Such a pair is not learned, because either label may be wrong. A pair labelled changed may have an empty
    mask: masks hold only buildings, captions more.
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
        captions: reference sentences that are true of the images as they are, after any flip.
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
        DatasetLayoutInvalid: the file is missing, no image, or has more than 8 bits per value, whose range is
            unknown.
    """
    with _opened(path, "an image") as image:
        if _is_wide(image):
            raise DatasetLayoutInvalid(
                f"{path}: has more than 8 bits per value; write 8-bit images, both dates stretched equally"
            )
        return np.ascontiguousarray(np.asarray(image.convert("RGB")).transpose(2, 0, 1))


def read_mask(path: Path) -> np.ndarray:
    """Read a mask file as (H, W) bool, True where the value is above half of its range.

    Values below 16 are class numbers, and so is a single grey beside 0: True above 0. The brightest band of
    colours is used, and the indices of a coloured palette.
    """
    with _opened(path, "a mask") as image:
        if image.mode == "P" and np.ptp(np.asarray(image.convert("RGB")), axis=-1).any():  # it has colours
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
    """Open an image; any failure is raised as DatasetLayoutInvalid."""
    try:
        with open_image(path) as image:
            yield image
    except FileNotFoundError as error:
        raise DatasetLayoutInvalid(f"{path}: no such file; check that the data set is complete") from error
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise DatasetLayoutInvalid(
            f"{path}: cannot be read as {what}; check that it is whole, and has 8 bits and at most 4 bands"
        ) from error


def _is_wide(image: Image.Image) -> bool:
    """Return whether the values of an image have 16 or 32 bits."""
    return image.mode in ("I", "F") or image.mode.startswith("I;")


def read_pair(record: PairRecord) -> PairSample:
    """Read the files of a record.

    Raises:
        DatasetLayoutInvalid: a file is missing, sizes of images and mask differ, or the window leaves them.
    """
    if record.read is not None:
        return record.read()
    before, after = read_rgb(record.before), read_rgb(record.after)
    if record.resize_after:
        after = resize(after, before.shape[1:])
    mask = read_mask(record.mask) if record.mask is not None else None
    if before.shape != after.shape or (mask is not None and mask.shape != before.shape[1:]):
        raise DatasetLayoutInvalid(f"{record.before}: the images or the mask of this pair differ in size")
    sample = PairSample(record.id, before, after, mask, record.captions, record.changed)
    if record.window is None:
        return sample
    left, top, side = record.window
    sample = map_arrays(sample, lambda array: array[..., top : top + side, left : left + side])
    if sample.before.shape[1:] != (side, side):
        raise DatasetLayoutInvalid(
            f"{record.before}: is smaller than the square at {left}, {top} of {side} px"
        )
    return sample


FLIPS = ("none", "horizontal", "vertical", "both")
_LEFT_RIGHT = {"left": "right", "right": "left", "east": "west", "west": "east"}
_TOP_BOTTOM = {
    **{"top": "bottom", "bottom": "top", "upper": "lower", "lower": "upper"},
    **{"north": "south", "south": "north", "above": "below", "below": "above"},
}


def flip_words(caption: str, flip: str) -> str:
    """Exchange a caption's words of direction as ``flip``, one of :data:`FLIPS`, flips the images."""
    swaps: dict[str, str] = {}
    if flip in ("horizontal", "both"):
        swaps |= _LEFT_RIGHT
    if flip in ("vertical", "both"):
        swaps |= _TOP_BOTTOM
    return re.sub(r"[a-z]+(?! angle)\b", lambda word: swaps.get(word[0], word[0]), caption)


def flip_array(array: np.ndarray, flip: str) -> np.ndarray:
    """Flip an array (..., H, W)."""
    if flip in ("horizontal", "both"):
        array = array[..., ::-1]
    if flip in ("vertical", "both"):
        array = array[..., ::-1, :]
    return np.ascontiguousarray(array)


def map_arrays(sample: PairSample, change: Callable[[np.ndarray], np.ndarray]) -> PairSample:
    """Apply a function to both images and the mask, each (..., H, W)."""
    mask = None if sample.mask is None else change(sample.mask)
    return replace(sample, before=change(sample.before), after=change(sample.after), mask=mask)


def flip_sample(sample: PairSample, flip: str) -> PairSample:
    """Flip both images, the mask and the captions' words of direction."""
    captions = tuple(flip_words(caption, flip) for caption in sample.captions)
    return replace(map_arrays(sample, lambda array: flip_array(array, flip)), captions=captions)


def resize_sample(sample: PairSample, size: int) -> PairSample:
    """Resize both images and the mask to ``size`` x ``size`` pixels."""
    return map_arrays(sample, lambda array: resize(array, (size, size)))


def collate(samples: Sequence[PairSample]) -> PairBatch:
    """Return a batch of samples of one size, without captions."""
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


def to_device(batch: PairBatch, device: torch.device) -> PairBatch:
    """Return a batch whose tensors lie on a device."""
    moved: dict[str, Any] = {
        name: value.to(device) if isinstance(value, torch.Tensor) else value
        for name, value in vars(batch).items()
    }
    return PairBatch(**moved)
