"""``rscc caption --html`` and ``rscc convert REPORT page.html``."""

from __future__ import annotations

import json
import shutil

import pytest
from scene_pairs import make_pair


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("pair"), [(40, 40, 40, 40, 250)])


def test_a_run_writes_its_page_and_convert_makes_the_same(rscc_command, pair, tmp_path):
    report, page = tmp_path / "r.geojson", tmp_path / "r.html"
    code, out, err = rscc_command("caption", pair.before, pair.after, "-o", report, "--html", page)
    assert (code, err) == (0, "")
    assert f"page    {page} (open it in a browser)" in out
    said = json.loads(report.read_text())["rscc"]["summary"]["text"]
    assert out.strip().startswith(said) and said.startswith("1 change was found, ")
    code, out, _ = rscc_command("convert", report, tmp_path / "again.html")
    assert (code, out) == (0, f"{tmp_path / 'again.html'}: 1 change\n")
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()


@pytest.mark.slow
def test_a_run_writes_its_page_as_a_folder_and_convert_makes_the_same(rscc_command, pair, tmp_path):
    report, page = tmp_path / "r.geojson", tmp_path / "page"
    words = ("caption", pair.before, pair.after, "-o", report)
    code, out, err = rscc_command(*words, "--html-folder", page)
    assert (code, err) == (0, "")
    assert f"page    {page / 'index.html'} (open it in a browser)" in out
    again = tmp_path / "again"
    code, out, _ = rscc_command("convert", report, "--html-folder", again)
    assert (code, out) == (0, f"{again / 'index.html'}: 1 change\n")
    for name in ("index.html", "tiles/whole_before.webp", "tiles/whole_after.webp"):
        assert (page / name).read_bytes() == (again / name).read_bytes()
    (page / "notes.txt").write_text("mine")
    for code, _, err in (
        rscc_command(*words, "--html-folder", page, "--overwrite"),
        rscc_command("convert", report, "--html-folder", page, "--overwrite"),
    ):
        assert code == 2 and "notes.txt" in err
    code, _, err = rscc_command("convert", report, "--html-folder", again)
    assert code == 2 and "add --overwrite" in err
    assert rscc_command("convert", report, "--html-folder", again, "--overwrite", "--quiet") == (0, "", "")
    for more in ((), (tmp_path / "p.html", "--html-folder", tmp_path / "new")):
        code, _, err = rscc_command("convert", report, *more)
        assert code == 2 and "--html-folder" in err and not (tmp_path / "new").exists()


def test_scenes_that_moved_are_named(rscc_command, pair, tmp_path):
    report = tmp_path / "r.geojson"
    old = [tmp_path / name for name in ("b.tif", "a.tif")]
    for source, target in zip((pair.before, pair.after), old, strict=True):
        shutil.copy(source, target)
    assert rscc_command("caption", *old, "-o", report, "--quiet")[0] == 0
    for path in old:
        path.unlink()
    code, _, err = rscc_command("convert", report, tmp_path / "p.html")
    assert code == 2 and "b.tif" in err and not (tmp_path / "p.html").exists()
    assert rscc_command("convert", report, tmp_path / "p.html", "--before", pair.before)[0] == 2
    places = ("--before", pair.before, "--after", pair.after)
    assert rscc_command("convert", report, tmp_path / "p.html", *places, "--quiet") == (0, "", "")
    assert (tmp_path / "p.html").stat().st_size > 20_000
    for path in old:
        shutil.copy(pair.before, path)
    for words in (
        ["convert", report, tmp_path / "q.html", "--before", old[1], "--after", old[0]],
        ["qgis", report, old[1], old[0]],
    ):
        code, _, err = rscc_command(*words)
        assert code == 2 and "b.tif" in err and "a.tif" in err


def test_what_cannot_be_written_is_refused_before_the_work(rscc_command, pair, tmp_path):
    words = ("caption", pair.before, pair.after, "-o", tmp_path / "r.geojson")
    (tmp_path / "there.html").write_text("mine")
    for more in (
        ("--html", tmp_path / "page.pdf"),
        ("--html", tmp_path / "there.html"),
        ("--html", tmp_path / "page.html", "--html-size", "1kB"),
        ("--html", tmp_path / "page.html", "--html-size", "many"),
    ):
        assert rscc_command(*words, *more)[0] == 2
        assert rscc_command.chosen == [], "no model was loaded"
    assert not (tmp_path / "r.geojson").exists()
    assert (tmp_path / "there.html").read_text() == "mine"


def test_a_report_of_somebody_else_leads_to_no_private_server(rscc_command, pair, tmp_path):
    report = tmp_path / "r.geojson"
    assert rscc_command("caption", pair.before, pair.after, "-o", report, "--quiet")[0] == 0
    content = json.loads(report.read_text())
    content["rscc"]["inputs"]["before"]["path"] = "http://127.0.0.1:9/before.tif"
    report.write_text(json.dumps(content))
    code, _, err = rscc_command("convert", report, tmp_path / "p.html")
    assert code == 2 and "--allow-host" in err
    code, _, err = rscc_command(
        "convert", report, tmp_path / "p.html", "--offline", "--allow-host", "127.0.0.1"
    )
    assert code == 2 and "offline" in err
