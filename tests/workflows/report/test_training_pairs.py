"""Reviewed changes as training pairs: true crops, masks and sentences, and no ground in both splits."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import shapely
from datasets import edit_json
from hypothesis import given
from hypothesis import strategies as st
from pages import made_report, square
from saved_models import saved_start
from scene_pairs import make_pair
from shapely.geometry import box
from tiny_models import tiny_model

from rscc.configs import load_config
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import read_pair
from rscc.errors import OutputExists
from rscc.text.no_change import NO_CHANGE_SENTENCES
from workflows.errors import NothingToExport, ReportInvalid
from workflows.report.training_pairs import export_pairs, sites_of

TILE, SIZE = 64, (256, 1024)
YES, PLACE, WORDS = "confirmed", "wrong place", "wrong words"


def marked(number, col, row, status, *, side=20, **values):
    return square(number, col, row, side, review_status=status, **values)


CHANGES = [
    marked(1, 40, 60, YES, caption="Two houses are built in the south-west.", place="south-west"),
    marked(
        2,
        64,
        70,
        WORDS,
        side=10,
        reviewer_caption="a POND was dug in the east of the field in the north-west",
        place="north",
    ),
    marked(3, 300, 100, PLACE),
    marked(4, 500, 100, PLACE),
    marked(5, 530, 110, YES, caption="Perhaps a road appears"),
    marked(6, 700, 100, None),
    marked(7, 726, 100, YES),
    marked(8, 780, 10, YES, side=80),
    marked(9, 900, 30, WORDS),
    marked(10, 950, 200, YES, caption="a road is built, in the centre", place="centre"),
]


def written(folder, changes, name="report.geojson", size=SIZE, tile=TILE, **run):
    """The report of changes on a pair of scenes, where the first change is bright."""
    folder.mkdir(exist_ok=True)
    pair = make_pair(folder, [(60, 40, 20, 20, 240)], size=size)
    made = made_report(pair, changes, tiling={"gsd": 0.5, "tile": tile}, **run)
    return made.write(folder / name)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    return export_pairs([written(folder / "scenes", CHANGES)], folder / "data")


def records(exported):
    """All pairs by their first caption."""
    both = [*LevirCC(exported.folder, "train"), *LevirCC(exported.folder, "val")]
    return {record.captions[0]: record for record in both}


def test_what_people_judged_becomes_pairs_and_the_rest_is_told(exported):
    made = records(exported)
    assert set(made) == {
        "two houses are built.", "a pond was dug in the east of the field", "a road appears",
        "a road is built", NO_CHANGE_SENTENCES[0],
    }  # fmt: skip
    assert made[NO_CHANGE_SENTENCES[0]].captions == NO_CHANGE_SENTENCES
    assert [record.changed for record in made.values()].count(False) == 1
    assert exported.left_out == {
        "in the wrong place, but beside true changes": 1,
        "beside changes without a verdict": 1,
        "larger than a crop": 1,
        "in the wrong words, without the right ones": 1,
    }
    record = json.loads((exported.folder / "record.json").read_text())
    assert record["left_out"] == exported.left_out and record["places"] == exported.places == 4
    assert sum(map(sum, exported.splits.values())) == len(made) == 5


def test_what_a_person_drew_is_learnt_from_if_it_has_words(tmp_path):
    drawn = (marked(n, 200 * n, 100, None) for n in (2, 3))
    changes = [marked(1, 40, 60, YES), *drawn, marked(4, 900, 30, PLACE)]
    path = written(tmp_path, changes)

    def draw(content):
        for feature, words in zip(content["features"][1:3], ("a shed is built", None), strict=True):
            feature["properties"] = {"caption": words}

    edit_json(path, draw)
    exported = export_pairs([path], tmp_path / "data")
    assert set(records(exported)) == {"house 1 is built", "a shed is built", NO_CHANGE_SENTENCES[0]}
    assert exported.left_out == {"in the wrong words, without the right ones": 1}


def test_crops_are_centred_and_masks_are_the_outlines_of_true_changes(exported):
    made = records(exported)
    data = LevirCC(exported.folder, "train")
    pairs = {caption: read_pair(record) for caption, record in made.items()}
    houses = pairs["two houses are built."]
    assert houses.before.shape == (3, TILE, TILE) and made["a road appears"].gsd == data[0].gsd == 0.5
    # Centred on columns 40 to 60 and rows 60 to 80 of the scene; beside it the change in the wrong words.
    bright = houses.after.min(axis=0) == 240
    assert np.argwhere(bright).min(axis=0).tolist() == [22, 22] and bright.sum() == 400
    wanted = bright.copy()
    wanted[32:42, 46:56] = True
    assert (houses.mask == wanted).all()
    assert pairs["a road appears"].mask.sum() == 400, "what is in the wrong place is not in the mask"
    assert not pairs[NO_CHANGE_SENTENCES[0]].mask.any()


def test_crops_that_share_ground_are_one_place_and_on_one_side(exported):
    made = records(exported)
    assert made["two houses are built."].place == made["a pond was dug in the east of the field"].place
    assert len({record.place for record in made.values()}) == 4
    train, val = ({one.place for one in LevirCC(exported.folder, split)} for split in ("train", "val"))
    assert train and val and not train & val


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=25))
def test_places_share_no_ground(corners):
    grounds = [box(x, y, x + 5, y + 5) for x, y in corners]
    places = sites_of(grounds)
    joined = [
        shapely.union_all([ground for ground, its in zip(grounds, places, strict=True) if its == place])
        for place in sorted(set(places))
    ]
    assert all(not one.intersects(other) for n, one in enumerate(joined) for other in joined[:n])


@pytest.mark.slow
def test_what_makes_no_data_set_leaves_nothing_behind(tmp_path):
    alone = written(tmp_path / "scenes", CHANGES[:2])
    unmarked, large = written(tmp_path / "two", [CHANGES[5]]), written(tmp_path / "three", [CHANGES[7]])
    sample = written(tmp_path / "four", CHANGES, sample={"changes": 99})
    odd = written(tmp_path / "five", CHANGES, tile=10**400)
    for reports, error in (
        ([alone], NothingToExport),
        ([unmarked], NothingToExport),
        ([large], NothingToExport),
        ([sample], ReportInvalid),
        ([alone, odd], ReportInvalid),
    ):
        with pytest.raises(error):
            export_pairs(reports, tmp_path / "data")
    assert {path.name for path in tmp_path.iterdir()} == {"scenes", "two", "three", "four", "five"}
    with pytest.raises(OutputExists):
        export_pairs([alone], tmp_path / "scenes")


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_registered")
def test_a_model_takes_a_step_on_what_was_exported(tmp_path, monkeypatch):
    pytest.importorskip("pycocoevalcap")
    from rscc.training.train_model import train_model
    from rscc.training.training_run import RunPaths, finetuning_config, open_start

    verdicts = [YES, PLACE, YES, WORDS]
    changes = [
        marked(
            n + 1, 30 + 60 * (n % 8), 30 + 60 * (n // 8), verdicts[n % 4], reviewer_caption="a house appears"
        )
        for n in range(24)
    ]
    report = written(tmp_path / "scenes", changes, size=(256, 512), tile=32)
    data = export_pairs([report], tmp_path / "data")
    assert data.places == 24 and sum(data.splits["train"]) == 20
    start = saved_start(tmp_path / "start", tiny_model(seed=3), gsd=0.5, runs=[["same"], ["house"]])
    config = finetuning_config(load_config("finetune"), open_start(start))
    config = replace(config, train=replace(config.train, epochs=1, batch_size=64, bf16=False))
    lines: list[str] = []
    paths = RunPaths(data=data.folder, output=tmp_path / "run", start=str(start))
    made = train_model(config, paths, name="x", command="x", report=lines.append)
    assert made.path.is_dir()
    assert lines[0].startswith("pairs: 20 (") and "4 (" in lines[0] and "held out" not in lines[0]
