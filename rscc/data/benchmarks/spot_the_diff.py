"""Spot-the-Diff (Jhamtani and Berg-Kirkpatrick, EMNLP 2018) in its official layout, two settings.

``train.json``, ``val.json`` and ``test.json`` (in the root or in ``annotations/``) list ``img_id`` and
``sentences``; ``resized_images/`` (or ``images/``) holds ``<id>.png``, ``<id>_2.png`` and ``<id>_diff.png``,
which is not read. Every entry is a pair; some images were described by two people and occur twice.

The two frames of a pair were chosen because they differ: every pair counts as changed, even the one in a
hundred whose writer saw nothing. "Left" and "right" may mean the two frames, so do not flip these images.
"""

from collections import Counter
from functools import partial
from pathlib import Path

from rscc.data.benchmarks.annotations import Benchmark, clean_captions, folder_of, list_of, read_annotations
from rscc.data.pairs import PairRecord, file_name

_TITLE = "Spot-the-Diff"


def _read(root: Path, split: str, trust: tuple[str, ...], *, joins: bool = False) -> list[PairRecord]:
    """Read the entries of the split's file; with ``joins`` the sentences of each become one reference."""
    images = folder_of(root, "resized_images", "images")
    seen: Counter[str] = Counter()
    records = []
    with read_annotations(folder_of(root, "annotations", ".") / f"{split}.json", _TITLE) as content:
        for entry in list_of(content, dict):
            name = file_name(entry["img_id"])
            seen[name] += 1
            sentences = clean_captions(entry["sentences"])
            records.append(
                PairRecord(
                    id=name if seen[name] == 1 else f"{name} ({seen[name]})",
                    before=images / f"{name}.png",
                    after=images / f"{name}_2.png",
                    captions=(" . ".join(sentences),) if joins and sentences else sentences,
                    changed=True,
                )
            )
    return records


SpotTheDiff = Benchmark(_TITLE, _read)
"""One-sentence setting of the papers: each sentence of an entry is a reference."""
SpotTheDiffMulti = Benchmark(_TITLE, partial(_read, joins=True))
"""Multi-sentence setting: all sentences of an entry, in order, are one reference."""
