"""What steers a terminal is written out, in lines and in JSON."""

from __future__ import annotations

import json

from hostile_texts import hostile_texts
from hypothesis import given
from hypothesis import strategies as st

from workflows.files import guarded_cell, unguarded_cell
from workflows.texts import shown, shown_json, shown_lines

STEERING = "\x1b[2J\x9b31m\x07\r\u202egnp.exe\u2066\u2028\x7f\udc80"


def test_what_steers_a_terminal_is_written_out():
    assert shown("Zürich 東京.tif") == "Zürich 東京.tif"
    assert shown("\x1b[31m\u202e") == r"\x1b[31m\u202e"
    assert shown_lines(["a\nrscc: error: forged", "b"]) == "a\\nrscc: error: forged\nb"
    assert shown(STEERING).isprintable()


@given(st.text() | st.just(STEERING))
def test_texts_and_json_are_printable_and_json_stays_what_it_was(text):
    assert shown(shown(text)) == shown(text)
    written = shown_json({"name": text})
    assert written.isprintable()
    assert json.loads(written) == {"name": text}


def test_ten_thousand_hostile_texts_neither_steer_a_terminal_nor_are_calculated() -> None:
    for text in hostile_texts(10_000):
        for start in ("", "=", "+", "-", "@"):
            whole = start + text
            assert shown(whole).isprintable() and shown_json(whole).isprintable()
            assert json.loads(shown_json(whole)) == whole
            cell = guarded_cell(whole)
            assert cell.lstrip()[:1] not in ("=", "+", "-", "@") and unguarded_cell(cell) == whole
