import pytest
from archive_rows import failed_state

from workflows.archive.reasons import SHOWN, failure_reasons, warning_reasons, without_names


def failed(
    pair, line, *, kind="refused", error="NotARaster", before="/scenes/x/b.tif", after="/scenes/x/a.tif"
):
    return failed_state(pair, line=line, kind=kind, error=error, before=before, after=after)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/scenes/x/b.tif: there is no such file; check it", "FILE: there is no such file; check it"),
        ("/scenes/x/b.tif and /scenes/x/a.tif: no common ground", "FILE and FILE: no common ground"),
        ("b.tif says nothing (see /scenes/x/b.tif.msk, /q/r).", "FILE says nothing (see FILE.msk, FILE)."),
        ("https://host/b.tif: HTTP 503; /vsis3/other/key.tif too", "FILE: HTTP 503; FILE too"),
        ("tiles of 3/4 and km/h; 50 % and/or less", "tiles of 3/4 and km/h; 50 % and/or less"),
    ],
)
def test_names_of_files_are_taken_out_of_a_line(line, expected):
    assert without_names(failed("p", line), line) == expected


def test_failures_that_say_the_same_of_other_files_are_one_reason():
    rows = [
        failed(f"p{n}", f"/x/{n}.tif: no raster of {n} bands", before=f"/x/{n}.tif") for n in range(SHOWN + 2)
    ]
    rows += [
        failed("q", "/scenes/x/b.tif: there is no such file"),
        rows[0]._replace(pair="done", state="done"),
    ]
    many, one = failure_reasons(rows)
    assert (many.count, many.kind, many.error) == (SHOWN + 2, "refused", "NotARaster")
    assert many.line == "FILE: no raster of 0 bands"
    assert many.pairs == tuple(f"p{n}" for n in range(SHOWN))
    assert (one.count, one.line, one.pairs) == (1, "FILE: there is no such file", ("q",))


def test_warnings_of_pairs_that_are_done_are_grouped_alike():
    lines = ("/x/a.tif: it lies 2.1 pixels off", "swapped?", "/x/b.tif: it lies 2.2 pixels off")
    row = failed("p", "")._replace(state="done", warnings=lines)
    rows = [row, row._replace(pair="q", warnings=("/y/b.tif: it lies 3.5 pixels off",)), failed("r", "no")]
    shift, swapped = warning_reasons(rows)
    assert (shift.kind, shift.error, shift.line) == ("warned", "", "FILE: it lies 2.2 pixels off")
    assert (shift.count, shift.pairs, swapped.pairs) == (2, ("p", "q"), ("p",))
