"""The recipes for clusters, run with stand-ins for what only a cluster has."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from dask_processes import OURS
from scene_pairs import make_pair

RECIPES = Path(__file__).resolve().parents[2] / "examples" / "clusters"
SBATCH = """#!{python}
# Runs what it is given at once: every job of an array one after another, then what depends on it.
import os, pathlib, re, subprocess, sys
words = sys.argv[1:]
log = pathlib.Path(os.environ["SBATCH_LOG"])
with log.open("a") as file:
    file.write(" ".join(words) + "\\n")
options = [word for word in words if word.startswith("-")]
script, *rest = [word for word in words if not word.startswith("-")]
array = [word for word in options if word.startswith("--array=")]
first, last = map(int, re.findall("[0-9]+", array[0])) if array else (1, 1)
for number in range(first, last + 1):
    names = {{"SLURM_ARRAY_TASK_ID": str(number), "SLURM_ARRAY_TASK_COUNT": str(last)}} if array else {{}}
    words = ["bash", script, *rest]
    code = subprocess.run(words, env={{**os.environ, **names}}, stdout=sys.stderr).returncode
    with log.open("a") as file:
        file.write(f"ended with {{code}}\\n")
print("17;here" if "--parsable" in options else "Submitted batch job 18")
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Commands that a cluster has, and rscc with the fake model; the folder has a table of three pairs."""
    commands = tmp_path / "bin"
    commands.mkdir()
    fake = RECIPES.parents[1] / "tests" / "support" / "fake_rscc.py"
    for name, text in {
        "rscc": f'#!/bin/sh\nexec {sys.executable} {fake} "$@"\n',
        "srun": '#!/bin/sh\nexec "$@"\n',
        "sbatch": SBATCH.format(python=sys.executable),
    }.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(OURS))
    monkeypatch.setenv("SBATCH_LOG", str(tmp_path / "sbatch.log"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    rows = []
    for number, word in enumerate(("plain", "raise", "plain", "plain")):
        names = (f"{word}_{number}.tif", f"after_{number}.tif")
        pair = make_pair(tmp_path, [(20, 20, 20, 30, 200)], size=(70, 90), names=names)
        rows.append((f"p{number}", pair.before.name, pair.after.name))
    with Path("pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("pair", "before", "after"), *rows])
    return tmp_path


def states(archive: Path) -> dict[str, str]:
    with (archive / "summary.csv").open(newline="") as file:
        return {row["pair"]: row["state"] for row in csv.DictReader(file)}


def job_array(*words: str) -> subprocess.CompletedProcess:
    command = ["bash", str(RECIPES / "slurm_array.sh"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


EXPECTED = {"p0": "done", "p1": "failed", "p2": "done", "p3": "done"}


@pytest.mark.slow
def test_a_job_array_works_through_its_shares_and_merges_them(machine, monkeypatch):
    monkeypatch.setenv("PAIRS", "pairs.csv")
    monkeypatch.setenv("ARCHIVE", "archive")
    monkeypatch.setenv("RSCC_OPTIONS", "--workers 1 --retries 0")
    done = job_array("submit", "2", "--time=1")
    assert done.returncode == 0, done.stderr
    log = (machine / "sbatch.log").read_text().splitlines()
    assert re.fullmatch(r"--parsable .*--array=1-2 --requeue --time=1 .*slurm_array.sh work", log[0])
    assert log[1:3] == ["ended with 0"] * 2, "some failed pairs are no failure of a job"
    assert re.fullmatch(r".*--dependency=afterany:17 .*slurm_array.sh merge", log[3])
    assert states(machine / "archive") == EXPECTED


@pytest.mark.parametrize("words", [[], ["submit"], ["nonsense"]])
def test_a_job_array_says_what_it_lacks(machine, monkeypatch, words):
    if words:
        monkeypatch.setenv("PAIRS", "pairs.csv")
        monkeypatch.setenv("ARCHIVE", "archive")
    done = job_array(*words)
    assert done.returncode != 0 and done.stderr.strip()
    assert not (machine / "sbatch.log").exists()


@pytest.fixture
def recipe(monkeypatch):
    """Import one of the scripts by its name."""
    monkeypatch.syspath_prepend(str(RECIPES))
    return pytest.importorskip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Creating scratch directories")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_jobqueue_recipe_leads_a_cluster_that_grows(machine, recipe, monkeypatch):
    from distributed import LocalCluster

    class Jobs(LocalCluster):
        """Takes what a cluster of jobs is asked, with processes for jobs."""

        def adapt(self, minimum_jobs, maximum_jobs, **options):
            return super().adapt(minimum=minimum_jobs, maximum=maximum_jobs, interval="100ms", **options)

    slurm = recipe("slurm_jobqueue")
    here = {"dashboard_address": "127.0.0.1:0", "memory_limit": 0, "threads_per_worker": 1}
    monkeypatch.setattr(slurm, "cluster_of", lambda options: Jobs(n_workers=0, resources={"GPU": 1}, **here))
    code = slurm.main(["pairs.csv", "archive", "--most", "2", "--gpu", "--", "--retries", "0", "--quiet"])
    assert code == 3
    assert states(machine / "archive") == EXPECTED


def test_the_jobqueue_recipe_asks_for_what_it_is_told(recipe, capsys):
    """Only where dask-jobqueue is installed, which rscc does not need."""
    pytest.importorskip("dask_jobqueue")
    words = ["a.csv", "b", "--show", "--gpu", "--partition", "long", "--cores", "6", "--walltime", "1:00:00"]
    assert recipe("slurm_jobqueue").main(words) == 0
    script = capsys.readouterr().out
    for line in ("#SBATCH -p long", "#SBATCH --cpus-per-task=6", "#SBATCH --gpus=1", "OMP_NUM_THREADS=6"):
        assert line in script
    assert "--nthreads 1 " in script and "--resources GPU=1" in script


def test_the_gpu_recipe_hands_tasks_to_workers_with_a_gpu(machine, recipe, monkeypatch):
    """dask-cuda needs a GPU, so a stand-in takes what it would be asked."""
    options_given = {}

    class Cluster:
        scheduler_address = "tcp://somewhere:1"

        def __init__(self, **options):
            options_given.update(options)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            options_given["closed"] = True

    monkeypatch.setitem(sys.modules, "dask_cuda", type(sys)("dask_cuda"))
    sys.modules["dask_cuda"].LocalCUDACluster = Cluster
    ran = []
    gpu_box = recipe("gpu_box")
    done = subprocess.CompletedProcess([], 3)
    monkeypatch.setattr(gpu_box.subprocess, "run", lambda words, check: ran.append(words) or done)
    assert gpu_box.main(["pairs.csv", "archive", "--beams", "1"]) == 3
    (words,) = ran
    assert words[:5] == ["rscc", "batch", "pairs.csv", "--out", "archive"]
    assert words[5:] == ["--scheduler", "tcp://somewhere:1", "--gpu-workers", "--beams", "1"]
    assert options_given == {
        **options_given,
        "resources": {"GPU": 1},
        "threads_per_worker": 1,
        "closed": True,
    }


def test_the_kubernetes_manifest_holds_together():
    parts = list(yaml.safe_load_all((RECIPES / "kubernetes.yaml").read_text()))
    assert [part["kind"] for part in parts] == ["DaskCluster", "DaskAutoscaler", "Job"]
    cluster, scaler, job = parts
    name = cluster["metadata"]["name"]
    assert scaler["spec"]["cluster"] == name
    service = cluster["spec"]["scheduler"]["service"]
    assert service["selector"]["dask.org/cluster-name"] == name
    pods = [cluster["spec"][role]["spec"] for role in ("worker", "scheduler")]
    pods.append(job["spec"]["template"]["spec"])
    (worker,), (scheduler,), (leader,) = (pod["containers"] for pod in pods)
    assert {one["image"] for one in (worker, scheduler, leader)} == {"IMAGE"}, "the same rscc everywhere"
    # The operator calls the service so.
    (port,) = (one["port"] for one in service["ports"] if one["name"] == "tcp-comm")
    assert f"tcp://{name}-scheduler:{port}" in leader["args"]
    assert leader["volumeMounts"] == worker["volumeMounts"] and pods[0]["volumes"] == pods[2]["volumes"]


@pytest.mark.slow
def test_the_words_for_dask_in_the_manifest_are_right():
    cluster = next(yaml.safe_load_all((RECIPES / "kubernetes.yaml").read_text()))
    for role in ("worker", "scheduler"):
        (container,) = cluster["spec"][role]["spec"]["containers"]
        command, kind, *words = container["args"]
        assert command == "dask"
        line = [sys.executable, "-m", "dask", kind, "--help"]
        text = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True).stdout
        for word in words:
            if word.startswith("--"):
                assert word in text or word.replace("--no-", "--") in text
