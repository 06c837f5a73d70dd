"""The decoder learns captions as language; what comes out is a start, no captioner."""

import gzip
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from command_here import run_here
from levir_cc_fixture import write_levir_cc
from safetensors.torch import load_file
from tiny_models import TinyTextEncoder, tiny_backbone, tiny_config, tiny_model, tiny_vocabulary
from training_runs import log_of, trained

from rscc.captioner import Captioner
from rscc.config import Config, DataConfig, TrainConfig, config_from_dict, load_config
from rscc.data.pairs import FLIPS, flip_words
from rscc.data.sources import CaptionText
from rscc.errors import ConfigInvalid, DatasetLayoutInvalid, ModelFolderInvalid
from rscc.models import MODELS
from rscc.text.reversal import reverse_captions
from rscc.training.language import (
    Language,
    TextCorpus,
    TextSource,
    blank_memory,
    counted_batches,
    perplexity,
    read_corpus,
    text_validation,
    train_decoder_only,
)
from rscc.training.run import build_model
from rscc.training.start import RunPaths, open_start

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
    fields = {"pairs": TRAIN, "text": CaptionText(tiny_vocabulary(), 10), "batch_size": 3, "seed": 1}
    return TextSource(**fields | values)


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
        (None, "no such file"),
        (
            gzip.compress(json.dumps({"train": entries(TRAIN), "val": entries(VAL)}).encode())[:-20],
            "not a corpus",
        ),
        (b"{", "not a corpus"),
        (b"[]", "not a corpus"),
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


@pytest.mark.slow
def test_every_pair_says_one_of_its_sentences_in_every_epoch() -> None:
    one = source(augment=False)
    for epoch in range(6):
        said = spoken(one, epoch)
        assert sorted(said) == sorted(spoken(source(augment=False), epoch))
        assert len(said) == len(TRAIN)
        assert all(sum(sentence in known(pair) for sentence in said) == 1 for pair in TRAIN)
    assert {sentence for epoch in range(20) for sentence in spoken(one, epoch)} == known(sum(TRAIN, ()))
    assert spoken(one, 0) != spoken(one, 1)
    assert spoken(one, 0) != spoken(source(augment=False, seed=2), 0)


def test_flips_turn_the_words_of_direction() -> None:
    said = {sentence for epoch in range(30) for sentence in spoken(source(), epoch)}
    assert said == known(flip_words(one, flip) for pair in TRAIN for one in pair for flip in FLIPS)
    assert "a house appears on the right" in said


def test_pairs_speak_backwards_where_that_is_known() -> None:
    backwards = (("the house is removed",), (), (), ("trees appear on the left",))
    always = source(augment=False, reversed=1.0, backwards=backwards)
    said = [sentence for epoch in range(9) for sentence in spoken(always, epoch)]
    assert set(said) == known(("the house is removed", "trees appear on the left", *TRAIN[1], *TRAIN[2]))
    half = source(augment=False, reversed=0.5, backwards=backwards)
    said = [sentence for epoch in range(200) for sentence in spoken(half, epoch)]
    assert said.count("the house is removed") == pytest.approx(100, abs=30)


def test_sentences_are_counted_once() -> None:
    sentences = ["a house", "villas are built", "a house", "many trees are removed", "a house"]
    vocabulary = tiny_vocabulary()
    found = {}
    for batch, counts in counted_batches(sentences, CaptionText(vocabulary, 10), batch_size=2):
        found |= dict(zip(map(vocabulary.decode, batch.tokens.tolist()), counts.tolist(), strict=True))
    assert found == {"a house": 3, "villas are built": 1, "many trees are removed": 1}


@pytest.mark.parametrize("paper", sorted(MODELS))
def test_the_decoder_alone_learns_and_sees_nothing(paper) -> None:
    model = tiny_model(paper, text_encoder=TinyTextEncoder()).train()
    train_decoder_only(model)
    batch = next(iter(source().epoch(0)))
    terms, measured = Language({"caption": 1.0}).losses(model, batch, place=(0, 0))
    assert (set(terms), measured) == ({"caption"}, {})
    terms["caption"].backward()
    moved = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    assert all(name.startswith("decoder.") for name in moved)
    assert {"decoder.words.weight", "decoder.logits.weight"} <= moved
    assert not blank_memory(model, 2).any()
    logits = model.decoder(blank_memory(model, len(batch.tokens)), batch.tokens[:, :-1]).logits
    expected = -logits.log_softmax(-1).gather(2, batch.tokens[:, 1:, None]).squeeze(2)
    real = batch.tokens[:, 1:] != 0
    torch.testing.assert_close(terms["caption"], ((expected * real).sum(1) / real.sum(1)).mean())


