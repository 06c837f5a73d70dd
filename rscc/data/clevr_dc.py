"""CLEVR-DC (Kim et al., ICCV 2021) in its official layout.

``bef/<number>.png``, ``aft/<number>.png``, ``captions.json`` (number to its sentences) and ``split.json``
(split to numbers). The release was not at hand in full: the names are those of its public description and
of the scripts that others use to convert it; the numbers may end in ``.png`` in ``captions.json``. It has
no file of change types and no flags: a pair counts as changed when one of its sentences speaks of a change.
"""

from __future__ import annotations

from rscc.data.annotations import PairDataset, clean_captions, list_of, read_annotations, speaks_of_change
from rscc.data.pairs import PairRecord


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
