"""Facts are learnt from references: labels, calibration, and heads on a small trunk."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_models import tiny_model

from rscc.captioner import Captioner
from rscc.data.labels import LabelledPair, Reading
from rscc.data.pairs import PairRecord, read_pair
from rscc.inference.fact_heads import ANSWERS, AROUND, SURE, FactHeads, FactRules
from rscc.inference.facts import FactModel, GroundedCaption
from rscc.inference.roads import RoadHead
from rscc.model_folder import load_facts
from rscc.training import fact_rules
from rscc.training import facts as training
from rscc.training.calibration import area_under_curve
from rscc.training.fact_rules import GROUND, calibrated_rules
from rscc.training.facts import fact_labels, fit_facts, labelled_facts

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
    return fit_facts(model, records, size=64, threshold=0.5, bf16=False, **how)


def learn_anew(records, **how) -> FactModel:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "FEWEST_PAIRS", 60)
        patch.setattr(training, "EPOCHS", 40)
        found = learn(records, **how)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def fitted(records) -> tuple[FactModel, list[str]]:
    """Facts that a random trunk learns to tell, and what was reported."""
    said: list[str] = []
    return learn_anew(records, report=said.append), said


def noisy_answers(seed: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    """A generator, logits of 400 pairs, and labels that mostly follow them."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(400, len(ANSWERS))).astype(np.float32)
    return random, logits, (logits + random.normal(0, 0.5, logits.shape) > 0).astype(np.float32)


@pytest.mark.slow
def test_heads_learn_what_is_there_to_see(fitted) -> None:
    rules = fitted[0].rules
    assert set(rules.scores) == {"came building", "gone building", "around building"}
    for name in ("came building", "gone building"):
        assert rules.scores[name]["pairs"] == 32
        assert rules.scores[name]["auc"] > 0.9 and rules.scores[name]["f1"] > 0.8
        assert rules.slopes[ANSWERS.index(name)] > 0
    assert rules.slopes[ANSWERS.index("came road")] == 0, "nobody speaks of roads"


def test_progress_is_reported(fitted) -> None:
    assert fitted[1] == ["facts: 96 pairs seen", *(f"facts: fold {fold} of 3 answered" for fold in (1, 2, 3))]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU of CUDA here")
def test_heads_are_learnt_on_the_gpu_of_their_model(fitted, records) -> None:
    found = learn_anew(records, device="cuda")
    assert {value.device.type for value in found.heads.state_dict().values()} == {"cpu"}
    np.testing.assert_allclose(found.rules.slopes, fitted[0].rules.slopes, rtol=0.3, atol=0.1)
    assert learn(records, device="cuda", start=found) is not None


def test_readers_who_disagree_teach_the_share_of_them(records) -> None:
    road, nothing = frozenset({"road"}), frozenset()
    pair = LabelledPair(records[0], (Reading(road, nothing, road), Reading(nothing, nothing, road)))
    told = dict(zip(ANSWERS, labelled_facts([pair])[0].tolist(), strict=True))
    assert {name: share for name, share in told.items() if share} == {"came road": 0.5, "around road": 1.0}


def test_heads_learn_from_labels_too_but_nothing_is_measured_on_them(fitted, records) -> None:
    ways = {CAME: "gone", GONE: "came"}  # the wrong way round, which shows at once
    building, nothing = frozenset({"building"}), frozenset()
    wrong = []
    for one in records:
        way = ways.get(one.captions, "")
        told = {name: building if name == way else nothing for name in ("came", "gone")}
        wrong.append(LabelledPair(one, (Reading(**told, named=building if way else nothing),)))
    said: list[str] = []
    rules = learn_anew(records, labelled=wrong, report=said.append).rules
    assert said[0] == "facts: 192 pairs seen"
    assert rules.scores["around building"]["pairs"] == 64, "of the captions alone"
    assert rules.slopes[ANSWERS.index("came building")] < fitted[0].rules.slopes[0]
    assert "came building" not in rules.scores or (
        rules.scores["came building"]["auc"] < fitted[0].rules.scores["came building"]["auc"] - 0.2
    )


def test_what_was_learnt_captions_pairs(fitted, records, tmp_path, tiny_registered) -> None:
    from saved_models import saved

    folder = saved(tmp_path / "model", tiny_model(seed=2), facts=fitted[0])
    assert folder.tells_facts and load_facts(folder) is not None
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
def test_learning_again_gives_the_same(fitted, records) -> None:
    assert learn_anew(records).rules == fitted[0].rules


def test_a_start_that_knows_as_much_stays(fitted, records) -> None:
    said: list[str] = []
    assert learn(records, start=fitted[0], report=said.append) is fitted[0]
    assert said[-1].endswith(
        "errors in a changed pair of places not learnt from (fewer by 0.00 to 0.00, 95 %)"
    )


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


