"""How the texts of options become values."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fakes import card
from workflows.cli.batch import batch
from workflows.cli.caption import caption
from workflows.cli.explain import explain
from workflows.cli.inspect import inspect as inspect_command
from workflows.cli.options import (
    DATES,
    FINDING,
    READING,
    option_parameter,
    read_bands,
    read_names,
    read_scale,
    read_size,
    takes_options,
)
from workflows.cli.pairs import pairs
from workflows.errors import OptionInvalid
from workflows.options import ExplainOptions, SceneOptions
from workflows.pairs.options import CatalogOptions
from workflows.report.record import settings_record
from workflows.store.identity import settings_key


def read_memory(text):
    return read_size(text, "--memory")


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (read_memory, "2GB", 2_000_000_000),
        (read_memory, "1500MB", 1_500_000_000),
        (read_memory, "1.5 GiB", 3 * 2**29),
        (read_memory, "700m", 700_000_000),
        (read_memory, "1t", 10**12),
        (read_memory, "64KiB", 65536),
        (read_memory, " 3gb ", 3_000_000_000),
        (read_bands, "3,2,1", (3, 2, 1)),
        (read_bands, "B04, B03 ,B02", ("B04", "B03", "B02")),
        (read_bands, "red,2,Band 1", ("red", 2, "Band 1")),
        (read_scale, "0,3000", (0.0, 3000.0)),
        (read_scale, "-25.5,1e4", (-25.5, 10000.0)),
        (read_scale, "reflectance", "reflectance"),
    ],
)
def test_texts_become_sizes_with_units_bands_and_scales(read, text, value):
    assert read(text) == value


BANDS = r"--bands .*: give three band numbers or names such as 3,2,1 or B04,B03,B02"
SCALE = r"--scale .*: give the lowest and the highest value to show, such as 0,3000, or the word reflectance"
MEMORY = r"--memory .*: give a size with its unit, such as 2GB"


@pytest.mark.parametrize(
    ("read", "line", "texts"),
    [
        (read_memory, MEMORY, "|2|GB|2 XB|0GB|0.0000001kb|-2GB|2GBB|nan GB|1e3MB"),
        (read_bands, BANDS, "1,2|1,2,3,4|1,2,,3|red,,blue|"),
        (read_scale, SCALE, "0|3000,0|1,1|nan,1|0,inf|0,1,2|radiance|Reflectance values|"),
    ],
)
def test_other_texts_are_refused(read, line, texts):
    for text in texts.split("|"):
        with pytest.raises(OptionInvalid, match=line):
            read(text)


def test_the_parameters_of_a_command_become_options():
    received = []

    @takes_options(ExplainOptions, model=(*READING, *FINDING, "at", "pixel"), device=(*DATES, "force"))
    def command(options: ExplainOptions, model: str = "", device: str = "", quiet: bool = False) -> None:
        received.append((options, model, device, quiet))

    names = list(inspect.signature(command).parameters)
    assert names == [
        "model", "bands", "band_names", "scale", "normalize", "align", "frame", "gsd", "bbox", "offline",
        "threshold", "min_area", "group_distance", "regularize", "refine", "ground", "focus_captions",
        "beams", "fast", "batch_size", "memory", "at", "window", "device", "date_before", "date_after",
        "force",
        "quiet",
    ]  # fmt: skip
    values = dict.fromkeys(names) | {"model": "m", "device": "cpu", "quiet": True, "focus_captions": "zoom"}
    values["frame"] = "before"
    texts = {
        "bands": "3,2,1",
        "bbox": "1,2,3,4",
        "scale": "reflectance",
        "memory": "2GB",
        "date_after": "2019",
    }
    command(**values | texts)
    ((options, *others),) = received
    assert others == ["m", "cpu", True]
    assert (options.bands, options.bounds, options.scale) == ((3, 2, 1), (1, 2, 3, 4), "reflectance")
    assert (options.memory, options.focus_captions, options.date_after) == (2 * 10**9, "zoom", "2019")
    assert options.simplify == SceneOptions().simplify
    command(**values | {"window": "3,4"})
    assert received[-1][0].pixel == (3, 4)
    with pytest.raises(OptionInvalid, match="--bbox"):
        command(**values | {"bbox": "1,2"})


# Another value than the default's for every field of the options; a new field must find its place here too.
OTHER = {
    "offline": True, "allow_hosts": ("maps.example", "[::1]:8080"),
    "bands": (3, 2, 1), "band_names": ("nir", "red"), "bounds": (0.0, 0.0, 1.0, 1.0), "gsd": 1.5,
    "threshold": 0.31, "min_area": 3.0,
    "overlap": 20, "batch_size": 4, "beams": 1, "simplify": 0.5, "force": True, "date_before": "2019",
    "date_after": "2020-02", "scale": (0.0, 9.0), "normalize": True, "align": True, "frame": "after",
    "group_distance": 5.0,
    "regularize": True, "refine": "sam:/x", "focus_captions": "zoom", "ground": False, "fast": True,
    "memory": 10**9,
    "tile_cache": Path("tiles"),
}  # fmt: skip


# Without which a field is refused.
NEEDED = {"frame": {"align": True}}
# From where it is read and where it is kept, not what is found.
HOW = {"offline", "allow_hosts", "tile_cache"}


def test_every_field_of_the_options_has_its_place():
    """In the commands, in the record and in the key of an archive."""
    assert SceneOptions.names() == list(OTHER)
    model = card()
    recorded = settings_record(SceneOptions(), model)
    places = {name: SceneOptions.option(name).place for name in OTHER}
    assert list(recorded) == [name for name, place in places.items() if place == "settings"]
    for name, value in OTHER.items():
        base = SceneOptions(**NEEDED.get(name, {}))
        other = replace(base, **{name: value})
        recorded = settings_record(base, model)
        changed = {key for key, value in settings_record(other, model).items() if value != recorded[key]}
        assert changed == ({name} if name in recorded else set()), name
        same_key = settings_key(other, model) == settings_key(base, model)
        # Only what no result depends on may leave the key: else stale reports count as done.
        assert same_key == (places[name] == "none") == (name in HOW), name


def offered(command, kind: type[SceneOptions] = SceneOptions) -> set[str]:
    parameters = inspect.signature(command).parameters
    return {name for name in kind.names() if option_parameter(kind, name).name in parameters}


def test_commands_offer_every_option_that_has_a_help_with_the_default_of_its_field():
    everything = {name for name in SceneOptions.names() if SceneOptions.option(name).help}
    assert everything == {*OTHER} - {"overlap", "simplify"}
    # Addresses of a command line are the user's own.
    assert offered(caption) == everything - {"allow_hosts"}
    assert offered(batch) == everything - {"tile_cache", *DATES}
    assert offered(inspect_command) == {*READING, *DATES, "force", "group_distance"} | {
        "batch_size", "memory", "beams",
    }  # fmt: skip
    assert offered(explain, ExplainOptions) == {*READING, *DATES, "force", "beams", "at", "pixel"} | {
        "allow_hosts",
    }
    assert {"offline", "allow_hosts"} <= offered(pairs, CatalogOptions)
    for kind in (SceneOptions, ExplainOptions, CatalogOptions):
        for name in kind.names():
            assert option_parameter(kind, name).default == getattr(kind(), name), name


def test_names_of_bands_come_in_one_text_or_several():
    assert read_names(["swir16, nir,red"]) == ("swir16", "nir", "red") == read_names(["swir16", "nir,red"])
