from __future__ import annotations

import numpy as np
import pytest
import rasterio
from captioners import BrightnessCaptioner
from PIL import Image
from rasters import lonlat
from scene_pairs import make_pair

from tiling import (
    MissingGeoreferencing,
    NoOverlap,
    NothingValid,
    PixelTypeUnsupported,
    SceneInfo,
    SceneNotFound,
    TilingError,
    TooFewBands,
)
from workflows.errors import OutputExists, PicturesDiffer
from workflows.scene.pictures.draw import draw, write_picture
from workflows.scene.pictures.explain import ExplainOptions, explain_pair, read_pair

# Row, column, height, width, brightness after: a large change below, a small one above.
SMALL, LARGE = (40, 150, 12, 20, 220), (90, 20, 30, 30, 240)


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path, [SMALL, LARGE], names=("a_2016.tif", "b_2019.tif"))


def explained(pair, captioner=None, **options):
    captioner = captioner or BrightnessCaptioner()
    result = explain_pair(pair.before, pair.after, captioner, ExplainOptions(**options))
    ((before, after, assume_changed),) = captioner.explained
    assert (before is result.crop.before) and (after is result.crop.after)
    assert assume_changed == result.crop.changed
    return result


def middle_of(geometry):
    return lonlat(geometry.centroid.x, geometry.centroid.y)


