from __future__ import annotations

import contextlib
import json
import re
import shutil
from dataclasses import asdict, replace
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from benchmark_fixtures import edit_json
from captioned import captioned
from fact_captioner import FactCaptioner
from fakes import BrightnessCaptioner
from scene_pairs import make_pair

from rscc.inference.fact_heads import COVERED
from rscc.inference.roads import BESIDE, NEW
from tiling import LocationUnsupported, NoOverlap, SceneNotFound
from workflows.errors import OptionInvalid, ReportInvalid
from workflows.inspection.event import read_event, shown
from workflows.inspection.event_text import event_text
from workflows.inspection.evidence import explain_event, shipped_model
from workflows.report import reading

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


def test_a_change_is_read_as_it_was_written(report):
    content = json.loads(report.read_text())
    for feature in content["features"]:
        event = read_event(report, feature["id"])
        assert event.change.properties() == feature["properties"]
        assert len(list(event.others())) == 2
    assert event.change.caption == "brightness 180 appears" and event.change.geometry.area > 0
    assert event.scenes() == ("a_2016.tif", "b_2019.tif")


def test_a_report_from_before_facts_is_read(report):
    new = {
        "count", "count_sure", "direction", "came", "gone", "before_cover", "median_m2", "changed_m2",
        "changed_back_m2", "changed_at_least", "caption_confident",
    }  # fmt: skip
    edit_json(report, lambda content: [content["features"][0]["properties"].pop(name) for name in new])
    change = read_event(report, 1).change
    assert change.direction is change.median_m2 is None
    assert change.came == () and change.caption_confident is True


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no JSON"),
        (b"BEFORE", "no JSON"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"type": NaN}', "no JSON"),
        (b'{"type": ' + b"9" * 10_000 + b"}", "no JSON"),
        (b"[1, 2]", "no GeoJSON"),
        (b'{"type": "FeatureCollection", "features": []}', "no report of rscc"),
        (b'{"type": "FeatureCollection", "rscc": {"inputs": 1}, "features": []}', "no report of rscc"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path, content, words):
    path = tmp_path / "x.geojson"
    path.write_bytes(content)
    with pytest.raises(ReportInvalid, match=rf"x\.geojson: .*{words}; give a \.geojson, \.gpkg or \.parquet"):
        read_event(path, 1)


def test_a_report_that_is_cut_off_anywhere_is_refused(report):
    text = report.read_text().rstrip()
    for kept in range(1, len(text), 7):
        report.write_text(text[:kept])
        with pytest.raises(ReportInvalid, match="is cut off"):
            read_event(report, 1)


def test_a_folder_an_archive_and_a_missing_file_are_told_apart(tmp_path):
    (tmp_path / "archive" / "pairs").mkdir(parents=True)
    for name, words in (
        ("archive", "is an archive; give the report of one of its pairs, .*/pairs/PAIR/changes.geojson"),
        ("archive/pairs", "is a folder"),
        ("none.geojson", "no such file"),
    ):
        with pytest.raises(ReportInvalid, match=words):
            read_event(tmp_path / name, 1)


def test_a_huge_file_is_not_read(report, monkeypatch):
    monkeypatch.setattr(reading, "LARGEST_BYTES", 100)
    with pytest.raises(ReportInvalid, match="MiB; reports are read up to"):
        read_event(report, 1)


def test_a_number_that_no_change_has(report):
    for number in (0, 4, -1):
        with pytest.raises(
            OptionInvalid, match=rf"no change {number} in it; it has 3 changes; give --id 1 to 3"
        ):
            read_event(report, number)
    edit_json(report, lambda content: content["features"].pop(1))
    with pytest.raises(OptionInvalid, match="it has 2 changes; give --id of one that is there, up to 3"):
        read_event(report, 2)
    edit_json(report, lambda content: content["features"].clear())
    with pytest.raises(OptionInvalid, match="it has no changes"):
        read_event(report, 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("caption", 5),
        ("alternatives", '["a road'),
        ("came", [1]),
        ("count", 1.5),
        ("count", True),
        ("score", "high"),
        ("area_m2", None),
        ("area_m2", 10**400),
        ("caption_confident", 1),
        ("place", ["north"]),
    ],
)
def test_a_damaged_attribute_is_named(report, name, value):
    set_attributes(report, 2, **{name: value})
    with pytest.raises(ReportInvalid, match=f"the attribute {name} of change 2 is damaged"):
        read_event(report, 2)


def test_a_verdict_is_read_as_people_type_it_and_another_word_is_refused(report):
    def typed(words):
        edit_json(report, lambda content: content["features"][1]["properties"].update(review_status=words))
        return read_event(report, 2).change.review_status

    assert [typed(words) for words in (" Wrong  Place ", "CONFIRMED", " ")] == [
        "wrong place",
        "confirmed",
        None,
    ]
    with pytest.raises(ReportInvalid, match=r"of change 2 is 'yes\\x1b'; make it one of confirmed, wrong"):
        typed("Yes\x1b")


