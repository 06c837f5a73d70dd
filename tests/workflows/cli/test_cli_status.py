"""The command that says how far an archive is."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest
from filelock import FileLock

from workflows.pairs.rows import PairRow
from workflows.store.ledger import Ledger


def made(folder, count=10, done=4, failed=2):
    """Make an archive of so many pairs and leave it as a run does that was stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [(PairRow(f"p{n}", f"/scenes/{n}_1.tif", f"/scenes/{n}_2.tif"), "k") for n in range(count)]
    ledger = Ledger.open(folder)
    ledger.plan(rows, retry_failed=False)
    for number, row in enumerate(ledger.next(done + failed)):
        ledger.start(row.pair, 1)
        if number < done:
            told = [f"{row.after}: it was given twice"] if number < 2 else ()
            ledger.done(row.pair, "w1", 1.0, 2, 10_000.0, 3, warnings=told)
        else:
            ledger.failed(
                row.pair, "w1", 1.0, "refused", "SceneNotFound", f"{row.before}: there is no such file"
            )
    return ledger


def test_a_stopped_archive(tmp_path, rscc_command):
    made(tmp_path).close()
    code, out, err = rscc_command("status", tmp_path)
    assert (code, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["archive"] == str(tmp_path)
    assert lines["pairs"] == "6 of 10 finished (60.0 %): 4 done, 2 failed, 4 to do"
    assert lines["changes"] == "8, 40,000 m2 (4.00 ha)"
    assert "pairs an hour" in lines["speed"]
    assert "left" in lines["speed"]
    assert lines["run"] == "nobody works on it now; the same rscc batch command goes on from here"
    assert lines["reasons"] == f"rscc status {tmp_path} --failed"
    assert lines["warnings"] == f"2 pairs (rscc status {tmp_path} --warnings)"


def test_an_archive_in_which_no_run_did_a_pair_has_no_speed(tmp_path, rscc_command):
    made(tmp_path / "shard").close()
    with Ledger.reader(tmp_path / "shard") as shard, Ledger.open(tmp_path) as ledger:
        ledger.replace(row for row in shard.rows() if row.state == "done")
    code, out, _ = rscc_command("status", tmp_path)
    assert code == 0 and "pairs    4 of 4 finished" in out and "speed" not in out


def test_an_archive_at_work(tmp_path, rscc_command):
    with FileLock(tmp_path / "archive.lock"), made(tmp_path) as ledger:
        ledger.start("p6", 2)
        code, out, err = rscc_command("status", tmp_path)
        assert f"(process {os.getpid()})" in out
        assert "1 running" in out
        assert re.search(r"at work  p6 \(\d+ s, attempt 2\)", out)  # the second may turn meanwhile
        assert "workers  w1 6 (pairs in the last 10 minutes)" in out
    assert (code, err) == (0, "")


def test_an_archive_whose_run_looks_at_the_scenes(tmp_path, rscc_command):
    with FileLock(tmp_path / "archive.lock"):
        Ledger.open(tmp_path).close()
        assert "at work, looking at the scenes" in rscc_command("status", tmp_path)[1]


def test_an_archive_after_a_crash(tmp_path, rscc_command):
    crashed = made(tmp_path)
    crashed.start("p6", 1)
    crashed._connection.close()
    (tmp_path / "archive.lock").touch()
    _, out, _ = rscc_command("status", tmp_path)
    assert "2 failed, 1 interrupted, 3 to do" in out
    assert "nobody works on it now" in out
    assert "at work" not in out


def test_a_finished_archive(tmp_path, rscc_command):
    made(tmp_path, count=4, failed=0).close()
    _, out, _ = rscc_command("status", tmp_path)
    assert "4 of 4 finished (100.0 %): 4 done\n" in out
    assert "run      finished" in out
    assert "reasons" not in out


def test_reasons(tmp_path, rscc_command):
    made(tmp_path).close()
    code, out, _ = rscc_command("status", tmp_path, "--failed")
    assert code == 0
    assert out.splitlines() == [
        "   2 pairs  refused: FILE: there is no such file [SceneNotFound]",
        "            p4, p5",
    ]
    found = json.loads(rscc_command("status", tmp_path, "--failed", "--json")[1])
    assert [reason["count"] for reason in found["reasons"]] == [2]
    made(tmp_path / "sound", failed=0).close()
    assert rscc_command("status", tmp_path / "sound", "--failed")[1] == "no pair failed\n"


def test_warnings(tmp_path, rscc_command):
    made(tmp_path).close()
    lines = ["   2 pairs  warned: FILE: it was given twice", "            p0, p1"]
    assert rscc_command("status", tmp_path, "--warnings")[1].splitlines() == lines
    both = rscc_command("status", tmp_path, "--failed", "--warnings")[1].splitlines()
    assert len(both) == 4 and both[2:] == lines
    found = json.loads(rscc_command("status", tmp_path, "--warnings", "--json")[1])
    assert found["warned"] == 2 and [reason["count"] for reason in found["warnings"]] == [2]
    made(tmp_path / "sound", done=0, failed=0).close()
    assert "no pair that is done" in rscc_command("status", tmp_path / "sound", "--warnings")[1]


def test_json_has_all_there_is_to_know(tmp_path, rscc_command):
    made(tmp_path).close()
    found = json.loads(rscc_command("status", tmp_path, "--json")[1])
    assert found["counts"] == {
        "pending": 4, "running": 0, "done": 4, "failed": 2, "dropped": 0, "left": 4, "total": 10,
    }  # fmt: skip
    assert (found["archive"], found["changes"], found["at_work"]) == (str(tmp_path), 8, 0)
    assert "reasons" not in found


def test_shards(tmp_path, rscc_command):
    made(tmp_path / "shards" / "1-of-3").close()
    made(tmp_path / "shards" / "3-of-3", count=6).close()
    code, out, _ = rscc_command("status", tmp_path)
    assert code == 0
    assert "12 of 16 finished so far" in out, "how many the other shard has is not known"
    assert "shard    1-of-3: 6 of 10 finished, stopped" in out
    assert "shard    3-of-3: 6 of 6 finished, finished" in out
    assert "shards   not begun: 2-of-3" in out
    found = json.loads(rscc_command("status", tmp_path, "--json")[1])
    assert found["shards"]["1-of-3"]["counts"]["left"] == 4
    shutil.rmtree(tmp_path / "shards" / "1-of-3")
    assert "rscc batch goes on with the shards that have not begun" in rscc_command("status", tmp_path)[1]


def test_a_folder_without_an_archive_is_an_error(tmp_path, rscc_command):
    code, out, err = rscc_command("status", tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith(f"rscc: error: {tmp_path}: this is no archive of rscc batch")
    assert len(err.splitlines()) == 1


def test_a_foreign_ledger_is_an_error(tmp_path, rscc_command):
    (tmp_path / "ledger.sqlite").write_text("no ledger")
    code, _, err = rscc_command("status", tmp_path)
    assert code == 2
    assert "this is no ledger of rscc batch" in err


def test_watching_goes_on_until_all_is_done(tmp_path, rscc_command):
    ledger = made(tmp_path, count=7, done=4, failed=2)
    lock = FileLock(tmp_path / "archive.lock", thread_local=False)
    lock.acquire()

    def finish():
        time.sleep(0.5)
        with Ledger.open(tmp_path) as other:
            other.start("p6", 1)
            other.done("p6", "w1", 1.0, 0, 0.0, 1)
        lock.release()

    ledger.close()
    thread = threading.Thread(target=finish)
    thread.start()
    code, out, _ = rscc_command("status", tmp_path, "--watch", "--every", "0.1", "--json")
    thread.join()
    looks = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert len(looks) > 2
    assert (looks[0]["counts"]["done"], looks[-1]["counts"]["done"]) == (4, 5)


@pytest.mark.slow
def test_watching_on_a_terminal_redraws_in_place_and_ends_with_ctrl_c(tmp_path, repository):
    made(tmp_path).close()
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
