"""LEVIR-CC in its official layout: ``LevirCCcaptions.json`` and ``images/{train,val,test}/{A,B}``.

Later data sets have the same layout, with another file of captions or other folders.

LEVIR-MCI's masks in ``images/{split}/label`` are read if present, by the name of the pair or its stem with a
suffix of :data:`MASK_SUFFIXES`, and so is an entry's ``kind``, the kind of its change.
"""

from pathlib import Path
from typing import Any, ClassVar

from rscc.data.benchmarks.annotations import PairDataset, clean_captions, list_of, read_annotations
from rscc.data.pairs import PairRecord, file_name

MASK_SUFFIXES = (".png", ".tif", ".tiff")
"""Suffixes of masks in another format than their images, which are often JPEG."""

_FLAGS = {None: None, 0: False, 1: True, "0": False, "1": True}


class LevirCC(PairDataset):
    """Pairs of one split of LEVIR-CC.

    Attributes:
        files: names of the file of captions; the first that exists is read.
        gsd: metres per pixel, unless that file says otherwise; None if they differ.
    """

    title = "LEVIR-CC"
    files: ClassVar[tuple[str, ...]] = ("LevirCCcaptions.json",)
    gsd: ClassVar[float | None] = 0.5

    def read_records(self, trust: tuple[str, ...]) -> list[PairRecord]:
        """Read the entries of the split, filtered by ``trust``."""
        there = (self.root / name for name in self.files)
        captions = next(filter(Path.is_file, there), self.root / self.files[0])
        with read_annotations(captions, self.title) as content:
            gsd = float(content["gsd"]) if "gsd" in content else self.gsd
            images = list_of(content["images"], dict)
            entries = [e for e in images if e.get("split", e.get("filepath")) == self.split]
            return [self._record(e, gsd) for e in entries if not trust or e.get("trust", trust[0]) in trust]

    def image_folder(self, split: str) -> Path:
        """Return the folder of the images of a split, which has ``A`` and ``B``."""
        return self.root / "images" / split

    def _record(self, entry: dict[str, Any], gsd: float | None) -> PairRecord:
        name = file_name(entry["filename"])
        folder = self.image_folder(file_name(entry.get("filepath", self.split)))
        label = folder / "label" / name
        masks = (label, *map(label.with_suffix, MASK_SUFFIXES))
        flag = entry.get("changeflag")
        if flag not in _FLAGS:
            raise ValueError(f"{name}: changeflag is {flag!r}; it is 0 or 1")
        return PairRecord(
            id=name,
            before=folder / "A" / name,
            after=folder / "B" / name,
            mask=next(filter(Path.is_file, masks), None),
            captions=clean_captions([_sentence(one) for one in entry["sentences"]]),
            changed=_FLAGS[flag],
            gsd=gsd,
            kind=str(entry.get("kind", "")),
            place=str((entry.get("levir_cd") or {}).get("image") or ""),
        )


class LevirCDC(LevirCC):
    """LEVIR-CDC of RS-CDC: LEVIR-CC with change masks of buildings in ``images/<split>/label``."""

    title = "LEVIR-CDC"
    files = ("LevirCCcaptions.json", "captions.json")


class WhuCDC(LevirCC):
    """WHU-CDC of RS-CDC: 7,434 pairs of 256 px with change masks of buildings, 0.075 m per pixel."""

    title = "WHU-CDC"
    files = ("whuCCcaptions.json", "captions.json")
    gsd = 0.075


class ForestChange(LevirCC):
    """Forest-Change: pairs of forests with masks of lost forest; its captions have no flags of change."""

    title = "Forest-Change"
    files = ("ForestChatcaptions.json", "captions.json")
    gsd = None


class SecondCC(LevirCC):
    """SECOND-CC: ``SECOND-CC-AUG.json`` and ``<split>/rgb/{A,B}``.

    The maps of land cover in ``<split>/sem`` are no change masks and are not read.
    """

    title = "SECOND-CC"
    files = ("SECOND-CC-AUG.json", "SECOND-CC.json")
    gsd = None

    def image_folder(self, split: str) -> Path:
        """Return the folder of the colour images of a split."""
        return self.root / split / "rgb"


def _sentence(one: dict[str, Any]) -> str:
    """Return a sentence: its ``tokens``, a list of words or one text, or without them ``raw``."""
    words = one["tokens"] if "tokens" in one or "raw" not in one else one["raw"]
    return words if isinstance(words, str) else " ".join(list_of(words, str))
