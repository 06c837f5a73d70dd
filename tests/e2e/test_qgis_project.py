"""The project of a report opens in a real QGIS, also where its folder was moved."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import rasterio
from captioners import BrightnessCaptioner
from qgis_runs import QGIS, on_ground, run_qgis
from scene_pairs import make_pair

from workflows import SceneOptions, caption_scene
from workflows.options import ServerOptions
from workflows.report.qgis.project import write_project

pytestmark = QGIS


@pytest.mark.parametrize(("suffix", "layer"), [(".geojson", ""), (".gpkg", "|layername=changes")])
def test_a_project_opens_with_its_layers_style_and_bookmarks(tmp_path, suffix, layer):
    folder = tmp_path / "made"
    (folder / "scenes").mkdir(parents=True)
    names = ("before [%1%] & é.tif", "after.tif")
    pair = make_pair(folder / "scenes", [(40, 60, 60, 90, 200)], names=names, nodata_rows=32)
    found = caption_scene(pair.before, pair.after, BrightnessCaptioner(), SceneOptions())
    write_project(found.write(folder / f"r{suffix}"), servers=ServerOptions())
    moved = shutil.move(folder, tmp_path / "moved")
    opened = run_qgis("open_project", moved / "r.qgz", tmp_path / "p.png")
    assert opened["read"] and opened["crs"] == "EPSG:32633" and not opened["absolute"]
    assert all(layer["valid"] for layer in opened["layers"])
    assert [layer["name"] for layer in opened["layers"]] == ["changes", "not judged", "after", "before"]
    sources = [layer["source"] for layer in opened["layers"]]
    scenes = [str(moved / "scenes" / name) for name in reversed(names)]
    assert [sources[0], *sources[2:]] == [f"{moved / f'r{suffix}'}{layer}", *scenes]
    renderers = [layer["renderer"] for layer in opened["layers"]]
    assert renderers == ["categorizedSymbol", "singleSymbol", "multibandcolor", "multibandcolor"]
    assert opened["labels"] == opened["tip"] == [True, False]
    ((name, group, west, crs),) = opened["bookmarks"]
    assert (name, group, crs) == ("1: brightness 200 appears", "changes", "EPSG:4326")
    assert 15 < west < 15.001
    with rasterio.open(tmp_path / "p.png") as file:
        image = np.moveaxis(file.read([1, 2, 3]), 0, -1).astype(float)
    # The change lies over the later scene, whose ground is bright there.
    assert (np.abs(image - on_ground("", 200)).max(2) <= 10).mean() > 0.3


def test_a_legend_has_only_what_is_there_and_no_label_is_cut(tmp_path):
    pair = make_pair(tmp_path, [(40, 60, 60, 90, 200)])
    found = caption_scene(pair.before, pair.after, BrightnessCaptioner(), SceneOptions())
    for direction, legend in (("appeared", ["appeared"]), (None, ["not stated"])):
        told = replace(found, changes=[replace(found.changes[0], direction=direction)])
        write_project(told.write(tmp_path / "r.geojson", True), overwrite=True, servers=ServerOptions())
        opened = run_qgis("open_project", tmp_path / "r.qgz", tmp_path / "p.png")
        assert opened["legend"] == legend and not opened["cuts_labels"]
