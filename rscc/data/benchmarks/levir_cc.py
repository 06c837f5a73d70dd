"""LEVIR-CC in its official layout: ``LevirCCcaptions.json`` and ``images/{train,val,test}/{A,B}``.

Later data sets have the same layout, with another file of captions or other folders.

LEVIR-MCI's masks in ``images/{split}/label`` are read if present, by the name of the pair or its stem with a
suffix of :data:`MASK_SUFFIXES`, and so is an entry's ``kind``, the kind of its change.
"""

from functools import partial
from pathlib import Path
from typing import Any

from rscc.data.benchmarks.annotations import Benchmark, clean_captions, list_of, read_annotations
from rscc.data.pairs import PairRecord, file_name

MASK_SUFFIXES = (".png", ".tif", ".tiff")
"""Suffixes of masks in another format than their images, which are often JPEG."""

_FLAGS = {None: None, 0: False, 1: True, "0": False, "1": True}


def _read(
    root: Path,
    split: str,
    trust: tuple[str, ...],
    *,
    title: str,
    files: tuple[str, ...] = ("LevirCCcaptions.json",),
    gsd: float | None = None,
    images: str = "images/{}",
) -> list[PairRecord]:
    """Read the entries of the split, filtered by ``trust``.

    Args:
        files: names of the file of captions; the first that exists is read.
        gsd: metres per pixel, unless that file says otherwise; None if they differ.
        images: folder of the images of a split, which has ``A`` and ``B``.
    """
    captions = next(filter(Path.is_file, (root / name for name in files)), root / files[0])
    with read_annotations(captions, title) as content:
        gsd = float(content["gsd"]) if "gsd" in content else gsd
        entries = [e for e in list_of(content["images"], dict) if e.get("split", e.get("filepath")) == split]
        return [
            _record(entry, root / images.format(file_name(entry.get("filepath", split))), gsd)
            for entry in entries
            if not trust or entry.get("trust", trust[0]) in trust
        ]


def _record(entry: dict[str, Any], folder: Path, gsd: float | None) -> PairRecord:
    name = file_name(entry["filename"])
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
    """Return a sentence: its ``tokens``, a list of words or one text, or without them ``raw``."""
    words = one["tokens"] if "tokens" in one or "raw" not in one else one["raw"]
    return words if isinstance(words, str) else " ".join(list_of(words, str))


def _benchmark(title: str, **layout: Any) -> Benchmark:
    return Benchmark(title, partial(_read, title=title, **layout))


LevirCC = _benchmark("LEVIR-CC", gsd=0.5)
LevirCDC = _benchmark("LEVIR-CDC", files=("LevirCCcaptions.json", "captions.json"), gsd=0.5)
"""LEVIR-CC with change masks of buildings in ``images/<split>/label``."""
WhuCDC = _benchmark("WHU-CDC", files=("whuCCcaptions.json", "captions.json"), gsd=0.075)
"""7,434 pairs of 256 px with change masks of buildings."""
ForestChange = _benchmark("Forest-Change", files=("ForestChatcaptions.json", "captions.json"))
"""Pairs of forests with masks of lost forest; its captions have no flags of change."""
SecondCC = _benchmark("SECOND-CC", files=("SECOND-CC-AUG.json", "SECOND-CC.json"), images="{}/rgb")
"""Images in ``<split>/rgb``; the maps of land cover in ``<split>/sem`` are no change masks, and not read."""
