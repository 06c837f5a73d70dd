"""What the pixels of a pair are: bands, nodata and grey values."""

import numpy as np
import pytest
from affine import Affine
from rasters import ORIGIN, north_up, read_pair, refused_pair, textured, whole, write_dates, write_scene

from tiling import NothingValid, ScenePair, Window, describe


@pytest.mark.parametrize("way", ["nodata", "mask", "alpha"])
@pytest.mark.parametrize("grid", ["same", "shifted"])
@pytest.mark.parametrize("date", [0, 1])
def test_what_either_date_lacks_is_zero_on_both(tmp_path, way, grid, date):
    images = [textured(60, 90), textured(60, 90, seed=1)]
    options = [{}, {}]
    hole = np.zeros((60, 90), bool)
    hole[20:30, 40:60] = True
    if way == "nodata":
        images[date][:, hole] = 0
        options[date]["nodata"] = 0
    else:
        images[date][:, hole] = 200  # what is masked must not shine through
        options[date][way] = ~hole if way == "mask" else np.where(hole, 0, 255)
    shift = 0.2 if grid == "shifted" else 0
    transforms = north_up(), north_up(ORIGIN[0] + shift, ORIGIN[1] - shift)
    paths = [
        write_scene(tmp_path / f"{n}.tif", image, transform=transform, **option)
        for n, (image, transform, option) in enumerate(zip(images, transforms, options, strict=True))
    ]
    before, after, valid = read_pair(*paths)
    assert not valid[21:29, 41:59].any()
    assert valid[2:18, 2:-2].all() and valid[32:-2, 2:-2].all()
    assert not before[:, ~valid].any() and not after[:, ~valid].any()
    if grid == "same":
        assert np.array_equal(valid, ~hole)
    else:
        # Nothing of the hole was mixed into its surroundings.
        same = [
            write_scene(tmp_path / f"c{n}.tif", textured(60, 90, seed=n), transform=transform)
            for n, transform in enumerate(transforms)
        ]
        expected = read_pair(*same)
        assert np.array_equal(before[:, valid], expected[0][:, valid])
        assert np.array_equal(after[:, valid], expected[1][:, valid])


def test_a_dark_band_is_not_nodata(tmp_path):
    image = textured(60, 90)
    image[0, 10:20] = 0
    image[:, 40] = 0
    before, _, valid = read_pair(write_scene(tmp_path / "a.tif", image, nodata=0))
    assert not valid[40].any() and valid.sum() == valid.size - 90
    assert np.array_equal(before, image)


@pytest.mark.parametrize("shift", [0, 0.2])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_nodata(tmp_path, shift, value):
    image = textured(60, 90, dtype="float32") / 255
    image[1, 10:20, 5:9] = value
    before = write_scene(tmp_path / "a.tif", image)
    after = write_scene(
        tmp_path / "b.tif", textured(60, 90, dtype="float32") / 255, transform=north_up(ORIGIN[0] + shift)
    )
    first, second, valid = read_pair(after, before)
    assert not valid[10:20, 5:9].any() and valid.mean() > 0.95
    assert not first[:, ~valid].any() and not second[:, ~valid].any()
    assert second[:, valid].std() > 20


@pytest.mark.parametrize(
    ("dtype", "opaque", "more", "nodata"),
    [
        ("uint8", 255, ["undefined", "alpha"], None),
        ("uint8", 255, ["alpha"], 7),
        ("uint8", 1, ["alpha"], None),
        ("uint16", 255, ["alpha"], None),
        ("int16", 32767, ["alpha"], None),
        ("float32", 255, ["alpha"], None),
        ("float32", 1, ["undefined", "alpha"], -1),
    ],
)
def test_a_transparent_collar_has_no_data_whatever_else_the_file_holds(tmp_path, dtype, opaque, more, nodata):
    image = textured(200, 300, dtype="uint8").astype(dtype)
    image[:, :, :9] = 100
    if nodata is not None:
        image[:, :5] = nodata
    bands = [*image, *image[: len(more) - 1], np.zeros((200, 300), dtype)]
    bands[-1][:, 100:] = opaque
    colors = ["red", "green", "blue", *more]
    valid = read_pair(write_scene(tmp_path / "a.tif", np.stack(bands), nodata=nodata, colors=colors))[2]
    assert not valid[:, :100].any() and valid[5:, 100:].all() and valid[:5].any() == (nodata is None)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_near_infrared_that_is_called_alpha_is_no_mask(tmp_path, dtype):
    image = textured(200, 300, dtype=dtype)
    near_infrared = textured(200, 300, seed=5)[0].astype(dtype) * (1 if dtype == "uint8" else 100)
    near_infrared[:20] = 0
    picture = write_scene(tmp_path / "a.tif", image, alpha=near_infrared)
    assert describe(picture).masked_by == "alpha" and read_pair(picture)[2].all()
    full = np.iinfo(dtype).max
    feathered = np.linspace(0, full, 9)[np.clip(np.arange(300) - 100, 0, 8)][None, :].repeat(200, 0)
    valid = read_pair(write_scene(tmp_path / "b.tif", image, alpha=feathered))[2]
    assert not valid[:, :108].any() and valid[:, 108:].all()


