"""Whole runs, from folders to a model folder."""

from dataclasses import replace

import pytest
from datasets import write_change_masks, write_levir_cc, write_single_date
from safetensors.torch import load_file
from stored import assert_as_stored
from tiny_models import TinyTextEncoder, random_arrays, tiny_config
from training_runs import LOSS, assert_same_tensors, log_of, settings, small_config, trained, whole_config

from rscc.captioner import Captioner
from rscc.config import Config, DataConfig, TrainConfig
from rscc.errors import ConfigInvalid, DatasetLayoutInvalid, WeightsNotFound
from rscc.model_folder import open_model_folder
from rscc.training import fact_calibration, fact_training
from rscc.training import model_export as finishing
from rscc.training import train_model as runs
from rscc.training.training_data import read_pairs
from rscc.training.training_run import Run, RunPaths

pytestmark = pytest.mark.usefixtures("tiny_registered")

MASK_LOSS = dict.fromkeys(LOSS, 0.0) | {"change_mask": 1.0}


@pytest.mark.slow
def test_from_folders_to_a_captioner_in_two_stages(data, tmp_path, monkeypatch) -> None:
    """Change head first, then captions from its cached trunk, as the shipped model is made."""
    monkeypatch.setattr(runs, "load_text_encoder", lambda name: TinyTextEncoder())
    lines: list[str] = []
    train = {"select": "mask_f1", "epochs": 2, "batch_size": 4, "ema": 0.9, "bf16": False}
    masks = write_change_masks(tmp_path / "masks")
    paths = RunPaths(data=data, output=tmp_path / "first", masks=(masks,))
    head = trained(small_config(train, MASK_LOSS), paths, report=lines.append)
    assert head.card.scores["mask_f1"] >= head.card.scores["mask_f1_at_half"]
    assert 0 <= head.card.threshold <= 1

    train = {"epochs": 2, "batch_size": 4, "cache_features": True, "frozen": ["backbone", "change_head"]}
    train["bf16"] = False
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
    logs = {f.path.parent.name: log_of(f.path.parent) for f in (head, folder)}
    stated = {name: value for name, value in vars(folder.card).items() if name != "trained"}
    assert_as_stored("training", {**logs, "card": stated}, tmp_path, rel=0.01)

    captioner = Captioner.load(folder.path, device="cpu")
    before, after = random_arrays(2)
    assert captioner.predict_change(before, after).change_probability.shape == (2, 64, 64)
    found = captioner.caption(before, after, assume_changed=True)
    assert all(caption.text and not caption.text.startswith("there") for caption in found)


@pytest.mark.slow
def test_a_run_ends_with_a_model_that_has_facts_where_the_parser_is_there(
    data, tmp_path, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(runs, "load_text_encoder", lambda name: TinyTextEncoder())
    monkeypatch.setattr(fact_training, "FEWEST_PAIRS", 2)
    monkeypatch.setattr(fact_calibration, "FEWEST_LABELS", 1)
    roads = write_single_date(tmp_path / "roads")

    def ended(name: str, *, facts=True):
        train = {"epochs": 1, "batch_size": 4, "facts": facts}
        paths = RunPaths(data=data, output=tmp_path / name, roads=roads if facts else None)
        return trained(small_config(train, LOSS | {"change_mask": 1.0}), paths)

    told = ended("first")
    assert told.has_facts and "## Facts" in (card := (told.path / "CARD.md").read_text())
    assert "A road is stated only where one is found" in card
    known = Captioner.load(told.path, device="cpu").facts
    assert known is not None and known.roads is not None

    def no_parser(*_: object, **__: object) -> None:
        raise WeightsNotFound("no parser is installed")

    monkeypatch.setattr(finishing, "fit_facts", no_parser)
    assert not ended("second").has_facts
    assert "no parser is installed" in caplog.text and str(roads) in caplog.text
    caplog.clear()
    assert not ended("third", facts=False).has_facts
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
        ({}, {"n20": 0.1}, r"loss\.n20"),
        ({"frozen": ("backbone", "change_hed")}, {}, "change_hed"),
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


def test_a_mask_run_without_masks_is_refused(tmp_path) -> None:
    root = write_levir_cc(tmp_path / "data", labels=False)
    config = whole_config(settings(), **MASK_LOSS)
    paths = RunPaths(data=root, output=tmp_path / "run")
    with pytest.raises(DatasetLayoutInvalid):
        trained(config, paths)
    config = replace(config, train=replace(config.train, select="mask_f1"))
    masks = write_change_masks(tmp_path / "masks")
    with pytest.raises(ConfigInvalid):
        trained(config, replace(paths, masks=(masks,)))


def test_masks_roads_and_labels_that_would_not_be_learnt_are_refused(data, tmp_path) -> None:
    words = whole_config(settings())
    heads = replace(words, loss=MASK_LOSS)
    silent = replace(words, train=replace(words.train, facts=False))
    paths = RunPaths(data=data, output=tmp_path / "run")
    masks, roads = replace(paths, masks=(tmp_path / "masks",)), replace(paths, roads=tmp_path / "roads")
    labelled, alone = replace(paths, labelled=tmp_path / "seen"), replace(paths, labels=tmp_path / "x.csv")
    for config, given, error, match in (
        (words, masks, ConfigInvalid, "masks: .*--masks"),
        (heads, roads, ConfigInvalid, "roads: .*--roads"),
        (silent, roads, ConfigInvalid, "--roads"),
        (words, roads, DatasetLayoutInvalid, "roads: "),
        (silent, labelled, ConfigInvalid, "seen: .*--labelled"),
        (words, labelled, DatasetLayoutInvalid, r"labels\.csv: "),
        (words, alone, ConfigInvalid, r"x\.csv: .*--labelled"),
    ):
        with pytest.raises(error, match=match):
            trained(config, given)
    assert not paths.output.exists()


def test_pairs_whose_flag_and_mask_contradict_teach_no_words_but_their_masks_are_learnt(tmp_path) -> None:
    folder = write_levir_cc(tmp_path / "data", train=6, val=2, test=1, size=64)
    marked = folder / "images" / "train" / "label"
    (marked / "train_000001.png").write_bytes((marked / "train_000000.png").read_bytes())  # called unchanged
    lines: list[str] = []
    config, paths = whole_config(settings()), RunPaths(data=folder, output=tmp_path / "run")
    run = Run(config, paths, "x", "x", report=lines.append)
    train, _ = read_pairs(run)
    assert [one.id for one in train] == [f"train_00000{number}.png" for number in (0, 2, 3, 4, 5)]
    assert len(lines) == 1 and lines[0].startswith("left out 1 of 6 training pairs")
    masks = replace(config, loss=MASK_LOSS)
    assert len(read_pairs(replace(run, config=masks))[0]) == 6
