import numpy as np
import pytest
import rasterio
from PIL import Image
from rasters import ORIGIN, UTM, north_up, read_pair, textured, write_scene

from tiling import BandNotFound, describe
from tiling.bands import BandChoice, choose_bands

SENTINEL = ["B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B10", "B11", "B12"]


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """Write a scene with band names and colours; return what its header says."""
    folder = tmp_path_factory.mktemp("bands")

    def make(names=None, colors=None, count=None):
        count = count or len(names or colors)
        colors = colors or ["gray", *["undefined"] * (count - 1)]
        said = {"colors": colors, "names": names, "photometric": "MINISBLACK"}
        return describe(write_scene(folder / "scene.tif", textured(8, 8, bands=count), **said))

    return make


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (SENTINEL, (4, 3, 2)),
        (["B2", "B3", "B4", "B8"], (3, 2, 1)),
        (["B4", "B3", "B2"], (1, 2, 3)),
        ([f"SR_B{n}" for n in range(1, 8)], (4, 3, 2)),  # Landsat 8 and 9
        ([f"SR_B{n}" for n in (1, 2, 3, 4, 5, 7)], (3, 2, 1)),  # Landsat 4 to 7
        ([f"B{n}" for n in range(1, 12)], (4, 3, 2)),
        (["B1", "B2", "B3", "B4", "B5", "B7", "B8"], (3, 2, 1)),
        ([f"sur_refl_b0{n}" for n in range(1, 8)], (1, 4, 3)),  # MODIS
        (["B02.jp2", "B03.jp2", "B04.jp2", "B08.jp2"], (3, 2, 1)),
        (["Blau", "Grün", "Rot"], (3, 2, 1)),
        (["bleu", "vert", "rouge", "proche infrarouge"], (3, 2, 1)),
        (["coastal", "Blue", "Green", "Red", "NIR"], (4, 3, 2)),
        (["B", "G", "R", "N"], (3, 2, 1)),
        (["B2, central wavelength 490 nm", "B3 (green)", "B4: red", "B8"], (3, 2, 1)),
        (["B02_10m", "B03_10m", "B04_10m", "B08_10m"], (3, 2, 1)),
        (["Band 2", "Band 3", "Band 4", "Band 8"], (3, 2, 1)),
        (["blue_10m", "green_10m", "red_10m", "nir_10m"], (3, 2, 1)),
        (["Band 1 (Blue)", "Band 2 (Green)", "Band 3 (Red)", "Band 4 (NIR)"], (3, 2, 1)),
        ([f"sr_band{n}" for n in range(1, 8)], (4, 3, 2)),
        ([f"sr_band{n}" for n in (1, 2, 3, 4, 5, 7)], (3, 2, 1)),
        (["0.49 um", "0.56 um", "0.665 um", "0.84 um"], (3, 2, 1)),
        (["450-515 nm", "525-600 nm", "630-680 nm", "845-885 nm"], (3, 2, 1)),
        (["coastal_blue", "blue", "green_i", "green", "yellow", "red", "rededge", "nir"], (6, 4, 2)),
        (["T31UDQ_B02_10m", "T31UDQ_B03_10m", "T31UDQ_B04_10m"], (3, 2, 1)),
        (["Red", "Green", "Blue", "Red Edge", "NIR"], (1, 2, 3)),
    ],
)
def test_names_that_tell_the_sensor(scene, names, expected):
    assert choose_bands(scene(names)) == BandChoice(expected, "name")


@pytest.mark.parametrize(
    "names",
    [
        [f"B{n}" for n in range(1, 8)],  # Landsat 5 or Landsat 8
        [f"B{n}" for n in range(1, 5)],
        ["nir", "red", "green"],
        ["red", "red", "green", "blue"],
        ["VV", "VH", "ratio"],
    ],
)
def test_names_that_do_not_tell_it_are_warned_about(scene, names):
    choice = choose_bands(scene(names))
    assert (choice.numbers, choice.how) == ((1, 2, 3), "order")
    assert "--bands" in choice.warning and ", ".join(names) in choice.warning and "\n" not in choice.warning


