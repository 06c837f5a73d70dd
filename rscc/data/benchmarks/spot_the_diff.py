"""Spot-the-Diff (Jhamtani and Berg-Kirkpatrick, EMNLP 2018) in its official layout, two settings.

``train.json``, ``val.json`` and ``test.json`` (in the root or in ``annotations/``) list ``img_id`` and
``sentences``; ``resized_images/`` (or ``images/``) holds ``<id>.png``, ``<id>_2.png`` and ``<id>_diff.png``,
which is not read. Every entry is a pair; some images were described by two people and occur twice.

The two frames of a pair were chosen because they differ: every pair counts as changed, even the one in a
hundred whose writer saw nothing. "Left" and "right" may mean the two frames, so do not flip these images.
"""

from collections import Counter

from rscc.data.benchmarks.annotations import (
    PairDataset,
    clean_captions,
    folder_of,
    list_of,
    read_annotations,
)
from rscc.data.pairs import PairRecord, file_name


class SpotTheDiff(PairDataset):
    """One-sentence setting of the papers: each sentence of an entry is a reference."""

    title = "Spot-the-Diff"

    def read_records(self, trust: tuple[str, ...]) -> list[PairRecord]:
        """Read the entries of the split's file."""
        images = folder_of(self.root, "resized_images", "images")
        seen: Counter[str] = Counter()
        records = []
        folder = folder_of(self.root, "annotations", ".")
        with read_annotations(folder / f"{self.split}.json", self.title) as content:
            for entry in list_of(content, dict):
                name = file_name(entry["img_id"])
                seen[name] += 1
                records.append(
                    PairRecord(
                        id=name if seen[name] == 1 else f"{name} ({seen[name]})",
                        before=images / f"{name}.png",
                        after=images / f"{name}_2.png",
                        captions=self.references(clean_captions(entry["sentences"])),
                        changed=True,
                    )
                )
        return records

    def references(self, sentences: tuple[str, ...]) -> tuple[str, ...]:
        """Return the references made of an entry's sentences."""
        return sentences


class SpotTheDiffMulti(SpotTheDiff):
    """Multi-sentence setting: all sentences of an entry, in order, are one reference."""

    def references(self, sentences: tuple[str, ...]) -> tuple[str, ...]:
        """Return the sentences as one text."""
        return (" . ".join(sentences),) if sentences else ()
