"""Maps by the captioners' own means against loops over words and places; and what cards say of them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fakes import card
from saved_models import edit, saved
from scene_pairs import make_pair
from tiny_models import random_arrays, random_images, tiny_model

from rscc.captioner import Captioner
from rscc.errors import ConfigInvalid, ModelFolderInvalid
from rscc.inference.localisers import LOCALISERS, AttentionLocaliser, DifferenceLocaliser, attention_map
from rscc.model_folder import LOCALISATIONS, open_model_folder
from rscc.models import MODELS
from rscc.models.shared.search_rules import ForbiddenWords
from rscc.structures import DifferenceFeatures, PairView
from workflows import caption_scene

pytestmark = pytest.mark.usefixtures("tiny_registered")

OWN_MEANS = ("attention", "difference")


def encoded(model, batch=3, height=64, width=48, seed=0) -> DifferenceFeatures:
    with torch.no_grad():
        return model.encode(*random_images(batch, height, width, seed=seed), head=False)


def with_flags(features, *logits) -> DifferenceFeatures:
    features.changed_logits = torch.tensor(logits)
    return features


def slow_shares(rows: list[list[float]]) -> list[float]:
    """Attention of every word on every place to a map, literally."""
    places = len(rows[0])
    mass = [sum(row[place] for row in rows) for place in range(places)]
    above = [max(0.0, one / (sum(mass) / places) - 1) for one in mass]
    return [one / max(1.0, *above) for one in above]


# Attention


@pytest.mark.parametrize("paper", MODELS)
@torch.no_grad()
def test_attention_of_all_words_in_shares_of_an_even_spread(paper) -> None:
    """Sentences of several lengths in one batch, each compared with its own words decoded alone."""
    model = tiny_model(paper, seed=4)
    features = encoded(model)
    sentences = [(5, 9, 12), (7,), (6, 6, 11, 13, 4)]
    found = attention_map(model, features, sentences)
    assert found.shape == (3, 4, 3)
    for sample, ids in enumerate(sentences):
        rows = []
        for step in range(len(ids)):
            tokens = torch.tensor([[model.vocabulary.bos, *ids[:step]]] * 3)  # what is read to give this word
            last = model.decoder.attention(model.memory(features), tokens)[:, -1:]
            rows.append(model.on_ground(features, last)[sample, 0].tolist())
        expected = slow_shares(rows)
        np.testing.assert_allclose(found[sample].flatten().numpy(), expected, atol=1e-4)
        assert 0 < max(expected) <= 1


def looking(rows: list[list[float]], grid: tuple[int, int]):
    """A stand-in for a model whose every word looks at the places as said, and such features."""
    model = SimpleNamespace(
        vocabulary=SimpleNamespace(bos=1, pad=0),
        config=SimpleNamespace(paper="stand-in"),
        memory=lambda features: features.tokens,
        on_ground=lambda features, attention: attention,
        decoder=SimpleNamespace(
            attention=lambda memory, tokens: torch.tensor(rows)[:, None].expand(-1, tokens.shape[1], -1)
        ),
    )
    tokens = torch.zeros(len(rows), len(rows[0]), 2)
    maps = torch.zeros(len(rows), 2, *grid)
    return model, DifferenceFeatures(tokens, PairView(tokens, tokens, maps, maps, grid))


def test_a_place_that_stands_out_is_one_and_an_even_spread_is_nothing() -> None:
    rows = [
        [0.1, 0.1, 0.7, 0.1],  # one place stands out
        [0.25, 0.25, 0.25, 0.25],  # none does
        [0.02, 0.02, 0.14, 0.02],  # the first again, most of it spent on what has no place
        [0.2, 0.2, 0.3, 0.3],  # hardly: a fifth more than an even share
        [0.0, 0.0, 0.0, 0.0],  # all of it spent elsewhere
    ]
    model, features = looking(rows, (2, 2))
    found = attention_map(model, features, [(4, 5)] * 5).flatten(1)
    expected = [[0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0.2, 0.2], [0, 0, 0, 0]]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def test_a_decoder_that_does_not_tell_is_said() -> None:
    model, features = looking([[0.5, 0.5]], (1, 2))
    model.decoder.attention = lambda memory, tokens: None
    with pytest.raises(ConfigInvalid, match=r"stand-in does not tell where its words look.*difference"):
        attention_map(model, features, [(4,)])


@torch.no_grad()
def test_attention_counts_by_the_probability_of_change_and_is_silent_below_the_threshold() -> None:
    model = tiny_model(seed=4)
    features = with_flags(encoded(model), 3.0, 0.0, -1.0)
    sentences = [one[0].ids for one in model.generate_from(features)]
    plain = attention_map(model, features, sentences)
    found = AttentionLocaliser(0.5).maps(model, features, (4, 3))
    for sample, logit in enumerate((3.0, 0.0)):  # the second at the threshold itself
        weight = 1 / (1 + np.exp(-logit))
        np.testing.assert_allclose(found[sample].numpy(), plain[sample].numpy() * weight, atol=1e-5)
    assert plain[2].max() > 0
    assert float(found[2].max()) == 0
    assert AttentionLocaliser(0.5).maps(model, features, (64, 48)).shape == (3, 64, 48)


@torch.no_grad()
def test_where_change_was_not_learnt_the_words_say_whether(monkeypatch) -> None:
    """With a threshold of 0 P(changed) means nothing: the captions "no ..." silence, others count in full."""
    model = tiny_model(seed=4)
    no = model.vocabulary.encode("no", 3)[1]
    features = with_flags(encoded(model), -9.0, -9.0, -9.0)
    rules = replace(model.search_rules(), forbidden=ForbiddenWords([(no,)]))
    plain = attention_map(model, features, [one[0].ids for one in model.generate_from(features)])
    found = AttentionLocaliser(0.0, rules).maps(model, features, (4, 3))
    torch.testing.assert_close(found, plain)
    assert plain.max() > 0
    said = iter(("there is no difference", "a house", "a house"))
    monkeypatch.setattr(type(model.vocabulary), "decode", lambda self, ids: next(said))
    found = AttentionLocaliser(0.0, rules).maps(model, features, (4, 3))
    assert float(found[0].max()) == 0
    torch.testing.assert_close(found[1:], plain[1:])


@torch.no_grad()
def test_the_sentence_looked_with_is_one_of_change() -> None:
    model = tiny_model(seed=4)
    features = with_flags(encoded(model), 5.0, 5.0, 5.0)
    first = {one[0].ids[:1] for one in model.generate_from(features)}
    rules = replace(model.search_rules(), forbidden=ForbiddenWords(list(first)))
    others = [one[0].ids for one in model.generate_from(features, rules=rules)]
    weight = float(torch.tensor(5.0).sigmoid())
    found = AttentionLocaliser(0.5, rules).maps(model, features, (4, 3))
    torch.testing.assert_close(found, attention_map(model, features, others) * weight)
    assert not torch.allclose(found, AttentionLocaliser(0.5).maps(model, features, (4, 3)))


# Difference


@torch.no_grad()
def test_extracted_changes_are_smoothed_also_over_the_edge_of_a_tile_and_silenced() -> None:
    model, asked = tiny_model(), []
    features = with_flags(encoded(model, height=32, width=48), 2.0, -2.0, 0.1)
    mask = np.ones((32, 48), dtype=bool)
    mask[10:20, 20:40] = False

    def extract(before: np.ndarray, after: np.ndarray) -> np.ndarray:
        assert before.dtype == after.dtype == np.uint8
        assert before.shape == after.shape == (3, 32, 48)
        asked.append((before, after))
        return mask

    model.extractor = extract
    found = DifferenceLocaliser(0.5).maps(model, features, (32, 48)).numpy()
    assert found.shape == (3, 32, 48)
    assert len(asked) == 2, "the second pair is unchanged"
    images = features.pair.images
    np.testing.assert_array_equal(asked[1][0], images[0][2].numpy())
    np.testing.assert_array_equal(asked[1][1], images[1][2].numpy())
    assert found[1].max() == 0
    for row in range(32):
        for column in range(48):
            around = mask[max(0, row - 4) : row + 5, max(0, column - 4) : column + 5]
            assert found[0, row, column] == pytest.approx(around.mean(), abs=1e-6)
    np.testing.assert_array_equal(found[0] >= 0.5, found[2] >= 0.5)


@torch.no_grad()
def test_the_difference_finds_what_was_planted() -> None:
    rng = np.random.default_rng(2)
    before = rng.integers(90, 110, (3, 96, 96), dtype=np.uint8)
    after = before + np.uint8(5)
    after[:, 20:50, 40:80] = 230
    model = tiny_model()
    features = model.encode(*(torch.from_numpy(date)[None] for date in (before, after)), head=False)
    with_flags(features, 1.0)
    found = DifferenceLocaliser(0.5).maps(model, features, (96, 96))[0].numpy() >= 0.5
    truth = np.zeros((96, 96), dtype=bool)
    truth[20:50, 40:80] = True
    assert (found & truth).sum() / (found | truth).sum() > 0.85


@torch.no_grad()
def test_davirs_own_extraction_is_the_one_that_localises() -> None:
    model = tiny_model("davir", options={"delta": 20.0, "min_samples": 2})
    before = torch.full((1, 3, 64, 64), 100, dtype=torch.uint8)
    before[..., ::2] = 130
    after = before.clone()
    after[..., 16:40, 8:40] += 32  # fainter than what is extracted as a rule
    features = with_flags(model.encode(before, after, head=False), 1.0)
    found = [DifferenceLocaliser(0.5).maps(one, features, (64, 64)) for one in (model, tiny_model())]
    assert found[0][0, 16:40, 8:40].min() > 0.2
    assert found[1].max() == 0


def test_the_difference_needs_images() -> None:
    model = tiny_model()
    with torch.no_grad():
        features = model.encode_last_maps(torch.zeros(1, 12, 4, 4), torch.zeros(1, 12, 4, 4))
    with pytest.raises(ConfigInvalid, match="images"):
        DifferenceLocaliser(0.5).maps(model, features, (64, 64))


# Captioners


@pytest.mark.parametrize("localiser", LOCALISATIONS)
def test_describing_is_finding_and_captioning_in_one_pass_through_the_trunk(tmp_path, localiser) -> None:
    folder = saved(tmp_path / "m", prefixes=[["a"]], localiser=localiser, changed_threshold=0.4)
    captioner = Captioner.load(folder.path, device="cpu")
    before, after = random_arrays(4)
    passes = []
    captioner._model.backbone.register_forward_hook(lambda *_: passes.append("trunk"))
    captioner._model.change_head.register_forward_hook(lambda *_: passes.append("head"))
    found, captions = captioner.describe(before, after, beams=2)
    assert passes == ["trunk", "head"] if localiser == "change_head" else passes == ["trunk"]
    alone = captioner.predict_change(before, after)
    np.testing.assert_array_equal(found.change_probability, alone.change_probability)
    np.testing.assert_array_equal(found.changed_probability, alone.changed_probability)
    assert found.change_probability.dtype == np.float32
    assert found.change_probability.shape == (4, 64, 64)
    assert 0 <= found.change_probability.min() <= found.change_probability.max() <= 1
    passes.clear()
    assert captions == captioner.caption(before, after, beams=2)
    assert passes == ["trunk"], "words need no change head"
    assert captioner.describe(before, after, assume_changed=True)[1][0].changed


@pytest.mark.parametrize("localiser", OWN_MEANS)
@pytest.mark.parametrize("paper", MODELS)
def test_every_model_writes_a_report_of_a_scene_by_its_own_means(tmp_path, paper, localiser) -> None:
    pair = make_pair(tmp_path, [(60, 20, 30, 30, 240), (100, 120, 40, 25, 10)])
    named = {"localiser": localiser, "localisation": LOCALISATIONS[localiser]}
    folder = saved(tmp_path / "m", tiny_model(paper, seed=2), prefixes=[["a"]], threshold=0.3, **named)
    captioner = Captioner.load(folder.path, device="cpu")
    with torch.no_grad():
        captioner._model.changed_head.net[-1].bias.fill_(100)
    report = caption_scene(pair.before, pair.after, captioner)
    assert report.run["model"]["localiser"] == localiser
    assert report.changes
    assert all(change.caption for change in report.changes)
    with torch.no_grad():
        captioner._model.changed_head.net[-1].bias.fill_(-100)
    assert caption_scene(pair.before, pair.after, captioner).changes == []


# Cards


def test_unknown_localisers_are_refused(tmp_path) -> None:
    with pytest.raises(ConfigInvalid, match="change_head, attention, difference"):
        card(localiser="sight")
    path = saved(tmp_path / "m").path
    edit(card__localiser="sight")(path)
    with pytest.raises(ModelFolderInvalid, match=r"card\.localiser"):
        open_model_folder(path)


def test_every_card_can_be_honoured() -> None:
    assert list(LOCALISERS) == list(LOCALISATIONS)
    assert all(model.localiser in OWN_MEANS for model in MODELS.values())


def test_folders_of_before_stay_readable(tmp_path) -> None:
    path = saved(tmp_path / "m", localisation="").path
    edit(card__localiser=...)(path)
    found = open_model_folder(path).card
    assert (found.localiser, found.localisation) == ("attention", LOCALISATIONS["attention"])
    edit(card__localisation="change head")(path)
    found = open_model_folder(path).card
    assert (found.localiser, found.localisation) == ("change_head", "change head")
