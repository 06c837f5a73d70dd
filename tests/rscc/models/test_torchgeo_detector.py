"""Change detection networks that TorchGeo trained run in place of a model's change head."""

from __future__ import annotations

import json
import pickle
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from captioners import card
from saved_models import saved
from tiny_models import random_arrays, tiny_model

from rscc.captioner import Captioner
from rscc.errors import DetectorInvalid, ExtraNotInstalled, ModelFolderInvalid, OutputExists
from rscc.model_folder import add_detector, load_card, open_model_folder
from rscc.models import torchgeo_detector
from rscc.models.torchgeo_detector import load_torchgeo

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, on import


@pytest.fixture(scope="session")
def tasks():
    """TorchGeo's class of tasks; skips where it is not installed."""
    pytest.importorskip("torchgeo", reason="needs the extra torchgeo")
    from rscc.models.torchgeo_detector import change_detection_task

    return change_detection_task()


def checkpoint(path: Path, task) -> Path:
    """Save a task as Lightning does, as far as it is read, with the weights of the classes in its loss."""
    state = {**task.state_dict(), "criterion.weight": torch.ones(2)}
    torch.save({"state_dict": state, "hyper_parameters": dict(task.hparams)}, path)
    return path


@pytest.fixture(scope="session")
def siamese(tasks, tmp_path_factory):
    """A small FC-Siam-diff and its checkpoint."""
    torch.manual_seed(3)
    task = tasks(model="fcsiamdiff", backbone="resnet18").eval()
    return task, checkpoint(tmp_path_factory.mktemp("detector") / "siam.ckpt", task)


@pytest.fixture
def captioner(tmp_path, tiny_registered):
    return Captioner.load(saved(tmp_path / "model", tiny_model(seed=2)).path)


@pytest.mark.slow
def test_it_gives_the_probability_of_torchgeos_own_prediction(siamese, captioner):
    task, path = siamese
    before, after = random_arrays(2, 64, 96)
    found = captioner.with_detector(f"torchgeo:{path}")
    images = torch.stack([torch.from_numpy(before), torch.from_numpy(after)], 1) / 255
    with torch.inference_mode():
        expected = task.predict_step({"image": images}, 0)[:, 0]
    assert torch.from_numpy(found.search(before, after)).allclose(expected, atol=1e-6)
    # A size that the encoder cannot halve five times is padded, and the captioner itself stays as it was.
    assert found.search(*random_arrays(1, 48, 80)).shape == (1, 48, 80)
    assert captioner.card.detector is None and captioner.other_detector is None
    assert found.card.detector.assumed and found.card.threshold == 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        {"model": "fcn", "task": "multiclass", "num_classes": 3, "loss": "ce"},
        {"model": "fcn", "task": "multilabel", "num_labels": 2},
        {"model": "unet", "backbone": "resnet18"},
        {"model": "fcsiamconc", "backbone": "resnet18"},
    ],
)
def test_every_kind_of_answer_is_a_probability_of_change(tasks, tmp_path, values):
    task = tasks(**values).eval()
    detector = load_torchgeo(checkpoint(tmp_path / "one.ckpt", task), card())
    before, after = (torch.from_numpy(date) for date in random_arrays(1, 64, 64))
    with torch.inference_mode():
        found = detector(before, after)
        answers = task.predict_step({"image": torch.stack([before, after], 1) / 255}, 0)
    expected = 1 - answers[:, 0] if values.get("num_classes") else answers.amax(1)
    assert found.allclose(expected, atol=1e-6)


@pytest.mark.slow
def test_a_network_of_one_size_of_images_is_refused(tasks, tmp_path):
    task = tasks(model="dpt", backbone="tu-vit_tiny_patch16_224")
    with pytest.raises(DetectorInvalid, match=r"one\.ckpt"):
        load_torchgeo(checkpoint(tmp_path / "one.ckpt", task), card())


