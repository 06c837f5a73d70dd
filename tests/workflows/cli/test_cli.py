import json
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from report_checks import load_valid
from scene_pairs import make_pair
from servers import serving

import rscc
from rscc.folders import DEFAULT_MODEL
from workflows.cli.app import end_cleanly_on_interrupt

CHANGES = [(10, 150, 12, 20, 220), (60, 20, 30, 30, 240), (100, 120, 40, 25, 10)]


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """A pair with three changes, in the current folder."""
    monkeypatch.chdir(tmp_path)
    return make_pair(tmp_path, CHANGES, names=("a_2009-08-18.tif", "b_2019.tif"))


def test_a_report_in_the_current_folder_by_default(pair, rscc_command, tmp_path):
    code, out, err = rscc_command("caption", pair.before.name, pair.after.name)
    assert code == 0
    assert err == ""
    report = load_valid(tmp_path / "b_2019_changes.geojson")
    assert len(report["features"]) == 3
    assert report["rscc"]["inputs"]["before"]["path"] == "a_2009-08-18.tif"
    assert (tmp_path / "b_2019_changes.qml").is_file()
    assert rscc_command.chosen == [(DEFAULT_MODEL, "auto")]
    lines = out.splitlines()
    assert lines[0].startswith("3 changes were found, 53") and all(len(line) <= 72 for line in lines[:3])
    assert any(line.startswith("3 changes, 53") and line.endswith(" s") for line in lines)
    for words in (
        "before  a_2009-08-18.tif, 2009-08-18",
        "after   b_2019.tif, 2019",
        "210 x 150 px at 0.5 m",
        "brightness 1.2.3",
        "b_2019_changes.geojson",
    ):
        assert words in out


@pytest.mark.slow
def test_scenes_in_archives_and_on_servers(pair, rscc_command, tmp_path):
    with zipfile.ZipFile("town_2020.zip", "w") as archive:
        archive.write("b_2019.tif", "inner.tif")
    with serving() as server:
        server.files["/x/c_2018.tif"] = pair.after.read_bytes()
        for after, name, date in (
            ("town_2020.zip", "inner", "2020"),
            ("town_2020.zip/inner.tif", "inner", "2020"),
            (f"{server.address}/x/c_2018.tif?sig=secret&date=2011-01-01", "c_2018", "2018"),
        ):
            code, out, err = rscc_command("caption", pair.before.name, after, "--overwrite")
            assert (code, err) == (0, "")
            report = load_valid(tmp_path / f"{name}_changes.geojson")
            assert report["rscc"]["inputs"]["after"]["date"] == date
            assert len(report["features"]) == 3
            assert "secret" not in out and "secret" not in json.dumps(report)
            code, out, err = rscc_command("inspect", pair.before.name, after)
            assert (code, err) == (0, "")
            assert after.partition("?")[0] in out and "secret" not in out and f"taken {date}" in out
        code, out, err = rscc_command("caption", pair.before.name, f"{server.address}/none.tif?sig=secret")
        assert (code, out) == (2, "")
        assert err.startswith(f"rscc: error: {server.address}/none.tif: ") and "secret" not in err


def test_options_reach_the_run(pair, rscc_command, tmp_path):
    code, _, _ = rscc_command(
        "caption", pair.before, pair.after, "-o", "r.geojson", "--model", "mine", "--device", "cpu",
        "--bands", "3,2,1", "--band-names", "nir,red", "--threshold", "0.7", "--min-area", "150",
        "--bbox", "14.9,50,15.1,51", "--gsd", "1", "--batch-size", "2",
        "--date-before", "2001", "--date-after", "2002-02", "--scale", "10,200", "--normalize",
        "--align", "--frame", "after", "--group-distance", "0.5", "--regularize",
        "--no-ground", "--memory", "3GB", "--keep-maps", "maps",
    )  # fmt: skip
    assert code == 0
    assert rscc_command.chosen == [("mine", "cpu")]
    report = load_valid(tmp_path / "r.geojson")
    settings = report["rscc"]["settings"]
    given = {
        "bands": [3, 2, 1],
        "band_names": ["nir", "red"],
        "bounds": [14.9, 50, 15.1, 51],
        "gsd": 1.0,
        "threshold": 0.7,
        "min_area": 150.0,
        "batch_size": 2,
        "force": False,
        "scale": [10.0, 200.0],
        "normalize": True,
        "align": True,
        "frame": "after",
        "group_distance": 0.5,
        "regularize": True,
        "ground": False,
        "fast": False,
        "memory": 3_000_000_000,
    }
    assert given.items() <= settings.items()
    assert {f["properties"]["date_before"] for f in report["features"]} == {"2001"}
    assert all(f["properties"]["area_m2"] >= 150 for f in report["features"])


def test_json_is_alone_on_stdout(pair, rscc_command):
    code, out, err = rscc_command("caption", pair.before, pair.after, "-o", "r.geojson", "--json")
    assert code == 0
    summary = json.loads(out)
    report = load_valid(Path("r.geojson"))
    assert summary["changes"] == len(report["features"]) == 3
    assert summary["area_m2"] == pytest.approx(
        sum(f["properties"]["area_m2"] for f in report["features"]), abs=0.1
    )
    assert (summary["output"], summary["style"]) == ("r.geojson", "r.qml")
    assert summary["run"] == report["rscc"]
    assert "3 changes" in err


def test_quiet_says_nothing_and_an_existing_report_is_replaced_when_asked(pair, rscc_command):
    words = ("caption", pair.before, pair.after, "-o", "r.geojson", "--quiet")
    assert rscc_command(*words) == (0, "", "")
    assert rscc_command(*words)[0] == 2
    assert rscc_command(*words, "--overwrite", "--threshold", "0.99", "--min-area", "1e6")[0] == 0
    assert load_valid(Path("r.geojson"))["features"] == []


