"""LEVIR-CC in its official layout: ``LevirCCcaptions.json`` and ``images/{train,val,test}/{A,B}``.

LEVIR-MCI's ``images/{split}/label`` masks are read when they are there, by the name of the pair or its stem
with a suffix of :data:`MASK_SUFFIXES`, and so is an entry's ``kind``, which names the type of its change.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rscc.data.benchmarks.annotations import PairDataset, clean_captions, list_of, read_annotations
from rscc.data.pairs import PairRecord, file_name

MASK_SUFFIXES = (".png", ".tif", ".tiff")
"""Of masks in another format than their images, which are often JPEG."""

_FLAGS = {None: None, 0: False, 1: True, "0": False, "1": True}


class LevirCC(PairDataset):
    """Pairs of one split of LEVIR-CC."""

    title = "LEVIR-CC"

    def read_records(self, trust: tuple[str, ...]) -> list[PairRecord]:
        """Read the entries of the split whose ``trust`` is wanted."""
        with read_annotations(self.root / "LevirCCcaptions.json", self.title) as content:
            gsd = float(content.get("gsd", 0.5))
            entries = [e for e in list_of(content["images"], dict) if e.get("split") == self.split]
            return [self._record(e, gsd) for e in entries if not trust or e.get("trust", trust[0]) in trust]

    def _record(self, entry: dict[str, Any], gsd: float) -> PairRecord:
        name = file_name(entry["filename"])
        folder = self.root / "images" / file_name(entry.get("filepath", self.split))
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


def _sentence(one: dict[str, Any]) -> str:
    """Return a sentence: its ``tokens``, a list of words or one text, or without them what is ``raw``."""
    words = one["tokens"] if "tokens" in one or "raw" not in one else one["raw"]
    return words if isinstance(words, str) else " ".join(list_of(words, str))
