"""The plugin in a real QGIS runs the command: from ``qgis_process``, and as the toolbox does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import geopandas
import pyogrio
import pytest
from make_demo_scene import make_scene
from PIL import Image
from qgis_runs import NEEDS_QGIS, environment, look, run_qgis
from scene_pairs import make_pair

from workflows.report.reading import open_report

pytestmark = [
    pytest.mark.qgis,
    pytest.mark.slow,
    NEEDS_QGIS,
]
# Debian's script around it passes an option that it does not know.
PROCESS = shutil.which("qgis_process.bin") or shutil.which("qgis_process")
needs_process = pytest.mark.skipif(PROCESS is None, reason="the system has no qgis_process (package qgis)")
PAUSE = 0.4  # seconds of a batch of the report "never": it is cancelled at the first progress, at work


@pytest.fixture(scope="module")
def home(tmp_path_factory, repository):
    """A home with a QGIS profile that has the plugin; in ``bin`` the command with a fake model."""
    home = profile(tmp_path_factory.mktemp("home"), repository)
    script = home / "bin/rscc"
    script.parent.mkdir()
    paths = f"{repository}{os.pathsep}{repository}/tests/support"
    stand_in = f"{repository}/tests/support/rscc_stand_in.py"
    # If the variables of QGIS reached it, it would fail.
    script.write_text(
        f'#!/bin/sh\n[ -z "$PROJ_LIB$GDAL_DRIVER_PATH$PYTHONHOME" ] || exit 9\n'
        f'echo $$ > {home}/pid\nexport PYTHONPATH="{paths}" OMP_NUM_THREADS=1\n'
        f'case "$*" in batch*) how=fake;; *never*) how="slow {PAUSE}";; *) how="slow 0";; esac\n'
        f'exec "{sys.executable}" {stand_in} $how "$@"\n'
    )
    script.chmod(0o755)
    make_pair(home, [(10, 10, 30, 50, 200), (60, 120, 30, 50, 170)])
    return home


def profile(home, repository):
    """Make a QGIS profile with the plugin in a folder; return the folder."""
    plugins = home / "profiles/default/python/plugins"
    plugins.mkdir(parents=True)
    (plugins / "rscc_changes").symlink_to(repository / "qgis_plugin/rscc_changes")
    settings = home / "profiles/default/QGIS/QGIS3.ini"
    settings.parent.mkdir()
    settings.write_text("[PythonPlugins]\nrscc_changes=true\n")
    return home


@pytest.fixture
def variables(home, monkeypatch):
    """Let QGIS find its profile there and nothing of this machine's user."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("QGIS_CUSTOM_CONFIG_PATH", str(home))
    monkeypatch.setenv("PROJ_LIB", "/usr/share/proj")
    monkeypatch.setenv("GDAL_DRIVER_PATH", "/usr/lib/gdalplugins")
    monkeypatch.setenv("PATH", f"{home}/bin:/usr/bin:/bin")
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    return monkeypatch


def caption(before, after, report, *more):
    """Run the algorithm by ``qgis_process``; what it returned and printed."""
    words = ["rscc:caption", f"--BEFORE={before}", f"--AFTER={after}", f"--OUTPUT={report}", *more]
    done = subprocess.run(
        [PROCESS, "run", *words], capture_output=True, text=True, env=environment(), timeout=300, check=False
    )
    return done.returncode, done.stdout, done.stderr


@needs_process
def test_qgis_process_describes_a_layer_of_changes(home, variables):
    found, given = home / "found.gpkg", home / "given.gpkg"
    box = "--EXTENT=14.99,15.01,50.54,50.57 [EPSG:4326]"
    code, _, err = caption(home / "before.tif", home / "after.tif", found, box)
    assert code == 0, err
    settings = open_report(found).run["settings"]
    assert settings["bounds"] == pytest.approx([14.99, 50.54, 15.01, 50.57], abs=1e-6)
    layer = f"--GIVEN={found}|layername=outlines"
    code, out, err = caption(home / "before.tif", home / "after.tif", given, layer)
    assert code == 0 and "CHANGES:\t2" in out, err
    assert set(pyogrio.read_dataframe(given, layer="changes")["outline_of"]) == {"given"}


