"""The layers of an archive: what is in them, the same bytes each time, whole or not at all."""

import csv
import json
import time
from pathlib import Path

import geopandas
import numpy as np
import pyarrow.parquet as pq
import pytest
import shapely
import stored
from archive_rows import change, failed_state, install, new_claim, pair_state, report
from damage import kill
from shapely.geometry import MultiPolygon, box, mapping
from stored import assert_as_stored

from workflows.archive.claim import Claim
from workflows.archive.folder import ArchiveFolder
from workflows.archive.layers.layers import write_layers
from workflows.errors import ReportInvalid, ReportsDamaged
from workflows.report.reading import open_report

NASTY = "a \"quoted\" house,\nwith a new line; <b>São Paulo</b> 北京 🏠 '=1+1'"
CUT = MultiPolygon([box(179.9, -1, 180, 1), box(-180, -1, -179.8, 1)])
# Rows are numbered in the order of the table, which is not that of their names.
PAIRS = {
    "z": (pair_state("z", site="=SUM(A1)", changes=2), report(change(1), change(2, 12.6))),
    "none": (pair_state("none", changes=0, area_m2=0.0), report(ground=mapping(box(10, 40, 11, 41)))),
    "broken": (failed_state("broken", footprint=shapely.to_wkb(box(5, 5, 6, 6))), None),
    "nasty": (
        pair_state("nasty", site="Zürich"),
        report(
            change(
                caption=NASTY,
                alternatives=(NASTY, ""),
                count=7,
                came=("building", "road"),
                median_m2=90.5,
                changed_m2=80.5,
                changed_back_m2=9.5,
                changed_at_least=True,
                caption_confident=False,
            )
        ),
    ),
    "far": (pair_state("far"), report(change(geometry=CUT, date_before=None), dates=(None, "2020"))),
    "later": (pair_state("later", "pending"), None),
    "gone": (pair_state("gone", number=None), report(change())),
}
# As the index gives them: without those that the table does not have.
ROWS = [row for row, _ in PAIRS.values() if row.number is not None]


def installed(path, pairs=PAIRS, rows=None) -> Claim:
    """An archive with the reports of ``pairs`` and, where there are ``rows``, the layers of those."""
    claim = new_claim(path)
    for row, content in pairs.values():
        if content is not None:
            install(claim, row, content)
    if rows is not None:
        write_layers(claim, lambda: rows)
    claim.tidy()
    return claim


def contents(claim: Claim) -> dict[str, bytes]:
    return {layer.name: layer.read_bytes() for layer in claim.folder.layers}


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> ArchiveFolder:
    return installed(tmp_path_factory.mktemp("layers") / "archive", rows=ROWS).folder


def test_layers_are_as_stored(archive):
    assert_as_stored("layers", stored.contents(archive.path), archive.path)


def test_every_change_of_pairs_that_are_done_is_there_in_order(archive):
    changes = geopandas.read_parquet(archive.parquet)
    assert list(changes.pair) == ["z", "z", "nasty", "far"]
    assert list(changes.id) == [1, 2, 1, 1]
    assert list(changes.site.fillna("")) == ["=SUM(A1)", "=SUM(A1)", "Zürich", ""]
    nasty = changes[changes.pair == "nasty"].iloc[0]
    assert (nasty.caption, list(nasty.alternatives)) == (NASTY, [NASTY, ""])
    done = [change for name in ("z", "nasty", "far") for change in PAIRS[name][1].changes]
    assert list(changes.area_m2) == [one.area_m2 for one in done]
    assert changes.date_before.isna().tolist() == [False, False, False, True]
    assert (changes.geom_type == "MultiPolygon").all()
    assert changes.geometry.iloc[3].equals(CUT)
    assert not archive.work.exists()


def test_the_parquet_file_is_geoparquet_with_boxes(archive):
    with pq.ParquetFile(archive.parquet) as file:
        metadata = file.metadata.metadata
        boxes = file.read(["bbox"]).column("bbox").to_pylist()
    geo = json.loads(metadata[b"geo"])
    assert geo["version"] == "1.1.0"
    column = geo["columns"][geo["primary_column"]]
    assert column["geometry_types"] == ["MultiPolygon"]
    assert column["bbox"] == pytest.approx([-180, -1, 180, change().geometry.bounds[3]], abs=1e-7)
    assert column["covering"]["bbox"]["xmin"] == ["bbox", "xmin"]
    expected = dict(zip(("xmin", "ymin", "xmax", "ymax"), change().geometry.bounds, strict=True))
    assert boxes[0] == pytest.approx(expected, abs=1e-7)
    record = json.loads(metadata[b"rscc"])
    assert record["settings"] == {"threshold": 0.5}
    assert record["model"]["weights_sha256"] == "0" * 64
    near = geopandas.read_parquet(archive.parquet, bbox=(12.4, 41, 12.55, 42))
    assert list(near.pair) == ["z", "nasty"]