def test_colours_come_before_names_and_contradictions_are_told(scene):
    colors = ["red", "green", "blue", "undefined"]
    assert choose_bands(scene(["red", "green", "blue", "nir"], colors)) == BandChoice((1, 2, 3), "color")
    assert choose_bands(scene(None, ["undefined", "blue", "green", "red"])).numbers == (4, 3, 2)
    assert "--band-names red,green,blue,nir" in choose_bands(scene(None, colors)).warning
    assert choose_bands(scene(None, colors[:3])).warning is None
    choice = choose_bands(scene(["B2", "B3", "B4", "B8"], colors))
    assert (choice.numbers, choice.how) == ((1, 2, 3), "color") and "--bands 3,2,1" in choice.warning


@pytest.mark.parametrize(("count", "warned"), [(3, False), (4, True), (5, True), (13, True)])
def test_without_names_the_order_counts(scene, count, warned):
    choice = choose_bands(scene(count=count))
    assert (choice.numbers, choice.how) == ((1, 2, 3), "order")
    assert (choice.warning is not None) == warned
    assert not warned or all(word in choice.warning for word in ("--bands", "--band-names"))
    named = choose_bands(scene([f"Band {n}" for n in range(1, count + 1)]))
    assert named.numbers == (1, 2, 3) and (named.warning is not None) == warned


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        ((4, 3, 2), (4, 3, 2)),
        (("4", " 3 ", 2), (4, 3, 2)),
        (("B04", "b03", "b2"), (4, 3, 2)),
        (("red", "Green", "BLUE"), (4, 3, 2)),
        (("B8A", "B12", "b8"), (9, 13, 8)),
        ((1, 1, 1), (1, 1, 1)),
    ],
)
def test_bands_by_number_and_name(scene, requested, expected):
    assert choose_bands(scene(SENTINEL), requested) == BandChoice(expected, "request")


@pytest.mark.parametrize("band", [0, 14, -1, "B13", "nir", "", "undefined"])
def test_bands_that_are_not_there(scene, band):
    info = scene(SENTINEL)
    with pytest.raises(BandNotFound):
        choose_bands(info, (1, band, 2))


def test_a_name_that_several_bands_have_is_refused(scene):
    info = scene(["B1", "near", "Near"])
    for name in ("near", "NEAR"):
        with pytest.raises(BandNotFound):
            choose_bands(info, (1, name, 1))


# --- palettes

COLORS = [(200, 10, 30, 255), (20, 180, 40, 255), (10, 20, 220, 255), (250, 250, 250, 255)]
PALETTE = dict(enumerate(COLORS))


def test_a_palette_is_mixed_as_colours_and_not_as_numbers(tmp_path):
    """Halfway between colours 0 and 2 lies their mean, not colour 1."""
    index = np.zeros((1, 30, 40), np.uint8)
    index[:, :, 20:] = 2
    path = write_scene(tmp_path / "a.tif", index, palette=PALETTE)
    moved = write_scene(tmp_path / "b.tif", index, palette=PALETTE, transform=north_up(ORIGIN[0] + 0.25))
    _, after, valid = read_pair(path, moved)
    assert valid.all()
    assert after[:, 5, 20].tolist() == [105, 15, 125]
    assert after[:, 5, 19].tolist() == [200, 10, 30] and after[:, 5, 21].tolist() == [10, 20, 220]


def test_clear_colours_of_a_palette_are_no_data(tmp_path):
    """GDAL calls colour 1 nodata, the first that is clear; colour 3 is half clear."""
    index = np.random.default_rng(0).integers(0, 4, (30, 40)).astype(np.uint8)
    image = Image.fromarray(index, "P")
    image.putpalette([part for color in COLORS for part in color[:3]])
    path = tmp_path / "a.png"
    image.save(path, transparency=bytes([255, 0, 255, 100]))
    (tmp_path / "a.pgw").write_text("0.5\n0\n0\n-0.5\n500000.25\n5599999.75\n")
    with rasterio.open(path, "r+") as file:
        file.crs = UTM
    assert describe(path).palette[1][3] == 0
    before, _, valid = read_pair(path)
    assert np.array_equal(valid, (index == 0) | (index == 2))
    assert before[:, index == 2].T.tolist()[0] == [10, 20, 220]
