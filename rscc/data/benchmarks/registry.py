"""The captioned data sets by name."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from rscc.data.benchmarks.clevr import ClevrChange, ClevrDC
from rscc.data.benchmarks.dubai_cc import DubaiCC
from rscc.data.benchmarks.image_editing_request import ImageEditingRequest
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.benchmarks.spot_the_diff import SpotTheDiff, SpotTheDiffMulti
from rscc.data.pairs import PairRecord


class Reader(Protocol):
    """What training and evaluation need of a data set."""

    records: list[PairRecord]


class ReaderClass(Protocol):
    """Opens one split of a data set."""

    def __call__(self, root: str | Path, split: str = "train", *, trust: tuple[str, ...] = ()) -> Reader:
        """Read the annotations; images are read later."""


DATASETS: dict[str, ReaderClass] = {
    "levir_cc": LevirCC,
    "dubai_cc": DubaiCC,
    "clevr_change": ClevrChange,
    "clevr_dc": ClevrDC,
    "spot_the_diff": SpotTheDiff,
    "spot_the_diff_multi": SpotTheDiffMulti,
    "image_editing_request": ImageEditingRequest,
}
