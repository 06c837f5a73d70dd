"""Bands are known by their names, and read in their own values on the grid of the pair."""

import numpy as np
import pytest
from rasters import textured, write_scene

from tiling import ScenePair, SpectralPair, Window, describe
from tiling.spectral import spectral_bands

SENTINEL = ["B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B10", "B11", "B12"]
WINDOW = Window(3, 2, 20, 12)


def write(path, array, names=None, **options):
    colors = ["gray", *["undefined"] * (len(array) - 1)]
    return write_scene(path, array, colors=colors, photometric="MINISBLACK", names=names, **options)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (SENTINEL, {"blue": 2, "green": 3, "red": 4, "nir": 8, "swir16": 12, "swir22": 13}),
        (["B04", "B03", "B02", "B08"], {"red": 1, "green": 2, "blue": 3, "nir": 4}),
        (["B4", "B3", "B2"], {"red": 1, "green": 2, "blue": 3}),
        (["B8A", "B11", "B12"], {"nir": 1, "swir16": 2, "swir22": 3}),
        (
            [f"SR_B{n}" for n in range(1, 8)],
            {"blue": 2, "green": 3, "red": 4, "nir": 5, "swir16": 6, "swir22": 7},
        ),
        (
            [f"SR_B{n}" for n in (1, 2, 3, 4, 5, 7)],
            {"blue": 1, "green": 2, "red": 3, "nir": 4, "swir16": 5, "swir22": 6},
        ),
        (
            ["B1", "B2", "B3", "B4", "B5", "B7", "B8"],  # Landsat 7 with its panchromatic band
            {"blue": 1, "green": 2, "red": 3, "nir": 4, "swir16": 5, "swir22": 6},
        ),
        ([f"B{n}" for n in range(1, 12)], {"blue": 2, "green": 3, "red": 4}),  # whose B5 is not known
        (["swir16", "nir", "red", "green"], {"swir16": 1, "nir": 2, "red": 3, "green": 4}),
        (["Red", "Green", "Near-Infrared", "SWIR_2"], {"red": 1, "green": 2, "nir": 3, "swir22": 4}),
        (["B02_10m", "blue_10m", "B8A, narrow", "B08_10m"], {"blue": 2, "nir": 4}),
        (["490 nm", "1.61 um", "2201 nm", "705 nm"], {"blue": 1, "swir16": 2, "swir22": 3}),
        (["red", "nir08", "nir"], {"red": 1, "nir": 3}),
        (["red", "red", "nir"], {"nir": 3}),
        (
            ["blueBand", "BandGreen", "RedBand", "RedEdge", "NearInfrared"],
            {"blue": 1, "green": 2, "red": 3, "nir": 5},
        ),
        (["Band 1", "Band 2", "Band 3"], {}),
        (None, {}),
    ],
)
def test_names_tell_the_part_of_the_spectrum(tmp_path, names, expected):
    path = write(tmp_path / "scene.tif", textured(8, 8, bands=len(names or "rgb")), names)
    assert spectral_bands(describe(path)) == expected


def test_values_are_those_of_the_files_whatever_the_order_of_their_bands(tmp_path):
    first = textured(30, 40, bands=4, seed=1, dtype="uint16")
    second = textured(30, 40, bands=3, seed=2, dtype="uint16")
    before = write(tmp_path / "before.tif", first, ["B04", "B03", "B02", "B08"])
    after = write(tmp_path / "after.tif", second, ["nir", "green", "red"])
    with ScenePair.open(before, after, bands=(1, 2, 3)) as pair, SpectralPair.open(pair) as spectral:
        assert spectral.parts == ("green", "red", "nir")
        old, new, valid = spectral.read(WINDOW)
        rows, cols = WINDOW.slices(Window(0, 0, 40, 30))
        for part, one, other in (("green", 1, 1), ("red", 0, 2), ("nir", 3, 0)):
            assert old[part].dtype == np.float32
            np.testing.assert_array_equal(old[part], first[one, rows, cols])
            np.testing.assert_array_equal(new[part], second[other, rows, cols])
        assert valid.all()
        sample = spectral.sample()
        assert sample[0]["nir"].shape == (3 * 5,)
        assert sample[1]["nir"][0] == pytest.approx(second[0, :8, :8].mean())


def test_scale_and_offset_make_reflectances_and_nodata_of_either_date_counts(tmp_path):
    first = textured(30, 40, bands=4, seed=1, dtype="uint16")
    first[:, 5, 10] = 0
    second = textured(30, 40, bands=4, seed=2, dtype="uint16")
    second[:, 7, 7] = 0
    names = ["red", "green", "blue", "nir"]
    said = {"scales": (0.5,) * 4, "offsets": (1.0, 2.0, 3.0, 4.0)}
    before = write(tmp_path / "before.tif", first, names, nodata=0, **said)
    after = write(tmp_path / "after.tif", second, names, nodata=0)
    with ScenePair.open(before, after) as pair, SpectralPair.open(pair) as spectral:
        old, _, valid = spectral.read(Window(0, 0, 40, 30))
        assert old["nir"][20, 20] == pytest.approx(first[3, 20, 20] * 0.5 + 4)
        assert (~valid).nonzero()[0].tolist() == [5, 7]
