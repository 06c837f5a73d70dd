"""CLEVR-Change (Park et al., ICCV 2019) in its official layout.

``images/CLEVR_default_000000.png``, ``sc_images/CLEVR_semantic_000000.png`` (something changed) and
``nsc_images/CLEVR_nonsemantic_000000.png`` (only the camera and the light moved), ``change_captions.json``
and ``no_change_captions.json`` (default image to its sentences), ``splits.json`` (split to image numbers)
and ``type_mapping.json`` (color, material, add, drop, move to image files; the papers' "Texture" is
``material`` there). Every image of a split gives two pairs, the changed one first.
"""

from __future__ import annotations

from rscc.data.benchmarks.annotations import (
    PairDataset,
    clean_captions,
    list_of,
    read_annotations,
    speaks_of_change,
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
        changed, unchanged = (
            self._captions(name, numbers) for name in ("change_captions.json", "no_change_captions.json")
        )
        records = []
        for number in numbers:
            before = self.root / "images" / f"CLEVR_default_{number}"
            moved, still = f"CLEVR_semantic_{number}", f"CLEVR_nonsemantic_{number}"
            records += [
                PairRecord(
                    id=moved,
                    before=before,
                    after=self.root / "sc_images" / moved,
                    captions=changed[number],
                    changed=True,
                    kind=kinds[number],
                ),
                PairRecord(
                    id=still,
                    before=before,
                    after=self.root / "nsc_images" / still,
                    captions=unchanged[number],
                    changed=False,
                ),
            ]
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
            numbers = [str(number) for number in list_of(content[self.split], int)]
        with read_annotations(self.root / "captions.json", self.title) as content:
            named = {key.removesuffix(".png"): sentences for key, sentences in content.items()}
            captions = {number: clean_captions(named[number]) for number in numbers}
        return [
            PairRecord(
                id=f"{number}.png",
                before=self.root / "bef" / f"{number}.png",
                after=self.root / "aft" / f"{number}.png",
                captions=captions[number],
                changed=speaks_of_change(captions[number]),
            )
            for number in numbers
        ]
