"""How the texts of options become values."""

from __future__ import annotations

import pytest

from rscc.cli_options import Focus, read_bands, read_memory, read_scale, scene_options
from workflows.errors import OptionInvalid
from workflows.options import FOCUS_WAYS, SceneOptions


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2_000_000_000),
        ("1500MB", 1_500_000_000),
        ("1.5 GiB", 3 * 2**29),
        ("700m", 700_000_000),
        ("1t", 10**12),
        ("64KiB", 65536),
        (" 3gb ", 3_000_000_000),
        (None, None),
    ],
)
def test_sizes_have_units(text, size):
    assert read_memory(text) == size


@pytest.mark.parametrize(
    "text", ["", "2", "GB", "2 XB", "0GB", "0.0000001kb", "-2GB", "2GBB", "nan GB", "1e3MB"]
)
def test_what_is_no_size_is_refused(text):
    with pytest.raises(OptionInvalid, match=r"--memory .*: give a size with its unit, such as 2GB"):
        read_memory(text)


def test_bands_are_numbers_or_names():
    assert read_bands("3,2,1") == (3, 2, 1)
    assert read_bands("B04, B03 ,B02") == ("B04", "B03", "B02")
    assert read_bands("red,2,Band 1") == ("red", 2, "Band 1")
    assert read_bands(None) is None
    for text in ("1,2", "1,2,3,4", "red,,blue", ""):
        with pytest.raises(OptionInvalid, match="--bands"):
            read_bands(text)


def test_a_scale_is_two_values_or_the_sensor_s():
    assert read_scale("0,3000") == (0.0, 3000.0)
    assert read_scale("-25.5,1e4") == (-25.5, 10000.0)
    assert read_scale("reflectance") == "reflectance"
    assert read_scale(None) is None
    for text in ("0", "3000,0", "1,1", "nan,1", "0,inf", "0,1,2", "Reflectance values", ""):
        with pytest.raises(OptionInvalid, match="--scale"):
            read_scale(text)


def test_the_ways_of_the_help_are_those_of_the_workflow():
    assert {str(way) for way in Focus} == set(FOCUS_WAYS)


def test_the_parameters_of_a_command_become_scene_options():
    values = {"bands": "3,2,1", "bbox": "1,2,3,4", "scale": "reflectance", "memory": "2GB", "min_area": 5.0}
    asked = {**values, "focus_captions": Focus.zoom, "output": None, "quiet": True, "date_before": "2019"}
    assert scene_options(asked) == SceneOptions(
        bands=(3, 2, 1),
        bounds=(1, 2, 3, 4),
        scale="reflectance",
        memory=2 * 10**9,
        min_area=5.0,
        focus_captions="zoom",
        date_before="2019",
    )
    assert type(scene_options(asked).focus_captions) is str
    assert scene_options({}) == SceneOptions()
    with pytest.raises(OptionInvalid, match="--bbox"):
        scene_options({"bbox": "1,2"})
