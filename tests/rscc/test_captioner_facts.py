"""Captions of a model folder that tells facts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from saved_models import saved, tiny_facts, tiny_heads, with_threshold
from tiny_models import random_arrays

from rscc import model_folder as weights
from rscc.captioner import Captioner
from rscc.facts.answers import ANSWERS
from rscc.facts.grounded_captions import GroundedCaption
from rscc.facts.heads import region_logits
from rscc.facts.road_head import CHANNELS, RoadHead
from rscc.model_folder import open_model_folder
from rscc.models.shared.captioner import ChangeCaptioner
from rscc.text.statements import read_statement

pytestmark = pytest.mark.usefixtures("tiny_registered")


@pytest.fixture
def grounded(tmp_path) -> Captioner:
    """All pairs are changed; whatever is more likely than not is stated."""
    facts = tiny_facts(sure=(0.5,) * len(ANSWERS))
    folder = saved(tmp_path / "facts", name="facts", changed_threshold=0.0, facts=facts)
    return Captioner.load(folder.path, device="cpu")


def facts_of(captioner: Captioner, before, after, regions) -> np.ndarray:
    """The fact heads' logits for a region of each pair, (B, len(ANSWERS))."""
    _, answers = captioner.survey(before, after)
    return region_logits(torch.from_numpy(answers).float(), torch.from_numpy(regions)).numpy()


def test_with_facts_captions_are_grounded(grounded) -> None:
    before, after = random_arrays(3)
    assert grounded.facts is not None
    captions, found = grounded.caption(before, after), grounded.predict_change(before, after)
    masks = found.change_probability >= grounded.card.threshold
    logits, closer = (facts_of(grounded, before, after, of) for of in (np.zeros_like(masks), masks))
    assert logits.shape == (3, len(ANSWERS))
    for number, caption in enumerate(captions):
        probability = float(found.changed_probability[number])
        seen = logits[number], closer[number], masks[number], probability
        expected = grounded.facts.picture_caption(*seen, gsd=grounded.card.gsd)
        assert isinstance(caption, GroundedCaption)
        assert caption.text == expected.text and caption.alternatives == expected.alternatives
        assert caption.score == pytest.approx(expected.score, abs=1e-3)
        assert read_statement(caption.text).came == set(caption.facts.came)
    prediction, described = grounded.describe(before, after)
    assert [one.text for one in described] == [one.text for one in captions]
    np.testing.assert_array_equal(prediction.change_probability, found.change_probability)


def test_facts_are_told_of_pairs_and_pixels_at_the_thresholds_themselves(grounded, monkeypatch) -> None:
    before, after = random_arrays(1)
    found = grounded.predict_change(before, after)
    peak, probability = float(found.change_probability.max()), float(found.changed_probability[0])
    asked, own = [], type(grounded.facts).picture_caption

    def picture_caption(self, logits, closer, mask, *others, **named):
        asked.append((closer, mask))
        return own(self, logits, closer, mask, *others, **named)

    monkeypatch.setattr(type(grounded.facts), "picture_caption", picture_caption)
    grounded.card = replace(grounded.card, threshold=peak)
    assert with_threshold(grounded, probability).caption(before, after)[0].changed
    ((closer, mask),) = asked
    np.testing.assert_array_equal(mask, found.change_probability[0] == peak)
    whole, region = (facts_of(grounded, before, after, of[None])[0] for of in (np.ones((64, 64)), mask))
    assert np.abs(whole - region).max() > 1e-3
    np.testing.assert_allclose(closer, region, atol=1e-3)
    above = float(np.nextafter(np.float32(probability), np.float32(1)))
    assert not with_threshold(grounded, above).caption(before, after)[0].changed


