"""What every paper's model must hold; a new model in MODELS is tested by being there."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from fakes import card
from tiny_models import (
    CAPTIONS,
    TinyTextEncoder,
    full_batch,
    random_images,
    tiny_backbone,
    tiny_config,
    tiny_model,
    tiny_vocabulary,
)

from rscc import runs
from rscc.config import Config, load_config
from rscc.errors import ConfigInvalid, ModelFolderInvalid
from rscc.kept import Kept
from rscc.models import MODELS, backbone, model_class
from rscc.models.backbone import build_backbone
from rscc.models.generation import ForbiddenWords, beam_search, greedy_search
from rscc.weights import load_model, open_model_folder, save_model_folder

papers = pytest.mark.parametrize("paper", MODELS)


def trainable_model(paper, **values):
    return tiny_model(paper, text_encoder=TinyTextEncoder(), **values)


def all_weights(model, value=1.0) -> dict[str, float]:
    return dict.fromkeys(model.loss_terms(), value)


def search_settings(model, forbidden=None, max_words=9) -> dict:
    words = model.vocabulary
    return {
        "bos": words.bos,
        "eos": words.eos,
        "max_words": max_words,
        "banned": (words.pad, words.bos, words.unk),
        "forbidden": forbidden,
    }


def memory_of(model, batch=5, seed=0) -> torch.Tensor:
    with torch.no_grad():
        return model.memory(model.encode(*random_images(batch, seed=seed)))


@papers
@pytest.mark.parametrize(("height", "width"), [(64, 64), (64, 96), (96, 32)])
def test_shapes_also_of_images_that_are_not_square(paper, height, width) -> None:
    model = tiny_model(paper)
    features = model.encode(*random_images(2, height, width))
    assert features.grid == (height // 16, width // 16)
    assert features.before.shape == features.after.shape == (2, height * width // 256, 16)
    assert features.tokens.shape[::2] == (2, 16)
    assert features.changed_logits.shape == (2,)
    assert features.change_logits.shape == (2, height // 4, width // 4)
    tokens = torch.tensor([[1, 4, 5], [1, 6, 7]])
    decoded = model.decode(features, tokens)
    assert decoded.logits.shape == (2, 3, len(model.vocabulary))
    assert decoded.hidden.shape == (2, 3, 16)


@papers
def test_height_and_width_are_not_swapped(paper) -> None:
    """What happens in the lower right corner is seen in the lower right corner."""
    model = tiny_model(paper)
    before, after = random_images(1, 64, 96)
    other = after.clone()
    other[..., 48:, 80:] = 255 - other[..., 48:, 80:]
    with torch.no_grad():
        one, two = model.encode(before, after), model.encode(before, other)
    moved = (one.change_logits - two.change_logits).abs()[0]
    assert moved[12:, 20:].mean() > 3 * moved[:4, :4].mean()
    tokens = (one.after - two.after).abs().sum(-1)[0]
    assert tokens[-1] > 0
    assert torch.all(tokens[:-1] == 0)


@papers
@pytest.mark.parametrize("pool", [1, 2])
def test_a_focus_of_nothing_shows_two_equal_dates_and_one_of_all_changes_nothing(paper, pool) -> None:
    model = tiny_model(paper, pool=pool, grounded=True)
    before, after = random_images(2, 64, 96)
    with torch.no_grad():
        maps = [found[-1] for found in model.trunk(before, after)]
        change = model.change_head(*model.trunk(before, after)).sigmoid()
        # Nothing is extracted from cached maps, as nothing is in focus.
        same = model.encode_last_maps(maps[0], maps[0], change=torch.zeros_like(change))
        plain = model.encode_last_maps(*maps, change=change)
        shut, wide = (
            model.encode_last_maps(*maps, change=change, focus=torch.full((2, 64, 96), share))
            for share in (0.0, 1.0)
        )
    torch.testing.assert_close(model.memory(shut), model.memory(same))
    torch.testing.assert_close(model.memory(wide), model.memory(plain))
    assert (model.memory(plain) - model.memory(same)).abs().max() > 1e-3


@papers
def test_what_lies_out_of_focus_is_not_seen(paper) -> None:
    """Two later dates that differ only out of focus are one to the model; in focus they are two."""
    model = tiny_model(paper)
    before, after = random_images(1, 64, 96)
    other = after.clone()
    other[..., :16] = 255 - other[..., :16]
    focus = torch.ones(1, 64, 96)
    focus[..., :32] = 0  # twice as wide: the trunk looks a little aside
    with torch.no_grad():
        one, two = (model.memory(model.encode(before, later, focus=focus)) for later in (after, other))
        turned = [model.memory(model.encode(before, later, focus=1 - focus)) for later in (after, other)]
    torch.testing.assert_close(one, two)
    assert (turned[0] - turned[1]).abs().max() > 1e-3


@papers
def test_every_trainable_parameter_gets_a_gradient(paper) -> None:
    model = trainable_model(paper).train()
    terms = model.losses(full_batch(model, CAPTIONS), all_weights(model))
    assert set(terms) == set(model.loss_terms())
    assert all(value.ndim == 0 and torch.isfinite(value) for value in terms.values())
    sum(terms.values()).backward()
    without = [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
    zero = [n for n, p in model.named_parameters() if p.grad is not None and not p.grad.abs().sum() > 0]
    # A bias on the keys moves every score of a query alike: the softmax does not see it.
    zero = [name for name in zero if not name.endswith("attention.key.bias") and name != "enrich.key.bias"]
    assert (without, zero) == ([], [])


@papers
def test_each_term_alone_has_a_gradient(paper) -> None:
    model = trainable_model(paper)
    batch = full_batch(model, CAPTIONS)
    for term in model.loss_terms():
        model.zero_grad()
        weights = all_weights(model, 0.0) | {term: 2.0}
        terms = model.losses(batch, weights)
        assert set(terms) == {term}
        terms[term].backward()
        assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters()), term


@papers
def test_loss_tables_must_name_every_term_and_no_other(paper) -> None:
    model = trainable_model(paper)
    batch = full_batch(model, CAPTIONS)
    for term in model.loss_terms():
        lacking = {name: 1.0 for name in model.loss_terms() if name != term}
        with pytest.raises(ConfigInvalid, match=rf"loss\.{term} has no weight"):
            model.losses(batch, lacking)
    with pytest.raises(ConfigInvalid, match=r"loss\.spelling is no term"):
        model.losses(batch, all_weights(model) | {"spelling": 1.0})
    with pytest.raises(ConfigInvalid, match="negative"):
        model.losses(batch, all_weights(model) | {"caption": -1.0})
    with pytest.raises(ConfigInvalid, match="above 0"):
        model.losses(batch, all_weights(model, 0.0))


@papers
@pytest.mark.parametrize(
    ("missing", "term"),
    [("tokens", "caption"), ("mask", "change_mask"), ("changed", "changed"), ("before", "caption")],
)
def test_a_term_that_the_batch_cannot_give_is_an_error(paper, missing, term) -> None:
    model = trainable_model(paper)
    batch = replace(full_batch(model, CAPTIONS), **{missing: None})
    with pytest.raises(ConfigInvalid, match=rf"loss\.{term} needs"):
        model.losses(batch, all_weights(model, 0.0) | {term: 1.0})


@papers
def test_cached_trunk_maps_give_the_same_losses(paper) -> None:
    model = trainable_model(paper)
    batch = full_batch(model, CAPTIONS)
    weights = all_weights(model) | {"change_mask": 0}
    with torch.no_grad():
        maps = [maps[-1] for maps in model.trunk(batch.before, batch.after)]
        cached = replace(batch, before=None, after=None, features=torch.stack(maps, dim=1))
        one, two = model.losses(batch, weights), model.losses(cached, weights)
    for name, value in one.items():
        torch.testing.assert_close(two[name], value)
    with pytest.raises(ConfigInvalid, match="cached features do not do"):
        model.losses(cached, all_weights(model))


@papers
def test_unknown_masks_and_flags_teach_nothing(paper) -> None:
    model = trainable_model(paper)
    batch = full_batch(model, CAPTIONS)
    batch.mask_known = batch.changed_known = torch.tensor([True, False, True, False])
    weights = all_weights(model, 0.0) | {"change_mask": 1.0, "changed": 1.0}
    with torch.no_grad():
        first = model.losses(batch, weights)
        turned = replace(batch, mask=batch.mask.clone(), changed=batch.changed.clone())
        turned.mask[1::2], turned.changed[1::2] = 1 - turned.mask[1::2], 1 - turned.changed[1::2]
        second = model.losses(turned, weights)
        turned.mask[0] = 1 - turned.mask[0]
        third = model.losses(turned, weights)
    assert first == second
    assert third["change_mask"] != first["change_mask"]
    batch.mask_known = batch.changed_known = torch.zeros(4, dtype=torch.bool)
    assert all(float(value.detach()) == 0 for value in model.losses(batch, weights).values())


@papers
def test_known_masks_weigh_the_same_beside_unknown_ones(paper) -> None:
    model = trainable_model(paper)
    batch = full_batch(model, CAPTIONS)
    weights = all_weights(model, 0.0) | {"change_mask": 1.0, "changed": 1.0}
    batch.mask_known = batch.changed_known = torch.tensor([True, True, False, False])
    fields = ("before", "after", "tokens", "mask", "mask_known", "changed", "changed_known", "extracted")
    half = replace(batch, **{name: getattr(batch, name)[:2] for name in fields})
    with torch.no_grad():
        whole, part = model.losses(batch, weights), model.losses(half, weights)
    for name, value in part.items():
        torch.testing.assert_close(whole[name], value)


@papers
def test_batched_equals_single(paper) -> None:
    model = tiny_model(paper)
    before, after = random_images(4, 64, 96)
    with torch.no_grad():
        whole = model.encode(before, after)
        sentences = [model.generate(before, after, beams=beams) for beams in (1, 3)]
        for i in range(4):
            one = slice(i, i + 1)
            single = model.encode(before[one], after[one])
            for name in ("tokens", "changed_logits", "change_logits"):
                torch.testing.assert_close(getattr(single, name), getattr(whole, name)[one])
            for beams, found in zip((1, 3), sentences, strict=True):
                (alone,) = model.generate(before[one], after[one], beams=beams)
                assert [h.ids for h in alone] == [h.ids for h in found[i]]
                assert [h.score for h in alone] == pytest.approx([h.score for h in found[i]], rel=1e-4)


@papers
def test_the_order_of_the_dates_matters(paper) -> None:
    model = tiny_model(paper)
    before, after = random_images(1)
    with torch.no_grad():
        one, two = model.encode(before, after), model.encode(after, before)
    assert not torch.allclose(one.tokens, two.tokens, atol=1e-3)


@papers
def test_evaluation_is_deterministic_and_dropout_is_off(paper) -> None:
    model = tiny_model(paper, dropout=0.5)
    before, after = random_images(2)
    with torch.no_grad():
        assert torch.equal(model.encode(before, after).tokens, model.encode(before, after).tokens)
        model.train()
        assert not torch.equal(model.encode(before, after).tokens, model.encode(before, after).tokens)


@papers
def test_step_by_step_equals_teacher_forcing(paper) -> None:
    """The key-value cache changes nothing, up to the longest sentence that training sees."""
    model = tiny_model(paper, max_words=12)
    memory = memory_of(model, batch=3)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(4, len(model.vocabulary), (3, 12), generator=generator)
    with torch.no_grad():
        whole = model.decoder(memory, tokens).logits
        cache = model.decoder.start(memory)
        for step in range(12):
            torch.testing.assert_close(model.decoder.step(tokens[:, step], cache), whole[:, step])
        order = torch.tensor([2, 0, 0])
        cache = model.decoder.start(memory)
        model.decoder.step(tokens[:, 0], cache)
        cache.select(order)
        found = model.decoder.step(tokens[order, 1], cache)
        torch.testing.assert_close(found, whole[order, 1])


@papers
def test_later_words_do_not_change_earlier_ones(paper) -> None:
    model = tiny_model(paper)
    memory = memory_of(model, batch=1)
    with torch.no_grad():
        one = model.decoder(memory, torch.tensor([[1, 5, 6, 7]])).logits
        two = model.decoder(memory, torch.tensor([[1, 5, 9, 0]])).logits
    torch.testing.assert_close(one[:, :2], two[:, :2])
    assert not torch.allclose(one[:, 2], two[:, 2])


@papers
def test_greedy_equals_a_beam_of_one(paper) -> None:
    for seed in range(6):
        model = tiny_model(paper, seed=seed)
        memory, settings = memory_of(model, batch=6), search_settings(model)
        with torch.no_grad():
            greedy = greedy_search(model.decoder, memory, **settings)
            beam = beam_search(model.decoder, memory, beams=1, **settings)
        assert [h.ids for h in greedy] == [found[0].ids for found in beam]
        scores = [found[0].mean_log_probability for found in beam]
        assert scores == pytest.approx([h.mean_log_probability for h in greedy], abs=1e-5)


def teacher_forced_mean(model, memory, ids, max_words) -> float:
    """Mean log-probability of a decoded sentence, end token included unless it ran out of words."""
    words = model.vocabulary
    tokens = torch.tensor([[words.bos, *ids, words.eos]])[:, : max_words + 1]
    logits = model.decoder(memory, tokens[:, :-1]).logits[0]
    logits[:, [words.pad, words.bos, words.unk]] = float("-inf")
    logits[0, words.eos] = float("-inf")
    return float(logits.log_softmax(-1).gather(1, tokens[0, 1:, None]).mean())


@papers
@pytest.mark.parametrize("beams", [2, 3, 5])
def test_beam_scores_are_sorted_and_those_of_teacher_forcing(paper, beams) -> None:
    lengths = set()
    for seed in range(4):
        model = tiny_model(paper, seed=seed)
        memory = memory_of(model, batch=4)
        with torch.no_grad():
            model.decoder.logits.bias[model.vocabulary.eos] += 3 * (seed % 2)  # short ones, too
            found = beam_search(model.decoder, memory, beams=beams, **search_settings(model))
            for sample, hypotheses in enumerate(found):
                assert 1 <= len(hypotheses) <= beams
                assert len({h.ids for h in hypotheses}) == len(hypotheses), "all differ"
                means = [h.mean_log_probability for h in hypotheses]
                assert means == sorted(means, reverse=True)
                for one in hypotheses:
                    assert 0 < one.score <= 1
                    lengths.add(len(one.ids))
                    mean = teacher_forced_mean(model, memory[sample : sample + 1], one.ids, 9)
                    assert one.mean_log_probability == pytest.approx(mean, abs=1e-4)
    assert len(lengths) > 1


@papers
def test_a_wide_beam_finds_the_likeliest_short_sentence(paper) -> None:
    """With a beam as wide as the vocabulary, sentences of one word are searched exhaustively."""
    model = tiny_model(paper, seed=3)
    memory = memory_of(model, batch=1)
    count = len(model.vocabulary)
    with torch.no_grad():
        model.decoder.logits.bias[model.vocabulary.eos] += 8  # sentences of one word are the likeliest
        found = beam_search(model.decoder, memory, beams=count, **search_settings(model, max_words=2))[0]
        means = {
            (word,): teacher_forced_mean(model, memory, (word,), 2) for word in range(4, count)
        }  # one word, then the end
    assert found[0].ids == max(means, key=means.get)
    assert found[0].mean_log_probability == pytest.approx(max(means.values()), abs=1e-4)


@papers
@pytest.mark.parametrize("beams", [1, 3])
def test_no_sentence_is_empty_or_too_long_or_holds_special_words(paper, beams) -> None:
    for seed in range(8):
        model = tiny_model(paper, seed=seed, max_words=6)
        with torch.no_grad():
            model.decoder.logits.bias[model.vocabulary.eos] += 4 * (seed % 3 - 1)
            for hypotheses in model.generate(*random_images(4, seed=seed), beams=beams):
                for one in hypotheses:
                    assert 1 <= len(one.ids) <= 5
                    assert not set(one.ids) & {0, 1, 2, 3}
                    assert model.vocabulary.decode(one.ids)


@papers
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_forbidden_beginnings_never_appear(paper, beams, length) -> None:
    model = tiny_model(paper, seed=2)
    features = model.encode(*random_images(5))
    prefixes: list[tuple[int, ...]] = []
    for _ in range(4):
        forbidden = ForbiddenWords(prefixes)
        found = model.generate_from(features, beams=beams, forbidden=forbidden)
        sentences = [h.ids for hypotheses in found for h in hypotheses]
        assert sentences
        assert not any(ids[: len(p)] == p for ids in sentences for p in prefixes)
        prefixes += [ids[:length] for ids in sentences if len(ids) >= length]
    assert prefixes


def test_forbidden_words_outside_the_vocabulary_are_ignored() -> None:
    vocabulary = tiny_vocabulary()
    forbidden = ForbiddenWords.of_words([["there", "is", "no"], ["nothing"], []], vocabulary)
    there, is_, no = vocabulary.encode("there is no", 9)[1:-1]
    logits = torch.zeros(4, len(vocabulary))
    forbidden.apply(logits, [(there, is_), (there,), (), (5, there, is_)])
    assert torch.nonzero(torch.isinf(logits)).tolist() == [[0, no]]


@papers
def test_captions_longer_than_the_positions_are_cut_for_training(paper) -> None:
    model = trainable_model(paper, max_words=5)
    batch = full_batch(model, CAPTIONS)
    assert batch.tokens.shape == (4, 5)
    assert all(row[row != 0][-1] == 2 for row in batch.tokens), "the end stays"
    assert torch.isfinite(model.losses(batch, all_weights(model))["caption"])


@papers
def test_runs_where_its_weights_are(paper) -> None:
    """A tensor made on a fixed device inside the model would not meet the others on the meta device."""
    model = trainable_model(paper).to("meta")
    batch = full_batch(model, CAPTIONS)
    moved = replace(
        batch,
        **{k: v.to("meta") for k, v in vars(batch).items() if isinstance(v, torch.Tensor)},
    )
    terms = model.losses(moved, all_weights(model))
    assert all(value.device.type == "meta" for value in terms.values())
    cache = model.decoder.start(torch.zeros(2, 5, 16, device="meta"))
    assert model.decoder.step(torch.zeros(2, dtype=torch.long, device="meta"), cache).device.type == "meta"


@papers
def test_more_padding_changes_nothing(paper) -> None:
    model = trainable_model(paper)
    batch = full_batch(model, ("villas are built", "a road is removed", "there is no difference"))
    padded = replace(batch, tokens=torch.nn.functional.pad(batch.tokens, (0, 3), value=model.vocabulary.pad))
    weights = all_weights(model)
    with torch.no_grad():
        one, two = model.losses(batch, weights), model.losses(padded, weights)
    for name, value in one.items():
        torch.testing.assert_close(two[name], value)


@pytest.mark.parametrize(
    ("paper", "options", "expected"),
    [
        ("rdd", {}, False),
        ("cheers", {}, True),
        ("cheers", {"retriever": "open_clip:ViT-L-14:openai"}, False),
        ("cheers", {"commonality": False, "difference": False, "gate": False}, False),
        ("davir", {}, True),
        ("davir", {"retriever": "open_clip:ViT-L-14:openai"}, False),
        ("davir", {"prompt": False}, False),
    ],
)
def test_the_trunk_sees_the_split_only_for_a_retriever_that_is_fitted(
    paper, options, expected, monkeypatch
) -> None:
    config = tiny_config(paper)
    config = replace(config, options={**config.options, **options})
    model = MODELS[paper](config=config, backbone=tiny_backbone(), vocabulary=tiny_vocabulary())
    assert model.prepares_from_features == expected
    passes = []
    monkeypatch.setattr(runs, "pooled_features", lambda *_, **__: passes.append(1) or np.zeros((0, 2, 12)))
    material = runs._material(model, Config(model=config), [], Kept())
    assert (material.pooled is not None) == bool(passes) == expected


@papers
def test_pooling_averages_squares_of_the_last_maps(paper) -> None:
    pooling, plain = tiny_model(paper, pool=2), tiny_model(paper)
    plain.load_state_dict(pooling.state_dict())
    maps = [torch.randn(3, 12, 4, 6, generator=torch.Generator().manual_seed(i)) for i in (1, 2)]
    squares = [m.view(3, 12, 2, 2, 3, 2).mean((3, 5)) for m in maps]
    with torch.no_grad():
        one, other = pooling.encode_last_maps(*maps), plain.encode_last_maps(*squares)
    assert one.grid == (2, 3)
    torch.testing.assert_close(one.tokens, other.tokens)


def test_no_source_names_a_device(repository) -> None:
    found = [path.name for path in (repository / "rscc").rglob("*.py") if ".cuda(" in path.read_text()]
    assert found == []


@papers
def test_bfloat16_autocast_runs_and_stays_close(paper) -> None:
    model = trainable_model(paper)
    batch = full_batch(model, CAPTIONS)
    with torch.no_grad():
        exact = model.losses(batch, all_weights(model))
        with torch.autocast("cpu", torch.bfloat16):
            rough = model.losses(batch, all_weights(model))
            found = model.generate(batch.before, batch.after, beams=2)
    for name, value in exact.items():
        assert float(rough[name]) == pytest.approx(float(value), rel=0.1, abs=0.05), name
    assert len(found) == 4


@papers
def test_bfloat16_training_reaches_every_parameter(paper) -> None:
    model = trainable_model(paper).train()
    with torch.autocast("cpu", torch.bfloat16):
        terms = model.losses(full_batch(model, CAPTIONS), all_weights(model))
        total = torch.stack([value.float() for value in terms.values()]).sum()
    total.backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


# Model folders


@pytest.fixture
def tiny_registered(monkeypatch) -> None:
    monkeypatch.setitem(backbone.BACKBONES, "tiny", tiny_backbone)


def saved(path, model):
    return save_model_folder(
        path, model, card=card(), card_text="# A card\n", no_change_prefixes=[["there", "is", "no"]]
    )


@papers
def test_a_saved_model_is_the_same_model(paper, tmp_path, tiny_registered) -> None:
    model = trainable_model(paper)
    folder = saved(tmp_path / "model", model)
    assert folder == open_model_folder(tmp_path / "model", check_hashes=True)
    assert folder.config == model.config
    assert folder.no_change_prefixes == (("there", "is", "no"),)
    assert len(folder.card.weights_sha256) == 64
    again = load_model(folder)
    assert not again.training
    assert again.vocabulary == model.vocabulary
    own = model.state_dict()
    kept = {name for name in own if not name.startswith(model.training_only)}
    assert set(again.state_dict()) == kept
    assert kept != set(own) or not model.training_only
    for name, value in again.state_dict().items():
        assert value.dtype == own[name].dtype, name
        torch.testing.assert_close(value, own[name], rtol=1e-3, atol=1e-6)
    before, after = random_images(3)
    with torch.no_grad():
        one, two = model.encode(before, after), again.encode(before, after)
    torch.testing.assert_close(one.changed_logits, two.changed_logits, rtol=0.02, atol=0.02)
    torch.testing.assert_close(one.change_logits, two.change_logits, rtol=0.02, atol=0.05)


def damage_weights(folder) -> None:
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "model.safetensors").write_bytes(bytes(data))


def edit(**changes):
    """Return a function that changes ``model.json``: keys of the top, or of the card or the model."""

    def change(folder) -> None:
        file = folder / "model.json"
        content = json.loads(file.read_text())
        for key, value in changes.items():
            part, _, name = key.rpartition("__")
            target = content[part] if part else content
            if value is ...:
                del target[name]
            else:
                target[name] = value
        file.write_text(json.dumps(content))

    return change


DAMAGE = {
    "a changed byte": damage_weights,
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "no vocabulary": lambda folder: (folder / "vocabulary.json").unlink(),
    "no card": lambda folder: (folder / "CARD.md").unlink(),
    "no description": lambda folder: (folder / "model.json").unlink(),
    "no JSON": lambda folder: (folder / "model.json").write_text("{"),
    "no text": lambda folder: (folder / "model.json").write_bytes(b"\xff\xfe\x00"),
    "a list": lambda folder: (folder / "model.json").write_text("[]"),
    "unknown format": edit(format=99),
    "no hashes": edit(sha256=...),
    "hashes are no table": edit(sha256=[1]),
    "hashes are numbers": edit(sha256={"model.safetensors": 1, "vocabulary.json": 2}),
    "weights not recorded": edit(sha256={"vocabulary.json": "0"}),
    "unknown key of the card": edit(card__colour="red"),
    "card without a name": edit(card__name=...),
    "threshold is a word": edit(card__threshold="high"),
    "unknown size": edit(model__depth=3),
    "impossible size": edit(model__width=17),
    "no heads": edit(model__heads=0),
    "prefixes are a number": edit(no_change_prefixes=3),
    "runs are a number": edit(no_change_runs=3),
    "card is a word": edit(card="good"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_refused(damage, tmp_path, tiny_registered) -> None:
    saved(tmp_path / "model", tiny_model())
    DAMAGE[damage](tmp_path / "model")
    with pytest.raises(ModelFolderInvalid, match=str(tmp_path / "model")) as caught:
        load_model(open_model_folder(tmp_path / "model", check_hashes=True))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"model__width": 32},
        {"model__decoder_layers": 3},
        {"model__decoder_layers": 1},
        {"model__paper": "unknown"},
        {"model__backbone": "unknown"},
        {"model__backbone": "timm/hf-hub:someone/something"},
        {"model__options": {"object_vectors": 3}},
        {"model__options": {"vectors": 3}},
        {"model__head_width": 12},
    ],
)
def test_a_description_that_does_not_fit_the_weights_is_refused(changes, tmp_path, tiny_registered) -> None:
    saved(tmp_path / "model", tiny_model())
    edit(**changes)(tmp_path / "model")
    with pytest.raises(ModelFolderInvalid, match=r"model\.") as caught:
        load_model(open_model_folder(tmp_path / "model"))
    assert "\n" not in str(caught.value)


def test_a_hash_may_not_lead_out_of_the_folder(tmp_path, tiny_registered) -> None:
    saved(tmp_path / "model", tiny_model())
    (tmp_path / "secret").write_text("outside")
    edit(sha256={"model.safetensors": "0", "vocabulary.json": "0", "../secret": "0"})(tmp_path / "model")
    with pytest.raises(ModelFolderInvalid, match="secret is missing"):
        open_model_folder(tmp_path / "model")


# Sizes and trunks


@pytest.mark.parametrize("name", ["resnet50", "efficientnet_lite0"])
def test_trunks_have_maps_at_strides_4_8_and_16(name) -> None:
    trunk = build_backbone(name).train()
    images, _ = random_images(1, 64, 96)
    maps = trunk(images)
    assert [tuple(m.shape[2:]) for m in maps] == [(16, 24), (8, 12), (4, 6)]
    assert tuple(m.shape[1] for m in maps) == trunk.channels
    norms = [m for m in trunk.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert norms
    assert not any(m.training for m in norms)
    sum(m.mean() for m in maps).backward()
    assert [n for n, p in trunk.named_parameters() if p.grad is None] == []


def test_trunks_by_library_train_whole() -> None:
    for name in ("torchvision/resnet18", "timm/resnet18"):
        trunk = build_backbone(name)
        maps = trunk(random_images(1, 64, 64)[0])
        assert [m.shape[-1] for m in maps] == [16, 8, 4], name
        assert tuple(m.shape[1] for m in maps) == trunk.channels == (64, 128, 256), name
        sum(m.mean() for m in maps).backward()
        assert [n for n, p in trunk.named_parameters() if p.grad is None] == [], name


@pytest.mark.parametrize(
    "name", ["resnet", "torchvision/resnet9000", "timm/none", "torchvision/vit_b_32", ""]
)
def test_unknown_trunks_are_refused(name) -> None:
    with pytest.raises(ConfigInvalid):
        build_backbone(name)


def test_unknown_papers_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigInvalid, match="rdd"):
        model_class("spelling")


def test_the_papers_config_gives_the_papers_sizes() -> None:
    """Implementation Details: 14 x 14 x 1024 to 512, words of 300, 32 object and 10 action vectors."""
    config = load_config("rdd_levir_cc")
    assert (config.model.width, config.model.word_width, config.data.size // 16) == (512, 300, 14)
    trunk = build_backbone("resnet50")
    assert trunk.channels[-1] == 1024
    model = MODELS["rdd"](config=config.model, backbone=trunk, vocabulary=tiny_vocabulary()).eval()
    with torch.no_grad():
        features = model.encode_last_maps(torch.zeros(1, 1024, 14, 14), torch.zeros(1, 1024, 14, 14))
    assert features.tokens.shape == (1, 14 * 14 + 32 + 10, 512)


def test_scores_are_geometric_means() -> None:
    model = tiny_model()
    (found,) = model.generate(*random_images(1), beams=1)
    assert found[0].score == math.exp(found[0].mean_log_probability)