def test_the_geopackage_has_the_pairs_and_their_states(archive):
    found = geopandas.read_file(archive.geopackage, layer="pairs").set_index("pair")
    assert list(found.index) == ["z", "none", "broken", "nasty", "far", "later"]
    assert found.state.to_dict() == {
        "z": "done", "none": "done", "broken": "failed", "nasty": "done", "far": "done", "later": "pending",
    }  # fmt: skip
    assert found.line.dropna().to_dict() == {"broken": "broken.tif: no raster"}
    assert found.geometry["none"].equals(box(10, 40, 11, 41))
    assert found.geometry["broken"].equals(box(5, 5, 6, 6))
    assert found.geometry["far"].equals(CUT)
    assert found.geometry["later"] is None
    assert found.date_after["z"] == "2020", "dates that the run found are told"
    assert found.changes["none"] == 0 and np.isnan(found.changes["broken"])


def test_the_summary_tells_of_every_pair(archive):
    with archive.summary.open(encoding="utf-8", newline="") as file:
        rows = {row["pair"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["z", "none", "broken", "nasty", "far", "later"]
    assert rows["z"] == {
        "pair": "z", "site": "'=SUM(A1)", "state": "done", "date_before": "", "date_after": "",
        "before": "/scenes/before.tif", "after": "/scenes/after.tif", "changes": "2", "area_m2": "100.00",
        "tiles": "4", "seconds": "1.25", "kind": "", "error": "", "line": "",
    }  # fmt: skip
    failure = [rows["broken"][name] for name in ("kind", "error", "line")]
    assert failure == ["refused", "SceneUnreadable", "broken.tif: no raster"]
    assert rows["none"]["changes"] == "0" and rows["broken"]["changes"] == ""


def test_no_cell_of_the_summary_is_calculated(tmp_path):
    texts = ("=1+1", "+1", "-1", "@x", "\tx", "\rx", 'say "no",\n=1', "a;=cmd()", "a; +1")
    failed = [failed_state(f"p{n}", line=text, site=text) for n, text in enumerate(texts)]
    folder = installed(tmp_path / "archive", {}, failed).folder
    with folder.summary.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row, text in zip(rows, texts, strict=True):
        for cell in (row["line"], row["site"]):
            assert cell.replace("'", "").strip() == " ".join(text.split())
            for part in cell.split(";"):
                assert not part.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r"))


@pytest.mark.slow
def test_the_same_pairs_make_the_same_bytes_at_any_time(archive, tmp_path):
    time.sleep(1.1)
    others = {name: PAIRS[name] for name in reversed(PAIRS)}
    second = installed(tmp_path / "second", others, ROWS)
    assert contents(second) == {layer.name: layer.read_bytes() for layer in archive.layers}


@pytest.mark.parametrize("layer", ["parquet", "geopackage", "summary", "catalog"])
def test_a_layer_that_was_removed_is_made_again(tmp_path, layer):
    claim = installed(tmp_path / "archive", rows=ROWS)
    before = contents(claim)
    made_of = write_layers(claim, lambda: ROWS)
    getattr(claim.folder, layer).unlink()
    write_layers(claim, lambda: ROWS, made_of=made_of)
    assert contents(claim) == before


@pytest.mark.parametrize(
    "row",
    [
        pair_state("z", site="other", changes=2),
        pair_state("z", site="=SUM(A1)", changes=2, key="other"),
        failed_state("z"),
        pair_state("z", site="=SUM(A1)", changes=2, footprint=shapely.to_wkb(box(0, 0, 1, 1))),
    ],
)
def test_another_row_makes_other_layers(tmp_path, row):
    claim = installed(tmp_path / "archive")
    made_of = write_layers(claim, lambda: ROWS)
    before = {layer: layer.stat().st_mtime_ns for layer in claim.folder.layers}
    assert write_layers(claim, lambda: ROWS, made_of=made_of) == made_of
    assert all(layer.stat().st_mtime_ns == time for layer, time in before.items())
    assert write_layers(claim, lambda: [row, *ROWS[1:]], made_of=made_of) != made_of
    assert all(layer.stat().st_mtime_ns != time for layer, time in before.items())


def test_an_archive_where_nothing_changed_has_its_layers(tmp_path):
    folder = installed(tmp_path / "archive", {"none": PAIRS["none"]}, [ROWS[1]]).folder
    one = geopandas.read_parquet(folder.parquet)
    two = geopandas.read_file(folder.geopackage, layer="changes")
    assert len(one) == len(two) == 0
    assert set(one.columns) - {"bbox"} == set(two.columns)
    assert len(geopandas.read_file(folder.geopackage, layer="pairs")) == 1


@pytest.mark.parametrize("content", [None, b"", b'{"features": [', b"[]", b'{"features": []}'])
def test_reports_that_are_lost_are_named(tmp_path, content):
    claim = installed(tmp_path / "archive", rows=ROWS)
    before = contents(claim)
    for pair in ("nasty", "far"):
        path = claim.folder.report(pair)
        path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(ReportsDamaged) as caught:
        write_layers(claim, lambda: ROWS)
    assert (caught.value.pairs, caught.value.exit_code) == (["nasty", "far"], 1)
    assert contents(claim) == before


def tamper(report, path: str, value) -> None:
    """Set one member, named with dots, of a report."""
    *parents, last = (int(name) if name.isdecimal() else name for name in path.split("."))
    for name in parents:
        report = report[name]
    report[last] = value


TAMPERED = (
        ("features", 3), ("features.0", None), ("features.0.properties", []),
        ("features.0.properties.id", 10**30), ("features.0.properties.count", 1.5),
        ("features.0.properties.caption", "\ud800"), ("features.0.properties.alternatives", [["deep"]]),
        ("features.0.properties.area_m2", 10**400), ("features.0.geometry", None),
        ("features.0.geometry", {"type": "Point", "coordinates": [1, 2]}),
        ("features.0.geometry", {"type": "Polygon", "coordinates": [[[0, 0], [1e400, 1], [1, 0], [0, 0]]]}),
        ("rscc", None), ("rscc.inputs", []), ("rscc.inputs.before", {"date": "soon"}),
        ("rscc.inputs.after.date", []), ("rscc.inputs.after.date", ""),
        ("rscc.ground", {"type": "Nowhere"}),
)  # fmt: skip


@pytest.fixture(scope="module")
def tampered(tmp_path_factory) -> Claim:
    return installed(tmp_path_factory.mktemp("tampered") / "archive", rows=ROWS)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "value"), TAMPERED)
