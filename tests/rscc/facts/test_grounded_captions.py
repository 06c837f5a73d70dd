"""From logits and masks to captions that state facts, and their members of a model folder."""

from functools import partial

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from saved_models import SURE_LOGIT, edit_member, logits_of, squares, tiny_facts, tiny_phrasing

from rscc.facts.answers import ANSWERS, AROUND
from rscc.facts.fact_model import RULES, WEIGHTS, FactModel
from rscc.facts.grounded_captions import GroundedCaption, map_caption, picture_place
from rscc.facts.road_head import RoadEvidence
from rscc.text.change_facts import ChangeFacts


def test_a_picture_is_told_with_number_place_and_probability() -> None:
    logits = logits_of("came building", "around trees")
    caption = tiny_facts().picture_caption(logits, logits, squares(3), 0.8, gsd=0.5)
    assert isinstance(caption, GroundedCaption)
    assert caption.text == "some houses are built in the woods"
    assert caption.changed and caption.confident and caption.likelihood is None
    assert caption.facts.count == 3 and caption.facts.place == ("top", "left")
    assert set(caption.facts.came) == {"building"} and set(caption.facts.before) == {"trees"}
    assert caption.score == pytest.approx(0.8 / (1 + np.exp(-SURE_LOGIT)))
    assert caption.text not in caption.alternatives and len(set(caption.alternatives)) == 4


def test_a_change_on_a_map_is_certain() -> None:
    facts = ChangeFacts(came={"building": 0.9}, count=12, place=("north",))
    caption = map_caption(facts)
    assert caption.text == "About 10 houses were built in the north" and caption.score == pytest.approx(0.9)
    assert caption.confident and caption.facts == facts and caption.alternatives
    doubtful = map_caption(ChangeFacts(beside={"road": 0.9}))
    assert (doubtful.text, doubtful.score, doubtful.confident) == ("Something changed", 0.0, False)


def drawn(*rectangles: tuple[int, int, int, int]) -> np.ndarray:
    """A mask of 40 x 80 pixels with rectangles: top, bottom, left, right."""
    mask = np.zeros((40, 80), bool)
    for top, bottom, left, right in rectangles:
        mask[top:bottom, left:right] = True
    return mask


@pytest.mark.parametrize(
    ("mask", "place"),
    [
        (drawn(), ()),
        (drawn((0, 10, 0, 10)), ("top", "left")),
        (drawn((0, 10, 60, 70)), ("top", "right")),
        (drawn((30, 40, 0, 10)), ("bottom", "left")),
        (drawn((30, 40, 60, 70)), ("bottom", "right")),
        (drawn((0, 10, 0, 80)), ("top",)),
        (drawn((25, 40, 10, 70)), ("bottom",)),
        (drawn((0, 40, 0, 10)), ("left",)),
        (drawn((0, 40, 70, 80)), ("right",)),
        (drawn((15, 25, 30, 50)), ("middle",)),
        (drawn((0, 40, 0, 80)), ()),
        (drawn((0, 10, 0, 10), (30, 40, 70, 80)), ()),
        (drawn((0, 5, 0, 10), (10, 20, 0, 10), (30, 33, 0, 10)), ("left",)),
        (drawn((0, 18, 0, 10), (30, 32, 0, 10)), ("top", "left")),
    ],
)
def test_the_place_is_where_nearly_all_of_it_lies(mask, place) -> None:
    assert picture_place(mask) == place
    assert picture_place(mask[:, ::-1]) == tuple({"left": "right", "right": "left"}.get(w, w) for w in place)


# Members of a model folder.


@pytest.fixture
def folder(tmp_path):
    tiny_facts(tiny_phrasing()).save(tmp_path)
    return tmp_path


def said(model: FactModel) -> list[GroundedCaption]:
    names = ("came building", "gone building", "came road", "gone trees", "around trees", "around road")
    logits = [logits_of(*names[i : i + 3]) for i in range(len(names))]
    return [
        model.picture_caption(one, one, squares(count), 0.9, gsd=0.5) for one in logits for count in range(4)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("has_words", [True, False])
def test_what_is_saved_says_the_same(has_words, tmp_path) -> None:
    rows = np.random.default_rng(0).normal(size=(len(AROUND), len(AROUND) + 1))
    original = tiny_facts(tiny_phrasing() if has_words else None, around=tuple(map(tuple, rows.tolist())))
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    original.save(folders[0])
    loaded = FactModel.load(folders[0])
    assert loaded.rules == original.rules and not loaded.heads.training
    assert (loaded.phrasing is not None) == has_words
    assert said(loaded) == said(original)
    state = original.heads.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in loaded.heads.state_dict().items())
    loaded.save(folders[1])
    for name in (WEIGHTS, RULES):
        assert len({(folder / name).read_bytes() for folder in folders}) == 1


