"""Fill that no file declares as nodata: what is taken for it, and what is not."""

import io

import numpy as np
import pytest
from affine import Affine
from PIL import Image
from rasters import ORIGIN, read_pair, textured, whole, write_dates, write_scene
from scipy import ndimage

from tiling import ScenePair, Window, describe

SIZE = (240, 320)


def collar(width=30):
    area = np.ones(SIZE, bool)
    area[width:-width, width:-width] = False
    return area


def half():
    area = np.zeros(SIZE, bool)
    area[:, 160:] = True
    return area


def turned():
    """What lies outside a scene that is turned by 10 degrees."""
    rows, cols = np.mgrid[: SIZE[0], : SIZE[1]] - np.array(SIZE)[:, None, None] / 2
    angle = np.radians(10)
    across = cols * np.cos(angle) - rows * np.sin(angle)
    along = cols * np.sin(angle) + rows * np.cos(angle)
    return (abs(across) > 130) | (abs(along) > 90)


def behind_a_neck():
    """A hole in the middle that a thin line connects to the edge."""
    area = np.zeros(SIZE, bool)
    area[80:160, 100:220] = True
    area[:80, 150:152] = True
    return area


def filled(dtype, area, value, seed=1):
    image = textured(*SIZE, dtype="uint16", seed=seed).astype(dtype)
    image = image * (1 if dtype == "uint8" else 10)
    image[:, area] = value
    return image.astype(dtype)


def corner():
    area = np.zeros(SIZE, bool)
    area[:80, :160] = True
    return area


AREAS = {"collar": collar(), "half": half(), "turned": turned(), "neck": behind_a_neck(), "corner": corner()}
VALUES = [("uint8", 0), ("uint8", 255), ("uint8", 128), ("uint16", 0), ("uint16", 65535), ("uint16", 1234)]


@pytest.mark.parametrize(("area", "date"), [("collar", 0), ("half", 1), ("turned", 0), ("neck", 1)])
@pytest.mark.parametrize(("dtype", "value"), VALUES)
def test_constant_ground_that_reaches_the_edge_has_no_data(tmp_path, dtype, value, area, date):
    if area == "neck" and value in (128, 1234):
        pytest.skip("other values than black and white must run along the edge: a flat roof may reach it")
    images = [filled(dtype, np.zeros(SIZE, bool), 0, seed) for seed in (1, 2)]
    images[date] = filled(dtype, AREAS[area], value)
    paths = write_dates(tmp_path, *images)
    with ScenePair.open(*paths) as pair:
        before, after, valid = whole(pair)
        (note,) = pair.notes
        seen = pair.seen(Window(0, 0, SIZE[1], SIZE[0]))
        part = pair.read(Window(90, 70, 50, 60))[2]
    assert note.startswith(f"{paths[date]}: ")
    assert not valid[AREAS[area]].any() and not before[:, AREAS[area]].any()
    assert not after[:, AREAS[area]].any()
    far = ~ndimage.binary_dilation(AREAS[area], np.ones((3, 3)), iterations=3)
    assert valid[far].all() and seen[1 - date].all() and np.array_equal(seen[date], valid)
    assert np.array_equal(part, valid[70:130, 90:140])  # the same in every window


@pytest.mark.parametrize(
    ("value", "area", "date"), [(0, "collar", 1), (255, "half", 0), (255, "turned", 1), (0, "corner", 0)]
)
def test_fill_that_jpeg_has_blurred(tmp_path, value, area, date):
    images = [filled("uint8", np.zeros(SIZE, bool), 0, seed) for seed in (1, 2)]
    file = io.BytesIO()
    sharp = filled("uint8", AREAS[area], value)
    Image.fromarray(sharp.transpose(1, 2, 0)).save(file, "JPEG", quality=75)
    images[date] = np.array(Image.open(file)).transpose(2, 0, 1)
    assert (images[date] != sharp)[:, AREAS[area]].any()
    valid = read_pair(*write_dates(tmp_path, *images))[2]
    assert valid[AREAS[area]].mean() < 0.01
    far = ~ndimage.binary_dilation(AREAS[area], np.ones((3, 3)), iterations=16)
    assert valid[far].all()