def middle(result):
    """The brightness after in the middle of the crop."""
    side = result.crop.after.shape[1]
    return int(result.crop.after[:, side // 2, side // 2].mean())


def test_the_crop_of_the_largest_change_by_default(pair):
    result = explained(pair)
    assert (result.crop.place, result.crop.changed) == ("the largest change", True)
    assert result.crop.dates == ("2016", "2019")
    # Rows 90 to 120 and columns 20 to 50 are in the middle of 64 pixels from row 73 and column 3.
    with rasterio.open(pair.after) as file:
        np.testing.assert_array_equal(result.crop.after, file.read()[:, 73:137, 3:67])
    west, south, east, north = result.crop.bounds
    lon, lat = middle_of(pair.truth[1])
    assert west < lon < east and south < lat < north
    assert (east - west) * 111_320 * np.cos(np.radians(lat)) == pytest.approx(32, rel=0.03)
    assert (north - south) * 111_320 == pytest.approx(32, rel=0.03)


def test_the_place_that_is_asked_for(pair):
    assert middle(explained(pair, at=middle_of(pair.truth[0]))) == 220
    assert middle(explained(pair, pixel=(35, 105))) == 240
    result = explained(pair, pixel=(100, 75))
    assert (result.crop.place, result.crop.changed) == ("column 100, row 75", False)
    with rasterio.open(pair.after) as file:
        np.testing.assert_array_equal(result.crop.after, file.read()[:, 44:108, 69:133])


def in_degrees(folder, west):
    """A pair in degrees with a change from row 60 and column 120 on."""
    grid = {"gsd": 5e-6, "crs": "EPSG:4326", "origin": (west, 50.0), "size": (200, 260)}
    return make_pair(folder, [(60, 120, 40, 40, 240)], **grid)


def test_the_bounds_of_a_crop_across_180_degrees_do_not_go_around_the_world(tmp_path):
    across = in_degrees(tmp_path, 179.9994)
    west, south, east, north = explained(across, pixel=(120, 100)).crop.bounds
    assert west > 179.999 and east < -179.999 and south < north
    with pytest.raises(NoOverlap):
        explained(across, at=(179.9, 50.0))


def test_a_pixel_is_one_of_the_image_before_whatever_grid_is_worked_on(tmp_path):
    finer = make_pair(tmp_path, [(120, 200, 40, 40, 240)], gsd=0.25, size=(300, 400))
    assert middle(explained(finer, pixel=(220, 140))) == pytest.approx(240, abs=2)
    degrees = in_degrees(tmp_path, 15.0)
    assert middle(explained(degrees, pixel=(140, 80))) == pytest.approx(240, abs=2)
    assert middle(explained(degrees, at=(15.0 + 140 * 5e-6, 50.0 - 80 * 5e-6))) == pytest.approx(240, abs=2)


@pytest.mark.parametrize("options", [{"at": (15.0, 51.0)}, {"pixel": (210, 10)}, {"pixel": (-1, 10)}])
def test_a_place_outside_is_refused(pair, options):
    with pytest.raises(NoOverlap):
        explained(pair, **options)


def test_a_place_without_data_is_refused(tmp_path):
    pair = make_pair(tmp_path, [LARGE], nodata_rows=70)
    with pytest.raises(NothingValid):
        explained(pair, pixel=(20, 10))


def save(folder, name, image):
    array = np.asarray(image)
    path = folder / name
    Image.fromarray(array.transpose(1, 2, 0) if array.ndim == 3 else array).save(path)
    return path


@pytest.fixture
def pictures(tmp_path):
    """Two pictures of 96 rows and 128 columns, RGB and RGBA, that differ in their right half."""
    before = np.full((3, 96, 128), 90, np.uint8)
    after = np.concatenate([before, np.full((1, 96, 128), 255, np.uint8)])
    after[:3, :, 64:] = 200
    return save(tmp_path, "one.png", before), save(tmp_path, "two.png", after)


def test_pictures_without_a_place_are_shown_whole(pictures):
    result = explain_pair(*pictures, BrightnessCaptioner())
    assert (result.crop.place, result.crop.bounds, result.crop.changed) == ("the whole picture", None, False)
    assert result.crop.after.shape == (3, 64, 64)
    np.testing.assert_array_equal(result.crop.before, 90)
    np.testing.assert_array_equal(result.crop.after[:, :, :30], 90)
    np.testing.assert_array_equal(result.crop.after[:, :, 34:], 200)


def test_pictures_are_cut_at_a_pixel(pictures):
    result = explain_pair(*pictures, BrightnessCaptioner(), ExplainOptions(pixel=(60, 90)))
    assert result.crop.after.shape == (3, 64, 64)
    np.testing.assert_array_equal(result.crop.after[:, :, :36], 90)
    np.testing.assert_array_equal(result.crop.after[:, :, 36:], 200)


def test_pictures_that_cannot_be_compared_are_refused(pictures, pair, tmp_path):
    small = save(tmp_path, "small.png", np.zeros((3, 90, 128), np.uint8))
    gray = save(tmp_path, "gray.png", np.zeros((96, 128), np.uint8))
    deep = save(tmp_path, "deep.png", np.zeros((96, 128), np.uint16))
    for after, error, words in (
        (small, PicturesDiffer, "128 x 96 and 128 x 90"),
        (gray, TooFewBands, "gray.png: it has 1 band, not a band 3"),
        (pair.after, MissingGeoreferencing, "one.png"),
        (tmp_path / "none.png", SceneNotFound, "none.png"),
    ):
        with pytest.raises(error, match=words):
            explain_pair(pictures[0], after, BrightnessCaptioner())
    with pytest.raises(PixelTypeUnsupported):
        explain_pair(deep, deep, BrightnessCaptioner(), ExplainOptions(bands=(1, 1, 1)))
    with pytest.raises(TilingError):
        read_pair(pictures[0], pair.after, ExplainOptions())
    read_pair(*pictures, ExplainOptions())


@pytest.mark.slow
def test_the_file_is_what_its_name_says(pair, tmp_path):
    result = explained(pair)
    page = draw(result)
    quarters = np.array_split(np.asarray(page), 4)
    assert all((quarter != quarter[0, 0]).any() for quarter in quarters), "the parts lie below each other"
    for name, kind in (("p.png", "PNG"), ("p.webp", "WEBP")):
        write_picture(result, tmp_path / name)
        with Image.open(tmp_path / name) as picture:
            assert picture.format == kind and picture.size == page.size
            difference = np.abs(np.asarray(picture.convert("RGB"), float) - np.asarray(page, float))
        assert difference.mean() < 4
        with pytest.raises(OutputExists):
            write_picture(result, tmp_path / name)
        write_picture(result, tmp_path / name, overwrite=True)
    assert sorted(path.name for path in tmp_path.glob("*p.*")) == ["p.png", "p.webp"]


def test_pictures_with_a_place_are_scenes(pictures):
    for path in pictures:
        path.with_suffix(".pgw").write_text("0.5\n0\n0\n-0.5\n500000\n5600000\n")
        described = "<PAMDataset><SRS>EPSG:32633</SRS></PAMDataset>"
        path.with_name(f"{path.name}.aux.xml").write_text(described)
    assert all(isinstance(one, SceneInfo) for one in read_pair(*pictures, ExplainOptions()))
