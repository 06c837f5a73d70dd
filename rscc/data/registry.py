"""The captioned data sets by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from rscc.data.levir_cc import LevirCC
from rscc.data.pairs import PairRecord


class Reader(Protocol):
    """What training and evaluation need of a data set."""

    records: list[PairRecord]


class ReaderClass(Protocol):
    """Opens one split of a data set."""

    def __call__(self, root: str | Path, split: str = "train", *, trust: tuple[str, ...] = ()) -> Reader:
        """Read the annotations; images are read later."""


DATASETS: dict[str, ReaderClass] = {"levir_cc": LevirCC}
