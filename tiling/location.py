"""What a user may call a scene, turned into what GDAL opens."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Location:
    """Where the bytes of a scene are.

    Attributes:
        shown: what messages and records say: as the user wrote it, without user, password and query.
        source: what GDAL opens; it may hold a signature, so it is never shown.
        local: the file on this machine that holds the scene, None for one on a server.
    """

    shown: str
    source: str = field(repr=False)
    local: Path | None


def locate(path: str | Path) -> Location:
    """Return where a scene is that was named ``path``; ``locate(location.source)`` finds it again."""
    return Location(str(path), os.path.abspath(path), Path(path))