@pytest.mark.slow
def test_changestar_is_built_from_the_description_beside_its_weights(tasks, tmp_path):
    from torchgeo.models import ChangeStarFarSeg

    network = ChangeStarFarSeg(backbone="resnet18", classes=1, backbone_pretrained=False).eval()
    torch.save(network.state_dict(), tmp_path / "star.pt")
    described = '[hyperparameters]\nmodel = "changestar"\nbackbone = "resnet18"\n'
    (tmp_path / "star.toml").write_text(described)
    before, after = (torch.from_numpy(date) for date in random_arrays(1, 64, 64))
    with torch.inference_mode():
        found = load_torchgeo(tmp_path / "star.pt", card())(before, after)
        expected = network(torch.stack([before, after], 1) / 255)["change_prob"][:, 0]
    assert found.allclose(expected, atol=1e-6)


@pytest.mark.slow
def test_the_description_decides_bands_scaling_patch_and_threshold(tasks, tmp_path):
    path = checkpoint(tmp_path / "four.ckpt", tasks(model="fcn", in_channels=4))
    with pytest.raises(DetectorInvalid, match="4 bands"):
        load_torchgeo(path, card())
    settings = 'bands = ["B02", "B03", "B04", "B08"]\nmean = [1.0]\nstd = [1000.0]\n'
    path.with_suffix(".toml").write_text(f"{settings}patch_size = 96\nthreshold = 0.7\nchanged = [0]\n")
    detector = load_torchgeo(path, card())
    described = detector.card.detector
    assert described.bands == ("B02", "B03", "B04", "B08") and described.mean == (1.0,)
    assert detector.card.threshold == 0.7 and detector.card.search_size >= 96
    assert detector(*torch.zeros(2, 1, 3, 64, 64), torch.zeros(1, 2, 4, 64, 64)).shape == (1, 64, 64)
    path.with_suffix(".toml").write_text('bands = ["B02", "B03", "B04", "B08"]\n')
    described = load_torchgeo(path, card()).card.detector
    assert (described.mean, described.std) == ((0.0,), (1.0,)), "values as they are in the file"


