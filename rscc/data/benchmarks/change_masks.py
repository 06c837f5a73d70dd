"""Pairs with change masks but no captions: ``index.csv``, ``A/``, ``B/``, ``label/``.

``index.csv`` has the columns file, dataset, width, height and gsd_m (metres per pixel).
"""

from __future__ import annotations

from pathlib import Path

from rscc.data.pairs import PairList, PairRecord
from rscc.data.single_dates import metres, read_index
from rscc.errors import DatasetLayoutInvalid


class ChangeMasks(PairList):
    """All pairs of the named collections.

    A pair larger than ``size`` on the ground counts for several crops in an epoch, four at most for
    imagery coarser than 0.5 m, since its crops are enlarged.
    """

    def __init__(self, root: str | Path, *, datasets: tuple[str, ...] = (), size: int = 256):
        """Read the index; images are read on access.

        Raises:
            DatasetLayoutInvalid: no index, a column is missing, or no pair is left.
        """
        self.root = Path(root)
        index = self.root / "index.csv"
        rows = [row for row in read_index(self.root) if not datasets or row.get("dataset") in datasets]
        self.records = []
        for row in rows:
            try:
                crops = (int(row["width"]) // size) * (int(row["height"]) // size)
                gsd, name = metres(row["gsd_m"]), row["file"]
            except (KeyError, ValueError, TypeError) as error:
                raise DatasetLayoutInvalid(f"{index}: a row lacks a column or a number ({error})") from error
            self.records.append(
                PairRecord(
                    id=name,
                    before=self.root / "A" / name,
                    after=self.root / "B" / name,
                    mask=self.root / "label" / name,
                    gsd=gsd,
                    crops=max(1, min(crops, 4) if gsd > 0.5 else crops),
                )
            )
        if not self.records:
            known = ", ".join(sorted({row.get("dataset", "") for row in read_index(self.root)})) or "no rows"
            raise DatasetLayoutInvalid(
                f"{index}: no pair of {', '.join(datasets) or 'any data set'} there; its column dataset has "
                f"{known}; name what is wanted by data.mask_datasets in a config, or by --mask-dataset"
            )
