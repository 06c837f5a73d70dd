"""What two runs of the same have in common in their records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TIMES = ("started", "seconds")


def without_times(record: Mapping[str, Any], *others: str) -> dict[str, Any]:
    """Return the record of a run without its times, and without the fields named by ``others``."""
    return {name: value for name, value in record.items() if name not in (*TIMES, *others)}
