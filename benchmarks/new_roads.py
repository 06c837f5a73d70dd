"""Are new roads found without buildings, and none where nothing changed? Pairs of a split, as Markdown.

    python benchmarks/new_roads.py --data LEVIR-CC [--split val] [--model rscc-base]

Every pair runs through the product as a scene of its own, with the options that it has by default. Counted
are pairs in which a new road is a change (``outline_of`` is ``road``), and those in which a sentence says
that one is built: of the pairs of which at least two references say that a road came, with and without a
building in the mask, and of the unchanged pairs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from false_change_scenes import write_scene
from map_check import share_text

from rscc.captioner import Captioner
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import PairRecord, read_mask, read_pair, truly_changed
from rscc.markdown import table
from rscc.text.statements import agreed, read_statement
from workflows import caption_scene


def kind_of(record: PairRecord) -> str | None:
    """Return which of the counted kinds a pair is of; None: of none."""
    if not truly_changed(record):
        return "unchanged"
    came = agreed([read_statement(caption).came for caption in record.captions])
    if "road" not in came or record.mask is None:
        return None
    return "a road came, buildings too" if read_mask(record.mask).any() else "a road came, no building"


def found(records: Iterable[PairRecord], captioner: Captioner) -> dict[str, list[tuple[bool, bool]]]:
    """Return by kind whether each pair has a road as a change, and whether a sentence of it names one."""
    counts: dict[str, list[tuple[bool, bool]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for record in records:
            kind = kind_of(record)
            if kind is None:
                continue
            sample = read_pair(record)
            dates = (("before", sample.before), ("after", sample.after))
            paths = [str(write_scene(Path(scratch) / f"{name}.tif", image)) for name, image in dates]
            changes = caption_scene(*paths, captioner).changes
            alone = any(change.outline_of == "road" for change in changes)
            counts.setdefault(kind, []).append((alone, any("road" in change.came for change in changes)))
    return counts


def main(words: Sequence[str] | None = None) -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True, help="folder in LEVIR-CC's layout")
    parser.add_argument("--split", default="val")
    parser.add_argument("--model", default="rscc-base", help="name or folder")
    options = parser.parse_args(words)
    counts = found(LevirCC(options.data, options.split).records, Captioner.load(options.model, device="cpu"))
    rows = [
        (kind, str(len(pairs)), *(share_text(sum(one[part] for one in pairs), len(pairs)) for part in (0, 1)))
        for kind, pairs in sorted(counts.items())
    ]
    print(
        table(("pairs", "number", "a road is a change, %", "a sentence says that a road is built, %"), rows)
    )


if __name__ == "__main__":
    main()
