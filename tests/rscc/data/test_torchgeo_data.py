"""The benchmarks as data sets of TorchGeo, and a paper's model as a task of Lightning."""

from __future__ import annotations

import pytest
import torch
from datasets import LATER, WRITERS, write_levir_cc
from tiny_models import TinyTextEncoder

from rscc.data.pairs import flip_words

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of the libraries

NAMES = {
    "LEVIRCC": "levir_cc",
    "DubaiCC": "dubai_cc",
    "CLEVRChange": "clevr_change",
    "CLEVRDC": "clevr_dc",
    "SpotTheDiff": "spot_the_diff",
    "ImageEditingRequest": "image_editing_request",
    "LEVIRCDC": "levir_cdc",
    "WHUCDC": "whu_cdc",
    "ForestChange": "forest_change",
    "SECONDCC": "second_cc",
}
CONFIG = """
[model]
paper = "{paper}"
backbone = "tiny"
width = 16
heads = 2
head_width = 8
max_words = 12
[model.options]
{options}
[data]
size = 64
min_count = 1
[train]
bf16 = false
frozen = ["backbone"]
[loss]
caption = 1.0
changed = 0.2
change_mask = {masks}
{loss}
"""


@pytest.fixture(scope="module")
def ours():
    """The package for TorchGeo, which takes seconds to import; skips where it is not installed."""
    pytest.importorskip("torchgeo", reason="needs the extra torchgeo")
    from rscc.data import torchgeo

    return torchgeo


def trainer(tmp_path):
    from lightning.pytorch import Trainer

    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    limits = {"max_epochs": 1, "limit_train_batches": 2, "limit_val_batches": 1, "accelerator": "cpu"}
    return Trainer(default_root_dir=tmp_path, enable_checkpointing=False, **quiet, **limits)


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_gives_samples_that_torchgeo_draws(ours, name, tmp_path):
    from rscc.data.torchgeo.datasets import UNKNOWN

    data = getattr(ours, name)((WRITERS | LATER)[NAMES[name]](tmp_path / "data"))
    sample = data[0]
    assert sample["image"].shape[:2] == (2, 3) and sample["image"].dtype == torch.float32
    assert sample["mask"].shape == (1, *sample["image"].shape[2:]) and sample["mask"].dtype == torch.int64
    unmarked = {UNKNOWN * int(sample["changed"])}
    assert set(sample["mask"].unique().tolist()) <= ({0, 1} if data.records[0].mask else unmarked)
    assert all(isinstance(caption, str) for caption in sample["caption"]) and sample["caption"]
    data.plot({**sample, "prediction": sample["mask"]}).clear()


@pytest.mark.parametrize("name", ["LEVIRCC", "ImageEditingRequest"])
def test_pairs_with_and_without_masks_train_a_network_of_torchgeo_and_a_captioner(
    ours, name, tmp_path, tiny_registered
):
    from rscc.data.torchgeo.datasets import UNKNOWN
    from rscc.models.torchgeo_detector import change_detection_task

    root = WRITERS[NAMES[name]](tmp_path / "data")
    module = getattr(ours, f"{name}DataModule")(root=root, batch_size=2, size=64)
    network = change_detection_task()(model="fcn", loss="focal", ignore_index=UNKNOWN)
    trainer(tmp_path).fit(network, datamodule=module)

    masks = int(name == "LEVIRCC")
    config = tmp_path / "rdd.toml"
    config.write_text(CONFIG.format(paper="rdd", options="", masks=masks, loss="n2o = 0.0\nv2a = 0.0"))
    task = ours.ChangeCaptioningTask(str(config))
    run = trainer(tmp_path)
    run.fit(task, datamodule=module)
    assert run.global_step == 2
    assert torch.isfinite(run.callback_metrics["val_loss"])
    assert task.model.vocabulary.words


def test_cheers_trains_with_its_own_terms_and_comes_back_from_a_checkpoint(
    ours, tmp_path, tiny_registered, monkeypatch
):
    from rscc.training import train_model

    monkeypatch.setattr(train_model, "load_text_encoder", lambda name: TinyTextEncoder())
    root = write_levir_cc(tmp_path / "data")
    config = tmp_path / "cheers.toml"
    loss = "consistency = 0.75\ncontrast = 0.5"
    config.write_text(CONFIG.format(paper="cheers", options="entities = 2", masks=1, loss=loss))
    module = ours.LEVIRCCDataModule(root=root, batch_size=4, size=64)
    task, run = ours.ChangeCaptioningTask(str(config)), trainer(tmp_path)
    run.fit(task, datamodule=module)
    assert {"train_consistency", "train_contrast", "train_caption"} <= set(run.callback_metrics)
    assert not task.model.backbone.training
    run.save_checkpoint(tmp_path / "one.ckpt")
    again = ours.ChangeCaptioningTask.load_from_checkpoint(tmp_path / "one.ckpt")
    assert again.model.vocabulary.words == task.model.vocabulary.words
    for name, value in task.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name


def test_captions_stay_whole_and_turn_with_the_images(ours, tmp_path):
    from rscc.data.torchgeo.datamodules import flip

    data = ours.LEVIRCC(write_levir_cc(tmp_path))
    batch = ours.collate_pairs([data[0], data[1]])
    assert batch["image"].shape == (2, 2, 3, 64, 64) and batch["changed"].tolist() == [1, 0]
    assert batch["caption"] == [data[0]["caption"], data[1]["caption"]]
    torch.manual_seed(0)
    seen = set()
    for _ in range(20):
        turned = flip(data[0])
        (way,) = (
            w
            for w, axes in {"none": [], "horizontal": [-1], "vertical": [-2], "both": [-1, -2]}.items()
            if torch.equal(turned["image"], data[0]["image"].flip(axes))
        )
        assert turned["caption"] == [flip_words(caption, way) for caption in data[0]["caption"]]
        seen.add(way)
    assert len(seen) == 4
