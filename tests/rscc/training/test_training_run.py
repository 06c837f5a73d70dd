"""Whole runs, from folders to a model folder."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from levir_cc_fixture import write_change_masks, write_levir_cc
from safetensors.torch import load_file
from saved_models import saved
from synthesis_fixture import write_single_date
from tiny_models import TinyTextEncoder, random_arrays, random_images, tiny_config, tiny_model
from training_runs import (
    LOSS,
    assert_same_tensors,
    settings,
    small_config,
    sum_of_weights,
    trained,
    whole_config,
)

from rscc.captioner import Captioner
from rscc.config import Config, DataConfig, TrainConfig
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.sources import MaskSource
from rscc.errors import ConfigInvalid, DatasetLayoutInvalid, ModelFolderInvalid, WeightsNotFound
from rscc.model_folder import find_model, load_model, open_model_folder
from rscc.training import fact_rules, facts
from rscc.training import finish as finishing
from rscc.training import run as runs
from rscc.training.finish import int8_ranges
from rscc.training.loop import Trainer
from rscc.training.start import Run, RunPaths

pytestmark = pytest.mark.usefixtures("tiny_registered")

MASK_LOSS = dict.fromkeys(LOSS, 0.0) | {"change_mask": 1.0}


def test_a_resnet_trunk_is_measured_for_integers_and_stays_as_it_is(data) -> None:
    folder = open_model_folder(find_model("rscc-base"))
    model, records = load_model(folder), LevirCC(data, "train").records
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    ranges = int8_ranges(model, records, size=64)
    assert ranges.keys() == folder.card.ranges.keys()
    assert all(value > 0 for value in ranges.values())
    assert_same_tensors(model.state_dict(), weights)
    assert int8_ranges(model, [], size=64) == {}
    assert int8_ranges(tiny_model(), records, size=64) == {}


@pytest.mark.slow
def test_from_folders_to_a_captioner_in_two_stages(data, tmp_path, monkeypatch) -> None:
    """Change head first, then captions from its cached trunk, as the shipped model is made."""
    monkeypatch.setattr(runs, "load_text_encoder", lambda name: TinyTextEncoder())
    lines: list[str] = []
    train = {"select": "mask_f1", "epochs": 2, "batch_size": 4, "ema": 0.9}
    masks = write_change_masks(tmp_path / "masks")
    paths = RunPaths(data=data, output=tmp_path / "first", masks=(masks,))
    head = trained(small_config(train, MASK_LOSS), paths, report=lines.append)
    assert head.card.scores["mask_f1"] >= head.card.scores["mask_f1_at_half"]
    assert 0 <= head.card.threshold <= 1

    train = {"epochs": 2, "batch_size": 4, "cache_features": True, "frozen": ["backbone", "change_head"]}
    second = small_config(train, LOSS | {"change_mask": 0}, card={"support": 5})
    paths = RunPaths(data=data, output=tmp_path / "second", trunk=str(head.path))
    folder = trained(second, paths, name="words", report=lines.append)
    assert folder == open_model_folder(tmp_path / "second" / "model", check_hashes=True)
    one, two = (load_file(f.path / "model.safetensors") for f in (head, folder))
    shared = [name for name in one if name.startswith(("backbone.", "change_head."))]
    assert_same_tensors({n: one[n] for n in shared}, {n: two[n] for n in shared})
    assert not any(name.startswith(("noun_tokens", "verb_tokens")) for name in two)
    assert ("there", "is") in folder.no_change_prefixes or ("there",) in folder.no_change_prefixes
    assert folder.no_change_runs == ()
    assert {"cider", "cider_changed", "flag_accuracy", "mask_f1"} <= set(folder.card.scores)
    card = (folder.path / "CARD.md").read_text()
    assert "words 1" in card
    assert "what few of the 5 sentences of the search name" in card
    assert folder.card.support == 5
    assert "7 training and 4 validation pairs" in card
    assert any(line.startswith("epoch 2") for line in lines)

    captioner = Captioner.load(folder.path, device="cpu")
    before, after = random_arrays(2)
    assert captioner.predict_change(before, after).change_probability.shape == (2, 64, 64)
    found = captioner.caption(before, after, assume_changed=True)
    assert all(caption.text and not caption.text.startswith("there") for caption in found)


@pytest.mark.parametrize("fast", [True, False])
def test_bfloat16_is_used_where_the_hardware_computes_it(data, tmp_path, monkeypatch, fast) -> None:
    monkeypatch.setattr(runs, "fast_bf16", lambda device: fast)
    lines: list[str] = []
    config = whole_config(replace(settings(epochs=1), bf16=True))
    paths = RunPaths(data=data, output=tmp_path / "run")
    trained(config, paths, report=lines.append)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["train"]["bf16"] == fast
    assert any("float32" in line for line in lines) == (not fast)


@pytest.mark.slow
def test_a_run_ends_with_a_model_that_tells_facts_where_the_parser_is_there(
    data, tmp_path, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(runs, "load_text_encoder", lambda name: TinyTextEncoder())
    monkeypatch.setattr(facts, "FEWEST_PAIRS", 2)
    monkeypatch.setattr(fact_rules, "FEWEST_LABELS", 1)
    roads = write_single_date(tmp_path / "roads")

    def ended(name: str, *, facts=True):
        train = {"epochs": 1, "batch_size": 4, "facts": facts}
        paths = RunPaths(data=data, output=tmp_path / name, roads=roads if facts else None)
        return trained(small_config(train, LOSS | {"change_mask": 1.0}), paths)

    told = ended("first")
    assert told.tells_facts and "## Facts" in (card := (told.path / "CARD.md").read_text())
    assert "A road is stated only where one is found" in card
    known = Captioner.load(told.path, device="cpu").facts
    assert known is not None and known.roads is not None

    def no_parser(*_: object, **__: object) -> None:
        raise WeightsNotFound("no parser is installed")

    monkeypatch.setattr(finishing, "fit_facts", no_parser)
    assert not ended("second").tells_facts
    assert "the model will tell no facts: no parser is installed" in caplog.text
    assert f"{roads} is not learnt from" in caplog.text
    caplog.clear()
    assert not ended("third", facts=False).tells_facts
    assert not caplog.text, "the parser was not asked"


def test_a_run_on_images_reads_the_test_split_never(data, tmp_path) -> None:
    copy = write_levir_cc(tmp_path / "data", train=5, val=2, test=1)
    for path in (copy / "images" / "test").rglob("*.png"):
        path.unlink()
    config = Config(
        model=tiny_config(max_words=12),
        data=DataConfig(size=64, min_count=1, trust=("named",)),
        train=TrainConfig(epochs=1, batch_size=2, frozen=("change_head",)),
        loss={"caption": 1.0, "changed": 0.5, "n2o": 0, "v2a": 0, "change_mask": 0},
    )
    paths = RunPaths(data=copy, output=tmp_path / "run")
    folder = trained(config, paths)
    assert "2 training and 2 validation pairs" in folder.card.data


@pytest.mark.parametrize(
    ("train", "loss", "match"),
    [
        ({}, {"n20": 0.1}, r"loss\.n20 is no term of this model"),
        ({"objective": "self_critical"}, {}, r"loss\.reward has no weight"),
        ({"frozen": ("backbone", "change_hed")}, {}, "names 'change_hed', which is no part"),
    ],
)
def test_what_the_loop_would_refuse_is_refused_before_the_features(
    data, tmp_path, monkeypatch, train, loss, match
) -> None:
    monkeypatch.setattr(runs, "fill_caches", None)
    cached = settings(**{"cache_features": True, "frozen": ("backbone",), **train})
    config = whole_config(cached, n2o=0.0, v2a=0.0, **loss)
    paths = RunPaths(data=data, output=tmp_path / "run")
    with pytest.raises(ConfigInvalid, match=match):
        trained(config, paths)


def test_freed_memory_is_kept_from_the_beginning(tmp_path, monkeypatch) -> None:
    calls = []
    monkeypatch.setattr(runs, "keep_freed_memory", lambda: calls.append(1))
    paths = RunPaths(data=tmp_path / "nowhere", output=tmp_path / "run")
    with pytest.raises(DatasetLayoutInvalid):
        trained(whole_config(settings()), paths)
    assert calls == [1]


def test_a_trunk_of_another_size_is_refused(data, tmp_path) -> None:
    config = whole_config(settings(), n2o=0.0, v2a=0.0)
    vocabulary = tiny_model().vocabulary
    model = runs.build_model(config, vocabulary, RunPaths(data=data, output=tmp_path))
    trunk = RunPaths(data=data, output=tmp_path, trunk=str(saved(tmp_path / "model", model.eval()).path))
    assert runs.build_model(config, vocabulary, trunk)
    other = replace(config, model=replace(config.model, head_width=16))
    with pytest.raises(ModelFolderInvalid, match="change_head"):
        runs.build_model(other, vocabulary, trunk)
    with pytest.raises(ConfigInvalid, match="not both"):
        trained(config, replace(trunk, output=tmp_path / "run", backbone_weights=Path("x")))


def test_a_mask_run_without_masks_is_refused(tmp_path) -> None:
    root = write_levir_cc(tmp_path / "data", labels=False)
    config = whole_config(settings(), **MASK_LOSS)
    paths = RunPaths(data=root, output=tmp_path / "run")
    with pytest.raises(DatasetLayoutInvalid, match="mask"):
        trained(config, paths)
    config = replace(config, train=replace(config.train, select="mask_f1"))
    masks = write_change_masks(tmp_path / "masks")
    with pytest.raises(ConfigInvalid, match="validation pair"):
        trained(config, replace(paths, masks=(masks,)))


def test_masks_roads_and_labels_that_would_not_be_learnt_are_refused(data, tmp_path) -> None:
    words = whole_config(settings())
    heads = replace(words, loss=MASK_LOSS)
    silent = replace(words, train=replace(words.train, facts=False))
    paths = RunPaths(data=data, output=tmp_path / "run")
    masks, roads = replace(paths, masks=(tmp_path / "masks",)), replace(paths, roads=tmp_path / "roads")
    labelled, alone = replace(paths, labelled=tmp_path / "seen"), replace(paths, labels=tmp_path / "x.csv")
    for config, given, error, match in (
        (words, masks, ConfigInvalid, "masks: further masks are .*leave --masks out"),
        (heads, roads, ConfigInvalid, "roads: --roads is learnt .*leave --roads out"),
        (silent, roads, ConfigInvalid, "leave --roads out"),
        (words, roads, DatasetLayoutInvalid, r"roads: no index\.csv there"),
        (silent, labelled, ConfigInvalid, "seen: --labelled is learnt .*leave --labelled out"),
        (words, labelled, DatasetLayoutInvalid, r"labels\.csv: is not there"),
        (words, alone, ConfigInvalid, r"x\.csv: give the folder of its images with --labelled"),
    ):
        with pytest.raises(error, match=match):
            trained(config, given)
    assert not paths.output.exists()


def test_mask_training_runs_the_trunk_and_its_head_alone(data, tmp_path) -> None:
    source = MaskSource(LevirCC(data, "train").records, batch_size=4, size=32, gsd=0.5, augment=True, seed=1)
    model = tiny_model()
    config = whole_config(settings(epochs=1), **MASK_LOSS)
    Trainer(model, source, sum_of_weights, config=config, folder=tmp_path, report=lambda line: None).run()
    moved = {n.split(".")[0] for n, p in model.named_parameters() if p.grad is not None}
    assert moved == {"backbone", "change_head"}
    before, after = random_images(1)
    assert torch.isfinite(model.encode(before, after).change_logits).all()


def test_pairs_whose_flag_and_mask_contradict_teach_no_words_but_their_masks_are_learnt(tmp_path) -> None:
    folder = write_levir_cc(tmp_path / "data", train=6, val=2, test=1, size=64)
    marked = folder / "images" / "train" / "label"
    (marked / "train_000001.png").write_bytes((marked / "train_000000.png").read_bytes())  # called unchanged
    lines: list[str] = []
    config, paths = whole_config(settings()), RunPaths(data=folder, output=tmp_path / "run")
    run = Run(config, paths, "x", "x", report=lines.append)
    train, _ = runs._read_pairs(run, tunes=False, facts_alone=False)
    assert [one.id for one in train] == [f"train_00000{number}.png" for number in (0, 2, 3, 4, 5)]
    assert lines == ["left out 1 of 6 training pairs: called unchanged, but their masks are not"]
    masks = replace(config, loss=MASK_LOSS)
    assert len(runs._read_pairs(replace(run, config=masks), tunes=False, facts_alone=False)[0]) == 6
