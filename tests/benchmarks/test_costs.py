"""What benchmarks of cost and gain measure, on the smallest input; the figures are for who runs them."""

import json
from itertools import pairwise

import finetuning_gain
import page_start
import pytest
import start
import words_cost
from fakes import BrightnessCaptioner
from levir_cc_fixture import write_levir_cc
from scene_pairs import SPOTS, make_pair

from rscc.data.benchmarks.levir_cc import LevirCC
from workflows import SceneOptions


def test_the_cost_of_words_is_told_of_changes_and_crops(tmp_path):
    pair = make_pair(tmp_path, SPOTS, size=(256, 256))
    options = SceneOptions(group_distance=0)
    seconds, changes, crops = words_cost.timed(pair.before, pair.after, BrightnessCaptioner(), options)
    assert len(seconds) == 3 and min(seconds) > 0
    assert changes == 3 and crops >= changes


@pytest.mark.slow
def test_every_part_of_a_short_run_takes_time_and_none_is_counted_twice(tmp_path, monkeypatch, repository):
    monkeypatch.setenv("PYTHONPATH", str(repository))
    pair = make_pair(tmp_path, [], size=(64, 64))
    seconds = start.one_round(pair.before, pair.after, "rscc-small")
    assert set(seconds) == set(start.PARTS)
    # The end of the process has what the others leave of the whole.
    assert all(wall > 0 and processor >= 0 for wall, processor in seconds.values())
    assert start.table([seconds]).splitlines()[-1].startswith("| whole |")


def test_invented_changes_lie_apart_on_the_common_ground(tmp_path):
    pair = make_pair(tmp_path, SPOTS, size=(200, 300))
    report = page_start.invented(pair.before, pair.after, 24)
    assert [one.id for one in report.changes] == list(range(1, 25))
    outlines = [one.geometry for one in report.changes]
    assert all(outline.is_valid for outline in outlines)
    assert not any(one.intersects(other) for one, other in pairwise(outlines))


@pytest.mark.parametrize("surest", [range(0, 60, 3), range(60)])
def test_no_place_is_both_learnt_from_and_tested_on(surest, monkeypatch):
    entries = [{"filename": f"{n}.png", "levir_cd": {"image": f"tile{n // 10}"}} for n in range(60)]
    for n, entry in enumerate(entries):
        entry["trust"] = "pattern" if n in surest else ""
    monkeypatch.setattr(finetuning_gain, "FOR_TEST", 15)
    monkeypatch.setattr(finetuning_gain, "FOR_TUNING", 25)
    test, tuning = finetuning_gain.dealt(entries)
    assert len(test) == 2 and len(tuning) == 3 and not test & tuning


def test_a_folder_of_some_pairs_is_read_as_the_data(tmp_path):
    data = write_levir_cc(tmp_path / "data", train=6, val=1, test=1)
    entries = json.loads((data / finetuning_gain.ANNOTATIONS).read_text())["images"]
    own = [entry for entry in entries if entry["split"] == "train"]
    finetuning_gain.write_folder(data, tmp_path / "own", own[:4])
    records = LevirCC(tmp_path / "own", "train").records
    assert len(records) == 4 and all(record.before.is_file() for record in records)
