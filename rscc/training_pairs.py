"""Which pairs a run learns from: its data set, further folders, and the captions of all pairs backwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rscc.config import Config
from rscc.data.pairs import PairRecord
from rscc.data.registry import DATASETS
from rscc.data.reversal import reverse_captions
from rscc.errors import DatasetLayoutInvalid


def training_parts(
    config: Config, train: Sequence[PairRecord], also: Sequence[Path], *, captioned: bool
) -> list[list[PairRecord]]:
    """Return the pairs of the data set and of each further folder, with captions for the way back.

    Args:
        config: of the run; captions are reversed where ``data.reversed`` is above 0.
        train: training pairs of the data set.
        also: further folders in the layout of ``data.name``, of which the train split is read.
        captioned: leave out pairs of the folders that have no captions.

    Returns:
        ``train`` first, then one list for each folder.

    Raises:
        DatasetLayoutInvalid: a folder is not in that layout, or has no such pair.
    """
    reader = DATASETS[config.data.name]
    parts = [list(train)]
    for folder in also:
        records = reader(folder, "train", trust=config.data.trust).records
        part = [record for record in records if record.captions or not captioned]
        if not part:
            raise DatasetLayoutInvalid(f"{folder}: no training pair has a caption; leave this folder out")
        parts.append(part)
    if config.data.reversed > 0:
        parts = [[add_reversal(record) for record in part] for part in parts]
    return parts


def add_reversal(record: PairRecord) -> PairRecord:
    """Return a record with the captions that are true when its dates are swapped, if there are any."""
    return replace(record, reversed_captions=reverse_captions(record.captions))


def every_caption(parts: Sequence[Sequence[PairRecord]]) -> list[str]:
    """Return all captions of all pairs, forwards and backwards, as often as they stand there."""
    return [
        caption
        for part in parts
        for record in part
        for caption in (*record.captions, *record.reversed_captions)
    ]