@pytest.mark.parametrize(("value", "area"), [(0, "collar"), (255, "half"), (0, "turned")])
def test_fill_with_noise(tmp_path, value, area):
    images = [filled("uint8", np.zeros(SIZE, bool), 0, seed) for seed in (1, 2)]
    noise = np.random.default_rng(4).integers(0, 7, images[1].shape)
    images[1] = np.where(AREAS[area], abs(value - noise), images[1]).astype("uint8")
    with ScenePair.open(*write_dates(tmp_path, *images)) as pair:
        valid = whole(pair)[2]
        assert len(pair.fill[1]) == 1
    assert not valid[AREAS[area]].any()


def test_a_dim_scene_is_no_fill(tmp_path):
    images = [textured(*SIZE, seed=seed) // 50 for seed in (1, 2)]
    with ScenePair.open(*write_dates(tmp_path, *(image.astype("uint8") for image in images))) as pair:
        assert pair.fill == ((), ())


def test_fill_is_found_after_the_scene_was_warped(tmp_path):
    area = turned()
    before = write_scene(tmp_path / "before.tif", filled("uint8", np.zeros(SIZE, bool), 0))
    place = Affine.translation(ORIGIN[0], ORIGIN[1]) * Affine.rotation(-3) * Affine.scale(0.5, -0.5)
    after = write_scene(tmp_path / "after.tif", filled("uint8", area, 255), transform=place)
    with ScenePair.open(before, after) as pair:
        _, shown, valid = whole(pair)
        assert len(pair.notes) == 1
    assert (shown[:, valid] < 250).all() and 0.3 < valid.mean() < 0.8


@pytest.mark.parametrize(("dtype", "value"), [("uint8", 1), ("uint8", 254), ("uint16", 1)])
def test_fill_beside_black_and_white_is_named_by_its_value(tmp_path, dtype, value):
    plain = filled(dtype, np.zeros(SIZE, bool), 0)
    with ScenePair.open(*write_dates(tmp_path, plain, filled(dtype, AREAS["corner"], value))) as pair:
        (fill,) = pair.fill[1]
        assert not whole(pair)[2][AREAS["corner"]].any()
    assert fill.value.bands == (value,) * 3


@pytest.mark.parametrize("value", [0, 255])
def test_a_missing_block_away_from_the_edge_is_fill(tmp_path, value):
    block = np.zeros(SIZE, bool)
    block[64:192, 128:256] = True
    plain = filled("uint8", np.zeros(SIZE, bool), 0)
    valid = read_pair(*write_dates(tmp_path, plain, filled("uint8", block, value)))[2]
    assert not valid[block].any() and valid.mean() > 0.75


@pytest.mark.parametrize("value", [0, (3, 2, 4)])
def test_a_cloud_that_was_cut_out_is_fill(tmp_path, value):
    cloud = np.hypot(*(np.mgrid[: SIZE[0], : SIZE[1]] - np.reshape((120, 160), (2, 1, 1)))) < 50
    plain = filled("uint8", np.zeros(SIZE, bool), 0)
    cut = np.where(cloud, np.reshape(value, (-1, 1, 1)), plain).astype("uint8")
    valid = read_pair(*write_dates(tmp_path, plain, cut))[2]
    assert not valid[cloud].any() and valid.mean() > 0.85


@pytest.mark.parametrize(
    ("dtype", "value", "block", "hidden"),
    [
        ("uint8", 128, np.s_[70:155, 90:175], True),
        ("uint8", (229, 227, 223), np.s_[64:164, 128:250], True),
        ("uint16", 1234, np.s_[70:155, 90:175], True),
        ("uint8", 128, np.s_[70:145, 90:165], False),  # a small roof, drawn flat
        ("uint8", 128, np.s_[60:160, 90:220], False),  # a long one
        ("uint8", 128, np.s_[20:220, 40:260], False),  # most of the scene
    ],
)
def test_a_large_square_of_one_value_is_a_missing_tile(tmp_path, dtype, value, block, hidden):
    plain = filled(dtype, np.zeros(SIZE, bool), 0)
    image = plain.copy()
    image[:, *block] = np.reshape(value, (-1, 1, 1))
    image[:, 20:22, 10:80] = image[:, 150:230, 95:96] = np.reshape(value, (-1, 1, 1))  # specks beside it
    valid = read_pair(*write_dates(tmp_path, plain, image))[2]
    assert valid[block].any() != hidden and valid.mean() > 0.75
    assert hidden or valid.all()


@pytest.mark.slow
def test_a_missing_tile_of_a_scene_of_many_cells_and_grey_ground(tmp_path):
    grey = np.repeat(np.random.default_rng(0).integers(40, 200, (1, 2200, 1400)), 3, axis=0).astype("uint8")
    tiled = grey.copy()
    tiled[:, 900:1156, 600:856] = 128
    valid = read_pair(*write_dates(tmp_path, grey, tiled))[2]
    assert not valid[900:1156, 600:856].any()
    assert valid[:890].all() and valid[1166:].all() and valid[:, :590].all() and valid[:, 866:].all()


def white_hall(image):
    """A large roof that is turned and saturated."""
    rows, cols = np.mgrid[: SIZE[0], : SIZE[1]]
    image[:, (abs(rows - 120 + 0.4 * (cols - 160)) < 45) & (abs(cols - 160 - 0.4 * (rows - 120)) < 60)] = 255
    return image


def roof(image):
    """A white roof: it is saturated but for its seams, and its edges fade."""
    image[:, 100:140, 90:170] = 255
    image[:, 100:140, 120:122] = 230
    return image


def lake(image):
    """Black water at the edge of the scene, with a shore that fades."""
    rows, cols = np.mgrid[: SIZE[0], : SIZE[1]]
    depth = np.clip(100 - np.hypot(rows - 120, cols - 320), 0, 30)
    return np.clip(image * (1 - depth / 20), 0, 255).astype("uint8")


@pytest.mark.parametrize("made", [roof, lake, white_hall])
def test_roofs_and_water_are_no_fill(tmp_path, made):
    plain = filled("uint8", np.zeros(SIZE, bool), 0)
    with ScenePair.open(*write_dates(tmp_path, plain, made(plain.copy()))) as pair:
        assert whole(pair)[2].all() and pair.fill == ((), ())


def test_a_white_roof_beside_a_white_collar_stays(tmp_path):
    plain = filled("uint8", np.zeros(SIZE, bool), 0)
    image = roof(filled("uint8", collar(), 255))
    valid = read_pair(*write_dates(tmp_path, plain, image))[2]
    assert not valid[collar()].any() and valid[100:140, 90:170].all()


def test_a_value_beyond_all_others_is_fill_anywhere(tmp_path):
    hole = np.zeros(SIZE, bool)
    hole[60:160, 80:200] = True
    plain = filled("float32", np.zeros(SIZE, bool), 0)
    dates = write_dates(tmp_path, plain, filled("float32", hole, -9999))
    with ScenePair.open(*dates) as pair:
        valid = whole(pair)[2]
        (note,) = pair.notes
    assert not valid[hole].any() and valid.mean() > 0.8 and note.startswith(f"{dates[1]}: ")


def test_fill_moves_with_a_scene_that_is_aligned(tmp_path):
    image = textured(*SIZE)
    later = np.roll(image, (-5, 6), (1, 2))
    later[:, collar()] = 255
    with ScenePair.open(*write_dates(tmp_path, image, later), align=True) as pair:
        assert pair.layers[1].shift == (-6, 5)
        _, after, valid = whole(pair)
    filled = np.roll(collar(), (5, -6), (0, 1))
    assert not valid[filled].any() and valid[20:-20, 20:-20].any()
    assert valid[45:-45, 45:-45].all() and not (after == 255).all(axis=0).any()


def test_fill_takes_no_part_in_spectral_bands(tmp_path):
    from tiling import SpectralPair

    dates = write_dates(tmp_path, filled("uint8", half(), 0), filled("uint8", half(), 255))
    with ScenePair.open(*dates) as pair, SpectralPair.open(pair) as bands:
        assert not bands.read(Window(0, 0, SIZE[1], SIZE[0]))[2][half()].any()


def test_a_map_of_classes_has_no_fill(tmp_path):
    classes = filled("uint8", np.zeros(SIZE, bool), 0)
    classes[:, :60], classes[:, 180:] = 40, 220
    with ScenePair.open(*write_dates(tmp_path, classes, np.roll(classes, 3, axis=1))) as pair:
        assert pair.fill == ((), ())


def test_a_scene_of_one_value_has_no_fill(tmp_path):
    plain = filled("uint8", np.zeros(SIZE, bool), 0)
    with ScenePair.open(*write_dates(tmp_path, plain, np.full_like(plain, 255))) as pair:
        assert pair.fill == ((), ()) and whole(pair)[2].all()
        assert describe(tmp_path / "after.tif").nodata is None