@pytest.mark.parametrize("changed", [training.FEWEST_ADAPTED - 1, training.FEWEST_ADAPTED])
def test_a_start_stays_where_there_is_too_little_to_learn_on_from(changed, fitted, records) -> None:
    few = [one for one in records if one.changed][:changed]
    said: list[str] = []
    assert learn(few, start=fitted[0], report=said.append) is fitted[0]
    needed = training.FEWEST_ADAPTED
    places = len({one.place for one in few})
    needs = f"{needed} of several places are needed to learn them"
    too_few = f"facts: {changed} changed pairs of {places} places; {needs}"
    assert (said == [too_few]) is (changed < needed)


def test_an_answer_that_the_start_never_states_is_learnt_from_enough_pairs() -> None:
    _, logits, labels = noisy_answers(4)
    new = calibrated_rules(logits, labels, np.ones(400, bool))
    grass, water = ANSWERS.index("around grass"), ANSWERS.index("around water")
    slopes, offsets = [1.0] * len(ANSWERS), [-2.0] * len(ANSWERS)
    slopes[grass] = offsets[grass] = 0.0
    start = FactRules(tuple(slopes), tuple(offsets), sure=(0.6,) * len(ANSWERS))
    adapted = fact_rules.adapted_rules(start, logits, labels, np.ones(400, bool))
    assert (adapted.slopes[grass], adapted.offsets[grass]) == (new.slopes[grass], new.offsets[grass])
    assert adapted.slopes[water] != new.slopes[water] and abs(adapted.offsets[water]) < 0.3
    assert adapted.slopes[0] == adapted.slopes[4], "what came and what is gone are one answer"
    assert adapted.sure == start.sure and set(adapted.scores) == set(ANSWERS)


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


def test_captions_that_state_nothing_teach_nothing(records) -> None:
    said: list[str] = []
    german = [replace(one, captions=("ein Haus wird gebaut", "Haus gebaut")) for one in records]
    start = FactModel(FactHeads(channels=8), FactRules((1.0,) * len(ANSWERS), (0.0,) * len(ANSWERS)))
    assert learn(german, start=start, report=said.append) is start
    assert said == [
        "facts: captions of 0 of 64 changed pairs state one, such as 'a house is built'; half of them "
        "must, in English"
    ]


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


def test_the_calibration_is_the_curve_that_labels_follow() -> None:
    random = np.random.default_rng(0)
    logits = random.normal(0, 2, (20_000, len(ANSWERS))).astype(np.float32)
    labels = random.random(logits.shape) < 1 / (1 + np.exp(-(1.5 * logits - 1.2)))
    rules = calibrated_rules(logits, labels.astype(np.float32), np.ones(len(logits), bool))
    assert rules.slopes == pytest.approx([1.5] * len(ANSWERS), abs=0.08)
    assert rules.offsets == pytest.approx([-1.2] * len(ANSWERS), abs=0.06)


def test_a_calibration_stays_finite_where_labels_are_apart() -> None:
    logits = np.repeat(40 * np.linspace(-1, 1, 50, dtype=np.float32)[:, None], len(ANSWERS), 1)
    labels = (logits > 0).astype(np.float32)
    rules = calibrated_rules(logits, labels, np.ones(50, bool))
    assert np.isfinite([rules.slopes, rules.offsets]).all()
    assert ((np.array(rules.slopes) * logits + np.array(rules.offsets) > 0) == (labels > 0)).all()


def test_what_is_true_of_all_pairs_was_not_told_apart_and_is_never_stated() -> None:
    logits = np.zeros((50, len(ANSWERS)), np.float32)
    assert set(calibrated_rules(logits, logits + 1, np.ones(50, bool)).slopes) == {0.0}


def test_rules_are_of_answers_with_enough_labels_and_scored_on_changed_pairs() -> None:
    _, logits, labels = noisy_answers(1)
    rare = ANSWERS.index("around water")
    labels[fact_rules.FEWEST_LABELS - 1 :, rare] = 0
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


def test_what_came_and_what_is_gone_have_one_calibration() -> None:
    _, logits, labels = noisy_answers(2)
    came, gone = ANSWERS.index("came road"), ANSWERS.index("gone road")
    logits[:, gone] -= 3
    labels[:, gone] = 0  # nobody spoke of one
    rules = calibrated_rules(logits, labels, np.ones(400, bool))
    assert rules.slopes[came] == rules.slopes[gone] > 0 and rules.offsets[came] == rules.offsets[gone]


def test_covers_are_calibrated_together_and_others_alone() -> None:
    """People name trees where there are more of them than of bare ground, however much there is of either."""
    random, logits, labels = noisy_answers(6)
    trees, bare = ANSWERS.index("around trees"), ANSWERS.index("around bare ground")
    logits[:, [trees, bare]] += random.normal(0, 3, (400, 1))
    labels[:, trees] = logits[:, trees] > logits[:, bare]
    labels[:, bare] = ~(labels[:, trees] > 0)
    rules = calibrated_rules(logits, labels, np.ones(400, bool))
    assert rules.scores["around trees"]["f1"] > 0.95 and rules.scores["around bare ground"]["f1"] > 0.95
    assert area_under_curve(logits[:, trees], labels[:, trees] > 0) < 0.8, "alone it tells little"
    read = {
        name: {AROUND[i] for i in np.flatnonzero(row[:-1])}
        for name, row in zip(AROUND, rules.around, strict=True)
    }
    assert read == {name: set(GROUND) if name in GROUND else {name} for name in AROUND}


