"""What steers a terminal is written out, in lines and in JSON."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_checks import hostile_texts

from rscc.files import guarded_cell, unguarded_cell
from workflows.printable import printable, printable_json, printable_lines

STEERING = "\x1b[2J\x9b31m\x07\r\u202egnp.exe\u2066\u2028\x7f\udc80"


def test_what_steers_a_terminal_is_written_out():
    assert printable("Zürich 東京.tif") == "Zürich 東京.tif"
    assert printable("\x1b[31m\u202e") == r"\x1b[31m\u202e"
    assert printable_lines(["a\nrscc: error: forged", "b"]) == "a\\nrscc: error: forged\nb"
    assert printable(STEERING).isprintable()


@given(st.text() | st.just(STEERING))
def test_texts_and_json_are_printable_and_json_stays_what_it_was(text):
    assert printable(printable(text)) == printable(text)
    written = printable_json({"name": text})
    assert written.isprintable()
    assert json.loads(written) == {"name": text}


@pytest.mark.slow
def test_ten_thousand_hostile_texts_neither_steer_a_terminal_nor_are_calculated() -> None:
    for text in hostile_texts(10_000):
        for start in ("", "=", "+", "-", "@"):
            whole = start + text
            written = printable_json(whole)
            assert printable(whole).isprintable() and written.isprintable() and json.loads(written) == whole
            cell = guarded_cell(whole)
            assert unguarded_cell(cell) == whole
            assert all(part.lstrip()[:1] not in ("=", "+", "-", "@") for part in re.split(r"[;|\t]", cell))


@given(st.text("ab=+@-\uff1d;|\t '"))
def test_no_cell_is_calculated_wherever_a_spreadsheet_separates_and_each_is_read_again(text):
    cell = guarded_cell(text)
    assert unguarded_cell(cell) == text
    assert all(part.lstrip()[:1] not in ("=", "+", "-", "@", "\uff1d") for part in re.split(r"[;|\t]", cell))
