"""A scene is searched by a network of another project: its changes in our outlines, words and records."""

from __future__ import annotations

import copy
import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from captioners import captioned, kept
from rasters import textured, write_scene
from saved_models import saved, tiny_facts
from scene_pairs import MadePair, exit_code, make_pair
from tiny_models import tiny_model
from torch import nn

from rscc.captioner import Captioner
from rscc.model_card import DetectorCard, with_detector
from rscc.models.torchgeo_detector import TorchGeoDetector
from tiling import BandNotFound
from workflows.archive.verify import Verifier
from workflows.errors import OptionInvalid
from workflows.report.reading import open_report
from workflows.scene.maps import read_maps

SPOTS = [(30, 30, 20, 20, 190), (30, 80, 20, 20, 190), (100, 120, 20, 20, 180)]


class Difference(nn.Module):
    """Change where the bands differ, (B, 2, C, H, W) to logits (B, 1, H, W)."""

    def forward(self, images):
        return 40 * (images[:, 0] - images[:, 1]).abs().mean(1, keepdim=True) - 6


@pytest.fixture
def model(tmp_path, tiny_registered) -> Path:
    facts = tiny_facts()
    return saved(tmp_path / "model", tiny_model(seed=2), facts=facts, gsd_range=(0.2, 2.0)).path


@pytest.fixture
def captioner(model):
    return Captioner.load(model)


def searching(captioner: Captioner, network: nn.Module, **described) -> Captioner:
    """Return the captioner with a detector that is made of a network."""
    fields = {"name": "difference", "file": "one.ckpt", "sha256": "0" * 64, "bands": (), "mean": (0.0,)}
    fields |= {"std": (255.0,), "patch_size": 0, "gsd": 0.0, "threshold": 0.5, "changed": ()}
    card = with_detector(captioner.card, DetectorCard(**{**fields, **described}))
    found = copy.copy(captioner)
    found.other_detector, found.card = TorchGeoDetector(network, "binary", card).eval(), card
    return found


def probability(report) -> np.ndarray:
    with closing(read_maps(Path(report.run["maps"]))) as maps:
        return np.concatenate([band.probability for band in maps.bands()])


def test_its_changes_are_outlined_described_and_recorded(captioner, tmp_path):
    pair = make_pair(tmp_path, SPOTS)
    report, path = kept(pair, tmp_path, searching(captioner, Difference()), group_distance=0)
    # The tiny trunk knows nothing of changes: what is found, the other network has found, and nothing else.
    assert len(report.changes) == len(SPOTS)
    assert all(change.caption for change in report.changes)
    assert {change.outline_of for change in report.changes} == {"change"}
    recorded = report.run["model"]["detector"]
    assert recorded["file"] == "one.ckpt" and report.run["settings"]["threshold"] == 0.5
    assert json.loads(path.read_text())["rscc"]["model"]["detector"]["std"] == [255.0]


def test_the_map_is_that_of_the_network_over_the_whole_image(captioner, tmp_path, monkeypatch):
    import rasterio

    monkeypatch.setattr(Captioner, "veils", None)  # haze is removed from what a network sees
    pair = make_pair(tmp_path, SPOTS, size=(230, 310))
    report, _ = kept(pair, tmp_path, searching(captioner, Difference()))
    dates = []
    for name in (pair.before, pair.after):
        with rasterio.open(name) as file:
            dates.append(torch.from_numpy(file.read()).float())
    with torch.inference_mode():
        expected = Difference()(torch.stack(dates)[None] / 255).sigmoid()[0, 0]
    assert np.abs(probability(report) - expected.numpy()).max() < 1e-5


@pytest.mark.slow
def test_bands_that_it_names_are_read_as_they_are_in_the_file(captioner, tmp_path):
    before = textured(130, 170, bands=4, dtype="uint16") + 1000
    after = before.copy()
    after[3, 40:70, 50:90] += 3000  # near infrared alone
    names = ("B02", "B03", "B04", "B08")
    paths = [
        write_scene(tmp_path / f"{n}.tif", image, names=names) for n, image in enumerate((before, after))
    ]
    settings = {"bands": ("B08",), "std": (1000.0,)}
    found = searching(captioner, Difference(), **settings)
    after_rgb = after.copy()
    after_rgb[0] += 1  # two dates are never the same to the last bit
    write_scene(tmp_path / "1.tif", after_rgb, names=names)
    report, _ = kept(MadePair(*paths, []), tmp_path, found, bands=("B04", "B03", "B02"))
    expected = np.zeros((130, 170), bool)
    expected[40:70, 50:90] = True
    assert np.array_equal(probability(report) > 0.5, expected)
    with pytest.raises(BandNotFound, match="B11"):
        captioned(MadePair(*paths, []), searching(captioner, Difference(), bands=("B11",)))


def test_no_scout_can_rule_out_what_it_looks_for(captioner, tmp_path):
    with pytest.raises(OptionInvalid, match="fast"):
        kept(make_pair(tmp_path, SPOTS), tmp_path, searching(captioner, Difference()), fast=True)


def test_verify_knows_the_card_with_the_detector_of_the_record(captioner, model, tmp_path):
    _, path = kept(make_pair(tmp_path, SPOTS), tmp_path, searching(captioner, Difference()))
    (verified,) = Verifier(model=str(model)).verify(path)
    states = {found.subject: found.state for found in verified.findings}
    assert states["card"] == "same" and states["detector"] == "unchecked"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_fc_siam_diff_of_torchgeo_maps_a_scene_as_in_one_pass(model, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Captioner, "veils", None)
    pytest.importorskip("torchgeo", reason="needs the extra torchgeo")
    import rasterio

    from rscc.models.torchgeo_detector import change_detection_task

    torch.manual_seed(3)
    task = change_detection_task()(model="fcsiamdiff", backbone="resnet18").eval()
    content = {"state_dict": task.state_dict(), "hyper_parameters": dict(task.hparams)}
    torch.save(content, tmp_path / "siam.ckpt")
    (tmp_path / "siam.toml").write_text("patch_size = 256\nthreshold = 0.45\n")
    pair = make_pair(tmp_path, SPOTS, size=(448, 544))
    words = ("caption", pair.before, pair.after, "-o", tmp_path / "r.geojson", "--model", model)
    detector = ("--detector", f"torchgeo:{tmp_path / 'siam.ckpt'}", "--keep-maps", tmp_path / "maps")
    assert exit_code(*words, *detector) == 0
    found = probability(open_report(tmp_path / "r.geojson"))
    dates = []
    for name in (pair.before, pair.after):
        with rasterio.open(name) as file:
            dates.append(torch.from_numpy(file.read()).float())
    with torch.inference_mode():
        whole = task.predict_step({"image": torch.stack(dates)[None] / 255}, 0)[0, 0].numpy()
    # At its edges a tile sees padding where the whole image goes on; blending gives such pixels less weight.
    apart = np.abs(found - whole)
    assert np.median(apart) < 0.002 and apart.max() < 0.1
