"""Writes medium-resolution tiles as a folder in the layout of LEVIR-CC, whole or not at all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rscc.data.annotations import SPLITS
from rscc.data.change_masks import ChangeMasks
from rscc.data.medium import GSD, City, MediumPair
from rscc.data.pair_folder import make_split, new_folder, write_pair
from rscc.data.pairs import read_pair
from rscc.errors import DatasetLayoutInvalid


def read_cities(root: Path) -> list[City]:
    """Read a folder of city pairs with change masks, see :class:`~rscc.data.change_masks.ChangeMasks`.

    Raises:
        DatasetLayoutInvalid: files are missing or of different sizes.
    """
    cities = []
    for record in ChangeMasks(root).records:
        sample = read_pair(record)
        assert sample.mask is not None
        cities.append(City(Path(record.id).stem, sample.before, sample.after, sample.mask))
    return cities


def write_medium(pairs: Iterable[MediumPair], folder: Path, *, command: str) -> dict[str, dict[str, int]]:
    """Write tiles to a new folder; it appears under its name only when it is complete.

    Returns:
        split to place to number of tiles; ``changed`` counts those of the split that changed.

    Raises:
        OutputExists: the folder is there already.
        DatasetLayoutInvalid: a split got no tile.
    """
    with new_folder(folder) as partial:
        for split in SPLITS:
            make_split(partial, split)
        counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
        entries = [_write(pair, partial, counts[pair.split]) for pair in pairs]
        empty = [split for split in SPLITS if not counts[split]]
        if empty:
            raise DatasetLayoutInvalid(
                f"{folder}: no place is in the split {', '.join(empty)}; give the folder with all cities"
            )
        summary = {split: dict(counts[split]) for split in SPLITS}
        content = {"dataset": "medium", "gsd": GSD, "images": entries}
        (partial / "LevirCCcaptions.json").write_text(json.dumps(content) + "\n", encoding="utf-8")
        record = {"command": command, "tiles": summary}
        (partial / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return summary


def _write(pair: MediumPair, folder: Path, counts: Counter[str]) -> dict[str, Any]:
    name = f"{pair.place}_{counts[pair.place]:04d}.png"
    counts[pair.place] += 1
    counts["changed"] += bool(pair.sample.changed)
    return write_pair(folder, pair.sample, name, split=pair.split, kind=pair.place, gsd=round(pair.gsd, 2))
