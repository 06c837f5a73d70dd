"""Tiles at medium resolution: classes from indices, sentences from facts, splits by place."""

from __future__ import annotations

import json

import numpy as np
import pytest
from datasets import write_image, write_index
from scene_pairs import north_up, run_here, write_raster

from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import read_pair
from rscc.data.synthesis import medium
from rscc.data.synthesis.folder import write_medium
from rscc.data.synthesis.medium import REVERSED, City, city_sources, fixed_tiles, medium_pairs
from rscc.data.synthesis.medium_facts import SERIES, city_facts, series_facts
from rscc.errors import DatasetLayoutInvalid, OutputExists

LANDSAT, NAIP = SERIES
WATER, FOREST, BARE = (20, 10, 15, 60), (60, 180, 30, 20), (160, 170, 100, 70)


def ground(*patches):
    """A date of the Landsat layout: patches (rows, columns, colour) on a forest."""
    image = np.empty((4, 140, 420), np.uint8)
    image[:] = np.array(FOREST, np.uint8)[:, None, None]
    for rows, cols, colour in patches:
        image[:, rows, cols] = np.array(colour, np.uint8)[:, None, None]
    return image


DATES = [ground(), ground((slice(0, 40), slice(0, 420), BARE))]


def city(name, seed=0, blocks=((slice(20, 40), slice(30, 60)),)):
    """Two dates of brown noise, the second in another light, with bright new blocks."""
    rng, size = np.random.default_rng(seed), (150, 260)
    before = (np.array([90, 85, 80])[:, None, None] + rng.normal(0, 8, (3, *size))).clip(0, 255)
    after, mask = before * 0.7 + 30, np.zeros(size, bool)
    for rows, cols in blocks:
        after[:, rows, cols] = 200
        mask[rows, cols] = True
    return City(name, before.astype(np.uint8), after.astype(np.uint8), mask)


def test_what_a_series_shows_is_told_by_its_indices():
    cleared, lake = (slice(0, 20), slice(0, 30)), (slice(40, 60), slice(0, 30))
    dry = (slice(80, 90), slice(0, 9))
    before = ground((*dry, WATER))
    after = ground((*cleared, BARE), (*lake, WATER))
    facts = series_facts(before, after, LANDSAT)
    assert set(facts) == {"cleared", "flooded", "dried"}
    for kind, place in (("cleared", cleared), ("flooded", lake), ("dried", dry)):
        wanted = np.zeros(before.shape[1:], bool)
        wanted[place] = True
        np.testing.assert_array_equal(facts[kind], wanted)
    backwards = series_facts(after, before, LANDSAT)
    assert set(backwards) == {REVERSED[kind] for kind in facts}


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ((60, 110, 40), (90, 85, 80), "built over"),
        ((90, 85, 80), (60, 110, 40), "greened"),
        ((90, 85, 80), (200, 200, 200), "brightened"),
        ((90, 85, 80), (40, 38, 36), "darkened"),
        ((90, 85, 80), (91, 86, 81), "rebuilt"),
    ],
)
def test_what_a_citys_patch_shows_is_told_match_brightness_the_rest(old, new, kind):
    one = city("oscd_here", blocks=())
    before, mask = one.before.copy(), np.zeros(one.mask.shape, bool)
    place = (slice(50, 70), slice(80, 110))
    mask[place] = True
    before[(..., *place)] = np.array(old)[:, None, None]
    after = before.astype(float)
    after[(..., *place)] = np.array(new)[:, None, None]
    # Another sun and haze over everything must not change the verdict.
    facts = city_facts(before, (after * 0.6 + 40).astype(np.uint8), mask)
    assert set(facts) == {kind}
    np.testing.assert_array_equal(facts[kind], mask)


def test_held_out_tiles_cover_everything_and_unchanged_halves_come_along():
    (source,) = city_sources([city("oscd_beirut")])
    pairs = list(fixed_tiles(source))
    whole = [pair for pair in pairs if pair.gsd == 10]
    assert len(whole) == 2 * 3
    assert sum(pair.sample.mask.sum() for pair in whole) >= source.mask.sum()
    halves = [pair for pair in pairs if pair.gsd == 5]
    assert halves and not any(pair.sample.changed for pair in halves)
    for pair in pairs:
        assert pair.sample.before.shape == pair.sample.after.shape == (3, 128, 128)
        assert pair.sample.changed == pair.sample.mask.any()


