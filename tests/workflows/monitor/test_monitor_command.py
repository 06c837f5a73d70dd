"""The commands rscc monitor and rscc status on a monitor that is there."""

import json
import shutil

import pytest
from painted_series import find_squares, write_series

from workflows.monitor.monitor import run_monitor
from workflows.monitor.options import MonitorOptions


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    write_series(folder / "town")
    run_monitor([str(folder / "town")], folder / "out", MonitorOptions(), None, finder=find_squares)
    return folder / "out"


@pytest.fixture
def out(made, tmp_path):
    shutil.copytree(made, tmp_path / "out")
    return tmp_path / "out"


def test_nothing_new_is_exit_code_0_and_something_confirmed_4(out, rscc_command):
    code, text, _ = rscc_command("monitor", "--out", out)
    assert code == 0 and "A house was built by May 2018." in text.splitlines()
    (out / "told.json").unlink()  # as after a run that was killed before it told
    code, text, _ = rscc_command("monitor", "--out", out, "--json")
    facts = json.loads(text)
    assert code == 4 and facts["confirmed"] == 2
    assert [one["event"] for one in facts["news"]] == ["town-1", "town-2", "town-3"]
    assert rscc_command("monitor", "--out", out, "--quiet")[:2] == (0, "")


def test_status_shows_the_state_and_writes_nothing(out, rscc_command):
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    code, text, _ = rscc_command("status", out, "--json")
    (place,) = json.loads(text)["places"]
    states = {"candidate": 1, "confirmed": 2, "ended": 0, "dropped": 0}
    dates = {"first_date": "2018-01", "last_date": "2018-09"}
    assert (code, place) == (0, {"place": "town", "scenes": 5, **dates, "states": states})
    assert rscc_command("status", out)[0] == 0
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("arguments", [["nowhere"], ["--max-cloud", "200"], ["--confirm", "0"]])
def test_wrong_input_is_one_line(out, rscc_command, arguments):
    code, text, err = rscc_command("monitor", *arguments, "--out", out)
    assert (code, text, len(err.splitlines())) == (2, "", 1)


def test_a_place_that_fails_is_exit_code_3(out, rscc_command):
    (out / "places" / "town" / "events.json").unlink()
    shutil.rmtree(out.parent / "town", ignore_errors=True)
    place = out / "places" / "town" / "place.json"
    place.write_text(place.read_text().replace("2018-03.tif", "2018-02.tif"))
    code, _, err = rscc_command("monitor", "--out", out)
    assert code == 3 and "2018-02.tif" in err
