"""CLEVR-Change (Park et al., ICCV 2019) and CLEVR-DC in their official layouts.

CLEVR-Change: ``images/CLEVR_default_000000.png``, ``sc_images/CLEVR_semantic_000000.png`` (something changed)
and ``nsc_images/CLEVR_nonsemantic_000000.png`` (only camera and light moved), ``change_captions.json`` and
``no_change_captions.json`` (default image to its sentences), ``splits.json`` (split to image numbers) and
``type_mapping.json`` (color, material, add, drop, move to image files; the papers' "Texture" is ``material``
there). Every image of a split gives two pairs, the changed one first.
"""

from pathlib import Path

from rscc.data.benchmarks.annotations import (
    Benchmark,
    clean_captions,
    describes_change,
    list_of,
    read_annotations,
)
from rscc.data.pairs import PairRecord

_CHANGE, _DC = "CLEVR-Change", "CLEVR-DC"


def _read_change(root: Path, split: str, trust: tuple[str, ...]) -> list[PairRecord]:
    with read_annotations(root / "splits.json", _CHANGE) as content:
        numbers = [f"{number:06d}.png" for number in list_of(content[split], int)]
    with read_annotations(root / "type_mapping.json", _CHANGE) as content:
        named = {name: kind for kind, names in content.items() for name in list_of(names, str)}
        kinds = {number: named[number] for number in numbers}
    changed = _captions(root / "change_captions.json", numbers)
    unchanged = _captions(root / "no_change_captions.json", numbers)
    records = []
    for number in numbers:
        before = root / "images" / f"CLEVR_default_{number}"
        name = f"CLEVR_semantic_{number}"
        after, captions = root / "sc_images" / name, changed[number]
        records.append(PairRecord(name, before, after, captions=captions, changed=True, kind=kinds[number]))
        name = f"CLEVR_nonsemantic_{number}"
        after, captions = root / "nsc_images" / name, unchanged[number]
        records.append(PairRecord(name, before, after, captions=captions, changed=False))
    return records


def _captions(file: Path, numbers: list[str]) -> dict[str, tuple[str, ...]]:
    with read_annotations(file, _CHANGE) as content:
        return {number: clean_captions(content[f"CLEVR_default_{number}"]) for number in numbers}


def _read_dc(root: Path, split: str, trust: tuple[str, ...]) -> list[PairRecord]:
    with read_annotations(root / "split.json", _DC) as content:
        names = [f"{number}.png" for number in list_of(content[split], int)]
    with read_annotations(root / "captions.json", _DC) as content:
        sentences = {key.removesuffix(".png"): texts for key, texts in content.items()}
        captions = {name: clean_captions(sentences[name.removesuffix(".png")]) for name in names}
    return [
        PairRecord(
            id=name,
            before=root / "bef" / name,
            after=root / "aft" / name,
            captions=captions[name],
            changed=describes_change(captions[name]),
        )
        for name in names
    ]


ClevrChange = Benchmark(_CHANGE, _read_change)
"""``record.kind`` is the type of a changed pair."""
ClevrDC = Benchmark(_DC, _read_dc)
