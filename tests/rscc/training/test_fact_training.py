"""Facts are learnt from references: labels, calibration, and heads on a small trunk."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from tiny_models import tiny_model
from training_runs import quick_config

from rscc.captioner import Captioner
from rscc.data.pairs import PairRecord, read_pair
from rscc.facts.answers import ANSWERS, AROUND
from rscc.facts.fact_model import FactModel
from rscc.facts.grounded_captions import GroundedCaption
from rscc.facts.road_head import RoadHead
from rscc.facts.rules import SURE
from rscc.model_folder import load_facts
from rscc.training import fact_calibration
from rscc.training import fact_training as training
from rscc.training.fact_calibration import adapted_rules, calibrated_rules
from rscc.training.fact_training import fit_facts
from rscc.training.logistic import area_under_curve
from rscc.training.training_data import fact_labels

CAME = ("a house is built", "a cabin appears on the grass", "the villa has been built")
GONE = ("the house is removed", "a building disappears", "the cabin on the grass was demolished")
SAME = ("there is no difference", "the scene is the same as before", "nothing has changed")


def record(number: int, captions=CAME, *, folder: Path = Path(), changed=None, place="") -> PairRecord:
    before, after = (folder / f"{number}_{date}.png" for date in ("before", "after"))
    return PairRecord(f"{number}.png", before, after, captions=captions, changed=changed, place=place)


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> list[PairRecord]:
    """Pairs of dark noise: in turn a bright square comes, one goes, and nothing happens."""
    folder = tmp_path_factory.mktemp("pairs")
    random = np.random.default_rng(3)
    made = []
    for number in range(96):
        captions = (CAME, GONE, SAME)[number % 3]
        dates = [random.integers(0, 60, (64, 64, 3), dtype=np.uint8) for _ in range(2)]
        top, left = random.integers(0, 32, 2)
        if captions is not SAME:
            dates[captions is CAME][top : top + 32, left : left + 32] = 240
        one = record(number, captions, folder=folder, changed=captions is not SAME, place=f"p{number // 2}")
        for path, pixels in zip((one.before, one.after), dates, strict=True):
            Image.fromarray(pixels).save(path)
        made.append(one)
    return made


def learn(records, device: str = "cpu", **how) -> FactModel | None:
    """Learn from pairs as a random trunk sees them."""
    model = tiny_model(seed=2).to(device)
    return fit_facts(model, records, quick_config(), threshold=0.5, **how)


@pytest.fixture(scope="module")
def fitted(records) -> tuple[FactModel, list[str]]:
    """Facts that a random trunk learns to tell, and what was reported."""
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "FEWEST_PAIRS", 60)
        patch.setattr(training, "EPOCHS", 40)
        found = learn(records, report=said.append)
    assert found is not None
    return found, said


@pytest.mark.slow
def test_heads_learn_what_is_there_to_see(fitted) -> None:
    rules = fitted[0].rules
    assert set(rules.scores) == {"came building", "gone building", "around building"}
    for name in ("came building", "gone building"):
        assert rules.scores[name]["pairs"] == 32
        assert rules.scores[name]["auc"] > 0.9 and rules.scores[name]["f1"] > 0.8
        assert rules.slopes[ANSWERS.index(name)] > 0
    assert rules.slopes[ANSWERS.index("came road")] == 0, "nobody speaks of roads"


@pytest.mark.slow
def test_what_was_learnt_captions_pairs(fitted, records, tmp_path, tiny_registered) -> None:
    from saved_models import saved

    folder = saved(tmp_path / "model", tiny_model(seed=2), facts=fitted[0])
    assert folder.has_facts and load_facts(folder) is not None
    captioner = Captioner.load(folder.path, device="cpu")
    right = 0
    for one in records[:24]:
        if not one.changed:
            continue
        pair = read_pair(one)
        (caption,) = captioner.caption(pair.before[None], pair.after[None], assume_changed=True)
        assert isinstance(caption, GroundedCaption)
        came = "building" in caption.facts.came
        right += came != ("building" in caption.facts.gone) and came == (one.captions is CAME)
    assert right >= 14, "of 16"


@pytest.mark.slow
def test_a_start_learns_on_from_few_pairs(fitted, records) -> None:
    """It is too careful for these; it keeps its roads, its words, and the answers that it never states."""
    careful = replace(fitted[0].rules, offsets=tuple(offset - 5 for offset in fitted[0].rules.offsets))
    start = replace(fitted[0], rules=careful, roads=RoadHead(channels=12))
    weights = {name: value.clone() for name, value in start.heads.state_dict().items()}
    few = records[:45]  # 30 of them changed: too few to learn anew
    learnt = learn(few, start=start)
    assert learnt is not None and learnt.roads is start.roads
    came = ANSWERS.index("came building")
    assert learnt.rules.offsets[came] > careful.offsets[came] + 1
    assert learnt.rules.scores["came building"]["pairs"] == 15
    assert learnt.rules.scores["came building"]["f1"] > 0.8
    assert learnt.rules.slopes[ANSWERS.index("came road")] == 0
    assert start.phrasing is not None and learnt.phrasing is not None
    assert learnt.phrasing.rarity == start.phrasing.rarity
    assert not np.array_equal(learnt.phrasing.weights, start.phrasing.weights)
    new = learnt.heads.state_dict()
    assert all(weights[name].equal(value) for name, value in start.heads.state_dict().items())
    assert new["reduce.weight"].equal(weights["reduce.weight"])
    assert not new["project.weight"].equal(weights["project.weight"])


@pytest.mark.parametrize("places", ["few", "one"])
def test_nothing_is_learnt_from_too_few_pairs_or_one_place(places, monkeypatch) -> None:
    monkeypatch.setattr(training, "FEWEST_PAIRS", 10)
    count = 9 if places == "few" else 40
    pairs = [record(n, changed=True, place="here" if places == "one" else str(n)) for n in range(count)]
    silent = [record(n, (), changed=True, place=str(n)) for n in range(50)]
    same = [record(n, SAME, changed=False, place=str(n)) for n in range(50)]
    one_place = [record(n, SAME, changed=False, place="here") for n in range(50)]
    others = [*silent, *(same if places == "few" else one_place)]
    # No image lies where the records say: reading one would raise.
    assert learn([*pairs, *others]) is None


def test_each_pair_is_answered_by_heads_that_did_not_learn_its_place(monkeypatch) -> None:
    folds, learned, answered = np.array([0, 1, 0, 2, 1, 2]), [], []

    def answer(heads, fitter, held):
        answered.append(held)
        assert not set(folds[held]) & {folds[pair] for pair in learned[-1] if pair < len(folds)}
        assert set(learned[-1]) == {*np.flatnonzero(~np.isin(folds, folds[held])), 6, 7}, (
            "with labelled pairs"
        )
        return np.zeros((2, len(held), len(ANSWERS)))

    monkeypatch.setattr(training, "_answer", answer)
    fitter = SimpleNamespace(fit=learned.append, labels=np.zeros(8))
    training._cross_validate(fitter, folds, lambda line: None)
    assert sorted(np.concatenate(answered)) == list(range(6))


def test_labels_are_what_two_references_state_or_the_only_one() -> None:
    records = [
        record(0),
        record(1, ("a house is built", "a road appears beside trees", "trees and a road are removed")),
        record(2, ("two villas replace the trees", "the trees are cut down", "a villa and trees appear")),
        record(3, SAME),
        record(4, ("a house is built", "a house appears"), changed=False),
        record(5, ("a villa replaces the trees",)),
        record(6, ("a villa replaces the trees", "a road is built")),
    ]
    labels = fact_labels(records)
    assert labels.shape == (7, len(ANSWERS)) and labels.dtype == np.float32
    stated = [{name for name, value in zip(ANSWERS, row, strict=True) if value} for row in labels]
    assert stated == [
        {"came building", "around building"},
        {"around road", "around trees"},
        {"came building", "gone trees", "around building", "around trees"},
        set(),
        set(),
        {"came building", "gone trees", "around building", "around trees"},
        set(),
    ]


@pytest.mark.slow
def test_the_calibration_is_the_curve_that_labels_follow() -> None:
    random = np.random.default_rng(0)
    logits = random.normal(0, 2, (20_000, len(ANSWERS))).astype(np.float32)
    labels = random.random(logits.shape) < 1 / (1 + np.exp(-(1.5 * logits - 1.2)))
    rules = calibrated_rules(logits, labels.astype(np.float32), np.ones(len(logits), bool))
    assert rules.slopes == pytest.approx([1.5] * len(ANSWERS), abs=0.08)
    assert rules.offsets == pytest.approx([-1.2] * len(ANSWERS), abs=0.06)


def test_covers_are_weighed_against_each_other_and_other_answers_stand_alone() -> None:
    random = np.random.default_rng(0)
    logits = random.normal(0, 2, (4000, len(ANSWERS)))
    grass = logits[:, ANSWERS.index("around grass"), None]
    labels = (random.random(logits.shape) < 1 / (1 + np.exp(grass - 1.5 * logits))).astype(np.float32)
    weights = np.array(calibrated_rules(logits, labels, np.ones(len(logits), bool)).around)
    trees, water = (weights[AROUND.index(name)] for name in ("trees", "water"))
    of = [AROUND.index(name) for name in ("trees", "grass", "bare ground")]
    assert trees[of] == pytest.approx([1.5, -1, 0], abs=0.15)
    assert np.flatnonzero(water[:-1]).tolist() == [AROUND.index("water")]


def test_rules_are_of_answers_with_enough_labels_and_scored_on_changed_pairs() -> None:
    random = np.random.default_rng(1)
    logits = random.normal(size=(400, len(ANSWERS))).astype(np.float32)
    labels = (logits + random.normal(0, 0.5, logits.shape) > 0).astype(np.float32)
    rare = ANSWERS.index("around water")
    labels[fact_calibration.FEWEST_LABELS - 1 :, rare] = 0
    changed = np.arange(400) < 300
    rules = calibrated_rules(logits, labels, changed)
    assert rules.slopes[rare] == rules.offsets[rare] == 0 and "around water" not in rules.scores
    assert set(rules.scores) == set(ANSWERS) - {"around water"}
    for column, name in enumerate(ANSWERS):
        if name in rules.scores:
            true = labels[:300, column] > 0
            told = rules.slopes[column] * logits[:300, column] + rules.offsets[column]
            if name.startswith("around "):
                *weights, offset = rules.around[AROUND.index(name.removeprefix("around "))]
                told = logits[:300, -len(AROUND) :] @ np.array(weights) + offset
            stated = 1 / (1 + np.exp(-told)) >= SURE
            f1 = 2 * (stated & true).sum() / (stated.sum() + true.sum())
            assert rules.scores[name]["pairs"] == true.sum()
            assert rules.scores[name]["f1"] == pytest.approx(f1, abs=1e-4)
            assert rules.scores[name]["stated"] == stated.sum()
            right = (stated & true).sum() / stated.sum()
            assert rules.scores[name]["right"] == pytest.approx(right, abs=1e-4)
            area = area_under_curve(told, true)
            assert rules.scores[name]["auc"] == pytest.approx(area, abs=1e-4)


def test_an_adapted_calibration_is_that_of_the_start_scaled_and_shifted(monkeypatch) -> None:
    monkeypatch.setattr(fact_calibration, "fit_adaptation", lambda *_: (0.5, 0.25))
    random = np.random.default_rng(2)
    logits = random.normal(size=(400, len(ANSWERS))).astype(np.float32)
    labels = (logits + random.normal(0, 0.5, logits.shape) > 0.5).astype(np.float32)
    start = calibrated_rules(logits, labels, np.ones(400, bool))
    adapted = adapted_rules(start, logits, labels, np.ones(400, bool))
    assert any(start.offsets) and len(start.around) == len(AROUND)
    np.testing.assert_allclose(adapted.slopes, 0.5 * np.array(start.slopes), rtol=1e-6)
    np.testing.assert_allclose(adapted.offsets, 0.5 * np.array(start.offsets) + 0.25, rtol=1e-6)
    shift = np.eye(len(AROUND) + 1)[-1] * 0.25
    np.testing.assert_allclose(adapted.around, 0.5 * np.array(start.around) + shift, rtol=1e-6)
