"""LEVIR-CC in its official layout: ``LevirCCcaptions.json`` and ``images/{train,val,test}/{A,B}``.

LEVIR-MCI's ``images/{split}/label`` masks are read when they are there, and so is an entry's ``kind``, which
names the type of its change.
"""

from __future__ import annotations

from typing import Any

from rscc.data.benchmarks.annotations import (
    PairDataset,
    clean_captions,
    file_name,
    list_of,
    read_annotations,
)
from rscc.data.pairs import PairRecord

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
        flag = entry.get("changeflag")
        if flag not in _FLAGS:
            raise ValueError(f"{name}: changeflag is {flag!r}; it is 0 or 1")
        return PairRecord(
            id=name,
            before=folder / "A" / name,
            after=folder / "B" / name,
            mask=label if label.is_file() else None,
            captions=clean_captions([_sentence(one["tokens"]) for one in entry["sentences"]]),
            changed=_FLAGS[flag],
            gsd=gsd,
            kind=str(entry.get("kind", "")),
            place=str((entry.get("levir_cd") or {}).get("image") or ""),
        )


def _sentence(tokens: Any) -> str:
    """Return the sentence of a list of words, or the one that stands in their place."""
    return tokens if isinstance(tokens, str) else " ".join(list_of(tokens, str))