@pytest.mark.parametrize("shift", [0, 0.2])
@pytest.mark.parametrize("date", [0, 1])
def test_all_nodata(tmp_path, scenes, shift, date):
    nothing, transform = np.zeros((3, 60, 90), np.uint8), north_up(ORIGIN[0] + shift)
    paths = [scenes[0], scenes[1]]
    paths[date] = write_scene(tmp_path / "empty.tif", nothing, nodata=0, transform=transform)
    refused_pair(NothingValid, *paths, "empty.tif")


@pytest.mark.parametrize("dtype", ["uint16", "int16", "float32"])
def test_one_stretch_for_both_dates_and_all_windows(tmp_path, dtype):
    image = textured(300, 400, dtype="float64")
    scale = 1 / 255 if dtype == "float32" else 20
    darker = image * 0.5
    darker[:, :100] = image[:, :100]  # a third of the ground did not change
    dates = write_dates(tmp_path, *((one * scale).astype(dtype) for one in (image, darker)))
    with ScenePair.open(*dates) as pair:
        first, second, valid = whole(pair)
        part = pair.read(Window(50, 60, 70, 80))[0]
        assert pair.stretch.kind == "shared"
    assert valid.all() and np.array_equal(first[:, :100], second[:, :100])
    assert np.array_equal(part, first[:, 60:140, 50:120])
    assert first[:, 100:].mean() - second[:, 100:].mean() > 40
    assert (first == 255).mean() < 0.06 and (second == 0).mean() < 0.06
    assert first.max() == 255 and second.min() == 0


@pytest.mark.parametrize("flags", [{}, {"INTERNAL_MASK_FLAGS_1": "2"}])
def test_a_mask_beside_a_scene_that_masks_nothing_is_told(tmp_path, scenes, flags):
    mask = np.full((1, 60, 90), 255, np.uint8)
    mask[:, :, :40] = 0
    write_scene(tmp_path / "mask.tif", mask, tags=flags).rename(f"{scenes[1]}.MSK")
    with ScenePair.open(*scenes[:2]) as pair:
        assert np.array_equal(whole(pair)[2], mask[0] > 0 if flags else np.ones((60, 90), bool))
        if flags:
            assert not pair.notes
        else:
            (note,) = pair.notes
            assert note.startswith(f"{scenes[1]}: after.tif.MSK ")


@pytest.mark.parametrize("scale", [(0, 5000), "reflectance"])
def test_a_scale_that_was_asked_for(tmp_path, scale):
    image = textured(60, 90, dtype="uint16") * 10
    path = write_scene(tmp_path / "a.tif", image)
    with ScenePair.open(path, path, scale=scale) as pair:
        top = 5000 if scale != "reflectance" else 3000
        shown = whole(pair)[1].astype(float)
        assert np.abs(shown - (image / top * 255).clip(0, 255)).max() <= 0.51
        assert pair.stretch.kind == ("reflectance" if scale == "reflectance" else "given")
        assert not pair.notes


def test_values_that_mean_different_things_by_the_headers_are_told(tmp_path):
    image = textured(60, 90, dtype="uint16")
    paths = [
        write_scene(tmp_path / f"{n}.tif", image, scales=[1e-4] * 3, offsets=[offset] * 3)
        for n, offset in enumerate((0.0, -0.1))
    ]
    with ScenePair.open(*paths) as pair:
        assert len(pair.notes) == 1 and "1.tif" in pair.notes[0]
    with ScenePair.open(*paths, scale="reflectance") as pair:
        assert not any("offset" in note for note in pair.notes)
    with ScenePair.open(paths[0], paths[0]) as pair:
        assert not pair.notes


@pytest.mark.parametrize("border", [0, 10])
@pytest.mark.parametrize(("dtype", "value"), [("uint8", 0), ("uint8", 77), ("float32", 0.5)])
def test_a_date_that_shows_nothing_is_reported(tmp_path, dtype, value, border):
    """Also inside a border without data, whose pixels have another value."""
    image = textured(60, 90)
    before = write_scene(tmp_path / "before.tif", image)
    flat = np.full(image.shape, 9, dtype)
    flat[:, border : 60 - border, border : 90 - border] = value
    after = write_scene(tmp_path / "after.tif", flat, nodata=9)
    with ScenePair.open(before, after) as pair:
        (note,) = pair.notes
        assert note.startswith(f"{after}: ")


def test_each_axis_is_smoothed_as_much_as_it_is_reduced(tmp_path):
    stripes = np.zeros((3, 60, 360), np.uint8)
    stripes[:, :, ::2] = 200  # of 0.25 m, four to a pixel of the other date
    place = Affine.translation(*ORIGIN) * Affine.rotation(-0.5) * Affine.scale(0.25, -1)
    before = write_scene(tmp_path / "before.tif", textured(60, 90), transform=north_up(cell=1.0))
    after = write_scene(tmp_path / "after.tif", stripes, transform=place)
    _, shown, valid = read_pair(before, after)
    assert valid.mean() > 0.9
    assert shown[:, valid].std() < 12 and shown[:, valid].mean() == pytest.approx(100, abs=5)
