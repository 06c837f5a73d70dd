"""``rscc merge``: shards that were really worked through, and what the command says of them."""

from __future__ import annotations

import json

import geopandas
import pystac
import pytest
from archive_pairs import contents, make_archive
from archive_runs import run
from command_here import exit_code
from inline_engine import InlineEngine


def merge(*arguments) -> int:
    return exit_code("merge", *arguments)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_archive(tmp_path_factory.mktemp("pairs"), 9, each=1, breakages=("missing", "text"))


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return make_archive(tmp_path_factory.mktemp("sound"), 6, seed=1)


@pytest.mark.slow
def test_merged_shards_are_the_archive_of_one_run(made, tmp_path, capsys):
    whole, out = tmp_path / "whole", tmp_path / "merged"
    run(made, whole, InlineEngine())
    for number in (2, 3, 1):
        run(made, out, InlineEngine(), shard=(number, 3))
    assert merge(out, "--remove-shards") == 3
    assert contents(out) == contents(whole)
    said = capsys.readouterr().out
    assert "3 shards: 7 of 9 pairs done" in said
    assert "failed  2 (rscc status" in said and "shards  removed" in said
    begun = run(made, out, InlineEngine())
    assert (begun.skipped_as_done, begun.done, begun.failed) == (7, 7, 2)
    assert contents(out) == contents(whole)


@pytest.mark.slow
@pytest.mark.usefixtures("core_schemas")
def test_what_was_merged_is_sound_stac_with_places(made, tmp_path):
    pytest.importorskip("jsonschema", reason="pystac validates with jsonschema")
    out = tmp_path / "out"
    for number in (1, 2):
        run(made, out, InlineEngine(), shard=(number, 2))
    merge(out)
    catalog = pystac.Catalog.from_file(str(out / "catalog.json"))
    assert catalog.validate_all() == 7
    for item in catalog.get_items():
        assert item.geometry is not None
        assert item.properties["start_datetime"] == "2019-05-01T00:00:00Z"
        assert item.properties["end_datetime"] == "2021-12-31T23:59:59Z"
    pairs = geopandas.read_file(out / "changes.gpkg", layer="pairs").set_index("pair")
    assert pairs.geometry[pairs.state == "done"].notna().all()
    changes = geopandas.read_file(out / "changes.gpkg", layer="changes")
    assert len(changes) == pairs.changes.sum() > 0
    for change in changes.itertuples():
        assert pairs.geometry[change.pair].buffer(1e-6).contains(change.geometry)


def test_all_done_is_exit_code_0(sound, tmp_path, capsys):
    for number in (1, 2):
        run(sound, tmp_path / "out", InlineEngine(), shard=(number, 2))
    assert merge(tmp_path / "out", "--json") == 0
    streams = capsys.readouterr()
    found = json.loads(streams.out)
    assert (found["shards"], found["pairs"], found["done"], found["failed"]) == (2, 6, 6, 0)
    assert found["archive"] == str(tmp_path / "out") and not found["removed"]
    assert "2 shards: 6 of 6 pairs done" in streams.err
    assert merge(tmp_path / "out", "--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_shards_that_are_not_finished_are_one_line_and_exit_code_1(sound, tmp_path, capsys):
    out = tmp_path / "out"
    run(sound, out, InlineEngine(), shard=(2, 12))
    assert merge(out, "--remove-shards") == 1
    line = capsys.readouterr().err
    assert line == (
        f"rscc: error: {out}: shards 1, 3, 4, 5, 6, 7, 8, 9 and 3 more of the 12 are missing; "
        "run them, then merge again\n"
    )
    assert not (out / "changes.gpkg").exists() and (out / "shards" / "2-of-12").is_dir()