NAMES = ("oscd_elsewhere", "oscd_rennes", "oscd_beirut")
CITIES = [city(name, seed) for seed, name in enumerate(NAMES)]


def pairs(seed=3):
    tiles = {"city_tiles": 6, "series_tiles": 4, "still_tiles": 2, "calm_tiles": 3}
    return list(medium_pairs(CITIES, [(LANDSAT, DATES)], **tiles, seed=seed))


@pytest.fixture(scope="module")
def made():
    return pairs()


def test_the_same_seed_gives_the_same_tiles(made):
    first, second, other = made, pairs(), pairs(seed=4)
    assert len(first) == len(second)
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.sample.before, two.sample.before)
        assert one.sample.captions == two.sample.captions
    assert any((one.sample.before != two.sample.before).any() for one, two in zip(first, other, strict=True))
    unchanged = [pair for pair in first if pair.split == "train"][-5:]
    assert all(pair.sample.changed is False for pair in unchanged)
    assert all((pair.sample.before != pair.sample.after).any() for pair in unchanged[:2]), "another light"


@pytest.mark.slow
def test_the_folder_is_read_as_levir_cc_at_its_own_resolution(made, tmp_path):
    summary = write_medium(made, tmp_path / "out", command="rscc synthesize-medium")
    assert list(summary) == ["train", "val", "test"]
    for split, part in summary.items():
        assert sum(part.values()) - part["changed"] == sum(pair.split == split for pair in made)
    entries = json.loads((tmp_path / "out" / "LevirCCcaptions.json").read_text())["images"]
    assert [entry["gsd"] for entry in entries] == [round(pair.gsd, 2) for pair in made]
    data = LevirCC(tmp_path / "out", "val")
    assert len(data) == sum(pair.split == "val" for pair in made)
    assert {record.gsd for record in data} == {10.0}
    assert all(record.mask is not None and len(record.captions) >= 2 for record in data)
    sample = read_pair(data[0])
    assert sample.changed == sample.mask.any()
    with pytest.raises(OutputExists):
        write_medium(made, tmp_path / "out", command="")
    with pytest.raises(DatasetLayoutInvalid):
        write_medium([pair for pair in made if pair.split != "test"], tmp_path / "other", command="")
    assert list(tmp_path.iterdir()) == [tmp_path / "out"], "what is refused leaves nothing"


@pytest.mark.slow
def test_the_command_reads_cities_and_scenes(tmp_path, capsys):
    rows = [(f"{name}.png", "oscd", 260, 150, 10) for name in NAMES]
    write_index(tmp_path / "cities", "file,dataset,width,height,gsd_m", rows)
    for one in CITIES:
        arrays = {"A": one.before.transpose(1, 2, 0), "B": one.after.transpose(1, 2, 0)}
        for part, array in (arrays | {"label": one.mask.astype(np.uint8) * 255}).items():
            write_image(tmp_path / "cities" / part / f"{one.name}.png", array)
    folder = tmp_path / "scenes" / LANDSAT.name
    folder.mkdir(parents=True)
    for year, image in zip((1990, 2000), DATES, strict=True):
        place = {"crs": "EPSG:32718", "transform": north_up(500_000, 9_000_000, 90)}
        write_raster(folder / f"{year}.tif", image, **place)
    places = ("--cities", tmp_path / "cities", "--scenes", tmp_path / "scenes", "-o", tmp_path / "out")
    counts = ("--city-tiles", 3, "--series-tiles", 2, "--still-tiles", 1, "--calm-tiles", 1)
    code, out, error = run_here(capsys, "synthesize-medium", *places, *counts)
    assert code == 0, error
    assert "train    7 tiles" in out + error and "pucallpa_landsat 2" in out + error
    content = json.loads((tmp_path / "out" / "LevirCCcaptions.json").read_text())
    assert {entry["kind"] for entry in content["images"]} == {*NAMES, LANDSAT.name}


def test_a_tile_made_coarser_says_so(made):
    pair = made[0]
    coarse = medium._coarser(pair, 2.0)
    assert coarse.gsd == 2 * pair.gsd
    smooth = np.abs(np.diff(coarse.sample.before.astype(int), axis=2)).mean()
    assert smooth < 0.8 * np.abs(np.diff(pair.sample.before.astype(int), axis=2)).mean()
