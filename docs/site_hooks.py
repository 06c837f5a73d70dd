"""What ``make docs`` changes in the pages: links to files of the repository that are no part of the site."""

from __future__ import annotations

import re
from typing import Any

# A link to a file above docs/, or to a folder.
OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\((?:\.\./[^)]*|[^):]*/)\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page in which such links are their text alone."""
    return OUTSIDE.sub(r"\1", markdown)
