"""The examples that newcomers read, on the scenes that they generate."""

import json
import re
import shutil

import caption_archive
import describe_own_mask
import first_report
import geopandas
import own_model
import pytest
import rasterio
import review_and_tune
from affine import Affine
from datasets import write_levir_cc
from make_demo_scene import CRS, SITE_APART, DemoScene, make_scene
from report_checks import load_valid
from saved_models import saved_start
from scene_pairs import exit_code
from tiny_models import tiny_model

from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.model_folder import open_model_folder

EXAMPLES = (first_report, describe_own_mask, caption_archive, own_model, review_and_tune)


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """Render one scene; a copy of it on another site lies elsewhere, whatever its seed."""
    made = make_scene(tmp_path_factory.mktemp("scene"), size=(600, 520))

    def render(folder, seed=7, size=(600, 520), *, site=0):
        shutil.copytree(made.before.parent, folder, dirs_exist_ok=True)
        copy, east = DemoScene(*(folder / path.name for path in vars(made).values())), site * SITE_APART
        for path in (copy.before, copy.after, copy.truth_raster):
            with rasterio.open(path, "r+") as file:
                file.transform = Affine.translation(east, 0) @ file.transform
        truth = geopandas.read_file(copy.truth_polygons)
        moved = truth.to_crs(CRS).translate(east).to_crs(truth.crs)
        truth.set_geometry(moved).to_file(copy.truth_polygons)
        return copy

    return render


@pytest.fixture(autouse=True)
def quick(repository, rendered, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(repository))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for example in EXAMPLES:
        monkeypatch.setattr(example, "make_scene", rendered)
    for example in (caption_archive, review_and_tune):
        monkeypatch.setattr(example, "run_rscc", succeed)


def succeed(*words):
    assert exit_code(*words) == 0


@pytest.mark.slow
def test_a_mask_and_polygons_of_ones_own_are_described(tmp_path):
    of_mask, of_polygons = describe_own_mask.main(tmp_path)
    villas = [change for change in of_polygons if change.attributes["class"] == "villa"]
    assert villas and all("house" in change.caption and change.supported > 0.5 for change in villas)
    assert {change.attributes["class"] for change in of_mask} == {1, 2, 3}
    assert (tmp_path / "described.gpkg").is_file()


@pytest.mark.slow
def test_the_first_report_is_printed_and_saved(tmp_path, capsys):
    report = first_report.main(tmp_path)
    printed = capsys.readouterr().out
    assert report.changes and printed.startswith(report.run["summary"]["text"])
    for change in report.changes:
        assert change.caption in printed
    assert len(load_valid(tmp_path / "changes.geojson")["features"]) == len(report.changes)
    for suffix in first_report.FORMATS:
        assert str(tmp_path / f"changes{suffix}") in printed
        assert (tmp_path / f"changes{suffix}").stat().st_size > 0


@pytest.mark.slow
def test_the_archive_has_the_changes_of_each_site_and_a_second_run_does_nothing_anew(tmp_path, capfd):
    changes = caption_archive.main(tmp_path)
    assert {name.split("_")[0] for name in changes["pair"]} == set(caption_archive.SITES)
    assert "2 of 2 pairs done" in capfd.readouterr().out
    assert (tmp_path / "archive.html").stat().st_size > 0
    reports = sorted((tmp_path / "archive").glob("pairs/*/changes.geojson"))
    written = [report.stat().st_mtime_ns for report in reports]
    assert len(reports) == 2
    again = caption_archive.main(tmp_path)
    assert [report.stat().st_mtime_ns for report in reports] == written and again.equals(changes)


@pytest.mark.slow
def test_the_pairs_of_the_own_model_are_in_the_layout_that_training_reads(tmp_path):
    data = own_model.write_pairs(tmp_path)
    records = LevirCC(data, "train")
    assert len(records) == 8 and {record.changed for record in records} == {True, False}
    assert {record.captions for record in records} == {own_model.NEW, own_model.SAME}
    assert all(record.before.is_file() and record.after.is_file() for record in records)


@pytest.mark.usefixtures("tiny_registered")
@pytest.mark.slow
def test_a_model_goes_on_learning(tmp_path, capsys):
    start = saved_start(tmp_path / "start", tiny_model(seed=3), gsd=0.5)
    data = write_levir_cc(tmp_path / "data", train=20, val=0, test=0, size=64)
    made = own_model.tune(data, tmp_path / "run", str(start))
    folder = open_model_folder(made, check_hashes=True)
    assert folder.path == tmp_path / "run" / "model"
    assert re.search(r"pairs: 10 .*for training; 10 .*for validation", capsys.readouterr().out)


@pytest.mark.slow
def test_reviewed_changes_become_pairs(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(review_and_tune, "SITES", 2)
    data = review_and_tune.main(tmp_path)
    printed = capfd.readouterr().out
    assert printed.count(" confirmed, ") == review_and_tune.SITES
    assert not re.search(r"[1-9]\d* without a verdict", printed)
    train, val = (LevirCC(data, split) for split in ("train", "val"))
    assert len(train) >= 10 and val, "enough for a fine-tuning"
    assert {record.place for record in train}.isdisjoint({record.place for record in val})
    marks = json.loads((tmp_path / "site_0_marks.json").read_text())["marks"]
    features = load_valid(tmp_path / "site_0.geojson")["features"]
    assert {one["id"]: one["verdict"] for one in marks} == {
        one["properties"]["id"]: one["properties"]["review_status"] for one in features
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the libraries
def test_a_network_of_torchgeo_is_trained_and_its_checkpoint_maps_a_scene(tmp_path, rendered, monkeypatch):
    pytest.importorskip("torchgeo", reason="needs the extra torchgeo")
    import masked_pairs
    import torchgeo_detector

    monkeypatch.setattr(masked_pairs, "make_scene", rendered)
    data = masked_pairs.write_masked_pairs(tmp_path / "pairs")
    weights = torchgeo_detector.train(data, tmp_path / "siam.ckpt", steps=2)
    scene = rendered(tmp_path / "scene")
    report = tmp_path / "changes.geojson"
    succeed("caption", scene.before, scene.after, "--detector", f"torchgeo:{weights}", "-o", report)
    detector = load_valid(report)["rscc"]["model"]["detector"]
    assert detector["name"] == "fcsiamdiff with resnet18" and detector["file"] == "siam.ckpt"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the libraries
def test_cheers_is_trained_with_lightning(tmp_path, rendered, monkeypatch):
    pytest.importorskip("torchgeo", reason="needs the extra torchgeo")
    import lightning_captioner
    import masked_pairs
    from tiny_models import TinyTextEncoder

    from rscc.training import train_model

    monkeypatch.setattr(masked_pairs, "make_scene", rendered)
    monkeypatch.setattr(train_model, "load_text_encoder", lambda name: TinyTextEncoder())
    data = masked_pairs.write_masked_pairs(tmp_path / "pairs")
    trained = lightning_captioner.train(data, tmp_path / "run", trunk="rscc-small")
    assert (tmp_path / "run" / "cheers.ckpt").is_file() and trained.model.vocabulary.words