@pytest.mark.parametrize(("bias", "beside"), [(5.0, True), (-5.0, False)])
def test_no_road_is_stated_that_is_not_found(tmp_path, bias, beside) -> None:
    head = RoadHead(channels=12)
    with torch.no_grad():
        head.layers[-1].weight.zero_()
        head.layers[-1].bias.fill_(bias)
    asked = ("came building", "came road", "around road")
    slopes = tuple(float(name in asked) for name in ANSWERS)
    plain = tiny_facts(slopes=slopes, offsets=(30.0,) * len(ANSWERS))  # all that is asked is certain
    before, after = random_arrays(1)
    for roads in (None, head):
        folder = saved(
            tmp_path / str(roads is None), changed_threshold=0.0, facts=replace(plain, roads=roads)
        )
        captioner = Captioner.load(folder.path, device="cpu")
        (caption,) = captioner.caption(before, after)
        assert isinstance(caption, GroundedCaption)
        named = "road" in caption.facts.came, "road" in caption.facts.beside
        assert named == ((True, False) if roads is None else (False, beside))
        _, answers = captioner.survey(before, after)
        assert answers.shape[1] == len(ANSWERS) + (0 if roads is None else CHANNELS)
    np.testing.assert_allclose(answers[:, len(ANSWERS) :], bias, atol=1e-2)


def test_facts_are_of_the_dates_in_their_order(grounded, tmp_path) -> None:
    before, after = random_arrays(2)
    after = after // 2 + 127
    found = facts_of(grounded, before, after, np.ones((2, 64, 64)))
    model = weights.load_model(open_model_folder(tmp_path / "facts"))
    change = torch.from_numpy(grounded.predict_change(before, after).change_probability)
    with torch.no_grad():
        view = model.encode(torch.from_numpy(before), torch.from_numpy(after)).pair
        dates = view.maps_before, view.maps_after
        right, wrong = (
            region_logits(tiny_heads().maps(*maps, change), torch.ones_like(change)).numpy()
            for maps in (dates, dates[::-1])
        )
    assert np.abs(found - right).max() < 0.2 * np.abs(found - wrong).max()


def test_a_new_road_or_clearing_makes_a_pair_changed(grounded, tmp_path, monkeypatch) -> None:
    """It is stated then, and as likely; nobody asks where it is changed anyway, or the decoder speaks."""
    pairs, asked = random_arrays(2), []
    logit = float(np.log(0.9 / 0.1))

    def lone(answers, rules, metres):
        asked.append((answers.shape, rules, metres))
        return ({"came road": logit}, {})[(len(asked) - 1) % 2]

    usual = grounded.predict_change(*pairs).changed_probability
    between = float(usual.max() + 0.9) / 2
    assert usual.max() < between, "neither is changed by itself"
    monkeypatch.setattr("rscc.facts.pair_captions.lone_answers", lone)
    found = with_threshold(grounded, between).predict_change(*pairs).changed_probability
    assert found == pytest.approx([0.9, usual[1]])
    assert grounded.facts is not None
    on_maps = grounded.facts.rules.on_maps()
    assert asked == [((len(ANSWERS), 4, 4), on_maps, 16 * grounded.card.gsd)] * 2
    first, second = with_threshold(grounded, between).caption(*pairs)
    assert isinstance(first, GroundedCaption) and first.changed and not second.changed
    assert first.facts.came["road"] == pytest.approx(0.9)
    assert first.score == pytest.approx(0.9 * first.facts.probability)
    assert grounded.explain(*(date[0] for date in pairs)).changed_probability == pytest.approx(usual[0])
    del asked[:]
    grounded = with_threshold(grounded, float(usual.min()))
    assert grounded.predict_change(*pairs).changed_probability == pytest.approx(usual) and not asked
    decoder = Captioner.load(tmp_path / "facts", device="cpu", ground=False)
    assert decoder.predict_change(*pairs).changed_probability == pytest.approx(usual)


def test_a_report_loads_no_encoder_and_no_decoder(grounded, tmp_path) -> None:
    """What a report asks gives the same answers without them; they are loaded for the first sentence."""
    pairs, whole = random_arrays(2), Captioner.load(tmp_path / "facts", device="cpu")
    assert isinstance(whole._model, ChangeCaptioner)
    for light, full in zip(grounded.survey(*pairs), whole.survey(*pairs), strict=True):
        np.testing.assert_array_equal(light, full)
    np.testing.assert_array_equal(grounded.search(*pairs), whole.search(*pairs))
    assert "_model" not in vars(grounded)
    assert grounded.caption(*pairs, ground=False) == whole.caption(*pairs, ground=False)
    assert grounded._model.backbone is grounded.detector.backbone
