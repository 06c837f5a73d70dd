"""Writes pairs into a new folder in LEVIR-CC's layout, which gets its name only when it is complete."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from rscc.data.pairs import PairSample
from rscc.errors import OutputExists

PARTS = ("A", "B", "label")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give a partial folder beside ``folder`` that takes its name at the end, or is removed on any error.

    Raises:
        OutputExists: the folder is there already.
    """
    if folder.exists():
        raise OutputExists(f"{folder} exists already; remove it or choose another --output")
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        yield partial
        partial.replace(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def make_split(folder: Path, split: str) -> None:
    """Make the image folders of a split."""
    for part in PARTS:
        (folder / "images" / split / part).mkdir(parents=True)


def write_pair(
    folder: Path, sample: PairSample, name: str, *, split: str, kind: str, gsd: float
) -> dict[str, Any]:
    """Write the images and the mask of a pair; return its entry in the captions file.

    Args:
        folder: with the folders of :func:`make_split`.
        sample: the pair, with a mask.
        name: of the three files.
        split, kind, gsd: of the entry.
    """
    assert sample.mask is not None
    arrays = (
        sample.before.transpose(1, 2, 0),
        sample.after.transpose(1, 2, 0),
        sample.mask.astype(np.uint8) * 255,
    )
    for part, array in zip(PARTS, arrays, strict=True):
        Image.fromarray(np.ascontiguousarray(array)).save(folder / "images" / split / part / name)
    return {
        "filename": name,
        "filepath": split,
        "split": split,
        "changeflag": int(bool(sample.changed)),
        "sentences": [{"tokens": text.split(), "raw": text} for text in sample.captions],
        "kind": kind,
        "gsd": gsd,
    }
