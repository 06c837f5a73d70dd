"""Write the page of an archive: a map of its pairs, their dates, their changes, links to their reports."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workflows.files import write_together
from workflows.report.page.template import Template, check_page_name, data_text, legible, page_file

_TEMPLATE = Template(
    "archive.html",
    ("page.css", "archive.css"),
    ("base.js", "archive.js", "view.js", "world.js", "pointer.js", "rows.js", "pairs.js"),
)


def write_archive_page(overview: Mapping[str, Any], path: str | Path, overwrite: bool = False) -> None:
    """Write an archive as a page.

    Args:
        overview: what :func:`workflows.archive.overview.archive_overview` made for this path.
    """
    path = check_page_name(path, overwrite)
    # The scripts that all pages share read the members of the map at the top level.
    data = data_text(legible({**overview, **overview["map"]}))
    chunks = list(_TEMPLATE.joined(data=data, world=page_file("world.json")))
    write_together({path: chunks})
