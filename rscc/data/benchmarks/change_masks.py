"""Pairs with change masks but no captions: of folders, and of data sets of TorchGeo.

A folder has ``index.csv``, ``A/``, ``B/`` and ``label/``; ``index.csv`` has the columns file, dataset, width,
height and gsd_m (metres per pixel). A data set of TorchGeo is named ``torchgeo:CLASS:ROOT``.
"""

import inspect
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rscc.data.pairs import PairRecord, PairSample
from rscc.data.single_dates import converted_rows, index_of, metres, read_rows
from rscc.errors import DatasetLayoutInvalid, extra, first_line

PREFIX = "torchgeo:"


def change_masks(root: Path, *, datasets: Sequence[str] = (), size: int = 256) -> list[PairRecord]:
    """Read all pairs of the named collections, or of all; no images.

    A pair larger than ``size`` pixels gives several crops per epoch, at most four if it is coarser than
    0.5 m, because its crops are enlarged.
    """
    index = index_of(root)

    def record(row: dict[str, str]) -> PairRecord | None:
        if datasets and row.get("dataset") not in datasets:
            return None
        name, gsd = row["file"], metres(row["gsd_m"])
        crops = (int(row["width"]) // size) * (int(row["height"]) // size)
        return PairRecord(
            id=name,
            before=root / "A" / name,
            after=root / "B" / name,
            mask=root / "label" / name,
            gsd=gsd,
            crops=max(1, min(crops, 4) if gsd > 0.5 else crops),
        )

    records = list(filter(None, converted_rows(index, record)))
    if not records:
        known = ", ".join(sorted({row.get("dataset", "") for row in read_rows(index)})) or "no rows"
        raise DatasetLayoutInvalid(
            f"{index}: no pair of {', '.join(datasets) or 'any data set'}; its column dataset has "
            f"{known}; select with data.mask_datasets in a config, or with --mask-dataset"
        )
    return records


def torchgeo_pairs(name: str, *, size: int = 256) -> list[PairRecord]:
    """Return the training pairs of a data set as TorchGeo reads them; nothing is downloaded.

    Args:
        name: such as ``torchgeo:LEVIRCDPlus:data/levircd``: any data set whose samples have a pair of images
            and a mask.
        size: side of the crops: a larger pair gives several per epoch.

    Raises:
        DatasetLayoutInvalid: no such class, no data in the folder, or samples of another kind.
        ExtraNotInstalled: TorchGeo is not installed.
    """
    kind, _, root = name.removeprefix(PREFIX).partition(":")
    if not (kind and root):
        raise DatasetLayoutInvalid(f"{name}: give a class and a folder, such as torchgeo:LEVIRCDPlus:FOLDER")
    with extra("torchgeo", f"--masks {name}"):
        from torchgeo import datasets
    found = getattr(datasets, kind, None)
    if not (isinstance(found, type) and issubclass(found, datasets.NonGeoDataset)):
        raise DatasetLayoutInvalid(f"{name}: TorchGeo has no data set {kind} with samples of its own")
    known = inspect.signature(found).parameters
    options = {"root": root, "split": "train", "download": False, "bands": getattr(found, "rgb_bands", None)}
    given = {key: value for key, value in options.items() if key in known and value is not None}
    try:
        data = found(**given)
        shape = _pair(data, 0, name).before.shape
    except (datasets.DatasetNotFoundError, OSError, RuntimeError, AssertionError, ValueError) as error:
        raise DatasetLayoutInvalid(
            f"{name}: TorchGeo cannot read it ({first_line(error)[:160]}); check the folder"
        ) from error
    crops = max(1, (shape[1] // size) * (shape[2] // size))
    records = []
    for number in range(len(data)):
        place, read = Path(f"{name}/{number}"), partial(_pair, data, number, name)
        records.append(PairRecord(str(number), place, place, mask=place, crops=crops, read=read))
    return records


def _pair(data: Any, number: int, name: str) -> PairSample:
    """Read one pair; both dates get the same stretch where they are not in 0..255."""
    sample = data[number]
    images = sample.get("image")
    if images is None and {"image1", "image2"} <= set(sample):
        images = np.stack([np.asarray(sample[key]) for key in ("image1", "image2")])
    if images is None or "mask" not in sample or np.ndim(images) != 4 or len(images) != 2:
        raise DatasetLayoutInvalid(f"{name}: its samples are no pairs of images with a mask of changes")
    if images.shape[1] < 3:
        raise DatasetLayoutInvalid(f"{name}: its images have {images.shape[1]} bands; three are needed")
    dates = np.asarray(images, np.float32)[:, :3]
    if dates.max() > 255 or dates.max() <= 1:
        low, high = np.percentile(dates, (1, 99))
        dates = 255 * (dates - low) / max(float(high - low), 1e-6)
    before, after = np.clip(np.rint(dates), 0, 255).astype(np.uint8)
    return PairSample(str(number), before, after, _changed(np.asarray(sample["mask"])), (), None)


def _changed(mask: np.ndarray) -> np.ndarray:
    """Return (H, W) bool of a mask (H, W) or (1, H, W), or of one per date, which differ where changed."""
    if mask.ndim == 3 and len(mask) == 2:
        changed: np.ndarray = mask[0] != mask[1]
        return changed
    return mask.reshape(mask.shape[-2:]) > 0