def test_a_change_without_its_sentence_is_refused(report):
    edit_json(report, lambda content: content["features"][0]["properties"].pop("caption"))
    with pytest.raises(ReportInvalid, match="change 1 lacks attributes"):
        read_event(report, 1)


@pytest.mark.parametrize(
    "geometry",
    [
        None,
        {"type": "Polygon"},
        {"type": "Point", "coordinates": [1, 2]},
        {"type": "Polygon", "coordinates": [[["a", 1], [2, 3], [4, 5]]]},
        {"type": "Polygon", "coordinates": [[[0, 0], [1e300, 0], [0, 1], [0, 0]]]},
        {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [2, 2], [0, 0]]]},
    ],
)
def test_a_change_without_outlines_is_refused(report, geometry):
    edit_json(report, lambda content: content["features"][0].update(geometry=geometry))
    for number in (1, 2):  # it is a neighbour of the second
        with pytest.raises(ReportInvalid, match="change 1 has no outline in degrees"):
            explain_event(read_event(report, number), FactCaptioner())


def test_scenes_are_found_as_they_are_named_or_beside_the_report(report, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    event = read_event(Path("../changes.geojson"), 1)
    assert event.scenes() == ("../a_2016.tif", "../b_2019.tif")
    assert explain_event(event, FactCaptioner()).answers
    (tmp_path / "b_2019.tif").unlink()
    with pytest.raises(
        SceneNotFound, match=r"changes\.geojson: its scene b_2019\.tif is neither there nor.* AFTER"
    ):
        event.scenes()


def test_scenes_are_found_in_the_folder_of_the_report_after_all_of_them_moved(report, tmp_path):
    set_record(report, "inputs", "after", path=str(tmp_path / "that_was" / "b_2019.tif"))
    assert read_event(report, 1).scenes() == ("a_2016.tif", "b_2019.tif")


@pytest.mark.parametrize("path", [None, "", 7, "a\x1b[2J.tif", "a\n.tif", "\u202efit.a", "a\0.tif"])
def test_a_name_of_a_scene_that_cannot_be_shown_is_not_followed(report, path):
    set_record(report, "inputs", "after", path=path)
    with pytest.raises(ReportInvalid, match="names no scene after"):
        read_event(report, 1).scenes()


def test_no_file_system_of_gdal_is_reached_by_a_report(report):
    set_record(report, "inputs", "after", path="/vsistdin/x")
    with pytest.raises(LocationUnsupported):
        read_event(report, 1).scenes()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bands", "RGB"),
        ("bands", [1, 2]),
        ("bands", [1, 2, "\x1b"]),
        ("bounds", [1, 2, 3]),
        ("gsd", -1),
        ("gsd", "fine"),
        ("scale", [3, 1]),
        ("align", 1),
        ("frame", "after"),
        ("frame", ["before"]),
    ],
)
def test_settings_that_no_run_has_are_refused(report, name, value):
    set_record(report, "settings", **{name: value})
    with pytest.raises(ReportInvalid, match=rf"changes\.geojson: .*setting.*\b{name} is"):
        read_event(report, 1).options()


def test_the_settings_are_those_of_the_report(report):
    settings = {"bands": [3, 2, 1], "gsd": 1.0, "scale": [0, 250.5], "force": True, "memory": "everything"}
    set_record(report, "settings", **settings)
    options = read_event(report, 1).options()
    assert (options.bands, options.gsd, options.scale, options.force) == ((3, 2, 1), 1.0, (0, 250.5), True)
    assert options.memory is None


def test_every_answer_is_shown_with_what_it_takes_to_be_stated(report):
    set_attributes(report, 1, came=["road", "building"], before_cover=["grass"])
    explained = explain_event(read_event(report, 1), FactCaptioner())
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
    explained = explain_event(read_event(report, 1), FactCaptioner(roads=(-4.0, 1.0)))
    near, new = explained.answers[-2:]
    assert (near.kind, near.name, near.stated) == ("near", "road", None)
    assert (new.kind, new.name, new.stated) == ("new near", "road", True)
    assert (near.least, new.least) == (BESIDE, NEW)
    assert near.probability == pytest.approx(1 / (1 + np.exp(-1)), abs=1e-3)
    assert near.probability > new.probability > near.probability * 0.95
    text = event_text(explained.as_dict())
    assert re.search(r"^is near +road +0\.73 +0\.50 +-$", text, re.MULTILINE)
    assert re.search(r"^is new near +road +0\.72 +0\.30 +yes$", text, re.MULTILINE)


