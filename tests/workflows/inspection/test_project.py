"""A QGIS project of a report, by its XML; that QGIS opens it is told by tests/e2e/test_qgis_project.py."""

from __future__ import annotations

import json
import zipfile
from xml.etree import ElementTree

import numpy as np
import pytest
from archive_rows import change
from benchmark_fixtures import edit_json
from command_here import run_here
from file_server import serving
from rasters import north_up, write_scene

from workflows import ChangeReport
from workflows.errors import FormatUnsupported, OptionInvalid, OutputExists
from workflows.inspection.project import write_project
from workflows.options import ServerOptions
from workflows.report import qgis_project

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
    ChangeReport(shown, run).write(path)
    return path


def project(report, target=None, scenes=None):
    """The XML of the project of a report."""
    with zipfile.ZipFile(write_project(report, target, scenes, servers=SERVERS).path) as archive:
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


def test_the_same_project_has_the_same_bytes(report, tmp_path):
    first = write_project(report, tmp_path / "a.qgz", servers=SERVERS).path.read_bytes()
    assert write_project(report, tmp_path / "b.qgz", servers=SERVERS).path.read_bytes() == first


def test_the_largest_changes_are_bookmarks(report, monkeypatch, tmp_path):
    monkeypatch.setattr(qgis_project, "MOST_BOOKMARKS", 2)
    root = project(report)
    marks = list(root.iter("Bookmark"))
    assert [mark.get("name") for mark in marks] == ["2: house 2 appears", "3: house 3 appears"]
    assert marks[0].get("extent").startswith("POLYGON((15.0199714 41.8999714, 15.0200857")


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
    with pytest.raises(OptionInvalid, match="names a scene on a server"):
        write_project(report, servers=SERVERS)
    assert not report.with_suffix(".qgz").exists()


def test_a_server_that_the_user_names_is_named_in_the_project_but_no_secret(report):
    before = str(report.with_name("before.tif"))
    with serving() as server:
        server.files["/after.tif"] = report.with_name("after.tif").read_bytes()
        address = f"{server.address}/after.tif"
        with pytest.raises(OptionInvalid, match="holds a secret") as refused:
            write_project(report, scenes=(before, f"{address}?sig=hush"), servers=SERVERS)
        assert "hush" not in str(refused.value)
        root = project(report, scenes=(before, address))
    sources = [layer.findtext("datasource") for layer in root.iter("maplayer")]
    assert sources == ["./r.geojson", f"/vsicurl/{address}", "./before.tif"]


def test_a_name_that_xml_cannot_hold_is_refused(report):
    odd = report.rename(report.with_name("a\x01.geojson"))
    with pytest.raises(OptionInvalid, match="rename it"):
        write_project(odd, servers=SERVERS)
    assert not list(report.parent.glob("*.qgz"))


def test_nothing_is_overwritten_unasked_and_the_suffix_is_known(report, tmp_path):
    made = write_project(report, servers=SERVERS).path
    with pytest.raises(OutputExists):
        write_project(report, servers=SERVERS)
    assert write_project(report, servers=SERVERS, overwrite=True).path == made
    with pytest.raises(FormatUnsupported, match=r"\.qgz or \.qgs"):
        write_project(report, tmp_path / "p.zip", servers=SERVERS)


def test_the_command(report, tmp_path, capfd):
    words = ("qgis", report, report.with_name("before.tif"))
    target = tmp_path / "p.qgs"
    code, out, err = run_here(capfd, *words, report.with_name("after.tif"), "-o", target, "--json")
    assert code == 0 and "3 changes, 3 as bookmarks" in err
    assert json.loads(out) == {"output": str(target), "changes": 3, "bookmarks": 3}
    assert ElementTree.parse(target).getroot().tag == "qgis"
    code, _, err = run_here(capfd, *words)
    assert code == 2 and "give BEFORE and AFTER, or neither" in err
