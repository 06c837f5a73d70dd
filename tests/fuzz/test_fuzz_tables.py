"""Damaged tables, STAC documents, options, ledgers and reports: one line of ours, or a right value."""

from __future__ import annotations

import json
import math

import pytest
from archive_rows import change, failed_row, install, ledger_row, report
from damage import VALUES, damaged_bytes, damaged_json, fuzzed, ours_only
from fuzz_bases import _report, _stac, _table
from hypothesis import given
from hypothesis import strategies as st

from workflows.archive.status import archive_status, failure_reasons
from workflows.cli.options import READERS
from workflows.cli.status import as_text, reasons_text
from workflows.inspection.event import read_event, read_report
from workflows.layers.layers import write_layers
from workflows.options import ExplainOptions, SceneOptions
from workflows.pairs.options import CatalogOptions
from workflows.pairs.sources import read_catalog
from workflows.pairs.table import read_pairs
from workflows.store.folder import ArchiveFolder
from workflows.store.identity import Stored
from workflows.store.ledger import Ledger

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
            READERS[name](",".join(texts) + end)


@given(data=st.data(), kind=st.sampled_from([SceneOptions, ExplainOptions]))
def test_values_of_options(data, kind):
    """Whatever passes is a number that can be worked with."""
    names = ("gsd", "threshold", "min_area", "batch_size", "beams", "group_distance", "memory", "overlap")
    for name in names:
        with ours_only():
            number = data.draw(st.integers() | st.floats())
            kind(**{name: number})
            assert math.isfinite(number) and abs(number) <= 2**60


@pytest.fixture(scope="module")
def ledger(place):
    folder = place / "ledger"
    folder.mkdir()
    with Ledger.open(folder) as written:
        rows = [ledger_row(f"p{number}", warnings=("a warning",)) for number in range(20)]
        written.replace([*rows, *(failed_row(f"q{number}") for number in range(20))])
        written.keep_files({"/x": Stored(1, 2, False, b"abc", ("a", "b"))})
    return folder, (folder / "ledger.sqlite").read_bytes()


@fuzzed
@given(data=st.data())
def test_ledgers(ledger, data):
    folder, sound = ledger
    for file in folder.iterdir():
        file.unlink()
    (folder / "ledger.sqlite").write_bytes(data.draw(damaged_bytes(sound)))
    with ours_only():
        as_text(folder, archive_status(folder))
        reasons_text(failure_reasons(folder))
        with Ledger.reader(folder) as reader:
            list(reader.rows())
            dict(reader.files().all())
            reader.files().get("/x")


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
        event = read_event(file, 1)
        event.options()
        list(event.others())
        event.scenes()


@pytest.fixture(scope="module", params=[".gpkg", ".parquet"])
def layer(place, written, request):
    _, sound = written
    (place / "sound.geojson").write_text(json.dumps(sound))
    made = read_report(place / "sound.geojson").write(place / f"layer{request.param}", overwrite=True)
    return made, made.read_bytes()


@fuzzed
@given(data=st.data())
def test_reports_in_layers_that_are_explained(layer, data):
    file, sound = layer
    file.write_bytes(data.draw(damaged_bytes(sound)))
    with ours_only():
        read_event(file, 1).options()


@pytest.fixture(scope="module")
def archive(place):
    folder = ArchiveFolder(place / "archive", durable=False)
    folder.create()
    row = ledger_row("one")
    found = report(change(1), change(2, 12.6), ground={"type": "Point", "coordinates": [1, 2]})
    install(folder, row, found)
    return folder, row, found.to_geojson()


@fuzzed
@given(data=st.data())
def test_reports_that_are_gathered(archive, data):
    folder, row, sound = archive
    content = data.draw(damaged_json(sound) | damaged_bytes(json.dumps(sound).encode()))
    (folder.pair_folder("one") / "changes.geojson").write_bytes(content)
    with ours_only():
        write_layers(folder, lambda: [row])


@given(value=VALUES)
def test_values_for_fuzzing_are_json(value):
    json.dumps(value)
