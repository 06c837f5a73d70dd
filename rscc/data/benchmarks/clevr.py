"""CLEVR-Change (Park et al., ICCV 2019) and CLEVR-DC in their official layouts.

CLEVR-Change: ``images/CLEVR_default_000000.png``, ``sc_images/CLEVR_semantic_000000.png`` (something changed)
and ``nsc_images/CLEVR_nonsemantic_000000.png`` (only camera and light moved), ``change_captions.json`` and
``no_change_captions.json`` (default image to its sentences), ``splits.json`` (split to image numbers) and
``type_mapping.json`` (color, material, add, drop, move to image files; the papers' "Texture" is ``material``
there). Every image of a split gives two pairs, the changed one first.
"""

from rscc.data.benchmarks.annotations import (
    PairDataset,
    clean_captions,
    describes_change,
    list_of,
    read_annotations,
)
from rscc.data.pairs import PairRecord


class ClevrChange(PairDataset):
    """Pairs of one split of CLEVR-Change; ``record.kind`` is the type of a changed pair."""

    title = "CLEVR-Change"

    def read_records(self, trust: tuple[str, ...]) -> list[PairRecord]:
        """Read the two pairs of every image of the split."""
        with read_annotations(self.root / "splits.json", self.title) as content:
            numbers = [f"{number:06d}.png" for number in list_of(content[self.split], int)]
        with read_annotations(self.root / "type_mapping.json", self.title) as content:
            named = {name: kind for kind, names in content.items() for name in list_of(names, str)}
            kinds = {number: named[number] for number in numbers}
        changed = self._captions("change_captions.json", numbers)
        unchanged = self._captions("no_change_captions.json", numbers)
        records = []
        for number in numbers:
            before = self.root / "images" / f"CLEVR_default_{number}"
            name = f"CLEVR_semantic_{number}"
            after, captions = self.root / "sc_images" / name, changed[number]
            records.append(
                PairRecord(name, before, after, captions=captions, changed=True, kind=kinds[number])
            )
            name = f"CLEVR_nonsemantic_{number}"
            after, captions = self.root / "nsc_images" / name, unchanged[number]
            records.append(PairRecord(name, before, after, captions=captions, changed=False))
        return records

    def _captions(self, file: str, numbers: list[str]) -> dict[str, tuple[str, ...]]:
        with read_annotations(self.root / file, self.title) as content:
            return {number: clean_captions(content[f"CLEVR_default_{number}"]) for number in numbers}


class ClevrDC(PairDataset):
    """Pairs of one split of CLEVR-DC."""

    title = "CLEVR-DC"

    def read_records(self, trust: tuple[str, ...]) -> list[PairRecord]:
        """Read the pairs of the split."""
        with read_annotations(self.root / "split.json", self.title) as content:
            names = [f"{number}.png" for number in list_of(content[self.split], int)]
        with read_annotations(self.root / "captions.json", self.title) as content:
            sentences = {key.removesuffix(".png"): texts for key, texts in content.items()}
            captions = {name: clean_captions(sentences[name.removesuffix(".png")]) for name in names}
        return [
            PairRecord(
                id=name,
                before=self.root / "bef" / name,
                after=self.root / "aft" / name,
                captions=captions[name],
                changed=describes_change(captions[name]),
            )
            for name in names
        ]
