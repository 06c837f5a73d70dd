"""Labels of changes: a few words of their classes and numbers."""

from __future__ import annotations

import pytest
from archive_rows import change

from workflows.report.summary_phrases import label_of


@pytest.mark.parametrize(
    ("facts", "label"),
    [
        ({"came": ("road", "building"), "count": 72}, "72 houses, road"),
        ({"came": ("building",)}, "1 house"),
        ({"came": ("building",), "largest_m2": 2000.0, "median_m2": 2000.0}, "1 large building"),
        ({"came": ("building",), "gone": ("trees",), "count": 2}, "2 houses"),
        ({"gone": ("trees",)}, "trees gone"),
        ({"gone": ("building", "road"), "count": 3}, "3 houses, road gone"),
        ({"came": ("water",), "count": 4}, "water"),
        ({"came": ("a", "b", "c", "d")}, "a, b, c"),
        ({}, None),
    ],
)
def test_a_label_names_classes_and_numbers(facts, label):
    assert label_of(change(**facts)) == label
