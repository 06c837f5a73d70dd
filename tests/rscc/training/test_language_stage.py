"""The decoder learns captions as language; what comes out is a start, no captioner."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from datasets import write_levir_cc
from safetensors.torch import load_file
from scene_pairs import run_here
from tiny_models import TinyTextEncoder, tiny_backbone, tiny_config, tiny_model, tiny_vocabulary
from training_runs import log_of, quick_config, trained

from rscc.captioner import Captioner
from rscc.config import Config, DataConfig, TrainConfig
from rscc.data.sources import CaptionText
from rscc.errors import DatasetLayoutInvalid, ModelFolderInvalid
from rscc.models.papers import MODELS
from rscc.training.language_stage import (
    TextCorpus,
    TextSource,
    blank_memory,
    language_losses,
    read_corpus,
    train_decoder_only,
)
from rscc.training.train_model import build_model
from rscc.training.training_run import Run, RunPaths, open_start

pytestmark = pytest.mark.usefixtures("tiny_registered")

TRAIN = (
    ("a house appears on the left", "a house is built near the road"),
    ("there is no difference", "the scene is the same"),
    ("many villas are built on the right", "villas appear near the road"),
    ("trees are removed at the top", "many trees are removed"),
)
VAL = (("a road is built", "a road is built"), ("there is no difference",))


def entries(pairs) -> list[dict]:
    return [{"filename": f"{i}.png", "sentences": list(one)} for i, one in enumerate(pairs)]


def write_corpus(path: Path, train=TRAIN, val=VAL, **more) -> Path:
    text = json.dumps({"train": entries(train), "val": entries(val), **more})
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def language_config(**train) -> Config:
    fields = {"objective": "language", "select": "perplexity", "epochs": 3, "batch_size": 2}
    fields |= {"learning_rate": 1e-2, "warmup_steps": 1, "bf16": False}
    return Config(
        model=tiny_config(),
        data=DataConfig(size=32, min_count=1),
        train=TrainConfig(**fields | train),
        loss={"caption": 1.0, "n2o": 0, "v2a": 0, "changed": 0, "change_mask": 0},
    )


def source(**values) -> TextSource:
    backwards = values.pop("backwards", ())
    config = quick_config(batch_size=3, **values)
    return TextSource(TRAIN, CaptionText(tiny_vocabulary(), 10), config, backwards)


def spoken(one: TextSource, epoch: int) -> list[str]:
    batches = list(one.epoch(epoch))
    assert len(batches) == one.steps()
    assert all(batch.before is None and batch.features is None for batch in batches)
    return [one.text.vocabulary.decode(ids) for batch in batches for ids in batch.tokens.tolist()]


def known(sentences) -> set[str]:
    vocabulary = tiny_vocabulary()
    return {vocabulary.decode(vocabulary.encode(one, 10)) for one in sentences}


@pytest.mark.parametrize("name", ["corpus.json", "corpus.json.gz"])
def test_a_corpus_is_its_training_and_validation_sentences(name, tmp_path) -> None:
    path = write_corpus(
        tmp_path / name, (*TRAIN, ()), [("  A Road  IS built ",)], test="not looked at", more=3
    )
    assert read_corpus(path) == TextCorpus(TRAIN, (("a road is built",),))


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (None, "corpus"),
        (
            gzip.compress(json.dumps({"train": entries(TRAIN), "val": entries(VAL)}).encode())[:-20],
            "corpus",
        ),
        (b"{", "corpus"),
        (b"[]", "corpus"),
        (b'{"train": []}', "'val'"),
        (json.dumps({"train": entries(TRAIN), "val": []}).encode(), "split 'val'"),
        (json.dumps({"train": [3], "val": entries(VAL)}).encode(), "list of dict"),
        (json.dumps({"train": [{"sentences": "a"}], "val": entries(VAL)}).encode(), "list of str"),
    ],
)
def test_another_file_is_no_corpus(content, word, tmp_path) -> None:
    path = tmp_path / ("corpus.json.gz" if content and content.startswith(b"\x1f\x8b") else "corpus.json")
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DatasetLayoutInvalid, match=word) as caught:
        read_corpus(path)
    assert str(path) in str(caught.value)


def test_pairs_speak_backwards_where_that_is_known() -> None:
    backwards = (("the house is removed",), (), (), ("trees appear on the left",))
    always = source(augment=False, reversed=1.0, backwards=backwards)
    said = [sentence for epoch in range(9) for sentence in spoken(always, epoch)]
    assert set(said) == known(("the house is removed", "trees appear on the left", *TRAIN[1], *TRAIN[2]))
    half = source(augment=False, reversed=0.5, backwards=backwards)
    said = [sentence for epoch in range(200) for sentence in spoken(half, epoch)]
    assert said.count("the house is removed") == pytest.approx(100, abs=30)


@pytest.mark.parametrize("paper", sorted(MODELS))
def test_the_decoder_alone_learns_and_sees_nothing(paper) -> None:
    model = tiny_model(paper, text_encoder=TinyTextEncoder()).train()
    train_decoder_only(model)
    batch = next(iter(source().epoch(0)))
    terms = language_losses(language_config())(model, batch)
    assert set(terms) == {"caption"}
    terms["caption"].backward()
    moved = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    assert all(name.startswith("decoder.") for name in moved)
    assert {"decoder.words.weight", "decoder.logits.weight"} <= moved
    assert not blank_memory(model, 2).any()
    logits = model.decoder(blank_memory(model, len(batch.tokens)), batch.tokens[:, :-1]).logits
    expected = -logits.log_softmax(-1).gather(2, batch.tokens[:, 1:, None]).squeeze(2)
    real = batch.tokens[:, 1:] != 0
    torch.testing.assert_close(terms["caption"], ((expected * real).sum(1) / real.sum(1)).mean())


def run(tmp_path: Path, config: Config, *, resume: bool = False):
    data, corpus = tmp_path / "data", write_corpus(tmp_path / "corpus.json")
    if not data.exists():
        write_levir_cc(data)
    return trained(config, RunPaths(data=data, output=tmp_path / "run", corpus=corpus), resume=resume)


@pytest.mark.slow
def test_a_language_stage_is_a_start_and_no_captioner(tmp_path, capsys) -> None:
    config = language_config(epochs=12)
    folder = run(tmp_path, config)
    log = log_of(tmp_path / "run")
    assert log[-1]["validation"]["perplexity_train"] < log[0]["validation"]["perplexity_train"] * 0.8
    assert folder.card.scores["perplexity"] == min(round(one["validation"]["perplexity"], 4) for one in log)
    state = load_file(folder.path / "model.safetensors")
    assert state
    assert all(name.startswith("decoder.") for name in state)
    assert "8 training and 3 validation sentences" in folder.card.data

    with pytest.raises(ModelFolderInvalid):
        Captioner.load(folder.path, device="cpu")
    words = ("evaluate", "--model", folder.path, "--data", tmp_path / "data", "--split", "val")
    code, _, error = run_here(capsys, *words)
    assert code == 2 and error.count("\n") == 1

    start = open_start(folder.path)
    assert {"disappear", "villas"} <= set(start.vocabulary.words), "words of data and corpus"
    assert "disappears" not in start.vocabulary.words, "no sentence is reversed unasked"
    captions = replace(config, train=TrainConfig(epochs=1))
    paths = RunPaths(data=tmp_path / "data", output=tmp_path / "next", start=str(folder.path))
    next_run = Run(captions, paths, "x", "x", start=start)
    model = build_model(next_run, start.vocabulary.extended(["a small harbour"], 1))
    assert model.vocabulary.words[:-2] == start.vocabulary.words
    for name, value in state.items():
        assert torch.equal(model.state_dict()[name][: len(value)], value.float())


def test_a_language_run_moves_the_decoder_alone_without_images_and_resumes(tmp_path) -> None:
    config = language_config()
    data = write_levir_cc(tmp_path / "data", val=1, test=1)
    for split in ("val", "test"):
        for path in (data / "images" / split).rglob("*.png"):
            path.unlink()
    first = run(tmp_path, config)
    best = load_file(tmp_path / "run" / "best.safetensors")
    torch.manual_seed(config.train.seed)
    fresh = MODELS["rdd"](
        config=config.model, backbone=tiny_backbone(), vocabulary=open_start(first.path).vocabulary
    ).state_dict()
    moved = {name for name, value in best.items() if not torch.equal(value, fresh[name])}
    assert moved
    assert all(name.startswith("decoder.") for name in moved)
    assert run(tmp_path, config, resume=True).card.weights_sha256 == first.card.weights_sha256
