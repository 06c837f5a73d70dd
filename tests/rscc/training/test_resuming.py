"""A run that was stopped and resumed is the run that was not."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from training_runs import Stopped, assert_same_tensors, log_of, make_trainer, settings, whole_config

from rscc.config import Config
from rscc.errors import ConfigInvalid, WeightsNotFound
from rscc.models.backbones import build_backbone
from rscc.training.training_loop import Trainer, TrainResult, load_best

ONE_EPOCH = whole_config(settings(epochs=1))


@pytest.fixture(scope="module")
def one_epoch(data, tmp_path_factory) -> TrainResult:
    return make_trainer(data, tmp_path_factory.mktemp("ended"), ONE_EPOCH).run()


@pytest.fixture
def ended(one_epoch, tmp_path) -> TrainResult:
    """A run of one epoch, in ``tmp_path``, that a test may break or go on with."""
    shutil.copytree(one_epoch.weights.parent, tmp_path, dirs_exist_ok=True)
    return replace(one_epoch, weights=tmp_path / one_epoch.weights.name)


@pytest.fixture(scope="module", params=[False, True], ids=["float32", "bf16"])
def undisturbed(data, tmp_path_factory, request) -> tuple[Config, Trainer, TrainResult]:
    """A config, and a run of it from its start to its end."""
    config = whole_config(settings(bf16=request.param))
    whole = make_trainer(data, tmp_path_factory.mktemp("whole"), config)
    return config, whole, whole.run()


@pytest.mark.slow
@pytest.mark.parametrize("stop", [(1, 0), (1, 1), (2, 1)])
def test_a_resumed_run_equals_an_undisturbed_one_bit_for_bit(data, tmp_path, stop, undisturbed) -> None:
    config, whole, expected = undisturbed
    with pytest.raises(Stopped):
        make_trainer(data, tmp_path / "part", config, stop=stop).run()
    assert len(log_of(tmp_path / "part")) == stop[0]
    with (tmp_path / "part" / "log.jsonl").open("a") as log:
        log.write('{"epoch": ')  # as a kill while logging leaves it
    # Another start and other random numbers in between: all must come from the checkpoint.
    rest = make_trainer(data, tmp_path / "part", config, seed=99)
    torch.rand(5)
    found = rest.run(resume=True)
    assert_same_tensors(whole.model.state_dict(), rest.model.state_dict())
    assert_same_tensors(whole.average.shadow, rest.average.shadow)
    assert log_of(expected.weights.parent) == log_of(tmp_path / "part")
    assert (found.best_epoch, found.best_scores) == (expected.best_epoch, expected.best_scores)
    assert_same_tensors(load_file(expected.weights), load_file(found.weights))


@pytest.mark.slow
def test_another_config_is_not_resumed(data, tmp_path, ended) -> None:
    with pytest.raises(ConfigInvalid, match=r"config\.json"):
        make_trainer(data, tmp_path, whole_config(settings(epochs=2))).run(resume=True)


def test_a_finished_run_of_an_earlier_version_with_another_card_resumes_to_its_result(
    data, tmp_path, ended
) -> None:
    file = tmp_path / "config.json"
    written = json.loads(file.read_text())
    del written["card"]["cost"], written["train"]["workers"]  # as if they were new
    written["card"]["draws"] = 0  # is no more
    file.write_text(json.dumps(written))
    config = replace(ONE_EPOCH, card=replace(ONE_EPOCH.card, version="7"))
    found = make_trainer(data, tmp_path, config, stop=(0, 0)).run(resume=True)
    assert (found.best_epoch, found.best_scores) == (ended.best_epoch, ended.best_scores)
    assert len(log_of(tmp_path)) == 1
    assert json.loads(file.read_text()) == json.loads(json.dumps(asdict(config)))


@pytest.mark.parametrize("content", ["", "[", "[]", "3", "{}x", None])
def test_a_damaged_config_is_not_resumed(data, tmp_path, ended, content) -> None:
    file = tmp_path / "config.json"
    file.unlink() if content is None else file.write_text(content)
    with pytest.raises(ConfigInvalid, match=r"config\.json"):
        make_trainer(data, tmp_path, ONE_EPOCH).run(resume=True)


@pytest.mark.parametrize("name", ["checkpoint.pt", "best.safetensors"])
@pytest.mark.parametrize("kept", [0, 700, None])
def test_a_damaged_file_of_a_run_is_named(data, tmp_path, ended, name, kept) -> None:
    file = tmp_path / name
    if kept is None and name == "checkpoint.pt":
        torch.save([1], file)
    else:
        file.unlink() if kept is None else file.write_bytes(file.read_bytes()[:kept])
    trainer = make_trainer(data, tmp_path, ONE_EPOCH)
    with pytest.raises(ConfigInvalid, match=name):
        trainer.run(resume=True)
    if name == "best.safetensors":
        with pytest.raises(ConfigInvalid):
            load_best(trainer.model, ended)


def test_a_new_run_forgets_the_earlier_one_of_its_folder(data, tmp_path, ended) -> None:
    config = whole_config(settings(epochs=1, learning_rate=1e-3))
    with pytest.raises(Stopped):
        make_trainer(data, tmp_path, config, stop=(0, 0)).run()
    expected = make_trainer(data, tmp_path / "other", config)
    expected.run()
    found, lines = make_trainer(data, tmp_path, config), []
    found.report = lines.append
    found.run(resume=True)
    assert str(tmp_path) in lines[0]
    assert_same_tensors(expected.model.state_dict(), found.model.state_dict())


class Exploit:
    """Writes a file when unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_a_checkpoint_never_runs_code(data, tmp_path) -> None:
    config = whole_config(settings(epochs=2))
    with pytest.raises(Stopped):
        make_trainer(data, tmp_path, config, stop=(1, 0)).run()
    torch.save({"model": Exploit(tmp_path / "ran")}, tmp_path / "checkpoint.pt")
    with pytest.raises(ConfigInvalid, match=r"checkpoint\.pt"):
        make_trainer(data, tmp_path, config).run(resume=True)
    torch.save(Exploit(tmp_path / "ran"), tmp_path / "weights.pth")
    with pytest.raises(WeightsNotFound, match=r"weights\.pth"):
        build_backbone("resnet50", weights=tmp_path / "weights.pth")
    assert not (tmp_path / "ran").exists()