def test_a_building_has_the_probability_that_its_statement_rests_on(report):
    captioner = FactCaptioner()
    answers = answers_of(explain_event(read_event(report, 1), captioner))
    logits = captioner.survey(*np.zeros((2, 1, 3, 64, 64), np.uint8))[1][0, :, 0, 0]
    facts = captioner.facts.rules.facts(logits, known=True)
    # 0.40 and 0.10 of all pairs, and one of both is sure of a change.
    assert answers["came building"].probability == pytest.approx(facts.came["building"])
    assert answers["came building"].probability > 0.75 and "building" not in facts.gone


def test_a_change_that_no_tile_sees_whole_has_one_answer(report):
    captioner = FactCaptioner()
    explained = explain_event(read_event(report, 3), captioner)
    assert captioner.surveyed > 2
    value = answers_of(explained)["around road"].probability
    # Its brightness after is 250 of 255, that of the ground 100.
    assert 1 / (1 + np.exp(-1.0)) < value < 1 / (1 + np.exp(-2.5))


def test_a_change_elsewhere_is_refused(report, tmp_path):
    far = make_pair(tmp_path, [], origin=(510_000.0, 5_600_000.0), names=("c.tif", "d.tif"))
    with pytest.raises(
        NoOverlap, match=r"change 1 does not lie on the ground that .*c\.tif and .*d\.tif both"
    ):
        explain_event(read_event(report, 1), FactCaptioner(), (str(far.before), str(far.after)))


def test_other_weights_and_other_scenes_are_told(report, tmp_path):
    smaller = make_pair(tmp_path, [FIRST], size=(140, 200), names=("c.tif", "d.tif"))
    set_record(report, "model", weights_sha256="1" * 64)
    scenes = (str(smaller.before), str(smaller.after))
    warnings = explain_event(read_event(report, 1), FactCaptioner(), scenes).warnings
    assert len(warnings) == 2
    assert "other weights than those of brightness 1.2.3" in warnings[0]
    assert "the scenes share 200 x 140 pixels" in warnings[1]


def test_a_model_without_facts_leaves_the_evidence_out(report):
    captioner = BrightnessCaptioner()
    explained = explain_event(read_event(report, 1), captioner)
    assert explained.answers is None and explained.reason == "brightness 1.2.3 has no fact heads"
    assert captioner.shapes == []
    assert explained.as_dict()["evidence"] is None


def test_a_report_names_shipped_models_only(report, tmp_path):
    for name in ("rscc-base", str(tmp_path), "../rscc-base", ["rscc-base"], None):
        set_record(report, "model", name=name)
        assert shipped_model(read_event(report, 1)) == ("rscc-base" if name == "rscc-base" else None)


def test_the_text_says_the_sentence_of_the_report_first_and_every_fact(report):
    set_attributes(
        report, 1, caption="two houses are built", direction="appeared", came=["building"], count=2,
        before_cover=["trees"], reviewer_caption="a barn is built", changed_m2=20000.0, changed_back_m2=300.0,
    )  # fmt: skip
    event = read_event(report, 1)
    event = replace(event, change=replace(event.change, area_m2=12345.0))
    facts = explain_event(event, FactCaptioner()).as_dict()
    lines = event_text(facts).splitlines()
    assert lines[0] == "two houses are built"
    for line in (
        "direction     appeared",
        "came          building",
        "is gone       nothing that is sure",
        "ground before trees",
        "objects       2",
        "area          12,345 m2 (1.23 ha)",
        "of it changed 20,000 m2 (2.00 ha)",
        "and back      300 m2",
        "dates         2016 to 2019",
        "scenes        a_2016.tif -> b_2019.tif",
        "report        changes.geojson, change 1",
        "right words   a barn is built",
    ):
        assert line in lines
    (building,) = [line for line in lines if line.startswith("came          building ")]
    assert building.split() == ["came", "building", "0.80", "0.70", "yes"]
    (water,) = [line for line in lines if "water" in line]
    assert water.split() == ["stands", "there", "water", "-", "never", "-"]
    assert [one["probability"] for one in facts["evidence"] if one["name"] == "water"] == [None]
    set_attributes(report, 1, caption_confident=False)
    assert "too little is sure" in event_text(explain_event(read_event(report, 1), None).as_dict())


def test_nothing_in_a_report_steers_a_terminal(report):
    set_attributes(
        report, 1, caption="a\x1b[2J\nb\u202e\x9b", alternatives=["\x07"], model="\x1b]0;x\x07", came=["\r"]
    )
    text = event_text(explain_event(read_event(report, 1), None).as_dict())
    assert text.splitlines()[0] == r"a\x1b[2J\nb\u202e\x9b"
    assert all(line.isprintable() for line in text.split("\n"))
    assert shown("площадь 100 m²") == "площадь 100 m²"
