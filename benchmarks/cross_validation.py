"""Compares stages and ways to choose captions on places that they did not learn from, without a test split.

    python benchmarks/cross_validation.py folds --data DATA/levir_cc --output runs/cv
    rscc train --data runs/cv/fold0 --config rscc_base --trunk rscc-base --output runs/cv/captions0
    rscc train --data runs/cv/fold1 --config rscc_base --trunk rscc-base --output runs/cv/captions1
    python benchmarks/cross_validation.py score --folds runs/cv/fold0 runs/cv/fold1 \
        --models runs/cv/captions0/model runs/cv/captions1/model --beams 3 --support 8

``folds`` halves the places (tiles) of the training and validation pairs: each half is the training split of
one folder, and of the other half the pairs whose captions are surest (``trust`` is "pattern") are its
validation split. Both trainings together cost one. ``score`` counts the held-out pairs of both together,
each described by the model that did not learn from its place. P(changed) has no part in it: the captioner
is told that something changed. The trunk and the change head of a shipped model have seen the masks of most
places, the captioner has not.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rscc.captioner import Captioner
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import PairRecord
from rscc.evaluation.metrics import cider
from rscc.evaluation.predictions import read_batch
from rscc.evaluation.robustness import speaks_of_construction, swapped
from rscc.markdown import table
from rscc.text.object_classes import unnamed_objects
from rscc.text.reversal import describes_removal

SUREST = "pattern"
"""Value of ``trust`` of the pairs that are held out."""

ANNOTATIONS = "LevirCCcaptions.json"
COLUMNS = ("changed pairs", "CIDEr", "name other objects", "different sentences", "backwards: gone")


def place_of(entry: dict[str, Any]) -> str:
    """Return the tile that a pair was cut from; a pair of which it is not known is a place of its own."""
    return str((entry.get("levir_cd") or {}).get("image") or entry["filename"])


def halves(entries: Sequence[dict[str, Any]]) -> tuple[set[str], set[str]]:
    """Deal the places of some pairs into two halves with about as many pairs, changed ones above all."""
    pairs = Counter(map(place_of, entries))
    changed = Counter(place_of(entry) for entry in entries if entry["changeflag"])
    dealt: tuple[set[str], set[str]] = (set(), set())
    weights = [0.0, 0.0]
    for place in sorted(pairs, key=lambda one: (-changed[one], one)):
        half = int(weights[0] > weights[1])
        dealt[half].add(place)
        weights[half] += changed[place] + 0.3 * pairs[place]
    return dealt


def write_folds(data: Path, output: Path) -> list[Path]:
    """Write the two folders in the layout of the data; the images are linked."""
    content = json.loads((data / ANNOTATIONS).read_text(encoding="utf-8"))
    entries = [entry for entry in content["images"] if entry["split"] != "test"]
    surest = {place_of(entry) for entry in entries if entry.get("trust") == SUREST}
    held = halves([entry for entry in entries if place_of(entry) in surest])
    others = halves([entry for entry in entries if place_of(entry) not in surest])
    folders = []
    for number in range(2):
        images = [
            entry | {"split": "val" if place_of(entry) in held[number] else "train"}
            for entry in entries
            if place_of(entry) not in others[number]
        ]
        folder = output / f"fold{number}"
        folder.mkdir(parents=True)
        (folder / "images").symlink_to((data / "images").resolve())
        (folder / ANNOTATIONS).write_text(json.dumps(content | {"images": images}), encoding="utf-8")
        folders.append(folder)
    return folders


@dataclass
class HeldOut:
    """What was said of the held-out pairs that changed, and of those that are shown backwards.

    Attributes:
        captions, references: by pair.
        backwards: captions of the pairs that speak of construction, shown with their dates swapped.
    """

    captions: dict[str, str] = field(default_factory=dict)
    references: dict[str, tuple[str, ...]] = field(default_factory=dict)
    backwards: list[str] = field(default_factory=list)

    def row(self) -> tuple[str, ...]:
        """Return the columns of the table: see ``COLUMNS``."""
        ids = list(self.captions)
        wrong = unnamed_objects([self.captions[i] for i in ids], [self.references[i] for i in ids])
        objects = np.mean([bool(classes) for classes in wrong])
        gone = np.mean([describes_removal(caption) for caption in self.backwards])
        return (
            f"{len(ids)}",
            f"{cider(self.captions, self.references):.1f}",
            f"{100 * objects:.1f} %",
            f"{len(set(self.captions.values()))}",
            f"{100 * gone:.1f} %",
        )


def describe(captioner: Captioner, records: Sequence[PairRecord], beams: int) -> Iterator[str]:
    """Caption pairs of which it is known that they changed."""
    for start in range(0, len(records), 16):
        before, after, _ = read_batch(records[start : start + 16], captioner.card.tile_size)
        yield from (one.text for one in captioner.caption(before, after, beams=beams, assume_changed=True))


def hold_out(folds: Sequence[Path], models: Sequence[Path], *, beams: int, support: int = 0) -> HeldOut:
    """Describe the validation pairs of each fold by its model, which chooses its sentences as asked."""
    found = HeldOut()
    for fold, model in zip(folds, models, strict=True):
        captioner = Captioner.load(model)
        captioner.card = replace(captioner.card, support=support)
        changed = [record for record in LevirCC(fold, "val").records if record.changed]
        found.references |= {record.id: record.captions for record in changed}
        ids = (record.id for record in changed)
        found.captions |= dict(zip(ids, describe(captioner, changed, beams), strict=True))
        built = [swapped(record) for record in changed if speaks_of_construction(record.captions)]
        found.backwards += describe(captioner, built, beams)
    return found


def main(words: Sequence[str] | None = None) -> None:
    """Write the folds, or score models on them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    tasks = parser.add_subparsers(dest="task", required=True)
    folds = tasks.add_parser("folds")
    folds.add_argument("--data", type=Path, required=True)
    folds.add_argument("--output", type=Path, required=True)
    score = tasks.add_parser("score")
    score.add_argument("--folds", type=Path, nargs="+", required=True)
    score.add_argument("--models", type=Path, nargs="+", required=True, help="one of each fold, in order")
    score.add_argument("--beams", type=int, default=3)
    score.add_argument("--support", type=int, default=0, help="card.support, instead of the model's")
    arguments = parser.parse_args(words)
    if arguments.task == "folds":
        print(*write_folds(arguments.data, arguments.output), sep="\n")
        return
    found = hold_out(arguments.folds, arguments.models, beams=arguments.beams, support=arguments.support)
    print(table(COLUMNS, [found.row()]))


if __name__ == "__main__":
    main()
