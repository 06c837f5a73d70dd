"""The report of an evaluation as text and as JSON."""

import json

import pytest
from report_checks import cells_of
from training_runs import report_of, row_of

from rscc.evaluation.baselines import ALWAYS_NO_CHANGE, FREQUENT_CHANGE, TEMPLATE_BY_COUNT
from rscc.evaluation.score_rows import PEOPLE

pytest.importorskip("pycocoevalcap")


def tables_of(text, words="") -> list[str]:
    """The tables whose first line holds ``words``."""
    parts = [part for part in text.split("\n\n") if part.startswith("|")]
    return [part for part in parts if words in part.splitlines()[0]]


def test_objects_that_no_reference_names_are_counted_where_captions_speak_of_them(records, train) -> None:
    pytest.importorskip("spacy")
    report = report_of(records, train)
    found = row_of(report, "brightness", "all").objects
    assert (found.captions, found.wrong, found.by_class) == (2, 1, {"building": 1}), "no villas among trees"
    assert row_of(report, "brightness", "unchanged").objects.captions == 0
    assert "50.0" in tables_of(report.as_text(), "objects no reference names")[0]
    other = row_of(report_of(records, train, dataset="spot_the_diff"), "brightness", "all")
    assert other.objects is None
    assert "hallucination_rate" not in other.intervals


def test_facts_of_changed_pairs_stand_beside_those_of_people_and_of_counting(records, train) -> None:
    """The captioner says "two villas are built" of new villas and of felled trees."""
    pytest.importorskip("spacy")
    report = report_of(records, train)
    facts, classes = tables_of(report.as_text(), "objects P")
    lines = cells_of(facts)
    assert lines[0][:2] == ["facts of 2 changed pairs", "direction, %"]
    rows = {line[0]: line[1:] for line in lines[2:]}
    assert list(rows) == ["brightness", PEOPLE, TEMPLATE_BY_COUNT, ALWAYS_NO_CHANGE, FREQUENT_CHANGE]
    assert rows["brightness"][0].endswith("1 of 2") and rows[PEOPLE][0].endswith("6 of 6")
    assert rows["brightness"][-1] == "1" and rows[ALWAYS_NO_CHANGE][-1] == "1"
    assert rows["brightness"][2] == "–", "no word of place"
    assert [line[0] for line in cells_of(classes)[2:]] == ["building", "trees"]
    values = json.loads(json.dumps(report.as_dict()))["facts"]
    assert [one["name"] for one in values] == list(rows)
    assert values[0]["objects_by_class"]["building"]["right"] == 1
    assert values[0]["direction"]["interval"] == pytest.approx([0.0945, 0.9055], abs=1e-4)
