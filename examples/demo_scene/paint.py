"""How the demo scene looks from above: surfaces and heights, sunlight and cast shadows, lens and sensor.

Everything is drawn on a grid twice as fine as the image and averaged down, so that edges are soft as in
real imagery. Arrays are (rows, columns) or (rows, columns, 3); colours are reflectances in 0..1.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import shapely
from scipy import ndimage

from demo_scene.layout import NEW_ROAD_WIDTH, ROAD_WIDTH, House, Layout, Tree

FINER = 2
WALL_HEIGHT = 3.0
Color = tuple[float, float, float]
Part = tuple[slice, slice]
Texture = Callable[[Part], np.ndarray]


@dataclass(frozen=True)
class Season:
    """Colours of a date and its light.

    Attributes:
        soil, dry, lush: the ground is a mixture of these three.
        leaf_dark, leaf_light: crowns lie between these two.
        sun_azimuth, sun_elevation: degrees, clockwise from north.
        sun, sky: colour and strength of direct light and of the light that reaches shadows.
        gain, gamma: of the camera.
        blur: standard deviation of the lens in image pixels.
        shift: displacement (x, y) in image pixels.
        noise: standard deviation of the sensor in grey values.
    """

    soil: Color
    dry: Color
    lush: Color
    leaf_dark: Color
    leaf_light: Color
    sun_azimuth: float
    sun_elevation: float
    sun: Color
    sky: Color
    gain: float
    gamma: float
    blur: float
    shift: tuple[float, float]
    noise: float


BEFORE = Season(
    soil=(0.66, 0.58, 0.46),
    dry=(0.50, 0.43, 0.33),
    lush=(0.38, 0.36, 0.27),
    leaf_dark=(0.07, 0.15, 0.11),
    leaf_light=(0.21, 0.27, 0.18),
    sun_azimuth=148.0,
    sun_elevation=52.0,
    sun=(0.98, 0.94, 0.84),
    sky=(0.20, 0.23, 0.25),
    gain=1.06,
    gamma=1.0,
    blur=0.75,
    shift=(0.0, 0.0),
    noise=2.2,
)
AFTER = Season(
    soil=(0.52, 0.46, 0.38),
    dry=(0.35, 0.32, 0.26),
    lush=(0.27, 0.29, 0.21),
    leaf_dark=(0.15, 0.18, 0.12),
    leaf_light=(0.30, 0.32, 0.22),
    sun_azimuth=131.0,
    sun_elevation=47.0,
    sun=(0.88, 0.86, 0.83),
    sky=(0.17, 0.18, 0.20),
    gain=1.2,
    gamma=1.0,
    blur=0.6,
    shift=(0.4, -0.3),
    noise=2.6,
)


class Canvas:
    """A scene being drawn: reflectance, height in metres and the share of sunlight every surface takes."""

    def __init__(self, *, width: float, height: float, gsd: float, season: Season, light: float):
        self.gsd = gsd / FINER
        self.shape = (round(height / self.gsd), round(width / self.gsd))
        self.color = np.zeros((*self.shape, 3), np.float32)
        self.height = np.zeros(self.shape, np.float32)
        self.lit = np.full(self.shape, light, np.float32)
        azimuth, elevation = np.radians(season.sun_azimuth), np.radians(season.sun_elevation)
        # Towards the sun: x east, y south, z up.
        self.sun = np.array(
            [np.sin(azimuth) * np.cos(elevation), -np.cos(azimuth) * np.cos(elevation), np.sin(elevation)]
        )

    def patch(self, shape: shapely.Geometry, margin: float = 1.0) -> tuple[Part, np.ndarray, np.ndarray]:
        """Return the slices around a shape and the x and y of their pixel centres in metres."""
        west, north, east, south = shape.bounds
        columns = slice(
            *np.clip([int((west - margin) / self.gsd), int((east + margin) / self.gsd) + 1], 0, self.shape[1])
        )
        rows = slice(
            *np.clip(
                [int((north - margin) / self.gsd), int((south + margin) / self.gsd) + 1], 0, self.shape[0]
            )
        )
        x = (np.arange(columns.start, columns.stop) + 0.5) * self.gsd
        y = (np.arange(rows.start, rows.stop) + 0.5) * self.gsd
        return (rows, columns), *np.meshgrid(x, y)

    def fill(self, shape: shapely.Geometry, color: Texture | Color, amount: float = 1.0) -> None:
        """Lay a flat surface; ``color`` is one colour, or gives the colours of a part of the canvas."""
        where, x, y = self.patch(shape)
        inside = shapely.contains_xy(shape, x, y)
        paint = color(where)[inside] if callable(color) else np.asarray(color, np.float32)
        self.color[where][inside] = (1 - amount) * self.color[where][inside] + amount * paint
        self.height[where][inside] = 0.0

    def facing(self, surface: np.ndarray) -> np.ndarray:
        """The cosine between the sun and the normals of a surface of heights in metres."""
        south, east = np.gradient(surface, self.gsd)
        length = np.sqrt(1 + east**2 + south**2)
        return np.clip((self.sun[2] - east * self.sun[0] - south * self.sun[1]) / length, 0, None)


def fractal(rng: np.random.Generator, shape: tuple[int, int], cells: tuple[float, ...]) -> np.ndarray:
    """Noise of mean 0 and standard deviation 1 with structures of the given sizes in pixels."""
    total = np.zeros(shape, np.float32)
    for cell in cells:
        coarse = rng.standard_normal((int(shape[0] / cell) + 4, int(shape[1] / cell) + 4)).astype(np.float32)
        fine = _enlarged(coarse, cell) if cell > 1 else coarse
        row, column = (int(v) for v in rng.integers(0, max(1, int(cell)), 2))
        total += fine[row : row + shape[0], column : column + shape[1]] / fine.std()
    return (total - total.mean()) / total.std()


def _enlarged(coarse: np.ndarray, cell: float) -> np.ndarray:
    if cell < 10:
        return ndimage.zoom(coarse, cell, order=3)
    # The same of few numbers: cubic splines are separable, and the zoom computes each pixel from 16 others.
    rows, columns = (ndimage.zoom(np.eye(length), (cell, 1), order=3) for length in coarse.shape)
    return (rows @ coarse @ columns.T).astype(np.float32)


def mix(first: Color, second: Color, share: np.ndarray) -> np.ndarray:
    """Colours between two, by ``share`` of the second in 0..1."""
    share = np.clip(share, 0, 1)[..., None]
    return ((1 - share) * np.array(first) + share * np.array(second)).astype(np.float32)


def paint(
    layout: Layout, season: Season, *, after: bool, gsd: float, ground_seed: int, date_seed: int
) -> np.ndarray:
    """Draw one date.

    Args:
        layout: what stands where.
        season: its colours and its light.
        after: whether the estate is there.
        gsd: metres per pixel of the image.
        ground_seed: chance that both dates share (the ground's pattern, the crowns).
        date_seed: chance of this date alone (cars, sensor).

    Returns:
        (rows, columns, 3) uint8.
    """
    chance = np.random.default_rng(date_seed)
    canvas = Canvas(
        width=layout.width,
        height=layout.height,
        gsd=gsd,
        season=season,
        light=np.sin(np.radians(season.sun_elevation)),
    )
    patterns = _patterns(ground_seed, canvas.shape)
    fine = patterns.fine
    _ground(canvas, season, patterns)
    houses = layout.old_houses + (layout.villas if after else ())
    _lots(canvas, houses, season, patterns)
    for offset in (-0.9, 0.9):
        canvas.fill(layout.track.offset_curve(offset).buffer(0.6), season.soil, 0.65)
    for road in layout.roads:
        _road(canvas, road, ROAD_WIDTH, 0.46 if after else 0.50, fine)
    if after:
        _road(canvas, layout.new_road, NEW_ROAD_WIDTH, 0.52, fine)
    for house in houses:
        canvas.fill(house.driveway(), (0.72, 0.69, 0.62))
    for road in layout.roads:
        _cars(canvas, road, chance)
    for house in houses:
        _house(canvas, house, fine)
    _trees(canvas, layout.trees_after if after else layout.trees_before, season, fine)
    return _photograph(canvas, season, chance)


@dataclass(frozen=True)
class _Patterns:
    """Noise that both dates share, each as large as the canvas, and the chance of the lots after it."""

    broad: np.ndarray
    patches: np.ndarray
    grain: np.ndarray
    fine: np.ndarray
    blotches: np.ndarray
    lots: np.random.Generator


@functools.lru_cache(maxsize=1)
def _patterns(seed: int, shape: tuple[int, int]) -> _Patterns:
    ground, lots = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    sizes = ((420, 170, 70), (60, 24, 10), (1, 2, 5), (1.5, 3.0))
    broad, patches, grain, fine = (fractal(ground, shape, cells) for cells in sizes)
    return _Patterns(broad, patches, grain, fine, fractal(lots, shape, (30, 12, 4)), lots)


def _ground(canvas: Canvas, season: Season, patterns: _Patterns) -> None:
    broad, patches = patterns.broad, patterns.patches
    canvas.color[:] = mix(season.dry, season.lush, 0.5 + 0.28 * broad + 0.10 * patches)
    bare = np.clip(0.35 * patches + 0.45 * broad - 0.35, 0, 1)
    canvas.color[:] += bare[..., None] * (np.array(season.soil, np.float32) - canvas.color)
    canvas.color *= (1 + 0.055 * patterns.grain + 0.05 * patches)[..., None]


def _lots(canvas: Canvas, houses: tuple[House, ...], season: Season, patterns: _Patterns) -> None:
    rng = copy.deepcopy(patterns.lots)
    for house in houses:
        dryness = np.float64(rng.uniform(0.0, 0.9))

        def lawn(where: Part, dryness: np.float64 = dryness) -> np.ndarray:
            return mix(season.lush, season.dry, dryness + 0.2 * patterns.blotches[where])

        canvas.fill(house.lot(), lawn, 0.75)
        yard = house.place(shapely.box(-10.2, 0.0, 10.2, 19.0))
        fence = yard.boundary.buffer(0.3).difference(house.footprint())
        canvas.fill(fence, (0.17, 0.15, 0.13))
        if house.pool_u is not None:
            back = max(wing.v + wing.half_v for wing in house.wings)
            basin = house.place(shapely.Point(house.pool_u, (back + 18.0) / 2).buffer(2.4))
            canvas.fill(basin.buffer(1.0), (0.66, 0.62, 0.55))
            canvas.fill(basin, (0.20, 0.46, 0.56))


def _road(canvas: Canvas, line: shapely.LineString, width: float, tone: float, fine: np.ndarray) -> None:
    kerb = line.buffer(width / 2)
    canvas.fill(kerb, (0.66, 0.64, 0.60))

    def asphalt(where: Part) -> np.ndarray:
        return np.asarray((tone, tone, tone * 0.99), np.float32) * (1 + 0.035 * fine[where])[..., None]

    canvas.fill(line.buffer(width / 2 - 0.45), asphalt)
    for offset in (-0.22, 0.22):
        canvas.fill(line.offset_curve(offset * width).buffer(0.55), (tone * 0.93,) * 3, 0.6)


def _cars(canvas: Canvas, road: shapely.LineString, rng: np.random.Generator) -> None:
    for metre in rng.uniform(10, road.length - 10, rng.integers(4, 8)):
        point, ahead = road.interpolate(metre), road.interpolate(metre + 1)
        angle = np.arctan2(ahead.y - point.y, ahead.x - point.x)
        side = 1.8 * rng.choice([-1, 1])
        paints = [(0.9, 0.9, 0.9), (0.15, 0.15, 0.17), (0.5, 0.52, 0.55), (0.5, 0.12, 0.1), (0.2, 0.25, 0.4)]
        color = paints[int(rng.integers(len(paints)))]
        for (back, front, half), tone in (
            ((-2.3, 2.3, 0.95), color),
            ((-1.2, 0.9, 0.75), (0.12, 0.13, 0.15)),
        ):
            body = shapely.affinity.rotate(
                shapely.box(back, side - half, front, side + half), angle, origin=(0, 0), use_radians=True
            )
            placed = shapely.affinity.translate(body, point.x, point.y)
            canvas.fill(placed, tone)
            where, x, y = canvas.patch(placed)
            canvas.height[where][shapely.contains_xy(placed, x, y)] = 1.5


def _house(canvas: Canvas, house: House, fine: np.ndarray) -> None:
    outline = house.footprint()
    where, x, y = canvas.patch(outline)
    cos, sin = np.cos(house.angle), np.sin(house.angle)
    u = cos * (x - house.x) + sin * (y - house.y)
    v = -sin * (x - house.x) + cos * (y - house.y)
    roof = np.full(x.shape, -np.inf)
    for wing in house.wings:
        to_u, to_v = wing.half_u - np.abs(u - wing.u), wing.half_v - np.abs(v - wing.v)
        if wing.hipped:
            rise = np.minimum(to_u, to_v)
        else:
            # The ridge runs along the longer side; the short sides are gables.
            rise = to_v if wing.half_u >= wing.half_v else to_u
            rise = np.where(np.minimum(to_u, to_v) > -0.3, rise, -np.inf)
        roof = np.maximum(roof, house.pitch * rise)
    inside = shapely.contains_xy(outline, x, y)
    surface = np.where(np.isfinite(roof), roof, 0.0)
    ridge = np.clip(surface - ndimage.uniform_filter(surface, 3), 0, None) * 2.2
    courses = 1 + 0.05 * fine[where] + 0.35 * np.minimum(ridge, 0.25)
    canvas.color[where][inside] = (np.array(house.tone) * courses[..., None])[inside]
    canvas.lit[where][inside] = canvas.facing(surface)[inside]
    canvas.height[where][inside] = WALL_HEIGHT + surface[inside]


def _trees(canvas: Canvas, trees: tuple[Tree, ...], season: Season, fine: np.ndarray) -> None:
    crowns = np.zeros(canvas.shape, np.float32)
    shade = np.zeros(canvas.shape, np.float32)
    for tree in trees:
        own, reach = np.random.default_rng(tree.seed), 1.3 * tree.radius
        square = shapely.box(tree.x - reach, tree.y - reach, tree.x + reach, tree.y + reach)
        where, x, y = canvas.patch(square)
        if x.size == 0:
            continue
        bearing = np.arctan2(y - tree.y, x - tree.x)
        edge = tree.radius * np.ones(x.shape)
        for lobes in (2, 3, 5, 8):
            edge += tree.radius * 0.075 * np.sin(lobes * bearing + own.uniform(0, 2 * np.pi))
        far = np.hypot(x - tree.x, y - tree.y) / edge + 0.06 * fine[where]
        top = (1.5 + 1.5 * tree.radius) * np.sqrt(np.clip(1 - far**2, 0, None))
        higher = top > crowns[where]
        crowns[where][higher] = top[higher]
        shade[where][higher] = tree.shade
    leaves = crowns > 0.6
    bumps = np.where(leaves, crowns + 0.5 * fine, 0)
    facing = 0.25 * canvas.sun[2] + 0.75 * canvas.facing(ndimage.gaussian_filter(0.5 * bumps, 0.9))
    color = mix(season.leaf_dark, season.leaf_light, 0.75 * shade + 0.12 * fine + 0.1)
    canvas.color[leaves] = color[leaves]
    canvas.lit[leaves] = facing[leaves]
    canvas.height[leaves] = np.maximum(canvas.height, bumps)[leaves]


def _shadow(canvas: Canvas) -> np.ndarray:
    """The share of every pixel that the sun does not reach, in 0..1."""
    horizontal = np.hypot(canvas.sun[0], canvas.sun[1])
    step_x, step_y, step_z = canvas.sun / horizontal * canvas.gsd
    dark = np.zeros(canvas.shape, bool)
    rows, columns = canvas.shape
    for step in range(1, int(canvas.height.max() / step_z) + 2):
        dx, dy = round(step * step_x / canvas.gsd), round(step * step_y / canvas.gsd)
        here = (slice(max(0, -dy), min(rows, rows - dy)), slice(max(0, -dx), min(columns, columns - dx)))
        there = (slice(max(0, dy), min(rows, rows + dy)), slice(max(0, dx), min(columns, columns + dx)))
        dark[here] |= canvas.height[there] - step * step_z > canvas.height[here] + 0.15
    return ndimage.gaussian_filter(dark.astype(np.float32), 0.8)


def _photograph(canvas: Canvas, season: Season, rng: np.random.Generator) -> np.ndarray:
    sunlit = canvas.lit * (1 - _shadow(canvas))
    light = np.asarray(season.sky) + sunlit[..., None] * np.asarray(season.sun)
    scene = np.clip(season.gain * canvas.color * light, 0, None) ** season.gamma
    moved = (season.shift[1] * FINER, season.shift[0] * FINER)
    image = np.empty((canvas.shape[0] // FINER, canvas.shape[1] // FINER, 3), np.float32)
    for band in range(3):
        seen = ndimage.gaussian_filter(scene[..., band], season.blur * FINER)
        seen = ndimage.shift(seen, moved, order=1, mode="nearest")
        seen = seen[: image.shape[0] * FINER, : image.shape[1] * FINER]
        image[..., band] = seen.reshape(image.shape[0], FINER, image.shape[1], FINER).mean((1, 3))
    # Sharpening, as the providers of such imagery do it, then the sensor's noise.
    image = 255 * (image + 0.5 * (image - ndimage.gaussian_filter(image, (1.2, 1.2, 0))))
    grain = rng.normal(0, season.noise, (*image.shape[:2], 1)) + rng.normal(
        0, 0.6 * season.noise, image.shape
    )
    return np.clip(np.rint(image + grain), 0, 255).astype(np.uint8)