class Harmful:
    """Would write a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_code_in_a_checkpoint_is_refused_and_never_run(tmp_path):
    torch.save({"state_dict": {}, "callbacks": Harmful(tmp_path / "harm")}, tmp_path / "bad.ckpt")
    (tmp_path / "bare.pt").write_bytes(pickle.dumps(Harmful(tmp_path / "harm")))
    for name in ("bad.ckpt", "bare.pt"):
        with pytest.raises(DetectorInvalid, match=name):
            load_torchgeo(tmp_path / name, card())
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("content", "described"),
    [
        (None, None),
        (b"no weights", None),
        ({}, None),
        ([1, 2], None),
        ({"state_dict": 3}, None),
        ({"state_dict": {"model.a": torch.zeros(1)}}, None),  # of which network?
        ({1: torch.zeros(1)}, None),
        ({"model.a": torch.zeros(1)}, 'threshold = "high"'),
        ({"model.a": torch.zeros(1)}, "treshold = 0.5"),
        ({"model.a": torch.zeros(1)}, "std = [0.0]"),
        ({"model.a": torch.zeros(1)}, "not toml"),
        ({"model.a": torch.zeros(1)}, 'gsd = 30.0\nhyperparameters = {model = "fcn"}'),
        ({"model.a": torch.zeros(1)}, 'hyperparameters = {model = "unet", backbone = "tu-hf-hub:a/b"}'),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path, content, described):
    path = tmp_path / "odd.ckpt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    if described is not None:
        path.with_suffix(".toml").write_text(described)
    with pytest.raises(DetectorInvalid, match="odd"):
        load_torchgeo(f"torchgeo:{path}", card())


@pytest.mark.parametrize(
    ("tensor", "described"),
    [
        (torch.zeros(1).as_strided((10**11,), (0,)), {"num_classes": 2 * 10**8}),
        (torch.empty(10**12, device="meta"), {"num_classes": 2 * 10**8}),
        (torch.zeros(10, 10).to_sparse(), {}),
        (torch.zeros(1), {"in_channels": {"a": 1}}),
    ],
)
def test_a_tensor_that_is_larger_than_its_file_is_refused(tmp_path, tensor, described):
    path, about = tmp_path / "odd.ckpt", {"model": "unet", "backbone": "resnet18", **described}
    torch.save({"state_dict": {"model.a": tensor}, "hyper_parameters": about}, path)
    with pytest.raises(DetectorInvalid, match=r"odd\.ckpt: (the tensor|its in_channels)"):
        load_torchgeo(path, card())


def test_compressed_weights_and_headers_without_end_are_refused(tmp_path):
    packed, path = tmp_path / "packed.ckpt", tmp_path / "odd.ckpt"
    torch.save({"state_dict": {"model.a": torch.zeros(10**6)}}, path)
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in whole.namelist():
            archive.writestr(name, whole.read(name))
    header = b'{"a": 1' + b" " * 2**24 + b"}"
    (tmp_path / "long.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    for file in (packed, tmp_path / "long.safetensors"):
        with pytest.raises(DetectorInvalid, match=r"compressed|too long"):
            load_torchgeo(file, card())


def test_without_torchgeo_the_extra_is_named(tmp_path, monkeypatch):
    for name in ("torchgeo", "torchgeo.tasks", "torchgeo.trainers"):
        monkeypatch.setitem(sys.modules, name, None)
    torch.save({"state_dict": {"model.a": torch.zeros(1)}}, tmp_path / "one.ckpt")
    (tmp_path / "one.toml").write_text('hyperparameters = {model = "fcn"}')
    with pytest.raises(ExtraNotInstalled, match="torchgeo"):
        load_torchgeo(tmp_path / "one.ckpt", card())


@pytest.mark.slow
def test_a_model_folder_brings_its_detector(siamese, tmp_path, tiny_registered, monkeypatch):
    _, path = siamese
    source = saved(tmp_path / "model", tiny_model(seed=2)).path
    made = add_detector(source, f"torchgeo:{path}", tmp_path / "both")
    with monkeypatch.context() as patched:  # its card alone needs no network
        patched.setattr(torchgeo_detector, "_network", None)
        assert load_card(made.path).detector.file == "siam.ckpt"
    pair = random_arrays(1, 64, 64)
    both, alone = Captioner.load(made.path), Captioner.load(source)
    expected = alone.with_detector(f"torchgeo:{path}").search(*pair)
    assert (both.search(*pair) == expected).all()
    assert (both.predict_change(*pair).change_probability == expected).all()
    with pytest.raises(OutputExists):
        add_detector(source, path, made.path)
    with open(made.path / "siam.ckpt", "ab") as file:
        file.write(b"more")
    with pytest.raises(ModelFolderInvalid, match=r"siam\.ckpt"):
        Captioner.load(made.path)


def test_a_detector_outside_of_the_folder_is_refused(tmp_path):
    folder = saved(tmp_path / "model").path
    content = json.loads((folder / "model.json").read_text())
    for name in ("../siam.ckpt", "siam.ckpt"):
        (folder / "model.json").write_text(json.dumps({**content, "detector": name}))
        with pytest.raises(ModelFolderInvalid, match="detector"):
            open_model_folder(folder)


@pytest.mark.slow
def test_of_several_labels_those_that_are_named_are_change(tasks, tmp_path):
    task = tasks(model="fcn", task="multilabel", num_labels=3).eval()
    before, after = (torch.from_numpy(date) for date in random_arrays(1, 64, 64))
    with torch.inference_mode():
        answers = task.predict_step({"image": torch.stack([before, after], 1) / 255}, 0)
        path, rare = checkpoint(tmp_path / "one.ckpt", task), int(answers.mean((0, 2, 3)).argmin())
        path.with_suffix(".toml").write_text(f"changed = [{rare}]\n")
        found = load_torchgeo(path, card())(before, after)
    assert found.allclose(answers[:, rare], atol=1e-6)
