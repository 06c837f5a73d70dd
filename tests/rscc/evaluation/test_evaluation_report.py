"""The report of an evaluation as text."""

import pytest
from training_runs import report_of, row_of

pytest.importorskip("pycocoevalcap")


def test_objects_that_no_reference_names_are_counted_where_captions_speak_of_them(records, train) -> None:
    pytest.importorskip("spacy")
    report = report_of(records, train)
    found = row_of(report, "brightness", "all").objects
    assert (found.captions, found.wrong, found.by_class) == (2, 1, {"building": 1}), "no villas among trees"
    assert row_of(report, "brightness", "unchanged").objects.captions == 0
    (table,) = (part for part in report.as_text().split("\n\n") if "objects no reference names" in part)
    assert "50.0" in table
    other = row_of(report_of(records, train, dataset="spot_the_diff"), "brightness", "all")
    assert other.objects is None
    assert "hallucination_rate" not in other.intervals
