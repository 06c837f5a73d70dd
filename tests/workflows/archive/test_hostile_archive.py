"""Archives of strangers: pipes, endless devices, links and holes of terabytes where rscc keeps its files."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest
from archive_rows import change, fill, report

from rscc.errors import RsccError
from tiling import TilingError
from workflows.archive.archive import Archive, ArchiveOptions
from workflows.archive.folder import REPORT, ArchiveFolder
from workflows.archive.overview import archive_overview
from workflows.archive.status import archive_status
from workflows.archive.verify import Verifier
from workflows.errors import WorkflowError
from workflows.pairs.rows import PairRow

OURS = [
    "rscc-archive.json", "index.sqlite", "run.json", "runs/1-1-of-1.json", "failed/lost.json", "summary.csv",
    "catalog.json", "changes.parquet", "changes.gpkg", "pairs/one/changes.geojson", "pairs/one/item.json",
    "pairs/one/changes.html", "claims/1-of-1.lock", "claims/layers.lock",
]  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "archive"
    rows = {PairRow("one", "/a.tif", "/b.tif"): report(change()), PairRow("lost", "/c.tif", "/d.tif"): "bad"}
    folder = fill(path, rows)
    with Archive.open(folder) as archive:
        archive.write_layers(None)
    return path


@pytest.mark.parametrize("kind", ["pipe", "device", "holes", "folder", "link"])
@pytest.mark.parametrize("name", OURS)
def test_nothing_waits_or_takes_memory_and_nothing_outside_is_touched(sound, tmp_path, name, kind):
    path, outside = tmp_path / "archive", tmp_path / "mine"
    shutil.copytree(sound, path)
    outside.write_text("mine")
    place = path / name
    place.unlink(missing_ok=True)
    place.parent.mkdir(exist_ok=True)
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "holes":
        with place.open("wb") as file:
            file.truncate(2**40)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to("/dev/zero" if kind == "device" else outside)

    def use():
        for action in (archive_status, partial(archive_overview, page=tmp_path / "page.html"), verify, work):
            with suppress(WorkflowError, TilingError, RsccError):
                action(path)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(use).result(60)
    assert outside.read_text() == "mine"


def test_no_link_among_the_pairs_is_followed(sound, tmp_path):
    path, outside = tmp_path / "archive", tmp_path / "outside"
    shutil.copytree(sound, path)
    shutil.copytree(path / "pairs" / "one", outside)
    (path / "pairs" / "linked").symlink_to(outside)
    (path / "pairs" / "loop").symlink_to(path)
    (path / "pairs" / "up").symlink_to("..")
    assert archive_status(path).counts.done == 1
    assert [one.path.parent.name for one in Verifier().verify(path) if one.path.name == REPORT] == ["one"]
    work(path)
    assert sorted(place.name for place in outside.iterdir()) == [
        "changes.geojson",
        "changes.qml",
        "item.json",
    ]


def verify(path):
    list(Verifier().verify(path))


def work(path):
    with Archive.open(ArchiveFolder(path), ArchiveOptions(overwrite=True)) as archive:
        row = archive.index.one("one")
        if row is not None:
            archive.install(row, report(change()).encoded())
        archive.write_layers(None)
