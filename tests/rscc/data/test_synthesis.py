import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from datasets import (
    NUMBERS,
    add_houses,
    edit_json,
    ground,
    number_word,
    sentences,
    write_image,
    write_index,
    write_levir_cc,
    write_single_date,
)
from scene_pairs import run_here
from scipy import ndimage
from stored import assert_as_stored

from rscc.data.augmentation import random_crop
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import PairSample, read_pair, truly_changed
from rscc.data.synthesis import blending, suburbs
from rscc.data.synthesis.blending import SOFT, SOLID, insert_building, remove_building
from rscc.data.synthesis.folder import write_synthesis
from rscc.data.synthesis.grammar import Grammar, describe_mask
from rscc.data.synthesis.imagery import Imagery
from rscc.data.synthesis.suburbs import Synthesis, SynthesisOptions, SyntheticPair
from rscc.text.no_change import NO_CHANGE_SENTENCES

OPTIONS = SynthesisOptions(crops=10, unchanged=4, insertions=4, removals=4, seed=3)
BUILT = (
    ("a house appears in the upper left corner", "a house is built on the left", "one house appears"),
    ("some houses are built", "several small buildings appear at the bottom", "two villas are constructed"),
    ("many trees are removed", "a shed is removed and many houses are built", "the trees disappear"),
)
MASK_ROWS = (
    ("some", "a.png", "train", 0.5, "flip"),
    ("some", "b.png", "train", 0.5, "flip+colour"),
    ("some", "c.png", "val", 0.5, ""),
    ("some", "d.png", "train", 2.0, ""),
    ("some", "e.png", "train", 0.5, ""),
    ("other", "f.png", "train", 0.5, ""),
)


