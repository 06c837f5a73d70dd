"""Write workflows/report/page/files/world.json: land and borders below the map of an archive's page.

Usage: npm pack world-atlas@2.0.2 && tar -xzf world-atlas-2.0.2.tgz
       python docs/make_world.py package/countries-110m.json

The package has the data of Natural Earth (1:110 million, public domain) as TopoJSON: arcs that neighbours
share. Here they are simplified to a tenth of a degree, and written as steps from corner to corner in tenths.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import shapely

TARGET = Path(__file__).resolve().parents[1] / "workflows" / "report" / "page" / "files" / "world.json"
STEPS = 10
"""Parts of a degree to which corners are rounded."""


def arcs_of(topology: dict[str, Any]) -> list[np.ndarray]:
    """Return the arcs as longitudes and latitudes, (n, 2) each."""
    scale, translate = (topology["transform"][name] for name in ("scale", "translate"))
    return [np.cumsum(arc, axis=0) * scale + translate for arc in map(np.array, topology["arcs"])]


def rings_in(geometry: dict[str, Any]) -> Iterator[list[int]]:
    """Yield the rings of a geometry as numbers of arcs; ``~n`` is arc n backwards."""
    for part in geometry.get("geometries", ()):
        yield from rings_in(part)
    if "arcs" in geometry:
        polygons = geometry["arcs"] if geometry["type"] == "MultiPolygon" else [geometry["arcs"]]
        yield from (ring for polygon in polygons for ring in polygon)


def steps_of(line: np.ndarray) -> list[int]:
    """Return the first corner, then the steps from corner to corner, without those that round to nothing."""
    kept = shapely.get_coordinates(shapely.simplify(shapely.LineString(line), 1 / STEPS))
    corners = np.rint(kept * STEPS).astype(int)
    steps = np.diff(corners, axis=0, prepend=0)
    steps = steps[(steps != 0).any(axis=1) | (np.arange(len(steps)) == 0)]
    return [int(value) for value in steps.ravel()]


def world_of(topology: dict[str, Any]) -> dict[str, Any]:
    """Return ``steps`` per degree, rings of the ``land``, and lines of the ``borders`` between countries."""
    arcs = arcs_of(topology)
    rings = list(rings_in(topology["objects"]["land"]))
    land = [
        np.concatenate([arcs[number] if number >= 0 else arcs[~number][::-1] for number in ring])
        for ring in rings
    ]
    for ring in land:
        # A ring that crosses 180 degrees keeps counting beyond it.
        ring[:, 0] = np.unwrap(ring[:, 0], period=360)
    uses = Counter(
        max(number, ~number) for ring in rings_in(topology["objects"]["countries"]) for number in ring
    )
    borders = [arcs[number] for number, count in sorted(uses.items()) if count > 1]
    lines = {"land": land, "borders": borders}
    return {"steps": STEPS} | {name: [steps_of(line) for line in kind] for name, kind in lines.items()}


if __name__ == "__main__":
    world = world_of(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    TARGET.write_text(json.dumps(world, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")
