"""Draw a report: the scene before, and the scene after with the polygons and their captions.

Usage: python examples/draw_report.py [FOLDER] [-o report.png]

The folder is one that ``examples/demo.py`` has filled. Needs matplotlib (extra ``train``).
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import rasterio
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline
from rasterio.warp import transform_geom
from shapely.geometry import MultiPolygon, Polygon, box, shape

COLOR = "#ffb000"
MOST_LABELS = 5
WRAP = 30


def draw(before: Path, after: Path, report: dict[str, Any], target: Path) -> None:
    """Write the picture.

    Args:
        before, after: scenes with three bands, on one grid.
        report: the GeoJSON collection.
        target: file to write; its suffix says the format.
    """
    figure, axes = plt.subplots(1, 2, figsize=(13, 5.2), layout="constrained")
    for axis, path in zip(axes, (before, after), strict=True):
        with rasterio.open(path) as source:
            bounds, crs = source.bounds, source.crs
            image = np.moveaxis(source.read([1, 2, 3]), 0, -1)
        axis.imshow(image, extent=(bounds.left, bounds.right, bounds.bottom, bounds.top))
        axis.set_axis_off()
    dates = [report["rscc"]["inputs"][name]["date"] for name in ("before", "after")]
    for axis, name, date in zip(axes, ("before", "after"), dates, strict=True):
        axis.set_title(f"{name} ({date})" if date else name, fontsize=11)
    places = [shape(transform_geom("OGC:CRS84", crs, f["geometry"])) for f in report["features"]]
    captions = [feature["properties"]["caption"] for feature in report["features"]]
    for place in places:
        axes[1].add_patch(PathPatch(_outline(place), facecolor=COLOR, alpha=0.22, linewidth=0))
        axes[1].add_patch(PathPatch(_outline(place), fill=False, edgecolor=COLOR, linewidth=1.4))
    _label(axes[1], places, captions, bounds)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=110)
    plt.close(figure)


def _outline(place: Polygon | MultiPolygon) -> Outline:
    parts = place.geoms if isinstance(place, MultiPolygon) else [place]
    rings = [ring for part in parts for ring in (part.exterior, *part.interiors)]
    return Outline.make_compound_path(
        *(Outline(np.asarray(ring.coords)[:, :2], closed=True) for ring in rings)
    )


def _label(
    axis: Axes, places: list[Polygon], captions: list[str], bounds: rasterio.coords.BoundingBox
) -> None:
    """Write some captions, each once, beside their largest changes, where no other change or label is."""
    height, width = bounds.top - bounds.bottom, bounds.right - bounds.left
    taken = list(places)
    largest_of: dict[str, int] = {}
    for index in sorted(range(len(places)), key=lambda i: -places[i].area):
        largest_of.setdefault(captions[index], index)
    for index in list(largest_of.values())[:MOST_LABELS]:
        text = textwrap.fill(captions[index], WRAP)
        half_w, half_h = 0.155 * width, 0.022 * height * (text.count("\n") + 1)
        spot = _free_spot(places[index], half_w, half_h, taken, box(*bounds))
        if spot is None:
            continue
        taken.append(box(spot[0] - half_w, spot[1] - half_h, spot[0] + half_w, spot[1] + half_h))
        centre = places[index].representative_point()
        axis.annotate(
            text,
            xy=(centre.x, centre.y),
            xytext=spot,
            ha="center",
            va="center",
            color="white",
            fontsize=9,
            arrowprops={"arrowstyle": "-", "color": "white", "linewidth": 0.8},
            path_effects=[patheffects.withStroke(linewidth=2.5, foreground="black")],
        )


def _free_spot(
    place: Polygon, half_w: float, half_h: float, taken: list[Polygon], frame: Polygon
) -> tuple[float, float] | None:
    centre = place.representative_point()
    for distance in np.arange(1.2, 12.0, 0.6) * half_h:
        for bearing in np.linspace(0, 2 * np.pi, 24, endpoint=False):
            x = centre.x + (distance + half_w * abs(np.cos(bearing))) * np.cos(bearing)
            y = centre.y + distance * np.sin(bearing)
            label = box(x - half_w, y - half_h, x + half_w, y + half_h)
            if frame.contains(label) and not any(label.intersects(other) for other in taken):
                return float(x), float(y)
    return None


def main() -> None:
    """Draw the report of the demo folder named on the command line."""
    parser = argparse.ArgumentParser(description="Draw before, after, polygons and captions.")
    parser.add_argument("folder", nargs="?", default="demo", type=Path)
    parser.add_argument("-o", "--output", default="report.png", type=Path)
    options = parser.parse_args()
    report = json.loads((options.folder / "report.geojson").read_text(encoding="utf-8"))
    draw(options.folder / "before_2016.tif", options.folder / "after_2019.tif", report, options.output)
    print(options.output)


if __name__ == "__main__":
    main()
