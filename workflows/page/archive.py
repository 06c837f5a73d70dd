"""The page of an archive: where its pairs lie, when, what was found in them, and their reports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workflows.files import write_together
from workflows.page.template import Template, check_page_name, data_text, legible

_TEMPLATE = Template(
    "archive.html",
    ("page.css", "archive.css"),
    ("base.js", "archive.js", "view.js", "pointer.js", "rows.js", "pairs.js"),
)


def write_archive_page(overview: Mapping[str, Any], path: str | Path, overwrite: bool = False) -> None:
    """Write an archive as a page.

    Args:
        overview: what :func:`workflows.archive.overview.archive_overview` made for this path.
        path: where the page goes.
        overwrite: a page that is there may be replaced.

    Raises:
        WorkflowError: see :func:`workflows.page.template.check_page_name`; nothing is left behind then.
    """
    path = check_page_name(path, overwrite)
    # The map is what the scripts that all pages share know a page by.
    chunks = list(_TEMPLATE.joined(data=data_text(legible({**overview, **overview["map"]}))))
    write_together({path: chunks})
