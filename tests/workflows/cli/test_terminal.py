"""The lines that the commands show."""

from __future__ import annotations

from pathlib import Path

import pytest

from workflows.cli.terminal import summary
from workflows.inspection.text import shift_words

STILL = {"cols": 0.1, "rows": -0.1, "metres": 0.07, "applied": None, "left": None}
MOVED = {"cols": 3.0, "rows": -4.0, "metres": 2.5, "applied": None, "left": None}


def lines(target="r.geojson", **members):
    scene = {"path": "a.tif", "date": None}
    run = {
        "inputs": {"before": scene, "after": {"path": "b.tif", "date": "2019"}},
        "tiling": {"width": 10, "height": 20, "gsd": 0.5, "tiles": 4},
        "model": {"name": "m", "version": "1"},
        "registration": STILL,
        "normalization": None,
        "resumed_tiles": 0,
        "seconds": 3.21,
        **members,
    }
    return summary(run, 2, 12_345.6, Path(target)).splitlines()


def test_a_run_in_lines():
    assert lines() == [
        "2 changes, 12,346 m2 (1.23 ha), in 3.2 s",
        "scenes  a.tif (no date) -> b.tif (2019)",
        "grid    10 x 20 px at 0.5 m, 4 tiles",
        "model   m 1",
        "report  r.geojson (open it in QGIS; the style lies beside it)",
    ]
    assert lines("r.gpkg")[-1] == "report  r.gpkg (open it in QGIS; the style lies in it)"


@pytest.mark.parametrize(
    ("members", "line"),
    [
        ({"registration": MOVED}, "shift   after lies 5.0 pixels (2.5 m) off (3.0 right, 4.0 up)"),
        (
            {"registration": {**MOVED, "applied": [-3.0, 4.0], "left": [0.0, 0.1]}},
            "shift   after lies 5.0 pixels (2.5 m) off (3.0 right, 4.0 up); moved back by --align, "
            "0.1 pixels are left",
        ),
        (
            {"registration": {**MOVED, "applied": [-3.0, 4.0], "left": [0.0, 0.1], "moved": "before"}},
            "shift   after lies 5.0 pixels (2.5 m) off (3.0 right, 4.0 up); before moved onto it by --align "
            "--frame after, 0.1 pixels are left",
        ),
        (
            {"normalization": {"gain": [1.1, 0.987, 1.0]}},
            "light   after brought to the light of before by --normalize (gains 1.10, 0.99, 1.00)",
        ),
        ({"resumed_tiles": 1200}, "resumed 1,200 of the tiles were finished by an earlier run"),
    ],
)
def test_what_was_done_to_the_scenes_and_what_was_there_already(members, line):
    assert set(lines(**members)) - set(lines()) == {line}


def test_a_shift_that_cannot_be_measured_is_no_line_of_a_run():
    unknown = {**STILL, "cols": None, "rows": None, "metres": None}
    assert lines(registration=unknown) == lines()
    assert "cannot be told" in shift_words(unknown)


def test_no_direction_of_no_shift():
    still = {**STILL, "cols": 0.0, "rows": 0.02, "metres": 0.01}
    assert shift_words(still) == "after lies 0.0 pixels (0.01 m) off"
