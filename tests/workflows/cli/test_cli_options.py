"""How the texts of options become values, and which options the commands have."""

import inspect
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import typer
from captioners import card
from scene_pairs import make_pair

import rscc
from workflows.archive.plan import settings_key
from workflows.cli.batch import batch
from workflows.cli.caption import caption
from workflows.cli.commands import COMMANDS, app
from workflows.cli.explain import explain
from workflows.cli.inspect import inspect as inspect_command
from workflows.cli.options import READING, option_parameter
from workflows.cli.pairs import pairs
from workflows.errors import OptionInvalid
from workflows.options import ExplainOptions, SceneOptions
from workflows.pairs.options import CatalogOptions
from workflows.report.record import settings_record
from workflows.scene import caption as caption_module


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("memory", "2GB", 2_000_000_000),
        ("memory", "1.5 GiB", 3 * 2**29),
        ("memory", "700m", 700_000_000),
        ("memory", "1t", 10**12),
        ("memory", " 64KiB ", 65536),
        ("bands", "3,2,1", (3, 2, 1)),
        ("bands", "B04, B03 ,B02", ("B04", "B03", "B02")),
        ("bands", "red,2,Band 1", ("red", 2, "Band 1")),
        ("scale", "-25.5,1e4", (-25.5, 10000.0)),
        ("scale", "reflectance", "reflectance"),
        ("band_names", ["swir16, nir", "red"], ("swir16", "nir", "red")),
    ],
)
def test_texts_become_values(name, text, value):
    assert getattr(SceneOptions.read({name: text}), name) == value


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("memory", "|2|GB|2 XB|0GB|0.0000001kb|-2GB|2GBB|nan GB|1e3MB"),
        ("bands", "1,2|1,2,3,4|1,2,,3|red,,blue|"),
        ("scale", "0|3000,0|1,1|nan,1|0,inf|0,1,2|radiance|Reflectance values|"),
    ],
)
def test_other_texts_are_refused(name, texts):
    for text in texts.split("|"):
        with pytest.raises(OptionInvalid):
            SceneOptions.read({name: text})


# A value other than the default for every field of the options.
OTHER = {
    "offline": True, "allow_hosts": ("maps.example", "[::1]:8080"),
    "bands": (3, 2, 1), "band_names": ("nir", "red"), "bounds": (0.0, 0.0, 1.0, 1.0),
    "area": "POLYGON ((0 0, 1 0, 1 1, 0 0))", "gsd": 1.5,
    "threshold": 0.31, "min_area": 3.0,
    "overlap": 20, "batch_size": 4, "simplify": 0.5, "force": True, "date_before": "2019",
    "date_after": "2020-02", "scale": (0.0, 9.0), "normalize": True, "align": True, "frame": "after",
    "group_distance": 5.0,
    "regularize": True, "only": ("road",), "direction": "appeared", "ground": False, "fast": True,
    "memory": 10**9,
    "context": ("parcels.gpkg:permit_id",),
    "changes": "polygons.gpkg",
    "keep_maps": Path("maps"),
}  # fmt: skip
NEEDED = {"frame": {"align": True}}
# Fields that no result depends on, or none of an archive: there a table has the changes of each pair.
HOW = {"offline", "allow_hosts", "keep_maps", "context", "changes"}


def test_every_field_of_the_options_has_its_place():
    """In the run record and in the key of an archive: else outdated reports count as done."""
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
        assert same_key == (places[name] == "none") == (name in HOW), name


def test_every_keyword_reaches_its_option(tmp_path, monkeypatch):
    renamed = ("area", "changes", "bounds", "allow_hosts")
    given = {
        **{name: value for name, value in OTHER.items() if name not in renamed},
        "date_before": date(2019, 1, 1), "only": "road", "context": "parcels.gpkg:permit_id",
        "bbox": (0, 0, 1, 1), "allow_host": ["maps.example"], "keep_maps": str(tmp_path / "maps"),
    }  # fmt: skip
    called, pair = [], make_pair(tmp_path, [])

    def record(*values):
        called.append(values)
        raise ValueError

    monkeypatch.setattr(caption_module, "caption_scene", record)
    monkeypatch.setattr(caption_module, "read_headers", lambda before, after, options: (before, after))
    with pytest.raises(ValueError, match=r"^$"):
        rscc.caption(pair.before, pair.after, captioner=object(), **given)
    (before, after, _, options, progress), *_ = called
    assert (before, after, progress) == (pair.before, pair.after, None)
    expected = {**OTHER, "date_before": "2019-01-01", "bounds": (0, 0, 1, 1), "area": None, "changes": None}
    expected |= {"allow_hosts": ("maps.example",), "keep_maps": tmp_path / "maps"}
    assert {name: getattr(options, name) for name in OTHER} == expected


def offered(command, kind: type[SceneOptions] = SceneOptions) -> set[str]:
    parameters = inspect.signature(command).parameters
    given = {name for name, each in parameters.items() if each.annotation is not typer.Context}
    return {name for name in kind.names() if option_parameter(kind, name).name in given}


def test_commands_offer_every_option_that_has_a_help_with_the_default_of_its_field():
    everything = {name for name in SceneOptions.names() if SceneOptions.option(name).help}
    assert everything == {*OTHER} - {"overlap", "simplify"}
    assert offered(caption) == everything - {"allow_hosts"}, "the user named its addresses"
    # As a switch of its own: the maps go to the folders of the pairs.
    assert offered(batch) == everything - {"date_before", "date_after", "context", "changes"}
    assert offered(inspect_command) == {*READING, "group_distance", "batch_size", "memory"}
    assert offered(explain, ExplainOptions) == {*READING, "at", "pixel", "allow_hosts"}
    assert {"offline", "allow_hosts"} <= offered(pairs, CatalogOptions)
    for kind in (SceneOptions, ExplainOptions, CatalogOptions):
        for name in kind.names():
            assert option_parameter(kind, name).default == getattr(kind(), name), name


def test_every_option_has_a_help_and_the_help_of_caption_has_few():
    commands = typer.main.get_command(app).commands
    assert len(commands) == sum(map(len, COMMANDS.values()))
    for name, command in commands.items():
        context = command.make_context(name, [], resilient_parsing=True)
        options = [each for each in command.get_params(context) if each.param_type_name == "option"]
        assert all(each.help and "`" not in each.help for each in options), name
        assert all(each.metavar == "" for each in options if each.is_flag), name
        if name == "caption":
            visible = [each for each in options if not each.hidden]
            assert {each.rich_help_panel for each in options} == {
                "Input", "Output", "Detection", "Words", "Advanced",
            }  # fmt: skip
            assert len(visible) <= 28