rules = partial(edit_member, RULES)


def without(name: str):
    def change(folder) -> None:
        state = load_file(folder / WEIGHTS)
        del state[name]
        save_file(state, folder / WEIGHTS)

    return change


DAMAGE = {
    "no rules": lambda folder: (folder / RULES).unlink(),
    "no weights": lambda folder: (folder / WEIGHTS).unlink(),
    "half the weights": lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:500]),
    "no JSON": lambda folder: (folder / RULES).write_text("{"),
    "no text": lambda folder: (folder / RULES).write_bytes(b"\xff\xfe\x00"),
    "a list": lambda folder: (folder / RULES).write_text("[]"),
    "no sizes": rules(sizes=...),
    "an unknown size": rules(sizes__depth=3),
    "a wrong size": rules(sizes__width=5),
    "too few slopes": rules(rules__slopes=[1.0] * (len(ANSWERS) - 1)),
    "too many thresholds": rules(rules__sure=[0.5] * (len(ANSWERS) + 1)),
    "offsets are words": rules(rules__offsets=["high"] * len(ANSWERS)),
    "offsets are a number": rules(rules__offsets=1.0),
    "too few rows of what is around": rules(rules__around=[[1.0] * 8] * 6),
    "a row of what is around too long": rules(rules__around=[[1.0] * 8] * 6 + [[1.0] * 9]),
    "other words": rules(phrasing__rarity={"a": 1.0}),
    "words without numbers": rules(phrasing__unseen="rare"),
    "words are a list": rules(phrasing__rarity=["a"]),
    "heads lack a layer": without("heads.project.weight"),
    "words lack their weights": without("phrasing.weights"),
    "words lack their scale": without("phrasing.scale"),
}
ERRORS = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, SafetensorError)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_members_raise(damage, folder) -> None:
    DAMAGE[damage](folder)
    with pytest.raises(ERRORS):
        FactModel.load(folder)


def test_what_lies_by_itself_is_stated_whatever_the_picture_says() -> None:
    """A road that was found needs no second look, and where it is what changed no building must have."""
    likely = float(np.log(0.2 / 0.8))
    logits = logits_of(came_building=likely, came_road=-2.0)
    nowhere, model = RoadEvidence(0.0, 0.0), tiny_facts()
    usual = model.picture_caption(logits, logits, squares(0), 0.9, gsd=0.5, roads=nowhere)
    assert set(usual.facts.came) == {"building"}, "something changed for certain"
    road = model.picture_caption(
        logits, logits, squares(0), 0.9, gsd=0.5, roads=nowhere, lone={"came road": 2.0}
    )
    assert road.facts.came == {"road": pytest.approx(1 / (1 + np.exp(-2.0)))}
    trees = model.picture_caption(
        logits, logits, squares(0), 0.9, gsd=0.5, roads=nowhere, lone={"gone trees": 2.0}
    )
    assert (set(trees.facts.came), set(trees.facts.gone)) == (set(), {"trees"})
    surer = logits_of("came road", "came building")
    both = model.picture_caption(surer, surer, squares(2), 0.9, gsd=0.5, lone={"came road": 2.0})
    assert both.facts.came["road"] == pytest.approx(1 / (1 + np.exp(-SURE_LOGIT)))
    assert both.facts.came["building"] > 0.9


@pytest.mark.parametrize(("gsd", "size"), [(0.5, "house"), (1.0, "building")])
def test_large_buildings_of_a_picture_are_told_by_square_metres(gsd, size) -> None:
    logits, mask = logits_of("came building"), squares(2, side=32)
    caption = tiny_facts().picture_caption(logits, logits, mask, 0.8, gsd=gsd)
    assert caption.facts.size == size, "1,024 pixels are 256 or 1,024 m2"