def test_reports_that_somebody_tampered_with_are_named(archive, tampered, path, value):
    report = json.loads(PAIRS["nasty"][1].encoded())
    tamper(report, path, value)
    tampered.folder.report("nasty").write_text(json.dumps(report))
    with pytest.raises(ReportsDamaged) as caught:
        write_layers(tampered, lambda: ROWS)
    assert caught.value.pairs == ["nasty"]
    assert contents(tampered) == {layer.name: layer.read_bytes() for layer in archive.layers}


@pytest.mark.slow
@pytest.mark.parametrize("step", ["replace", "unlink", "mkdir", "fsync"])
def test_after_a_kill_at_any_step_the_next_run_writes_the_layers(archive, tmp_path, step):
    new = {layer.name: layer.read_bytes() for layer in archive.layers}
    claim = installed(tmp_path / "archive", rows=ROWS[:1])
    for last in range(1, 10):
        is_killed = kill(last, lambda: write_layers(claim, lambda: ROWS), [step])
        claim.recover()
        write_layers(claim, lambda: ROWS)
        assert contents(claim) == new
        write_layers(claim, lambda: ROWS[:1])
        if not is_killed:
            break
    assert 1 < last < 9


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_layers_and_says_so(tmp_path, run_python):
    claim = installed(tmp_path / "archive", rows=ROWS[:1])
    before = contents(claim)
    for most in (2_000, 100_000):
        assert "archive" in run_python(
            FULL.format(tests=Path(__file__).parent, archive=claim.folder.path, most=most)
        )
        assert contents(claim) == before


# Files that may not grow are what a full disk is to those who write.
FULL = """
import json, resource, signal, sys
sys.path[:0] = ["{tests}", "{tests}/../../support"]
from test_layers import ROWS
from archive_rows import new_claim
from workflows.archive.layers.layers import write_layers
from workflows.errors import OutputNotWritable
claim = new_claim(__import__("pathlib").Path("{archive}"))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))
try:
    write_layers(claim, lambda: ROWS)
except OutputNotWritable as error:
    print(json.dumps(str(error)))
"""


@pytest.mark.parametrize("name", ["changes.gpkg", "changes.parquet"])
def test_a_layer_of_an_archive_is_not_taken_for_a_damaged_report(tmp_path, name):
    folder = installed(tmp_path / "archive", rows=ROWS).folder
    with pytest.raises(ReportInvalid):
        open_report(folder.path / name)
