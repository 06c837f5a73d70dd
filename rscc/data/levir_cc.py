"""LEVIR-CC in its official layout: ``LevirCCcaptions.json`` and ``images/{train,val,test}/{A,B}``.

LEVIR-MCI's ``images/{split}/label`` masks are read when they are there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torchgeo.datasets import NonGeoDataset

from rscc.data.pairs import PairRecord, PairSample, read_pair
from rscc.errors import DatasetLayoutInvalid

SPLITS = ("train", "val", "test")


class LevirCC(NonGeoDataset):
    """Pairs of one split; indexing gives a :class:`~rscc.data.pairs.PairSample`.

    Attributes:
        records: what is known of each pair, in the order of the captions file.
    """

    def __init__(self, root: str | Path, split: str = "train", *, trust: tuple[str, ...] = ()):
        """Read the captions file; images are read on access.

        Args:
            root: folder that holds ``LevirCCcaptions.json``.
            split: ``train``, ``val`` or ``test``.
            trust: keep only pairs whose ``trust`` field is one of these; pairs without it always stay.

        Raises:
            DatasetLayoutInvalid: no captions file, another format, an unknown split, or an empty one.
        """
        self.root, self.split = Path(root), split
        if split not in SPLITS:
            raise DatasetLayoutInvalid(f"LEVIR-CC has no split {split!r}; use one of {', '.join(SPLITS)}")
        entries = [entry for entry in _read_entries(self.root) if entry.get("split") == split]
        self.records = [self._record(e) for e in entries if not trust or e.get("trust", trust[0]) in trust]
        if not self.records:
            raise DatasetLayoutInvalid(f"{self.root}: no pair of split {split!r} in LevirCCcaptions.json")

    def _record(self, entry: dict[str, Any]) -> PairRecord:
        try:
            name = str(entry["filename"])
            captions = tuple(" ".join(sentence["tokens"]).lower() for sentence in entry["sentences"])
        except (KeyError, TypeError) as error:
            raise DatasetLayoutInvalid(
                f"{self.root / 'LevirCCcaptions.json'}: an entry lacks a file name or sentences ({error!r})"
            ) from error
        folder = self.root / "images" / entry.get("filepath", self.split)
        label = folder / "label" / name
        flag = entry.get("changeflag")
        return PairRecord(
            id=name,
            before=folder / "A" / name,
            after=folder / "B" / name,
            mask=label if label.is_file() else None,
            captions=captions,
            changed=None if flag is None else bool(flag),
            gsd=0.5,
        )

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.records)

    def __getitem__(self, index: int) -> PairSample:
        """Read pair ``index`` from disk."""
        return read_pair(self.records[index])


def _read_entries(root: Path) -> list[dict[str, Any]]:
    path = root / "LevirCCcaptions.json"
    if not path.is_file():
        raise DatasetLayoutInvalid(f"{root}: no LevirCCcaptions.json there; give the folder that holds it")
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["images"]
    except (ValueError, KeyError, TypeError) as error:
        raise DatasetLayoutInvalid(f"{path}: not a LEVIR-CC captions file ({error!r})") from error
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise DatasetLayoutInvalid(f"{path}: not a LEVIR-CC captions file ('images' is no list of entries)")
    return entries
