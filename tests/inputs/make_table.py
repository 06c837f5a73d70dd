"""Write docs/inputs.md: every input kind that has a test, and what the command makes of it.

Usage: python tests/inputs/make_table.py
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from kind import Kind
from kinds_files import FILES
from kinds_pixels import PIXELS
from kinds_places import PLACES
from kinds_refused import REFUSED

SECTIONS: dict[str, list[Kind]] = {**PLACES, **PIXELS, **FILES, **REFUSED}
KINDS: list[Kind] = [kind for kinds in SECTIONS.values() for kind in kinds]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "inputs.md"
START = """\
# What goes in, and what comes out

Each row is one test of `tests/inputs`: it writes two files as described, with one change drawn at a known
place of the map, and runs `rscc caption BEFORE AFTER` on them. *The change comes back* means that the
report has one polygon, that its centroid and, on average, its outline lie within half a working pixel of
the truth on the ground, that there is no other polygon, and that only the warnings of the row are shown.
"…" stands for any text. What a row does not mention is a GeoTIFF of three `uint8` bands, north-up, UTM,
0.5 m per pixel. The captioner of these tests is a simple one that calls a difference of brightness a
change: they are about the place, not about the words.

`python tests/inputs/make_table.py` writes this page from the rows; {count} rows.
"""


def page() -> str:
    """Return the text of the page."""
    parts = [START.format(count=len(KINDS))]
    for title, kinds in SECTIONS.items():
        parts.append(f"\n## {title}\n\n| input | what is built | result |\n|---|---|---|\n")
        parts += [f"| {_cell(kind.name)} | {_cell(kind.built)} | {_cell(kind.result)} |\n" for kind in kinds]
    return "".join(parts)


def _cell(text: str) -> str:
    return (text[:1].upper() + text[1:]).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