def test_what_stands_around_is_calibrated_on_changed_pairs() -> None:
    """Nobody names the trees of a pair without a change, which says nothing of those with one."""
    random = np.random.default_rng(8)
    logits = random.normal(0, 2, (40_000, len(ANSWERS))).astype(np.float32)
    labels = (random.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.float32)
    changed = np.arange(len(logits)) % 2 > 0
    labels[~changed] = 0
    rules = calibrated_rules(logits, labels, changed)
    assert np.array(rules.around) == pytest.approx(np.eye(len(AROUND), len(AROUND) + 1), abs=0.06)
    assert max(rules.offsets) < -0.5, "of all pairs"


def test_a_start_moves_what_it_knows_of_what_stands_around() -> None:
    """It was too sure of trees; what it never states is fitted anew; one without stays without."""
    random = np.random.default_rng(7)
    logits = random.normal(0, 2, (400, len(ANSWERS))).astype(np.float32)
    right = np.eye(len(AROUND))
    trees, grass, bare = (AROUND.index(name) for name in GROUND)
    right[trees, bare] = right[bare, trees] = -1
    labels = (random.random(logits.shape) < 0.5).astype(np.float32)
    odds = logits[:, -len(AROUND) :] @ right.T
    labels[:, -len(AROUND) :] = random.random(odds.shape) < 1 / (1 + np.exp(-odds))
    slopes = tuple(0.0 if name == "around grass" else 1.0 for name in ANSWERS)
    around = np.concatenate([right, np.zeros((len(AROUND), 1))], 1)
    around[trees, -1], around[grass] = 3.0, 0.0
    start = FactRules(slopes, (0.0,) * len(ANSWERS), around=tuple(map(tuple, around.tolist())))
    adapted = np.array(fact_rules.adapted_rules(start, logits, labels, np.ones(400, bool)).around)
    assert adapted[trees, trees] == -adapted[trees, bare] > 0.7 and abs(adapted[trees, -1]) < 1
    assert adapted[bare] == pytest.approx(around[bare], abs=0.3)
    new = calibrated_rules(logits, labels, np.ones(400, bool)).around[grass]
    assert adapted[grass] == pytest.approx(new)
    without = fact_rules.adapted_rules(replace(start, around=()), logits, labels, np.ones(400, bool))
    assert without.around == ()


def test_what_is_seldom_rightly_stated_at_held_out_places_is_never_stated() -> None:
    random, logits, labels = noisy_answers(3)
    guessed = [ANSWERS.index(name) for name in ("around grass", "came road")]
    labels[:, guessed] = logits[:, guessed] + random.normal(0, 3, (400, 2)) > 0
    rules = calibrated_rules(logits, labels, np.ones(400, bool))
    unstated = {name for name, slope in zip(ANSWERS, rules.slopes, strict=True) if not slope}
    assert unstated == {"around grass"}, "a road that is gone is known, and so is one that came"
    grass = rules.scores["around grass"]
    assert grass["f1"] > fact_rules.LEAST_F1 and grass["right"] < fact_rules.LEAST_RIGHT
    assert set(rules.scores) == set(ANSWERS)


@pytest.mark.parametrize(("stated", "known"), [(9, False), (10, True)])  # F1 0.375 and 0.4
def test_what_is_rare_is_stated_unless_it_is_missed_too_often(stated, known) -> None:
    random, logits, labels = noisy_answers(4)
    rare = ANSWERS.index("around water")
    labels[:, rare] = 0
    labels[: stated + 30, rare] = 1  # of which most are missed
    logits[:, rare] = random.normal(size=400) * 0.01
    logits[:stated, rare] = 9
    rules = calibrated_rules(logits, labels, np.ones(400, bool))
    assert (rules.slopes[rare] > 0) is known


@pytest.mark.parametrize(
    ("scores", "true", "area"),
    [
        ([1, 2, 3, 4], [0, 0, 1, 1], 1.0),
        ([4, 3, 2, 1], [0, 0, 1, 1], 0.0),
        ([1, 3, 2, 4], [0, 0, 1, 1], 0.75),
        ([1, 1, 1, 1], [0, 1, 0, 1], 0.5),
        ([1, 2, 2, 3], [0, 0, 1, 1], 0.875),
        ([1, 2], [1, 1], 0.5),
        ([1, 2], [0, 0], 0.5),
    ],
)
def test_area_under_the_curve_by_hand(scores, true, area) -> None:
    assert area_under_curve(np.array(scores, float), np.array(true, bool)) == pytest.approx(area)
