"""Training that starts from another model's weights and words."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from datasets import write_levir_cc
from safetensors.torch import load_file
from saved_models import saved_start
from tiny_models import ENTITIES, WORDS, tiny_config, tiny_model
from training_runs import trained

from rscc.config import Config, DataConfig, TrainConfig
from rscc.configs import load_config
from rscc.errors import ConfigInvalid, ModelFolderInvalid
from rscc.model_folder import load_model, open_model_folder
from rscc.models.papers import MODELS
from rscc.text.vocabulary import SPECIAL
from rscc.training import train_model as runs
from rscc.training.train_model import build_model
from rscc.training.training_run import Run, RunPaths, check_output, finetuning_config, open_start

pytestmark = pytest.mark.usefixtures("tiny_registered")


def config_of(model, **train) -> Config:
    terms = model.loss_terms()
    return Config(
        model=model.config,
        data=DataConfig(size=64, min_count=1),
        train=TrainConfig(**{"epochs": 1, "batch_size": 4, **train}),
        loss={name: float(name == "caption") for name in terms},
    )


def paths_of(tmp_path: Path, start: Path | None, **more) -> RunPaths:
    given = None if start is None else str(start)
    return RunPaths(data=tmp_path / "data", output=tmp_path / "run", start=given, **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return saved_start(tmp_path_factory.mktemp("start"), tiny_model(seed=3))


def build(config: Config, paths: RunPaths, captions=("a house appears",)):
    start = open_start(paths.start)
    return build_model(run_of(config, paths), start.vocabulary.extended(captions, 1))


def run_of(config: Config, paths: RunPaths) -> Run:
    return Run(config, paths, "x", "x", start=None if paths.start is None else open_start(paths.start))


TRUNK = ("backbone.", "change_head.")


def assert_starts_alike(model, folder: Path, *, trunk: bool | None = None) -> None:
    """The model has all weights of the folder, or those of trunk and change head alone, or all others."""
    state, own = load_file(folder / "model.safetensors"), model.state_dict()
    names = [name for name in state if trunk in (None, name.startswith(TRUNK))]
    assert names
    for name in names:
        assert torch.equal(own[name][: len(state[name])], state[name].float()), name


@pytest.mark.parametrize("paper", sorted(MODELS))
def test_every_weight_of_the_start_is_taken_and_its_entities_too(paper, tmp_path, monkeypatch) -> None:
    def no_encoder(name):
        raise AssertionError("a prepared start needs no text encoder")

    monkeypatch.setattr(runs, "load_text_encoder", no_encoder)
    one = tiny_model(paper, seed=3)
    folder = saved_start(tmp_path / "one", one)
    model = build(config_of(one), paths_of(tmp_path, folder))
    assert model.vocabulary.words == one.vocabulary.words
    assert_starts_alike(model, folder)
    if paper in ("cheers", "davir"):
        assert tuple(model.config.options["entity_names"]) == ENTITIES


@pytest.mark.parametrize("name", ["model", "tuned"])
@pytest.mark.parametrize("part", ["start", "trunk"])
def test_a_run_does_not_write_over_its_start(name, part, tmp_path) -> None:
    own = saved_start(tmp_path / "run" / name, tiny_model(seed=3))
    before = (own / "model.safetensors").read_bytes()
    paths = replace(paths_of(tmp_path, None), **{part: str(own.parent / ".." / "run" / name)})
    with pytest.raises(ConfigInvalid, match=name):
        trained(config_of(tiny_model()), paths)
    assert (own / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("name", ["model", "tuned"])
def test_a_folder_that_is_no_model_is_never_replaced(name, tmp_path) -> None:
    (tmp_path / "run" / name).mkdir(parents=True)
    (tmp_path / "run" / name / "notes.txt").write_text("mine")
    paths = paths_of(tmp_path, None)
    for asked in ({}, {"overwrite": True}, {"resume": True}):
        with pytest.raises(ConfigInvalid, match=f"run/{name}: exists already and is no model folder"):
            trained(config_of(tiny_model()), paths, **asked)
    assert (tmp_path / "run" / name / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "name", ["model", "tuned", "checkpoint.pt", "best.safetensors", "log.jsonl", "config.json"]
)
def test_an_earlier_run_is_replaced_or_gone_on_with_when_asked_for(name, tmp_path) -> None:
    there = tmp_path / "run" / name
    if name in ("model", "tuned"):
        saved_start(there, tiny_model())
    else:
        there.parent.mkdir()
        there.write_text("of before")
    paths = paths_of(tmp_path, None)
    with pytest.raises(ConfigInvalid, match=f"{name}.*--resume.*--overwrite"):
        trained(config_of(tiny_model()), paths)
    assert there.exists()
    check_output(paths, resume=True)
    check_output(paths, overwrite=True)
    with pytest.raises(ConfigInvalid):
        check_output(paths, resume=True, overwrite=True)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"width": 32}, r"positions|project|backbone|head|decoder"),
        ({"head_width": 16}, "change_head"),
        ({"decoder_layers": 1}, r"decoder\.layers\.1"),
        ({"decoder_layers": 3}, r"decoder\.layers\.2"),
        ({"max_words": 12}, r"decoder\.positions is \(10, 16\) there and \(12, 16\)"),
        ({"options": {"attributes": "N"}}, "action_distilling"),
    ],
)
def test_a_start_of_other_sizes_is_refused_by_name(values, word, folder, tmp_path) -> None:
    config = replace(config_of(tiny_model()), model=tiny_config(**values))
    with pytest.raises(ModelFolderInvalid, match=word) as caught:
        build(config, paths_of(tmp_path, folder))
    assert "--config" in str(caught.value)
    assert str(folder) in str(caught.value)


def test_a_start_that_is_a_part_gives_what_it_holds(tmp_path) -> None:
    one = tiny_model(seed=3)
    folder = saved_start(tmp_path / "one", one, parts=("decoder.",), description="a decoder")
    assert all(name.startswith("decoder.") for name in load_file(folder / "model.safetensors"))
    with pytest.raises(ModelFolderInvalid):
        load_model(open_model_folder(folder))
    config, paths = config_of(one), paths_of(tmp_path, folder)
    torch.manual_seed(5)
    model = build(config, paths)
    assert_starts_alike(model, folder)
    torch.manual_seed(5)
    fresh = build_model(run_of(config, replace(paths, start=None)), model.vocabulary).state_dict()
    rest = {name: value for name, value in model.state_dict().items() if not name.startswith("decoder.")}
    assert all(torch.equal(value, fresh[name]) for name, value in rest.items())
    trunk = saved_start(tmp_path / "two", tiny_model(seed=4))
    model = build(config, paths_of(tmp_path, folder, trunk=str(trunk)))
    assert_starts_alike(model, folder)


@pytest.mark.parametrize("labels", [True, False])
def test_a_run_from_a_start_keeps_trunk_head_and_their_threshold(labels, tmp_path) -> None:
    """The score of their masks, too, where there are masks to be scored by."""
    write_levir_cc(tmp_path / "data", train=10, labels=labels)
    start = saved_start(tmp_path / "one", tiny_model(seed=3), scores={"mask_f1": 0.8})
    config = finetuning_config(load_config("finetune"), open_start(start))
    config = replace(config, train=replace(config.train, epochs=2, keep_start=False))
    folder = trained(config, paths_of(tmp_path, start))
    assert (folder.card.threshold, folder.card.localiser) == (0.3, "change_head")
    assert folder.card.scores.get("mask_f1") == (0.8 if labels else None)
    assert ("pixel F1" in (folder.path / "CARD.md").read_text()) is labels
    assert folder.card.gsd_range == (0.4, 2.0)
    model = load_model(folder)
    assert_starts_alike(model, start, trunk=True)
    moved = load_file(start / "model.safetensors")["project.weight"]
    assert not torch.equal(model.state_dict()["project.weight"], moved.float())
    words = model.vocabulary.words
    assert words[: len(SPECIAL) + len(WORDS)] == (*SPECIAL, *WORDS)
    assert len(words) > len(SPECIAL) + len(WORDS)
