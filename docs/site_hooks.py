"""A hook of ``make docs`` that replaces links to files outside docs/ by their text."""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\((?:\.\./[^)]*|[^):]*/)\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace links that leave docs/ by their text."""
    return OUTSIDE.sub(r"\1", markdown)
