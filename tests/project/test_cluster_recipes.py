"""The cluster recipes, run with stand-ins for what only a cluster has."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
from archive_commands import OURS
from scene_pairs import make_pair

RECIPES = Path(__file__).resolve().parents[2] / "examples" / "clusters"
JOBS = 2


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A folder with a table of three pairs, and the commands srun and rscc, which uses a fake model."""
    commands = tmp_path / "bin"
    commands.mkdir()
    fake = RECIPES.parents[1] / "tests" / "support" / "rscc_stand_in.py"
    for name, text in {
        "rscc": f'#!/bin/sh\nexec {sys.executable} {fake} fake "$@"\n',
        "srun": '#!/bin/sh\nexec "$@"\n',
    }.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(OURS))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("RSCC_OPTIONS", "--workers 1 --retries 0")
    monkeypatch.chdir(tmp_path)
    rows = []
    for number, word in enumerate(("plain", "raise", "plain")):
        names = (f"{word}_{number}.tif", f"after_{number}.tif")
        pair = make_pair(tmp_path, [(20, 20, 20, 30, 200)], size=(70, 90), names=names)
        rows.append((f"p{number}", pair.before.name, pair.after.name))
    with Path("pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("pair", "before", "after"), *rows])
    return tmp_path


@pytest.mark.slow
def test_the_jobs_of_an_array_fill_one_archive(machine, monkeypatch):
    monkeypatch.setenv("PAIRS", "pairs.csv")
    monkeypatch.setenv("ARCHIVE", "archive")
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", str(JOBS))
    for job in range(JOBS):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", str(job + 1))
        words = ["bash", str(RECIPES / "slurm_array.sh")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
    with (machine / "archive" / "summary.csv").open(newline="") as file:
        states = {row["pair"]: row["state"] for row in csv.DictReader(file)}
    assert states == {"p0": "done", "p1": "failed", "p2": "done"}
