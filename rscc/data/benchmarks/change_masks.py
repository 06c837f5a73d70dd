"""Pairs with change masks but no captions: ``index.csv``, ``A/``, ``B/``, ``label/``.

``index.csv`` has the columns file, dataset, width, height and gsd_m (metres per pixel).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rscc.data.pairs import PairRecord
from rscc.data.single_dates import index_of, metres, read_rows, typed_rows
from rscc.errors import DatasetLayoutInvalid


def change_masks(root: Path, *, datasets: Sequence[str] = (), size: int = 256) -> list[PairRecord]:
    """Read all pairs of the named collections, or of all; no images.

    A pair larger than ``size`` pixels gives several crops per epoch, at most four if it is coarser than
    0.5 m, because its crops are enlarged.
    """
    index = index_of(root)
    columns: dict[str, Callable[[str], Any]] = {"file": str, "width": int, "height": int, "gsd_m": metres}
    records: list[PairRecord] = []
    for row in typed_rows(index, columns, lambda row: not datasets or row.get("dataset") in datasets):
        crops, name = (row["width"] // size) * (row["height"] // size), row["file"]
        records.append(
            PairRecord(
                id=name,
                before=root / "A" / name,
                after=root / "B" / name,
                mask=root / "label" / name,
                gsd=row["gsd_m"],
                crops=max(1, min(crops, 4) if row["gsd_m"] > 0.5 else crops),
            )
        )
    if not records:
        known = ", ".join(sorted({row.get("dataset", "") for row in read_rows(index)})) or "no rows"
        raise DatasetLayoutInvalid(
            f"{index}: no pair of {', '.join(datasets) or 'any data set'}; its column dataset has "
            f"{known}; select with data.mask_datasets in a config, or with --mask-dataset"
        )
    return records
