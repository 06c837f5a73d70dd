"""Masks of TorchGeo's data sets, and its published trunks, in our training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from datasets import write_image

from rscc.data.benchmarks.change_masks import torchgeo_pairs
from rscc.data.pairs import read_pair
from rscc.errors import ConfigInvalid, WeightsNotFound

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, on import


@pytest.fixture(scope="module")
def levir_cd(tmp_path_factory):
    """LEVIR-CD+ in its official layout, two pairs of 96 px."""
    root = tmp_path_factory.mktemp("levircd")
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        for number in range(2):
            before = rng.integers(0, 255, (96, 96, 3), dtype=np.uint8)
            mask = np.zeros((96, 96), np.uint8)
            mask[10:30, 20 : 40 + number] = 255
            for part, image in (("A", before), ("B", before[::-1].copy()), ("label", mask)):
                write_image(root / "LEVIR-CD+" / split / part / f"{number}.png", image)
    return root


@pytest.mark.slow
def test_a_change_data_set_of_torchgeo_gives_pairs_with_masks(levir_cd):
    pytest.importorskip("torchgeo", reason="needs the extra torchgeo")
    records = torchgeo_pairs(f"torchgeo:LEVIRCDPlus:{levir_cd}", size=32)
    assert len(records) == 2 and records[0].crops == 9
    areas = set()
    for record in records:
        pair = read_pair(record)
        assert pair.before.dtype == np.uint8 and pair.before.shape == (3, 96, 96)
        assert np.array_equal(pair.after, pair.before[:, ::-1])
        areas.add(int(pair.mask.sum()))
    assert areas == {400, 420}


@pytest.mark.slow
def test_a_published_trunk_is_filled_from_a_file_or_the_cache(tmp_path, monkeypatch):
    pytest.importorskip("torchgeo", reason="needs the extra torchgeo")
    import timm

    from rscc.models.backbones import build_backbone
    from rscc.models.torchgeo_detector import torchgeo_trunk

    weights = "ResNet18_Weights.SENTINEL2_RGB_MOCO"
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    with pytest.raises(WeightsNotFound, match="backbone-weights"):
        torchgeo_trunk(weights)
    torch.manual_seed(2)
    state = timm.create_model("resnet18", num_classes=0).state_dict()
    cached = tmp_path / "checkpoints" / "resnet18_sentinel2_rgb_moco-e3a335e3.pth"
    cached.parent.mkdir()
    torch.save(state, cached)
    name, path = torchgeo_trunk(weights)
    assert (name, path) == ("timm/resnet18", cached)
    trunk = build_backbone(name, weights=path)
    filled = trunk.stages[0].state_dict()
    assert all(torch.equal(value, state[key]) for key, value in filled.items())
    assert [one.shape[1] for one in trunk(torch.zeros(1, 3, 64, 64))] == [64, 128, 256]
    torch.save({"other": torch.zeros(1)}, tmp_path / "other.pth")
    with pytest.raises(WeightsNotFound, match="other"):
        build_backbone(name, weights=tmp_path / "other.pth")
    for unknown in ("ResNet18_Weights.NONE", "ResNet18_Weights.SENTINEL2_ALL_MOCO"):
        with pytest.raises(ConfigInvalid, match="ResNet18"):
            torchgeo_trunk(unknown)
