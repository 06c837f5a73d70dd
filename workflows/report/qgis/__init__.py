"""The QGIS styles, static files: changes by direction with labels, map tips and forms; pairs by state.

Captions come from strangers. The expressions of a style read them from the fields of a layer, and escape them
where they become HTML; no value is ever part of an expression.
"""

from collections.abc import Collection
from functools import cache
from importlib.resources import files

from rscc.text.change_facts import DIRECTIONS


def qgis_style(directions: Collection[str | None] | None = None) -> str:
    """Return the ``.qml`` of a layer of changes for QGIS 3.22 and later; it fits every report.

    Args:
        directions: those that the legend has, beside the one of all others; None: all.
    """
    absent = () if directions is None else set(DIRECTIONS) - set(directions)
    lines = file_text("changes.qml").splitlines(keepends=True)
    return "".join(line for line in lines if not any(f'<category value="{name}"' in line for name in absent))


def pairs_style() -> str:
    """Return the ``.qml`` for the footprints of an archive's pairs, coloured by their state."""
    return file_text("pairs.qml")


@cache
def file_text(name: str) -> str:
    """Return the text of a style or a template of this room."""
    return files("workflows.report.qgis").joinpath("files", name).read_text(encoding="utf-8")
