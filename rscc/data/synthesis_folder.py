"""Writes made pairs as a folder in the layout of LEVIR-CC, whole or not at all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rscc.data.pair_folder import make_split, new_folder, write_pair
from rscc.data.synthesis import GSD, MadePair, SynthesisOptions


@dataclass(frozen=True)
class SynthesisSummary:
    """What was written.

    Attributes:
        folder: where.
        kinds: kind to number of pairs.
        changed: number of pairs that changed.
        examples: kind to the first caption of its first pair.
    """

    folder: Path
    kinds: dict[str, int]
    changed: int
    examples: dict[str, str]

    def as_text(self) -> str:
        """Return a few lines to print."""
        lines = [f"{self.kinds[kind]:6d}  {kind:14s} {self.examples[kind]}" for kind in self.kinds]
        total = sum(self.kinds.values())
        return "\n".join([*lines, f"{total:6d}  pairs, {self.changed} of them changed, in {self.folder}"])


def write_synthesis(
    pairs: Iterable[MadePair],
    folder: Path,
    options: SynthesisOptions,
    *,
    sources: dict[str, str],
    command: str = "",
) -> SynthesisSummary:
    """Write pairs to a new folder; it appears under its name only when it is complete.

    Args:
        pairs: what to write; images of 256 x 256 pixels.
        folder: must not exist.
        options: for the record.
        sources: name of each input to its folder, for the record.
        command: the command line, for the record.

    Raises:
        OutputExists: the folder is there already.
    """
    with new_folder(folder) as partial:
        entries, kinds, examples = _write_pairs(pairs, partial)
        changed = sum(entry["changeflag"] for entry in entries)
        content = {"dataset": "synthesis", "images": entries}
        (partial / "LevirCCcaptions.json").write_text(json.dumps(content) + "\n", encoding="utf-8")
        record: dict[str, Any] = {
            "command": command,
            "options": asdict(options),
            "sources": sources,
            "pairs": dict(kinds),
            "changed": changed,
        }
        (partial / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        (partial / "README.md").write_text(_readme(record), encoding="utf-8")
    return SynthesisSummary(folder, dict(kinds), changed, examples)


def _write_pairs(
    pairs: Iterable[MadePair], folder: Path
) -> tuple[list[dict[str, Any]], Counter[str], dict[str, str]]:
    """Write the images; return the entries of the captions file, the count and first caption of each kind."""
    make_split(folder, "train")
    entries: list[dict[str, Any]] = []
    kinds: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for pair in pairs:
        sample = pair.sample
        assert sample.captions
        name = f"{pair.kind}_{kinds[pair.kind]:06d}.png"
        kinds[pair.kind] += 1
        examples.setdefault(pair.kind, sample.captions[0])
        entry = write_pair(folder, sample, name, split="train", kind=pair.kind, gsd=GSD)
        entries.append(entry | {"made_from": list(pair.sources)})
    return entries, kinds, examples


def _readme(record: dict[str, Any]) -> str:
    rows = "".join(f"| {kind} | {number} |\n" for kind, number in record["pairs"].items())
    sources = "".join(f"- {name}: {folder}\n" for name, folder in record["sources"].items())
    return (
        "# Made-up pairs with captions\n\n"
        "Written by `rscc synthesize` in the layout of LEVIR-CC, split train only; "
        "read with `rscc train --also`.\n"
        "The images are cut from those of the sources and keep their licence; the captions come from a "
        "grammar.\n\n"
        f"| kind | pairs |\n|---|---|\n{rows}\n"
        f"Sources\n\n{sources}\n"
        f"Seed {record['options']['seed']}; `{record['command']}`\n"
    )
