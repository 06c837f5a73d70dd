"""The command that says how far an archive is."""

import json
import os
import pty
import re
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from archive_rows import change, fill, install, pair_state, report, square_of

from workflows.archive.claim import Claim, claim_shard
from workflows.archive.status import RunProgress
from workflows.cli import status as cli_status
from workflows.pairs.rows import PairRow

SQUARE = square_of(12.5, 41.9, 10_000.0)


def made(folder, count=10, done=4, failed=2):
    """Make an archive of so many pairs, as a run leaves it that was stopped after some seconds."""
    rows = [PairRow(f"p{n}", f"/scenes/{n}_1.tif", f"/scenes/{n}_2.tif") for n in range(count)]
    ends = []
    for number in range(count):
        warned = {"warnings": [f"/scenes/{number}_2.tif: it was given twice"]} if number < 2 else {}
        ends.append(report(change(area_m2=10_000.0, geometry=SQUARE), **warned) if number < done else None)
    for number in range(done, done + failed):
        ends[number] = f"/scenes/{number}_1.tif: there is no such file"
    folder = fill(folder, dict(zip(rows, ends, strict=True)))
    progress = RunProgress(Claim(folder, folder.work / "1-of-1"), (1, 1))
    progress._started -= 60
    for number in range(done + failed):
        progress.ended(f"p{number}", "w1")
    progress.write({"p6": time.time() - 5} if count > 6 else {}, force=True)
    return folder


def test_a_stopped_archive(tmp_path, rscc_command):
    made(tmp_path)
    code, out, err = rscc_command("status", tmp_path)
    assert (code, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["archive"] == str(tmp_path)
    assert lines["pairs"] == "6 of 10 finished (60.0 %): 4 done, 2 failed, 4 to do"
    assert lines["changes"] == "4, 40,000 m2 (4.00 ha)"
    assert "pairs an hour" in lines["speed"]
    assert "left" in lines["speed"]
    assert "rscc batch" in lines["run"]
    assert lines["reasons"] == f"rscc status {tmp_path} --failed"
    assert f"rscc status {tmp_path} --warnings" in lines["warnings"]


def test_an_archive_at_work(tmp_path, rscc_command):
    folder = made(tmp_path)
    assert "at work" not in rscc_command("status", tmp_path)[1]
    with claim_shard(folder):
        code, out, err = rscc_command("status", tmp_path)
    assert (code, err) == (0, "")
    assert f"(process {os.getpid()})" in out and "1 running, 3 to do" in out
    assert re.search(r"at work  p6 \(\d+ s\)", out)
    assert "workers  w1 6 (pairs in the last 10 minutes)" in out


def test_reasons(tmp_path, rscc_command):
    made(tmp_path)
    code, out, _ = rscc_command("status", tmp_path, "--failed")
    assert code == 0
    assert out.splitlines() == [
        "   2 pairs  refused: FILE: there is no such file [SceneNotFound]",
        "            p4, p5",
    ]
    found = json.loads(rscc_command("status", tmp_path, "--failed", "--json")[1])
    assert [reason["count"] for reason in found["reasons"]] == [2]
    made(tmp_path / "sound", failed=0)
    assert rscc_command("status", tmp_path / "sound", "--failed")[1].count("\n") == 1


def test_warnings(tmp_path, rscc_command):
    made(tmp_path)
    lines = ["   2 pairs  warned: FILE: it was given twice", "            p0, p1"]
    assert rscc_command("status", tmp_path, "--warnings")[1].splitlines() == lines
    both = rscc_command("status", tmp_path, "--failed", "--warnings")[1].splitlines()
    assert len(both) == 4 and both[2:] == lines
    found = json.loads(rscc_command("status", tmp_path, "--warnings", "--json")[1])
    assert found["warned"] == 2 and [reason["count"] for reason in found["warnings"]] == [2]


def test_watching_goes_on_until_all_is_done(tmp_path, rscc_command):
    folder = made(tmp_path, count=7, done=4, failed=2)

    def finish():
        time.sleep(0.5)
        install(Claim(folder, folder.work / "1-of-1"), pair_state("p6", key="k"), report())

    thread = threading.Thread(target=finish)
    thread.start()
    code, out, _ = rscc_command("status", tmp_path, "--watch", "--every", "0.1", "--json")
    thread.join()
    looks = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and len(looks) > 2
    assert (looks[0]["counts"]["done"], looks[-1]["counts"]["done"]) == (4, 5)


def test_watching_goes_on_while_a_run_writes_the_layers(tmp_path, rscc_command, monkeypatch):
    folder, pauses = made(tmp_path, count=6), []
    with ExitStack() as run:
        run.enter_context(claim_shard(folder))

        def sleep(seconds):
            pauses.append(seconds)
            if len(pauses) == 2:
                run.close()

        monkeypatch.setattr(cli_status, "time", SimpleNamespace(sleep=sleep, time=time.time))
        _, out, _ = rscc_command("status", tmp_path, "--watch", "--every", "9", "--json")
    looks = [json.loads(line) for line in out.splitlines()]
    assert pauses == [9, 9] and [look["at_work"] for look in looks] == [1, 1, 0]
    assert {look["counts"]["pending"] for look in looks} == {0}


@pytest.mark.slow
def test_watching_on_a_terminal_redraws_in_place_and_ends_with_ctrl_c(tmp_path, repository):
    made(tmp_path)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rscc", "status", str(tmp_path), "--watch", "--every", "0.1"],
        cwd=repository,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        shown, deadline = b"", time.monotonic() + 60
        while shown.count(b"finished (60.0 %)") < 3 and time.monotonic() < deadline:
            shown += os.read(master, 65536)
        assert b"\x1b[" in shown
        process.send_signal(2)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait(60)
        os.close(master)


@pytest.mark.parametrize("name", ["", "missing", "scene.tif"])
def test_a_folder_of_neither_command_is_refused_with_what_is_taken(tmp_path, rscc_command, name):
    (tmp_path / "scene.tif").write_bytes(b"II*")
    code, out, err = rscc_command("status", tmp_path / name)
    assert (code, out) == (2, "")
    assert str(tmp_path / name) in err and "rscc batch or rscc monitor" in err and "json" not in err
