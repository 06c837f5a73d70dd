"""The content of ``maps.json``: what maps are of, and which rows are finished; it may come from anybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rscc.facts.answers import ANSWERS
from rscc.facts.ground_after import MEASURES
from rscc.facts.rules import FactRules
from rscc.files import parsed_json, read_file
from workflows.errors import MapsUnusable

ABOUT = "maps.json"
FORMAT = 1
"""Raised when the content of the folder changes its meaning."""
ROADS = ("road before", "road after")
"""Bands of the evidence from a road head."""
FAMILIARITY = "familiarity"
"""Band of the evidence with the logit of ground that is like the training data."""


@dataclass(frozen=True)
class Row:
    """Finished rows of pixels, from one row of tiles.

    Attributes:
        start, stop: the first row of pixels of the working grid, and the first one below.
        positions: the first row of positions of the evidence, and the first one below.
        counts: of its tiles: ``tiles``, ``blank``, ``identical``, ``ruled_out``.
        lone: for each of :data:`LONE` whether a pixel is not 0.
        has_nodata: whether a pixel has no data.
        checksums: CRC-32 of the bands of the probability, then of the evidence.
    """

    start: int
    stop: int
    positions: tuple[int, int]
    counts: dict[str, int]
    lone: tuple[bool, ...]
    has_nodata: bool
    checksums: tuple[int, ...]


def read_about(folder: Path) -> tuple[dict[str, Any], dict[int, Row]]:
    """Return the content of ``maps.json``, and its rows."""
    try:
        about = parsed_json(read_file(folder / ABOUT))
        if about["format"] != FORMAT:
            raise ValueError("another format")
        rows = [
            Row(
                int(row["start"]),
                int(row["stop"]),
                (int(row["positions"][0]), int(row["positions"][1])),
                {str(name): int(count) for name, count in row["counts"].items()},
                tuple(map(bool, row["lone"])),
                bool(row["has_nodata"]),
                tuple(map(int, row["checksums"])),
            )
            for row in about.pop("rows")
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise no_maps(folder) from error
    return about, {row.start: row for row in rows}


def check_described(about: Mapping[str, Any]) -> None:
    """Check what a report is made of beside the rasters; raises KeyError, TypeError or ValueError."""
    texts = [about["model"]["name"], about["model"]["version"]]
    for role in ("before", "after"):
        texts += [about["inputs"][role]["path"], about["inputs"][role]["date"] or ""]
    described, answers = [about["settings"], about["tiling"]], about["answers"]
    of_facts = () if about["rules"] is None else ANSWERS
    further = (*ROADS, *MEASURES, FAMILIARITY)
    named = [*of_facts, *(name for name in further if name in answers)]
    is_sound = all(isinstance(text, str) for text in texts) and all(isinstance(d, dict) for d in described)
    if not is_sound or answers != named:
        raise ValueError("the description is damaged")


def rules_of(content: Any) -> FactRules | None:
    """Return the rules in ``maps.json``; raises KeyError, TypeError or ValueError where they are damaged."""
    if content is None:
        return None
    slopes, offsets, sure = (tuple(map(float, content[name])) for name in ("slopes", "offsets", "sure"))
    if not len(slopes) == len(offsets) == len(sure) == len(ANSWERS):
        raise ValueError("the rules do not fit")
    if not np.isfinite([slopes, offsets, sure]).all():
        raise ValueError("the rules are no numbers")
    return FactRules(slopes, offsets, sure)


def no_maps(folder: Path) -> MapsUnusable:
    """Return the error for a folder without maps of ours."""
    return MapsUnusable(f"{folder}: it holds no maps that rscc wrote, or they are damaged")