@needs_process
def test_the_installed_command_and_a_real_model_caption_the_demo(tmp_path, variables, repository):
    command = Path(sys.executable).with_name("rscc")
    if not command.is_file():
        pytest.skip("rscc is not installed beside this Python: pip install -e .")
    home = profile(tmp_path, repository)
    (home / "bin").mkdir()
    (home / "bin/rscc").symlink_to(command)
    for name in ("HOME", "QGIS_CUSTOM_CONFIG_PATH"):
        variables.setenv(name, str(home))
    variables.setenv("PATH", f"{home}/bin:/usr/bin:/bin")
    scene = make_scene(home, size=(600, 520))
    report = home / "changes.gpkg"
    code, out, err = caption(scene.before, scene.after, report, "--MODEL=rscc-small")
    assert code == 0, out + err
    changes = geopandas.read_file(report, layer="changes")
    assert f"CHANGES:\t{len(changes)}" in out and set(changes["model"]) == {"rscc-small"}
    # The estate of the demo: told as houses, in the place where it is.
    largest = changes.loc[changes["area_m2"].idxmax()]
    assert "house" in largest["caption"] and largest["direction"] == "appeared"
    truth = geopandas.read_file(scene.truth_polygons).to_crs(changes.crs)
    villas = truth[truth["class"] == "villa"]
    assert villas.intersects(largest.geometry).mean() > 0.5
    layer = look(f"{report}|layername=changes")
    assert layer["style_loaded"] and "appeared" in [said["category"] for said in layer["said"]]
    assert largest["caption"] in "".join(said["tip"] for said in layer["said"])


@needs_process
def test_qgis_process_says_what_to_do_where_the_command_is_missing(home, variables):
    variables.setenv("PATH", "/usr/bin:/bin")
    code, out, err = caption(home / "before.tif", home / "after.tif", home / "n.gpkg")
    assert code != 0 and not (home / "n.gpkg").exists()
    assert "The command rscc was not found" in out + err and "pipx install ." in out + err


def test_the_toolbox_loads_styled_layers_and_stops_where_asked(home, variables, repository):
    scenes = (home / "before.tif", home / "after.tif")
    (home / "pairs.csv").write_text("before,after\nbefore.tif,gone.tif\n")
    make_pair(home, [], size=(60, 60), gsd=4.0, names=("coarse_before.tif", "coarse.tif"))
    told = run_qgis(
        "plugin", repository / "qgis_plugin", *scenes, home / "r.gpkg", home / "pairs.csv", home / "archive",
        home / "coarse.tif",
    )  # fmt: skip
    loaded, cancelled = told["loaded"], told["cancelled"]
    assert loaded["good"], loaded["errors"]
    assert loaded["results"]["CHANGES"] == 2 and loaded["results"]["AREA"] > 700
    settings = open_report(home / "r.gpkg").run["settings"]
    assert (settings["min_area"], settings["group_distance"]) == (25.5, 0)
    assert loaded["percents"] == sorted(loaded["percents"]) and loaded["percents"][-1] == 100
    assert told["batch"]["good"] and told["batch"]["results"]["FAILED"] == 1
    layers = [["Changes", "categorizedSymbol", True, 2], ["pairs", "categorizedSymbol", False, 1]]
    assert sorted(layer for layer in told["layers"] if layer[-1]) == layers
    assert not cancelled["good"] and "Stopped" in "".join(cancelled["errors"])
    stopped = told["batch_cancelled"]
    assert not stopped["good"] and "Stopped" in "".join(stopped["errors"])
    refused, unknown = told["refused"], told["unknown"]
    assert "coarse.tif" in "".join(refused["infos"]) and "coarse.tif" in refused["results"]["TEXT"]
    assert "rscc: error: " in "".join(refused["errors"])
    assert not unknown["good"] and "no-such-model" in "".join(unknown["errors"])
    assert len(cancelled["percents"]) == 1
    assert {one.name for one in home.glob("*never*")} <= {".never.gpkg.maps"}, "from which a run resumes"
    assert not Path("/proc", (home / "pid").read_text().strip()).exists(), "the command has ended"
    assert told["can"] == [True, ""]
    assert told["algorithms"] == ["rscc:batch", "rscc:caption", "rscc:check", "rscc:inspect"]
    assert told["unloaded"]


def test_the_dialog_asks_for_both_scenes(repository, tmp_path):
    picture = tmp_path / "dialog.png"
    shown = run_qgis("dialog", repository / "qgis_plugin", "before.tif", "after.tif", picture)
    assert shown["title"] == "Caption changes"
    with Image.open(picture) as drawn:
        assert drawn.size == (900, 620) and len(drawn.convert("RGB").getcolors(2**20)) > 100
