"""LEVIR-CC in its official layout: ``LevirCCcaptions.json`` and ``images/{train,val,test}/{A,B}``.

LEVIR-MCI's ``images/{split}/label`` masks are read when they are there, and so is an entry's ``kind``, which
names the type of its change.
"""

from __future__ import annotations

from typing import Any

from rscc.data.benchmarks.annotations import (
    SPLITS,
    PairDataset,
    clean_captions,
    file_name,
    list_of,
    read_annotations,
)
from rscc.data.pairs import PairRecord

__all__ = ["SPLITS", "LevirCC"]


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
        return PairRecord(
            id=name,
            before=folder / "A" / name,
            after=folder / "B" / name,
            mask=label if label.is_file() else None,
            captions=clean_captions([" ".join(one["tokens"]) for one in entry["sentences"]]),
            changed=None if flag is None else bool(flag),
            gsd=gsd,
            kind=str(entry.get("kind", "")),
            place=str((entry.get("levir_cd") or {}).get("image") or ""),
        )
