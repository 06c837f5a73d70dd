from __future__ import annotations

import contextlib
import re
import shutil
from dataclasses import asdict, replace
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from captioners import FactCaptioner, captioned, kept
from datasets import edit_json
from scene_pairs import make_pair

from rscc.facts.road_head import BESIDE, NEW
from rscc.facts.rules import COVERED
from tiling import NoOverlap
from workflows.cli.explain import explanation_text
from workflows.printable import printable
from workflows.report.reading import open_report
from workflows.scene.explain import explain_change, shipped_model

# Row, column, height, width, brightness after; from north to south, so that ids are 1, 2, 3. The second
# stands in the crop of the first.
FIRST, SECOND, WIDE = (40, 100, 12, 20, 220), (60, 110, 14, 14, 240), (116, 10, 20, 180, 180)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with two scenes and a report on three changes that names them as they are called in there."""
    folder = tmp_path_factory.mktemp("made")
    make_pair(folder, [FIRST, SECOND, WIDE], names=("a_2016.tif", "b_2019.tif"))
    pair = type("Named", (), {"before": "a_2016.tif", "after": "b_2019.tif"})
    with contextlib.chdir(folder):
        captioned(pair, group_distance=0).write("changes.geojson")
    return folder


@pytest.fixture
def report(made, tmp_path, monkeypatch):
    """The file of the report in the current folder, a copy of that folder."""
    monkeypatch.chdir(shutil.copytree(made, tmp_path, dirs_exist_ok=True))
    return Path("changes.geojson")


def set_attributes(report, number, **values):
    edit_json(report, lambda content: content["features"][number - 1]["properties"].update(values))


def set_record(report, *members, **values):
    """Write values into the part of the run record that ``members`` lead to."""
    edit_json(report, lambda content: reduce(dict.get, members, content["rscc"]).update(values))


def answers_of(explained):
    return {f"{answer.kind} {answer.name}": answer for answer in explained.answers}


def test_every_answer_is_shown_with_what_it_takes_to_be_stated(report):
    set_attributes(report, 1, came=["road", "building"], before_cover=["grass"])
    explained = explain_change(open_report(report), 1, FactCaptioner)
    answers = answers_of(explained)
    assert len(answers) == 15 + 3  # water is not known
    assert answers["came road"].probability == pytest.approx(1 / (1 + np.exp(-3)))
    stated = [answers[name].stated for name in ("came road", "gone road", "covered grass")]
    assert stated == [True, False, True]
    share = 1 / (1 + np.exp(2))
    assert asdict(answers["covered trees"]) == {
        "kind": "covered", "name": "trees", "probability": pytest.approx(share, abs=1e-3), "least": COVERED,
        "stated": False,
    }  # fmt: skip
    assert (answers["around trees"].least, answers["around trees"].stated) == (0.9, None)
    assert answers["around water"].least is None and answers["around road"].stated is None
    assert explained.model == "brightness 1.2.3" and explained.reason is None and explained.warnings == ()


def test_the_roads_near_a_change_are_shown_with_what_it_takes_to_be_stated(report):
    set_attributes(report, 1, came=["road", "building"])
    explained = explain_change(open_report(report), 1, lambda: FactCaptioner(roads=(-4.0, 1.0)))
    near, new = explained.answers[-2:]
    assert (near.kind, near.name, near.stated) == ("near", "road", None)
    assert (new.kind, new.name, new.stated) == ("new near", "road", True)
    assert (near.least, new.least) == (BESIDE, NEW)
    assert near.probability == pytest.approx(1 / (1 + np.exp(-1)), abs=1e-3)
    assert near.probability > new.probability > near.probability * 0.95
    text = explanation_text(explained.as_dict())
    assert re.search(r"^road nearby +road +0\.73 +0\.50 +-$", text, re.MULTILINE)
    assert re.search(r"^new road nearby +road +0\.72 +0\.30 +yes$", text, re.MULTILINE)


def test_a_change_that_no_tile_sees_whole_has_one_answer(report):
    captioner = FactCaptioner()
    explained = explain_change(open_report(report), 3, lambda: captioner)
    assert captioner.surveyed > 2
    value = answers_of(explained)["around road"].probability
    # Its brightness after is 250 of 255, that of the ground 100.
    assert 1 / (1 + np.exp(-1.0)) < value < 1 / (1 + np.exp(-2.5))


def test_a_change_elsewhere_is_refused(report, tmp_path):
    far = make_pair(tmp_path, [], origin=(510_000.0, 5_600_000.0), names=("c.tif", "d.tif"))
    with pytest.raises(NoOverlap):
        explain_change(replace(open_report(report), scenes=(far.before, far.after)), 1, FactCaptioner)


def test_other_weights_and_other_scenes_are_told(report, tmp_path):
    smaller = make_pair(tmp_path, [FIRST], size=(140, 200), names=("c.tif", "d.tif"))
    set_record(report, "model", weights_sha256="1" * 64)
    scenes = (str(smaller.before), str(smaller.after))
    warnings = explain_change(replace(open_report(report), scenes=scenes), 1, FactCaptioner).warnings
    assert len(warnings) == 2
    assert "other weights than those of brightness 1.2.3" in warnings[0]
    assert "the scenes share 200 x 140 pixels" in warnings[1]


@pytest.mark.slow
def test_maps_give_the_evidence_without_scenes_and_network(tmp_path):
    """The same evidence as the ground around the change detected again."""
    pair = make_pair(tmp_path, [FIRST, SECOND, WIDE])
    captioner = FactCaptioner(roads=(-4.0, 1.0))
    report, _ = kept(pair, tmp_path, captioner, group_distance=0)
    without = replace(report, run={**report.run, "maps": None})
    for change in report.changes:
        again = explain_change(without, change.id, lambda: FactCaptioner(roads=(-4.0, 1.0)))
        found = explain_change(report, change.id)
        assert found.change.caption == again.change.caption == change.caption
        assert [asdict(answer) for answer in found.answers] == [asdict(answer) for answer in again.answers]
    pair.before.unlink()
    assert explain_change(report, 1).answers == explain_change(report, 1, maps=tmp_path / "maps").answers


def test_a_report_names_shipped_models_only(report, tmp_path):
    for name in ("rscc-base", str(tmp_path), "../rscc-base", ["rscc-base"], None):
        set_record(report, "model", name=name)
        assert shipped_model(open_report(report)) == ("rscc-base" if name == "rscc-base" else None)


def test_nothing_in_a_report_steers_a_terminal(report):
    set_attributes(
        report, 1, caption="a\x1b[2J\nb\u202e\x9b", alternatives=["\x07"], model="\x1b]0;x\x07", came=["\r"]
    )
    text = explanation_text(explain_change(open_report(report), 1).as_dict())
    assert text.splitlines()[0] == r"a\x1b[2J\nb\u202e\x9b"
    assert all(line.isprintable() for line in text.split("\n"))
    assert printable("площадь 100 m²") == "площадь 100 m²"
