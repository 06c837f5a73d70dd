"""A QGIS project of a report, by its XML; that QGIS opens it is told by tests/e2e/test_qgis_project.py."""

from __future__ import annotations

import json
import zipfile
from xml.etree import ElementTree

import numpy as np
import pytest
from archive_rows import change
from datasets import edit_json
from rasters import north_up, write_scene
from scene_pairs import run_here
from servers import serving

from workflows import Report
from workflows.errors import FormatUnsupported, OptionInvalid, OutputExists
from workflows.options import ServerOptions
from workflows.report.qgis import project as project_module
from workflows.report.qgis.project import write_project

SERVERS = ServerOptions()
NASTY = "</title>[% 1 %]\x1b[2J\u202e&<b>" + "x" * 200


@pytest.fixture
def report(tmp_path):
    """A report of three changes in a folder of its own, with 12 bit scenes beside it."""
    folder = tmp_path / "made"
    folder.mkdir()
    for name in ("before.tif", "after.tif"):
        image = np.full((4, 30, 40), 900, np.uint16)
        write_scene(folder / name, image, transform=north_up(y=4_640_000, cell=5.0))
    shown = [change(n, 15 + n / 100, 41.9, area_m2=area) for n, area in ((1, 10.0), (2, 30.0), (3, 20.0))]
    limits = {"low": [100.0, 200.0, 300.0], "high": [1000.0, 2000.0, 3000.0]}
    run = {
        "inputs": {role: {"path": f"{role}.tif", "date": "2019"} for role in ("before", "after")},
        "model": {}, "settings": {}, "tiling": {"crs": "EPSG:32633"},
        "bands": {"before": [4, 3, 2], "after": [4, 3, 2]},
        "stretch": {"kind": "shared", "before": limits, "after": limits},
    }  # fmt: skip
    path = folder / "r.geojson"
    Report(shown, run).write(path)
    return path


def project(report, target=None, scenes=None):
    """The XML of the project of a report."""
    with zipfile.ZipFile(write_project(report, target, scenes, servers=SERVERS)[0]) as archive:
        (name,) = archive.namelist()
        return ElementTree.fromstring(archive.read(name))


def test_scenes_and_changes_are_named_from_the_project(report, tmp_path):
    root = project(report, tmp_path / "p.qgz")
    layers = {layer.findtext("layername"): layer for layer in root.iter("maplayer")}
    assert list(layers) == ["changes", "after 2019", "before 2019"]
    sources = [layer.findtext("datasource") for layer in layers.values()]
    assert sources == ["./made/r.geojson", "./made/after.tif", "./made/before.tif"]
    assert [one.get("id") for one in root.iter("layer-tree-layer")] == [
        layer.findtext("id") for layer in layers.values()
    ]
    renderer = layers["before 2019"].find("pipe/rasterrenderer")
    assert [renderer.get(f"{name}Band") for name in ("red", "green", "blue")] == ["4", "3", "2"]
    assert [node.text for node in renderer.iter("minValue")] == ["100.0", "200.0", "300.0"]
    assert root.findtext("projectCrs/spatialrefsys/authid") == "EPSG:32633"


def test_ground_that_was_not_judged_is_a_layer_between_changes_and_scenes(report):
    ring = [[15.0, 41.9], [15.1, 41.9], [15.1, 42.0], [15.0, 41.9]]
    outline = {"type": "MultiPolygon", "coordinates": [[ring]]}
    edit_json(report, lambda content: content["rscc"].update(not_judged={"outline": outline}))
    root = project(report)
    layers = {layer.findtext("layername"): layer for layer in root.iter("maplayer")}
    assert list(layers) == ["changes", "not judged", "after 2019", "before 2019"]
    assert json.loads(layers["not judged"].findtext("datasource"))["geometry"]["coordinates"] == [ring]
    ids = [one.get("id") for one in root.iter("layer-tree-layer")]
    assert ids == [layer.findtext("id") for layer in layers.values()]


def test_what_strangers_wrote_is_text_and_numbers_without_sense_are_left_out(report):
    def edit(content):
        content["features"][0]["properties"]["caption"] = NASTY
        run = content["rscc"]
        run["inputs"]["after"]["date"] = NASTY
        run["stretch"]["after"] = {"low": [1, 2, "x"], "high": [5, 5, 5]}
        run["stretch"]["before"] = {"low": [9, 9, 9], "high": [5, 5, 5]}
        run["bands"] = {"after": [1, 2, 77], "before": [1, 2, True]}

    edit_json(report, edit)
    root = project(report)
    name = next(root.iter("Bookmark")).get("name")
    assert name.isprintable() and len(name) < 100 and name.startswith("1: </title>[% 1 %] [2J")
    layers = [layer.findtext("layername") for layer in root.iter("maplayer")]
    assert layers[1].isprintable() and len(layers[1]) <= 16
    assert list(root.iter("minValue")) == []
    bands = [node.get("blueBand") for node in root.iter("rasterrenderer")]
    assert bands == ["1", "3"]


def test_a_server_is_asked_only_for_who_names_it(report):
    edit_json(report, lambda c: c["rscc"]["inputs"]["after"].update(path="https://example.org/a.tif"))
    with pytest.raises(OptionInvalid):
        write_project(report, servers=SERVERS)
    assert not report.with_suffix(".qgz").exists()


def test_a_server_that_the_user_names_is_named_in_the_project_but_no_secret(report):
    before = str(report.with_name("before.tif"))
    with serving() as server:
        server.files["/after.tif"] = report.with_name("after.tif").read_bytes()
        address = f"{server.address}/after.tif"
        with pytest.raises(OptionInvalid) as refused:
            write_project(report, scenes=(before, f"{address}?sig=hush"), servers=SERVERS)
        assert "hush" not in str(refused.value)
        root = project(report, scenes=(before, address))
    sources = [layer.findtext("datasource") for layer in root.iter("maplayer")]
    assert sources == ["./r.geojson", f"/vsicurl/{address}", "./before.tif"]


def test_nothing_is_overwritten_unasked_and_the_suffix_is_known(report, tmp_path):
    made, _ = write_project(report, servers=SERVERS)
    with pytest.raises(OutputExists):
        write_project(report, servers=SERVERS)
    assert write_project(report, servers=SERVERS, overwrite=True) == (made, 3)
    with pytest.raises(FormatUnsupported):
        write_project(report, tmp_path / "p.zip", servers=SERVERS)


def test_the_command(report, tmp_path, capfd):
    words = ("qgis", report, report.with_name("before.tif"))
    target = tmp_path / "p.qgs"
    code, out, err = run_here(capfd, *words, report.with_name("after.tif"), "-o", target, "--json")
    assert code == 0 and "3 changes, 3 as bookmarks" in err
    assert json.loads(out) == {"output": str(target), "changes": 3, "bookmarks": 3}
    assert ElementTree.parse(target).getroot().tag == "qgis"
    code, _, err = run_here(capfd, *words)
    assert (code, err.count("\n")) == (2, 1)


def test_the_largest_changes_have_the_bookmarks(report, monkeypatch):
    monkeypatch.setattr(project_module, "MOST_BOOKMARKS", 2)
    assert [one.get("id") for one in project(report).iter("Bookmark")] == ["rscc-2", "rscc-3"]
