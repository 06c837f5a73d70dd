"""Damaged tables, STAC documents, options, ledgers and reports: one line of ours, or a right value."""

from __future__ import annotations

import hashlib
import json
import math
import random

import pytest
from archive_rows import change, fill, install, new_claim, pair_state, report
from damage import VALUES, damaged_bytes, damaged_json, fuzzed, mutated, ours_only
from fuzz_bases import _report, _stac, _table
from hypothesis import given
from hypothesis import strategies as st
from shapely.geometry import box, mapping

from workflows.archive.layers.layers import write_layers
from workflows.archive.reasons import failure_reasons
from workflows.archive.state import read_state
from workflows.archive.status import archive_status
from workflows.cli.status import reasons_text, status_text
from workflows.options import ExplainOptions, SceneOptions
from workflows.pairs.options import CatalogOptions
from workflows.pairs.rows import PairRow
from workflows.pairs.sources import read_catalog
from workflows.pairs.table import read_pairs
from workflows.report.reading import open_report
from workflows.report.scenes import find_scenes, recorded_options

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module", params=["csv", "parquet"])
def table(request, place):
    base = _table(place, request.param)
    return base.folder / base.mutable[0]


@fuzzed
@given(data=st.data())
def test_tables(table, data):
    sound = table.with_name(f"sound{table.suffix}")
    if not sound.exists():
        sound.write_bytes(table.read_bytes())
    table.write_bytes(data.draw(damaged_bytes(sound.read_bytes())))
    with ours_only():
        for row in read_pairs(table):
            assert row.pair and row.before and row.after


@pytest.fixture(scope="module")
def stac(place):
    folder = _stac(place).folder
    return folder, json.loads((folder / "s2019.json").read_text())


@fuzzed
@given(data=st.data())
def test_stac_items(stac, data):
    folder, item = stac
    content = data.draw(damaged_json(item) | damaged_bytes(json.dumps(item).encode()))
    (folder / "s2019.json").write_bytes(content)
    with ours_only():
        catalog = read_catalog([str(folder / "catalog.json")], CatalogOptions())
        assert all(line.line is None or line.line.encode() for line in catalog.skipped)


NUMBERS = st.integers() | st.floats() | st.text(max_size=12)
OF_ONE_TEXT = ("bands", "bounds", "memory", "pixel", "at", "scale")


@given(texts=st.lists(NUMBERS.map(str), max_size=5), end=st.sampled_from(["", "GB", "k", "MiB"]))
def test_texts_of_options(texts, end):
    for name in OF_ONE_TEXT:
        with ours_only():
            ExplainOptions.read({name: ",".join(texts) + end})


@given(data=st.data(), kind=st.sampled_from([SceneOptions, ExplainOptions]))
def test_values_of_options(data, kind):
    """Whatever passes is a number that can be worked with."""
    names = ("gsd", "threshold", "min_area", "batch_size", "group_distance", "memory", "overlap")
    for name in names:
        with ours_only():
            number = data.draw(st.integers() | st.floats())
            kind(**{name: number})
            assert math.isfinite(number) and abs(number) <= 2**60


@pytest.fixture(scope="module")
def filled(place):
    rows = {PairRow(f"p{n}", "/s/b.tif", "/s/a.tif"): report() if n % 2 else "no raster" for n in range(20)}
    folder = fill(place / "filled", rows)
    return folder, {path: path.read_bytes() for path in (folder.index, folder.failure("p0"))}


@fuzzed
@given(seeds=st.tuples(st.integers(0, 2**32), st.integers(0, 2**32)))
def test_damaged_indexes_and_failures_leave_the_state_of_the_folders(filled, seeds):
    folder, sound = filled
    for (path, content), seed in zip(sound.items(), seeds, strict=True):
        path.write_bytes(mutated(content, random.Random(seed)))
    with ours_only():
        status_text(folder.path, archive_status(folder.path))
        with read_state(folder.path) as state:
            reasons_text(failure_reasons(state.index.rows("failed")))
            assert len(state.index.names("done")) == 10
            state.index.get("/x")


@fuzzed
@given(seed=st.integers(0, 2**32))
def test_an_index_that_somebody_forged(filled, seed):
    folder, sound = filled
    forged = mutated(sound[folder.index][:-32], random.Random(seed))
    folder.index.write_bytes(forged + hashlib.sha256(forged).digest())
    with ours_only():
        status_text(folder.path, archive_status(folder.path))
        with read_state(folder.path) as state:
            reasons_text(failure_reasons(state.index.rows("failed")))
            list(state.index.rows())
            state.index.select("SELECT * FROM pairs")
            state.index.get("/x")


@pytest.fixture(scope="module")
def written(place):
    base = _report(place)
    return base.folder / base.mutable[0], json.loads((base.folder / base.mutable[0]).read_text())


@fuzzed
@given(data=st.data())
def test_reports_that_are_explained(written, data):
    file, sound = written
    file.write_bytes(data.draw(damaged_json(sound) | damaged_bytes(json.dumps(sound).encode())))
    with ours_only():
        read = open_report(file)
        recorded_options(read)
        find_scenes(read)


@pytest.fixture(scope="module", params=[".gpkg", ".parquet"])
def layer(place, written, request):
    _, sound = written
    (place / "sound.geojson").write_text(json.dumps(sound))
    made = open_report(place / "sound.geojson").write(place / f"layer{request.param}", overwrite=True)
    return made, made.read_bytes()


@fuzzed
@given(data=st.data())
def test_reports_in_layers_that_are_explained(layer, data):
    file, sound = layer
    file.write_bytes(data.draw(damaged_bytes(sound)))
    with ours_only():
        recorded_options(open_report(file))


@pytest.fixture(scope="module")
def archive(place):
    claim, row = new_claim(place / "archive"), pair_state("one")
    found = report(change(1), change(2, 12.6), ground=mapping(box(12, 41, 13, 42)))
    install(claim, row, found)
    return claim, row, found.to_geojson()


@fuzzed
@given(data=st.data())
def test_reports_that_are_gathered(archive, data):
    claim, row, sound = archive
    content = data.draw(damaged_json(sound) | damaged_bytes(json.dumps(sound).encode()))
    claim.folder.report("one").write_bytes(content)
    with ours_only():
        write_layers(claim, lambda: [row])


@given(value=VALUES)
def test_values_for_fuzzing_are_json(value):
    json.dumps(value)
