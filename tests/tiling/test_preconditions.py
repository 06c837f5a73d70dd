"""What is checked before anything is said of a pair, and what is said where it does not hold."""

import numpy as np
import pytest
from affine import Affine
from rasters import ORIGIN, north_up, textured, whole, write_dates, write_scene

from tiling import OverlapTooSmall, PixelsWithoutSize, ScenePair, check_pixel_size, describe
from tiling.registration import measure

SIZE = (160, 200)


def notes_of(*paths, **options):
    with ScenePair.open(*paths, **options) as pair:
        return pair.notes


def reflectances(seed, low=300, span=12):
    """Ground of Sentinel-2: uint16, dark pixels at ``low``."""
    ground = textured(*SIZE, seed=7, dtype="float64") + np.random.default_rng(seed).normal(0, 4, (3, *SIZE))
    return (low + (ground - 20).clip(0) * span).astype("uint16")


@pytest.mark.parametrize(
    ("crs", "transform", "remedy"),
    [
        ("EPSG:32633", Affine(5e-6, 0, 15.0, 0, -5e-6, 50.0), "EPSG:4326"),
        ("EPSG:32633", Affine(9e-5, 0, 15.0, 0, -9e-5, 50.0), "EPSG:4326"),
        ("EPSG:4326", Affine(0.5, 0, 0.0, 0, -0.5, 50.0), "metres"),
    ],
)
def test_pixels_of_an_impossible_size_are_refused(tmp_path, crs, transform, remedy):
    path = write_scene(tmp_path / "a.tif", textured(80, 100), crs=crs, transform=transform)
    with pytest.raises(PixelsWithoutSize, match=remedy) as caught:
        check_pixel_size(describe(path))
    assert str(caught.value).startswith(f"{path}: ") and caught.value.exit_code == 2


@pytest.mark.parametrize("cell", [0.01, 0.5, 30, 5000])
def test_pixels_of_real_sizes_pass(tmp_path, cell):
    path = write_scene(tmp_path / "a.tif", textured(8, 10), transform=north_up(cell=cell))
    check_pixel_size(describe(path))


@pytest.mark.parametrize("columns", [1, 5])
def test_an_overlap_of_a_few_columns_is_refused(tmp_path, columns):
    before = write_scene(tmp_path / "a.tif", textured(*SIZE))
    place = north_up(ORIGIN[0] + (SIZE[1] - columns) * 0.5)
    after = write_scene(tmp_path / "b.tif", textured(*SIZE), transform=place)
    with pytest.raises(OverlapTooSmall) as caught:
        ScenePair.open(before, after)
    assert str(after) in str(caught.value) and f"{columns} x 160 pixels" in str(caught.value)


def test_a_small_overlap_is_said(tmp_path):
    before = write_scene(tmp_path / "a.tif", textured(*SIZE))
    after = write_scene(tmp_path / "b.tif", textured(*SIZE), transform=north_up(ORIGIN[0] + 90))
    (note,) = notes_of(before, after)
    assert note.startswith(f"{after}: ") and "20 x 160 pixels" in note
    assert not notes_of(before, before)
    large = write_scene(tmp_path / "c.tif", textured(900, 900))
    chip = write_scene(
        tmp_path / "d.tif",
        textured(900, 900)[:, 90:250, 40:200],
        transform=north_up(ORIGIN[0] + 20, ORIGIN[1] - 45),
    )
    assert not notes_of(large, chip) and not notes_of(chip, large), "a chip of a scene is seen whole"


@pytest.mark.parametrize(("low", "high"), [(1, 9), (2, 28)])
def test_a_few_grey_levels_are_said_with_the_scale_that_spreads_them(tmp_path, low, high):
    squeezed = [
        (low + (textured(*SIZE, seed=seed, dtype="float64") - 20) / 215 * (high - low))
        .round()
        .astype("uint8")
        for seed in (1, 2)
    ]
    paths = write_dates(tmp_path, *squeezed)
    notes = notes_of(*paths)
    assert len(notes) == 2
    for path, note in zip(paths, notes, strict=True):
        assert note.startswith(f"{path}: ") and "--scale" in note
    assert not notes_of(*paths, scale=(low, high))
    sixteen = write_dates(tmp_path, *(image.astype("uint16") * 200 for image in squeezed))
    assert len(notes_of(*sixteen)) == (2 if high < 16 else 0)


def test_a_date_without_contrast_is_said(tmp_path):
    clear = textured(*SIZE)
    fog = (200 + clear / 40).astype("uint8")
    paths = write_dates(tmp_path, clear, fog)
    notes = notes_of(*paths)
    assert notes and all(note.startswith(f"{paths[1]}: ") for note in notes)