def write_captions(root: Path) -> Path:
    """Write captioned pairs whose sentences a grammar can be learned from."""

    def build(content) -> None:
        for number, entry in enumerate(content["images"]):
            if entry["changeflag"]:
                words = BUILT[number // 2 % len(BUILT)] if entry["split"] == "train" else ("a pond appears",)
                entry["sentences"] = sentences(words)

    edit_json(write_levir_cc(root) / "LevirCCcaptions.json", build)
    return root


def write_masks(root: Path) -> Path:
    """Write pairs with change masks; ``e.png`` has no change."""
    size = 320
    write_index(
        root, "dataset,file,split,gsd_m,augmented,width,height", [(*row, size, size) for row in MASK_ROWS]
    )
    for number, (_, name, *_) in enumerate(MASK_ROWS):
        rng = np.random.default_rng(number)
        before = ground(rng, size, size)
        after = np.clip(before.astype(int) + rng.integers(-4, 5, before.shape), 0, 255).astype(np.uint8)
        mask = add_houses(after, rng, 0 if name == "e.png" else 8, 24)
        for part, array in (("A", before), ("B", after), ("label", mask.astype(np.uint8) * 255)):
            write_image(root / part / name, array)
    return root


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("sources")
    return {
        "data": write_captions(root / "captions"),
        "masks": write_masks(root / "masks"),
        "single_date": write_single_date(root / "single"),
    }


@pytest.fixture(scope="module")
def sources(folders: dict[str, Path]) -> Imagery:
    return Imagery(**folders, mask_datasets=("some",))


@pytest.fixture(scope="module")
def grammar(sources: Imagery) -> Grammar:
    return Grammar.learn(c for record in sources.captioned if record.changed for c in record.captions)


@pytest.fixture(scope="module")
def made(sources: Imagery, grammar: Grammar) -> list[SyntheticPair]:
    return list(Synthesis(sources, grammar, OPTIONS).pairs())


@pytest.fixture(scope="module")
def written(made: list[SyntheticPair], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out") / "synthetic"
    write_synthesis(made, folder, OPTIONS, sources={"data": "captions"}, command="rscc synthesize")
    return folder


@pytest.mark.slow
def test_every_kind_is_made_in_its_number(made: list[SyntheticPair]) -> None:
    kinds = [pair.kind for pair in made]
    assert sum(kind.startswith("crop") for kind in kinds) == 10
    assert [kinds.count(kind) for kind in ("unchanged", "insertion", "removal")] == [4, 4, 4]
    assert kinds.count("crop_alike") <= 2 and {"crop", "crop_reversed"} <= set(kinds)
    for pair in made:
        assert pair.sample.before.shape == pair.sample.after.shape == (3, 256, 256)
        assert pair.sample.before.dtype == np.uint8
        if pair.kind == "unchanged":
            assert not np.array_equal(pair.sample.before, pair.sample.after)
            assert not pair.sample.mask.any() and pair.sample.changed is False


@pytest.mark.slow
def test_the_folder_is_read_as_levir_cc(written: Path, made: list[SyntheticPair]) -> None:
    records = LevirCC(written, "train")
    assert len(records) == len(made)
    for record, pair in zip(records, made, strict=True):
        seen = read_pair(record)
        np.testing.assert_array_equal(seen.before, pair.sample.before)
        np.testing.assert_array_equal(seen.after, pair.sample.after)
        np.testing.assert_array_equal(seen.mask, pair.sample.mask)
        assert (seen.captions, seen.changed) == (pair.sample.captions, pair.sample.changed)
    entry = json.loads((written / "LevirCCcaptions.json").read_text())["images"][0]
    assert entry["gsd"] == 0.5 and entry["kind"] == made[0].kind and entry["split"] == "train"


@pytest.mark.slow
def test_pairs_are_as_stored(made: list[SyntheticPair]) -> None:
    found = {}
    for number, pair in enumerate(made):
        one = pair.sample
        means = [float(one.before.mean()), float(one.after.mean()), float(one.mask.mean())]
        found[str(number)] = [pair.kind, pair.sources, one.id, one.captions, one.changed, *means]
    assert_as_stored("synthesis", found, rel=1e-3)


def test_captions_agree_with_the_masks(written: Path) -> None:
    removals = {"crop_reversed", "removal"}
    for record in LevirCC(written, "train"):
        mask = read_pair(record).mask
        if not truly_changed(record):
            assert not mask.any() and record.captions == NO_CHANGE_SENTENCES
            continue
        found = describe_mask(mask)
        for caption in record.captions:
            least, most = NUMBERS[number_word(caption)]
            assert least <= found.count <= most, (record.id, caption)
            for word, region in (("left", "left"), ("upper", "top"), ("bottom", "bottom")):
                assert word not in caption or any(region in place.split() for place in found.regions)
            gone = "removed" in caption or "disappear" in caption
            assert gone == (record.kind in removals), caption


def test_buildings_are_there_when_the_caption_says_so(made: list[SyntheticPair]) -> None:
    """Where the mask is, one date shows a roof of one colour and the other the noise of open ground."""
    for pair in made:
        if not pair.sample.changed:
            continue
        mask = pair.sample.mask
        before, after = (
            np.abs(np.diff(a.astype(int), axis=2)) for a in (pair.sample.before, pair.sample.after)
        )
        inner = mask[:, 1:] & mask[:, :-1]
        roof, open_ground = (after, before) if pair.kind in ("crop", "insertion") else (before, after)
        if pair.kind.startswith("crop"):  # the others have a blur or a compression of their own
            assert roof[:, inner].mean() < open_ground[:, inner].mean() - 0.3
        change = (pair.sample.after.astype(int) - pair.sample.before).mean(0)
        change = np.abs(change - np.median(change[~mask]))
        assert change[mask].mean() > change[~mask].mean() + 5, pair.kind


def test_only_training_pairs_of_the_named_collection_are_used(
    made: list[SyntheticPair], sources: Imagery
) -> None:
    assert {record.id for record in sources.pairs} == {"a.png", "b.png", "e.png"}
    assert [sources.natural(record) for record in sources.pairs] == [True, False, True]
    assert {record.before.parent.parent.name for record in sources.captioned} == {"train"}
    used = {name for pair in made for name in pair.sources}
    assert not used & {"c.png", "d.png", "f.png"}
    assert not any(name.startswith(("val_", "test_")) for name in used)
    assert not any("pond" in caption for pair in made for caption in pair.sample.captions)
    assert all("b.png" not in pair.sources for pair in made if pair.kind == "crop_alike")


def test_the_seed_decides(sources: Imagery, grammar: Grammar, made: list[SyntheticPair]) -> None:
    again = list(Synthesis(sources, grammar, replace(OPTIONS, insertions=1, removals=1)).pairs())
    for one, other in zip(again[:15], made[:15], strict=True):
        assert replace(one, sample=None) == replace(other, sample=None)
        assert one.sample.captions == other.sample.captions
        np.testing.assert_array_equal(one.sample.after, other.sample.after)
    fewer = SynthesisOptions(crops=2, unchanged=1, insertions=0, removals=0, seed=4)
    others = zip(Synthesis(sources, grammar, fewer).pairs(), made, strict=False)
    assert any(not np.array_equal(one.sample.before, other.sample.before) for one, other in others)


def test_bad_input_gives_one_line(folders, tmp_path: Path, capsys) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    data = ("--data", folders["data"], "-o", tmp_path / "out")
    wrong = (
        (("--data", empty, "-o", tmp_path / "out"), "LevirCCcaptions.json"),
        (data, "--masks"),
        ((*data, "--masks", empty), "index.csv"),
        ((*data, "--masks", folders["masks"]), "levir_cd"),
        ((*data, "--single-date", empty), "index.csv"),
        ((*data, "--crops", 0, "--unchanged", 0, "--insertions", 0, "--removals", 0), "pair"),
    )
    for arguments, expected in wrong:
        code, _, error = run_here(capsys, "synthesize", *arguments)
        assert code == 2 and expected in error and error.count("\n") == 1, error
    assert list(tmp_path.iterdir()) == [empty]


def test_ground_that_covers_a_building_gets_the_light_of_its_place():
    """The meadow in the west is a little darker than that in the east, where the building stood."""
    rng = np.random.default_rng(0)
    image = rng.integers(90, 111, (3, 80, 160)).astype(np.uint8)
    image[:, :, 80:] += 10
    building, meadow = np.zeros((2, 80, 160), bool)
    building[34:46, 114:126] = True
    meadow[:, :70] = True
    image[:, building] = 220
    covered = remove_building(image, meadow, building, rng)
    assert covered is not None and (covered.mask == building).all()
    around = (covered.alpha > 0) & ~building
    assert covered.image[:, around].mean() == pytest.approx(110, abs=2)
    assert covered.image[:, building].mean() > 102


def test_a_building_brings_the_ground_around_it_and_takes_the_light_of_its_new_place():
    """A roof is half as bright again as its meadow, here and there."""
    rng = np.random.default_rng(0)
    target, donor = (rng.integers(grey - 5, grey + 6, (3, 96, 96)).astype(np.uint8) for grey in (90, 120))
    building, everywhere = np.zeros((96, 96), bool), np.ones((96, 96), bool)
    building[40:56, 40:56] = True
    donor[:, building] = 180
    made = insert_building(target, everywhere, donor, building, rng)
    assert made is not None
    assert insert_building(target[:, :9], everywhere[:9], donor, building, rng) is None
    assert made.image[:, made.mask].mean() == pytest.approx(135, abs=4)
    distance = ndimage.distance_transform_edt(~made.mask)
    assert (made.alpha[distance <= SOLID] == 1).all() and not made.alpha[distance >= SOLID + SOFT].any()
    assert made.image[:, (distance > 0) & (made.alpha > 0)].mean() == pytest.approx(90, abs=3)


@pytest.mark.parametrize("gsd", [0.25, 1.0])
def test_an_unchanged_pair_shows_as_much_ground_as_others(
    sources: Imagery, grammar: Grammar, monkeypatch: pytest.MonkeyPatch, gsd: float
) -> None:
    record, _ = sources.draw_scene(np.random.default_rng(0))
    sides: list[int] = []

    def cut(sample: PairSample, side: int, size: int, rng: np.random.Generator) -> PairSample:
        sides.append(side)
        return random_crop(sample, side, size, rng)

    monkeypatch.setattr(suburbs, "random_crop", cut)
    monkeypatch.setattr(sources, "draw_scene", lambda rng: (record, gsd))
    assert Synthesis(sources, grammar, OPTIONS).unchanged(np.random.default_rng(1)) is not None
    assert sides == [128 / gsd], "256 pixels of half a metre"


def test_pairs_are_made_of_training_imagery_alone(sources: Imagery) -> None:
    drawn = {Path(sources.draw_pair(np.random.default_rng(seed)).id).name for seed in range(60)}
    assert drawn == {"a.png", "b.png", "e.png"}


def test_a_building_is_put_where_its_own_outline_fits() -> None:
    shape = np.array([[1, 0, 0], [1, 0, 0], [1, 1, 1]], np.float32)
    ground = np.zeros((8, 8), bool)
    ground[3:6, 2:5] = shape > 0
    assert blending._places(ground, shape, np.random.default_rng(0)) == [(3, 2)]
