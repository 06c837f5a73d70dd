"""Writes medium-resolution tiles as a folder in the layout of LEVIR-CC, whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from rscc.data.annotations import SPLITS
from rscc.data.change_masks import ChangeMasks
from rscc.data.medium import GSD, City, MediumPair
from rscc.data.pairs import read_pair
from rscc.errors import DatasetLayoutInvalid, OutputExists


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
    if folder.exists():
        raise OutputExists(f"{folder} exists already; remove it or choose another --output")
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        for split in SPLITS:
            for part in ("A", "B", "label"):
                (partial / "images" / split / part).mkdir(parents=True)
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
        partial.replace(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return summary


def _write(pair: MediumPair, folder: Path, counts: Counter[str]) -> dict[str, Any]:
    sample = pair.sample
    assert sample.mask is not None
    name = f"{pair.place}_{counts[pair.place]:04d}.png"
    counts[pair.place] += 1
    counts["changed"] += bool(sample.changed)
    images = folder / "images" / pair.split
    for part, array in (
        ("A", sample.before.transpose(1, 2, 0)),
        ("B", sample.after.transpose(1, 2, 0)),
        ("label", sample.mask.astype(np.uint8) * 255),
    ):
        Image.fromarray(np.ascontiguousarray(array)).save(images / part / name)
    return {
        "filename": name,
        "filepath": pair.split,
        "split": pair.split,
        "changeflag": int(bool(sample.changed)),
        "sentences": [{"tokens": text.split(), "raw": text} for text in sample.captions],
        "kind": pair.place,
        "gsd": round(pair.gsd, 2),
    }
