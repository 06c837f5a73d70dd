"""Format an inspection as one screen of text."""

import math
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from workflows.printable import counted, printable_lines
from workflows.progress import duration


def shift_words(registration: Mapping[str, Any]) -> str:
    """Describe the offset between the dates; ``registration`` as in the run record."""
    if registration["cols"] is None:
        return "offset could not be measured: the images are too dissimilar"
    cols, rows = registration["cols"], registration["rows"]
    pixels = math.hypot(cols, rows)
    across, along = "right" if cols > 0 else "left", "down" if rows > 0 else "up"
    text = f"after lies {pixels:.1f} pixels ({registration['metres']:.2g} m) off"
    text += f" ({abs(cols):.1f} {across}, {abs(rows):.1f} {along})" if pixels >= 0.05 else ""
    if registration["applied"] is None:
        return text
    rest = (
        "" if registration["left"] is None else f", {math.hypot(*registration['left']):.1f} pixels are left"
    )
    if registration["moved"] == "before":
        return f"{text}; before moved onto it by --align --frame after{rest}"
    return f"{text}; moved back by --align{rest}"


def light_words(normalization: Mapping[str, Any]) -> str:
    """Describe the brightness match of the scene after; ``normalization`` as in the run record."""
    gains = ", ".join(f"{gain:.2f}" for gain in normalization["gain"])
    return f"brightness of after matched to before by --normalize (gains {gains})"


WIDTH = 100
INDENT = 10
_FORMATS = {"GTiff": "GeoTIFF", "JP2OpenJPEG": "JPEG 2000"}
_SHOWN_BY = {
    "request": "by --bands",
    "color": "by their colours",
    "name": "by their names",
    "order": "by their order",
    "gray": "one band three times, as grey",
    "palette": "in the colours of its palette",
}
_MASKS = {
    "nothing": "no mask",
    "mask": "no data where its mask says so",
    "alpha": "no data where its alpha band is transparent, unless that is a picture (near infrared)",
}
_STRETCHES = {
    "none": "8-bit, used unchanged",
    "shared": "one stretch for both dates, 2nd to 98th percentile",
    "per type": "one stretch per pixel type, 2nd to 98th percentile",
    "given": "the scale given by --scale",
    "reflectance": "reflectance, by the scale of the files or of the sensor",
}
_METHODS = {"average": "averaged", "bilinear": "interpolated"}
GB = 10**9
_LONGEST_CODE = 20


def inspection_text(facts: Mapping[str, Any]) -> str:
    """Return the lines; ``facts`` is an inspection as plain values."""
    lines = []
    for title, texts in _paragraphs(facts):
        for number, text in enumerate(texts):
            lead = (title if number == 0 else "").ljust(INDENT)
            wrapped = textwrap.wrap(
                text, WIDTH, initial_indent=lead, subsequent_indent=" " * (INDENT + 2), break_long_words=False
            )
            lines += wrapped or [lead.rstrip()]
    return printable_lines(lines)


