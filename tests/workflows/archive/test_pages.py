"""Pages of an archive: which are written, made again or left out, and what the page of all pairs lists."""

import json
import os

import pytest
from archive_fakes import fake_card
from archive_pairs import InlineEngine, make_archive
from pages import made_archive_page, page_of, usual_rows
from scene_pairs import run_here

from workflows.archive import overview
from workflows.archive.folder import ArchiveFolder
from workflows.archive.layers.pages import THUMBNAILS
from workflows.archive.overview import archive_overview
from workflows.cli import batch as cli_batch


@pytest.fixture
def batch(monkeypatch, capfd, tmp_path):
    """Run ``rscc batch`` over four pairs in this process."""
    monkeypatch.setattr(cli_batch, "_engine", lambda *_: InlineEngine())
    made = make_archive(tmp_path, 4)

    def run(*options):
        out = tmp_path / "out"
        return made, run_here(capfd, "batch", made.table, "--out", out, *options, card_factory=fake_card)

    return run


@pytest.mark.slow
def test_batch_writes_a_page_of_each_pair_and_one_of_all(batch, tmp_path):
    made, (code, text, _) = batch("--html")
    folder = ArchiveFolder(tmp_path / "out")
    assert code == 0 and str(folder.page) in text
    assert all(folder.report(pair).with_name("changes.html").is_file() for pair in made.pairs)
    told = archive_overview(folder.path, folder.page)
    assert [one["page"] for one in told["pairs"]] == [f"pairs/{pair}/changes.html" for pair in made.pairs]
    assert told["changes_in_all"] == len(told["changes"]) == told["summary"]["changes"] > 0
    areas = [one["area_m2"] for one in told["changes"]]
    assert areas == sorted(areas, reverse=True) and all(len(one["dates"]) == 2 for one in told["changes"])
    west, north, east, south = told["changes"][0]["box"]
    assert 0 <= west < east <= told["map"]["width"] and 0 <= north < south <= told["map"]["height"]


@pytest.mark.slow
def test_pages_are_made_again_only_where_the_report_is_newer_or_scenes_are_there(batch, tmp_path):
    made, _ = batch()
    folder = ArchiveFolder(tmp_path / "out")
    assert not folder.page.exists()
    pages = {pair: folder.report(pair).with_name("changes.html") for pair in made.pairs}
    assert batch("--html")[1][0] == 0 and all(page.is_file() for page in pages.values())
    first, second, third, *_ = made.pairs
    old = {pair: page.stat().st_mtime_ns for pair, page in pages.items()}
    os.utime(folder.report(first), ns=(2**62, 2**62))
    os.utime(folder.report(second), ns=(2**62, 2**62))
    made.before(second).unlink()
    _, (code, _, err) = batch("--html")
    new = {pair: page.stat().st_mtime_ns for pair, page in pages.items()}
    assert {pair for pair in made.pairs if new[pair] != old[pair]} == {first}
    assert code == 0 and second in err and folder.page.is_file()
    for name in ("changes.html", THUMBNAILS):
        folder.report(third).with_name(name).unlink()
        assert batch("--html")[1][0] == 0 and folder.report(third).with_name(name).is_file()


def test_the_largest_changes_are_listed_and_the_rest_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(overview, "MOST", 5)
    told = made_archive_page(tmp_path, usual_rows()).data
    assert told["changes_in_all"] == 12
    assert [one["area_m2"] for one in told["changes"]] == [600, 500, 400, 400, 300]


@pytest.mark.parametrize(
    "hostile",
    [b"", b"[1]", b'{"1": ["<img src=x>", "a"]}', b'{"1": ["a"]}', b'{"1": [1, 2]}', b'{"1": "ab"}'],
)
def test_thumbnails_that_are_none_are_left_out(tmp_path, hostile):
    made = made_archive_page(tmp_path, usual_rows())
    (made.folder / "pairs" / "p0" / "thumbnails.json").write_bytes(hostile)
    assert all(one["dates"] == [] for one in page_of(made.folder).data["changes"])


def test_thumbnails_end_where_they_would_fill_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(overview, "_THUMBNAILS", 2_000)
    made = made_archive_page(tmp_path, usual_rows())
    for pair in ("p0", "p2", "p3"):
        content = {str(n): ["a" * 400] * 2 for n in range(1, 7)}
        (made.folder / "pairs" / pair / "thumbnails.json").write_text(json.dumps(content))
    dates = [bool(one["dates"]) for one in page_of(made.folder).data["changes"]]
    assert dates == [True, True, *[False] * 10]
