"""Image Editing Request (Tan et al., ACL 2019) in its official layout.

``train.json``, ``valid.json`` and ``test.json`` list ``img0``, ``img1``, ``sents`` and ``uid``; ``images/``
holds the files. Training pairs have one request, the others three. Every pair was edited. If the two images
differ in size, the edited one is resized to the other.
"""

from pathlib import Path

from rscc.data.benchmarks.annotations import Benchmark, clean_captions, list_of, read_annotations
from rscc.data.pairs import PairRecord, file_name

_FILES = {"train": "train.json", "val": "valid.json", "test": "test.json"}
_TITLE = "Image Editing Request"


def _read(root: Path, split: str, trust: tuple[str, ...]) -> list[PairRecord]:
    images = root / "images"
    with read_annotations(root / _FILES[split], _TITLE) as content:
        return [
            PairRecord(
                id=str(entry["uid"]),
                before=images / file_name(entry["img0"]),
                after=images / file_name(entry["img1"]),
                captions=clean_captions(entry["sents"]),
                changed=True,
                resize_after=True,
            )
            for entry in list_of(content, dict)
        ]


ImageEditingRequest = Benchmark(_TITLE, _read)