def _paragraphs(facts: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for role in ("before", "after"):
        yield role, ["cannot be read"] if facts[role] is None else _scene(facts[role])
    if facts["pair"] is not None:
        yield "ground", _ground(facts["overlap"])
        yield "grid", _grid(facts)
        yield "shift", [shift_words(facts["pair"]["registration"])]
        yield "light", [_light(facts["pair"])]
    checked = [f"{one['name']}: {one['found']}" for one in facts["preconditions"]]
    if checked:
        yield "checked", checked
    yield "model", [_model(facts["model"])]
    if facts["expected"] is not None:
        yield "cost", _cost(facts["expected"])
    for warning in facts["warnings"]:
        yield "warning", [warning]
    refusal = f"rscc caption would refuse this with exit code {facts['exit_code']}"
    yield "verdict", [refusal if facts["refusals"] else "ready for rscc caption"]


def _scene(scene: Mapping[str, Any]) -> list[str]:
    named = _system(scene["crs"], f"{scene['crs']} ({scene['crs_name']})")
    what = (
        f"{_FORMATS.get(scene['driver'], scene['driver'])}, {scene['width']:,} x {scene['height']:,} pixels "
        f"of {scene['gsd']:.3g} m, {scene['dtype']}"
    )
    date = "no date known"
    if scene["date"] is not None:
        source = {"tag": "from its tags", "file name": "from its name", "option": "as given"}
        date = f"taken {scene['date']}, {source[scene['date_source']]}"
    return [scene["path"], what, f"{_bands(scene)}; {_mask(scene)}", f"{named}, {scene['placement']}", date]


def _system(crs: str, named: str | None = None) -> str:
    """Return a code of a CRS, or what is said of one that has only a definition."""
    return named or crs if len(crs) < _LONGEST_CODE else "a coordinate system without a code"


def _bands(scene: Mapping[str, Any]) -> str:
    bands = scene["band_list"]
    names = [band["name"] or band["color"] or "no name" for band in bands]
    listed = "" if set(names) == {"no name"} else f" ({', '.join(names[:16])}{', ...' * (len(names) > 16)})"
    text = f"{counted(len(bands), 'band')}{listed}"
    if scene["shown"] is None:
        return text
    by = _SHOWN_BY.get(scene["shown_by"], scene["shown_by"])
    if scene["shown_by"] in ("gray", "palette"):
        return f"{text}, shown {by}"
    return f"{text}; {','.join(map(str, scene['shown']))} shown, {by}"


def _mask(scene: Mapping[str, Any]) -> str:
    if scene["masked_by"] == "nodata":
        value = scene["nodata"]
        return f"no data where {value:g}" if isinstance(value, int | float) else f"no data where {value}"
    return _MASKS[scene["masked_by"]]


def _ground(overlap: Mapping[str, Any]) -> list[str]:
    lines = [f"{_area(overlap['area_m2'])} in common"]
    if overlap["bounds"] is not None:
        lines.append("within {:.5f},{:.5f},{:.5f},{:.5f} (west,south,east,north)".format(*overlap["bounds"]))
    return lines


def _grid(facts: Mapping[str, Any]) -> list[str]:
    tiling, focus = facts["tiling"], facts["pair"]["focus"]
    text = f"{tiling['width']:,} x {tiling['height']:,} pixels of {tiling['gsd']:.3g} m"
    text += f" in {_system(tiling['crs'])}"
    if (focus["width"], focus["height"]) != (tiling["width"], tiling["height"]):
        text += f"; {focus['width']:,} x {focus['height']:,} of them are processed"
    tiles = f"{counted(tiling['tiles'], 'tile')} of {tiling['tile']} pixels"
    ways = {
        role: _way(facts["resampling"][role], facts[role]["crs"], tiling["crs"])
        for role in ("before", "after")
    }
    if ways["before"] == ways["after"]:
        return [f"{text}; {tiles}", f"both scenes: {ways['before']}"]
    return [f"{text}; {tiles}", *(f"{role}: {way}" for role, way in ways.items())]


def _way(way: Mapping[str, Any], own: str, grid: str) -> str:
    if way["method"] is None:
        return "not resampled"
    words = [f"{_system(own)} to {_system(grid)}"] if way["reprojected"] else []
    if way["turned"]:
        words.append("turned north-up")
    if abs(way["from_gsd"] / way["to_gsd"] - 1) > 0.005:
        words.append(f"{way['from_gsd']:.3g} m to {way['to_gsd']:.3g} m")
    if way["moved"]:
        words.append("moved by the measured offset")
    words = words or ["moved by less than a pixel"]
    return f"resampled: {', '.join(words)}, {_METHODS.get(way['method'], way['method'])}"


def _light(pair: Mapping[str, Any]) -> str:
    stretch = pair["stretch"]
    text = _STRETCHES.get(stretch["kind"], stretch["kind"])
    ranges = {role: _ranges(stretch[role]) for role in ("before", "after") if stretch.get(role)}
    if len(ranges) == 2 and ranges["before"] == ranges["after"]:
        text += f"; values {ranges['before']}"
    else:
        text += "".join(f"; values of {role} {own}" for role, own in ranges.items())
    if pair["normalization"] is not None:
        text += f"; {light_words(pair['normalization'])}"
    return text


def _ranges(table: Mapping[str, Any]) -> str:
    spans = [f"{low:.4g}..{high:.4g}" for low, high in zip(table["low"], table["high"], strict=True)]
    return spans[0] if len(set(spans)) == 1 else ", ".join(spans)


def _model(model: Mapping[str, Any]) -> str:
    low, high = model["gsd_range"]
    return (
        f"{model['name']} {model['version']}, for scenes of {low:g} to {high:g} m, "
        f"works at {model['gsd']:g} m"
    )


def _cost(expected: Mapping[str, Any]) -> list[str]:
    memory = f"about {_gigabytes(expected['memory']['expected'])} of memory"
    if expected["seconds"] is None:
        return [memory]
    return [f"{memory}, about {duration(max(1, expected['seconds']))} on this machine ({expected['device']})"]


def _gigabytes(size: int) -> str:
    """Return a size in GB with one decimal, from 10 GB on without."""
    return f"{max(size / GB, 0.1):,.1f} GB" if size < 9.95 * GB else f"{size / GB:,.0f} GB"


def _area(square_metres: float) -> str:
    if square_metres >= 1e5:
        return f"{square_metres / 1e6:,.3g} km2" if square_metres < 1e9 else f"{square_metres / 1e6:,.0f} km2"
    return f"{square_metres:,.0f} m2"
