"""Are new roads and clearings found without buildings, and none where nothing changed? As Markdown.

    python benchmarks/lone_changes.py --data LEVIR-CC [--split val] [--model rscc-base]
    python benchmarks/lone_changes.py --masks CHANGE_MASKS --collection cdd [--model rscc-base]

Every pair runs through the product as a scene of its own, with the options that it has by default. Counted
are pairs in which a new road, or a clearing, is a change (``outline_of``), and those in which a sentence says
so: of the pairs of which at least two references say that a road came, or that trees are gone, with and
without a building in the mask, and of the unchanged pairs. Of a collection with masks, such as the
season-varying pairs, all pairs are counted, with their dates as they are and swapped.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from false_change_scenes import write_scene
from map_check import share_text

from rscc.captioner import Captioner
from rscc.data.benchmarks.change_masks import ChangeMasks
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import PairRecord, read_mask, read_pair, truly_changed
from rscc.markdown import table
from rscc.shipped import DEFAULT_MODEL
from rscc.text.statements import agreed, read_statement
from workflows import Change, caption_scene

TOLD = {"road": "a road came", "clearing": "trees are gone"}
"""What references, or a sentence, say of the kinds of changes by themselves."""


def is_told(kind: str, came: Iterable[str], gone: Iterable[str]) -> bool:
    """Return whether object classes that came and are gone tell of a kind."""
    return "road" in came if kind == "road" else "trees" in gone


def kinds_of(record: PairRecord) -> Iterator[tuple[str, str]]:
    """Yield the rows that a pair is counted in: a kind, and what the pair is."""
    if not truly_changed(record):
        yield from ((kind, "unchanged") for kind in TOLD)
        return
    statements = [read_statement(caption) for caption in record.captions]
    came, gone = (agreed([getattr(one, name) for one in statements]) for name in ("came", "gone"))
    for kind, words in TOLD.items():
        if record.mask is not None and is_told(kind, came, gone):
            yield kind, words + (", buildings too" if read_mask(record.mask).any() else ", no building")


def is_found(kind: str, changes: Sequence[Change]) -> tuple[bool, bool]:
    """Return whether one of the kind is a change of its own, and whether a sentence tells of one."""
    return (
        any(change.outline_of == kind for change in changes),
        any(is_told(kind, change.came, change.gone) for change in changes),
    )


def scenes(options: argparse.Namespace, folder: Path) -> Iterator[tuple[list[tuple[str, str]], list[str]]]:
    """Yield the rows of each pair that is counted, and its scenes, which are written to ``folder``."""
    masks = options.masks and ChangeMasks(options.masks, datasets=(options.collection,))
    for record in masks.records if masks else LevirCC(options.data, options.split).records:
        rows = [(kind, options.collection) for kind in TOLD] if masks else list(kinds_of(record))
        if not rows:
            continue
        sample = read_pair(record)
        dates = (("before", sample.before), ("after", sample.after))
        paths = [str(write_scene(folder / f"{name}.tif", image)) for name, image in dates]
        yield rows, paths
        if masks:
            yield rows, paths[::-1]


def main(words: Sequence[str] | None = None) -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path, help="folder in LEVIR-CC's layout")
    source.add_argument("--masks", type=Path, help="folder of pairs with change masks")
    parser.add_argument("--split", default="val", help="of --data")
    parser.add_argument("--collection", default="cdd", help="of --masks")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="name or folder")
    options = parser.parse_args(words)
    captioner = Captioner.load(options.model, device="cpu")
    counts: dict[tuple[str, str], list[tuple[bool, bool]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch:
        for rows, paths in scenes(options, Path(scratch)):
            changes = caption_scene(*paths, captioner).changes
            for kind, pair in rows:
                counts[kind, pair].append(is_found(kind, changes))
    lines = [
        (
            kind,
            pair,
            str(len(found)),
            *(share_text(sum(part), len(found)) for part in zip(*found, strict=True)),
        )
        for (kind, pair), found in sorted(counts.items())
    ]
    print(table(("kind", "pairs", "number", "a change of its own, %", "a sentence tells of one, %"), lines))


if __name__ == "__main__":
    main()
