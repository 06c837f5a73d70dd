"""Writes synthetic pairs as a folder in the layout of LEVIR-CC, complete or not at all."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from rscc.data.benchmarks.annotations import SPLITS
from rscc.data.benchmarks.change_masks import change_masks
from rscc.data.pairs import PairSample, read_pair
from rscc.data.synthesis import medium
from rscc.data.synthesis.medium import City, MediumPair
from rscc.data.synthesis.suburbs import GSD, SynthesisOptions, SyntheticPair
from rscc.errors import DatasetLayoutInvalid, OutputExists
from rscc.files import atomic_write

PARTS = ("A", "B", "label")


def write_synthesis(
    pairs: Iterable[SyntheticPair],
    folder: Path,
    options: SynthesisOptions,
    *,
    sources: dict[str, str],
    command: str = "",
) -> str:
    """Write pairs to a new folder, which gets its name when it is complete.

    Args:
        pairs: images of 256 x 256 pixels.
        options, sources, command: for the record: also the folder of each input, and the command line.

    Returns:
        Lines with the number of pairs of each kind, and the first caption of the first of them.
    """
    entries: list[dict[str, Any]] = []
    kinds: Counter[str] = Counter()
    examples: dict[str, str] = {}
    with new_folder(folder, "train") as draft:
        for pair in pairs:
            name = f"{pair.kind}_{kinds[pair.kind]:06d}.png"
            kinds[pair.kind] += 1
            examples.setdefault(pair.kind, pair.sample.captions[0])
            entry = write_pair(draft, pair.sample, name, split="train", kind=pair.kind, gsd=GSD)
            entries.append(entry | {"made_from": list(pair.sources)})
        changed = sum(entry["changeflag"] for entry in entries)
        record: dict[str, Any] = {
            "command": command,
            "options": asdict(options),
            "sources": sources,
            "pairs": dict(kinds),
            "changed": changed,
        }
        write_annotations(draft, {"dataset": "synthesis", "images": entries}, record)
        (draft / "README.md").write_text(_readme(record), encoding="utf-8")
    lines = [f"{number:6d}  {kind:14s} {examples[kind]}" for kind, number in kinds.items()]
    return "\n".join([*lines, f"{kinds.total():6d}  pairs, {changed} of them changed, in {folder}"])


def _readme(record: dict[str, Any]) -> str:
    rows = "".join(f"| {kind} | {number} |\n" for kind, number in record["pairs"].items())
    sources = "".join(f"- {name}: {folder}\n" for name, folder in record["sources"].items())
    return (
        "# Synthetic pairs with captions\n\n"
        "Written by `rscc synthesize` in the layout of LEVIR-CC, split train only; "
        "used with `rscc train --also`.\n"
        "The images are cut from those of the sources and keep their licence; the captions come from a "
        "grammar.\n\n"
        f"| kind | pairs |\n|---|---|\n{rows}\n"
        f"Sources\n\n{sources}\n"
        f"Seed {record['options']['seed']}; `{record['command']}`\n"
    )


@contextmanager
def new_folder(folder: Path, *splits: str) -> Iterator[Path]:
    """Give a draft beside ``folder`` that takes its name at the end, or is removed on any error.

    It has the folders for the images of the splits.
    """
    if folder.exists():
        raise OutputExists(f"{folder} exists already; remove it or choose another folder")
    with atomic_write(folder) as (draft,):
        for split, part in product(splits, PARTS):
            (draft / "images" / split / part).mkdir(parents=True)
        yield draft


def write_annotations(folder: Path, content: dict[str, Any], record: dict[str, Any]) -> None:
    """Write the captions file and the record of how the folder was made."""
    for name, values, indent in (("LevirCCcaptions.json", content, None), ("record.json", record, 1)):
        (folder / name).write_text(json.dumps(values, indent=indent) + "\n", encoding="utf-8")


def write_pair(
    folder: Path, sample: PairSample, name: str, *, split: str, kind: str, gsd: float
) -> dict[str, Any]:
    """Write the images and the mask of a pair; return its entry in the captions file."""
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


def read_cities(root: Path) -> list[City]:
    """Read a folder of city pairs with change masks, see ``change_masks``."""
    cities = []
    for record in change_masks(root):
        sample = read_pair(record)
        assert sample.mask is not None
        cities.append(City(Path(record.id).stem, sample.before, sample.after, sample.mask))
    return cities


def write_medium(pairs: Iterable[MediumPair], folder: Path, *, command: str) -> dict[str, dict[str, int]]:
    """Write tiles to a new folder, which gets its name when it is complete.

    Returns:
        Split to place to number of tiles; ``changed`` counts those of the split that changed.
    """
    counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
    entries = []
    with new_folder(folder, *SPLITS) as draft:
        for pair in pairs:
            count = counts[pair.split]
            name = f"{pair.place}_{count[pair.place]:04d}.png"
            count[pair.place] += 1
            count["changed"] += bool(pair.sample.changed)
            gsd = round(pair.gsd, 2)
            entries.append(write_pair(draft, pair.sample, name, split=pair.split, kind=pair.place, gsd=gsd))
        if empty := [split for split in SPLITS if not counts[split]]:
            raise DatasetLayoutInvalid(
                f"{folder}: no place is in the split {', '.join(empty)}; give the folder with all cities"
            )
        summary = {split: dict(counts[split]) for split in SPLITS}
        content = {"dataset": "medium", "gsd": medium.GSD, "images": entries}
        write_annotations(draft, content, {"command": command, "tiles": summary})
    return summary
