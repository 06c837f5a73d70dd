"""What numeric stages make of drawn data, as stored: a threshold or a weight that moves shows here.

What is right is checked where each stage has its tests; here it only stays as it was.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import shapely
from drawn_veils import with_clouds, with_haze
from painted_months import ROOF, SOIL, months, paint
from scipy import ndimage
from shapely.geometry import Point, box
from stored import assert_as_stored

from rscc.facts.cover_tally import CoverTally
from rscc.facts.ground_after import ground_after, is_clear
from rscc.facts.land_cover import CoverRules
from rscc.facts.objects import both_sizes
from rscc.facts.road_head import new_roads, picture_roads
from rscc.facts.unfamiliar import discounted, least_mean
from rscc.visibility.cells import cells_of
from rscc.visibility.detector import load_veil_detector
from rscc.visibility.restoration import lights, without_veil
from tiling import ChangeMosaic, TileGrid, Window, polygonize
from tiling.fill import find_fill
from tiling.normalization import Normalization
from tiling.radiometry import Stretch
from tiling.registration import measure as measure_shift
from tiling.regularize import regularized
from tiling.sampling import data_site, sample_cells, sample_pixels
from workflows.monitor.stack.steps import step_probability
from workflows.monitor.stack.visibility import next_step, shown_by_dates, went_back
from workflows.monitor.step.clear import Ground, clear_series, usable_dates
from workflows.monitor.step.cube import match_dates
from workflows.monitor.step.features import Usual, measure, step_model
from workflows.monitor.step.fit import without_season
from workflows.monitor.step.kinds import Colors
from workflows.monitor.step.regions import Pixels, find_regions
from workflows.scene.words.location import arrangement, compass_words


def figures(values):
    """How many values there are, their mean, spread and percentiles."""
    known = np.asarray(values, float).ravel()
    known = known[np.isfinite(known)]
    return [known.size, known.mean(), known.std(), *np.percentile(known, (5, 50, 95))]


def textured(shape, seed=0, sigma=1.5, mean=110, spread=40):
    """Smooth noise (bands, h, w) in grey values."""
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=shape), (0, sigma, sigma))
    return np.clip(mean + spread * noise / noise.std(), 1, 254)


def medium_steps():
    count = 30
    built = [(np.s_[8:22, 8:22], 8, 99, ROOF), (np.s_[34:50, 30:46], 17, 99, SOIL)]
    values = paint(months(count), built, clouds={5: np.s_[20:40, 20:40], 12: np.s_[0:20, 40:60]}).astype(
        float
    )
    valid = np.random.default_rng(1).random((count, 64, 64)) > 0.02
    flat = values.reshape(count, 3, -1)
    gain, offset = match_dates(flat, valid.reshape(count, -1))
    values = (values * gain[..., None, None] + offset[..., None, None]).astype(np.float32)
    ground = Ground.of(values.reshape(count, 3, -1))
    usable = usable_dates(values, valid, ground)
    when = np.arange(count, dtype=float)
    remove = without_season(when)
    usual = Usual.of([(values, valid)], remove)
    found = measure(values, valid, when, remove, usual)
    probability = step_model().probability(found.features)
    rows, columns = np.nonzero(probability > 0.2)
    first = found.steps.first[found.steps.strength.argmax(axis=0)]
    pixels = Pixels(
        rows, columns, probability[rows, columns], first[rows, columns],
        *(each[..., rows, columns].T for each in (found.level, found.before, found.after)),
    )  # fmt: skip
    colors = Colors.of(np.median(values, axis=0).reshape(3, -1))
    regions = list(find_regions(pixels, when))
    return {
        "matched": [figures(gain), figures(offset)],
        "ground": [ground.noise, ground.white, *ground.spread.tolist()],
        "usable": usable.sum(axis=(1, 2)).tolist(),
        "clear": figures(clear_series(values, usable, ground)),
        "noise": usual.noise.tolist(),
        "features": [figures(one) for one in found.features],
        "probability": figures(probability),
        "regions": [[len(one.row), int(np.median(one.first))] for one in regions],
        "kinds": [asdict(colors.kind(one.before.mean(axis=0), one.after.mean(axis=0))) for one in regions],
    }


def stack_of_pairs():
    rng, count = np.random.default_rng(2), 9
    maps = {
        (a, b): np.clip(
            rng.normal((0.75 if a <= 4 < b else 0.2) + 0.03 * (b - a), 0.2, (20, 20)), 0, 1
        ).astype(np.float32)
        for a in range(count)
        for b in range(a + 1, min(count, a + 5))
    }
    steps = [step_probability(maps.get, step, count, 0.5) for step in range(count - 1)]
    pooled = {pair: float(one.mean()) for pair, one in maps.items()}
    hidden = {pair: value for pair, value in pooled.items() if 6 not in pair}
    return {
        "steps": [None if one is None else figures(one) for one in steps],
        "next": [next_step(pooled, step, count) for step in (0, 4)],
        "back": [went_back(pooled, 1, 3), went_back(pooled, 2, 6)],
        "shown": [list(map(list, shown_by_dates(one, 4, None, count))) for one in (pooled, hidden)],
        "again": list(map(list, shown_by_dates(pooled, 2, 4, count))),
    }


def veils():
    tint = np.array([0.9, 1.0, 0.75])[:, None, None]
    ground = (textured((1, 512, 512), spread=25) * tint).astype(np.uint8)
    found, clouds = {}, with_clouds(ground, np.random.default_rng(5), thinnest=0.6)
    haze = with_haze(ground, ndimage.gaussian_filter(clouds.opacity, 60) + 0.2, (230, 225, 215))
    for name, drawn in (("clouds", clouds), ("haze", haze)):
        valid = np.ones(ground.shape[1:], bool)
        valid[:90, :70] = False
        before, after = (cells_of(np.where(valid, image, 0), valid) for image in (ground, drawn.image))
        layers = load_veil_detector("cpu").layers(before, after)
        opacity = layers[3] / 255.0
        light = lights(after, before, opacity)
        wide = [one.repeat(8, axis=-2).repeat(8, axis=-1) for one in (opacity, light)]
        restored = without_veil(drawn.image, *wide)
        found[name] = {
            "cells": [figures(channel) for channel in after],
            "hidden": [np.bincount(one.ravel(), minlength=4).tolist() for one in layers[:2]],
            "opacity": figures(opacity),
            "light": figures(light),
            "restored": figures(restored),
        }
    return found


def land_cover():
    names = ("red", "green", "blue", "nir", "swir16", "swir22")
    plants = dict(zip(names, (40, 70, 40, 190, 90, 50), strict=True))
    becomes = {
        "lake": (30, 60, 70, 20, 10, 8),
        "burn": (50, 50, 50, 60, 90, 120),
        "fields": (90, 110, 70, 120, 110, 90),
    }
    before, after = (
        {
            name: plants[name] * textured((1, 120, 120), seed + number, mean=100, spread=8)[0] / 100
            for number, name in enumerate(names)
        }
        for seed in (3, 30)
    )
    region, right = np.ones((120, 120), bool), np.arange(120) >= 80
    region[:, :70] = False
    found = {}
    for kind, values in becomes.items():
        changed = {
            name: np.where(right, after[name] / plants[name] * value, before[name])
            for name, value in zip(names, values, strict=True)
        }
        for part in (names, names[:4], names[:3]):
            one, other = ({name: date[name] for name in part} for date in (before, changed))
            rules = CoverRules.fit(
                *({name: band.ravel() for name, band in date.items()} for date in (one, other))
            )
            decisions, tally = rules.decide(one, other), CoverTally()
            burnt = rules.burnt(one, other)
            tally.add(region, np.random.default_rng(5).random(region.shape) > 0.1, decisions, burnt)
            found[f"{kind}, {len(part)} bands"] = {
                "moved": dict(rules.moved),
                "decided": {
                    name: [int((d == v).sum()) for d in both for v in (-1, 1)]
                    for name, both in decisions.items()
                },
                "burnt": int(burnt.sum()),
                "facts": vars(tally.facts(area_m2=7000.0, ground_m2=90_000.0, place=("north",))),
            }
    return found


def facts_of_positions():
    rng = np.random.default_rng(6)
    blobs = ndimage.gaussian_filter(rng.normal(size=(160, 160)), 5) > 0.02
    before, after = (
        textured((3, 128, 128), seed, sigma).astype(np.uint8) for seed, sigma in ((7, 1), (8, 3))
    )
    logits = rng.normal(0, 3, (2, 24, 24))
    measures = ground_after(before, after, 16)
    return {
        "objects": [figures(one) for one in both_sizes(blobs)],
        "rough": [figures(one) for one in measures],
        "clear": [is_clear(rough, green) for rough in (0.1, 0.18, 0.19) for green in (0.004, 0.006)],
        "roads": [
            figures(new_roads(logits)),
            *(list(asdict(picture_roads(logits, m)).values()) for m in (60.0, 200.0)),
        ],
        "scores": [
            discounted(0.9, familiarity, chance, of_buildings=building, is_gone=gone)
            for familiarity in (None, 0.3, 0.6, 0.9)
            for chance in (0.4, 0.8, 0.999)
            for building in (True, False)
            for gone in (True, False)
        ],
        "least": [least_mean(0.5, familiarity) for familiarity in (None, 0.1, 0.4, 0.5, 0.8)],
    }


def pixels_of_scenes():
    size, whole = (640, 600), Window(0, 0, 640, 600)
    ground, other = textured((3, 600, 640), 9), textured((3, 600, 640), 10)
    moved = ndimage.shift(ground, (0, 2.3, -1.6), mode="nearest") * 0.8 + 12
    moved[:, 200:260, 300:380] = other[:, 200:260, 300:380]
    valid = np.ones(ground.shape[1:], bool)
    valid[:40] = valid[:, :100] = False

    def read(window):
        rows, columns = window.slices(whole)
        return ground[:, rows, columns], moved[:, rows, columns], valid[rows, columns]

    filled = np.where((np.add.outer(np.arange(600), np.arange(640)) < 500)[None], 0, ground).astype(np.uint8)

    def read_date(window):
        rows, columns = window.slices(whole)
        return filled[:, rows, columns], np.ones(filled[0][rows, columns].shape, bool)

    shift, (site, share) = measure_shift(read, *size, 0.5), data_site(read, *size, whole)
    deep = (ground.reshape(3, -1) * 40).astype(np.uint16)
    deep[:, ::50] = 60_000
    clipped = np.where(moved < 70, 0, moved)  # with black that is bright on the date before
    lines = [Normalization.fit(*(i.reshape(3, -1) for i in (ground, one))) for one in (moved, clipped)]
    return {
        "shift": shift.as_dict(),
        "stretch": [
            Stretch.fit(deep, one).as_dict() for one in (deep[:, ::-1], (deep / 250).astype(np.uint8))
        ],
        "lines": [one.as_dict() for one in lines],
        "samples": [
            figures(one)
            for stretch in (True, False)
            for one in sample_pixels(read, *size, for_stretch=stretch)
        ],
        "cells": [figures(one) for one in sample_cells(read, *size)],
        "site": [vars(site), share],
        "fill": [one.as_dict() for one in find_fill(read_date, *size)],
    }


def outlines_of_tiles():
    grid = TileGrid(300, 260, 96, 24)
    mosaic, bands = ChangeMosaic(grid), []
    chances = ndimage.gaussian_filter(np.random.default_rng(11).normal(size=(260, 300)), 4)
    chances = np.clip(0.5 + 6 * chances, 0, 1).astype(np.float32)
    for number, tile in enumerate(grid):
        rows, columns = tile.window.slices(grid.area)
        part = np.zeros((tile.window.height, tile.window.width), np.float32)
        inside = chances[rows, columns]
        part[: inside.shape[0], : inside.shape[1]] = inside
        bands += mosaic.add(tile, np.clip(part + 0.02 * (number % 3), 0, 1), None)
    bands += mosaic.finish()
    regions = polygonize(bands, 0.6, simplify_px=1.0, min_area_px=12)
    outlines = [region.pixel_polygon for region in regions]
    ground = box(10, 50, 10.3, 50.26)
    placed = [shapely.transform(one, lambda xy: (10, 50) + xy / 1000) for one in outlines]
    rows = [Point(x, y + x % 7).buffer(2) for x in range(0, 90, 9) for y in (0, 40)]
    return {
        "blended": [figures(band.probability) for band in bands],
        "regions": [
            [region.area_px, region.mean_probability, region.pixel_polygon.length] for region in regions
        ],
        "regular": [regularized(one, 1.5).area for one in outlines],
        "places": [compass_words(one, ground) for one in placed],
        "arranged": [arrangement(one) for one in (outlines, rows, rows[:9], rows[::5])],
    }


STAGES = (
    medium_steps,
    stack_of_pairs,
    veils,
    land_cover,
    facts_of_positions,
    pixels_of_scenes,
    outlines_of_tiles,
)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
@pytest.mark.slow
def test_numbers_stay_as_they_were(stage):
    assert_as_stored(f"numbers_{stage.__name__}", stage(), rel=2e-3)
