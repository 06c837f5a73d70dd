"""Names, captions and reasons of others reach the terminal with nothing in them that steers it."""

import json
import logging

import pytest
from archive_rows import new_claim
from captioners import BrightnessCaptioner
from scene_pairs import make_pair

from rscc.structures import Caption
from workflows.cli.terminal import Terminal
from workflows.printable import printable_library_output

EVIL = "a\x1b]0;owned\x07\x9b31m\u202eb\nrscc: error: forged"


@pytest.fixture
def scenes(tmp_path, monkeypatch):
    """A pair whose later scene has an evil name, in the current folder."""
    monkeypatch.chdir(tmp_path)
    make_pair(tmp_path, [(20, 20, 30, 30, 240)], names=("before.tif", f"{EVIL}.tif"))
    return tmp_path


def check(*texts: str, lines: int | None = None) -> None:
    """Every line is printable; ``lines`` says how many there are where none may be forged."""
    for text in texts:
        assert all(line.isprintable() for line in text.split("\n")), repr(text)
    if lines is not None:
        assert sum(text.count("\n") for text in texts) == lines


@pytest.mark.parametrize("command", ["caption", "inspect", "explain"])
@pytest.mark.parametrize("as_json", [False, True])
def test_of_scenes_with_such_names(scenes, rscc_command, command, as_json):
    output = {"caption": ["-o", "r.geojson"], "explain": ["-o", "p.png"]}.get(command, [])
    words = [command, "before.tif", f"{EVIL}.tif", *output, *(["--json", "--quiet"] if as_json else [])]
    words = [word for word in words if command != "inspect" or word != "--quiet"]
    code, out, err = rscc_command(*words)
    assert code == 0, err
    check(out, err)
    if as_json:
        assert EVIL in json.dumps(json.loads(out), ensure_ascii=False) or command == "explain" or "\\n" in out


def test_of_a_scene_that_is_missing_and_of_a_wrong_command_line(scenes, rscc_command):
    for words in (["caption", "before.tif", f"{EVIL}.png"], ["caption", f"--{EVIL}"], [EVIL]):
        for debug in ([], ["--debug"]):
            code, out, err = rscc_command(*debug, *words)
            assert code == 2 and out == ""
            check(err, lines=None if debug else 1)
            assert "forged" in err


def test_of_captions_of_a_model(scenes, rscc_command):
    class Talking(BrightnessCaptioner):
        def explain(self, *arguments, **options):
            explanation = super().explain(*arguments, **options)
            object.__setattr__(explanation, "caption", Caption(EVIL, 0.5, True))
            return explanation

    words = ("explain", "before.tif", f"{EVIL}.tif", "-o", "p.png")
    code, out, err = rscc_command(*words, captioner=Talking())
    assert code == 0, err
    check(out, err)
    assert "owned" in out


def test_of_reasons_and_names_in_an_archive(tmp_path, rscc_command):
    claim = new_claim(tmp_path)
    told = dict.fromkeys(("line", "error", "worker"), f"{EVIL} is no raster")
    claim.fail("p1", {"kind": "refused", **told, "finished": 1.0})
    worker, running = {"name": EVIL, "pairs": 1, "last": EVIL}, {"pair": EVIL, "since": 1.0}
    live = {"host": EVIL, "workers": [worker], "running": [running], "running_count": 1}
    times = {"pid": 1, "shard": [1, 1], "started": 1.0, "updated": 2.0, "pairs": 1, "recent": 1}
    (tmp_path / "runs" / "1-1-of-1.json").write_text(json.dumps({**live, **times}))
    for words in ([], ["--failed"], ["--json"], ["--failed", "--json"]):
        code, out, err = rscc_command("status", tmp_path, *words)
        assert (code, err) == (0, "")
        check(out, lines=1 if "--json" in words else None)
        assert "owned" in out or words == []


def test_of_folders_and_tables_with_such_names(tmp_path, rscc_command):
    (tmp_path / EVIL).mkdir()
    make_pair(tmp_path / EVIL, [], names=("a_2019.tif", "a_2020.tif"))
    code, out, err = rscc_command("pairs", tmp_path / EVIL, "-o", tmp_path / EVIL / "pairs.csv")
    assert code == 0, err
    check(out, err)
    code, out, err = rscc_command("status", tmp_path / EVIL)
    assert code == 2
    check(err, lines=1)


def test_of_warnings(capsys):
    Terminal().warn(EVIL)
    check(capsys.readouterr().err, lines=1)


def test_of_what_libraries_log(capsys):
    printer = logging.lastResort
    record = logging.LogRecord("lib", logging.WARNING, "x.py", 1, "%s in %s", ("CPLE", EVIL), None)
    with printable_library_output():
        printer.handle(record)
    err = capsys.readouterr().err
    check(err, lines=1)
    assert "CPLE in a" in err and printer.formatter is None