def test_perplexity_is_that_of_single_words() -> None:
    model = tiny_model()
    sentences = ["a house appears", "villas are built", "a house appears", "an unheard sentence of words"]
    lost, words = 0.0, 0
    for sentence in sentences:
        ids = torch.tensor([model.vocabulary.encode(sentence, 10)])
        with torch.no_grad():
            chances = model.decoder(blank_memory(model, 1), ids[:, :-1]).logits[0].log_softmax(-1)
        lost -= float(chances.gather(1, ids[0, 1:, None]).sum())
        words += ids.shape[1] - 1
    assert perplexity(model, sentences, bf16=False) == pytest.approx(math.exp(lost / words), rel=1e-4)


def test_validation_sees_no_training_sentence_but_for_its_own_score() -> None:
    model = tiny_model()
    scores = text_validation(TextCorpus(TRAIN, VAL), bf16=False)(model)
    assert scores["perplexity"] == perplexity(model, sum(VAL, ()), bf16=False)
    assert scores["perplexity_changed"] == perplexity(model, VAL[0], bf16=False)
    assert scores["perplexity_train"] == perplexity(model, [*TRAIN[0], *TRAIN[2]], bf16=False)


def run(tmp_path: Path, config: Config, *, resume: bool = False, overwrite: bool = False, **paths):
    data = tmp_path / "data"
    if not data.exists():
        write_levir_cc(data)
    given = {"corpus": write_corpus(tmp_path / "corpus.json"), **paths}
    return trained(
        config, RunPaths(data=data, output=tmp_path / "run", **given), resume=resume, overwrite=overwrite
    )


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

    with pytest.raises(ModelFolderInvalid, match="not for captioning"):
        Captioner.load(folder.path, device="cpu")
    words = ("evaluate", "--model", folder.path, "--data", tmp_path / "data", "--split", "val")
    code, _, error = run_here(capsys, *words)
    assert code == 2 and "not for captioning" in error and error.count("\n") == 1

    start = open_start(folder.path)
    assert {"disappear", "villas"} <= set(start.vocabulary.words), "words of data and corpus"
    captions = replace(config, train=TrainConfig(epochs=1))
    paths = RunPaths(data=tmp_path / "data", output=tmp_path / "next", start=str(folder.path))
    model = build_model(captions, start.vocabulary.extended(["a small harbour"], 1), paths, start=start)
    assert model.vocabulary.words[:-2] == start.vocabulary.words
    for name, value in state.items():
        assert torch.equal(model.state_dict()[name][: len(value)], value.float())


def test_the_words_of_the_way_back_are_learnt_where_the_config_says_so(tmp_path) -> None:
    config = language_config(epochs=1)
    corpus = write_corpus(tmp_path / "built.json", train=[("a house is constructed",)] * 4)
    (back,) = reverse_captions(("a house is constructed",))
    new = set(back.split()) - {"a", "house", "is", "the"}
    assert new
    for share, known_words in ((0.0, False), (0.4, True)):
        turned = replace(config, data=replace(config.data, reversed=share))
        run(tmp_path, turned, corpus=corpus, overwrite=True)
        words = set(open_start(tmp_path / "run" / "model").vocabulary.words)
        assert (new <= words) == known_words


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


def test_what_does_not_belong_together_is_refused(tmp_path) -> None:
    config = language_config()
    for paths, word in (
        ({"corpus": None}, "--corpus"),
        ({"trunk": "rscc-base"}, "no images"),
        ({"roads": tmp_path}, "roads"),
    ):
        with pytest.raises(ConfigInvalid, match=word):
            run(tmp_path, config, **paths)
    with pytest.raises(ConfigInvalid, match=r"loss\.changed needs images"):
        run(tmp_path, replace(config, loss={**config.loss, "changed": 1.0}))
    plain = replace(config, train=TrainConfig(epochs=1))
    with pytest.raises(ConfigInvalid, match="leave --corpus out"):
        run(tmp_path, plain)
    for values in ({"objective": "language"}, {"select": "perplexity"}, {"objective": "guessing"}):
        with pytest.raises(ConfigInvalid, match=r"train\.objective"):
            config_from_dict({"train": values})
    model = tiny_model()
    model.decoder = torch.nn.Linear(1, 1)
    with pytest.raises(ConfigInvalid, match="language model"):
        train_decoder_only(model)


def test_the_shipped_config_is_of_the_sizes_that_start_from_it() -> None:
    language, captions = load_config("language"), load_config("rscc_base")
    for name in ("paper", "backbone", "width", "word_width", "heads", "decoder_layers", "max_words"):
        assert getattr(language.model, name) == getattr(captions.model, name)
    assert np.isclose(language.loss["caption"], 1.0)
