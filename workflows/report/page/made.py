"""How a report was made, in terms for its page; a record may come from anybody."""

import re
from collections.abc import Iterator

from workflows.options import GROUP_DISTANCE, GROUP_PIXELS, MIN_AREA, MIN_PIXELS
from workflows.report.looked_at import number_in
from workflows.report.record import Run, of_scenes


def file_name(path: str | None) -> str | None:
    """Return the last part of a path of any system or of an address: folders are not for everybody."""
    return path and (re.split(r"[\\/]", path.rstrip("\\/"))[-1] or None)


def without_folders(text: str, run: Run) -> str:
    """Return a text that names the scenes of a record without their folders."""
    paths = filter(None, of_scenes(run, "path").values())
    for path in sorted(paths, key=len, reverse=True):
        text = text.replace(path, file_name(path) or path)
    return text


def how_made(run: Run) -> list[tuple[str, str]]:
    """Return names and values of what decided about the changes: threshold, tiles, limits."""
    return [(name, value) for name, value in _terms(run) if value]


def _terms(run: Run) -> Iterator[tuple[str, str | None]]:
    gsd, threshold = number_in(run, "tiling", "gsd"), number_in(run, "settings", "threshold")
    tile, overlap = number_in(run, "tiling", "tile"), number_in(run, "tiling", "overlap")
    yield "Threshold", f"change probability of {threshold:g}" if threshold else None
    yield "Tiles", f"{tile:,.0f} pixels, overlap {overlap:,.0f} pixels" if tile else None
    least = number_in(run, "settings", "min_area") or max(MIN_AREA, MIN_PIXELS * gsd**2)
    yield "Smallest change", f"{least:,.0f} m\u00b2" if gsd else None
    yield "Grouping", _grouping(run, gsd) if gsd else None
    limits = _limits(run)
    yield "Limits", limits and f"the model is made for {limits} m per pixel"


def _grouping(run: Run, gsd: float) -> str:
    settings = run.get("settings")
    given = settings.get("group_distance") if isinstance(settings, dict) else None
    distance = number_in(run, "settings", "group_distance")
    if given is None:
        distance = max(GROUP_DISTANCE, GROUP_PIXELS * gsd)
    return f"outlines up to {distance:g} m apart are one change" if distance else "each outline is a change"


def _limits(run: Run) -> str | None:
    """Return the range of the model in metres per pixel; None where the record has none."""
    model = run.get("model")
    gsd_range = model.get("gsd_range") if isinstance(model, dict) else None
    if not isinstance(gsd_range, list) or not all(type(one) in (int, float) for one in gsd_range):
        return None
    return " to ".join(f"{one:g}" for one in gsd_range) if len(gsd_range) == 2 else None
