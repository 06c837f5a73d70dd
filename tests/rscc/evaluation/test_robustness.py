import numpy as np
import pytest
from PIL import Image
from training_runs import SIDE, BrightnessCaptioner

from rscc.data.pairs import PairRecord
from rscc.evaluation.robustness import describes_construction, measure_robustness
from rscc.evaluation.score_rows import Share
from rscc.structures import Caption

BUILT = ("two houses are built", "some houses appear on the bare land")
DARK, BRIGHT = 60, 200


@pytest.fixture
def records(tmp_path) -> list[PairRecord]:
    made = []
    for name, after, captions in (
        ("built", BRIGHT, BUILT),
        ("faint", DARK + 20, BUILT),
        ("gone", BRIGHT, ("the old house is removed",)),
        ("same", DARK, ("there is no difference",)),
    ):
        paths = [tmp_path / f"{name}_{date}.png" for date in (1, 2)]
        for path, value in zip(paths, (DARK, after), strict=True):
            Image.fromarray(np.full((24, 40, 3), value, np.uint8)).save(path)
        made.append(PairRecord(name, *paths, captions=captions, changed=name != "same"))
    return made


def test_pairs_shown_backwards_are_counted_by_their_words(records) -> None:
    found = measure_robustness(BrightnessCaptioner(), records, disturbances={})
    assert found.removal == found.still_changed == Share.of(1, 2), "the faint pair is not seen"
    blind = BrightnessCaptioner()
    blind.caption = lambda before, after, *, beams: [Caption("a house is built", 0.5, True)] * len(before)
    found = measure_robustness(blind, records, disturbances={})
    assert (found.removal, found.still_changed) == (Share.of(0, 2), Share.of(2, 2))


def test_each_date_stands_beside_itself_and_its_disturbed_self(records, monkeypatch) -> None:
    monkeypatch.setattr("rscc.evaluation.robustness.BATCH", 4)
    captioner = BrightnessCaptioner(changed_threshold=0.35)
    found = measure_robustness(
        captioner,
        records,
        disturbances={"none": lambda image, rng: image, "light": lambda image, rng: image // 2},
    )
    assert found.unchanged["none"] == Share.of(8, 8)
    assert found.unchanged["light"] == Share.of(5, 8), "half of 60 is no change, half of 80 and of 200 is one"
    assert found.all_unchanged == Share.of(13, 16)
    assert {shape[1:] for shape in captioner.shapes} == {(3, SIDE, SIDE)}
    assert max(shape[0] for shape in captioner.shapes) == 4


@pytest.mark.parametrize(
    ("captions", "construction"),
    [
        (("two houses are built", "a road appears beside the trees"), True),
        (("houses replace the trees",), True),
        (("two houses are built", "the old house is removed"), False),
        (("a house is built", "two houses are built", "some houses are built", "a road is removed"), False),
        (("many trees are removed",), False),
        (("there is no difference",), False),
        (("some trees appear", "a house is built", "more bushes appear"), False),
        ((), False),
    ],
)
def test_construction_only_is_told_by_the_references(captions, construction) -> None:
    assert describes_construction(captions) is construction
