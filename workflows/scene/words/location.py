"""Where a change lies in the scene, in compass words, and how its outlines are arranged."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import shapely
from scipy.spatial import KDTree
from shapely.geometry import MultiPolygon, Polygon

from tiling import Frame, ScenePair

# Outlines with fewer others have no arrangement: two are always on a line.
LEAST_OUTLINES = 4
# Degrees that an outline and its two nearest make at least where they lie on a line; streets bend.
STRAIGHT = 150.0
# Share of the outlines on lines from which they stand in rows; up to the other they are scattered.
IN_ROWS, SCATTERED = 0.8, 0.5


def ground_of(pair: ScenePair | Frame) -> Polygon | MultiPolygon | None:
    """Return the ground that was asked for and has data around it, in WGS84.

    None around a pole or where there are no degrees.
    """
    # What lies in the centre of a site is in the centre, wherever the site lies in a canvas of nodata.
    focus = (pair.site and pair.site.intersection(pair.focus)) or pair.focus
    return pair.grid.degrees(focus)


def compass_words(geometry: Polygon | MultiPolygon, ground: Polygon | MultiPolygon | None) -> str | None:
    """Return in which part of the ground a geometry lies: ``north``, ``south-east``, ``centre`` and so on.

    The ground is parted into thirds from south to north and from west to east, and the third of a geometry
    is that of its centroid. In a direction in which it reaches from the first third into the last it has no
    part; None where no word is left.

    Args:
        geometry, ground: in degrees of WGS84, each cut in parts where it crosses 180 degrees; without a
            ground there are no words.
    """
    if ground is None:
        return None
    first, (west, south, east, north) = _edges(ground)
    moved = _unturned(geometry, first)
    left, low, right, high = moved.bounds
    across = _third((left, moved.centroid.x, right), west, east)
    along = _third((low, moved.centroid.y, high), south, north)
    words = "-".join(filter(None, (("", "north", "south")[along or 0], ("", "east", "west")[across or 0])))
    return words or (None if along is None or across is None else "centre")


@lru_cache(maxsize=8)  # one for all changes of a scene
def _edges(ground: Polygon | MultiPolygon) -> tuple[float, tuple[float, float, float, float]]:
    """Return the first longitude of a ground, and west, south, east and north seen from there."""
    first = float(shapely.get_coordinates(ground)[0, 0])
    return first, _unturned(ground, first).bounds


def _unturned(geometry: Polygon | MultiPolygon, first: float) -> Polygon | MultiPolygon:
    """Return a geometry whose longitudes are all within half a turn of ``first``."""

    def moved(xy: np.ndarray) -> np.ndarray:
        return np.column_stack([first + (xy[:, 0] - first + 180) % 360 - 180, xy[:, 1]])

    return shapely.transform(geometry, moved)


def _third(places: tuple[float, float, float], start: float, end: float) -> int | None:
    """Return -1, 0 or 1 for the third that the middle of three places is in.

    None where the first of the three is in the first third and the last in the last.
    """
    if not end > start:
        return None
    shares = ((place - start) / (end - start) for place in places)
    low, middle, high = ((share >= 1 / 3) + (share >= 2 / 3) - 1 for share in shares)
    return None if (low, high) == (-1, 1) else middle


def arrangement(outlines: Sequence[Polygon]) -> str | None:
    """Return the arrangement of outlines: ``alone``, ``in rows``, ``scattered``; None if unclear.

    An outline is on a line with its two nearest where the angle between them, seen from its centre, is more
    than 150 degrees. Outlines are in rows where at least four of five are on such lines, and scattered where
    fewer than half are. Two and three outlines have no arrangement.

    Args:
        outlines: in pixels or any other unit that is as long in all directions.
    """
    if len(outlines) == 1:
        return "alone"
    if len(outlines) < LEAST_OUTLINES:
        return None
    centres = shapely.get_coordinates(shapely.centroid(np.array(outlines, dtype=object)))  # (n, 2)
    _, nearest = KDTree(centres).query(centres, k=3)  # (n, 3): itself and the two nearest
    one, other = centres[nearest[:, 1]] - centres, centres[nearest[:, 2]] - centres
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    straight = (one * other).sum(1) < np.cos(np.radians(STRAIGHT)) * lengths
    share = len(np.unique(nearest[straight])) / len(centres)
    return "in rows" if share >= IN_ROWS else "scattered" if share < SCATTERED else None
