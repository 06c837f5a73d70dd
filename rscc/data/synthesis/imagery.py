"""The imagery for synthesis: captioned training pairs, pairs with change masks, single dates."""

from pathlib import Path

import numpy as np

from rscc.data.benchmarks.change_masks import change_masks
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import PairRecord
from rscc.data.single_dates import index_of, read_rows, read_single_date
from rscc.errors import DatasetLayoutInvalid

FINEST, COARSEST = 0.25, 0.6
"""Metres per pixel of imagery that counts as native at 0.5 m."""


class Imagery:
    """Everything to draw from, only training splits.

    Attributes:
        names: option to the name of its folder.
        captioned: training pairs of the captioned data set.
        pairs: pairs with change masks at 0.25 to 0.6 m.
        roads, buildings: (image, metres per pixel) of single dates without and with building masks.
    """

    def __init__(
        self,
        data: Path,
        *,
        masks: Path | None = None,
        mask_datasets: tuple[str, ...] = ("levir_cd",),
        single_date: Path | None = None,
    ):
        """Read the indexes; images are read when drawn.

        Args:
            data: captioned data set in LEVIR-CC's layout.
            masks: folder of pairs with change masks, see
                :func:`~rscc.data.benchmarks.change_masks.change_masks`.
            single_date: folder of single dates, see :func:`rscc.data.single_dates.read_single_date`; a class
                is ``building`` or another, such as ``road``.
        """
        folders = {"data": data, "masks": masks, "single-date": single_date}
        self.names = {name: folder.name for name, folder in folders.items() if folder is not None}
        self.captioned: list[PairRecord] = LevirCC(data, "train")
        self.pairs, self._tinted = ([], frozenset()) if masks is None else _read_pairs(masks, mask_datasets)
        self._natural = [record for record in self.pairs if self.natural(record)]
        rows = [] if single_date is None else read_single_date(single_date)
        self.roads = [(path, gsd) for path, kind, gsd in rows if kind != "building"]
        self.buildings = [(path, gsd) for path, kind, gsd in rows if kind == "building"]

    def natural(self, record: PairRecord) -> bool:
        """Return whether a pair with a mask has its original colours."""
        return record.id not in self._tinted

    def draw_pair(self, rng: np.random.Generator, *, natural: bool = False) -> PairRecord:
        """Draw a pair with a change mask; a pair of n crops is drawn n times as often.

        Args:
            natural: only pairs in their original colours, if there are any.
        """
        if not self.pairs:
            raise DatasetLayoutInvalid(
                "crops, insertions and removals need pairs with change masks; give their folder with --masks"
            )
        pairs = (natural and self._natural) or self.pairs
        weights = np.array([record.crops for record in pairs], np.float64)
        return pairs[int(rng.choice(len(pairs), p=weights / weights.sum()))]

    def draw_natural(self, rng: np.random.Generator) -> PairRecord | None:
        """Draw a pair with a mask in its original colours; None if there is none."""
        return self._natural[int(rng.integers(len(self._natural)))] if self._natural else None

    def draw_scene(self, rng: np.random.Generator) -> tuple[Path, float]:
        """Draw one date of a mask pair, a captioned pair or a road image, and its metres per pixel."""
        kinds = [self._natural, self.roads, self.captioned]
        weights = np.array([0.5, 0.2, 0.3]) * [bool(kind) for kind in kinds]
        kind = int(rng.choice(3, p=weights / weights.sum()))
        if kind == 1:
            return self.roads[int(rng.integers(len(self.roads)))]
        records = self._natural if kind == 0 else self.captioned
        record = records[int(rng.integers(len(records)))]
        return (record.before if rng.random() < 0.5 else record.after), record.gsd or 0.5


def _read_pairs(root: Path, datasets: tuple[str, ...]) -> tuple[list[PairRecord], frozenset[str]]:
    """Return training pairs of about 0.5 m, and the ids of those with altered colours."""
    records = {record.id: record for record in change_masks(root, datasets=datasets)}
    native, tinted = [], set()
    for row in read_rows(index_of(root)):
        record = records.get(row.get("file", ""))
        if record is None or row.get("split", "train") != "train":
            continue
        if FINEST <= (record.gsd or 0) <= COARSEST:
            native.append(record)
        if "colour" in row.get("augmented", ""):
            tinted.add(record.id)
    if not native:
        raise DatasetLayoutInvalid(
            f"{root}: no training pair of {', '.join(datasets)} at {FINEST:g} to {COARSEST:g} m; select "
            "another collection with --mask-dataset"
        )
    return native, frozenset(tinted)