@pytest.mark.slow
def test_an_explanation_as_json(pair, rscc_command):
    place = ("--window", "35,75", "--bands", "3,2,1", "--model", "mine")
    code, out, err = rscc_command("explain", pair.before, pair.after, "-o", "p.webp", *place, "--json")
    assert code == 0 and "brightness 240 appears" in err
    assert rscc_command.chosen == [("mine", "auto")]
    facts = json.loads(out)
    assert (facts["output"], facts["place"]) == ("p.webp", "column 35, row 75")
    assert facts["caption"] == "brightness 240 appears"
    assert [len(word["ground"]) for word in facts["words"]] == [4, 4, 4]
    for place in (("--at", "15.000247,50.551595"), ("--bbox", "15.0001,50.5514,15.0004,50.5517")):
        code, out, err = rscc_command(
            "explain", pair.before, pair.after, "-o", "p.webp", *place, "--json", "--quiet", "--overwrite"
        )
        assert (code, err) == (0, "")
        assert json.loads(out)["caption"] == "brightness 240 appears"


@pytest.mark.parametrize(
    ("options", "paper", "dataset"),
    [
        ([], "rdd", "levir_cc"),
        (["--model", "scorer"], "scorer", "levir_cc"),
        (["--config", "dirl_levir_cc"], "dirl", "levir_cc"),
        (["--config", "rdd_levir_cc", "--dataset", "dubai_cc"], "rdd", "dubai_cc"),
        (["--model", "rdd", "--text-encoder", "open_clip:ViT-B-32:openai"], "rdd", "levir_cc"),
    ],
)
def test_training_takes_the_config_of_model_and_data_set(
    rscc_command, monkeypatch, tmp_path, options, paper, dataset
):
    from rscc.training import train_model as runs

    calls = []

    def train_model(settings, paths, **others):
        calls.append((settings, paths, others))
        return SimpleNamespace(path=paths.output / "model")

    monkeypatch.setattr(runs, "train_model", train_model)
    words = ("--data", tmp_path, "-o", tmp_path / "run", "--epochs", 3, "--seed", 5, "--overwrite", *options)
    code, out, err = rscc_command("train", *words)
    assert (code, err) == (0, "")
    ((settings, paths, others),) = calls
    assert (settings.model.paper, settings.data.name) == (paper, dataset)
    assert (settings.train.epochs, settings.train.seed) == (3, 5)
    assert settings.train.text_encoder == (options[-1] if "--text-encoder" in options else "sentence")
    assert (others["resume"], others["overwrite"]) == (False, True)
    assert (paths.data, paths.output, others["name"]) == (tmp_path, tmp_path / "run", "run")
    assert out == f"model   {tmp_path / 'run' / 'model'}\n"


def test_version(rscc_command):
    assert rscc_command("--version") == (0, f"rscc {rscc.__version__}\n", "")


def test_models_lists_what_is_shipped(rscc_command):
    from rscc.model_folder import available_models

    code, out, _ = rscc_command("models")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if line[:1].strip()] == [
        card.name for card in available_models()
    ]
    told = json.loads(rscc_command("models", "--json")[1])
    assert [(one["name"], one["version"], one["gsd_range"]) for one in told] == [
        (card.name, card.version, [*card.gsd_range]) for card in available_models()
    ]


SLOW_MODEL = """
import os, signal, time
# As a terminal starts a command: a test run in the background passes on that Ctrl-C is to be ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
from captioners import BrightnessCaptioner
from workflows.cli.app import main
class Slow(BrightnessCaptioner):
    def predict_change(self, before, after):
        os.write(1, b'working\\n')  # at once: two threads say it
        while not os.path.exists('.end'):
            time.sleep(0.01)
        raise SystemExit('went on')
def load(model, device):
    if model == 'imports':
        import slow_module
    return Slow()
main(captioner_factory=load)
"""


@pytest.mark.slow
@pytest.mark.parametrize("model", ["works", "imports"])
def test_an_interrupt_ends_with_130_one_line_and_only_the_maps_left(pair, child_environment, tmp_path, model):
    # What a compiled module may do with the interrupt while it is imported.
    (tmp_path / "slow_module.py").write_text(
        "import time\ntry:\n    print('working', flush=True); time.sleep(900)\n"
        "except KeyboardInterrupt:\n    raise ImportError('half a module')\n"
    )
    files = {path.name for path in tmp_path.iterdir()}
    arguments = ("caption", pair.before, pair.after, "-o", "r.geojson", "--model", model)
    with subprocess.Popen(
        [sys.executable, "-B", "-c", SLOW_MODEL, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=child_environment,
        text=True,
    ) as process:
        assert process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGINT)
        (tmp_path / ".end").touch()
        # A model ends what it has begun; half an import would take far longer, however busy the machine is.
        _, err = process.communicate(timeout=300)
    left = {path.name for path in tmp_path.iterdir()} - files
    assert (process.returncode, err) == (130, "rscc: interrupted\n")
    assert left <= {".end", ".r.geojson.maps"}, "from which the same command resumes"


class _Interrupted:
    """A lock that gets Ctrl-C at the moment it is taken."""

    def __init__(self):
        self.is_taken, self.acquire, self.release = False, None, None

    def __enter__(self):
        self.is_taken = True
        signal.raise_signal(signal.SIGINT)

    def __exit__(self, *_):
        self.is_taken = False


def test_an_interrupt_leaves_no_lock_taken_for_ever():
    lock = _Interrupted()
    with end_cleanly_on_interrupt(), pytest.raises(KeyboardInterrupt), threading.Condition(lock):
        time.sleep(60)
    assert not lock.is_taken
