"""All rows of the table of input kinds, by section, in the order of the page."""

from __future__ import annotations

from kind import Kind
from kinds_files import FILES
from kinds_pixels import PIXELS
from kinds_places import PLACES
from kinds_refused import REFUSED

SECTIONS: dict[str, list[Kind]] = {**PLACES, **PIXELS, **FILES, **REFUSED}
KINDS: list[Kind] = [kind for kinds in SECTIONS.values() for kind in kinds]
