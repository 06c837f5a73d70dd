"""What a program hears that runs the command: ``--progress json``."""

import json
import sys
import time

import pytest
from scene_pairs import make_pair

from workflows.cli.terminal import Terminal

HOSTILE = 'a\x1b[2J\u202e{"event": "done"}\n.tif'


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("pair"), [(10, 150, 12, 20, 220), (60, 20, 30, 30, 240)])


def events(err):
    return [json.loads(line) for line in err.splitlines()]


def test_events_of_a_run_are_alone_on_stderr(pair, rscc_command, tmp_path):
    target = tmp_path / "r.geojson"
    words = ("caption", pair.before, pair.after, "-o", target, "--progress", "json", "--json")
    code, out, err = rscc_command(*words)
    told = events(err)
    assert code == 0
    last = {event["stage"]: event for event in told if event["event"] == "progress"}
    assert last.keys() == {"tiles", "captions"}
    assert all(event["done"] == event["total"] > 0 for event in last.values())
    assert told[-1] == {"event": "done", **json.loads(out)}
    assert told[-1]["output"] == str(target) and told[-1]["changes"] == 2


def test_a_warning_is_an_event(tmp_path, rscc_command):
    pair = make_pair(tmp_path, [], gsd=10.0)
    words = ("caption", pair.before, pair.after, "-o", tmp_path / "r.geojson", "--force", "-q")
    told = events(rscc_command(*words, "--progress", "json")[2])
    assert [event["event"] for event in told] == ["warning", "warning", "done"]
    assert told[0]["message"].startswith(f"{pair.before}: 10 m per pixel is coarser")


def test_an_error_is_one_event_that_forges_no_other(rscc_command, tmp_path):
    code, out, err = rscc_command("caption", tmp_path / HOSTILE, tmp_path / "b.tif", "--progress", "json")
    (event,) = events(err)
    assert (code, out) == (2, "")
    message = event["message"]
    assert event == {"event": "error", "exit_code": 2, "message": message} and str(tmp_path) in message
    assert err.isascii() and "\x1b" not in err and not message.startswith(("rscc", "error"))
    code, _, err = rscc_command("caption", "a.tif", "b.tif", "--gsd", "0", "--progress", "json")
    assert code == 2 and events(err)[0]["event"] == "error"


def test_a_bar_is_drawn_on_a_terminal_only(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    with Terminal().progress() as update:
        assert update is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Terminal().progress() as update:
        update("tiles", 1, 2)
        time.sleep(0.2)  # it is drawn ten times a second
    assert "tiles" in capsys.readouterr().err