def test_clouds_on_one_date_change_neither_stretch_nor_units(tmp_path):
    before, clear = reflectances(1), reflectances(2)
    with ScenePair.open(*write_dates(tmp_path, before, clear)) as pair:
        expected = pair.stretch
    for share in (0.05, 0.4):
        cloudy, columns = clear.copy(), round(share * SIZE[1])
        cloudy[:, :, :columns] = np.random.default_rng(0).integers(8000, 12_000, (3, SIZE[0], columns))
        paths = write_dates(tmp_path, before, cloudy)
        for dates in (paths, paths[::-1]):
            with ScenePair.open(*dates) as pair:
                assert not pair.notes
                assert np.allclose(pair.stretch.before.high, expected.before.high, rtol=0.1)
                assert np.allclose(pair.stretch.before.low, expected.before.low, rtol=0.1)


def test_another_unit_is_said(tmp_path):
    ground = reflectances(1)
    paths = write_dates(tmp_path, ground, ground // 10)
    (note,) = notes_of(*paths)
    assert note.startswith(f"{paths[1]}: ") and "units" in note


@pytest.mark.parametrize("date", [0, 1])
def test_the_offset_of_sentinel_2_is_said(tmp_path, date):
    images = [reflectances(1), reflectances(2)]
    images[date] = images[date] + 1000
    paths = write_dates(tmp_path, *images)
    (note,) = notes_of(*paths)
    assert note.startswith(f"{paths[date]}: ") and "--scale reflectance" in note and "-offset -0.1" in note
    # What the remedy does.
    stated = [{}, {}]
    stated[date] = {"scales": [1e-4] * 3, "offsets": [-0.1] * 3}
    paths = [
        write_scene(tmp_path / f"{n}.tif", image, **own)
        for n, (image, own) in enumerate(zip(images, stated, strict=True))
    ]
    (note,) = notes_of(*paths)
    assert note.startswith(f"{paths[date]}: ") and "--scale reflectance" in note
    with ScenePair.open(*paths, scale="reflectance") as pair:
        before, after, _ = whole(pair)
        assert not pair.notes and abs(before.mean() - after.mean()) < 3


@pytest.mark.parametrize(
    ("dtype", "unit", "scale"), [("int16", 1, 1e-4), ("float32", 1, 1e-4), ("float32", 1e-4, 1)]
)
def test_the_offset_of_sentinel_2_is_said_of_other_types(tmp_path, dtype, unit, scale):
    images = [reflectances(1), reflectances(2) + 1000]
    paths = write_dates(tmp_path, *((image * unit).astype(dtype) for image in images))
    (note,) = notes_of(*paths)
    assert note.startswith(f"{paths[1]}: ") and f"-scale {scale} -offset -0.1" in note
    stated = {"scales": [scale] * 3, "offsets": [-0.1] * 3}
    write_scene(tmp_path / "stated.tif", (images[1] * unit).astype(dtype), **stated)
    first = {"scales": [scale] * 3, "offsets": [0.0] * 3}
    write_scene(tmp_path / "first.tif", (images[0] * unit).astype(dtype), **first)
    with ScenePair.open(tmp_path / "first.tif", tmp_path / "stated.tif", scale="reflectance") as pair:
        before, after, _ = whole(pair)
    assert abs(before.mean() - after.mean()) < 3


def test_seasons_and_haze_are_no_offset(tmp_path):
    before = reflectances(1)
    haze = (before * 0.8 + np.array([250, 400, 650])[:, None, None]).astype("uint16")
    assert not notes_of(*write_dates(tmp_path, before, haze))
    assert not notes_of(*write_dates(tmp_path, before, (before * 1.6).astype("uint16")))
    turned = before + np.array([3000, 1000, 3000], "uint16")[:, None, None]
    notes = notes_of(*write_dates(tmp_path, before + np.uint16(2000), turned))
    assert not [note for note in notes if "Sentinel-2" in note], "one band is darker"


@pytest.mark.slow
@pytest.mark.parametrize("declared", [True, False])
def test_a_small_site_in_a_canvas_is_registered_as_if_it_were_cut_out(tmp_path, declared):
    ground = np.random.default_rng(3).integers(1, 255, (3, 300, 330)).astype("uint8")
    ground = np.maximum(ground // 2, textured(300, 330) // 2 + 1).astype("uint8")
    before, after = ground[:, 10:290, 10:310], ground[:, 5:285, 7:307]
    with ScenePair.open(*write_dates(tmp_path, before, after)) as pair:
        cut = pair.registration
    canvases = []
    for site in (before, after):
        canvas = np.zeros((3, 1500, 1800), "uint8")
        canvas[:, 1000:1280, 300:600] = site
        canvases.append(canvas)
    with ScenePair.open(*write_dates(tmp_path, *canvases, nodata=0 if declared else None)) as pair:
        assert (pair.site.col_off, pair.site.row_off) == pytest.approx((300, 1000), abs=3)
        assert (pair.site.width, pair.site.height) == pytest.approx((300, 280), abs=5)
        assert pair.registration.cols == pytest.approx(cut.cols, abs=0.1)
        assert pair.registration.rows == pytest.approx(cut.rows, abs=0.1)
        assert {one.name for one in pair.preconditions} >= {"overlap", "data", "grey levels", "contrast"}
        whole_grid = measure(pair._read_raw, pair.grid.width, pair.grid.height, pair.grid.gsd)
    assert whole_grid.cols is None and cut.cols is not None
